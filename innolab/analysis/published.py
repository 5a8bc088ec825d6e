"""The figures that a study's sources published, one a row of its file."""

import csv
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from innolab.analysis.claims import Claim
from innolab.base.errors import InputError


class Published(NamedTuple):
    """One row of a study's published figures; `pass_` and `note` where the study has them."""

    id: str
    case: str
    series: str
    pass_: str
    quantity: str
    value: float
    unit: str
    stands: str
    seed: str
    where: str
    note: str = ""


@cache
def published_of(path: Path) -> dict[str, Published]:
    """Return published figures by id, from a CSV file; none if there is no file."""
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {
        row["id"]: Published(
            pass_=row.pop("pass", ""),
            **{**row, "value": float(row["value"])},  # type: ignore[arg-type]
        )
        for row in rows
    }


def published_value(figures: Mapping[str, Published], claim: Claim) -> float | None:
    """Return the published value of what a claim is about: a number or a ratio of two figures.

    Raises
    ------
    InputError
        Where it names a figure that is not there.
    """
    source = claim.published
    if source is None:
        return None
    if "value" in source:
        return float(source["value"])
    named = [str(source[part]) for part in ("of", "to") if part in source]
    if not named or (unknown := [name for name in named if name not in figures]):
        which = f"'{unknown[0]}'" if named else "that it names"
        raise InputError(f"{claim.id}: there is no published figure {which}.")
    of, *to = (figures[name].value for name in named)
    return of / to[0] if to else of
