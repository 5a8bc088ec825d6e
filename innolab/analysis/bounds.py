"""What else in a record bounds a metric, or why nothing can.

A metric cannot be declared without its evidence: functions of a record, each of which returns the
least and the greatest value that the rest of that record allows. A value that was edited is found
where what it follows from was not edited too.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from innolab.record.run import Level, Observation, Run

if TYPE_CHECKING:
    import pandas as pd


class Bound(NamedTuple):
    """The least and the greatest value that a metric of an observation can have."""

    within: Mapping[str, Any]
    metric: str
    low: float
    high: float


class Unbounded(NamedTuple):
    """Why nothing in a record bounds a metric."""

    reason: str


@dataclass(frozen=True)
class Record:
    """A run with its series, which is None where no server ran.

    `within` are the names of the study's within-factors.
    """

    run: Run
    series: "pd.DataFrame | None"
    within: Collection[str]

    @cached_property
    def samples(self) -> dict[float, dict[str, float]]:
        """Return the samples of the series by their times."""
        rows = [] if self.series is None else self.series.to_dict("records")
        return {row["t_s"]: {str(k): v for k, v in row.items()} for row in rows}

    def noted(self, name: str) -> list[dict[str, Any]]:
        """Return conditions of a kind that has one for each window; none where none was noted."""
        found: list[dict[str, Any]] = self.run.conditions.get(name, [])
        return found

    def levels(self, row: Observation) -> dict[str, Level]:
        """Return the levels of the within-factors of an observation."""
        return {name: level for name, level in row.items() if name in self.within}

    def rows(self, *metrics: str) -> Iterator[tuple[dict[str, Level], dict[str, float]]]:
        """Yield the observations that have some metrics: their levels, and all their values."""
        for row in self.run.observations:
            if row.keys() >= set(metrics):
                values = {k: float(v) for k, v in row.items() if isinstance(v, int | float)}
                yield self.levels(row), values


Evidence = Callable[[Record], Iterable[Bound | Unbounded]]


class Metric(NamedTuple):
    """A metric that an observation may have: its unit, and what else in the record bounds it."""

    unit: str
    evidence: Sequence[Evidence] | Unbounded


def metrics(units: Mapping[str, str], *evidence: Evidence) -> dict[str, Metric]:
    """Return metrics by name that have the same evidence."""
    return {name: Metric(unit, evidence) for name, unit in units.items()}


def exactly(within: Mapping[str, Any], metric: str, value: float) -> Bound:
    """Return the bound of a metric that is known but for the last bits of a sum.

    >>> bound = exactly({}, "seconds", 3.0)
    >>> bound.low < 3.0 < bound.high < 3.00001
    True
    """
    width = abs(value) * 1e-6 + 1e-9
    return Bound(within, metric, value - width, value + width)


def all_exactly(within: Mapping[str, Any], values: Mapping[str, float]) -> list[Bound]:
    """Return the bounds of metrics that are known but for the last bits of a sum."""
    return [exactly(within, metric, value) for metric, value in values.items()]


def formula(metric: str, of: Callable[[Mapping[str, float]], float], *inputs: str) -> Evidence:
    """Return that a metric follows exactly from others of the same observation.

    Parameters
    ----------
    of : takes an observation, and returns the metric
    inputs : the metrics and within-factors that it reads
    """

    def evidence(record: Record) -> Iterator[Bound]:
        for within, row in record.rows(metric, *inputs):
            yield exactly(within, metric, of(row))

    return evidence
