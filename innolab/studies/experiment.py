"""A study bound to the parameters and the plan by which it is measured: its arms, its trials."""

import itertools
import random
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from innolab import studies
from innolab.analysis.checks import Bounds, RequiredSettings, judge
from innolab.analysis.evidence import Evidence
from innolab.base import files
from innolab.base.errors import InputError
from innolab.mysql import makers
from innolab.record.plan import Blocks, Plan
from innolab.record.run import CheckResult, Factors, Run, trial_key
from innolab.storage.profiles import Profile, profiles
from innolab.studies.parameters import Parameters
from innolab.studies.study import Arm, Study

# Of how many orders that are drawn the best is taken.
_DRAWN = 20


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


@dataclass(frozen=True, eq=False)
class Experiment:
    """A study with the plan and the typed parameters by which it is measured, checked once.

    Attributes
    ----------
    parameters : the study's typed parameters, those of the plan
    fixed_arms : the arms of a recorded report, instead of those that today's factors give
    bounds : by check, bounds to judge by instead of the check's own: a report's
    """

    study: Study
    plan: Plan
    parameters: Any
    fixed_arms: Sequence[Factors] = ()
    bounds: Bounds = field(default_factory=dict)

    @classmethod
    def fresh(cls, study: Study, given: Mapping[str, Any] | Parameters) -> "Experiment":
        """Return a study with some parameters, checked or not, on all builds that they name.

        Nothing of a host is asked: `innolab.measure.prepare` says what of it a host can run.

        Raises
        ------
        InputError
            If a parameter is wrong, as `innolab.studies.parameters.check`.
        """
        parameters = given if isinstance(given, Parameters) else study.check(given)
        plan = Plan(study.name, "", parameters.model_dump(), list(parameters.builds), {})
        asked = cls(study, plan, parameters)
        return asked.with_plan(spec_sha256=asked.spec_sha256, blocks=asked.blocks)

    @classmethod
    def from_plan(cls, plan: Plan, study: Study | None = None) -> "Experiment":
        """Return the experiment of a plan, by today's study of its name if none is given.

        Raises
        ------
        InputError
            If there is no such study, or its parameters are others.
        """
        study = study or studies.find(plan.study)
        return cls(study, plan, study.check(plan.parameters))

    @classmethod
    def read(cls, folder: Path, study: Study | None = None) -> "Experiment":
        """Return the experiment of a report's folder.

        Raises
        ------
        InputError
            As `Plan.read` and `from_plan`.
        """
        return cls.from_plan(Plan.read(folder), study)

    def with_plan(self, **changes: Any) -> "Experiment":
        """Return the same parameters with other fields of the plan."""
        return replace(self, plan=replace(self.plan, **changes))

    def asking(self, given: Mapping[str, Any]) -> "Experiment":
        """Return the experiment of the same runs with other parameters for what is asked of them.

        Raises
        ------
        InputError
            If a parameter would need other runs, or is wrong.
        """
        known = self.plan.parameters
        parameters = self.study.check({**known, **given})
        asks = self.study.parameters.with_role("asks")
        changed = {k: v for k, v in given.items() if k not in known or known[k] != v}
        if others := sorted(changed.keys() - asks):
            raise InputError(
                f"'{others[0]}' changes what is measured, and a report's runs are what they are. "
                f"Parameters that may change: {', '.join(sorted(asks)) or 'none'}. Nothing "
                "was written."
            )
        plan = replace(self.plan, parameters={**known, **changed})
        return replace(self, plan=plan, parameters=parameters)

    @property
    def name(self) -> str:
        """Return the name of the study."""
        return self.study.name

    @property
    def spec_sha256(self) -> str:
        """Return the digest, by today's study, that two runs must share to be compared."""
        measured = self.parameters.measured()
        return digest_of_spec(self.name, self.study.revision, measured, self.limits)

    @property
    def plan_sha256(self) -> str:
        """Return the digest of what the plan measures."""
        return self.plan.sha256(self.study.parameters.with_role("asks"))

    @property
    def blocks(self) -> Blocks:
        """Return the first and the last number of blocks after which claims are judged.

        A plan of innolab 0.2 and older has none: they are as asked, else as the effort has it.
        """
        asked = self.parameters.replicates
        as_asked = Blocks(asked, asked) if asked else self.study.design.blocks.of(self.parameters)
        return self.plan.blocks or as_asked

    @cached_property
    def levels(self) -> dict[str, list[Any]]:
        """Return the levels of each factor, `server` first."""
        return {"server": list(self.plan.builds), **self.study.levels(self.parameters)}

    @property
    def devices(self) -> list[str]:
        """Return the devices that it runs on, by name; none if no device is varied."""
        return [str(name) for name in self.levels.get("device", [])]

    @cached_property
    def profiles(self) -> Mapping[str, Profile]:
        """Return every emulated device by name: those of the data files, and the study's own."""
        return {**profiles(), **self.study.demands.modelled(self.parameters)}

    @property
    def limits(self) -> dict[str, dict[str, int | float | None]]:
        """Return what each emulated device of it can do: a profile may change under its name."""
        known = self.profiles
        return {name: known[name].limits() for name in self.devices if name in known}

    @cached_property
    def arms(self) -> list[Arm]:
        """Return every arm of the plan: those that its builds can have, build by build."""
        return [arm for build in self.plan.builds for arm in self.arms_on(build)]

    def arms_on(self, build: str) -> list[Arm]:
        """Return every arm of the plan on one build."""
        arms = [Arm(**arm) for arm in self.fixed_arms if arm["server"] == build]
        if not self.fixed_arms:
            arms = self.study.arms(self.parameters, build)
        return [
            arm
            for arm in arms
            if self.plan.why_lacking(build, vars(arm)) is None
            and (not self.plan.arms or vars(arm) in self.plan.arms)
        ]

    def control(self, arms: Sequence[Arm]) -> Arm:
        """Return the control among some arms, which is measured twice: the first if none is it."""
        wanted = self.study.design.control.items()
        return next((arm for arm in arms if wanted <= vars(arm).items()), arms[0])

    @cached_property
    def trials(self) -> list[Trial]:
        """Return all planned trials in the order of their running, up to the last block.

        Each block holds every arm on every build once, and the twins, in its own order drawn from
        the seed: a drift of the machine falls on all arms alike. The order does not depend on how
        far an earlier session came.
        """
        arms = [(arm, False) for arm in self.arms]
        arms += [(Arm(**factors), True) for factors in self.plan.twins]
        plot = self.study.design.whole_plot
        ordered = _orders(arms, random.Random(self.parameters.seed), plot)
        trials: list[Trial] = []
        for block, order in zip(range(self.blocks.last), ordered, strict=False):
            for arm, twin in order:
                trials.append(Trial(len(trials), block, dict(vars(arm)), twin))
        return trials

    def judged(self, evidence: Evidence, without: Collection[str] = ()) -> list[CheckResult]:
        """Return the results of the study's checks, in their order.

        Parameters
        ----------
        without : the names of checks that are left out
        """
        checks = {n: one for n, one in self.study.kind.checks.items() if n not in without}
        return judge(evidence, checks, self.bounds)

    def required(self, run: Run) -> RequiredSettings:
        """Return what a run must have recorded, by its parameters and levels."""
        study, parameters, arm = self.study, self.parameters, Arm(**run.factors)
        array = study.demands.arrays(parameters).get(str(run.factors.get("device")))
        return RequiredSettings(
            settings=makers.settings(
                run.conditions["build"]["version"],
                study.settings(parameters, arm, run.conditions["dataset"]),
            ),
            values={
                **parameters.measured(),
                "rows": study.dataset(parameters).expected["rows"],
                **run.factors,
            },
            array=None if array is None else array._asdict(),
            # Before there were efforts, windows had other lengths.
            known_windows_s=study.kind.known_windows_s(parameters, arm) if run.effort else (),
        )


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
    return files.digest_of(body)


def _orders(
    arms: Sequence[tuple[Arm, bool]], draw: random.Random, plot: str | None
) -> Iterator[list[tuple[Arm, bool]]]:
    """Yield an order for each block, without end, balanced in who follows whom.

    Of some that are drawn, each is the one that least repeats who followed whom in those before:
    prevents that an arm runs mostly after one that leaves the host in a state of its own. The arms
    of one level of `plot` stay together.
    """
    followed: Counter[tuple[str, str]] = Counter()

    def pairs(order: Sequence[tuple[Arm, bool]]) -> Iterator[tuple[str, str]]:
        return itertools.pairwise(trial_key(0, vars(arm)) for arm, _ in order)

    while True:
        drawn = [_together(draw.sample(arms, len(arms)), plot) for _ in range(_DRAWN)]
        order = min(drawn, key=lambda order: sum(followed[pair] for pair in pairs(order)))
        followed.update(pairs(order))
        yield order


def _together(shuffled: list[tuple[Arm, bool]], plot: str | None) -> list[tuple[Arm, bool]]:
    """Sort by the levels of a factor that is costly to change, in the order of their first arm."""
    if plot is None:
        return shuffled
    levels = list(dict.fromkeys(getattr(arm, plot) for arm, _ in shuffled))
    return sorted(shuffled, key=lambda placed: levels.index(getattr(placed[0], plot)))
