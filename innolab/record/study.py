"""What a study is, and the plan that follows from its parameters."""

import hashlib
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from innolab.base.errors import InputError
from innolab.base.quoting import MOST_SHOWN, cut, shown
from innolab.storage.raid import Array

Level = str | int | float | bool
Factors = dict[str, Level]
Scale = Literal["smoke", "quick", "paper"]
# The least and the greatest value that a metric can have.
Bounds = tuple[float, float]

_MOST_FAULTS, _MOST_SAID = 8, 1500


class Parameters(BaseModel):
    """The parameters that every study takes. A study adds its own in a subclass."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    scale: Scale = "quick"
    seed: int = Field(default=2017, ge=0, le=2**32 - 1)
    replicates: int | None = Field(default=None, ge=1, le=1000)
    builds: list[str] = Field(default=["mysql-5.6.24", "mysql-9.7"], min_length=1)

    @field_validator("builds")
    @classmethod
    def _each_build_once(cls, builds: list[str]) -> list[str]:
        if len(set(builds)) != len(builds) or not all(builds):
            raise ValueError("names each build once, and none with an empty name")
        return builds


@dataclass(frozen=True)
class Needs:
    """What one trial needs of its host: memory for the server, disk for datasets and clones.

    `emulated_bytes` is the size of the emulated disk, which lies in memory or on the disk.
    """

    memory_bytes: int
    disk_bytes_per_build: int
    emulated_bytes: int = 0


@dataclass(frozen=True)
class Trial:
    """One planned (arm, replicate).

    `position` is its place in the plan, from 0; `block` counts the passes over all arms from 0.
    """

    position: int
    block: int
    factors: Factors

    @property
    def key(self) -> str:
        """Return what tells this trial from every other of its plan, as recorded in its run."""
        return trial_key(self.block, self.factors)


def exactly(value: float) -> Bounds:
    """Return the bounds of a value that is known but for the last bits of a sum.

    >>> low, high = exactly(3.0)
    >>> low < 3.0 < high < 3.00001
    True
    """
    width = abs(value) * 1e-6 + 1e-9
    return value - width, value + width


def trial_key(block: int, factors: Mapping[str, Level]) -> str:
    """Return the identity of a trial: its block and its levels, in the order of their names."""
    return json.dumps([block, dict(sorted(factors.items()))], separators=(",", ":"))


@dataclass(frozen=True)
class Study:
    """One published question, as data and functions.

    Attributes
    ----------
    name, title, question : str
    parameters : the typed parameters
    revision : raised by hand whenever a change of the trial makes older runs incomparable
    replicates : the number of blocks at each scale
    variables : for each factor, the server variables that may differ between its levels
    needed_variables : server variables without which the study makes no sense
    spec : everything about the measurement that is the same in all arms, JSON
    arms : the levels of every arm on one build
    needs : memory and disk of one trial
    dataset : the recipe of the table contents
    settings : takes parameters, an arm's levels and what is known of the dataset, and returns the
        server variables that the arm asks for beside the host's own
    trial : takes a bench and a trial, and returns the metrics
    recorded : takes parameters and an arm's levels, and returns the conditions that a run of it
        must have recorded, as far as they follow from these
    evidence : takes a run and its series, and returns for each metric that the rest of the record
        bounds the least and the greatest value that it can have
    checks : the names of those validity checks that its runs must pass
    metrics : those that two reports are compared by
    tools : the programs beside the servers that it uses
    devices : the devices that it runs on, by name; none for a study that varies no device
    calibration_s : how long each kind of calibration of a device takes, by scale
    arrays : the arrays of real disks among its devices, by name, each a layout on some disks
    whole_plot : a factor that is costly to change; a block keeps the arms of each level together
    refuses : takes a build and returns why it cannot run the study, or None
    question_parameters : those that ask of the results and change nothing that is measured
    """

    name: str
    title: str
    question: str
    parameters: type[Parameters]
    revision: int
    replicates: Mapping[str, int]
    variables: Mapping[str, frozenset[str]]
    needed_variables: frozenset[str]
    spec: Callable[[Any], dict[str, Any]]
    arms: Callable[[Any, str], list[Factors]]
    needs: Callable[[Any], Needs]
    dataset: Callable[[Any], Any]
    settings: Callable[[Any, Factors, Mapping[str, Any]], dict[str, Any]]
    trial: Callable[[Any, Trial], dict[str, Any]]
    checks: tuple[str, ...]
    metrics: tuple[str, ...]
    recorded: Callable[[Any, Factors], dict[str, Any]] = lambda _parameters, _factors: {}
    evidence: Callable[[Any, Any], dict[str, Bounds]] = lambda _run, _series: {}
    tools: tuple[str, ...] = ()
    devices: Callable[[Any], list[str]] = lambda _parameters: []
    arrays: Callable[[Any], dict[str, Array]] = lambda _parameters: {}
    whole_plot: str | None = None
    calibration_s: Mapping[str, float] = field(default_factory=dict)
    refuses: Callable[[Any], str | None] = lambda _build: None
    question_parameters: frozenset[str] = frozenset()

    def spec_sha256(self, parameters: Parameters) -> str:
        """Return the digest that two runs must share to be compared."""
        body = {"study": self.name, "revision": self.revision, **self.spec(parameters)}
        return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()

    def blocks(self, parameters: Parameters) -> int:
        """Return the number of replicates: as asked, else as the scale has it."""
        return parameters.replicates or self.replicates[parameters.scale]


def plan(study: Study, parameters: Parameters, builds: Sequence[str]) -> list[Trial]:
    """Return all trials in the order of their running.

    Each block holds every arm on every build once, in an order of its own drawn from the seed: a
    drift of the machine falls on all arms alike. The order does not depend on how far an earlier
    session came.
    """
    arms = [arm for build in builds for arm in study.arms(parameters, build)]
    shuffle = random.Random(parameters.seed).sample
    trials: list[Trial] = []
    for block in range(study.blocks(parameters)):
        for arm in _together(shuffle(arms, len(arms)), study.whole_plot):
            trials.append(Trial(len(trials), block, arm))
    return trials


def _together(shuffled: list[Factors], whole_plot: str | None) -> list[Factors]:
    """Return shuffled arms, those of one level of a costly factor after one another.

    Levels come in the order of their first arm, so that they are shuffled too.
    """
    if whole_plot is None:
        return shuffled
    levels = list(dict.fromkeys(arm[whole_plot] for arm in shuffled))
    return sorted(shuffled, key=lambda arm: levels.index(arm[whole_plot]))


def check_parameters(study: Study, given: Mapping[str, Any]) -> Parameters:
    """Return the study's typed parameters.

    Raises
    ------
    InputError
        Names every unknown, mistyped or out-of-range parameter and what is allowed, as far as one
        paragraph can.
    """
    try:
        found = study.parameters.model_validate(dict(given))
        faults = [
            f"'{name}' is {shown(value)} but should be printable text"
            for name, value in found
            if not _is_printable(value)
        ]
    except ValidationError as error:
        faults = [_fault(study, item) for item in error.errors()[:_MOST_FAULTS]]
    except UnicodeError:
        faults = ["a name among them is no valid text"]
    if faults:
        said = cut("; ".join(faults), _MOST_SAID)
        raise InputError(
            f"{study.name} cannot run with these parameters: {said}. Nothing was written."
        )
    return found


def _fault(study: Study, item: Any) -> str:
    says = cut(item["msg"].removeprefix("Value error, ").removeprefix("Input "), MOST_SHOWN)
    if not item["loc"]:  # Of two parameters that do not go together.
        return says
    name = shown(str(item["loc"][0]))
    if item["type"] == "extra_forbidden":
        known = ", ".join(study.parameters.model_fields)
        return f"{name} is unknown (the study takes: {known})"
    return f"{name} is {shown(item['input'])} but {says[0].lower()}{says[1:]}"


def _is_printable(value: Any) -> bool:
    """Return whether all text of a parameter can be a name, a path or a word of a command."""
    if isinstance(value, str):
        return value.isprintable()
    return not isinstance(value, list | dict) or all(map(_is_printable, value))
