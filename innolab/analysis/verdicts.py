"""Verdicts: what recorded runs say of claims, and what may make an estimate doubtful."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic import BaseModel

from innolab.analysis import drift, outcomes, stats
from innolab.analysis.claims import Claim, Stands, Where
from innolab.analysis.doubts import Doubt, Doubted, Sample
from innolab.analysis.likelihood import Leaning
from innolab.analysis.outcomes import DECIDED, ClaimFinding, Outcome
from innolab.analysis.published import Published, published_value
from innolab.base.language import Message, joined, message
from innolab.record.run import Level, Run, arm_text
from innolab.record.runs import RunSet
from innolab.record.text_types import Said, Text

_DIGITS = 6
WhyLacking = Callable[[str, Where], str | None]


class Verdict(BaseModel):
    """What the runs of one server say of one claim. An entry of verdicts.json.

    Attributes
    ----------
    claim, says, stands : the claim's id, its sentence, and how its source stands by it
    server : the build
    source : what the original states, in our words, and where
    verdict : what the runs say of the claim
    published : the published value, if there is one
    n : the values that the estimate is made of, one a block
    reason : why this verdict
    estimate, low, high : an end, or the estimate itself, is None where it is not known
    level : the coverage of the interval
    looks : how often the runs were judged, this time included
    power : how likely such runs find the difference that the claim names; None where not computed
    holds_probability : how likely the claim holds, by the distribution of the interval and if
        beforehand every logarithm of the value was equally likely. None if the verdict is withheld
        or nothing was estimated, if a doubt bars the estimate, and for a largest value, a share of
        runs and what some runs may not show, as a knee
    leaning : what that says of a verdict that the interval leaves open; `at the edge` if the
        interval is no wider than the claim's margin, so that more blocks hardly decide it
    caveat : why a decided verdict is to be read with care
    blocks_needed : how many blocks would decide it at the spread that was found; None where it is
        decided, or where no number that anybody would wait for does
    needs : what would decide it; None if it is decided or nothing was estimated
    """

    claim: Text
    server: Text
    says: Text
    stands: Stands
    source: Text | None = None
    verdict: Outcome
    published: float | None
    estimate: float | None
    low: float | None
    high: float | None
    level: float
    n: int
    looks: int = 1
    power: float | None = None
    holds_probability: float | None = None
    leaning: Leaning | None = None
    reason: Said
    caveat: Said | None = None
    blocks_needed: int | None = None
    needs: Said | None = None


class FailedControl(NamedTuple):
    """A control that failed: what was measured there supports no verdict.

    Attributes
    ----------
    says : why
    server : the server that it concerns; None for all
    at : the levels of factors that it concerns; none of them for all arms
    is_drift : whether the machine became faster or slower, which says nothing of what held still
    """

    says: Message
    server: str | None = None
    at: Mapping[str, Level] = {}
    is_drift: bool = False


@dataclass(frozen=True)
class _Judging:
    """What every claim of a report is judged by."""

    figures: Mapping[str, Published]
    units: Mapping[str, str]
    doubts: Sequence[Doubt]
    missing_devices: Mapping[str, str]
    why_lacking: WhyLacking
    failed_controls: Sequence[FailedControl]
    level: float
    looks: int


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
    why_lacking: WhyLacking = lambda _server, _at: None,
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
    why_lacking : takes a server and levels, and returns why it cannot have them, or None
    failed_controls : what makes the verdicts concerned withheld
    level : the coverage of every interval
    looks : how often the runs were judged, this time included
    """
    by = _Judging(
        figures, units, doubts, missing_devices or {}, why_lacking, failed_controls, level, looks
    )
    result = []
    for server in servers:
        of_server = runs.where(_on(server))
        if differing := of_server.undeclared_differences(declared):
            reason = message(
                "arms differ beside their factors, in {names}", names=", ".join(differing)
            )
            result += [_not_run(claim, server, reason, by) for claim in claims]
            continue
        result += [_judge(claim, server, of_server, by) for claim in claims]
    for server, why in (unavailable or {}).items():
        reason = message("the build is not available: {why}", why=why)
        result += [_not_run(claim, server, reason, by) for claim in claims]
    return result


def _on(server: str) -> Callable[[Run], bool]:
    return lambda run: run.factors["server"] == server


def _judge(claim: Claim, server: str, runs: RunSet, by: _Judging) -> Verdict:
    if claim.holds is None:
        return _not_run(claim, server, Message(str(claim.not_measured)), by)
    found = outcomes.finding(claim, claim.holds, runs.valid, by.figures, by.units, by.level)
    if found is None:
        return _not_run(claim, server, _why_nothing(claim, server, runs, by), by)
    doubted = [d for doubt in by.doubts if (d := doubt(Sample(claim, runs.valid)))]
    cares = [d.says for d in doubted if not d.bars]
    cares += [Message(claim.care)] if claim.care else []
    failed = _concerned(by.failed_controls, claim, server, runs)
    drifting = [control for control in failed if control.is_drift]
    if drifting and (still := drift.held_still(claim, runs.valid)):
        failed = [control for control in failed if not control.is_drift]
        cares += _despite(drifting, still)
    found = _withheld(_doubted(found, doubted), failed)
    return verdict_of(
        claim,
        server,
        found,
        by.figures,
        level=by.level,
        looks=by.looks,
        cares=cares if found.outcome in DECIDED else (),
    )


def verdict_of(
    claim: Claim,
    server: str,
    found: ClaimFinding | Message,
    figures: Mapping[str, Published],
    *,
    level: float,
    looks: int = 1,
    cares: Sequence[Message] = (),
) -> Verdict:
    """Return a verdict as it is recorded.

    Parameters
    ----------
    found : what the values say, or why there are none
    cares : why it is to be read with care
    """
    if isinstance(found, Message):
        found = ClaimFinding(stats.Interval(math.nan, math.nan, math.nan, 0), "not-run", found)
    published = published_value(figures, claim)
    return Verdict(
        claim=claim.id,
        server=server,
        says=claim.says,
        stands=claim.stands,
        source=claim.source,
        verdict=found.outcome,
        published=None if published is None else rounded(published),
        estimate=rounded(found.interval.estimate),
        low=rounded(found.interval.low),
        high=rounded(found.interval.high),
        level=level,
        n=found.interval.n,
        looks=looks,
        power=found.power and round(found.power, 2),
        holds_probability=found.likelihood.probability,
        leaning=found.likelihood.leaning,
        reason=found.reason,
        caveat=joined(cares) if cares else None,
        blocks_needed=found.blocks_needed,
        needs=found.needs,
    )


def _doubted(found: ClaimFinding, doubted: Sequence[Doubted]) -> ClaimFinding:
    """Return a finding as inconclusive where a doubt does not allow its outcome."""
    barring = [doubt for doubt in doubted if found.outcome in doubt.bars]
    if not barring:
        return found
    says = [doubt.says for doubt in barring]
    needs = [doubt.needs for doubt in barring if doubt.needs]
    reason = joined([*says, message("otherwise: {reason}", reason=found.reason)])
    return ClaimFinding(
        found.interval, "inconclusive", reason, None, joined(needs or says), found.power
    )


def _withheld(found: ClaimFinding, failed: Sequence[FailedControl]) -> ClaimFinding:
    if not failed:
        return found
    says = joined([control.says for control in failed])
    return ClaimFinding(found.interval, "withheld", says, power=found.power)


def _despite(drifting: Sequence[FailedControl], still: Sequence[stats.Interval]) -> list[Message]:
    """Return which drifts of the machine a claim's own values did not follow."""
    low, high = min(one.low for one in still), max(one.high for one in still)
    drifts = [control.says for control in drifting]
    if low == high:
        return [message("{drift}, these values not at all", drift=drift) for drift in drifts]
    return [
        message(
            "{drift}, these values by {low:+.1%} to {high:+.1%}", drift=drift, low=low, high=high
        )
        for drift in drifts
    ]


def _concerned(
    failed: Sequence[FailedControl], claim: Claim, server: str, runs: RunSet
) -> list[FailedControl]:
    """Return the failed controls that concern an arm of a claim.

    A level of a within-factor that a claim does not name concerns it: its metric is of all levels.
    """
    if not failed:
        return []
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


def _why_nothing(claim: Claim, server: str, runs: RunSet, by: _Judging) -> Message:
    """Return why the runs support no verdict: a device not there, a failure, an invalid check."""
    if why := next(filter(None, (by.why_lacking(server, side) for side in claim.sides)), None):
        return Message(why)
    of = [run for side in claim.sides for run in runs.runs if _is_of(run, side, runs)]
    for run in of:
        if not run.valid:
            why = run.error or next(c.says for c in run.checks if c.result == "invalid")
            return message("too few valid runs of {arm}: {why}", arm=arm_text(run), why=why)
    for device, why in by.missing_devices.items():
        if any(side.get("device") == device for side in claim.sides):
            return message("{device} did not run: {why}", device=device, why=why)
    if claim.absent:
        return Message(claim.absent)
    if of:
        return message("no run of the arms that it compares has the metric")
    return message("no run of the arms that it compares")


def _is_of(run: Run, side: Where, runs: RunSet) -> bool:
    return all(
        run.factors[name] == level for name, level in side.items() if name not in runs.within
    )


def _not_run(claim: Claim, server: str, reason: Message, by: _Judging) -> Verdict:
    return verdict_of(claim, server, reason, by.figures, level=by.level, looks=by.looks)


def rounded(value: float) -> float | None:
    """Six significant digits: more would differ in the last place from one CPU to the next."""
    return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
