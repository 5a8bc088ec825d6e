"""Claims that were measured again: a folder each, with plan, runs and the answer.

They lie beside the reports of their study, in reproductions/CLAIM/VERSION. There is no page: the
answer follows from the runs, and can be judged again from them.
"""

from pathlib import Path
from typing import Any

from innolab.base import files, parsing
from innolab.base.errors import InputError
from innolab.record import runlog, series_store
from innolab.record.runlog import RunLog
from innolab.report import folders, manifest
from innolab.studies import rules
from innolab.studies.experiment import Experiment
from innolab.studies.study import Study
from innolab.verify import series_and_variables, session

REPRODUCTIONS = "reproductions"
ANSWER_FILE = "answer.json"
_DIGESTS = ("plan.json", runlog.FILE)


def place(study: str, claim: str) -> str:
    """Return where the reproductions of a claim lie, below the reports' folder."""
    return f"{study}/{REPRODUCTIONS}/{claim}"


def finish(folder: Path, answer: dict[str, Any]) -> Path:
    """Write the answer and the digests of what it follows from; return the finished folder."""
    series_store.merge(folder)
    body = {**answer, "files": {name: manifest.digest(folder / name) for name in _DIGESTS}}
    files.write_json(folder / ANSWER_FILE, body)
    return folder.rename(folder.with_name(folders.version_of(folder)))


def newest(study: str, claim: str) -> Path:
    """Return the newest finished reproduction of a claim.

    Raises
    ------
    InputError
        Where there is none.
    """
    found = folders.finished(place(study, claim), ANSWER_FILE)
    if not found:
        raise InputError(
            f"There is no finished reproduction of {claim} below {folders.reports_folder()}. Make "
            f"one: innolab reproduce {claim}"
        )
    return found[-1]


def read(folder: Path) -> dict[str, Any]:
    """Return the answer of a reproduction.

    Raises
    ------
    InputError
        Where it is damaged.
    """
    path = folder / ANSWER_FILE
    try:
        body = parsing.json_file(path)
        wanted = {"claim", "reference", "servers", "files", "judged_at"}
        if not isinstance(body, dict) or wanted - body.keys():
            raise ValueError("it is no answer")
        return body
    except ValueError as error:
        raise InputError(
            f"{path} is damaged ({parsing.reason(error)}). Take it from its source."
        ) from None


def faults(study: Study, folder: Path) -> list[str]:
    """Return what in a reproduction contradicts its plan, its runs or its digests.

    As `innolab.verify.verify` does for a report, but for the page, of which there is none.
    """
    answer, experiment = read(folder), Experiment.read(folder, study)
    found = [
        f"{name}: changed after the claim was judged"
        for name in _DIGESTS
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
