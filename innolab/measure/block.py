"""One block of a plan on one host of a fleet: what the host is given, and what it gives back.

A block is whole or not at all: ratios are taken inside it, so all its trials are of one host.
"""

import hashlib
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

from innolab import studies
from innolab.base.clock import Clock
from innolab.base.errors import InnolabError
from innolab.base.provenance import own_facts
from innolab.hosts import machine
from innolab.measure.prepare import prepare
from innolab.measure.session import opened
from innolab.mysql import builds
from innolab.mysql.builds import Build
from innolab.record.plan import Plan, Silent
from innolab.studies.experiment import Experiment

_MACHINE_ID = Path("/etc/machine-id")
_MEMBER_DIGITS = 12
# What goes with runs in a report, a folder each.
_BESIDE = ("variables", "series")
# Of a plan, what others of its fields follow from; a difference is named by its cause.
_CAUSES = ("missing_devices", "unavailable", "lacking")
_SHOWN = 200


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

    @property
    def failed(self) -> int:
        """Return how many of its runs failed."""
        return sum(run["status"] == "failed" for run in self.runs)


class Ability(NamedTuple):
    """What a host of a fleet says of itself before anything is measured.

    Attributes
    ----------
    member : the host, by a name that says nothing of it
    plan : what of the study it can run
    innolab : which innolab it has
    mysqld : the digest of each build's server
    """

    member: str
    plan: Plan
    innolab: dict[str, Any]
    mysqld: dict[str, str]


def member() -> str:
    """Return this host's name in a fleet, of which nobody learns its own.

    Containers of one image have no machine's id or the same one, but names of their own.
    """
    own_id = _MACHINE_ID.read_text() if _MACHINE_ID.exists() else ""
    told = f"{own_id}{os.uname().nodename}{machine.cache_folder()}"
    return hashlib.sha256(f"innolab {told}".encode()).hexdigest()[:_MEMBER_DIGITS]


def ability(study: str, given: dict[str, Any]) -> Ability:
    """Return what this host can run of a study.

    Parameters
    ----------
    given : the study's parameters by name

    Raises
    ------
    InputError
        If it cannot run the study at all; says why.
    """
    ready = prepare(Experiment.fresh(studies.find(study), given))
    usable = (builds.find(machine.cache_folder(), name) for name in ready.parameters.builds)
    digests = {one.id: one.sha256 for one in usable if isinstance(one, Build)}
    return Ability(member(), ready.plan, own_facts(), digests)


def differing(one: Ability, other: Ability) -> str | None:
    """Return in what two hosts would not measure the same, as text; None if they would."""
    order = dict.fromkeys([*_CAUSES, *(field.name for field in fields(Plan))])
    sides: dict[str, tuple[Any, Any]] = {
        "innolab": (one.innolab, other.innolab),
        "the servers' digests": (one.mysqld, other.mysqld),
    }
    for name in order:
        # The plan of another innolab may lack one.
        sides[f"their plans' {name}"] = vars(one.plan).get(name), vars(other.plan).get(name)
    for what, (first, second) in sides.items():
        if first != second:
            return f"{what}: {_brief(first, second)} and {_brief(second, first)}"
    return None


def differing_here(found: Ability) -> str | None:
    """Return in what a host differs from this machine, which judges what the host measures."""
    here = found._replace(innolab=own_facts())
    # Parameters of another innolab may be none here.
    if found.innolab != here.innolab:
        return differing(here, found)
    spec_sha256 = Experiment.from_plan(found.plan).spec_sha256
    return differing(here._replace(plan=replace(found.plan, spec_sha256=spec_sha256)), found)


def _brief(value: Any, other: Any) -> str:
    """Return a value in a few words; of a mapping, what the other lacks or has otherwise."""
    if not isinstance(value, dict):
        return str(value)[:_SHOWN]
    own = [f"{name} {one}" for name, one in value.items() if other.get(name) != one]
    return ", ".join(own)[:_SHOWN] or "none"


def measure_block(task: Task, heed: Callable[[int, int], None]) -> Measured:
    """Measure a block on this host, alone, and return it whole.

    Parameters
    ----------
    heed : is called before each trial with the number of those done, and of all

    Raises
    ------
    InputError
        If another process measures here, or a build of the plan is gone.
    InnolabError
        If the host that the servers run on is lost, or no trial came to its end: what makes
        all of them fail is the host, and another one may do better.
    """
    experiment = Experiment.from_plan(task.plan)
    trials = [trial for trial in experiment.trials if trial.key in task.keys]
    # Asked once: a host that is named anew meanwhile would make two of the block.
    own = member()
    with machine.measuring_alone(), tempfile.TemporaryDirectory(prefix="innolab-block-") as place:
        folder = Path(place)
        runs = []
        with opened(experiment, folder, Silent(), Clock()) as session:
            for done, trial in enumerate(trials):
                heed(done, len(trials))
                run = session.run(trial)
                session.recorded(trial)
                if session.lost:
                    raise InnolabError(str(run.error))
                conditions = {**run.conditions, "member": own}
                runs.append(run.model_copy(update={"conditions": conditions}).body())
        kept = [path for name in _BESIDE for path in folder.glob(f"{name}/*")]
        files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in kept}
    if all(run["status"] == "failed" for run in runs):
        raise InnolabError(f"All {len(runs)} trials failed; the first says: {runs[0]['error']}")
    return Measured(task.block, own, runs, files)
