"""What measuring a claim again takes of this host: time, memory, disk, by a reference's record.

Measured where the record holds it; else an upper bound: pools that fill, and the disk that `run`
asks for.
"""

import datetime
import itertools
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from innolab.analysis.outcomes import DECIDED
from innolab.analysis.verdicts import Verdict
from innolab.base.errors import InputError
from innolab.bench.trial import OVERHEAD_BYTES
from innolab.hosts import machine, probe
from innolab.measure.estimate import Earlier
from innolab.measure.prepare import needs
from innolab.mysql import builds, datasets
from innolab.record.plan import Plan
from innolab.record.run import Run, trial_key
from innolab.storage import emulated
from innolab.storage.profiles import HOST, PAGE_READS, Calibration
from innolab.studies.experiment import Experiment, Trial
from innolab.studies.study import Study

# Making emulated disks takes seconds; a record's first set-up may have installed everything too.
_MOST_SET_UP_S = 20.0
_MEMORY = "memory"
# What waits for processors alone. Windows wait for the clock, scans and loads for their device too.
_WORK = ("cloning", "eviction", "memory", "start/stop")


class Amount(NamedTuple):
    """Bytes that were measured, or that are an upper bound."""

    bytes: int
    measured: bool


class Estimate(NamedTuple):
    """What measuring a claim again takes.

    Attributes
    ----------
    expected_s : seconds, if each server is decided after as many blocks as in the reference
    least_s, most_s : if all are decided at the first look, and if none is at the last
    blocks : after how many blocks each server is expected to be decided
    first, last : the looks that the plan and its time allow
    before_s : what of the seconds comes before the first trial
    unbuilt : builds whose dataset is not here and has to be made
    dataset_s : what that takes, part of `before_s`; None if the record does not hold it
    memory : of the servers and of what is emulated in memory
    disk : of datasets, copies and what is emulated on the disk
    left_open : servers on which the reference did not decide it, so that all blocks are expected
    strange_arms : of how many arms the reference has no complete run; they count as the mean
    speed : how many times the work of the reference's processors those of this host do
    """

    expected_s: float
    least_s: float
    most_s: float
    blocks: dict[str, int]
    left_open: list[str]
    first: int
    last: int
    before_s: float
    unbuilt: list[str]
    dataset_s: float | None
    memory: Amount
    disk: Amount
    strange_arms: int
    speed: float


def speed(reference: Earlier) -> float:
    """Return how many times the work of a reference's processors those of this host do now.

    1 where the reference does not say it, or says it of a host over ssh, whose probe is another.
    """
    probes = (run.conditions.get("probe", {}) for run in reference.runs.runs)
    known = [one["cpu_ops_per_s"] for one in probes if "memory_bytes_per_s" in one]
    return probe.cpu_ops_per_s() / statistics.median(known) if known else 1.0


def estimate(
    experiment: Experiment,
    reference: Earlier,
    judged: Mapping[str, Verdict],
    speed: float = 1.0,
) -> Estimate:
    """Return what a plan of some arms takes here, by the record of a report that has them.

    Parameters
    ----------
    judged : the reference's verdicts by server
    speed : as `speed` returns it

    Raises
    ------
    InputError
        If the reference has no complete run.
    """
    pace = TrialTimes(experiment.study, reference.runs.runs, reference.name, speed)
    block = [trial for trial in experiment.trials if trial.block == 0]
    looks, last = experiment.blocks, experiment.blocks.last
    if budget_s := experiment.parameters.budget_s:
        last = max(looks.first, min(last, int(budget_s / pace.block_s(block))))
    servers = list(dict.fromkeys(str(trial.factors["server"]) for trial in block))
    decided = {name for name, verdict in judged.items() if verdict.verdict in DECIDED}
    left_open = [name for name in servers if name not in decided]
    blocks = {
        name: last if name in left_open else min(last, looks.first + judged[name].looks - 1)
        for name in servers
    }
    unbuilt, dataset_s = _datasets(experiment, reference)
    before_s = _before_s(experiment, reference) + (dataset_s or 0.0)

    def until(of: Mapping[str, int]) -> float:
        passes = [[t for t in block if of[str(t.factors["server"])] > n] for n in range(last)]
        return before_s + sum(pace.block_s(trials) for trials in passes)

    return Estimate(
        expected_s=until(blocks),
        least_s=until(dict.fromkeys(servers, looks.first)),
        most_s=until(dict.fromkeys(servers, last)),
        blocks=blocks,
        left_open=left_open,
        first=looks.first,
        last=last,
        before_s=before_s,
        unbuilt=unbuilt,
        dataset_s=dataset_s,
        memory=_memory(experiment, reference),
        disk=_disk(experiment, reference),
        strange_arms=len({_arm(trial) for trial in block} - pace.arms.keys()),
        speed=speed,
    )


class TrialTimes:
    """How long trials took: each arm from its beginning to its end, and what came between them.

    Parameters
    ----------
    report : what the runs are of
    speed : how much faster what waits for processors is here

    Attributes
    ----------
    arms : the seconds of each arm, by the identity of its trial in block 0
    pause_s, change_s : what came between two trials: usually, and where an array is made

    Raises
    ------
    InputError
        If none is complete.
    """

    def __init__(self, study: Study, runs: Sequence[Run], report: str, speed: float = 1.0) -> None:
        self._plot = study.design.whole_plot
        ordered = sorted(runs, key=lambda run: run.started_at)
        by_arm: dict[str, list[float]] = defaultdict(list)
        for run in ordered:
            if run.status == "complete":
                work_s = sum(run.conditions["time_s"].get(stage, 0.0) for stage in _WORK)
                took_s = _between(run.started_at, run.ended_at)
                by_arm[trial_key(0, run.factors)].append(took_s - work_s * (1 - 1 / speed))
        if not by_arm:
            raise InputError(f"{report} has no complete run, by which nothing can be estimated.")
        self.arms = {arm: statistics.fmean(times) for arm, times in by_arm.items()}
        self._mean = statistics.fmean(self.arms.values())
        # Medians: one pause may be that between two sessions, or a page that was made.
        pauses: dict[bool, list[float]] = {False: [], True: []}
        for one, other in itertools.pairwise(ordered):
            pauses[self._is_changed(one, other)].append(_between(one.ended_at, other.started_at))
        self.pause_s, self.change_s = (
            statistics.median(pauses[changed]) if pauses[changed] else 0.0
            for changed in (False, True)
        )

    def block_s(self, trials: Sequence[Trial]) -> float:
        """Return the seconds of some trials of one block."""
        took = sum(self.arms.get(_arm(trial), self._mean) + self.pause_s for trial in trials)
        plots = {trial.factors.get(self._plot) for trial in trials} if self._plot else set()
        return took + len(plots) * self.change_s

    def _is_changed(self, one: Run, other: Run) -> bool:
        """Return whether something costly was changed between two runs, as an array is."""
        plot = self._plot
        levels = [(run.block, run.factors.get(plot)) for run in (one, other)] if plot else [0, 0]
        return levels[0] != levels[1]


def _arm(trial: Trial) -> str:
    return trial_key(0, trial.factors)


def _between(began: str, ended: str) -> float:
    moments = (datetime.datetime.fromisoformat(text) for text in (began, ended))
    first, last = moments
    return max(0.0, (last - first).total_seconds())


def _before_s(experiment: Experiment, reference: Earlier) -> float:
    """Return what comes before the first trial: making devices and calibrating those of the arms.

    A reference has calibrated all of its devices, which would be far too much.
    """
    study, parameters = experiment.study, experiment.parameters
    real = study.demands.arrays(parameters)
    local = {str(arm["device"]) for arm in experiment.plan.arms if "device" in arm} - real.keys()
    known = {
        (facts["name"], str(facts["calibration"]))
        for run in reference.runs.runs
        if (facts := run.conditions.get("device", {})).get("calibration")
        and facts["name"] not in real
    }
    own_s = (len(Calibration._fields) + len(PAGE_READS)) * study.kind.calibration_s.of(parameters)
    recorded_s = reference.time_s.get("calibration", 0.0)
    each_s = recorded_s / len(known) if recorded_s and known else own_s
    set_up_s = min(reference.time_s.get("set-up", 0.0), _MOST_SET_UP_S)
    return each_s * len(local) + (set_up_s if local - {HOST} or real else 0.0)


def _datasets(experiment: Experiment, reference: Earlier) -> tuple[list[str], float | None]:
    parameters = experiment.parameters
    recipe, cache = experiment.study.dataset(parameters), machine.cache_folder()
    found = [builds.find(cache, wanted) for wanted in parameters.builds]
    here = [one for one in found if isinstance(one, builds.Build)]
    if recipe is datasets.NONE:
        return [], 0.0
    unbuilt = [one.id for one in here if not datasets.has(recipe, one, cache)]
    in_trials = sum(run.conditions["time_s"].get("dataset", 0.0) for run in reference.runs.runs)
    recorded_s = max(0.0, reference.time_s.get("dataset", 0.0) - in_trials)
    if unbuilt and not recorded_s:
        return unbuilt, None
    return unbuilt, recorded_s / len(reference.plan.builds) * len(unbuilt)


def _memory(experiment: Experiment, reference: Earlier) -> Amount:
    runs, others = _runs(experiment.plan, reference)
    if (measured := memory_bytes(runs, others)) is not None:
        return Amount(measured, measured=True)
    wanted = needs(experiment)
    image = wanted.emulated_bytes * wanted.emulated_disks
    in_memory = image if image and emulated.backing(image) == _MEMORY else 0
    pools = [_filled_bytes(run, reference) for run in runs]
    return Amount((max(pools, default=0) or wanted.memory_bytes) + in_memory, measured=False)


def _filled_bytes(run: Run, reference: Earlier) -> int:
    """Return what a run's servers take if they fill the pools that they had in force."""
    variables = reference.runs.variables.get(run.conditions.get("variables") or "", {})
    servers = len(run.conditions.get("topology", {}).get("servers", [None]))
    pool = int(variables.get("innodb_buffer_pool_size", 0))
    return servers * (pool + OVERHEAD_BYTES) if pool else 0


def _disk(experiment: Experiment, reference: Earlier) -> Amount:
    if (measured := disk_bytes(*_runs(experiment.plan, reference))) is not None:
        return Amount(measured, measured=True)
    wanted = needs(experiment)
    image = wanted.emulated_bytes * wanted.emulated_disks
    on_disk = image if image and emulated.backing(image) != _MEMORY else 0
    return Amount(
        wanted.disk_bytes_per_build * len(experiment.parameters.builds) + on_disk, measured=False
    )


def _runs(plan: Plan, reference: Earlier) -> tuple[list[Run], list[Run]]:
    """Return a reference's complete runs of the arms of a plan, and those of other builds."""
    complete = [run for run in reference.runs.runs if run.status == "complete"]
    others = [run for run in complete if run.factors["server"] not in plan.builds]
    return [run for run in complete if run.factors in plan.arms], others


def memory_bytes(runs: Sequence[Run], beside: Sequence[Run] = ()) -> int | None:
    """Return the most memory that runs took: their servers, and images of disks in memory.

    None if one of them did not record it: measured by an innolab before 0.3, or without a
    server, as by fio alone.

    Parameters
    ----------
    beside : runs of other builds at the same time, whose copies on these disks do not count
    """
    if not runs or any("peak_memory_bytes" not in run.conditions for run in runs):
        return None
    servers = max(run.conditions["peak_memory_bytes"] for run in runs)
    return int(servers + _images(runs, beside, in_memory=True))


def disk_bytes(runs: Sequence[Run], beside: Sequence[Run] = ()) -> int | None:
    """Return the most that runs took of this machine's disk, None if one did not record it.

    Datasets and the copies that trials share stay; copies of a trial's own end with it.
    """
    if not runs or any("disk_bytes" not in run.conditions for run in runs):
        return None
    stays: dict[tuple[str, str], int] = defaultdict(int)
    own = 0
    for run in runs:
        held, server = run.conditions["disk_bytes"], str(run.factors["server"])
        stays["dataset", server] = max(stays["dataset", server], held["dataset"])
        if "image" not in held:
            stays["shared", server] = max(stays["shared", server], held.get("shared", 0))
            # A file that fio asks is gone once its trial has ended.
            own = max(own, held.get("own", 0) + run.conditions.get("file_bytes", 0))
    return sum(stays.values()) + own + _images(runs, beside, in_memory=False)


def _images(runs: Sequence[Run], beside: Sequence[Run], *, in_memory: bool) -> int:
    """Return what the images of emulated disks took, of memory or of the disk.

    There is one for all limits and one for all service times, which has a record of its fidelity.
    Each held a copy of the dataset of every build that shares one among its trials.
    """
    most: dict[bool, int] = defaultdict(int)
    for run in runs:
        if _lies(run, in_memory=in_memory):
            timed = _is_timed(run)
            most[timed] = max(most[timed], run.conditions["disk_bytes"].get("image", 0))
    others: dict[tuple[bool, str], int] = {}
    for run in beside:
        if _lies(run, in_memory=in_memory) and _is_timed(run) in most:
            shared = run.conditions.get("disk_bytes", {}).get("shared", 0)
            others[_is_timed(run), str(run.factors["server"])] = shared
    return sum(most.values()) - sum(others.values())


def _lies(run: Run, *, in_memory: bool) -> bool:
    """Return whether a run's disk is emulated, and its image lies in memory, or on the disk."""
    made = (run.conditions.get("device") or {}).get("emulated")
    return (made["backing"] == _MEMORY) == in_memory if made else False


def _is_timed(run: Run) -> bool:
    return "fidelity" in (run.conditions.get("device") or {})
