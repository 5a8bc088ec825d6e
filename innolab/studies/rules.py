"""What a report is judged by, kept in it as data: a later innolab verifies it by these.

Settings and windows of each arm, devices, checks and their bounds. Claims and published figures
are files of their own, copied as they are.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from innolab.analysis.checks import CHECKS, RequiredSettings, same_settings
from innolab.base import files, parsing
from innolab.base.errors import InputError
from innolab.record.plan import Plan
from innolab.record.run import Factors, Run
from innolab.record.runs import RunSet
from innolab.storage.profiles import Profile, of_limits
from innolab.studies.experiment import Experiment, digest_of_spec
from innolab.studies.study import Study

FILE, CLAIMS_FILE, PUBLISHED_FILE = "rules.json", "claims.yml", "published.csv"
_MOST_NAMED = 6


class ArmRules(BaseModel):
    """What a run of one arm must have recorded.

    Attributes
    ----------
    factors : the levels of the arm
    settings : the server variables that it asks for, once for each set of facts of its dataset
    windows_s : the lengths that its windows may have; none if any will do
    array : layout and number of disks, where its device is an array
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    factors: Factors
    settings: list[dict[str, Any]]
    windows_s: list[float]
    array: dict[str, Any] | None


class Rules(BaseModel):
    """What the runs of a report are judged by.

    Attributes
    ----------
    schema : of this file
    revision : of the study
    measured : the parameters that decide what is measured
    rows : of the table
    devices : the limits or service times of each emulated device
    whole_plot : the factor whose levels a block keeps together
    arms : every planned arm, in the order from which blocks are shuffled
    checks : the names of the validity checks, in their order
    bounds : the numbers that each check judges by
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_: Literal[1] = Field(alias="schema")
    revision: int
    measured: dict[str, Any]
    rows: int
    devices: dict[str, dict[str, int | float | None]]
    whole_plot: str | None
    arms: list[ArmRules]
    checks: list[str]
    bounds: dict[str, dict[str, float]]

    @cached_property
    def profiles(self) -> dict[str, Profile]:
        """Return the devices as checks read them."""
        return {name: of_limits(name, limits) for name, limits in self.devices.items()}

    def asked(self, run: Run) -> RequiredSettings:
        """Return what a run must have recorded.

        Raises
        ------
        LookupError
            If there is no such arm.
        """
        [arm] = [arm for arm in self.arms if arm.factors == run.factors]
        requested = run.conditions["requested"]
        fitting = (one for one in arm.settings if same_settings(one, requested))
        return RequiredSettings(
            settings=next(fitting, arm.settings[0]),
            values={**self.measured, "rows": self.rows, **run.factors},
            array=arm.array,
            known_windows_s=arm.windows_s if run.effort else (),
        )

    def faults(self, plan: Plan, runs: Sequence[Run]) -> list[str]:
        """Return in what these rules are not those of a plan, whose digest every run has."""
        of_older = any(run.is_older for run in runs)
        digest = digest_of_spec(plan.study, self.revision, self.measured, self.devices)
        found = []
        if digest != plan.spec_sha256 and not of_older:
            found.append("its parameters and devices are not those that were measured")
        found += [
            f"its {name} is {self.measured[name]!r}, and that of the plan is {value!r}"
            for name, value in plan.parameters.items()
            if value is not None
            and name in self.measured
            and self.measured[name] != value
            # A time budget as an effort is that of reference.
            and name != "effort"
        ]
        return [f"{FILE}: {fault}" for fault in found]


def of(experiment: Experiment, runs: RunSet) -> Rules:
    """Return what runs are judged by today."""
    study, parameters = experiment.study, experiment.parameters
    return Rules(
        schema=1,
        revision=study.revision,
        measured=json.loads(json.dumps(parameters.measured())),
        rows=study.dataset(parameters).expected["rows"],
        devices=experiment.limits,
        whole_plot=study.design.whole_plot,
        arms=[_of_arm(experiment, dict(vars(arm)), runs) for arm in experiment.arms],
        checks=list(study.kind.checks),
        bounds={name: dict(one.bounds) for name, one in study.kind.checks.items() if one.bounds},
    )


def _of_arm(experiment: Experiment, factors: Factors, runs: RunSet) -> ArmRules:
    of_arm = [run for run in runs.runs if run.factors == factors and run.status == "complete"]
    asked = [experiment.required(run) for run in of_arm]
    settings = {json.dumps(dict(one.settings), sort_keys=True, default=str): None for one in asked}
    arrays = experiment.study.demands.arrays(experiment.parameters)
    array = arrays.get(str(factors.get("device")))
    return ArmRules(
        factors=factors,
        settings=[json.loads(text) for text in settings],
        windows_s=sorted({length for one in asked for length in one.known_windows_s}),
        array=None if array is None else array._asdict(),
    )


def keep(study: Study, folder: Path) -> None:
    """Write into a folder with runs what they are judged by, as far as it is not there yet."""
    if not (folder / FILE).exists():
        made = of(Experiment.read(folder, study), study.read(folder))
        body = made.model_dump(by_alias=True)
        files.write_json(folder / FILE, body)
    papers = {CLAIMS_FILE: study.papers.claims, PUBLISHED_FILE: study.papers.published}
    for name, source in papers.items():
        if not (folder / name).exists() and source.is_file():
            files.write(folder / name, source.read_text())


def read(folder: Path) -> Rules:
    """Return what the runs in a folder are judged by.

    Raises
    ------
    InputError
        If it is not there, or damaged.
    """
    path = folder / FILE
    if not path.is_file():
        raise InputError(
            f"{folder.name} does not hold what it is judged by ({FILE}): an older innolab made it. "
            f"Make a new version of the same runs: innolab render {folder}"
        )
    try:
        return Rules.model_validate(parsing.json_file(path))
    except ValueError as error:
        raise InputError(
            f"{path} is damaged: {parsing.reason(error)}. Take the report from its source."
        ) from None


def with_papers(study: Study, folder: Path) -> Study:
    """Return a study with the claims and published figures in a folder, if it has them."""
    if not (folder / CLAIMS_FILE).is_file():
        return study
    published, claims = folder / PUBLISHED_FILE, folder / CLAIMS_FILE
    return replace(study, papers=study.papers._replace(published=published, claims=claims))


def recorded(study: Study, folder: Path) -> Experiment:
    """Return the experiment of runs in a folder: its arms, without those that are newer."""
    experiment = Experiment.read(folder, with_papers(study, folder))
    arms = [arm.factors for arm in read(folder).arms] if (folder / FILE).is_file() else []
    return replace(experiment, fixed_arms=arms)


def applied(study: Study, kept: Rules, folder: Path) -> Experiment:
    """Return a report's experiment, judged by what it keeps; checks that are unknown are out."""
    known = {**CHECKS, **study.kind.checks}
    checks = {name: known[name] for name in kept.checks if name in known}
    study = replace(
        with_papers(study, folder),
        kind=replace(study.kind, checks=checks),
        design=replace(study.design, whole_plot=kept.whole_plot),
    )
    arms = [arm.factors for arm in kept.arms]
    return replace(Experiment.read(folder, study), fixed_arms=arms, bounds=kept.bounds)


def differences(kept: Rules, today: Rules) -> Iterator[str]:
    """Yield in what the rules of a report are not today's, each as a sentence."""
    if gone := [name for name in kept.checks if name not in today.checks]:
        yield f"Checks that today's study does not have, and that were not done: {_listed(gone)}."
    if new := [name for name in today.checks if name not in kept.checks]:
        yield f"Checks of today's study that this report did not have: {_listed(new)}."
    for check in sorted(kept.bounds.keys() & today.bounds.keys()):
        for name, value in kept.bounds[check].items():
            if (now := today.bounds[check].get(name)) != value:
                yield f"Its check '{check}' was judged by {name} {value:g}; today's has {now}."
    if others := [name for name, limits in kept.devices.items() if today.devices[name] != limits]:
        yield f"Devices that are others by today's data: {_listed(others)}."
    if changed := _settings_changed(kept, today):
        yield f"Settings that today's study would choose otherwise: {_listed(changed)}."


def _settings_changed(kept: Rules, today: Rules) -> list[str]:
    now = {files.canonical(arm.factors): arm for arm in today.arms}
    found: dict[str, None] = {}
    for arm in kept.arms:
        other = now.get(files.canonical(arm.factors))
        for one, two in zip(arm.settings, other.settings if other else [], strict=False):
            names = sorted({*one, *two})
            found |= {name: None for name in names if one.get(name) != two.get(name)}
    return list(found)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more
