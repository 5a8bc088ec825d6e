"""The model of one study's runs: fitted on some arms, tested on the others, taken further.

Constants are fitted on arms far from the plateau on a slow and on a fast device; no other arm
takes part in the fit, so their errors say how far the model can be trusted.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from innolab.analysis import cache_misses, queueing, stats
from innolab.analysis.queueing import Device, Model, Point
from innolab.record.runs import RunSet
from innolab.storage.profiles import profiles
from innolab.studies.more_memory import LEVELS, MemoryParameters

MODES = ("read_only", "read_write")
# A page's worth of rows is enough: the miss ratio hardly depends on the number of pages.
_PAGES = 20_000
_FAST = "fusionio-320"
# How many times faster the fast device of a fit must be.
_APART = 4
_DIGITS = 6


@dataclass(frozen=True)
class Arm:
    """One arm as measured: `x_ratio` is buffer pool over data, `tps` a geometric mean."""

    case: str
    device: str
    access: str
    x_ratio: float
    tps: float
    point: Point


@dataclass(frozen=True)
class Forecast:
    """A fitted model of one server and load, and how it did on the arms it had not seen."""

    server: str
    mode: str
    model: Model
    plateau: str
    fitted: list[Arm]
    held: list[Arm]

    @property
    def log_errors(self) -> list[float]:
        """Return ln(predicted / measured) of every held-out arm."""
        return queueing.errors(self.model, [arm.point for arm in self.held])

    @property
    def uniform_log_errors(self) -> list[float]:
        """Return those of uniform access, which is what is predicted further on."""
        held = [arm.point for arm in self.held if arm.access == "uniform"]
        return queueing.errors(self.model, held)

    def tps(self, x_ratio: float, device: Device) -> float:
        """Return the predicted transactions per second under uniform access."""
        return self.model.tps(max(0.0, 1 - x_ratio), device)

    def interval(self, x_ratio: float, device: Device) -> stats.Interval:
        """Return the prediction with an interval from the errors on held-out arms."""
        return queueing.prediction(self.tps(x_ratio, device), self.uniform_log_errors)

    def gain(self, to: tuple[float, Device], of: tuple[float, Device]) -> stats.Interval:
        """Return the ratio of two predictions, whose errors are taken as independent."""
        wider = [error * math.sqrt(2) for error in self.uniform_log_errors]
        return queueing.prediction(self.tps(*to) / self.tps(*of), wider)


def forecasts(runs: RunSet, servers: Sequence[str]) -> list[Forecast]:
    """Return the model of each server and load that has the arms for it."""
    found = []
    for server in servers:
        reads = _reads(runs, server)
        if reads is not None:
            found.append(reads)
            writes = _writes(runs, server, reads.model.miss_cpu_s)
            found += [writes] if writes is not None else []
    return found


def _reads(runs: RunSet, server: str) -> Forecast | None:
    arms = _arms(runs, server, "read_only")
    chosen = _chosen(arms)
    if chosen is None:
        return None
    fitted, plateau = chosen
    model = _rounded(queueing.fit_reads([a.point for a in fitted], plateau.tps, _threads(runs)))
    return Forecast(server, "read_only", model, plateau.case, fitted, _held(arms, fitted))


def _writes(runs: RunSet, server: str, miss_cpu_s: float) -> Forecast | None:
    arms = _arms(runs, server, "read_write")
    chosen = _chosen(arms)
    if chosen is None:
        return None
    fitted, plateau = chosen
    points = [a.point for a in fitted]
    model = _rounded(queueing.fit_writes(points, plateau.tps, _threads(runs), miss_cpu_s))
    return Forecast(server, "read_write", model, plateau.case, fitted, _held(arms, fitted))


def _rounded(model: Model) -> Model:
    """Return the model with six digits a constant: more differ from one processor to the next."""
    return Model(
        cpu_tps=_short(model.cpu_tps),
        threads=model.threads,
        reads=_short(model.reads),
        miss_cpu_s=_short(model.miss_cpu_s),
        writes=_short(model.writes),
    )


def _short(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _chosen(arms: Sequence[Arm]) -> tuple[list[Arm], Arm] | None:
    """Return the arms to fit and the one whose throughput is the CPUs' ceiling, if all are there.

    A slow and a fast device, or two constants cannot be told apart: fitted on one device alone,
    a model of others is off by any factor. The ceiling is that of the largest pool on the fast
    one, where no device is in the way.
    """
    by_case = {arm.case: arm for arm in arms}
    if not arms:
        return None
    first = arms[0].device
    wanted = [f"{first}/uniform/2/18", f"{first}/uniform/2C", f"{_FAST}/uniform/2/18"]
    plateau = by_case.get(f"{_FAST}/uniform/22/18")
    fitted = [by_case[case] for case in wanted if case in by_case]
    if plateau is None or len(fitted) < len(wanted):
        return None
    slow, fast = (arm.point.device.read_per_s for arm in (fitted[0], fitted[-1]))
    return (fitted, plateau) if fast > _APART * slow else None


def _held(arms: Sequence[Arm], fitted: Sequence[Arm]) -> list[Arm]:
    """Return the arms that the fit has not seen. At the plateau nothing is predicted."""
    seen = {arm.case for arm in fitted}
    return [arm for arm in arms if arm.case not in seen and arm.x_ratio < 1]


def _arms(runs: RunSet, server: str, mode: str) -> list[Arm]:
    """Return every measured arm of a server and load, first device first."""
    first = {run.factors["case"]: run for run in runs.valid.runs if run.factors["server"] == server}
    result = []
    for case, run in first.items():
        values = list(runs.valid.values(f"{mode}_tps", server=server, case=case).values())
        if not values:
            continue
        tps = stats.geometric_mean(values).estimate
        x_ratio, device = float(run.factors["pool_ratio"]), str(run.factors["device"])
        access, rows = str(run.factors["distribution"]), run.conditions["dataset"]["rows"]
        miss = cache_misses.miss_ratio(access, x_ratio, _PAGES, rows)
        point = Point(tps, miss, calibrated(runs, device))
        result.append(Arm(str(case), device, access, x_ratio, tps, point))
    order = _order(runs)
    return sorted(result, key=lambda arm: (order.index(arm.device), arm.x_ratio))


def _order(runs: RunSet) -> list[str]:
    """Return the devices, the one with the most arms first: it has the whole sweep."""
    count: dict[str, set[Any]] = {}
    for run in runs.runs:
        count.setdefault(str(run.factors["device"]), set()).add(run.factors["case"])
    return sorted(count, key=lambda device: (-len(count[device]), device))


def calibrated(runs: RunSet, device: str) -> Device:
    """Return what fio found a device to give; of several sessions, the geometric mean."""
    found = [
        run.conditions["device"]["calibration"]
        for run in runs.valid.runs
        if run.factors["device"] == device
    ]
    reads = stats.geometric_mean([one["read_per_s"] for one in found]).estimate
    writes = stats.geometric_mean([one["write_per_s"] for one in found]).estimate
    return Device(reads, writes)


def profiled(name: str, count: int = 1) -> Device:
    """Return a device as its profile has it; several share the work, as in a stripe."""
    profile = profiles()[name]
    return Device(count * profile.pages_per_s("read"), count * profile.pages_per_s("write"))


def pieces(name: str, data_gb: float) -> int:
    """Return how many of a device hold the data; one of a device whose size is not its own."""
    capacity = profiles()[name].capacity_bytes
    return 1 if capacity is None else math.ceil(data_gb * 1e9 / capacity)


def _threads(runs: RunSet) -> int:
    # All runs share the spec, so the load of any one is that of all.
    return max(
        int(line["threads"])
        for run in runs.valid.runs
        for load in run.conditions["sysbench"].values()
        for line in load["intervals"]
    )


@dataclass(frozen=True)
class Option:
    """One thing to buy: pool over data, so many of a device, and the price where it is known."""

    name: str
    x_ratio: float
    device: str
    count: int
    price: float | None


def options(parameters: MemoryParameters) -> list[Option]:
    """Return what can be bought for the data, the memory and the device that are asked about."""
    have, data = parameters.buy_memory_gb, parameters.buy_data_gb
    mine = parameters.buy_device
    read_per_s = profiled(mine).read_per_s
    faster = [
        name
        for name, profile in profiles().items()
        if profile.capacity_bytes and profiled(name).read_per_s > read_per_s
    ]

    def option(name: str, memory_gb: float, device: str) -> Option:
        count = 1 if device == mine else pieces(device, data)
        memory = _times(parameters.price_memory_gb, max(0.0, memory_gb - have))
        other = _times(parameters.price_devices.get(device), 0.0 if device == mine else count)
        price = None if memory is None or other is None else memory + other
        words = name if device == mine else f"{name}{count} x {device}"
        return Option(words, min(memory_gb / data, max(LEVELS.values())), device, count, price)

    return [
        option(f"what there is: {have:g} GB of memory, {mine}", have, mine),
        option(f"twice the memory: {2 * have:g} GB", 2 * have, mine),
        option(f"memory for all data: {max(have, data):g} GB", max(have, data), mine),
        *(option("a faster device: ", have, name) for name in faster),
        *(option(f"both: {2 * have:g} GB and ", 2 * have, name) for name in faster),
    ]


def _times(price: float | None, amount: float) -> float | None:
    """Return what an amount costs; nothing costs nothing at any price."""
    if not amount:
        return 0.0
    return None if price is None else price * amount
