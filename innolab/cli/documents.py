"""What `--json` prints: one document a verb, its keys fixed here and described in docs/json.md.

Names carry units: `_s` is seconds, `_share` a share of 1. What is not known is null, and so is what
is not finite.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel

if TYPE_CHECKING:
    from innolab.measure.doctor import HostFinding
    from innolab.measure.estimate import Expected
    from innolab.record.plan import Plan
    from innolab.studies.experiment import Trial
    from innolab.verify.verify import Findings

Level = str | bool | int | float


class ListedReport(BaseModel):
    """A report by its name; one that was begun and not sealed is resumed by `innolab run`."""

    name: str
    finished: bool
    is_reference: bool = False


class ListedStudy(BaseModel):
    """A study, what its newest report answers if it does, and its reports, oldest first."""

    name: str
    question: str
    answer: str | None = None
    reports: list[ListedReport]


class ListedTable(BaseModel):
    """A judged table and its reports, oldest first."""

    name: str
    reports: list[str]


class Listed(BaseModel):
    """What `innolab list` says."""

    studies: list[ListedStudy]
    tables: list[ListedTable]


class Examined(BaseModel):
    """One finding of the host: `result` is ok, note or missing."""

    result: str
    name: str
    says: str


class Doctor(BaseModel):
    """What `innolab doctor` says; not ready where something is missing."""

    ready: bool
    findings: list[Examined]


class PlannedTime(BaseModel):
    """How long a plan takes, by the times in an earlier report."""

    report: str
    before_s: float
    block_s: float
    after_s: float
    first_verdicts_s: float
    most_s: float


class PlannedClaim(BaseModel):
    """What to expect of a claim on a server.

    Its interval goes from the estimate / factor to the estimate x factor; `power_share` is how
    likely the last look decides it where the true value is `at`.
    """

    claim: str
    server: str
    factor_first: float | None
    factor_last: float | None
    at: float | None
    power_share: float | None
    report: str | None
    reason: str | None


class PlannedTrial(BaseModel):
    """A trial at its place; blocks count from 1, places from 0."""

    position: int
    block: int
    factors: dict[str, Level]
    twin: bool


class Planned(BaseModel):
    """What `innolab plan` says; `blocks_in_time` are as many as the time given allows."""

    study: str
    parameters: dict[str, object]
    blocks_first: int
    blocks_last: int
    blocks_in_time: int
    level_first: float | None
    level_last: float | None
    time: PlannedTime | None
    claims: list[PlannedClaim]
    claims_not_planned: list[str]
    claims_not_measured: list[str]
    not_run: dict[str, str]
    trials: list[PlannedTrial]


class Verified(BaseModel):
    """What `innolab verify` says of the report in a folder.

    `page` says whether page and figures were checked: `unknown` if other code than today's made
    them, which then cannot say; the report does not hold until somebody can.
    """

    folder: str
    holds: bool
    page: Literal["checked", "left out", "unknown"]
    faults: list[str]
    notes: list[str]
    limits: str


def show(document: BaseModel) -> None:
    """Print a document, and nothing else."""
    print(document.model_dump_json(indent=1))


def doctor(findings: Sequence[HostFinding]) -> Doctor:
    """Return what was found of this host."""
    ready = all(finding.result != "missing" for finding in findings)
    return Doctor(ready=ready, findings=[Examined(**finding._asdict()) for finding in findings])


def planned(
    chosen: Plan, trials: Sequence[Trial], expects: Expected, not_run: Mapping[str, str]
) -> Planned:
    """Return what a plan holds and what to expect of it."""
    return Planned(
        study=chosen.study,
        parameters=chosen.parameters,
        blocks_first=expects.first.blocks,
        blocks_last=expects.declared,
        blocks_in_time=expects.last.blocks,
        level_first=expects.first.level,
        level_last=expects.last.level,
        time=_time(expects),
        claims=[
            PlannedClaim(
                claim=row.claim,
                server=row.server,
                factor_first=row.factors and row.factors[0],
                factor_last=row.factors and row.factors[1],
                at=row.truth,
                power_share=row.power,
                report=row.report,
                reason=row.reason,
            )
            for row in expects.rows
        ],
        claims_not_planned=expects.not_planned,
        claims_not_measured=expects.not_measured,
        not_run=dict(not_run),
        trials=[
            PlannedTrial(
                position=trial.position, block=trial.block + 1, factors=trial.factors,
                twin=trial.twin,
            )
            for trial in trials
        ],
    )  # fmt: skip


def _time(expects: Expected) -> PlannedTime | None:
    found = expects.duration
    if found is None:
        return None
    return PlannedTime(
        report=found.report,
        before_s=found.before_s,
        block_s=found.block_s,
        after_s=found.after_s,
        first_verdicts_s=found.until(expects.first.blocks),
        most_s=found.until(expects.last.blocks) + found.after_s,
    )


def verified(folder: Path, found: Findings, limits: str) -> Verified:
    """Return what verifying a report found."""
    return Verified(
        folder=str(folder),
        holds=not found.faults and found.page != "unknown",
        page=found.page,
        faults=found.faults,
        notes=found.notes,
        limits=limits,
    )
