"""Verdicts: what recorded runs say of claims, and what may make an estimate doubtful."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel

from innolab.analysis import censored, power, stats
from innolab.analysis.claims import (
    Claim,
    Comparison,
    Holds,
    Largest,
    Published,
    Where,
    published_value,
)
from innolab.record.run import Level, Run
from innolab.record.runs import RunSet

_DIGITS = 6
# How far beyond its bound the truth is taken to lie where a claim names no value: a tenth, which is
# what "about" means in this collection.
_NAMED = 1.1
# Runs with O_DIRECT, which need little new memory, differ by 0.07 on a host where others differ by
# 0.4. Set after seeing those runs; it can only keep a verdict from being decided.
KERNEL_SHARE_SPREAD_DOUBTED = 0.15

Outcome = Literal["reproduced", "contradicted", "inconclusive", "withheld", "not-run"]
DECIDED: tuple[Outcome, ...] = ("reproduced", "contradicted")
EVERY: tuple[Outcome, ...] = (*DECIDED, "inconclusive")


class Verdict(BaseModel):
    """What the runs of one server say of one claim. An entry of verdicts.json.

    Attributes
    ----------
    source : what the original states, in our words, and where
    estimate, low, high : an end, or the estimate itself, is None where it is not known
    level : the coverage of the interval
    looks : how often the runs were judged, this time included
    power : how likely such runs find the difference that the claim names; None where not computed
    caveat : why a decided verdict is to be read with care
    blocks_needed : how many blocks would decide it at the spread that was found; None where it is
        decided, or where no number that anybody would wait for does
    needs : what would decide it, in words; None where it is decided or nothing was estimated
    """

    claim: str
    server: str
    says: str
    stands: str
    source: str | None = None
    verdict: Outcome
    published: float | None
    estimate: float | None
    low: float | None
    high: float | None
    level: float
    n: int
    looks: int = 1
    power: float | None = None
    reason: str
    caveat: str | None = None
    blocks_needed: int | None = None
    needs: str | None = None


class Sample(NamedTuple):
    """What a doubt is asked of: a claim, and the valid runs of one server."""

    claim: Claim
    runs: RunSet


class Doubted(NamedTuple):
    """What may have made an estimate beside the factors, in words.

    Attributes
    ----------
    bars : the outcomes that it does not allow: such a verdict is inconclusive. Where it bars none,
        a decided verdict is to be read with care
    needs : what would remove it, in words
    """

    says: str
    bars: Collection[Outcome] = ()
    needs: str = ""


Doubt = Callable[[Sample], Doubted | None]


class FailedControl(NamedTuple):
    """A control that failed: what was measured there supports no verdict.

    Attributes
    ----------
    says : why, in words
    server : the server that it concerns; None for all
    at : the levels of factors that it concerns; none of them for all arms
    """

    says: str
    server: str | None = None
    at: Mapping[str, Level] = {}


@dataclass(frozen=True)
class _Judging:
    """What every claim of a report is judged by."""

    figures: Mapping[str, Published]
    units: Mapping[str, str]
    doubts: Sequence[Doubt]
    missing_devices: Mapping[str, str]
    failed_controls: Sequence[FailedControl]
    level: float
    looks: int


class _Finding(NamedTuple):
    """What the values of one claim say, before any doubt."""

    interval: stats.Interval
    outcome: Outcome
    reason: str
    blocks_needed: int | None = None
    needs: str | None = None
    power: float | None = None


def verdicts(
    claims: Sequence[Claim],
    figures: Mapping[str, Published],
    runs: RunSet,
    servers: Sequence[str],
    *,
    declared: Mapping[str, Any],
    units: Mapping[str, str],
    doubts: Sequence[Doubt] = (),
    unavailable: Mapping[str, str] | None = None,
    missing_devices: Mapping[str, str] | None = None,
    failed_controls: Sequence[FailedControl] = (),
    level: float = stats.LEVEL,
    looks: int = 1,
) -> list[Verdict]:
    """Return every claim's verdict on every server, unavailable ones included.

    Parameters
    ----------
    figures : the published figures by id
    declared : for each factor, the server variables that may differ between its levels
    units : the unit of each metric; one that begins with "share" says that it is a share
    unavailable, missing_devices : why builds and devices that were asked for did not run
    failed_controls : what makes the verdicts concerned withheld
    level : the coverage of every interval
    looks : how often the runs were judged, this time included
    """
    by = _Judging(figures, units, doubts, missing_devices or {}, failed_controls, level, looks)
    result = []
    for server in servers:
        of_server = runs.where(_on(server))
        if differing := of_server.undeclared_differences(declared):
            reason = f"arms differ beside their factors, in {', '.join(differing)}"
            result += [_not_run(claim, server, reason, by) for claim in claims]
            continue
        result += [_judge(claim, server, of_server, by) for claim in claims]
    for server, why in (unavailable or {}).items():
        reason = f"the build is not available: {why}"
        result += [_not_run(claim, server, reason, by) for claim in claims]
    return result


def _on(server: str) -> Callable[[Run], bool]:
    return lambda run: run.factors["server"] == server


def _judge(claim: Claim, server: str, runs: RunSet, by: _Judging) -> Verdict:
    if claim.holds is None:
        return _not_run(claim, server, str(claim.not_measured), by)
    found = _found(claim, claim.holds, runs.valid, by)
    if found is None:
        return _not_run(claim, server, _why_nothing(claim, runs, by.missing_devices), by)
    doubted = [d for doubt in by.doubts if (d := doubt(Sample(claim, runs.valid)))]
    cares = [*(d.says for d in doubted if not d.bars), *([claim.care] if claim.care else [])]
    found = _withheld(_doubted(found, doubted), _concerned(by.failed_controls, claim, server, runs))
    return Verdict(
        **_head(claim, server, by),
        verdict=found.outcome,
        estimate=_rounded(found.interval.estimate),
        low=_rounded(found.interval.low),
        high=_rounded(found.interval.high),
        n=found.interval.n,
        power=found.power and round(found.power, 2),
        reason=found.reason,
        caveat="; ".join(cares) if cares and found.outcome in DECIDED else None,
        blocks_needed=found.blocks_needed,
        needs=found.needs,
    )


def _doubted(found: _Finding, doubted: Sequence[Doubted]) -> _Finding:
    """Return a finding as inconclusive where a doubt does not allow its outcome."""
    barring = [doubt for doubt in doubted if found.outcome in doubt.bars]
    if not barring:
        return found
    says = "; ".join(doubt.says for doubt in barring)
    needs = "; ".join(doubt.needs for doubt in barring if doubt.needs)
    reason = f"{says}; otherwise: {found.reason}"
    return _Finding(found.interval, "inconclusive", reason, None, needs or says, found.power)


def _withheld(found: _Finding, failed: Sequence[FailedControl]) -> _Finding:
    if not failed:
        return found
    says = "; ".join(control.says for control in failed)
    return _Finding(found.interval, "withheld", says, power=found.power)


def _concerned(
    failed: Sequence[FailedControl], claim: Claim, server: str, runs: RunSet
) -> list[FailedControl]:
    """Return the failed controls that concern an arm of a claim.

    A level of a within-factor that a claim does not name concerns it: its metric is of all levels.
    """
    arms = [
        {**run.factors, **side}
        for side in claim.sides
        for run in runs.runs
        if _is_of(run, side, runs)
    ]
    return [
        control
        for control in failed
        if control.server in (None, server)
        and any(
            all(arm.get(name, level) == level for name, level in control.at.items()) for arm in arms
        )
    ]


def decide(
    interval: stats.Interval, low: float, high: float, claimed: str = ""
) -> tuple[Outcome, str]:
    """Return the verdict that an interval supports on "the value lies from low to high", and why.

    Parameters
    ----------
    claimed : what the claim says of the value, where it is not these two numbers

    >>> from innolab.analysis.stats import Interval
    >>> decide(Interval(1.5, 1.4, 1.6, 5), 1.0, float("inf"))[0]
    'reproduced'
    >>> decide(Interval(1.5, 0.9, 1.6, 5), 1.0, float("inf"))[0]
    'inconclusive'
    """
    claimed = claimed or _range_text(low, high)
    if math.isnan(interval.low):
        return "inconclusive", "one valid replicate leaves no interval"
    found = _range_text(interval.low, interval.high)
    if low <= interval.low and interval.high <= high:
        return "reproduced", f"measured {found}, wholly within the claim's {claimed}"
    if interval.high < low or high < interval.low:
        return "contradicted", f"measured {found}, wholly outside the claim's {claimed}"
    return "inconclusive", f"measured {found}, partly within the claim's {claimed}"


def blocks_needed(interval: stats.Interval, low: float, high: float) -> int | None:
    """Return how many blocks would move a mean's interval off the nearest bound, at its spread.

    None where it has no width to judge by, or the estimate lies so near a bound that no such
    number helps.

    >>> from innolab.analysis.stats import Interval
    >>> blocks_needed(Interval(0.5, 0.1, 0.9, 3), 0.8, float("inf"))
    4
    """
    ends = [bound for bound in (low, high) if math.isfinite(bound)]
    if interval.n < 2 or not interval.low < interval.estimate < interval.high:
        return None
    distance = min(abs(interval.estimate - bound) for bound in ends)
    half = (interval.high - interval.low) / 2
    spread = half * math.sqrt(interval.n) / stats.student_quantile(interval.level, interval.n - 1)
    for n in range(interval.n + 1, power.MOST_BLOCKS + 1):
        if spread * stats.student_quantile(interval.level, n - 1) / math.sqrt(n) < distance:
            return n
    return None


def _found(claim: Claim, holds: Holds, runs: RunSet, by: _Judging) -> _Finding | None:
    """Return what the values of a claim say; None where no run has them."""
    measure, sides = claim.measure, claim.sides
    assert measure is not None
    published = published_value(by.figures, claim)
    low, high = holds.bounds(published)
    claimed = _claimed(holds, published)
    if isinstance(measure, Comparison):
        top, bottom = runs.pairs(measure.metric, *sides)
        if not top:
            return None
        if min(*top, *bottom) <= 0:
            nothing = stats.Interval(math.nan, math.nan, math.nan, len(top), by.level)
            says = f"{measure.metric} is 0 in a run, which leaves no ratio"
            return _Finding(nothing, "inconclusive", says, None, "runs in which it is not 0")
        ratios = [a / b for a, b in zip(top, bottom, strict=True)]
        return _by_logs(ratios, low, high, claimed, published, by.level)
    by_block = [runs.values(measure.metric, **side) for side in sides]
    values = [list(of.values()) for of in by_block]
    if not all(values):
        return None
    if isinstance(measure, Largest):
        return _by_largest(values, high, by.level)
    if measure.censored_by:
        known = runs.values(measure.censored_by, **sides[0])
        found = [bool(known[block]) for block in by_block[0]]
        if not all(found):
            return _by_censored(values[0], found, (low, high), claimed, by.level)
    if is_share(by.units.get(measure.metric, "")) or min(values[0]) <= 0:
        return _by_interval(mean(values[0], by.units[measure.metric], by.level), low, high, claimed)
    return _by_logs(values[0], low, high, claimed, published, by.level)


def is_share(unit: str) -> bool:
    """Return whether a metric of this unit is a share, whose mean is judged on the plain scale."""
    return unit.startswith("share")


def mean(values: Sequence[float], unit: str, level: float = stats.LEVEL) -> stats.Interval:
    """Return the mean of a metric with an interval of values that the metric can have.

    That of shares is arithmetic and lies within 0 and 1. Other positive values have their
    geometric mean: their noise is multiplicative, and no interval on logarithms reaches zero.

    >>> mean([0.9, 1.0], "share of all processors").high
    1.0
    >>> mean([0.82, 2.98, 0.82], "data over pool").low > 0
    True
    """
    if not is_share(unit) and min(values) > 0:
        return stats.robust_ratio(values, [1.0] * len(values), level)
    found = stats.robust_mean(values, level)
    low, high = found.low, found.high
    if min(values) >= 0:
        low = max(low, 0.0)
    if is_share(unit) and max(values) <= 1:
        high = min(high, 1.0)
    return found._replace(low=low, high=high)


def _by_logs(
    values: Sequence[float],
    low: float,
    high: float,
    claimed: str,
    published: float | None,
    level: float,
) -> _Finding:
    """Judge values whose noise is multiplicative: a ratio in each block, or a positive metric."""
    ones = [1.0] * len(values)
    interval = stats.robust_ratio(values, ones, level)
    outcome, reason = decide(interval, low, high, claimed)
    n, spread = interval.n, power.spread(values, ones)
    if n < 2:
        return _Finding(interval, outcome, reason, None, "more blocks")
    truth = named(low, high, published)
    found = None if truth is None else power.power(spread, n, low, high, truth, level)
    if outcome in DECIDED:
        return _Finding(interval, outcome, reason, power=found)
    blocks = power.blocks_for(spread, low, high, interval.estimate, level=level, least=n + 1)
    return _Finding(interval, outcome, reason, blocks, _needs(blocks), found)


def named(low: float, high: float, published: float | None) -> float | None:
    """Return the value that a claim names: the published one, else one within its bounds.

    >>> named(1.1, math.inf, 2.6), round(named(1.0, math.inf, None), 3)
    (2.6, 1.1)
    """
    if published is not None and low < published < high:
        return published
    if low > 0 and math.isfinite(high):
        return math.sqrt(low * high)
    if low > 0:
        return low * _NAMED
    return high / _NAMED if 0 < high < math.inf else None


def _by_interval(interval: stats.Interval, low: float, high: float, claimed: str) -> _Finding:
    """Judge a mean on the plain scale."""
    outcome, reason = decide(interval, low, high, claimed)
    if outcome in DECIDED:
        return _Finding(interval, outcome, reason)
    if math.isnan(interval.low):
        return _Finding(interval, outcome, reason, None, "more blocks")
    blocks = blocks_needed(interval, low, high)
    return _Finding(interval, outcome, reason, blocks, _needs(blocks))


def _needs(blocks: int | None) -> str:
    if blocks is None:
        return "steadier runs: more blocks alone would not do"
    return f"about {blocks} blocks"


def _by_largest(values: Sequence[Sequence[float]], high: float, level: float) -> _Finding:
    """Judge a largest value alone: runs say nothing of how far those not made may go.

    One run above the bound refutes the claim. Where there is none, the binomial says how many of
    further runs may be.
    """
    largest, n = max(map(max, values)), min(map(len, values))
    interval = stats.Interval(largest, math.nan, math.nan, n, level)
    measured = f"the largest of {sum(map(len, values))} values is {largest:.4g}"
    if largest > high:
        says = f"{measured}, above the claim's at most {high:.4g}: one such value refutes it"
        return _Finding(interval, "contradicted", says)
    unseen = 1 - (1 - level) ** (1 / n)
    return _Finding(
        interval,
        "reproduced",
        f"{measured}, within the claim's at most {high:.4g}; a maximum has no interval, and up to "
        f"{unseen:.0%} of further runs of an arm may go above it (at {level:.3g})",
    )


def _by_censored(
    values: Sequence[float],
    found: Sequence[bool],
    holds: tuple[float, float],
    claimed: str,
    level: float,
) -> _Finding:
    """Judge the median of values of which some were not found and are known to be larger.

    With few runs the sign test has no interval, and decides nothing: even if half of all runs had
    the value where the claim sees it, three out of three would miss it in one case of eight.
    """
    n, least, shown = len(values), censored.least_runs(level), sum(found)
    interval = censored.median(values, found, level)
    beyond = min(value for value, known in zip(values, found, strict=True) if not known)
    others = (
        f"found in {shown} of {n} runs, in the others" if shown else f"found in none of {n} runs:"
    )
    said = f"{others} beyond {beyond:.4g}, if at all"
    if math.isnan(interval.low):
        if not shown:
            interval = interval._replace(low=min(values))
        reason = f"{said}; {least} runs at least decide a median at a level of {level:.3g}"
        return _Finding(
            interval, "inconclusive", reason, None if shown else least, f"{least} blocks or more"
        )
    outcome, reason = decide(interval, *holds, claimed)
    needs = None if outcome in DECIDED else "runs that show it: more blocks alone may not do"
    return _Finding(interval, outcome, f"{said}; {reason}", None, needs)


def _claimed(holds: Holds, published: float | None) -> str:
    """Return what a claim says of a value, in words.

    >>> _claimed(Holds(at_most=1, margin=0.05), None)
    'at most 1 with a margin of 5 %'
    """
    stated = _range_text(*holds.stated(published))
    return f"{stated} with a margin of {100 * holds.margin:.3g} %" if holds.margin else stated


def _why_nothing(claim: Claim, runs: RunSet, missing: Mapping[str, str]) -> str:
    """Return why the runs support no verdict: a device not there, a failure, an invalid check."""
    of = [run for side in claim.sides for run in runs.runs if _is_of(run, side, runs)]
    for run in of:
        if not run.valid:
            why = run.error or next(c.says for c in run.checks if c.result == "invalid")
            return f"too few valid runs of {arm_text(run)}: {why}"
    for device, why in missing.items():
        if any(side.get("device") == device for side in claim.sides):
            return f"{device} did not run: {why}"
    if claim.absent:
        return claim.absent
    if of:
        return "no run of the arms that it compares has the metric"
    return "no run of the arms that it compares"


def _is_of(run: Run, side: Where, runs: RunSet) -> bool:
    return all(
        run.factors[name] == level for name, level in side.items() if name not in runs.within
    )


def arm_text(run: Run) -> str:
    """Return the arm of a run in words, its server left out."""
    return ", ".join(str(level) for name, level in run.factors.items() if name != "server")


def _not_run(claim: Claim, server: str, reason: str, by: _Judging) -> Verdict:
    return Verdict(
        **_head(claim, server, by),
        verdict="not-run",
        estimate=None,
        low=None,
        high=None,
        n=0,
        reason=reason,
    )


def _head(claim: Claim, server: str, by: _Judging) -> dict[str, Any]:
    value = published_value(by.figures, claim)
    return {
        "claim": claim.id,
        "server": server,
        "says": claim.says,
        "stands": claim.stands,
        "source": claim.source,
        "published": None if value is None else _rounded(value),
        "level": by.level,
        "looks": by.looks,
    }


def _rounded(value: float) -> float | None:
    """Six significant digits: more would differ in the last place from one CPU to the next."""
    return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None


def _range_text(low: float, high: float) -> str:
    if low == high:
        return f"{low:.4g}"
    if math.isinf(low):
        return f"at most {high:.4g}"
    if math.isinf(high):
        return f"at least {low:.4g}"
    return f"{low:.4g} to {high:.4g}"


def unsteady(sample: Sample) -> Doubted | None:
    """Doubt what windows gave that were too short or had not reached a steady state.

    For observations that have the metric `steady`: 1 where a window was, 0 where it was not. A
    metric beside none is made of all windows of its run.
    """
    claim = sample.claim
    sides = {tuple(sorted(side.items())): side for side in claim.sides}
    windows = [
        reached
        for side in sides.values()
        for run, row in sample.runs.observed(**side)
        if claim.measure and claim.measure.metric in row
        for reached in ([row["steady"]] if "steady" in row else _steady(run))
    ]
    drifting = sum(not reached for reached in windows)
    if not drifting:
        return None
    return Doubted(
        f"not steady: {drifting} of {len(windows)} windows", EVERY, "windows that are steady"
    )


def _steady(run: Run) -> list[Level]:
    return [row["steady"] for row in run.observations if "steady" in row]


def kernel_share(**within: Any) -> Doubt:
    """Return a doubt of cold work in which the host, not the arm, made equal runs differ.

    Equal runs ask the kernel for equal work. Where its share of the CPU time differs between them,
    the host made the difference: such as a hypervisor that must find again the idle memory it took
    from its guest, which falls on cold passes, the more the larger the pool.

    Parameters
    ----------
    within : the levels of within-factors at which work is cold; observations there have the metrics
        `cpu_s` and `kernel_cpu_s`
    """

    def doubt(sample: Sample) -> Doubted | None:
        sides = sample.claim.sides
        if sample.claim.compare is None or not all(within.items() <= s.items() for s in sides):
            return None
        spans = []
        for side in sides:
            shares = {
                run.block: row["kernel_cpu_s"] / max(row["cpu_s"], 0.01)  # type: ignore[operator]
                for run, row in sample.runs.observed(**side)
            }
            low, high = min(shares.values()), max(shares.values())
            spans.append((high - low, arm_text(next(sample.runs.observed(**side))[0]), low, high))
        spread, arm, low, high = max(spans)
        if spread < KERNEL_SHARE_SPREAD_DOUBTED:
            return None
        return Doubted(
            f"equal runs of {arm} spent {low:.0%} to {high:.0%} of the CPU time in the kernel, "
            "which no factor explains",
            EVERY,
            "runs that cost the kernel alike",
        )

    return doubt
