"""Check a report without a server, and without executing anything of it unless asked to."""

import tempfile
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from innolab import studies
from innolab.analysis import checks, consistency, controls
from innolab.base import memory, parsing
from innolab.base.errors import InnolabError, InputError
from innolab.record import runlog
from innolab.record.plan import PLAN_FILE, Plan
from innolab.record.run import Check, Run
from innolab.record.runlog import Entry, RunLog
from innolab.record.runs import RunSet
from innolab.report import (
    companions,
    contents,
    crate,
    folders,
    history,
    judged,
    manifest,
    recompute,
    render,
    revisions,
    same,
    sandbox,
    signatures,
)
from innolab.studies import schedule
from innolab.studies.parameters import Parameters
from innolab.studies.study import Study

LIMITS = (
    "What this cannot prove: that the runs happened. Whoever invents a whole session with "
    "patience, its series, counters and clock included, makes a report that holds; a signature "
    "says who vouches for it, and measuring again is the only proof."
)
_REPLAY_LIMIT_S = 900


@dataclass
class Findings:
    """What was found of a report: faults, each naming its file, and what a reader should know.

    `of` says what was compared.
    """

    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    of: str = "files, runs, settings, series, checks, verdicts, figures, notebook and page"


@memory.bounded("The report")
def verify(report: Path, *, execute: bool = False, signers: Path | None = None) -> Findings:
    """Return every fault of a report; none means that it holds.

    Cheap tests come first, and nothing is computed from a report that fails them.

    Parameters
    ----------
    execute : whether a notebook that is not the study's own is executed too, in a sandbox
    signers : a file of allowed signers as ssh-keygen reads it; the user's own where none is given

    Raises
    ------
    InputError
        Where manifest or plan are damaged, the report is of an unknown study, or a notebook is to
        be executed where this host has no sandbox.
    """
    found = Findings()
    if strange := manifest.strangers(report) or contents.faults(report):
        return Findings(strange)
    body = manifest.read(report)
    if faults := manifest.faults(report, body):
        return Findings(faults)
    if manifest.is_of_table(body):
        return _of_table(report, body, signers)
    plan = Plan.read(report)
    study = studies.find(plan.study)
    try:
        entries, torn = RunLog(report / runlog.FILE, study.upgrade).entries()
        runs = study.read(report)
    except InnolabError as error:
        return Findings([f"{runlog.FILE}: {error}"])
    found.faults += [f"{runlog.FILE}: its last line is torn"] if torn else []
    found.faults += of_session(entries, body)
    faults, notes = history.of_sessions(entries, study.papers.claims)
    found.faults += faults
    found.notes += [*notes, *controls.complete(runs).notes]
    if is_todays := _is_of_todays_study(study, plan, runs):
        parameters = study.check(plan.parameters)
        found.faults += of_plan(study, parameters, plan, entries, runs, body)
        found.faults += companions.faults(runs, report)
    found.notes += consistency.own_builds(runs.runs)
    if not runlog.is_bound(entries):
        found.notes.append(
            f"The lines of its {runlog.FILE} are not bound to each other, as it was measured by "
            "innolab 0.1.0: their order and the number planned were not checked."
        )
    found.notes += consistency.claims(runlog.by_session(entries), body.get("claims_sha256"))
    if not found.faults:
        # Series take some seconds of a second core, while all else is computed again on the first.
        with ProcessPoolExecutor(1, get_context("spawn")) as beside:
            followed = (
                beside.submit(companions.series_faults, study.name, report) if is_todays else None
            )
            _derived(report, body, study, found, is_todays=is_todays, execute=execute)
            found.faults += _result(followed) if followed else []
    faults, notes = signatures.check(report, signers)
    found.faults += faults
    found.notes += notes
    return found


def _of_table(report: Path, body: dict[str, Any], signers: Path | None) -> Findings:
    """Return every fault of the report of a judged table."""
    found = [judged.faults(report, body), signatures.check(report, signers)]
    return Findings(
        [fault for faults, _ in found for fault in faults],
        [note for _, notes in found for note in notes],
        "files, table, rankings, verdicts, figures and page",
    )


def _result(followed: Future[list[str]]) -> list[str]:
    try:
        return followed.result()
    except BrokenExecutor:
        return ["series: they ended the process that read them, as no real ones do"]


def _is_of_todays_study(study: Study, plan: Plan, runs: RunSet) -> bool:
    """Return whether a plan is what this innolab would plan by these parameters.

    Those of an older innolab had a digest of other parts; their trials are compared instead.
    """
    try:
        parameters = study.check(plan.parameters)
    except InnolabError:
        return False
    is_older = any(run.is_older for run in runs.runs)
    return is_older or study.spec_sha256(parameters) == plan.spec_sha256


def of_session(entries: list[Entry], body: dict[str, Any]) -> list[str]:
    """Return what contradicts the order and the clock of the sessions that measured."""
    sessions = runlog.by_session(entries)
    found = runlog.faults(entries)
    newer = [run for _, runs in sessions for run in runs if not run.is_older]
    if newer and not runlog.is_bound(entries):
        found.append("its lines are not bound to each other, as this innolab's are")
    found += consistency.times(sessions, body.get("sealed_at"))
    found += consistency.hosts(sessions)
    found += consistency.predecessors(sessions)
    found += consistency.members([run for _, runs in sessions for run in runs])
    return [f"{runlog.FILE}: {fault}" for fault in found]


def of_plan(
    study: Study,
    parameters: Parameters,
    plan: Plan,
    entries: list[Entry],
    runs: RunSet,
    body: dict[str, Any],
) -> list[str]:
    """Return what contradicts the plan, and the study's settings and checks."""
    found = []
    keys = [run.key for run in sorted(runs.runs, key=lambda r: r.trial)]
    recorded = set(keys)
    due = schedule.due(study, plan, runs, runlog.registered(entries))
    # More than is due is no fault: arms go on while a control fails, and what fails may change.
    planned = [trial.key for trial in study.planned(plan) if trial.key in recorded]
    if any(run.is_older for run in runs.runs):  # Its arms were drawn from a list in another order.
        keys, planned = sorted(keys), sorted(planned)
    if keys != planned:
        found.append("its trials are not those of the plan, in its order")
    if why := schedule.missing(due, runs):
        found.append(f"its trials are not those of the plan: {why}")
    found += _planned_otherwise(study, parameters, plan, entries)
    found += consistency.guarded(
        lambda: consistency.arms(runs.runs, lambda run: study.asked(parameters, run)), "arms"
    )
    found += consistency.servers(runs.runs, runs.variables)
    for run in runs.runs:
        if run.status == "complete" and not _checks_follow(study, run, runs):
            found.append(f"the checks of trial {run.trial} do not follow from its record")
    faults = [f"{runlog.FILE}: {fault}" for fault in found]
    if not faults:  # What follows from a wrong record is wrong too, and says nothing more.
        faults += [
            f"{folders.MANIFEST_FILE}: its '{name}' does not follow from {PLAN_FILE} and "
            f"{runlog.FILE}"
            for name, value in manifest.recorded(plan, runs.runs).items()
            if body.get(name) != value
        ]
    return faults


def _planned_otherwise(
    study: Study, parameters: Parameters, plan: Plan, entries: list[Entry]
) -> list[str]:
    """Return sessions that began with another plan, or with more trials or blocks than it has."""
    blocks = (plan.blocks or study.looks(parameters)).last
    now = (study.plan_sha256(plan), len(study.planned(plan)), blocks)
    return [
        f"the session of line {entry.number} began with {session.trials} trials in "
        f"{session.blocks} blocks of a plan that is not {PLAN_FILE}'s"
        for entry in entries
        if not isinstance(session := entry.content, Run)
        and (session.plan_sha256, session.trials, session.blocks) != now
    ]


def _checks_follow(study: Study, run: Run, runs: RunSet) -> bool:
    variables = runs.variables.get(run.conditions.get("variables") or "", {})
    evidence = checks.Evidence(run.observations, run.conditions, variables)
    try:
        if run.is_older:
            kept = [name for name in study.checks if name not in checks.NEWER]
            study = replace(study, checks=kept)
        judged = study.judged(evidence)
        return sorted(judged, key=_name_of) == sorted(run.checks, key=_name_of)
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError):
        return False


def _name_of(check: Check) -> str:
    return check.check


def _derived(
    report: Path,
    body: dict[str, Any],
    study: Study,
    found: Findings,
    *,
    is_todays: bool,
    execute: bool,
) -> None:
    """Add in what a report differs from what its runs give by the study's own notebook.

    Today's code is tried first. Where the report is of another revision, that revision makes it
    again; where neither can, what to fetch is said.
    """
    with tempfile.TemporaryDirectory(prefix="innolab-verify-") as place:
        faults = ["it is of another revision of its study"]
        made: Path | None = None
        if is_todays:
            made = _copy(report, Path(place) / "today", body)
            faults = _recomputed(report, made, study) + _crate_missing(report, body)
        if faults and not revisions.is_todays(body):
            made, faults = _by_its_revision(
                report, body, Path(place), found, made, faults, also_records=not is_todays
            )
        diff = _cells_diff(report, made) if faults and made else []
        if diff and execute:
            faults = _executed(report, study, Path(place), body, found)
        elif diff:
            faults.insert(
                0,
                f"{render.NOTEBOOK_FILE}: its cells are not those of the study's notebook. To see "
                "whether it gives what the report shows, execute it in a sandbox: innolab verify "
                "--execute",
            )
        found.notes += [*(["How the notebook differs:"] if diff else []), *diff]
        found.faults += faults


def _copy(report: Path, place: Path, body: dict[str, Any]) -> Path:
    """Return a folder that holds what was recorded alone, named by the version as a report's is."""
    copy = place / str(body["version"])
    copy.mkdir(parents=True)
    folders.copy_recorded(report, copy)
    return copy


def _recomputed(report: Path, made: Path, study: Study) -> list[str]:
    try:
        recompute.recompute(study, made)
    except InnolabError as error:
        return [f"{render.NOTEBOOK_FILE}: {error}"]
    return _differences(report, _with_crate(made, study))


def _with_crate(made: Path, study: Study) -> Path:
    crate.write(study, made, study.read(made).runs, manifest.digests(made))
    return made


def _crate_missing(report: Path, body: dict[str, Any]) -> list[str]:
    """Return a fault where a report of this very innolab, whose reports have a crate, has none."""
    if (report / crate.CRATE_FILE).exists() or not revisions.is_todays(body):
        return []
    return [f"{crate.CRATE_FILE}: missing"]


def _differences(report: Path, made: Path) -> list[str]:
    """Return how a report is not what was made again of its runs.

    Reports of innolab 0.2 and older have no crate.
    """
    names = manifest.members(report).keys() | manifest.members(made).keys()
    found = same.differences(report, made, sorted(names - {crate.CRATE_FILE}))
    if (report / crate.CRATE_FILE).exists():
        found += crate.differences(report, made, manifest.digests(report))
    return found


def _by_its_revision(
    report: Path,
    body: dict[str, Any],
    place: Path,
    found: Findings,
    today: Path | None,
    faults: list[str],
    *,
    also_records: bool,
) -> tuple[Path | None, list[str]]:
    """Return what the report's own revision made of its runs, and how the report differs from it.

    With today's libraries first: where they give the same, no others are needed.

    Parameters
    ----------
    also_records : whether that revision has to check what was recorded too, which today's cannot
    """
    made = today
    for own_lock in [False, *([True] if revisions.has_own_lock(body) else [])]:
        room = place / f"revision-{own_lock}"
        room.mkdir()
        try:
            made = revisions.remake(report, body, room, own_lock=own_lock)
            if not (faults := _differences(report, made)) and also_records:
                revisions.verified(made, body, room, own_lock=own_lock)
        except revisions.UnavailableError as error:
            return made, [*faults, f"Its own revision cannot be asked: {error}."]
        except InnolabError as error:
            faults = [str(error)]
            continue
        if not faults:
            commit = body["rendered_by"]["commit"]
            found.notes.append(f"It was checked by the innolab that rendered it, commit {commit}.")
            break
    return made, faults


def _cells_diff(report: Path, made: Path) -> list[str]:
    if not (made / render.NOTEBOOK_FILE).exists():
        return []
    return consistency.guarded(
        lambda: same.cells_diff(report / render.NOTEBOOK_FILE, made / render.NOTEBOOK_FILE),
        render.NOTEBOOK_FILE,
    )


def _executed(
    report: Path, study: Study, place: Path, body: dict[str, Any], found: Findings
) -> list[str]:
    """Return in what a report differs from what its own notebook gives in a sandbox."""
    copy = _copy(report, place / "sandbox", body)
    source = place / render.NOTEBOOK_FILE
    try:
        source.write_text(render.source_from(parsing.json_file(report / render.NOTEBOOK_FILE)))
        sandbox.replay(study.name, copy, source, _REPLAY_LIMIT_S)
    except InputError:  # This host has no sandbox, which is no fault of the report.
        raise
    except (ValueError, InnolabError) as error:
        return [f"{render.NOTEBOOK_FILE}: {error}"]
    if not (faults := _differences(report, _with_crate(copy, study))):
        found.notes.append(
            "Its notebook is not the study's. Executed in a sandbox, it gives what the report "
            "shows: whether that follows from the runs is for a reader of the notebook to judge."
        )
    return faults
