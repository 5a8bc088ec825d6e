"""What `innolab pool --json` prints; as `innolab.cli.documents`, whose rules hold here."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pydantic import BaseModel

if TYPE_CHECKING:
    from innolab.analysis.claims_together import Part, PooledClaim
    from innolab.analysis.stats import Interval
    from innolab.compare.meta import Pool


class PooledReport(BaseModel):
    """A report that is pooled; another may have the same version, but not the same name."""

    name: str
    folder: str
    effort: str | None


class PooledDifference(BaseModel):
    """In what reports differ beside what was measured; `values` are of each report, in order."""

    kind: str
    name: str
    where: str
    values: list[str]


class PooledPart(BaseModel):
    """What one report has of a claim; no weight and a `why_not` where it is not pooled."""

    report: str
    verdict: str
    estimate: float | None
    low: float | None
    high: float | None
    level: float | None
    blocks: int | None
    weight_share: float | None
    why_not: str | None


class PooledTogether(BaseModel):
    """A claim on a server by several reports; without an estimate where fewer than two pool."""

    claim: str
    server: str
    scale: str
    reports_pooled: int
    verdict: str
    reason: str
    estimate: float | None
    low: float | None
    high: float | None
    level: float | None
    predicted_low: float | None
    predicted_high: float | None
    tau: float | None
    heterogeneity_share: float | None
    bound_low: float | None
    bound_high: float | None
    published: float | None
    reports: list[PooledPart]


class PooledReports(BaseModel):
    """What `innolab pool` says."""

    study: str
    summary: str
    can_say: str
    reports: list[PooledReport]
    differences: list[PooledDifference]
    claims: list[PooledTogether]


def document(found: Pool) -> PooledReports:
    """Return several reports as one."""
    return PooledReports(
        study=found.study.name,
        summary=found.summary,
        can_say=found.can_say,
        reports=[
            PooledReport(
                name=member.name,
                folder=str(member.folder),
                effort=member.plan.parameters.get("effort"),
            )
            for member in found.members
        ],
        differences=[
            PooledDifference(kind=one.kind, name=one.name, where=one.where, values=list(one.values))
            for one in found.differences
        ],
        claims=[_claim(row) for row in found.claims],
    )


def _claim(row: PooledClaim) -> PooledTogether:
    interval = row.pooled.interval if row.pooled else None
    predicted = row.pooled.predicted if row.pooled else None
    return PooledTogether(
        claim=row.claim.id,
        server=row.server,
        scale="log" if row.on_logs else "plain",
        reports_pooled=len(row.entered),
        verdict=row.outcome,
        reason=row.reason,
        **_ends(interval),
        level=interval.level if interval else None,
        predicted_low=predicted.low if predicted else None,
        predicted_high=predicted.high if predicted else None,
        tau=row.pooled.tau if row.pooled else None,
        heterogeneity_share=row.pooled.i2 if row.pooled else None,
        bound_low=_finite(row.bounds[0]),
        bound_high=_finite(row.bounds[1]),
        published=row.published,
        reports=[_part(row, part) for part in row.parts],
    )


def _part(row: PooledClaim, part: Part) -> PooledPart:
    return PooledPart(
        report=part.report,
        verdict=part.outcome,
        **_ends(part.interval),
        level=part.interval.level if part.interval else None,
        blocks=part.interval.n if part.interval else None,
        weight_share=row.weight(part),
        why_not=part.why_not,
    )


def _ends(interval: Interval | None) -> dict[str, float | None]:
    """Return estimate and ends, null where one is not known."""
    if interval is None:
        return {"estimate": None, "low": None, "high": None}
    return {name: _finite(getattr(interval, name)) for name in ("estimate", "low", "high")}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
