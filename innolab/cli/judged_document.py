"""What `innolab judge --json` prints; see `innolab.cli.documents`."""

from pathlib import Path

from pydantic import BaseModel

from innolab.tables import judged, judged_page
from innolab.tables.judged import RankingRecord
from innolab.tables.judging import Judged as Table


class JudgedSpread(BaseModel):
    """By how much runs of one arm differ: the standard deviation of the logarithm."""

    metric: str
    unit: str
    sd_log: float
    freedom: int
    arms: int
    borrowed: bool
    says: str


class JudgedClaim(BaseModel):
    """What a table says of a claim."""

    claim: str
    says: str
    verdict: str
    estimate: float | None
    low: float | None
    high: float | None
    n: int
    level: float
    reason: str
    needs: str | None
    caveat: str | None


class Judged(BaseModel):
    """What `innolab judge` says; its page is written."""

    name: str
    page: str
    summary: list[str]
    runs_failed: int
    spreads: list[JudgedSpread]
    rankings: list[RankingRecord]
    claims: list[JudgedClaim]


def document(found: Table, page: Path) -> Judged:
    """Return what a published table says."""
    return Judged(
        name=found.name,
        page=str(page),
        summary=judged_page.summary(found),
        runs_failed=sum(found.table.failed.values()),
        spreads=[
            JudgedSpread(
                metric=name, unit=found.table.about.metrics[name].unit, sd_log=one.sd,
                freedom=one.freedom, arms=one.arms, borrowed=one.borrowed, says=one.says,
            )
            for name, one in found.spreads.items()
        ],
        rankings=judged.ranking_records(found),
        claims=[
            JudgedClaim(**verdict.model_dump(include=set(JudgedClaim.model_fields)))
            for verdict in found.verdicts
        ],
    )  # fmt: skip
