"""What a study is: a grid of arms, a trial, metrics; and the plan that follows from parameters."""

import hashlib
import itertools
import json
import math
import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from innolab.analysis import verdicts
from innolab.analysis.bounds import Metric
from innolab.analysis.checks import CHECKS, Bounds, judge
from innolab.analysis.claim_files import claims_of
from innolab.analysis.claims import Claim
from innolab.analysis.consistency import RequiredSettings
from innolab.analysis.doubts import Doubt
from innolab.analysis.evidence import Check, Evidence
from innolab.analysis.published import Published, published_of
from innolab.analysis.stats import LEVEL
from innolab.analysis.verdicts import FailedControl, Verdict
from innolab.base.errors import InnolabError, InputError
from innolab.bench.trial import Bench
from innolab.mysql.builds import Build
from innolab.mysql.datasets import Recipe
from innolab.record import run as recorded
from innolab.record.plan import Blocks, Plan
from innolab.record.run import Factors, Level, Observation, Run, trial_key
from innolab.record.runs import RunSet
from innolab.storage.profiles import profiles
from innolab.storage.raid import Array
from innolab.studies import parameters as checking
from innolab.studies import trial_order
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


def digest_of_spec(
    study: str, revision: int, measured: Mapping[str, Any], devices: Mapping[str, Any]
) -> str:
    """Return the digest of all that decides what is measured, which each run records.

    Parameters
    ----------
    measured : the parameters that decide it
    devices : the limits or service times of each emulated device
    """
    body = {"study": study, "revision": revision, "parameters": measured, "devices": devices}
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Trial:
    """One planned (arm, replicate).

    `position` is its place in the plan, from 0; `block` counts the passes over all arms from 0. A
    twin is the second measurement of an arm in its block, which has to give what the first gave.
    """

    position: int
    block: int
    factors: Factors
    twin: bool = False

    @property
    def key(self) -> str:
        """Return the identity of this trial in its plan, as recorded in its run."""
        return trial_key(self.block, self.factors, twin=self.twin)


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
    bounds : by check, bounds to judge by instead of the check's own: a report's
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
    bounds: Bounds = field(default_factory=dict)
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
    # The arms of a recorded report, instead of those that today's factors give.
    fixed_arms: Sequence[Factors] = ()
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
        """Return every arm on one build."""
        if self.fixed_arms:
            return [Arm(**arm) for arm in self.fixed_arms if arm["server"] == build]
        return self._combined(parameters, build)

    def _combined(self, parameters: Parameters, build: str) -> list[Arm]:
        levels = self.levels(parameters)
        combined = itertools.product(*levels.values())
        arms = [Arm(server=build, **dict(zip(levels, arm, strict=True))) for arm in combined]
        return [arm for arm in arms if self.keep(parameters, arm)]

    def devices(self, parameters: Parameters) -> list[str]:
        """Return the devices that it runs on, by name; none for a study that varies no device."""
        return [str(name) for name in self.levels(parameters).get("device", [])]

    def spec_sha256(self, parameters: Parameters) -> str:
        """Return the digest that two runs must share to be compared."""
        measured, limits = parameters.measured(), self.limits(parameters)
        return digest_of_spec(self.name, self.revision, measured, limits)

    def limits(self, parameters: Parameters) -> dict[str, dict[str, int | float | None]]:
        """Return what each emulated device of it can do: a profile may change under its name."""
        known = profiles()
        return {name: known[name].limits() for name in self.devices(parameters) if name in known}

    def looks(self, parameters: Parameters) -> Blocks:
        """Return the first and the last number of blocks: as asked, else as the effort has it."""
        asked = parameters.replicates
        return Blocks(asked, asked) if asked else self.blocks.of(parameters)

    def twin(self, parameters: Parameters, build: str) -> Arm:
        """Return the arm on a build that is measured twice in each block."""
        return self.control_among(self.arms(parameters, build))

    def control_among(self, arms: Sequence[Arm]) -> Arm:
        """Return the control among some arms, the first where it is none of them."""
        fits = (arm for arm in arms if self.control.items() <= vars(arm).items())
        return next(fits, arms[0])

    def arms_of(self, chosen: Plan, build: str) -> list[Arm]:
        """Return every arm of a plan on one build: those that the build can have."""
        arms = self.arms(self.check(chosen.parameters), build)
        return [
            arm
            for arm in arms
            if chosen.why_lacking(build, vars(arm)) is None
            and (not chosen.arms or vars(arm) in chosen.arms)
        ]

    def planned(self, chosen: Plan) -> list[Trial]:
        """Return all trials of a plan in the order of their running, up to its last block.

        Each block holds every arm on every build once, and the twins, in an order of its own drawn
        from the seed: a drift of the machine falls on all arms alike. The order does not depend on
        how far an earlier session came.
        """
        parameters = self.check(chosen.parameters)
        arms = [(arm, False) for b in chosen.builds for arm in self.arms_of(chosen, b)]
        arms += [(Arm(**factors), True) for factors in chosen.twins]
        plot = self.whole_plot
        ordered = trial_order.orders(
            arms,
            lambda placed: trial_key(0, vars(placed[0])),
            random.Random(parameters.seed),
            (lambda placed: getattr(placed[0], plot)) if plot else None,
        )
        trials: list[Trial] = []
        blocks = chosen.blocks or self.looks(parameters)
        for block, order in zip(range(blocks.last), ordered, strict=False):
            for arm, twin in order:
                trials.append(Trial(len(trials), block, dict(vars(arm)), twin))
        return trials

    def plan_sha256(self, chosen: Plan) -> str:
        """Return the digest of what a plan measures."""
        return chosen.sha256(self.parameters.with_role("asks"))

    def asking(self, chosen: Plan, given: Mapping[str, Any]) -> Plan:
        """Return the plan of the same runs with other parameters for what is asked of them.

        Raises
        ------
        InputError
            Where a parameter would need other runs, or is wrong.
        """
        known = chosen.parameters
        self.check({**known, **given})
        asks = self.parameters.with_role("asks")
        changed = {k: v for k, v in given.items() if k not in known or known[k] != v}
        if others := sorted(changed.keys() - asks):
            raise InputError(
                f"'{others[0]}' changes what is measured, and a report's runs are what they are. "
                f"Parameters that may change: {', '.join(sorted(asks)) or 'none'}. Nothing "
                "was written."
            )
        return replace(chosen, parameters={**known, **changed})

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

    def judged(self, evidence: Evidence) -> list[recorded.CheckResult]:
        """Return the results of the study's checks, in their order."""
        known = {**CHECKS, **self.own_checks}
        return judge(evidence, {name: known[name] for name in self.checks}, self.bounds)

    def read(self, folder: Path) -> RunSet:
        """Return the runs that a report's folder holds."""
        return RunSet.read(folder, self.within, self.upgrade)

    def asked(self, parameters: Parameters, run: Run) -> RequiredSettings:
        """Return what a run must have recorded, by its parameters and levels."""
        arm = Arm(**run.factors)
        array = self.arrays(parameters).get(str(run.factors.get("device")))
        return RequiredSettings(
            settings=self.settings(parameters, arm, run.conditions["dataset"]),
            values={
                **parameters.measured(),
                "rows": self.dataset(parameters).expected["rows"],
                **run.factors,
            },
            array=None if array is None else array._asdict(),
            # Before there were efforts, windows had other lengths.
            known_windows_s=self.known_windows_s(parameters, arm) if run.effort else (),
        )

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
        arms = [vars(arm) for arm in self._combined(widest, "")]
        return claims_of(self.papers.claims, factors, set(self.metrics), arms)

    def published(self) -> dict[str, Published]:
        """Return the published figures by id."""
        return published_of(self.papers.published)

    def look(
        self,
        chosen: Plan,
        runs: RunSet,
        *,
        failed_controls: Sequence[FailedControl] = (),
        level: float = LEVEL,
        looks: int = 1,
    ) -> list[Verdict]:
        """Return the verdict of every claim of a plan on every server of it, at one look.

        See `innolab.studies.judging` for the looks that a plan has.

        Parameters
        ----------
        failed_controls, level, looks : as `innolab.analysis.verdicts.verdicts`
        """
        return verdicts.verdicts(
            [claim for claim in self.claims() if not chosen.claims or claim.id in chosen.claims],
            self.published(),
            runs,
            chosen.builds,
            declared=self.variables,
            units=self.units,
            doubts=self.doubts,
            unavailable=chosen.unavailable,
            missing_devices=chosen.missing_devices,
            why_lacking=chosen.why_lacking,
            failed_controls=failed_controls,
            level=level,
            looks=looks,
        )
