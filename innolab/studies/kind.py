"""What all trials of one kind share: what they observe, what bounds it, what makes them invalid.

Two kinds are here: windows of a load, and timed passes of statements. A study whose trials are of
another kind declares its own `Kind`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from innolab.analysis.bounds import Metric
from innolab.analysis.checks import CHECKS, USUAL, read_from_disk
from innolab.analysis.doubts import Doubt, single_flushes, unsteady
from innolab.analysis.evidence import Check
from innolab.bench import oltp, passes, windows
from innolab.record.run import Level
from innolab.studies.parameters import ByEffort, ByScale

# Levels in their order; a mapping gives levels names, which claims may use.
Levels = Sequence[Level] | Mapping[str, Level]
# By factor, the server variables that may differ between its levels.
Variables = Mapping[str, Collection[str]]
_AS_LONG = ByEffort(1.0, 1.0, 1.0)
_CALIBRATION_S = ByScale(0.3, 1.0, 10.0)


def named(*names: str) -> dict[str, Check]:
    """Return the common checks of some names.

    Raises
    ------
    ValueError
        If there is none of a name, with those there are.
    """
    if unknown := [name for name in names if name not in CHECKS]:
        raise ValueError(f"there is no check '{unknown[0]}'; there are: {', '.join(CHECKS)}")
    return {name: CHECKS[name] for name in names}


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What all trials of a kind share.

    Attributes
    ----------
    metrics : the unit of each metric that an observation may have, and what else in a run's record
        bounds it, or why nothing can
    checks : the validity checks that runs must pass, by name, in their order
    within : the within-factors and their levels, as far as these are fixed
    main : the within-factors of the rows that a notebook begins with
    compared : the metrics that two reports are compared by, with the within-factors of each
    doubts : what may make an estimate doubtful, besides its interval
    variables : by factor, the server variables that may differ between its levels; else none may
    window_s : how long is measured at a time, by which `plan` scales the times of a report of
        another effort
    known_windows_s : takes parameters and an arm, and returns the lengths that its windows may have
        been asked for: today's, and those of reports that are there
    calibration_s : how long each part of a device's calibration takes
    upgrade : takes the body of a run of the older schema and returns it as of today's
    """

    metrics: Mapping[str, Metric]
    checks: Mapping[str, Check]
    within: Mapping[str, Levels] = field(default_factory=dict)
    main: Sequence[str] = ()
    compared: Mapping[str, Sequence[str]] = field(default_factory=dict)
    doubts: Sequence[Doubt] = ()
    variables: Variables = field(default_factory=dict)
    window_s: ByEffort[int] | ByEffort[float] = _AS_LONG
    known_windows_s: Callable[[Any, Any], Collection[int]] = lambda _parameters, _arm: ()
    calibration_s: ByScale[float] = _CALIBRATION_S
    upgrade: Callable[[dict[str, Any]], dict[str, Any]] | None = None

    def __post_init__(self) -> None:
        """Refuse a metric without evidence or unit.

        Raises
        ------
        ValueError
            Says what is wrong and what is allowed.
        """
        for name, metric in self.metrics.items():
            if not (isinstance(metric, Metric) and metric.evidence):
                raise ValueError(
                    f"the metric {name} does not say what else in a run's record bounds it; "
                    "declare Metric(unit, [evidence]) or, if nothing can, "
                    "Metric(unit, Unbounded(reason))"
                )
            if not metric.unit:
                raise ValueError(f"the metric {name} has no unit; give it one, as in 's' or '1'")

    @property
    def units(self) -> dict[str, str]:
        """Return the unit of each metric."""
        return {name: metric.unit for name, metric in self.metrics.items()}


def timed_passes(
    within: Mapping[str, Levels],
    *,
    cold: Mapping[str, Level],
    metrics: Mapping[str, Metric] = passes.METRICS,
    checks: Mapping[str, Check] | None = None,
    doubts: Sequence[Doubt] = (),
    variables: Variables | None = None,
) -> Kind:
    """Return the kind of trials that time statements from a cold start, by `bench.passes`.

    Parameters
    ----------
    within : the within-factors and their levels, such as the number of the pass
    cold : the level of the within-factor at which work is cold
    metrics : those of passes, and the study's own
    checks : the study's own
    """
    return Kind(
        metrics=metrics,
        checks={
            **named(*USUAL, "pool not preloaded", "cold", "memory held", "device as its profile"),
            "bytes really read": read_from_disk(**cold),
            **(checks or {}),
        },
        within=within,
        main=tuple(cold),
        compared={"seconds": tuple(cold)},
        doubts=doubts,
        variables=variables or {},
    )


def load_windows(
    window_s: ByEffort[int],
    *,
    known_windows_s: Callable[[Any, Any], Collection[int]],
    checks: Sequence[str],
    within: Mapping[str, Levels] | None = None,
    of_some: Mapping[str, Levels] | None = None,
    metrics: Mapping[str, Metric] = windows.METRICS,
    doubts: Sequence[Doubt] = (),
    variables: Variables | None = None,
    calibration_s: ByScale[float] = _CALIBRATION_S,
    upgrade: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
) -> Kind:
    """Return the kind of trials that measure windows of sysbench's load, by `bench.windows`.

    Pools are a ratio of what the load asks for, so their size may differ between loads too. A
    window on a single processor has the within-factor `processors`.

    Parameters
    ----------
    within : the within-factors that each window has
    of_some : those of some windows alone, which are other quantities
    checks : the names of those besides the usual ones and those of windows
    metrics : those of windows, and the study's own
    variables : of the study's other factors than `load`
    """
    main = tuple(within or {})
    return Kind(
        metrics=metrics,
        checks=named(*USUAL, *checks, *windows.CHECKS),
        within={**(within or {}), "processors": [1], **(of_some or {})},
        main=main,
        compared={"tps": main},
        doubts=(*doubts, unsteady, single_flushes),
        variables={"load": oltp.POOL_VARIABLES, **(variables or {})},
        window_s=window_s,
        known_windows_s=known_windows_s,
        calibration_s=calibration_s,
        upgrade=upgrade,
    )
