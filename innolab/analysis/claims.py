"""Published figures and claims as data: read, checked against their study, one entry each."""

import csv
import datetime
import hashlib
import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from innolab.base import parsing
from innolab.base.errors import InnolabError, InputError
from innolab.record.run import Level

Where = dict[str, Level]
# A factor's levels in their order, or by the names that claims may use for them.
Levels = Sequence[Level] | Mapping[str, Level]


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


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Holds(_Part):
    """The values of the estimate for which a claim is true.

    A `margin` is for "no slower": the claim is true up to a bound that it widens by this share, as
    no measurement shows that two equal arms do not differ at all.

    Attributes
    ----------
    at_least, at_most : the bounds
    about_published : how far from the published value, as a share of it, in both directions
    margin : how much wider the bounds are, as a share
    """

    at_least: float | None = None
    at_most: float | None = None
    about_published: float | None = None
    margin: float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _margin_of_bounds(self) -> "Holds":
        ends = [end for end in (self.at_least, self.at_most) if end is not None]
        if self.margin is not None and (not ends or min(ends) <= 0):
            raise ValueError("has a margin, which needs a positive at_least or at_most")
        return self

    def stated(self, published: float | None) -> tuple[float, float]:
        """Return the lowest and the highest value for which the claim is true by its own words."""
        if self.about_published is not None:
            if published is None:
                raise InnolabError("A claim about a published value names none.")
            width = 1 + self.about_published
            return published / width, published * width
        low = -math.inf if self.at_least is None else self.at_least
        return low, math.inf if self.at_most is None else self.at_most

    def bounds(self, published: float | None) -> tuple[float, float]:
        """Return the lowest and the highest value for which the claim is true, margin included.

        >>> Holds(at_most=1.0, margin=0.05).bounds(None)
        (-inf, 1.05)
        """
        low, high = self.stated(published)
        width = 1 + (self.margin or 0.0)
        return low / width, high * width


class Comparison(_Part):
    """A metric of one arm over that of another, paired by block.

    Attributes
    ----------
    metric : a metric of the study
    of, to : the levels of either arm
    """

    metric: str
    of: Where = Field(default_factory=dict)
    to: Where = Field(default_factory=dict)


class Quantity(_Part):
    """A metric of one arm.

    `censored_by` names a metric beside it: where that is 0, the value is only the least that the
    true one can be, as the last row of a curve is for a knee that it does not show.

    Attributes
    ----------
    metric : a metric of the study
    of : the levels of the arm
    censored_by : a metric that is 0 where the value is only the least that the true one can be
    """

    metric: str
    of: Where = Field(default_factory=dict)
    censored_by: str | None = None


class Proportion(_Part):
    """The share of the runs of one arm in which a metric is above 0.

    Attributes
    ----------
    metric : a metric of the study
    of : the levels of the arm
    """

    metric: str
    of: Where = Field(default_factory=dict)


class Largest(_Part):
    """The largest value of a metric over all runs of some arms.

    Attributes
    ----------
    metric : a metric of the study
    of : the levels of each arm
    """

    metric: str
    of: list[Where]


class Claim(_Part):
    """One published statement. See the head of data/claims/multi-buffer-pool.yml.

    Attributes
    ----------
    id : a short name, which starts with that of the published statement
    says : the statement as a sentence; {each} and {FACTOR} in it are filled
    stands : how its source stands by it; a hypothesis is ours
    source : what the original states, in our words, and where
    published : the published value: a number, or a figure by its id, or one to another
    compare, mean, largest, proportion : what is estimated; a claim has one of them
    where : levels that all its arms share
    holds : the values of the estimate for which it is true
    not_measured : why nothing is measured
    care : why an estimate is to be read with care, whatever the runs say
    changed : the day of the last change of what is judged, after a report had been measured
    absent : what it means where the arms ran, or could not, and no run has the metric
    """

    id: str
    says: str
    stands: Literal["published", "corrected", "retracted", "hypothesis"]
    source: str | None = None
    published: dict[str, str | float] | None = None
    compare: Comparison | None = None
    mean: Quantity | None = None
    largest: Largest | None = None
    proportion: Proportion | None = None
    where: Where = Field(default_factory=dict)
    holds: Holds | None = None
    not_measured: str | None = None
    care: str | None = None
    changed: datetime.date | None = None
    absent: str | None = None

    @model_validator(mode="after")
    def _one_measure(self) -> "Claim":
        measures = [*self._measures, self.not_measured]
        if sum(one is not None for one in measures) != 1:
            names = "compare, mean, largest, proportion and not_measured"
            raise ValueError(f"has to have one of {names}")
        if (self.holds is None) == (self.not_measured is None):
            raise ValueError("has to say when it holds, unless it is not_measured")
        if self.largest and self.holds and self.holds.model_fields_set != {"at_most"}:
            raise ValueError("is about a largest value, of which only at_most can be judged")
        return self

    @property
    def _measures(self) -> tuple[Comparison | Quantity | Largest | Proportion | None, ...]:
        return self.compare, self.mean, self.largest, self.proportion

    @property
    def measure(self) -> Comparison | Quantity | Largest | Proportion | None:
        """Return what is estimated, or None where nothing is measured."""
        return next((one for one in self._measures if one is not None), None)

    @property
    def sides(self) -> list[Where]:
        """Return the levels of each arm that it is about, those of `where` included."""
        if self.compare:
            parts = [self.compare.of, self.compare.to]
        elif self.largest:
            parts = self.largest.of
        else:
            one = self.mean or self.proportion
            parts = [one.of] if one else []
        return [{**self.where, **part} for part in parts]

    def arms_among(self, arms: Sequence[Where]) -> list[Where]:
        """Return those of some arms that it is about; none where one of its sides is not there.

        Levels of within-factors are no part of an arm.
        """
        of_sides = [[arm for arm in arms if _fits(side, arm)] for side in self.sides]
        if not all(of_sides):
            return []
        return [arm for arm in arms if any(arm in of for of in of_sides)]


def _fits(side: Where, arm: Where) -> bool:
    return all(arm.get(name, level) == level for name, level in side.items())


@cache
def published_of(path: Path) -> dict[str, Published]:
    """Return published figures by id, from a CSV file; none where there is no file."""
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
    """Return the published value of what a claim is about: a number or a ratio of two figures."""
    source = claim.published
    if source is None:
        return None
    if "value" in source:
        return float(source["value"])
    value = figures[str(source["of"])].value
    return value / figures[str(source["to"])].value if "to" in source else value


def sha256(path: Path) -> str:
    """Return the digest of a file of claims."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def claims_of(
    path: Path,
    factors: Mapping[str, Levels],
    metrics: Collection[str],
    arms: Sequence[Mapping[str, Level]],
) -> list[Claim]:
    """Return the claims of a file, each checked against its study.

    Parameters
    ----------
    factors : the levels of factors and within-factors, named or not; those of a within-factor may
        be open, as an empty list
    metrics : the names of the metrics
    arms : every arm of the study

    Raises
    ------
    InputError
        Names file and line, what is wrong there, and what is allowed.
    """
    text = path.read_text()
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        entries = yaml.safe_load(text)
        if not isinstance(entries, list) or node is None:
            raise ValueError("it holds no list of claims")
    except (yaml.YAMLError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {' '.join(str(error).split())}") from None
    found: list[Claim] = []
    for entry, at in zip(entries, node.value, strict=True):
        try:
            for body in _repeated(entry):
                claim = Claim.model_validate(_resolved(body, factors))
                _require_known(claim, factors, metrics, arms)
                found.append(claim)
        except (ValueError, TypeError, AttributeError) as error:
            says = (
                parsing.reason(error) if isinstance(error, ValueError) else "it is no claim at all"
            )
            if isinstance(error, ValidationError):
                says += f" (a claim may have: {', '.join(Claim.model_fields)}, each)"
            line = at.start_mark.line + 1
            raise InputError(f"{path}, line {line}: the claim cannot be used: {says}") from None
    return found


def _repeated(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return an entry once for each of its `each`, whose words end the id and fill {each}.

    A list gives the levels of a factor, which are the words; a mapping gives a word its levels.

    >>> each = {"load": ["x", "y"]}
    >>> [(one["id"], one["where"]) for one in _repeated({"id": "A", "says": "", "each": each})]
    [('A-x', {'load': 'x'}), ('A-y', {'load': 'y'})]
    >>> each = {"ro": {"load": "read_only"}}
    >>> [(one["id"], one["says"]) for one in _repeated({"id": "A", "says": "{each}", "each": each})]
    [('A-ro', 'ro')]
    """
    rest = {name: value for name, value in entry.items() if name != "each"}
    if "each" not in entry:
        return [rest]
    return [
        {
            **rest,
            "id": "-".join([str(rest["id"]), *(word for word, _ in chosen)]),
            "says": _filled(str(rest["says"]), chosen),
            "where": {**rest.get("where", {}), **{k: v for _, at in chosen for k, v in at.items()}},
        }
        for chosen in itertools.product(*_choices(entry["each"]))
    ]


def _filled(says: str, chosen: Sequence[tuple[str, Where]]) -> str:
    """Return a sentence with {each} as the words that were chosen, and {FACTOR} as its level."""
    filled = says.replace("{each}", ", ".join(word for word, _ in chosen))
    for _, at in chosen:
        for factor, level in at.items():
            filled = filled.replace("{" + factor + "}", str(level).replace("_", "-"))
    return filled


def _choices(each: Mapping[str, Any]) -> list[list[tuple[str, Where]]]:
    """Return what there is to choose of: each factor's levels, and the words with theirs."""
    found = [
        [(str(level), {factor: level}) for level in levels]
        for factor, levels in each.items()
        if isinstance(levels, list)
    ]
    words = [(word, dict(at)) for word, at in each.items() if not isinstance(at, list)]
    return [*found, *([words] if words else [])]


def _resolved(body: Mapping[str, Any], factors: Mapping[str, Levels]) -> dict[str, Any]:
    """Return an entry with the named levels of factors as the values that they stand for."""

    def where(at: Mapping[str, Any]) -> dict[str, Any]:
        return {name: _level(level, factors.get(name, [])) for name, level in at.items()}

    found = dict(body)
    if "where" in found:
        found["where"] = where(found["where"])
    for name in ("compare", "mean", "largest", "proportion"):
        if name in found:
            found[name] = {
                part: [where(one) for one in value]
                if isinstance(value, list)
                else (where(value) if isinstance(value, Mapping) else value)
                for part, value in found[name].items()
            }
    return found


def _level(level: Any, levels: Levels) -> Any:
    return levels.get(level, level) if isinstance(levels, Mapping) else level


def _require_known(
    claim: Claim,
    factors: Mapping[str, Levels],
    metrics: Collection[str],
    arms: Sequence[Mapping[str, Level]],
) -> None:
    """Raise ValueError where a claim names what the study does not have, or no single arm."""
    if claim.measure is None:
        return
    asked = [claim.measure.metric, claim.mean.censored_by if claim.mean else None]
    if unknown := [metric for metric in asked if metric and metric not in metrics]:
        raise ValueError(
            f"{claim.id}: '{unknown[0]}' is no metric of the study; the metrics are: "
            f"{', '.join(sorted(metrics))}"
        )
    for side in claim.sides:
        for name, level in side.items():
            if name not in factors:
                raise ValueError(
                    f"{claim.id}: '{name}' is no factor of the study; the factors are: "
                    f"{', '.join(factors)}"
                )
            levels = factors[name]
            known = list(levels.values() if isinstance(levels, Mapping) else levels)
            if known and level not in known:
                raise ValueError(
                    f"{claim.id}: {name} has no level {level!r}; its levels are: "
                    f"{', '.join(map(str, levels))}"
                )
        at = {name: level for name, level in side.items() if arms and name in arms[0]}
        if (found := sum(at.items() <= arm.items() for arm in arms)) != 1:
            named = ", ".join(f"{name} {level}" for name, level in at.items()) or "nothing"
            raise ValueError(
                f"{claim.id}: {named} leaves {found} arms of the study, and it has to be one"
            )
