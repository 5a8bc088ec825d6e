"""Walk a plan: skip what is recorded, run what is not, record each run before the next starts."""

import datetime
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Protocol

from innolab.analysis import claim_files
from innolab.base.clock import Clock
from innolab.base.errors import InnolabError, InputError
from innolab.base.provenance import own_facts
from innolab.measure import arrived_blocks
from innolab.measure.block import Measured, Task
from innolab.measure.session import opened
from innolab.record import journal, runlog
from innolab.record.plan import Progress
from innolab.record.replay import Replay
from innolab.record.run import Run
from innolab.record.runlog import FILE, RunLog, SessionStart
from innolab.record.runs import RunSet
from innolab.studies import schedule
from innolab.studies.experiment import Experiment, Trial


class Crew(Protocol):
    """Hosts that measure blocks."""

    def blocks(self, tasks: Sequence[Task]) -> Iterator[Measured]:
        """Yield the blocks of some tasks as they arrive, in any order, each once."""


def measure(
    experiment: Experiment,
    folder: Path,
    progress: Progress,
    clock: Clock,
    after_trial: Callable[[int, bool], None] = lambda _blocks, _is_whole: None,
    crew: Crew | None = None,
    *,
    keep_failed: bool = False,
    replay: Replay | None = None,
) -> RunSet:
    """Run every trial that the plan calls for and the folder has no record of; return all runs.

    The caller holds the right to measure (`machine.measuring_alone`), except in replay.

    Parameters
    ----------
    after_trial : is called after each trial, with the number of blocks that are complete and
        whether the trial has just completed one
    crew : the hosts that measure, if it is not this one
    keep_failed : whether this host keeps the data of a trial that failed, to be looked at
    replay : what is recorded is read, and nothing is measured

    Raises
    ------
    InputError
        If a build of the plan is gone, the log of the runs was altered, or the plan is for
        several hosts and none are given.
    InnolabError
        If runs are missing in replay, or a dataset cannot be built.
    """
    study, plan = experiment.study, experiment.plan
    log = RunLog(folder / FILE, study.kind.upgrade)
    entries, torn = log.entries()
    if altered := runlog.faults(entries):
        raise InputError(
            f"{log.path} is not as it was written: {altered[0]}. Restore it, or move its folder "
            "away and measure again. Nothing was changed."
        )
    if plan.wave and not (crew or replay):
        raise InputError(
            f"{folder.name} is measured by a fleet, {plan.wave} blocks at a time. Resume it by: "
            f"innolab run {study.name} --scheduler ADDRESS. Nothing was measured."
        )
    recorded = {e.content.key: e.content for e in entries if isinstance(e.content, Run)}
    if not replay:
        if torn is not None:
            log.repair()
            progress.say("the last line was torn by a crash; its trial runs again")
        # Also if nothing is missing, or what arrived before a crash would be sealed beside it.
        recorded |= {run.key: run for run in arrived_blocks.put_in(log)}
    journal.settle(folder, recorded)
    for run in recorded.values():
        clock.add_earlier(run.conditions["time_s"])
    registered = runlog.registered(entries) if replay else set()
    missing = _missing(experiment, folder, registered)
    if missing and replay and replay.is_partial:
        return study.read(folder)
    if missing and replay:
        raise InnolabError(
            f"{len(missing)} or more runs of the plan are not recorded in {log.path}, and a page "
            f"shows what is recorded. Measure them: innolab run {study.name} with its parameters."
        )
    if missing:
        if crew:
            _run_blocks(experiment, log, progress, clock, after_trial, crew)
        else:
            _run_trials(experiment, log, progress, clock, after_trial, keep_failed)
    return study.read(folder)


def _missing(experiment: Experiment, folder: Path, registered: Collection[str] = ()) -> list[Trial]:
    """Return the trials of the next block that are not recorded; none if all are."""
    runs = experiment.study.read(folder)
    recorded = {run.key for run in runs.runs}
    due = schedule.due(experiment, runs, registered)
    return [trial for trial in due if trial.key not in recorded]


def _run_trials(
    experiment: Experiment,
    log: RunLog,
    progress: Progress,
    clock: Clock,
    after_trial: Callable[[int, bool], None],
    keep_failed: bool,
) -> None:
    folder, last = log.path.parent, experiment.blocks.last
    began, ran = time.monotonic(), 0
    opening = opened(experiment, folder, progress, clock, keep_failed=keep_failed)
    with opening as session:
        log.begin(_start(experiment))
        while missing := _missing(experiment, folder):
            recorded = len(experiment.study.read(folder).runs)
            # If no claim is decided from now on, each block to come is as long as this one.
            most = recorded + len(missing) * (last - missing[0].block)
            for done, trial in enumerate(missing, recorded):
                left_s = (time.monotonic() - began) / ran * (most - done) if ran else None
                progress.trials(done, most, left_s, _label(trial))
                log.append(run := session.run(trial))
                session.recorded(trial)
                if session.lost:
                    raise InnolabError(str(run.error))
                ran += 1
                is_whole = trial is missing[-1]
                with clock.stage("provisional page"):
                    after_trial(trial.block + is_whole, is_whole)
        progress.trials(most, most, 0, "all runs recorded")


def _run_blocks(
    experiment: Experiment,
    log: RunLog,
    progress: Progress,
    clock: Clock,
    after_trial: Callable[[int, bool], None],
    crew: Crew,
) -> None:
    """Have hosts measure whole blocks beside each other, and record each as it arrives."""
    folder = log.path.parent
    log.begin(_start(experiment))
    most = len(experiment.trials)
    while missing := _missing(experiment, folder):
        blocks = {n: list(t) for n, t in groupby(missing, key=lambda trial: trial.block)}
        tasks = [Task(experiment.plan, n, frozenset(t.key for t in of)) for n, of in blocks.items()]
        began = time.monotonic()
        for measured in crew.blocks(tasks):
            clock.leave_out(time.monotonic() - began)
            arrived_blocks.set_down(folder, measured.block, measured.runs, measured.files)
            for run in arrived_blocks.put_in(log):
                clock.add_earlier(run.conditions["time_s"])
            runs = experiment.study.read(folder).runs
            whole = len({run.block for run in runs})
            progress.trials(len(runs), most, None, f"{whole} blocks recorded")
            with clock.stage("provisional page"):
                after_trial(whole, True)
            began = time.monotonic()
    progress.trials(most, most, 0, "all runs recorded")


def _start(experiment: Experiment) -> SessionStart:
    return SessionStart(
        began_at=datetime.datetime.now(datetime.UTC),
        plan_sha256=experiment.plan_sha256,
        claims_sha256=claim_files.sha256(experiment.study.papers.claims),
        trials=len(experiment.trials),
        blocks=experiment.blocks.last,
        innolab=own_facts(),
        evidence=runlog.EVIDENCE,
    )


def _label(trial: Trial) -> str:
    twin = " (again, as a control)" if trial.twin else ""
    return f"block {trial.block + 1}: {', '.join(map(str, trial.factors.values()))}{twin}"
