"""Check a report without a server, by the installed innolab alone: nothing of the report runs."""

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from innolab import studies
from innolab.analysis import claim_files, controls
from innolab.base import memory
from innolab.base.children import Child
from innolab.base.errors import InnolabError, InputError
from innolab.record import runlog
from innolab.record.plan import PLAN_FILE, Plan
from innolab.record.runlog import RunLog
from innolab.record.runs import RunSet
from innolab.report import crate, equality, file_contents, folders, manifest, render, rendering_code
from innolab.studies import judging, rules
from innolab.studies.experiment import Experiment
from innolab.studies.rules import Rules
from innolab.studies.study import Study
from innolab.tables import judged
from innolab.verify import (
    git_history,
    series_and_variables,
    session,
    settings_and_builds,
    signatures,
)

LIMITS = (
    "What this cannot prove: that the runs happened. Anyone who invents a whole session with "
    "patience, its series, counters and clock included, makes a report that holds; a signature "
    "says who vouches for it, and measuring again is the only proof."
)
_WORKER = "innolab.verify.worker"
# Of a verdict: what is no sentence, which a later innolab may word otherwise.
_VALUES = (
    "claim", "server", "stands", "verdict", "published", "estimate", "low", "high", "level", "n",
    "looks", "power", "blocks_needed",
)  # fmt: skip
# What verdicts of older innolabs do not have.
_NEWER_VALUES = ("holds_probability", "leaning")


@dataclass
class Findings:
    """What was found of a report: faults, each naming its file, and what a reader should know.

    Attributes
    ----------
    of : what was compared
    page : whether page and figures were compared with what the runs give; `unknown` if the code
        that made them is not today's, which then cannot say
    why_unknown : why it is unknown
    """

    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    of: str = "files, runs, settings, series, checks and verdicts"
    page: Literal["checked", "left out", "unknown"] = "unknown"
    why_unknown: str = ""


@memory.bounded("The report")
def verify(report: Path, *, signers: Path | None = None, records_only: bool = False) -> Findings:
    """Return every fault of a report; none means that what was looked at holds.

    Cheap tests come first, and nothing is computed from a report that fails them.

    Parameters
    ----------
    signers : a file of allowed signers as ssh-keygen reads it; by default the user's own
    records_only : whether page and figures are left out

    Raises
    ------
    InputError
        If manifest or plan are damaged, or the report is of an unknown study.
    """
    found = Findings(page="left out" if records_only else "unknown")
    if foreign := folders.foreign(report) or file_contents.faults(report):
        found.faults += foreign
        return found
    body = manifest.read(report)
    found.faults += manifest.faults(report, body)
    if found.faults:
        return found
    if manifest.is_of_table(body):
        _table(report, body, found)
    else:
        _study_report(report, body, found)
    faults, notes = signatures.check(report, signers)
    found.faults += faults
    found.notes += notes
    return found


class _Report(NamedTuple):
    """What is read of a report.

    Attributes
    ----------
    experiment : judged by what the report keeps
    today : the same plan by today's study
    """

    folder: Path
    manifest: dict[str, Any]
    kept: Rules
    experiment: Experiment
    today: Experiment
    runs: RunSet

    @classmethod
    def read(cls, folder: Path, body: dict[str, Any], today: Study) -> "_Report":
        kept = rules.read(folder)
        experiment = rules.applied(today, kept, folder)
        experiment.study.claims()
        runs = experiment.study.read(folder)
        return cls(folder, body, kept, experiment, Experiment.read(folder, today), runs)


def _study_report(folder: Path, body: dict[str, Any], found: Findings) -> None:
    today = studies.find(Plan.read(folder).study)
    try:
        report = _Report.read(folder, body, today)
        found.faults += _records(report, found)
    except InnolabError as error:
        found.faults.append(str(error))
    if found.faults:
        return
    # Series take some seconds of a second core, while the page is computed again on the first.
    metrics = Child(_WORKER, "metrics", today.name, str(folder))
    try:
        found.faults += _verdicts(report)
        found.notes += _todays(report)
        if found.page != "left out":
            _page(report, found)
        faults, notes = _ended(metrics, "metrics")
        found.faults += faults
        found.notes += notes
    finally:
        metrics.end()


def _records(report: _Report, found: Findings) -> list[str]:
    """Return what contradicts itself in what was recorded, and add notes on it.

    The very code that rendered a report judges as it did then, to the letter.
    """
    body, study, runs = report.manifest, report.experiment.study, report.runs
    is_same_code = rendering_code.difference(body, study) is None
    entries, torn = RunLog(report.folder / runlog.FILE, study.kind.upgrade).entries()
    faults = [f"{runlog.FILE}: its last line is torn"] if torn else []
    faults += session.of_session(entries, body)
    of_history, notes = git_history.of_sessions(entries, report.today.study.papers.claims)
    faults += of_history
    found.notes += [*notes, *map(str, controls.complete(runs).notes)]
    faults += session.of_plan(
        report.experiment, report.kept, entries, runs, body, to_the_letter=is_same_code
    )
    faults += series_and_variables.faults(runs, report.folder)
    claims_sha256 = claim_files.sha256(study.papers.claims)
    if body.get("claims_sha256") != claims_sha256:
        faults.append(f"{rules.CLAIMS_FILE}: it is not the file that the manifest names")
    if is_same_code and body["rendered_from"] is None:
        others = rules.differences(report.kept, rules.of(report.today, runs))
        faults += [f"{rules.FILE}: {says}" for says in others]
    found.notes += settings_and_builds.own_builds(runs.runs)
    if not runlog.is_bound(entries):
        found.notes.append(
            f"The lines of its {runlog.FILE} are not bound to each other, as it was measured by "
            "innolab 0.1.0: their order and the number planned were not checked."
        )
    if runlog.registered(entries) - {claims_sha256}:
        found.notes.append(
            "Its claims were changed after it began to be measured: the verdicts are by another "
            "file of claims than was registered then."
        )
    return faults


def _verdicts(report: _Report) -> list[str]:
    """Return whether the verdicts are others than the report's claims give by its runs."""
    kept = render.read_verdicts(report.folder)
    given = [verdict.model_dump() for verdict in judging.verdicts(report.experiment, report.runs)]
    names = (*_VALUES, *(n for n in _NEWER_VALUES if any(n in one for one in kept)))
    kept, given = ([{n: one.get(n) for n in names} for one in of] for of in (kept, given))
    others = [
        f"{one['claim']} on {one['server']}"
        for one, other in zip(kept, given, strict=False)
        if one != other
    ]
    if not others and len(kept) == len(given):
        return []
    which = ", ".join(others[:4]) or f"{len(kept)} of {len(given)}"
    return [f"{render.VERDICTS_FILE}: its verdicts do not follow from the recorded runs: {which}"]


def _todays(report: _Report) -> list[str]:
    """Return what today's rules and claims would judge otherwise."""
    study, today, runs = report.experiment.study, report.today.study, report.runs
    try:
        now = rules.of(report.today, runs)
        notes = list(rules.differences(report.kept, now))
        notes += session.judged_otherwise(report.today, now, runs) if notes else []
        if all(map(_are_equal, today.papers[:2], study.papers[:2])):
            return notes
        claims = {claim.id for claim in today.claims()} & {claim.id for claim in study.claims()}
        verdicts = [
            {(one.claim, one.server): one.verdict for one in judging.verdicts(by, runs)}
            for by in (report.experiment, report.today)
        ]
    except (InnolabError, LookupError, TypeError, ValueError) as error:
        return [f"Today's study cannot judge these runs ({error}); the report's own rules did."]
    turned = [
        f"{claim} on {server} {verdict}, not {verdicts[1].get((claim, server), 'there')}"
        for (claim, server), verdict in verdicts[0].items()
        if claim in claims and verdicts[1].get((claim, server)) != verdict
    ]
    return notes + (
        [f"By today's claims some verdicts are others than the report's: {'; '.join(turned)}."]
        if turned
        else []
    )


def _are_equal(one: Path, other: Path) -> bool:
    return one.is_file() == other.is_file() and (
        not one.is_file() or one.read_bytes() == other.read_bytes()
    )


def _page(report: _Report, found: Findings) -> None:
    """Add in what page, figures, notebook and crate differ from what today's code makes."""
    study = report.experiment.study
    if why := rendering_code.difference(report.manifest, study):
        found.why_unknown = why
        return
    found.page = "checked"
    found.of += ", figures, notebook and page"
    with tempfile.TemporaryDirectory(prefix="innolab-verify-") as place:
        made = Path(place) / str(report.manifest["version"])
        made.mkdir()
        folders.copy_recorded(report.folder, made)
        rules.keep(study, made)
        faults, _ = _ended(Child(_WORKER, "page", study.name, str(made)), render.NOTEBOOK_FILE)
        faults = faults or _differences(report.folder, made, study)
        found.faults += faults
        if faults and (diff := _cells_diff(report.folder, made)):
            found.faults.append(
                f"{render.NOTEBOOK_FILE}: its cells are not those of the study's notebook"
            )
            found.notes += ["How the notebook differs:", *diff]


def _ended(child: Child, what: str) -> tuple[list[str], list[str]]:
    """Return the faults and notes of a process, or that it could not do its work."""
    try:
        faults, notes = child.result()
    except InnolabError as error:
        return [f"{what}: they cannot be computed again: {error}"], []
    return faults, notes


def _differences(report: Path, made: Path, study: Study) -> list[str]:
    crate.write(study, made, study.read(made).runs, manifest.digests(made))
    names = manifest.members(report).keys() | manifest.members(made).keys()
    found = equality.differences(report, made, sorted(names - {crate.CRATE_FILE}))
    return found + crate.differences(report, made, manifest.digests(report))


def _cells_diff(report: Path, made: Path) -> list[str]:
    kept, wanted = (folder / render.NOTEBOOK_FILE for folder in (report, made))
    if not wanted.exists():
        return []
    return session.guarded(lambda: equality.cells_diff(kept, wanted), render.NOTEBOOK_FILE)


def _table(report: Path, body: dict[str, Any], found: Findings) -> None:
    found.of = "files, table, rankings and verdicts"
    if found.page != "left out":
        found.why_unknown = rendering_code.difference(body, None) or ""
        found.page = "unknown" if found.why_unknown else "checked"
    faults, notes = judged.faults(report, body, with_page=found.page == "checked")
    if found.page == "checked":
        found.of += ", figures and page"
    found.faults += faults
    found.notes += notes


def unsound(report: Path) -> list[str]:
    """Return why nobody should vouch for a report: its faults, or that its page is not checked."""
    found = verify(report)
    return found.faults or ([found.why_unknown] if found.page == "unknown" else [])


def require(report: Path) -> None:
    """Refuse a report that does not hold, its page included.

    Raises
    ------
    InputError
        Names the first fault.
    """
    if faults := unsound(report):
        raise InputError(f"{report.name} does not hold: {faults[0]}. See: innolab verify {report}")


def of_reproduction(study: Study, folder: Path, answer: dict[str, Any]) -> list[str]:
    """Return what in a reproduction contradicts its plan, its runs or the digests in its answer.

    As `innolab.verify.verify` does for a report, but for the page, of which there is none.
    """
    experiment = Experiment.read(folder, study)
    found = [
        f"{name}: changed after the claim was judged"
        for name in (PLAN_FILE, runlog.FILE)
        if answer["files"].get(name) != manifest.digest(folder / name)
    ]
    entries, torn = RunLog(folder / runlog.FILE, study.kind.upgrade).entries()
    runs = study.read(folder)
    body = {"sealed_at": answer["judged_at"], **manifest.recorded(experiment.plan, runs.runs)}
    found += [f"{runlog.FILE}: its last line is torn"] if torn else []
    found += session.of_session(entries, body)
    found += session.of_plan(experiment, rules.of(experiment, runs), entries, runs, body)
    found += series_and_variables.faults(runs, folder)
    return found or series_and_variables.metrics(study.name, folder).faults
