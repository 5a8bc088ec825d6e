"""Which recorded report a notebook shows if it is opened, and what it says if there is none.

A notebook in JupyterLab works on a copy of what was recorded, in a temporary folder: figures and
verdicts go there, and no cell can change a sealed report.
"""

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from innolab.base.clock import Clock
from innolab.base.errors import InnolabError, InputError
from innolab.measure import estimate, plan_text
from innolab.measure.measure import measure
from innolab.measure.prepare import prepare
from innolab.measure.progress import Shown
from innolab.record import runlog
from innolab.record.replay import Replay
from innolab.record.runlog import RunLog
from innolab.record.runs import RunSet
from innolab.report import folders, manifest
from innolab.report.prose import Prose, code, in_markdown
from innolab.studies import schedule
from innolab.studies.experiment import Experiment
from innolab.studies.study import Study

_HOW = "study.measure(anew=True)"
_MOST_NAMED = 4


@dataclass(frozen=True)
class Opened:
    """What a notebook shows that is not executed in a report's own folder.

    Attributes
    ----------
    asked : the notebook's parameters, with which it would measure
    experiment : that of the report that is shown; if there is none, that of `asked`
    report : the folder of the report that is shown, None if there is none
    scratch : holds a copy of what was recorded and whatever cells write; goes with this object
    says : which report is shown and how it differs from what is asked, in Markdown; or that there
        is none and what to do
    """

    asked: Experiment
    experiment: Experiment
    report: Path | None
    scratch: "TemporaryDirectory[str]"
    says: str

    @property
    def folder(self) -> Path:
        """Return the folder that the notebook works in."""
        return Path(self.scratch.name)


def opened(asked: Experiment) -> Opened:
    """Return the newest recorded report of some parameters, copied to be worked on.

    If a notebook has its study's defaults and no report fits, the newest finished one is shown,
    those first that differ only in how long, how often or where was measured.

    Raises
    ------
    InputError
        If there is no such report, and this host cannot measure one.
    """
    recorded = dict(_recorded(asked.study))
    for folder in _newest_first(recorded, asked):
        if _is_whole(recorded[folder], folder):
            return of_report(folder, recorded[folder], asked)
    nothing = _nothing_fits(recorded, asked)
    try:
        ready = prepare(asked)
    except InputError as error:
        raise InputError(f"{nothing} This host cannot measure it: {error}") from None
    return Opened(asked, ready, None, _scratch(), f"{nothing} To measure it here: {_HOW}.")


def of_report(report: Path, recorded: Experiment, asked: Experiment) -> Opened:
    """Return one report, copied to be worked on; what only asks of its results is as asked."""
    asks = asked.study.parameters.with_role("asks")
    shown = recorded.asking({n: value for n, value in asked.plan.parameters.items() if n in asks})
    scratch = _scratch()
    folders.copy_recorded(report, Path(scratch.name))
    shown.plan.write(Path(scratch.name))
    return Opened(asked, shown, report, scratch, _notice(report, differing(recorded, asked)))


def is_anew(anew: bool | None) -> bool:
    """Return whether to measure: as a cell says, else as INNOLAB_MEASURE=1 does for papermill."""
    return os.environ.get("INNOLAB_MEASURE") == "1" if anew is None else anew


def replayed(shown: Opened) -> RunSet:
    """Return the runs of the report that is shown, and display which one it is.

    Raises
    ------
    InputError
        If there is none.
    """
    from IPython.display import display

    if shown.report is None:
        raise InputError(f"{shown.says} {_duration(shown.experiment)}")
    with Shown() as progress:
        runs = measure(
            shown.experiment, shown.folder, progress, Clock(), replay=Replay(shown.folder)
        )
    if shown.says:
        display(Prose(shown.says))
    return runs


def differing(recorded: Experiment, asked: Experiment) -> dict[str, tuple[Any, Any]]:
    """Return in which parameters a report is not as asked: its value and the one asked, each.

    Those that only ask of the results are no part, nor devices that its host could not have.
    """
    has, wants = recorded.parameters.model_dump(), asked.parameters.model_dump()
    if missing := recorded.plan.missing_devices:
        wants["devices"] = [name for name in wants["devices"] if name not in missing]
    asks = asked.study.parameters.with_role("asks")
    return {n: (has[n], wants[n]) for n in wants if n not in asks and has[n] != wants[n]}


def _recorded(study: Study) -> Iterator[tuple[Path, Experiment]]:
    for folder in reversed([*folders.finished(study.name), *folders.unfinished(study.name)]):
        with contextlib.suppress(InnolabError):
            yield folder, Experiment.read(folder, study)


def _newest_first(recorded: Mapping[Path, Experiment], asked: Experiment) -> list[Path]:
    others = {folder: differing(one, asked) for folder, one in recorded.items()}
    fitting = [folder for folder, names in others.items() if not names]
    study = asked.study
    asks = set(study.parameters.with_role("asks"))
    if asked.parameters.model_dump(exclude=asks) != study.parameters().model_dump(exclude=asks):
        return fitting
    repeats = study.parameters.with_role("repeats")
    near = [f for f, names in others.items() if names and not f.name.endswith(folders.UNFINISHED)]
    return [*fitting, *sorted(near, key=lambda folder: bool(others[folder].keys() - repeats))]


def _is_whole(recorded: Experiment, folder: Path) -> bool:
    try:
        runs = recorded.study.read(folder)
        entries, _ = RunLog(folder / runlog.FILE, recorded.study.kind.upgrade).entries()
        due = schedule.due(recorded, runs, runlog.registered(entries))
    except InnolabError:
        return False
    return {trial.key for trial in due} <= {run.key for run in runs.runs}


def _scratch() -> "TemporaryDirectory[str]":
    return TemporaryDirectory(prefix="innolab-notebook-", ignore_cleanup_errors=True)


def _name(report: Path) -> str:
    return f"{report.parent.name}/{report.name}"


def _notice(report: Path, others: Mapping[str, tuple[Any, Any]]) -> Prose:
    says = f"**Recorded**: this shows the report {code(_name(report))}, and nothing is measured."
    if others:
        said = "; ".join(
            f"{code(n)} was {in_markdown(repr(has))}, not {in_markdown(repr(wants))}"
            for n, (has, wants) in others.items()
        )
        says += f" It was measured with other parameters than those above: {said}."
    says += f" To measure with the parameters above: `{_HOW}`"
    with contextlib.suppress(InnolabError):
        took_s = manifest.read(report)["time_s"]["total"]
        return Prose(f"{says}; this report took {plan_text.about(took_s)}.")
    return Prose(f"{says}.")


def _nothing_fits(recorded: Mapping[Path, Experiment], asked: Experiment) -> str:
    if not recorded:
        return f"No report of {asked.name} is recorded in {folders.reports_folder()}."
    said = []
    for folder, one in list(recorded.items())[:_MOST_NAMED]:
        others = [f"{n} = {has!r}" for n, (has, _) in differing(one, asked).items()]
        state = "which is not whole" if not others else f"with {', '.join(others)}"
        said.append(f"{_name(folder)} {state}")
    more = len(recorded) - len(said)
    rest = f"; and {more} more" if more else ""
    return (
        f"No report of {asked.name} with these parameters is recorded. There are: "
        f"{'; '.join(said)}{rest}. To see one of these, give the parameters cell its values."
    )


def _duration(ready: Experiment) -> str:
    for earlier in estimate.earlier_reports(ready):
        expected = estimate.expected(ready, [earlier])
        if lasts := expected.duration:
            most = plan_text.about(lasts.until(expected.last.blocks) + lasts.after_s)
            return f"It may take {most}, by the times in {lasts.report}."
    if budget_s := ready.parameters.budget_s:
        return f"It takes up to {plan_text.about(budget_s)}, as its effort says."
    return "No report says how long it takes; the cell shows the time left."
