"""Verdicts: what recorded runs say of claims, and what may make an estimate doubtful."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel

from innolab.analysis import stats
from innolab.analysis.claims import Claim, Comparison, Largest, Published, Where, published_value
from innolab.record.run import Run
from innolab.record.runs import RunSet

_DIGITS = 6
# More blocks than these nobody waits for: another arm or a longer window is needed instead.
_MOST_BLOCKS = 200
# Runs with O_DIRECT, which need little new memory, differ by 0.07 on a host where others differ by
# 0.4. Set after seeing those runs; it adds words to a verdict and never changes one.
KERNEL_SHARE_SPREAD_DOUBTED = 0.15

Outcome = Literal["reproduced", "contradicted", "inconclusive", "not-run"]


class Verdict(BaseModel):
    """What the runs of one server say of one claim. An entry of verdicts.json.

    `blocks_needed` is how many blocks would decide an inconclusive claim at the spread that was
    found; None where it is decided, or no number that anybody would wait for does.
    """

    claim: str
    server: str
    says: str
    stands: str
    verdict: Outcome
    published: float | None
    estimate: float | None
    low: float | None
    high: float | None
    level: float
    n: int
    reason: str
    caveat: str | None = None
    blocks_needed: int | None = None


class Sample(NamedTuple):
    """What a doubt is asked of: a claim, and the valid runs of one server."""

    claim: Claim
    runs: RunSet


class Doubted(NamedTuple):
    """What may have made an estimate beside the factors, in words.

    `contradicts` is False where such an estimate cannot contradict a claim.
    """

    says: str
    contradicts: bool = True


Doubt = Callable[[Sample], Doubted | None]


def verdicts(
    claims: Sequence[Claim],
    figures: Mapping[str, Published],
    runs: RunSet,
    servers: Sequence[str],
    *,
    declared: Mapping[str, Any],
    doubts: Sequence[Doubt] = (),
    unavailable: Mapping[str, str] | None = None,
    missing_devices: Mapping[str, str] | None = None,
) -> list[Verdict]:
    """Return every claim's verdict on every server, unavailable ones included.

    Parameters
    ----------
    figures : the published figures by id
    declared : for each factor, the server variables that may differ between its levels
    unavailable, missing_devices : why builds and devices that were asked for did not run
    """
    result = []
    for server in servers:
        of_server = runs.where(_on(server))
        if differing := of_server.undeclared_differences(declared):
            reason = f"arms differ beside their factors, in {', '.join(differing)}"
            result += [_not_run(figures, claim, server, reason) for claim in claims]
            continue
        for claim in claims:
            judged = _judge(figures, claim, server, of_server, doubts, missing_devices or {})
            result.append(judged)
    for server, why in (unavailable or {}).items():
        reason = f"the build is not available: {why}"
        result += [_not_run(figures, claim, server, reason) for claim in claims]
    return result


def _on(server: str) -> Callable[[Run], bool]:
    return lambda run: run.factors["server"] == server


def _judge(
    figures: Mapping[str, Published],
    claim: Claim,
    server: str,
    runs: RunSet,
    doubts: Sequence[Doubt],
    missing: Mapping[str, str],
) -> Verdict:
    if claim.holds is None:
        return _not_run(figures, claim, server, str(claim.not_measured))
    interval = _estimate(claim, runs.valid)
    if interval is None:
        return _not_run(figures, claim, server, _why_nothing(claim, runs, missing))
    low, high = claim.holds.bounds(published_value(figures, claim))
    outcome, reason = decide(interval, low, high)
    doubted = next((d for doubt in doubts if (d := doubt(Sample(claim, runs.valid)))), None)
    if outcome == "contradicted" and doubted and not doubted.contradicts:
        outcome, reason = "inconclusive", f"{reason}; but {doubted.says}"
    return Verdict(
        **_head(figures, claim, server),
        verdict=outcome,
        estimate=_rounded(interval.estimate),
        low=_rounded(interval.low),
        high=_rounded(interval.high),
        level=interval.level,
        n=interval.n,
        reason=reason,
        caveat=doubted.says if doubted else None,
        blocks_needed=blocks_needed(interval, low, high) if outcome == "inconclusive" else None,
    )


def decide(interval: stats.Interval, low: float, high: float) -> tuple[Outcome, str]:
    """Return the verdict that an interval supports on "the value lies from low to high", and why.

    >>> from innolab.analysis.stats import Interval
    >>> decide(Interval(1.5, 1.4, 1.6, 5), 1.0, float("inf"))[0]
    'reproduced'
    >>> decide(Interval(1.5, 0.9, 1.6, 5), 1.0, float("inf"))[0]
    'inconclusive'
    """
    claimed = _range_text(low, high)
    if math.isnan(interval.low):
        return "inconclusive", "one valid replicate leaves no interval"
    found = _range_text(interval.low, interval.high)
    if low <= interval.low and interval.high <= high:
        return "reproduced", f"measured {found}, wholly within the claim's {claimed}"
    if interval.high < low or high < interval.low:
        return "contradicted", f"measured {found}, wholly outside the claim's {claimed}"
    return "inconclusive", f"measured {found}, partly within the claim's {claimed}"


def blocks_needed(interval: stats.Interval, low: float, high: float) -> int | None:
    """Return how many blocks would move an interval off the nearest bound, at the same spread.

    On logarithms where all is positive, as the interval was made. None where it has no width to
    judge by, or the estimate lies so near a bound that no such number helps.

    >>> from innolab.analysis.stats import Interval
    >>> blocks_needed(Interval(1.5, 0.9, 2.5, 3), 1.0, float("inf"))
    4
    """
    ends = [bound for bound in (low, high) if math.isfinite(bound)]
    if interval.n < 2 or not interval.low < interval.estimate < interval.high:
        return None
    scale = math.log if min(interval.low, interval.estimate, *ends) > 0 else float
    distance = min(abs(scale(interval.estimate) - scale(bound)) for bound in ends)
    half = (scale(interval.high) - scale(interval.low)) / 2
    spread = half * math.sqrt(interval.n) / stats.student_quantile(interval.level, interval.n - 1)
    for n in range(interval.n + 1, _MOST_BLOCKS + 1):
        if spread * stats.student_quantile(interval.level, n - 1) / math.sqrt(n) < distance:
            return n
    return None


def _estimate(claim: Claim, runs: RunSet) -> stats.Interval | None:
    measure, sides = claim.measure, claim.sides
    assert measure is not None
    if isinstance(measure, Comparison):
        top, bottom = runs.pairs(measure.metric, *sides)
        return stats.paired_ratio(top, bottom) if top else None
    values = [list(runs.values(measure.metric, **side).values()) for side in sides]
    if not all(values):
        return None
    if isinstance(measure, Largest):
        largest = max(map(max, values))
        return stats.Interval(largest, largest, largest, min(map(len, values)))
    return stats.arithmetic_mean(values[0])


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


def _not_run(figures: Mapping[str, Published], claim: Claim, server: str, reason: str) -> Verdict:
    return Verdict(
        **_head(figures, claim, server),
        verdict="not-run",
        estimate=None,
        low=None,
        high=None,
        level=stats.LEVEL,
        n=0,
        reason=reason,
    )


def _head(figures: Mapping[str, Published], claim: Claim, server: str) -> dict[str, Any]:
    value = published_value(figures, claim)
    return {
        "claim": claim.id,
        "server": server,
        "says": claim.says,
        "stands": claim.stands,
        "published": None if value is None else _rounded(value),
    }


def _rounded(value: float) -> float | None:
    """Six significant digits: more would differ in the last place from one CPU to the next."""
    return None if math.isnan(value) else float(f"{value:.{_DIGITS}g}")


def _range_text(low: float, high: float) -> str:
    if low == high:
        return f"{low:.4g}"
    if math.isinf(low):
        return f"at most {high:.4g}"
    if math.isinf(high):
        return f"at least {low:.4g}"
    return f"{low:.4g} to {high:.4g}"


def unsteady(sample: Sample) -> Doubted | None:
    """Doubt a comparison of windows that had not reached a steady state.

    For observations that have the metric `steady`: 1 where a window was, 0 where it was not.
    """
    measure = sample.claim.compare
    if measure is None:
        return None
    sides = {tuple(sorted(side.items())): side for side in sample.claim.sides}
    of = [
        row["steady"]
        for side in sides.values()
        for _, row in sample.runs.observed(**side)
        if "steady" in row and measure.metric in row
    ]
    drifting = sum(not reached for reached in of)
    return Doubted(f"{drifting} of {len(of)} windows were not steady") if drifting else None


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
            "which no factor explains"
        )

    return doubt
