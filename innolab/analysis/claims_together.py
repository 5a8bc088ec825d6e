"""What several reports say of a claim together: which of them enter, and what the pool decides."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from innolab.analysis import meta_analysis, outcomes
from innolab.analysis.claims import Claim, Comparison, Largest, Proportion, Quantity
from innolab.analysis.likelihood import NOT_KNOWN, Likelihood
from innolab.analysis.meta_analysis import Pooled
from innolab.analysis.outcomes import DECIDED, EVERY, Outcome
from innolab.analysis.published import Published, published_value
from innolab.analysis.stats import LEVEL, Interval
from innolab.base.language import Message, message
from innolab.record.runs import RunSet

# Of a claim on which a report has no verdict at all.
NONE = "none"


class Part(NamedTuple):
    """What one report has of a claim on a server.

    Attributes
    ----------
    report : its name
    verdict : its entry in verdicts.json; empty where it has none
    interval : of all its valid blocks, at one level for all reports; None if there is nothing
    why_not : why it does not enter the pool; None where it does
    is_students : whether its interval is Student's; else it is an exact one of counts
    """

    report: str
    verdict: Mapping[str, Any]
    interval: Interval | None
    why_not: Message | None
    is_students: bool

    @property
    def outcome(self) -> str:
        """Return the report's verdict in a word."""
        return str(self.verdict.get("verdict", NONE))


class PooledClaim(NamedTuple):
    """A claim on a server over several reports.

    Attributes
    ----------
    on_logs : whether logarithms are pooled
    parts : of each report, in their order
    pooled : None where fewer than two reports can be pooled
    outcome, reason : what the pooled interval says of the claim; `not-run` if there is none
    bounds : the lowest and the highest value for which the claim is true
    published : the published value, if there is one
    likelihood : how likely the claim holds by the pooled interval
    """

    claim: Claim
    server: str
    on_logs: bool
    parts: Sequence[Part]
    pooled: Pooled | None
    outcome: Outcome
    reason: Message
    bounds: tuple[float, float]
    published: float | None
    likelihood: Likelihood = NOT_KNOWN

    @property
    def entered(self) -> list[Part]:
        """Return the parts that are pooled, or would be if there were two."""
        return [part for part in self.parts if part.why_not is None]

    @property
    def agree(self) -> bool:
        """Return whether all reports that decided the claim decided it in the same way."""
        return len({part.outcome for part in self.parts} & set(DECIDED)) < len(DECIDED)

    def weight(self, part: Part) -> float | None:
        """Return the share of a report in the pooled estimate; None where it has none."""
        if self.pooled is None or part.why_not is not None:
            return None
        return self.pooled.weights[self.entered.index(part)]


def part_of(
    report: str,
    verdict: Mapping[str, Any],
    claim: Claim,
    runs: RunSet,
    figures: Mapping[str, Published],
    units: Mapping[str, str],
) -> Part:
    """Return what a report has of a claim on a server.

    Its interval is of all valid blocks that it has in the end, at `LEVEL`: those of verdicts are of
    the look that decided, at levels which differ from plan to plan.

    Parameters
    ----------
    runs : the report's valid runs of the server
    figures : the published figures by id
    units : the unit of each metric
    """
    known = verdict.get("verdict")
    found = None
    if claim.holds is not None and known in (*EVERY, "withheld"):
        found = outcomes.finding(claim, claim.holds, runs, figures, units, LEVEL)
    interval = found.interval if found and math.isfinite(found.interval.estimate) else None
    students = _is_students(claim, runs)
    return Part(report, verdict, interval, _why_not(claim, verdict, interval), students)


def _why_not(claim: Claim, verdict: Mapping[str, Any], interval: Interval | None) -> Message | None:
    if not verdict:
        return message("the report has no such claim or server")
    if verdict["verdict"] in ("withheld", "not-run"):
        outcome = verdict["verdict"].replace("-", " ")
        return message("{outcome}: {reason}", outcome=outcome, reason=verdict["reason"])
    if isinstance(claim.measure, Largest):
        return message("a largest value has no interval")
    if interval is None:
        return message("its runs give no estimate")
    if interval.n < 2:
        return message("one block leaves no interval")
    if not (math.isfinite(interval.low) and math.isfinite(interval.high)):
        return message("its interval has no known end")
    return None


def together(
    claim: Claim,
    server: str,
    parts: Sequence[Part],
    figures: Mapping[str, Published],
    units: Mapping[str, str],
    least: int = meta_analysis.LEAST,
) -> PooledClaim:
    """Return what several reports say of a claim on a server together.

    Ratios and positive values are pooled as logarithms, shares of time and of runs as they are.

    Parameters
    ----------
    least : how many reports with an estimate it takes
    """
    if claim.holds is None or claim.measure is None:
        why = Message(claim.not_measured or claim.absent or "not measured")
        ends = -math.inf, math.inf
        return PooledClaim(claim, server, False, parts, None, "not-run", why, ends, None)
    entered = [p for p in parts if p.why_not is None]
    intervals = [p.interval for p in entered if p.interval is not None]
    is_share = isinstance(claim.measure, Proportion) or (
        not isinstance(claim.measure, Comparison)
        and outcomes.is_share(units.get(claim.measure.metric, ""))
    )
    on_logs = not is_share and all(one.low > 0 for one in intervals)
    published = published_value(figures, claim)
    bounds = claim.holds.bounds(published)
    if len(intervals) < least:
        counted = message(
            "{n} of {total} reports can enter a meta-analysis, which takes {least}",
            n=len(intervals) or "none",
            total=len(parts),
            least=least,
        )
        return PooledClaim(
            claim, server, on_logs, parts, None, "not-run", counted, bounds, published
        )
    found = meta_analysis.pooled(
        intervals,
        on_logs=on_logs,
        is_students=[p.is_students for p in entered],
        limits=_limits(intervals, is_share),
    )
    judged = outcomes.judged(found.interval, claim.holds, published, on_logs=on_logs)
    likely = judged.likelihood if outcomes.has_likelihood(claim) else NOT_KNOWN
    return PooledClaim(
        claim, server, on_logs, parts, found, judged.outcome, judged.reason, bounds, published,
        likely,
    )  # fmt: skip


def _limits(intervals: Sequence[Interval], is_share: bool) -> tuple[float, float]:
    """Return the least and the greatest value of a metric, by what reports have of it."""
    low = 0.0 if all(one.low >= 0 for one in intervals) else -math.inf
    return low, 1.0 if is_share and all(one.high <= 1 for one in intervals) else math.inf


def _is_students(claim: Claim, runs: RunSet) -> bool:
    """Return whether a claim's interval is Student's; else it is an exact one of counts.

    That of a value which some runs do not show is of signs, as `outcomes.finding` makes it.
    """
    measure = claim.measure
    if isinstance(measure, Quantity) and measure.censored_by:
        return all(runs.values(measure.censored_by, **claim.sides[0]).values())
    return isinstance(measure, Comparison | Quantity)
