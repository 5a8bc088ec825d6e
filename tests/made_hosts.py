"""Hosts for tests of a fleet: they return runs that were made by hand, after a while.

A module of its own, which the workers of a real cluster import too.
"""

import errno
import os
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conftest import made_conditions, made_run, made_variables, plan_of
from distributed import get_worker

from innolab import studies
from innolab.base.errors import InnolabError
from innolab.base.provenance import own_facts
from innolab.measure.block import Ability, Measured, Task
from innolab.record import series_store
from innolab.record.runs import store_variables
from innolab.studies.experiment import Experiment

Heed = Callable[[int, int], None]
# Where tests say what a host does, a file a word.
PLACE = "INNOLAB_TEST_HOSTS"
TRIAL_S = 0.01
_FIRST: dict[str, object] = {}
# The block that a host took long over, and the workers that gave it with a failed run.
SLOW: list[int] = []
PARTLY: list[str] = []
# Workers that hang with a block until the test lets go of them.
HANGING: list[str] = []
LET_GO = threading.Event()


def member() -> str:
    """Return this worker's name as the host of a fleet."""
    return get_worker().address


def _is_first(kind: str) -> bool:
    """Return whether this worker came first to work of a kind, in a cluster of one process."""
    return _FIRST.setdefault(kind, member()) == member()


def _is_once(kind: str) -> bool:
    """Return whether this is the first work of a kind, in a cluster of one process."""
    this = object()
    return _FIRST.setdefault(kind, this) is this


def able(study: str, given: dict[str, Any], dask_worker: Any = None) -> Ability:
    """Say what every other made host says."""
    plan = plan_of(studies.find(study), ["x"])
    return Ability(dask_worker.address, plan, own_facts(), {})


def able_if_first(study: str, given: dict[str, Any], dask_worker: Any = None) -> Ability:
    """Say so on the worker that came first; others have another innolab."""
    found = able(study, given, dask_worker)
    if _FIRST.setdefault("able", found.member) == found.member:
        return found
    return found._replace(innolab={"version": "0"})


def quick(task: Task, heed: Heed) -> Measured:
    """Return a block, a hundredth of a second a trial."""
    study = studies.find(task.plan.study)
    trials = [one for one in Experiment.from_plan(task.plan, study).trials if one.key in task.keys]
    with tempfile.TemporaryDirectory() as place:
        digest = store_variables(Path(place), made_variables())
        kept = (Path(place) / "variables" / f"{digest}.json").read_bytes()
    runs, files = [], {f"variables/{digest}.json": kept}
    for done, trial in enumerate(trials):
        heed(done, len(trials))
        time.sleep(TRIAL_S)
        series = series_store.path_of(trial.position)
        conditions = {**made_conditions(), "member": member(), "variables": digest}
        made = made_run(study, trial, twin=trial.twin, series=series, conditions=conditions)
        runs.append(made.body())
        files[series] = trial.key.encode()
    return Measured(task.block, member(), runs, files)


def quick_beside_another(task: Task, heed: Heed) -> Measured:
    """Return a block, while the worker tells another fleet how far it is there."""
    get_worker().log_event("innolab", ("another", 0, 999))
    return quick(task, heed)


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


def without_room_on_the_first(task: Task, heed: Heed) -> Measured:
    """Fail on the worker that came first, as a disk does."""
    if _is_first("no room"):
        raise OSError(errno.ENOSPC, "No space left on device")
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


def partly_where_late(task: Task, heed: Heed) -> Measured:
    """Take long over the first block; whoever is given it too fails at once, in one trial."""
    if _is_once("partly"):
        SLOW.append(task.block)
        time.sleep(3)
        return quick(task, heed)
    if task.block not in SLOW:
        time.sleep(1)
        return quick(task, heed)
    found = quick(task, heed)
    found.runs[0].update(status="failed", error="The server died.")
    PARTLY.append(found.member)
    return found


def broken_where_late(task: Task, heed: Heed) -> Measured:
    """Take long over the first block, then fail by a fault, while another one still goes on."""
    if _is_once("broken"):
        time.sleep(4)
        raise ZeroDivisionError("nothing to divide by")
    if task.block == 5:
        time.sleep(7)
    return quick(task, heed)


def hanging_with_the_first(most: int, task: Task, heed: Heed) -> Measured:
    """Hang with the first block on as many workers as are to hang; others give it."""
    if task.block == 0 and len(HANGING) < most:
        HANGING.append(member())
        LET_GO.wait(60)
    return quick(task, heed)
