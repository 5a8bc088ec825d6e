"""The way from begin to seal: begin or resume a folder, measure what is missing, render, seal.

`innolab run`, fleets, `reproduce` and a notebook that measures all go it, each as far as it needs.
"""

import contextlib
import fcntl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from innolab.base.clock import Clock
from innolab.base.errors import InnolabError, InputError
from innolab.hosts import machine
from innolab.measure.measure import Crew, measure
from innolab.record import runlog
from innolab.record.plan import PLAN_FILE, Plan, Progress
from innolab.record.runlog import RunLog
from innolab.record.runs import RunSet
from innolab.report import folders, manifest, render, sealing
from innolab.report.provisional import Provisional
from innolab.report.sealing import Proof
from innolab.studies.experiment import Experiment


@contextlib.contextmanager
def begun(
    ready: Experiment, progress: Progress, version: str | None = None, place: str | None = None
) -> Iterator[tuple[Experiment, Path]]:
    """Give an experiment and its folder, begun or resumed, which no other process measures in.

    Held until the report is sealed: a second run of the same plan would work in its folder. One
    host measures alone; of a fleet's folder, whose hosts may be this one, the folder alone is held.

    Parameters
    ----------
    ready : what the host or the fleet can run; when a fleet's folder was begun, it may have had
        another number of hosts
    version, place : as `folders.begin`

    Raises
    ------
    InputError
        If another process measures, the version exists, or the folder cannot be written.
    """
    if ready.plan.wave:
        ready = _as_begun(ready)
    with contextlib.ExitStack() as stack:
        if not ready.plan.wave:
            stack.enter_context(machine.measuring_alone())
        folder = folders.begin(ready.plan, version, place)
        if ready.plan.wave:
            stack.enter_context(_alone_in(folder))
        log = RunLog(folder / runlog.FILE, ready.study.kind.upgrade)
        if recorded := len(log.load()[0]):
            progress.mark(f"Resuming {folder.name} ({recorded} runs recorded).")
        yield ready, folder


def _as_begun(ready: Experiment) -> Experiment:
    """Return a fleet's plan as it was begun, if it was: by now there may be more hosts."""
    for folder in reversed(folders.unfinished(ready.name)):
        plan = Plan.read(folder)
        if plan.wave and replace(plan, wave=ready.plan.wave) == ready.plan:
            return ready.with_plan(wave=plan.wave)
    return ready


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    with (folder / PLAN_FILE).open() as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(
                f"Another innolab measures {folder.name} already. Wait for it to end, then start "
                "this one again."
            ) from None
        yield


def measured(
    experiment: Experiment,
    folder: Path,
    progress: Progress,
    clock: Clock,
    crew: Crew | None = None,
    *,
    has_page: bool = True,
    keep_failed: bool = False,
) -> RunSet:
    """Measure what is missing in a folder, and return all runs.

    Parameters
    ----------
    has_page : whether a provisional page shows the blocks so far
    crew, keep_failed : as `innolab.measure.measure.measure`
    """
    page = Provisional(experiment.study, folder, progress)
    after_trial = page.after_trial if has_page else lambda _blocks, _is_whole: None
    return measure(experiment, folder, progress, clock, after_trial, crew, keep_failed=keep_failed)


def require_complete(runs: RunSet, folder: Path) -> None:
    """Raise InnolabError if all runs failed, of which nothing can be judged."""
    if all(run.status == "failed" for run in runs.runs):
        raise InnolabError(
            f"All {len(runs.runs)} runs failed; the first says: {runs.runs[0].error} They are "
            f"kept in {folder}. Move it away to measure again."
        )


def make_report(
    experiment: Experiment,
    folder: Path,
    progress: Progress,
    clock: Clock,
    prove: Proof,
    crew: Crew | None = None,
    *,
    keep_failed: bool = False,
) -> Path:
    """Measure what is missing in a folder, render and seal it, and return the report's page.

    Parameters
    ----------
    prove : takes the finished report, and raises if it does not hold
    """
    runs = measured(experiment, folder, progress, clock, crew, keep_failed=keep_failed)
    require_complete(runs, folder)
    with sealing.apart(folders.version_of(folder), folder) as made:
        with clock.stage("rendering"):
            render.render(experiment.study, made)
        manifest.write(experiment.study, made, runs.runs, clock.account())
        return sealing.finish(made, folder, prove) / render.PAGE_FILE
