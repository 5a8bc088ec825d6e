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
    is_floor: bool
    says: str


class JudgedRun(BaseModel):
    """What the seconds of a run say; its `row` in the table counts from 1.

    `error_log` and `one_wave_log` are on the logarithm of its average: what the seconds leave open,
    and by how much one wave more or less moves it.
    """

    metric: str
    row: int
    length_s: float
    drift_share: float
    steady: bool
    period_s: float | None
    swing_share: float | None
    waves: int | None
    error_log: float
    one_wave_log: float


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
    runs: list[JudgedRun]
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
                freedom=one.freedom, arms=one.arms, borrowed=one.borrowed, is_floor=one.is_floor,
                says=one.says,
            )
            for name, one in found.spreads.items()
        ],
        rankings=judged.ranking_records(found),
        runs=[
            JudgedRun(
                metric=metric, row=row + 1, length_s=one.length_s, drift_share=one.drift.share,
                steady=one.drift.steady, period_s=one.wave and one.wave.period_s,
                swing_share=one.wave and one.wave.swing, waves=one.wave and one.wave.whole,
                error_log=one.error, one_wave_log=one.one_wave,
            )
            for metric in found.spreads
            for row, one in found.table.courses(metric).items()
        ],
        claims=[
            JudgedClaim(**verdict.model_dump(include=set(JudgedClaim.model_fields)))
            for verdict in found.verdicts
        ],
    )  # fmt: skip
