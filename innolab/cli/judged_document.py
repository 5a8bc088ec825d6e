"""What `innolab judge --json` prints; see `innolab.cli.documents`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel

from innolab.cli.documents import Level

if TYPE_CHECKING:
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


class JudgedLead(BaseModel):
    """How many times as good one level is as another; decided up to a spread of `spread_most`."""

    of: Level
    to: Level
    estimate: float
    low: float
    high: float
    n: int
    level: float
    outcome: str
    spread_most: float


class JudgedStanding(BaseModel):
    """A level in a ranking with the mean of its runs; `level` is the interval's in a lead."""

    level: Level
    estimate: float
    low: float
    high: float
    n: int


class JudgedRanking(BaseModel):
    """The levels of the ranked factor at levels of the others, best first; decided or noise."""

    metric: str
    unit: str
    at: dict[str, Level]
    outcome: str
    lead: JudgedLead
    level_with_best: list[Level]
    order: list[JudgedStanding]
    pairs: list[JudgedLead]


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
    spreads: list[JudgedSpread]
    rankings: list[JudgedRanking]
    claims: list[JudgedClaim]


def document(found: Table, page: Path) -> Judged:
    """Return what a published table says."""
    from innolab.tables import judged, judged_page

    return Judged(
        name=found.name,
        page=str(page),
        summary=judged_page.summary(found),
        spreads=[
            JudgedSpread(
                metric=name, unit=found.table.about.metrics[name].unit, sd_log=one.sd,
                freedom=one.freedom, arms=one.arms, borrowed=one.borrowed, says=one.says,
            )
            for name, one in found.spreads.items()
        ],
        rankings=[JudgedRanking.model_validate(body) for body in judged.rankings_body(found)],
        claims=[
            JudgedClaim.model_validate(verdict.model_dump()) for verdict in found.verdicts
        ],
    )  # fmt: skip
