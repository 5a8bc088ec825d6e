"""What the columns of a figure's values mean, and their units, as a Data Package says it."""

from typing import TYPE_CHECKING, Any

from innolab.base import spreadsheet
from innolab.studies.study import Study

if TYPE_CHECKING:
    import pandas as pd

_KNOWN = {
    "kind": "run: a single run; mean: of the runs with the same levels; modelled: by a model",
    "block": "the pass over all arms that the run is of",
    "trial": "the run's place in the plan",
    "n": "how many runs the mean is of",
    "published": "the value that was published",
}
_ENDS = {"low": "lower", "high": "upper"}
_IN_NOTEBOOK = "computed in the study's notebook"


def columns(values: "pd.DataFrame", study: Study, parameters: Any) -> list[dict[str, str]]:
    """Return a field a column: name, type, description, and a unit where the study declares one.

    Units are those of the study's metrics; the ends of an interval have that of the column before
    them.
    """
    factors = {"server", *study.factors(parameters), *study.kind.within}
    names = [str(name) for name in values.columns]
    before = names[names.index("low") - 1] if "low" in names[1:] else None
    return [
        {
            "name": spreadsheet.guarded(name),
            "type": _type(values[name]),
            **_meaning(name, before, study, factors),
        }
        for name in names
    ]


def data_package(
    name: str, title: str, fields: list[dict[str, str]], licence: str, source: str
) -> dict[str, Any]:
    """Return the description of NAME.csv, in the form of a Frictionless Data Package."""
    resource = {
        "name": name,
        "path": f"{name}.csv",
        "format": "csv",
        "encoding": "utf-8",
        "schema": {"fields": fields, "missingValues": [""]},
    }
    return {
        "name": name,
        "title": title,
        "licenses": [{"name": licence}],
        "sources": [{"title": source}],
        "resources": [resource],
    }


def _meaning(name: str, before: str | None, study: Study, factors: set[str]) -> dict[str, str]:
    if name in study.kind.metrics:
        return {"description": "a metric of the study", "unit": study.kind.units[name]}
    if name in _ENDS and before:
        of = f"the {_ENDS[name]} end of the 95 % interval of {before}"
        unit = study.kind.units.get(before)
        return {"description": of, **({"unit": unit} if unit else {})}
    if name in _KNOWN:
        return {"description": _KNOWN[name]}
    return {"description": "a level of a factor" if name in factors else _IN_NOTEBOOK}


def _type(values: "pd.Series[Any]") -> str:
    from pandas.api import types

    if types.is_bool_dtype(values):
        return "boolean"
    if not types.is_numeric_dtype(values):
        return "string"
    known = values.dropna()
    return "integer" if len(known) and (known % 1 == 0).all() else "number"
