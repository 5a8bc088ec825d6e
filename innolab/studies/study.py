"""What a study is: a grid of arms, a trial, metrics; and the plan that follows from parameters."""

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from innolab.analysis.bounds import Metric
from innolab.analysis.checks import CHECKS
from innolab.analysis.claim_files import claims_of
from innolab.analysis.claims import Claim
from innolab.analysis.doubts import Doubt
from innolab.analysis.evidence import Check
from innolab.analysis.published import Published, published_of
from innolab.base.errors import InnolabError
from innolab.bench.trial import Bench
from innolab.mysql.builds import Build
from innolab.mysql.datasets import Recipe
from innolab.record.plan import Blocks
from innolab.record.run import Level, Observation
from innolab.record.runs import RunSet
from innolab.storage.raid import Array
from innolab.studies import parameters as checking
from innolab.studies.parameters import ByEffort, ByScale, Parameters

# Levels in their order; a mapping gives levels names, which claims may use.
Levels = Sequence[Level] | Mapping[str, Level]
Facts = Mapping[str, Any]
SERVER_OVERHEAD_BYTES = 700 * 1024**2


class Arm(SimpleNamespace):
    """The levels of one arm, each an attribute: `arm.device`. `vars(arm)` has them by factor."""

    # For type checkers alone: which factors there are is the study's own.
    def __getattr__(self, name: str) -> Any:
        """Refuse what is no factor of this arm."""
        raise AttributeError(f"the arm has no factor '{name}'; it has: {', '.join(vars(self))}")


class Papers(NamedTuple):
    """The files that go with a study: what was published, the claims, the notebook."""

    published: Path
    claims: Path
    notebook: Path


_NOTHING = ByScale(0.0, 0.0, 0.0)
_AS_LONG = ByEffort(1.0, 1.0, 1.0)
_NO_PAPERS = Papers(Path(), Path(), Path())


@dataclass(frozen=True, kw_only=True)
class Study:
    """One published question, as data and functions.

    Attributes
    ----------
    title, question : str
    parameters : the typed parameters
    factors : takes parameters and returns the levels of each factor but `server`; the arms are all
        combinations, in the order of the factors
    keep : takes parameters and an arm and returns whether it is measured
    within : the within-factors and their levels, as far as these are fixed
    metrics : the unit of each metric that an observation may have, and what else in a run's record
        bounds it, or why nothing can
    blocks : the first and the last number of blocks after which claims are judged
    control : the levels of the arm that is measured twice in each block, on every server; the first
        arm where there is none with these levels
    dataset : the recipe of the table contents
    settings : takes parameters, an arm and what is known of the dataset, and returns the server
        variables that the arm asks for beside the host's own
    trial : takes a bench and an arm, and yields observations
    checks : the names of those validity checks that its runs must pass
    own_checks : checks by name that only this study has
    variables : for each factor, the server variables that may differ between its levels
    needed_variables : server variables without which the study makes no sense
    known_windows_s : takes parameters and an arm, and returns the lengths that its windows may have
        been asked for: today's, and those of reports that are there
    doubts : what may make an estimate doubtful, beside its interval
    compared : the metrics that two reports are compared by, with the within-factors of each
    main : the within-factors of the rows that a notebook begins with
    tools : the programs beside the servers that it uses
    arrays : the arrays of real disks among its devices, by name, each a layout on some disks
    nodes : takes parameters and returns the inventory over whose hosts topologies are spread, or
        None where they stay on this machine
    calibration_s : how long each kind of calibration of a device takes
    window_s : how long it measures at a time, by which `plan` scales the times of a report of
        another effort
    whole_plot : a factor that is costly to change; a block keeps the arms of each level together
    copies : how many copies of the data lie on a device at a time
    grows_bytes, beside_bytes : takes parameters; what a trial adds to the data on the disk, and
        what it needs of memory beside the pool
    refuses : takes a build and returns why it cannot run the study, or None
    lacks : takes a build and parameters and returns the levels that it cannot have, by factor, with
        the reasons
    impossible : returns why this host cannot run the study at all, or None
    revision : raised by hand whenever a change of the trial makes older runs incomparable
    upgrade : takes the body of a run of the older schema and returns it as of today's
    """

    title: str
    question: str
    parameters: type[Parameters]
    factors: Callable[[Any], Mapping[str, Levels]]
    metrics: Mapping[str, Metric]
    blocks: ByEffort[Blocks]
    dataset: Callable[[Any], Recipe]
    settings: Callable[[Any, Arm, Facts], dict[str, Any]]
    trial: Callable[[Bench, Arm], Iterator[Observation]]
    checks: Sequence[str]
    variables: Mapping[str, Collection[str]]
    keep: Callable[[Any, Arm], bool] = lambda _parameters, _arm: True
    within: Mapping[str, Levels] = field(default_factory=dict)
    control: Mapping[str, Level] = field(default_factory=dict)
    own_checks: Mapping[str, Check] = field(default_factory=dict)
    needed_variables: Collection[str] = ()
    known_windows_s: Callable[[Any, Arm], Collection[int]] = lambda _parameters, _arm: ()
    doubts: Sequence[Doubt] = ()
    compared: Mapping[str, Sequence[str]] = field(default_factory=dict)
    main: Sequence[str] = ()
    tools: Sequence[str] = ()
    arrays: Callable[[Any], Mapping[str, Array]] = lambda _parameters: {}
    nodes: Callable[[Any], str | None] = lambda _parameters: None
    calibration_s: ByScale[float] = _NOTHING
    window_s: ByEffort[int] | ByEffort[float] = _AS_LONG
    whole_plot: str | None = None
    copies: int = 2
    grows_bytes: Callable[[Any], int] = lambda _parameters: 0
    beside_bytes: Callable[[Any], int] = lambda _parameters: SERVER_OVERHEAD_BYTES
    refuses: Callable[[Build], str | None] = lambda _build: None
    lacks: Callable[[Build, Any], Mapping[str, Mapping[str, str]]] = lambda _build, _parameters: {}
    impossible: Callable[[], str | None] = lambda: None
    revision: int = 1
    upgrade: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    # Given by `studies.find`: a study's folder and its files say them.
    name: str = ""
    papers: Papers = _NO_PAPERS

    def __post_init__(self) -> None:
        """Refuse what no study can be.

        Raises
        ------
        ValueError
            Says what is wrong and what is allowed.
        """
        for name, metric in self.metrics.items():
            if not (isinstance(metric, Metric) and metric.evidence):
                raise ValueError(
                    f"the metric {name} does not say what else in a run's record bounds it; "
                    "declare Metric(unit, [evidence]) or, if nothing can, "
                    "Metric(unit, Unbounded(reason))"
                )
            if not metric.unit:
                raise ValueError(f"the metric {name} has no unit; give it one, as in 's' or '1'")
        known = {**CHECKS, **self.own_checks}
        if unknown := [name for name in self.checks if name not in known]:
            raise ValueError(f"there is no check '{unknown[0]}'; there are: {', '.join(known)}")
        names = {"server", *self.factors(self.parameters()), *self.within}
        for said, named in {"variables": self.variables, "control": self.control}.items():
            if strange := [name for name in named if name not in names]:
                raise ValueError(
                    f"'{said}' names '{strange[0]}', which is no factor; the factors are: "
                    f"{', '.join(sorted(names))}"
                )
        if double := names & self.metrics.keys():
            raise ValueError(f"'{min(double)}' is both a factor and a metric")

    @property
    def units(self) -> dict[str, str]:
        """Return the unit of each metric."""
        return {name: metric.unit for name, metric in self.metrics.items()}

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
            if name in self.within:
                continue
            if name not in self.metrics:
                raise InnolabError(f"'{name}' is no within-factor and no metric of the study.")
            if not isinstance(value, int | float) or not math.isfinite(value):
                raise InnolabError(f"The metric {name} is {value}, which is no measurement.")
        return dict(row)

    def read(self, folder: Path) -> RunSet:
        """Return the runs that a report's folder holds."""
        return RunSet.read(folder, self.within, self.upgrade)

    def claims(self) -> list[Claim]:
        """Return the claims, in the order of their file.

        Raises
        ------
        InputError
            Where one names a factor, level or metric that the study does not have; names the line.
        """
        return self._claims

    @cached_property
    def _claims(self) -> list[Claim]:
        widest = self.parameters(scale="paper")
        factors = {**self.factors(widest), **self.within}
        arms = [vars(arm) for arm in self.arms(widest, "")]
        return claims_of(self.papers.claims, factors, set(self.metrics), arms)

    def published(self) -> dict[str, Published]:
        """Return the published figures by id."""
        return published_of(self.papers.published)
