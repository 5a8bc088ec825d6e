"""Walk a plan: skip what is recorded, run what is not, record each run before the next starts."""

import datetime
import os
import time
from pathlib import Path

from innolab.analysis import claims
from innolab.base.clock import Clock
from innolab.base.errors import InnolabError, InputError
from innolab.base.provenance import own_facts
from innolab.record import journal, runlog
from innolab.record.plan import Plan, Progress
from innolab.record.run import Run
from innolab.record.runlog import FILE, RunLog, SessionStart
from innolab.record.runs import RunSet
from innolab.run.plan import arrays_of
from innolab.run.session import Session
from innolab.studies.parameters import Parameters
from innolab.studies.study import Study, Trial


def replaying() -> bool:
    """Return whether only recorded runs may be used (INNOLAB_REPLAY=1)."""
    return os.environ.get("INNOLAB_REPLAY") == "1"


def measure(study: Study, folder: Path, progress: Progress, clock: Clock) -> RunSet:
    """Run every trial of the folder's plan that is not recorded yet, and return all runs.

    The caller holds the right to measure (`machine.measuring_alone`), except in replay.

    Raises
    ------
    InputError
        Where a build of the plan is gone, or the log of the runs was altered.
    InnolabError
        Where runs are missing in replay, or a dataset cannot be built.
    """
    chosen = Plan.read(folder)
    parameters = study.check(chosen.parameters)
    trials = study.plan(parameters, chosen.builds)
    log = RunLog(folder / FILE, study.upgrade)
    entries, torn = log.entries()
    if altered := runlog.faults(entries):
        raise InputError(
            f"{log.path} is not as it was written: {altered[0]}. Restore it, or move its folder "
            "away and measure again. Nothing was changed."
        )
    recorded = {e.content.key: e.content for e in entries if isinstance(e.content, Run)}
    journal.settle(folder, recorded)
    missing = [trial for trial in trials if trial.key not in recorded]
    for run in recorded.values():
        clock.add_earlier(run.conditions["time_s"])
    if missing and replaying():
        raise InnolabError(
            f"{len(missing)} of {len(trials)} runs are not recorded in {log.path}, and in replay "
            "none is measured. Unset INNOLAB_REPLAY to measure them."
        )
    if missing:
        if torn is not None:
            log.repair()
            progress.say("the last line was torn by a crash; its trial runs again")
        _run_trials(study, parameters, chosen, missing, log, progress, clock)
    return study.read(folder)


def _run_trials(
    study: Study,
    parameters: Parameters,
    chosen: Plan,
    missing: list[Trial],
    log: RunLog,
    progress: Progress,
    clock: Clock,
) -> None:
    found = arrays_of(study, parameters)
    session = Session(study, parameters, chosen, log.path.parent, progress, clock, found)
    total = len(study.plan(parameters, chosen.builds))
    try:
        session.prepare_datasets()
        session.prepare_devices()
        log.begin(_start(study, parameters, chosen))
        began = time.monotonic()
        for count, trial in enumerate(missing):
            left_s = (time.monotonic() - began) / count * (len(missing) - count) if count else None
            progress.trials(total - len(missing) + count, total, left_s, _label(trial))
            log.append(run := session.run(trial))
            session.recorded(trial)
            if session.lost:
                raise InnolabError(str(run.error))
        progress.trials(total, total, 0, "all runs recorded")
    finally:
        session.clear()
        if found:
            found.host.close()


def _start(study: Study, parameters: Parameters, chosen: Plan) -> SessionStart:
    return SessionStart(
        began_at=datetime.datetime.now(datetime.UTC),
        plan_sha256=study.plan_sha256(chosen),
        claims_sha256=claims.sha256(study.papers.claims),
        trials=len(study.plan(parameters, chosen.builds)),
        blocks=study.blocks(parameters),
        innolab=own_facts(),
    )


def _label(trial: Trial) -> str:
    return f"block {trial.block + 1}: {', '.join(map(str, trial.factors.values()))}"
