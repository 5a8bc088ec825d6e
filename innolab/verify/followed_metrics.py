"""Whether a run's metrics follow from the rest of its record, and its series can be."""

import datetime
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from innolab.analysis.bounds import Bound, Evidence, Metric, Record, Unbounded
from innolab.record import runlog, series
from innolab.record.run import Run
from innolab.verify.times_and_hosts import CLOCK_S

if TYPE_CHECKING:
    import pandas as pd

# The kernel itself says that its count of waiting may decrease (proc(5)): a task that waited moves
# to another processor. Seen: up to 0.08 s.
_MAY_FALL_S = {"host_iowait_s": 0.5}
# A sample reads the clock of CPU time and its own a moment apart, on a busy host up to a second.
_CPU_CLOCK_RATIO, _CPU_CLOCK_S = 0.1, 1.0


class FollowedMetrics(NamedTuple):
    """What a run's record says of its metrics.

    Attributes
    ----------
    faults : what of its series cannot be, and metrics that do not follow from the rest
    unbound : the metrics that nothing in the record bounds, and why, where it is known
    """

    faults: list[str]
    unbound: dict[str, str]


def followed(record: Record, declared: Mapping[str, Metric]) -> FollowedMetrics:
    """Return what of a run's series cannot be, and how its metrics follow from its record."""
    run = record.run
    found = []
    if record.series is not None:
        found += [f"{run.series}: {why}" for why in _impossible(run, record.series)]
    bounds, whys = _bounds(record, declared)
    bound = set()
    for within, metric, low, high in bounds:
        places = _places(record, within, metric)
        value = _number(run.observations[places[0]][metric]) if len(places) == 1 else math.nan
        if not low <= value <= high:
            at = "".join(f", {name} {level}" for name, level in within.items())
            found.append(
                f"{runlog.FILE}: trial {run.trial}{at}: its {metric} is {value:.6g}, and the rest "
                f"of its record gives {low:.6g} to {high:.6g}"
            )
        if math.inf not in (-low, high):
            bound |= {(place, metric) for place in places}
    return FollowedMetrics(
        found,
        {
            metric: whys.get(metric, "")
            for place, row in enumerate(run.observations)
            for metric in row.keys() & declared.keys()
            if (place, metric) not in bound
        },
    )


def _bounds(record: Record, declared: Mapping[str, Metric]) -> tuple[list[Bound], dict[str, str]]:
    """Return the bounds of all metrics, and why some have none, by their names.

    Evidence that many metrics share is read once.
    """
    bounds: list[Bound] = []
    whys: dict[str, str] = {}
    by_evidence: dict[Evidence, list[str]] = {}
    for name, metric in declared.items():
        if isinstance(metric.evidence, Unbounded):
            whys[name] = metric.evidence.reason
            continue
        for evidence in metric.evidence:
            by_evidence.setdefault(evidence, []).append(name)
    for evidence, names in by_evidence.items():
        for found in evidence(record):
            if isinstance(found, Bound):
                bounds.append(found)
            else:
                whys |= dict.fromkeys(names, found.reason)
    return bounds, whys


def _places(record: Record, within: Mapping[str, Any], metric: str) -> list[int]:
    """Return the observations that have a metric at exactly some levels of within-factors.

    A bound is of one: no value, and none of several, lies within it.
    """
    return [
        place
        for place, row in enumerate(record.run.observations)
        if metric in row and record.levels(row) == within
    ]


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def _impossible(run: Run, frame: "pd.DataFrame") -> list[str]:
    """Return what no sampler can have seen in a run of this length on a host of these cores."""
    moment = datetime.datetime.fromisoformat
    took_s = (moment(run.ended_at) - moment(run.started_at)).total_seconds()
    counters = [name for name in frame.columns if name in series.COUNTERS]
    span_s = float(frame["t_s"].iloc[-1] - frame["t_s"].iloc[0])
    cpu_s = span_s * run.conditions["host"]["cores"]
    most_s = cpu_s * (1 + _CPU_CLOCK_RATIO) + _CPU_CLOCK_S * run.conditions["host"]["cores"]
    found = []
    if not frame["t_s"].is_monotonic_increasing or span_s > took_s + CLOCK_S:
        found.append(f"it spans {span_s:.1f} s of a trial of {took_s:.1f} s")
    falls = -frame[counters].diff().iloc[1:].min()
    if any(fall > _MAY_FALL_S.get(str(name), 0) for name, fall in falls.items()):
        found.append("a counter falls")
    if bool((frame[counters].iloc[0] != 0).any()):
        found.append("a counter does not begin at 0")
    for name in ("mysqld_cpu_s", "host_busy_s", "host_total_s"):
        if name in frame and frame[name].iloc[-1] > most_s:
            found.append(
                f"its {name} is {frame[name].iloc[-1]:.2f}, where all processors had {cpu_s:.2f}"
            )
    return found
