"""The report of a published table: what was given, its rankings and verdicts, its page, sealed.

What was given is kept: the table in one form, its description, the claims, and the spread that was
borrowed. All else follows from these, so `verify` makes it again.
"""

import csv
import dataclasses
import datetime
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from innolab import studies
from innolab.analysis.claim_files import claims_of
from innolab.analysis.stats import Interval
from innolab.analysis.verdicts import rounded
from innolab.base import files, memory, parsing
from innolab.base.errors import InputError
from innolab.base.quoting import shown
from innolab.record import text_types
from innolab.record.run import Level
from innolab.report import equality, folders, manifest, render, sealing
from innolab.tables import description as describing
from innolab.tables import judged_page, judging, posted, spreads
from innolab.tables import table as tables
from innolab.tables.description import About, Failed, kind_of
from innolab.tables.judging import Judged
from innolab.tables.posted import Seconds, Series
from innolab.tables.rankings import Lead, LeadOutcome, Spread
from innolab.tables.spreads import KnownSpread
from innolab.tables.table import PublishedTable

TABLE_FILE, ABOUT_FILE, CLAIMS_FILE = folders.TABLE_FILE, "about.json", "claims.yml"
SPREADS_FILE, RANKINGS_FILE, SECONDS_FILE = "spreads.json", "rankings.json", "seconds.csv"
# What was given, and what was borrowed; all else is made from it.
GIVEN = (TABLE_FILE, ABOUT_FILE, CLAIMS_FILE, SPREADS_FILE, SECONDS_FILE)
# By how much the clocks of who judged and who verifies may differ.
_CLOCKS_APART = datetime.timedelta(minutes=10)


@memory.bounded("What was given")
def judge(
    path: Path,
    claims: Path | None = None,
    about: Path | None = None,
    ranked: str | None = None,
    name: str | None = None,
    failed: Failed = "refuse",
    spread: str | None = None,
    *,
    prove: sealing.Proof,
) -> tuple[Path, Judged]:
    """Judge a table, write its report, and return the report's folder and what it says.

    Parameters
    ----------
    path : a CSV file, or a JSON list of runs
    claims : a YAML file as those in data/claims
    about : a description of the columns
    ranked : the factor whose levels are ranked
    name : of the report; else that of the table's file
    failed : whether runs that came to nothing are kept; a description may say so as well
    spread : the name of the spread that metrics without replicates borrow; none by default
    prove : takes the finished folder before it is put in its place, and raises if it does not hold

    Raises
    ------
    InputError
        Where anything that was given cannot be used. Nothing was written.
    """
    named = _name(name or re.sub(r"[^a-z0-9]+", "-", path.stem.lower()).strip("-"))
    given = [one for one in (path, claims, about) if one]
    if absent := [one for one in given if not one.is_file()]:
        raise InputError(f"There is no file {absent[0]}. Nothing was written.")
    described = describing.read(about) if about else About()
    asked = {"ranked": ranked, "failed": "keep" if failed == "keep" else None}
    described = described.model_copy(update={k: v for k, v in asked.items() if v})
    table = tables.read(path, described, with_outputs=True)
    body = _claims_text(claims) if claims else None
    lent = _lent(table, spreads.named(spread)) if spread else {}
    found = _judged(named, table, claims, lent)
    with folders.next_version(named) as final, sealing.apart(final.name) as folder:
        files.write(folder / TABLE_FILE, table.as_csv())
        files.write(folder / ABOUT_FILE, table.about.model_dump_json(indent=1) + "\n")
        if body is not None:
            files.write(folder / CLAIMS_FILE, body)
        files.write_json(folder / SPREADS_FILE, _spreads(found.spreads), is_ascii=False)
        if table.series:
            files.write(folder / SECONDS_FILE, posted.as_csv(table.series))
        write(found, folder)
        facts = {
            **_facts(found),
            "given": {one.name: files.digest(one) for one in given} | _outputs(path, table),
        }
        manifest.write_of_table(folder, facts)
        prove(folder)
        return folders.put(folder, final), found


def _facts(found: Judged) -> dict[str, Any]:
    """Return the part of a manifest that follows from a table and its description."""
    table = found.table
    return {
        "study": found.name,
        "title": found.title,
        "source": table.about.source,
        "runs": {"rows": len(table.rows), "arms": len(table.arms)},
    }


def _outputs(path: Path, table: PublishedTable) -> dict[str, str]:
    """Return the digest of each output that the table names. They may hold secrets, so no copy."""
    named = [row.cells.get(table.about.output, "") for row in table.rows]
    return {
        name: files.digest(path.parent / name)
        for name in named
        if name and (path.parent / name).is_file()
    }


def _name(name: str) -> str:
    if not re.fullmatch(text_types.FOLDER_NAME, name):
        raise InputError(
            f"{shown(name)} is no name for a report: small letters, digits and hyphens make one. "
            "Give one with --name. Nothing was written."
        )
    if name in studies.names():
        raise InputError(
            f"'{name}' is the name of a study. Give the table another with --name. Nothing was "
            "written."
        )
    return name


def _claims_text(path: Path) -> str:
    try:
        return parsing.read_text(path, parsing.MOST_YAML_BYTES)
    except ValueError as error:
        raise InputError(
            f"The claims {path} cannot be read: {parsing.reason(error)}. Nothing was written."
        ) from None


def _judged(
    name: str, table: PublishedTable, claims: Path | None, lent: Mapping[str, Spread]
) -> Judged:
    spread_by_metric = judging.spreads_of(table, lent)
    read = claims_of(claims, table.factors, set(spread_by_metric), table.arms) if claims else []
    return judging.judged(name, table, spread_by_metric, read)


def _lent(table: PublishedTable, known: KnownSpread) -> dict[str, Spread]:
    """Return the spread that metrics of its kind borrow, if they have no replicates.

    Raises
    ------
    InputError
        If no metric takes it.
    """
    kinds = {name: kind_of(metric.unit) for name, metric in table.about.metrics.items()}
    open_to_it = [name for name, kind in kinds.items() if kind == known.kind
                  and all(len(table.values(name, arm)) < 2 for arm in table.arms)]  # fmt: skip
    if not open_to_it:
        raise InputError(
            f"The spread {known.name} is one of a {known.kind}, and every metric of this kind has "
            "replicates, or there is none. Leave out --spread, or name another. Nothing was "
            "written."
        )
    return {name: known.spread for name in open_to_it}


def recorded(folder: Path, name: str) -> Judged:
    """Return what the table in a report's folder says, computed again from what was given.

    A spread that was borrowed is taken as it was then.

    Raises
    ------
    InputError
        Where what was given cannot be used.
    """
    try:
        about = About.model_validate(parsing.json_file(folder / ABOUT_FILE))
        kept = {
            metric: _spread(body)
            for metric, body in parsing.json_file(folder / SPREADS_FILE).items()
        }
    except (ValueError, TypeError, AttributeError, LookupError) as error:
        raise InputError(f"{ABOUT_FILE} or {SPREADS_FILE} is damaged: {error}") from None
    table = tables.read(folder / TABLE_FILE, about)
    if (folder / SECONDS_FILE).exists():
        table = dataclasses.replace(table, series=_series(folder / SECONDS_FILE, table))
    claims = folder / CLAIMS_FILE
    lent = {metric: spread for metric, spread in kept.items() if spread.borrowed}
    return _judged(name, table, claims if claims.exists() else None, lent)


def _series(path: Path, table: PublishedTable) -> dict[Series, Seconds]:
    try:
        series = posted.read(parsing.read_text(path))
    except (ValueError, csv.Error) as error:
        raise InputError(f"{SECONDS_FILE} is damaged: {error}") from None
    known = (range(len(table.rows)), table.about.metrics)
    if any(key.row not in known[0] or key.metric not in known[1] for key in series):
        raise InputError(f"{SECONDS_FILE} names a run or a metric that {TABLE_FILE} does not have")
    return series


def _spread(body: dict[str, Any]) -> Spread:
    """Return a spread that a report keeps; nobody knows who wrote it."""
    sd, freedom, arms = float(body["sd"]), int(body["freedom"]), int(body["arms"])
    is_floor = bool(body.get("is_floor", False))
    if not ((sd > 0 or is_floor) and sd <= judging.WIDEST and freedom > 0):
        raise ValueError(f"no spread: {sd} with {freedom} degrees of freedom")
    return Spread(sd, freedom, arms, str(body["says"]), bool(body["borrowed"]), is_floor)


def write(found: Judged, folder: Path) -> None:
    """Write verdicts, rankings, figures and page of a table into a folder."""
    verdicts = [verdict.model_dump() for verdict in found.verdicts]
    files.write_json(folder / render.VERDICTS_FILE, verdicts, is_ascii=False)
    records = [one.model_dump() for one in ranking_records(found)]
    files.write_json(folder / RANKINGS_FILE, records, is_ascii=False)
    judged_page.write(found, folder)


def faults(report: Path, body: dict[str, Any], *, with_page: bool) -> tuple[list[str], list[str]]:
    """Return in what a sealed report differs from what its table gives, and notes for a reader."""
    with tempfile.TemporaryDirectory(prefix="innolab-verify-") as place:
        made = Path(place) / str(body["version"])
        made.mkdir()
        for name in GIVEN:
            if (report / name).is_file():
                shutil.copy(report / name, made / name)
        try:
            found = recorded(made, str(body["study"]))
        except InputError as error:
            return [str(error)], []
        files.write_json(made / SPREADS_FILE, _spreads(found.spreads), is_ascii=False)
        write(found, made)
        names = manifest.members(report).keys() | manifest.members(made).keys()
        if not with_page:
            names &= {*GIVEN, render.VERDICTS_FILE, RANKINGS_FILE}
        differing = equality.differences(report, made, sorted(names)) + _unbound(found, body)
    # By all its numbers: the words alone would vouch for a smaller one.
    today = {known.spread for known in spreads.read()}
    notes = [
        f"{metric}: its spread is {spread.says}"
        + ("." if spread in today else ", which is no row of today's data/spreads.csv.")
        for metric, spread in found.spreads.items()
        if spread.borrowed
    ]
    return differing, notes


def _unbound(found: Judged, body: dict[str, Any]) -> list[str]:
    """Return what of a manifest does not follow from the table, or from a clock."""
    faults = [
        f"{folders.MANIFEST_FILE}: its '{name}' does not follow from {TABLE_FILE} and {ABOUT_FILE}"
        for name, value in _facts(found).items()
        if body[name] != value
    ]
    now = datetime.datetime.now(datetime.UTC)
    sealed_at = datetime.datetime.fromisoformat(body["sealed_at"])
    if sealed_at > now + _CLOCKS_APART:
        faults.append(
            f"{folders.MANIFEST_FILE}: it says that it was sealed at {body['sealed_at']}, and by "
            f"this machine's clock it is {now:%Y-%m-%d %H:%M}"
        )
    began = datetime.date.fromisoformat(body["version"][: len("2026-01-31")])
    # A table that is judged at midnight is sealed on the next day.
    if not began <= sealed_at.astimezone(datetime.UTC).date() <= began + datetime.timedelta(1):
        faults.append(f"{folders.MANIFEST_FILE}: it was not sealed on the day that its version has")
    return faults


class LeadRecord(BaseModel):
    """How many times as good one level is as another; decided up to a spread of `spread_most`.

    `one_wave` is by how much, on the logarithm, one wave more or less in a run would move it.
    """

    of: Level
    to: Level
    estimate: float
    low: float | None
    high: float | None
    n: int
    level: float
    outcome: LeadOutcome
    spread_most: float | None
    one_wave: float


class StandingRecord(BaseModel):
    """A level in a ranking with the mean of its runs; `level` is the interval's in a lead."""

    estimate: float
    low: float | None
    high: float | None
    n: int
    level: Level


class RankingRecord(BaseModel):
    """The levels of the ranked factor at levels of the others, best first; decided or noise."""

    metric: str
    unit: str
    at: dict[str, Level]
    outcome: str
    lead: LeadRecord
    level_with_best: list[Level]
    order: list[StandingRecord]
    pairs: list[LeadRecord]


def ranking_records(found: Judged) -> list[RankingRecord]:
    """Return rankings as rankings.json has them, numbers with six digits."""
    return [
        RankingRecord(
            metric=one.metric,
            unit=found.table.about.metrics[one.metric].unit,
            at=dict(one.at),
            outcome=one.ranking.first.outcome,
            lead=_lead(one.ranking.first),
            level_with_best=one.ranking.level_with_best,
            order=[
                StandingRecord(**_ends(standing.mean), level=standing.level)
                for standing in one.ranking.standings
            ],
            pairs=[_lead(lead) for lead in one.ranking.leads],
        )
        for one in found.rankings
    ]


def _lead(lead: Lead) -> LeadRecord:
    return LeadRecord(
        of=lead.of, to=lead.to, **_ends(lead.ratio), level=lead.ratio.level,
        outcome=lead.outcome, spread_most=rounded(lead.spread_most),
        one_wave=rounded(lead.one_wave) or 0.0,
    )  # fmt: skip


def _ends(interval: Interval) -> dict[str, Any]:
    ends = {name: rounded(getattr(interval, name)) for name in ("estimate", "low", "high")}
    return {**ends, "n": interval.n}


def _spreads(of: dict[str, Spread]) -> dict[str, Any]:
    return {name: one._asdict() | {"sd": rounded(one.sd)} for name, one in of.items()}
