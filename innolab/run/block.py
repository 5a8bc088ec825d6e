"""One block of a plan on one host of a fleet: what the host is given, and what it gives back.

A block is whole or not at all: ratios are taken inside it, so all its trials are of one host.
"""

import hashlib
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from innolab import studies
from innolab.base.clock import Clock
from innolab.base.errors import InnolabError
from innolab.base.provenance import own_facts
from innolab.hosts import machine
from innolab.mysql import builds
from innolab.mysql.builds import Build
from innolab.record.plan import Plan
from innolab.run.plan import arrays_of, prepare
from innolab.run.session import Session

_MACHINE_ID = Path("/etc/machine-id")
_MEMBER_DIGITS = 12
# What goes with runs in a report, a folder each.
_BESIDE = ("variables", "series")


@dataclass(frozen=True)
class Task:
    """A block that a host is to measure.

    Attributes
    ----------
    plan : the report's
    block : its number, from 0
    keys : the trials of it that are due, by their identities
    """

    plan: Plan
    block: int
    keys: frozenset[str]


class Measured(NamedTuple):
    """A block that a host has measured.

    Attributes
    ----------
    block : its number
    member : the host, by a name that says nothing of it
    runs : the bodies of its runs, in the order of their running
    files : series and server variables, by their paths in a report
    """

    block: int
    member: str
    runs: list[dict[str, Any]]
    files: dict[str, bytes]


class Ability(NamedTuple):
    """What a host of a fleet says of itself before anything is measured.

    Attributes
    ----------
    member : the host, by a name that says nothing of it
    plan : what of the study it can run
    innolab : which innolab it has
    mysqld : the digest of each build's server
    clock_s : its clock, in seconds since 1970
    """

    member: str
    plan: Plan
    innolab: dict[str, Any]
    mysqld: dict[str, str]
    clock_s: float


def member() -> str:
    """Return this host's name in a fleet: the same at any time, and nobody learns its own."""
    told = _MACHINE_ID.read_text() + str(machine.cache_folder())
    return hashlib.sha256(f"innolab {told}".encode()).hexdigest()[:_MEMBER_DIGITS]


def ability(study: str, given: dict[str, Any]) -> Ability:
    """Return what this host can run of a study.

    Parameters
    ----------
    given : the study's parameters by name

    Raises
    ------
    InputError
        Where it cannot run the study at all; says why.
    """
    found = studies.find(study)
    parameters = found.check(given)
    plan = prepare(found, parameters)
    usable = (builds.find(machine.cache_folder(), name) for name in parameters.builds)
    digests = {one.id: one.sha256 for one in usable if isinstance(one, Build)}
    return Ability(member(), plan, own_facts(), digests, time.time())


class _Silent:
    """Progress on a host: who started the fleet hears of each trial, and of nothing else."""

    def say(self, text: str) -> None:
        """Take a line that nobody reads here."""

    mark = say

    def trials(self, done: int, total: int, left_s: float | None, text: str) -> None:
        """Take a count that nobody reads here."""


def measure_block(task: Task, heed: Callable[[int, int], None]) -> Measured:
    """Measure a block on this host, alone, and return it whole.

    Parameters
    ----------
    heed : is called before each trial with the number of those done, and of all

    Raises
    ------
    InputError
        Where another process measures here, or a build of the plan is gone.
    InnolabError
        Where the host that the servers run on is lost.
    """
    study = studies.find(task.plan.study)
    parameters = study.check(task.plan.parameters)
    trials = [one for one in study.planned(task.plan) if one.key in task.keys]
    with machine.measuring_alone(), tempfile.TemporaryDirectory(prefix="innolab-block-") as place:
        folder = Path(place)
        arrays = arrays_of(study, parameters)
        session = Session(study, parameters, task.plan, folder, _Silent(), Clock(), arrays)
        runs = []
        try:
            session.prepare_datasets()
            session.prepare_devices()
            for done, trial in enumerate(trials):
                heed(done, len(trials))
                run = session.run(trial)
                session.recorded(trial)
                if session.lost:
                    raise InnolabError(str(run.error))
                conditions = {**run.conditions, "member": member()}
                runs.append(run.model_copy(update={"conditions": conditions}).body())
        finally:
            session.clear()
            if arrays:
                arrays.host.close()
        kept = [path for name in _BESIDE for path in folder.glob(f"{name}/*")]
        files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in kept}
    return Measured(task.block, member(), runs, files)
