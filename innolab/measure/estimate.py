"""What a plan may decide and how long it takes, by what earlier reports of its study found.

Numbers only, of plans and recorded runs; `innolab.measure.plan_text` puts them into words.
"""

import contextlib
import math
import statistics
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from innolab.analysis import group_sequential, outcomes, power
from innolab.analysis.claims import Claim, Largest, Proportion
from innolab.analysis.published import published_value
from innolab.analysis.stats import LEVEL
from innolab.base.errors import InnolabError
from innolab.record.plan import Blocks, Plan
from innolab.record.run import Factors, trial_key
from innolab.record.runs import RunSet
from innolab.report import folders, manifest
from innolab.studies.experiment import Experiment
from innolab.studies.parameters import Parameters
from innolab.studies.study import Study

Key = TypeVar("Key", bound=Hashable)
# What a session does before its first trial.
_BEFORE = ("set-up", "dataset", "arranging", "calibration")
# What of a trial's time grows with the length of its windows.
_IN_WINDOWS = ("warm-up", "measured passes")
_LEAST_BLOCKS = 2
_NO_ARMS = "no earlier report has its arms in two blocks"


class Earlier(NamedTuple):
    """A finished report of the same study; `time_s` is what its manifest says, by stage."""

    name: str
    experiment: Experiment
    runs: RunSet
    time_s: Mapping[str, float]

    @property
    def plan(self) -> Plan:
        """Return the report's plan."""
        return self.experiment.plan

    @classmethod
    def read(cls, folder: Path, study: Study) -> "Earlier":
        """Return the report in a folder.

        Raises
        ------
        InnolabError
            If it is damaged, or its parameters are not those of the study.
        """
        time_s = manifest.read(folder)["time_s"]
        name = f"{study.name}/{folder.name}"
        return cls(name, Experiment.read(folder, study), study.read(folder), time_s)


class Look(NamedTuple):
    """When claims are judged, and the level of every interval then; None if there is none."""

    blocks: int
    level: float | None


class Duration(NamedTuple):
    """How long a plan takes, in seconds, at the pace of an earlier report.

    Attributes
    ----------
    block_s : one block
    before_s, after_s : what comes before the first block and after the last
    strange_arms : of how many arms the report has no run, so that they count as the mean of others
    report : the name of the earlier report
    """

    block_s: float
    before_s: float
    after_s: float
    strange_arms: int
    report: str

    def until(self, blocks: int) -> float:
        """Return the seconds from the start to the verdicts after a number of blocks."""
        return self.before_s + blocks * self.block_s


class ExpectedClaim(NamedTuple):
    """What to expect of one claim on one server.

    Attributes
    ----------
    factors : by which the bounds of its interval lie from the estimate, at the first and at the
        last look; None if that is not known, or no factor
    truth : the value that the claim names
    power : the chance that the last look decides it, if that is the true value
    report : the earlier report in which the spread was found
    reason : why something is not known
    """

    claim: str
    server: str
    factors: tuple[float, float] | None = None
    truth: float | None = None
    power: float | None = None
    report: str | None = None
    reason: str | None = None


class Expected(NamedTuple):
    """What a plan may decide and how long it takes.

    Attributes
    ----------
    first, last : the first look, and the last one that the time given allows
    declared : the last block of the plan, whatever the time
    rows : a row a claim and server that the plan has the arms of
    not_measured : claims that the study does not measure at all, by id
    not_planned : claims of which this plan has no arm on any server, by id
    duration : None if no earlier report has a complete run
    """

    first: Look
    last: Look
    declared: int
    rows: list[ExpectedClaim]
    not_measured: list[str]
    not_planned: list[str]
    duration: Duration | None


class _Noise(NamedTuple):
    """How much the values of a claim differ from block to block; on logarithms for a factor."""

    spread: float
    is_factor: bool
    report: str


def effort_of(plan: Plan) -> str | None:
    """Return the effort of a plan by name; None for innolab 0.2 and older, which had none."""
    given = plan.parameters
    if "effort" not in given:
        return None
    return Parameters(scale=given["scale"], effort=given["effort"]).effort_name


def earlier_reports(ready: Experiment) -> Iterator[Earlier]:
    """Yield the finished reports of a study, that which is preferred first.

    A damaged one is left out: it is no reason not to plan, and `verify` says what is wrong.
    """
    plans = {}
    for folder in folders.finished(ready.name):
        with contextlib.suppress(InnolabError, ValueError):
            effort_of(plan := Plan.read(folder))
            plans[folder] = plan
    for folder in nearest_first(plans, ready.plan):
        with contextlib.suppress(InnolabError):
            yield Earlier.read(folder, ready.study)


def nearest_first(plans: Mapping[Key, Plan], chosen: Plan) -> list[Key]:
    """Return the keys of earlier plans: of the same scale and effort first, then the newest.

    Parameters
    ----------
    plans : oldest first
    """

    def differs(key: Key) -> tuple[bool, bool]:
        other = plans[key]
        is_scale = other.parameters["scale"] == chosen.parameters["scale"]
        return not is_scale, effort_of(other) != effort_of(chosen)

    return sorted(reversed(list(plans)), key=differs)


def expected(experiment: Experiment, earlier: Sequence[Earlier]) -> Expected:
    """Return what a plan may decide and how long it takes.

    Parameters
    ----------
    earlier : reports to learn from, that which is preferred first
    """
    study, servers, blocks = experiment.study, experiment.plan.builds, experiment.blocks
    duration = _duration(experiment, earlier)
    last = _last_look(blocks, experiment.parameters.budget_s, duration)
    looks = Look(blocks.first, _level(blocks.first, blocks)), Look(last, _level(last, blocks))
    claims = study.claims()
    measured = [claim for claim in claims if claim.measure]
    arms = {server: [vars(arm) for arm in experiment.arms_on(server)] for server in servers}
    figures = study.published()
    rows = [
        _row(claim, server, looks, published_value(figures, claim), study.kind.units, earlier)
        for claim in measured
        for server in servers
        if claim.arms_among(arms[server])
    ]
    has_row = {row.claim for row in rows}
    return Expected(
        *looks,
        declared=blocks.last,
        rows=rows,
        not_measured=[claim.id for claim in claims if not claim.measure],
        not_planned=[claim.id for claim in measured if claim.id not in has_row],
        duration=duration,
    )


def _level(blocks: int, of: Blocks) -> float | None:
    """Return the level of a look; None for a plan of one block, which leaves no interval."""
    return group_sequential.level_at(blocks, of.first, of.last, LEVEL) if of.first > 1 else None


def _last_look(blocks: Blocks, budget_s: float | None, duration: Duration | None) -> int:
    if budget_s is None or duration is None or not duration.block_s:
        return blocks.last
    return max(blocks.first, min(blocks.last, int(budget_s / duration.block_s)))


def _row(
    claim: Claim,
    server: str,
    looks: tuple[Look, Look],
    published: float | None,
    units: Mapping[str, str],
    earlier: Sequence[Earlier],
) -> ExpectedClaim:
    head = ExpectedClaim(claim.id, server)
    first, last = looks
    if first.level is None or last.level is None:
        return head._replace(reason="one block leaves no interval")
    noise = _noise(claim, server, units, earlier)
    if isinstance(noise, str):
        return head._replace(reason=noise)
    wide = power.half_width(noise.spread, first.blocks, first.level)
    narrow = power.half_width(noise.spread, last.blocks, last.level)
    head = head._replace(report=noise.report)
    if not noise.is_factor:
        said = f"its interval is no factor: ±{wide:.2g}"
        return head._replace(reason=said if first == last else f"{said}, then ±{narrow:.2g}")
    assert claim.holds  # As every claim that is measured.
    bounds = claim.holds.bounds(published)
    truth = outcomes.named(*bounds, published)
    chance = truth and power.power(noise.spread, last.blocks, *bounds, truth, last.level)
    return head._replace(factors=(_factor(wide), _factor(narrow)), truth=truth, power=chance)


def _factor(half: float) -> float:
    """Return the exponential of a half-width; two blocks of a strict level may exceed a float."""
    try:
        return math.exp(half)
    except OverflowError:
        return math.inf


def _noise(
    claim: Claim, server: str, units: Mapping[str, str], earlier: Sequence[Earlier]
) -> _Noise | str:
    if isinstance(claim.measure, Largest):
        return "a largest value has no interval"
    if isinstance(claim.measure, Proportion):
        return "the interval of a proportion follows from how often it happens"
    reason = _NO_ARMS
    for report in earlier:
        runs = report.runs.valid.where(lambda run: run.factors["server"] == server)
        try:
            found = _noise_in(claim, runs, units, report.name)
        except InnolabError:
            # Its arms were others: what is one arm today was several then.
            continue
        if isinstance(found, _Noise):
            return found
        reason = found if reason == _NO_ARMS else reason
    return reason


def _noise_in(claim: Claim, runs: RunSet, units: Mapping[str, str], report: str) -> _Noise | str:
    """Return the noise of a claim in the valid runs of a server, on the scale of its verdict."""
    if claim.compare:
        metric = claim.compare.metric
        top, bottom = runs.pairs(metric, *claim.sides)
        if len(top) < _LEAST_BLOCKS:
            return _NO_ARMS
        if min(*top, *bottom) <= 0:
            return f"{metric} is 0 in an earlier run, which leaves no ratio"
        return _Noise(power.spread(top, bottom), True, report)
    assert claim.mean
    metric, [side] = claim.mean.metric, claim.sides
    values = list(runs.values(metric, **side).values())
    if len(values) < _LEAST_BLOCKS:
        return _NO_ARMS
    known = claim.mean.censored_by
    if known and not all(runs.values(known, **side).values()):
        return f"earlier runs show no more than a bound of {metric}"
    if outcomes.is_share(units[metric]) or min(values) <= 0:
        return _Noise(statistics.stdev(values), False, report)
    return _Noise(power.spread(values, [1.0] * len(values)), True, report)


def _duration(experiment: Experiment, earlier: Sequence[Earlier]) -> Duration | None:
    """Return how long a plan takes, by the first report that has a complete run.

    An arm that the report does not have counts as the mean of those that it has. What a report of
    another effort measured took as much shorter as its windows were.
    """
    block = [trial for trial in experiment.trials if trial.block == 0]
    window_s = _window_s(experiment.study, experiment.plan)
    for report in earlier:
        complete = [run for run in report.runs.runs if run.status == "complete"]
        if not complete:
            continue
        longer = window_s / _window_s(experiment.study, report.plan)
        by_arm: dict[str, list[float]] = defaultdict(list)
        for run in complete:
            times = run.conditions["time_s"]
            windows_s = sum(times.get(stage, 0.0) for stage in _IN_WINDOWS)
            by_arm[_arm(run.factors)].append(sum(times.values()) + (longer - 1) * windows_s)
        means = {arm: statistics.fmean(seconds) for arm, seconds in by_arm.items()}
        mean = statistics.fmean(means.values())
        return Duration(
            block_s=sum(means.get(_arm(trial.factors), mean) for trial in block),
            before_s=_before_s(report),
            after_s=report.time_s.get("rendering", 0.0),
            strange_arms=len({_arm(trial.factors) for trial in block} - means.keys()),
            report=report.name,
        )
    return None


def _window_s(study: Study, plan: Plan) -> float:
    """Return how long the windows of a plan are; as at `quick` if it has no effort."""
    return getattr(study.kind.window_s, effort_of(plan) or "quick")


def _arm(factors: Factors) -> str:
    return trial_key(0, factors)


def _before_s(report: Earlier) -> float:
    """Return what a session did before its first trial; a manifest counts the trials' part too."""
    own = [run.conditions["time_s"] for run in report.runs.runs]
    return sum(
        max(0.0, report.time_s.get(stage, 0.0) - sum(of_run.get(stage, 0.0) for of_run in own))
        for stage in _BEFORE
    )
