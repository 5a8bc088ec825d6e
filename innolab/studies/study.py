"""What a study is: a grid of arms, a trial, metrics; and the plan that follows from parameters."""

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from innolab.analysis import answers
from innolab.analysis.answers import Answer
from innolab.analysis.claim_files import claims_of
from innolab.analysis.claims import Claim
from innolab.analysis.published import Published, published_of
from innolab.base.errors import InnolabError
from innolab.bench.trial import Bench
from innolab.mysql.builds import Build
from innolab.mysql.datasets import Recipe
from innolab.record.plan import Blocks
from innolab.record.run import Level, Observation
from innolab.record.runs import RunSet
from innolab.storage.profiles import Profile
from innolab.storage.raid import Array
from innolab.studies import parameters as checking
from innolab.studies.kind import Kind, Levels
from innolab.studies.parameters import ByEffort, Parameters

Facts = Mapping[str, Any]
SERVER_OVERHEAD_BYTES = 700 * 1024**2


class Arm(SimpleNamespace):
    """The levels of one arm, each an attribute: `arm.device`. `vars(arm)` has them by factor."""

    # For type checkers alone: which factors there are is the study's own.
    def __getattr__(self, name: str) -> Any:
        """Refuse what is no factor of this arm."""
        raise AttributeError(f"the arm has no factor '{name}'; it has: {', '.join(vars(self))}")


class Papers(NamedTuple):
    """The files that go with a study: what was published, the claims, the notebook, the answer."""

    published: Path
    claims: Path
    notebook: Path
    answer: Path


_NO_PAPERS = Papers(Path(), Path(), Path(), Path())


@dataclass(frozen=True, kw_only=True)
class Design:
    """How often arms are measured, and in which order.

    Attributes
    ----------
    blocks : the first and the last number of blocks after which claims are judged
    control : the levels of the arm that is measured twice in each block, on every server; the first
        arm if there is none with these levels
    whole_plot : a factor that is costly to change; a block keeps the arms of each level together
    """

    blocks: ByEffort[Blocks]
    control: Mapping[str, Level] = field(default_factory=dict)
    whole_plot: str | None = None


@dataclass(frozen=True, kw_only=True)
class Demands:
    """What a study demands of hosts and servers.

    Attributes
    ----------
    tools : the programs besides the servers that it uses
    variables : server variables without which it makes no sense
    copies : how many copies of the data are on a device at a time
    grows_bytes, extra_bytes : takes parameters; what a trial adds to the data on the disk, and
        what it needs of memory besides the pool
    arrays : the arrays of real disks among its devices, by name, each a layout on some disks
    modelled : the study's own emulated devices by name, besides those of the data files
    nodes : takes parameters and returns the inventory over whose hosts topologies are spread, or
        None if they stay on this machine
    refuses : takes a build and returns why it cannot run the study, or None
    lacks : takes a build and parameters and returns the levels that it cannot have, by factor, with
        the reasons
    impossible : returns why this host cannot run the study at all, or None
    """

    tools: Sequence[str] = ()
    variables: Collection[str] = ()
    copies: int = 2
    grows_bytes: Callable[[Any], int] = lambda _parameters: 0
    extra_bytes: Callable[[Any], int] = lambda _parameters: SERVER_OVERHEAD_BYTES
    arrays: Callable[[Any], Mapping[str, Array]] = lambda _parameters: {}
    modelled: Callable[[Any], Mapping[str, Profile]] = lambda _parameters: {}
    nodes: Callable[[Any], str | None] = lambda _parameters: None
    refuses: Callable[[Build], str | None] = lambda _build: None
    lacks: Callable[[Build, Any], Mapping[str, Mapping[str, str]]] = lambda _build, _parameters: {}
    impossible: Callable[[], str | None] = lambda: None


@dataclass(frozen=True, kw_only=True)
class Study:
    """One published question, as data and functions.

    Attributes
    ----------
    title, question : what heads its page, and what it asks, in one sentence
    parameters : the typed parameters
    factors : takes parameters and returns the levels of each factor but `server`; the arms are all
        combinations, in the order of the factors
    keep : takes parameters and an arm and returns whether it is measured
    kind : what its trials share with others of their kind: metrics, checks, within-factors
    dataset : takes parameters and returns the recipe of the table contents
    settings : takes parameters, an arm and what is known of the dataset, and returns the server
        variables that the arm asks for besides the host's own
    trial : takes a bench and an arm, and yields observations
    design : how often arms are measured, and in which order
    demands : what it demands of hosts and servers
    revision : raised by hand whenever a change of the trial makes older runs incomparable
    name, papers : set by `studies.find`, by its folder and files
    """

    title: str
    question: str
    parameters: type[Parameters]
    factors: Callable[[Any], Mapping[str, Levels]]
    kind: Kind
    dataset: Callable[[Any], Recipe]
    settings: Callable[[Any, Arm, Facts], dict[str, Any]]
    trial: Callable[[Bench, Arm], Iterator[Observation]]
    design: Design
    demands: Demands = field(default_factory=Demands)
    keep: Callable[[Any, Arm], bool] = lambda _parameters, _arm: True
    revision: int = 1
    name: str = ""
    papers: Papers = _NO_PAPERS

    def __post_init__(self) -> None:
        """Refuse names that are not of a factor, or of a factor and a metric.

        Raises
        ------
        ValueError
            Says what is wrong and what is allowed.
        """
        names = {"server", *self.factors(self.parameters()), *self.kind.within}
        uses = {"variables": self.kind.variables, "control": self.design.control}
        for what, used in uses.items():
            if strange := [name for name in used if name not in names]:
                raise ValueError(
                    f"'{what}' names '{strange[0]}', which is no factor; the factors are: "
                    f"{', '.join(sorted(names))}"
                )
        if double := names & self.kind.metrics.keys():
            raise ValueError(f"'{min(double)}' is both a factor and a metric")

    def check(self, given: Mapping[str, Any]) -> Any:
        """Return the study's typed parameters.

        Raises
        ------
        InputError
            As `innolab.studies.parameters.check`.
        """
        return checking.check(self.parameters, self.name, given)

    def levels(self, parameters: Parameters) -> dict[str, list[Level]]:
        """Return the levels of each factor but `server`."""
        return {
            name: list(levels.values() if isinstance(levels, Mapping) else levels)
            for name, levels in self.factors(parameters).items()
        }

    def arms(self, parameters: Parameters, build: str) -> list[Arm]:
        """Return every arm that some parameters give on one build."""
        levels = self.levels(parameters)
        combined = itertools.product(*levels.values())
        arms = [Arm(server=build, **dict(zip(levels, arm, strict=True))) for arm in combined]
        return [arm for arm in arms if self.keep(parameters, arm)]

    def observation(self, row: Mapping[str, Any]) -> Observation:
        """Return a row of what a trial gave, refusing what is not declared or not finite.

        Raises
        ------
        InnolabError
            Prevents a NaN that pandas would silently skip in a mean.
        """
        for name, value in row.items():
            if name in self.kind.within:
                continue
            if name not in self.kind.metrics:
                raise InnolabError(f"'{name}' is no within-factor and no metric of the study.")
            if not isinstance(value, int | float) or not math.isfinite(value):
                raise InnolabError(f"The metric {name} is {value}, which is no measurement.")
        return dict(row)

    def read(self, folder: Path) -> RunSet:
        """Return the runs that a report's folder holds."""
        return RunSet.read(folder, self.kind.within, self.kind.upgrade)

    def claims(self) -> list[Claim]:
        """Return the claims, in the order of their file.

        Raises
        ------
        InputError
            If one names a factor, level or metric that the study does not have; names the line.
        """
        return self._claims

    @cached_property
    def _claims(self) -> list[Claim]:
        widest = self.parameters(scale="paper")
        factors = {**self.factors(widest), **self.kind.within}
        arms = [vars(arm) for arm in self.arms(widest, "")]
        return claims_of(self.papers.claims, factors, set(self.kind.metrics), arms)

    @cached_property
    def answer(self) -> Answer:
        """Return how it answers its question."""
        return answers.read(self.papers.answer)

    def published(self) -> dict[str, Published]:
        """Return the published figures by id."""
        return published_of(self.papers.published)
