"""How far the hosts of a fleet agree, claim by claim, and what a further host may find."""

import math
from collections.abc import Sequence

from innolab.analysis import claims_together
from innolab.analysis.claims import Largest
from innolab.analysis.claims_together import PooledClaim
from innolab.analysis.stats import Interval
from innolab.analysis.verdicts import Verdict
from innolab.base.language import text
from innolab.record.runs import RunSet
from innolab.report import record_tables
from innolab.report.display import Table
from innolab.report.summaries import as_text
from innolab.studies.study import Study


def agreement(study: Study, runs: RunSet, verdicts: Sequence[Verdict]) -> Table:
    """Return each claim's estimate on each host, and where a host like these would put it.

    Hosts that measured one block alone leave no interval, and say nothing of their own. Claims of
    a largest value are left out: such a value has none either.
    """
    letters = record_tables.letters(runs.runs)
    by_claim = {claim.id: claim for claim in study.claims()}
    rows = []
    for verdict in verdicts:
        measure = by_claim[verdict.claim].measure
        if measure is None or isinstance(measure, Largest):
            continue
        parts = [
            claims_together.part_of(
                letter,
                {**verdict.model_dump(), "reason": verdict.reason},
                by_claim[verdict.claim],
                _of(runs, member, verdict.server),
                study.published(),
                study.kind.units,
            )
            for member, letter in letters.items()
        ]
        found = claims_together.together(
            by_claim[verdict.claim], verdict.server, parts, study.published(), study.kind.units
        )
        rows.append(_row(found))
    return Table(rows)


def _of(runs: RunSet, member: str, server: str) -> RunSet:
    return runs.valid.where(lambda run: run.member == member and run.factors["server"] == server)


def _row(found: PooledClaim) -> dict[str, str]:
    each = [f"{part.report} {as_text(part.interval)}" for part in found.entered
            if part.interval]  # fmt: skip
    return {
        "claim": found.claim.id,
        "server": found.server,
        "each host": "; ".join(each) or _why_none(found),
        "between hosts": _between(found),
        "a host like these": _predicted(found),
    }


def _why_none(found: PooledClaim) -> str:
    """Return why no host has an interval: of the claim, or of the first host."""
    if all(part.interval is not None and part.interval.n < 2 for part in found.parts):
        return text("no host has two valid blocks")
    why_not = found.parts[0].why_not
    return why_not.shown() if why_not else ""


def _between(found: PooledClaim) -> str:
    """Return how much hosts differ beyond the noise of their blocks, as one standard deviation."""
    if found.pooled is None:
        return text("unknown")
    tau = found.pooled.tau
    return f"{math.exp(tau) - 1:.1%}" if found.on_logs else f"{tau:.3g}"


def _predicted(found: PooledClaim) -> str:
    within: Interval | None = found.pooled.predicted if found.pooled else None
    if within is None:
        return text("unknown: it takes three hosts with two valid blocks each")
    return text("{low:.3g} to {high:.3g}", low=within.low, high=within.high)
