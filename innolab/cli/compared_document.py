"""What `innolab compare --json` prints; as `innolab.cli.documents`, whose rules hold here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

if TYPE_CHECKING:
    from innolab.analysis.claims_together import Part, PooledClaim
    from innolab.analysis.stats import Interval
    from innolab.compare.compare import ReportComparison


class ComparedReport(BaseModel):
    """A report that is compared; another may have the same version, but not the same name."""

    name: str
    folder: str
    effort: str | None


class ComparedDifference(BaseModel):
    """In what reports differ besides what was measured; a null server is all servers.

    `values` are of each report, in order; `first` and `second` of the first two.
    """

    kind: str
    name: str
    first: str
    second: str
    values: list[str]
    server: str | None
    where: str


class ComparedRatio(BaseModel):
    """A metric of one arm: a report's over the first one's, with its interval."""

    arm: str
    metric: str
    report: str
    estimate: float
    low: float | None
    high: float | None
    level: float
    differs: bool


class ComparedVerdict(BaseModel):
    """A verdict with its interval, as one report has it."""

    verdict: str
    estimate: float | None
    low: float | None
    high: float | None


class ComparedVerdicts(BaseModel):
    """A claim on a server; `may_be_explained_by` has places in `differences`, from 0."""

    claim: str
    server: str
    first: ComparedVerdict
    second: ComparedVerdict
    reports: list[ComparedVerdict]
    same: bool
    turned: bool
    intervals_overlap: bool | None
    may_be_explained_by: list[int]


class ComparedPart(BaseModel):
    """What one report has of a claim by all its blocks; no weight and a `why_not` if left out."""

    report: str
    verdict: str
    estimate: float | None
    low: float | None
    high: float | None
    level: float | None
    blocks: int | None
    weight_share: float | None
    why_not: str | None


class ComparedTogether(BaseModel):
    """A claim on a server by the meta-analysis; without an estimate if too few reports enter."""

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
    reports: list[ComparedPart]


class Compared(BaseModel):
    """What `innolab compare` says."""

    study: str
    first: str
    second: str
    summary: str
    can_say: str
    reports: list[ComparedReport]
    differences: list[ComparedDifference]
    ratios: list[ComparedRatio]
    verdicts: list[ComparedVerdicts]
    claims: list[ComparedTogether]


def document(comparison: ReportComparison) -> Compared:
    """Return reports side by side."""
    names = [member.name for member in comparison.members]
    return Compared(
        study=comparison.study.name,
        first=names[0],
        second=names[1],
        summary=comparison.summary,
        can_say=comparison.can_say,
        reports=[
            ComparedReport(
                name=member.name,
                folder=str(member.folder),
                effort=member.plan.parameters.get("effort"),
            )
            for member in comparison.members
        ],
        differences=[
            ComparedDifference(
                kind=one.kind, name=one.name, first=one.values[0], second=one.values[1],
                values=list(one.values), server=one.server, where=one.where,
            )
            for one in comparison.differences
        ],
        ratios=[
            ComparedRatio(
                arm=row.arm, metric=row.metric, report=row.report, **_ends(row.ratio),
                differs=row.differs,
            )
            for row in comparison.ratios
        ],
        verdicts=[_verdicts(comparison, row) for row in comparison.claims],
        claims=[_together(row) for row in comparison.claims],
    )  # fmt: skip


def _verdicts(comparison: ReportComparison, row: PooledClaim) -> ComparedVerdicts:
    from innolab.compare.compare import is_same, overlap

    touching = [] if is_same(row) else comparison.touching(row)
    reports = [
        ComparedVerdict(
            verdict=part.outcome,
            **{name: part.verdict.get(name) for name in ("estimate", "low", "high")},
        )
        for part in row.parts
    ]
    return ComparedVerdicts(
        claim=row.claim.id,
        server=row.server,
        first=reports[0],
        second=reports[1],
        reports=reports,
        same=is_same(row),
        turned=not row.agree,
        intervals_overlap=overlap(row),
        may_be_explained_by=[comparison.differences.index(one) for one in touching],
    )


def _together(row: PooledClaim) -> ComparedTogether:
    pooled = row.pooled
    predicted = pooled.predicted if pooled else None
    return ComparedTogether(
        claim=row.claim.id,
        server=row.server,
        scale="log" if row.on_logs else "plain",
        reports_pooled=len(row.entered) if pooled else 0,
        verdict=row.outcome,
        reason=str(row.reason),
        **_ends(pooled.interval if pooled else None),
        predicted_low=predicted.low if predicted else None,
        predicted_high=predicted.high if predicted else None,
        tau=pooled.tau if pooled else None,
        heterogeneity_share=pooled.i2 if pooled else None,
        bound_low=row.bounds[0],
        bound_high=row.bounds[1],
        published=row.published,
        reports=[_part(row, part) for part in row.parts],
    )


def _part(row: PooledClaim, part: Part) -> ComparedPart:
    return ComparedPart(
        report=part.report,
        verdict=part.outcome,
        **_ends(part.interval),
        blocks=part.interval.n if part.interval else None,
        weight_share=row.weight(part),
        why_not=str(part.why_not) if part.why_not else None,
    )


def _ends(interval: Interval | None) -> dict[str, Any]:
    names = ("estimate", "low", "high", "level")
    return {name: getattr(interval, name, None) for name in names}
