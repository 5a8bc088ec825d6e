"""Hosts for tests of a fleet: they return runs that were made by hand, after a while.

A module of its own, which the workers of a real cluster import too.
"""

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from conftest import made_conditions, made_run, made_variables
from distributed import get_worker

from innolab import studies
from innolab.base.errors import InnolabError
from innolab.record.runs import store_variables
from innolab.run.block import Measured, Task

Heed = Callable[[int, int], None]
# Where tests say what a host does, a file a word.
PLACE = "INNOLAB_TEST_HOSTS"
TRIAL_S = 0.01
_FIRST: dict[str, str] = {}


def member() -> str:
    """Return this worker's name as the host of a fleet."""
    return get_worker().address


def _is_first(kind: str) -> bool:
    """Return whether this worker came first to work of a kind, in a cluster of one process."""
    return _FIRST.setdefault(kind, member()) == member()


def quick(task: Task, heed: Heed) -> Measured:
    """Return a block, a hundredth of a second a trial."""
    study = studies.find(task.plan.study)
    trials = [one for one in study.planned(task.plan) if one.key in task.keys]
    with tempfile.TemporaryDirectory() as place:
        digest = store_variables(Path(place), made_variables())
        kept = (Path(place) / "variables" / f"{digest}.json").read_bytes()
    runs, files = [], {f"variables/{digest}.json": kept}
    for done, trial in enumerate(trials):
        heed(done, len(trials))
        time.sleep(TRIAL_S)
        series = f"series/{trial.position:04d}.parquet"
        conditions = {**made_conditions(), "member": member(), "variables": digest}
        made = made_run(study, trial, twin=trial.twin, series=series, conditions=conditions)
        runs.append(made.body())
        files[series] = trial.key.encode()
    return Measured(task.block, member(), runs, files)


def noted(task: Task, heed: Heed) -> Measured:
    """Return a block, and leave a line of which worker process began which."""
    with (Path(os.environ[PLACE]) / "began").open("a") as file:
        file.write(f"{task.block} {os.getpid()}\n")
    time.sleep(0.5)
    return quick(task, heed)


def failing_on_the_first(task: Task, heed: Heed) -> Measured:
    """Fail on the worker that came first, as a host without room would."""
    if _is_first("failing"):
        raise InnolabError("The disk is full.")
    return quick(task, heed)


def failing(task: Task, heed: Heed) -> Measured:
    """Fail on every host."""
    raise InnolabError("The disk is full.")


def broken(task: Task, heed: Heed) -> Measured:
    """Fail as only a fault of the program does."""
    raise ZeroDivisionError("nothing to divide by")


def slow_on_the_first(task: Task, heed: Heed) -> Measured:
    """Take half a minute on the worker that came first."""
    if _is_first("slow"):
        heed(0, 1)
        time.sleep(30)
    return quick(task, heed)
