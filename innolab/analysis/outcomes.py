"""What the values of one claim say: an interval, an outcome, and what would decide it."""

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from innolab.analysis import censored, power, stats
from innolab.analysis.claims import Claim, Comparison, Holds, Largest, Proportion, Quantity
from innolab.analysis.likelihood import NOT_KNOWN, Likelihood, likelihood
from innolab.analysis.published import Published, published_value
from innolab.base.language import Message, joined, message
from innolab.record.runs import RunSet

# How far beyond its bound the truth is taken to be if a claim names no value: a tenth, which is
# what "about" means in this collection.
_NAMED = 1.1
Outcome = Literal["reproduced", "contradicted", "inconclusive", "withheld", "not-run"]
DECIDED: tuple[Outcome, ...] = ("reproduced", "contradicted")
EVERY: tuple[Outcome, ...] = (*DECIDED, "inconclusive")


class ClaimFinding(NamedTuple):
    """What the values of one claim say, before any doubt."""

    interval: stats.Interval
    outcome: Outcome
    reason: Message
    blocks_needed: int | None = None
    needs: Message | None = None
    power: float | None = None
    likelihood: Likelihood = NOT_KNOWN


def decide(
    interval: stats.Interval, low: float, high: float, claimed: Message | None = None
) -> tuple[Outcome, Message]:
    """Return the verdict that an interval supports on "the value is from low to high", and why.

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
        return "inconclusive", message("one valid replicate leaves no interval")
    both = {"measured": _range_text(interval.low, interval.high), "claimed": claimed}
    if low <= interval.low and interval.high <= high:
        return "reproduced", message(
            "measured {measured}, wholly within the claim's {claimed}", **both
        )
    if interval.high < low or high < interval.low:
        return "contradicted", message(
            "measured {measured}, wholly outside the claim's {claimed}", **both
        )
    return "inconclusive", message(
        "measured {measured}, partly within the claim's {claimed}", **both
    )


def blocks_needed(interval: stats.Interval, low: float, high: float) -> int | None:
    """Return how many blocks would move a mean's interval off the nearest bound, at its spread.

    None where it has no width to judge by, or the estimate is so near a bound that no such
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


def finding(
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
            says = message("{metric} is 0 in a run, which leaves no ratio", metric=measure.metric)
            needs = message("runs in which it is not 0")
            return ClaimFinding(nothing, "inconclusive", says, None, needs)
        ratios = [a / b for a, b in zip(top, bottom, strict=True)]
        return _by_logs(ratios, holds, published, level)
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
        found = _by_interval(mean(values[0], units[measure.metric], level), holds, published)
    else:
        found = _by_logs(values[0], holds, published, level)
    return found if has_likelihood(claim) else found._replace(likelihood=NOT_KNOWN)


def has_likelihood(claim: Claim) -> bool:
    """Return whether an interval says how likely a claim holds: that of a ratio or of a mean.

    A largest value has no interval. Blocks that all show a knee do not say how often one is not
    shown. Of a share of runs that may happen at all, a flat prior alone would say that it does.
    """
    measure = claim.measure
    if isinstance(measure, Quantity):
        return not measure.censored_by
    return isinstance(measure, Comparison)


def is_share(unit: str) -> bool:
    """Return whether a metric of this unit is a share, whose mean is judged on the plain scale."""
    return unit.startswith("share")


def mean(values: Sequence[float], unit: str, level: float = stats.LEVEL) -> stats.Interval:
    """Return the mean of a metric with an interval of values that the metric can have.

    That of shares is arithmetic and is within 0 and 1. Other positive values have their
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
    values: Sequence[float], holds: Holds, published: float | None, level: float
) -> ClaimFinding:
    """Judge values whose noise is multiplicative: a ratio in each block, or a positive metric."""
    ones, (low, high) = [1.0] * len(values), holds.bounds(published)
    interval = stats.robust_ratio(values, ones, level)
    found = judged(interval, holds, published, on_logs=True)
    n, spread = interval.n, power.spread(values, ones)
    if n < 2:
        return found._replace(needs=message("more blocks"))
    if (truth := named(low, high, published)) is not None:
        found = found._replace(power=power.power(spread, n, low, high, truth, level))
    if found.outcome in DECIDED:
        return found
    blocks = power.blocks_for(spread, low, high, interval.estimate, level=level, least=n + 1)
    return found._replace(blocks_needed=blocks, needs=_needs(blocks))


def judged(
    interval: stats.Interval, holds: Holds, published: float | None, *, on_logs: bool
) -> ClaimFinding:
    """Return what an interval says of a claim, and how likely the claim holds by it.

    Parameters
    ----------
    on_logs : whether the noise is multiplicative, so that the interval is Student's on logarithms
    """
    bounds = holds.bounds(published)
    outcome, reason = decide(interval, *bounds, claimed_text(holds, published))
    likely = likelihood(
        interval, *bounds, holds.edge, on_logs=on_logs, is_open=outcome not in DECIDED
    )
    return ClaimFinding(interval, outcome, reason, likelihood=likely)


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


def _by_interval(interval: stats.Interval, holds: Holds, published: float | None) -> ClaimFinding:
    """Judge a mean on the plain scale."""
    found = judged(interval, holds, published, on_logs=False)
    if found.outcome in DECIDED:
        return found
    if math.isnan(interval.low):
        return found._replace(needs=message("more blocks"))
    blocks = blocks_needed(interval, *holds.bounds(published))
    return found._replace(blocks_needed=blocks, needs=_needs(blocks))


def _needs(blocks: int | None) -> Message:
    if blocks is None:
        return message("steadier runs: more blocks alone would not do")
    return message("about {n} blocks", n=blocks)


def by_largest(values: Sequence[Sequence[float]], high: float, level: float) -> ClaimFinding:
    """Judge a largest value alone: runs say nothing of how far those not made may go.

    One run above the bound refutes the claim. Where there is none, the binomial says how many of
    further runs may be.
    """
    largest, n = max(map(max, values)), min(map(len, values))
    interval = stats.Interval(largest, math.nan, math.nan, n, level)
    measured = {"n": sum(map(len, values)), "value": largest, "high": high}
    if largest > high:
        says = message(
            "the largest of {n} values is {value:.4g}, above the claim's at most {high:.4g}: "
            "one such value refutes it",
            **measured,
        )
        return ClaimFinding(interval, "contradicted", says)
    within = message(
        "the largest of {n} values is {value:.4g}, within the claim's at most {high:.4g}",
        **measured,
    )
    care = message(
        "a maximum has no interval, and up to {share:.0%} of further runs of an arm may go above "
        "it (at {level:.3g})",
        share=1 - (1 - level) ** (1 / n),
        level=level,
    )
    return ClaimFinding(interval, "reproduced", joined([within, care]))


def by_proportion(
    values: Sequence[float], low: float, high: float, claimed: Message, level: float
) -> ClaimFinding:
    """Judge the share of runs in which something happened, by an interval that is never too narrow.

    Runs in which nothing happened do not show that it cannot: the interval says how often it may.
    """
    happened = sum(value > 0 for value in values)
    interval = stats.share(happened, len(values), level)
    outcome, reason = decide(interval, low, high, claimed)
    needs = None if outcome in DECIDED else message("more blocks")
    counted = message("in {n} of {total} runs", n=happened, total=len(values))
    return ClaimFinding(interval, outcome, joined([counted, reason]), None, needs)


def _by_censored(
    values: Sequence[float],
    found: Sequence[bool],
    holds: tuple[float, float],
    claimed: Message,
    level: float,
) -> ClaimFinding:
    """Judge the median of values of which some were not found and are known to be larger.

    With few runs the sign test has no interval, and decides nothing: even if half of all runs had
    the value where the claim sees it, three out of three would miss it in one case of eight.
    """
    n, least, known = len(values), censored.least_runs(level), sum(found)
    interval = censored.median(values, found, level)
    beyond = min(value for value, is_found in zip(values, found, strict=True) if not is_found)
    if known:
        counted = message(
            "found in {known} of {n} runs, in the others beyond {beyond:.4g}, if at all",
            known=known,
            n=n,
            beyond=beyond,
        )
    else:
        counted = message(
            "found in none of {n} runs: beyond {beyond:.4g}, if at all", n=n, beyond=beyond
        )
    if math.isnan(interval.low):
        if not known:
            interval = interval._replace(low=min(values))
        too_few = message(
            "{n} runs at least decide a median at a level of {level:.3g}", n=least, level=level
        )
        needs = message("{n} blocks or more", n=least)
        blocks = None if known else least
        return ClaimFinding(interval, "inconclusive", joined([counted, too_few]), blocks, needs)
    outcome, reason = decide(interval, *holds, claimed)
    lacking = message("runs that show it: more blocks alone may not do")
    needs_more = None if outcome in DECIDED else lacking
    return ClaimFinding(interval, outcome, joined([counted, reason]), None, needs_more)


def claimed_text(holds: Holds, published: float | None) -> Message:
    """Return what a claim says of a value.

    >>> str(claimed_text(Holds(at_most=1, margin=0.05), None))
    'at most 1 with a margin of 5 %'
    """
    stated = _range_text(*holds.stated(published))
    if not holds.margin:
        return stated
    return message("{range} with a margin of {n:.3g} %", range=stated, n=100 * holds.margin)


def _range_text(low: float, high: float) -> Message:
    if low == high:
        return message("{low:.4g}", low=low)
    if math.isinf(low):
        return message("at most {high:.4g}", high=high)
    if math.isinf(high):
        return message("at least {low:.4g}", low=low)
    return message("{low:.4g} to {high:.4g}", low=low, high=high)
