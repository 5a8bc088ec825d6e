"""What the values of one claim say: an interval, an outcome, and what would decide it."""

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from innolab.analysis import acknowledged, censored, power, stats
from innolab.analysis.claims import Claim, Comparison, Holds, Largest, Proportion
from innolab.analysis.published import Published, published_value
from innolab.record.runs import RunSet

# How far beyond its bound the truth is taken to lie where a claim names no value: a tenth, which is
# what "about" means in this collection.
_NAMED = 1.1
Outcome = Literal["reproduced", "contradicted", "inconclusive", "withheld", "not-run"]
DECIDED: tuple[Outcome, ...] = ("reproduced", "contradicted")
EVERY: tuple[Outcome, ...] = (*DECIDED, "inconclusive")


class ClaimFinding(NamedTuple):
    """What the values of one claim say, before any doubt."""

    interval: stats.Interval
    outcome: Outcome
    reason: str
    blocks_needed: int | None = None
    needs: str | None = None
    power: float | None = None


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


def found(
    claim: Claim,
    holds: Holds,
    runs: RunSet,
    figures: Mapping[str, Published],
    units: Mapping[str, str],
    level: float,
) -> ClaimFinding | None:
    """Return what the values of a claim say; None where no run has them.

    Parameters
    ----------
    runs : the valid ones of one server
    figures : the published figures by id
    units : the unit of each metric; one that begins with "share" says that it is a share
    level : the coverage of the interval
    """
    measure, sides = claim.measure, claim.sides
    assert measure is not None
    published = published_value(figures, claim)
    low, high = holds.bounds(published)
    claimed = claimed_text(holds, published)
    if isinstance(measure, Comparison):
        top, bottom = runs.pairs(measure.metric, *sides)
        if not top:
            return None
        if min(*top, *bottom) <= 0:
            nothing = stats.Interval(math.nan, math.nan, math.nan, len(top), level)
            says = f"{measure.metric} is 0 in a run, which leaves no ratio"
            return ClaimFinding(nothing, "inconclusive", says, None, "runs in which it is not 0")
        ratios = [a / b for a, b in zip(top, bottom, strict=True)]
        return _by_logs(ratios, low, high, claimed, published, level)
    by_block = [runs.values(measure.metric, **side) for side in sides]
    values = [list(of.values()) for of in by_block]
    if not all(values):
        return None
    if isinstance(measure, Largest):
        return by_largest(values, high, level)
    if isinstance(measure, Proportion):
        return by_proportion(values[0], low, high, claimed, level)
    if measure.censored_by:
        known = runs.values(measure.censored_by, **sides[0])
        is_found = [bool(known[block]) for block in by_block[0]]
        if not all(is_found):
            return _by_censored(values[0], is_found, (low, high), claimed, level)
    if is_share(units.get(measure.metric, "")) or min(values[0]) <= 0:
        return _by_interval(mean(values[0], units[measure.metric], level), low, high, claimed)
    return _by_logs(values[0], low, high, claimed, published, level)


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
) -> ClaimFinding:
    """Judge values whose noise is multiplicative: a ratio in each block, or a positive metric."""
    ones = [1.0] * len(values)
    interval = stats.robust_ratio(values, ones, level)
    outcome, reason = decide(interval, low, high, claimed)
    n, spread = interval.n, power.spread(values, ones)
    if n < 2:
        return ClaimFinding(interval, outcome, reason, None, "more blocks")
    truth = named(low, high, published)
    found = None if truth is None else power.power(spread, n, low, high, truth, level)
    if outcome in DECIDED:
        return ClaimFinding(interval, outcome, reason, power=found)
    blocks = power.blocks_for(spread, low, high, interval.estimate, level=level, least=n + 1)
    return ClaimFinding(interval, outcome, reason, blocks, _needs(blocks), found)


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


def _by_interval(interval: stats.Interval, low: float, high: float, claimed: str) -> ClaimFinding:
    """Judge a mean on the plain scale."""
    outcome, reason = decide(interval, low, high, claimed)
    if outcome in DECIDED:
        return ClaimFinding(interval, outcome, reason)
    if math.isnan(interval.low):
        return ClaimFinding(interval, outcome, reason, None, "more blocks")
    blocks = blocks_needed(interval, low, high)
    return ClaimFinding(interval, outcome, reason, blocks, _needs(blocks))


def _needs(blocks: int | None) -> str:
    if blocks is None:
        return "steadier runs: more blocks alone would not do"
    return f"about {blocks} blocks"


def by_largest(values: Sequence[Sequence[float]], high: float, level: float) -> ClaimFinding:
    """Judge a largest value alone: runs say nothing of how far those not made may go.

    One run above the bound refutes the claim. Where there is none, the binomial says how many of
    further runs may be.
    """
    largest, n = max(map(max, values)), min(map(len, values))
    interval = stats.Interval(largest, math.nan, math.nan, n, level)
    measured = f"the largest of {sum(map(len, values))} values is {largest:.4g}"
    if largest > high:
        says = f"{measured}, above the claim's at most {high:.4g}: one such value refutes it"
        return ClaimFinding(interval, "contradicted", says)
    unseen = 1 - (1 - level) ** (1 / n)
    return ClaimFinding(
        interval,
        "reproduced",
        f"{measured}, within the claim's at most {high:.4g}; a maximum has no interval, and up to "
        f"{unseen:.0%} of further runs of an arm may go above it (at {level:.3g})",
    )


def by_proportion(
    values: Sequence[float], low: float, high: float, claimed: str, level: float
) -> ClaimFinding:
    """Judge the share of runs in which something happened, by an interval that is never too narrow.

    Runs in which nothing happened do not show that it cannot: the interval says how often it may.
    """
    happened = sum(value > 0 for value in values)
    interval = acknowledged.share(happened, len(values), level)
    outcome, reason = decide(interval, low, high, claimed)
    needs = None if outcome in DECIDED else "more blocks"
    return ClaimFinding(
        interval, outcome, f"in {happened} of {len(values)} runs; {reason}", None, needs
    )


def _by_censored(
    values: Sequence[float],
    found: Sequence[bool],
    holds: tuple[float, float],
    claimed: str,
    level: float,
) -> ClaimFinding:
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
        return ClaimFinding(
            interval, "inconclusive", reason, None if shown else least, f"{least} blocks or more"
        )
    outcome, reason = decide(interval, *holds, claimed)
    needs = None if outcome in DECIDED else "runs that show it: more blocks alone may not do"
    return ClaimFinding(interval, outcome, f"{said}; {reason}", None, needs)


def claimed_text(holds: Holds, published: float | None) -> str:
    """Return what a claim says of a value, in words.

    >>> claimed_text(Holds(at_most=1, margin=0.05), None)
    'at most 1 with a margin of 5 %'
    """
    stated = _range_text(*holds.stated(published))
    return f"{stated} with a margin of {100 * holds.margin:.3g} %" if holds.margin else stated


def _range_text(low: float, high: float) -> str:
    if low == high:
        return f"{low:.4g}"
    if math.isinf(low):
        return f"at most {high:.4g}"
    if math.isinf(high):
        return f"at least {low:.4g}"
    return f"{low:.4g} to {high:.4g}"
