"""The model of one study's runs: fitted on some arms, tested on the others, taken further.

Constants are fitted on arms far from the plateau on a slow and on a fast device; no other arm
takes part in the fit, so their errors say how far the model can be trusted.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from innolab import models, stats
from innolab.devices import HOST, profiles
from innolab.models import Device, Model, Point
from innolab.runs import RunSet
from innolab.studies.more_memory import LEVELS, MemoryParameters

MODES = ("read_only", "read_write")
# A page's worth of rows is enough: the miss ratio hardly depends on the number of pages.
_PAGES = 20_000
_FAST = "fusionio-320"


@dataclass(frozen=True)
class Arm:
    """One arm as measured: `x_ratio` is buffer pool over data, `tps` a geometric mean."""

    case: str
    device: str
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
        return models.errors(self.model, [arm.point for arm in self.held])

    def tps(self, x_ratio: float, device: Device) -> float:
        """Return the predicted transactions per second under uniform access."""
        return self.model.tps(max(0.0, 1 - x_ratio), device)

    def interval(self, x_ratio: float, device: Device) -> stats.Interval:
        """Return the prediction with an interval from the errors on held-out arms."""
        return models.prediction(self.tps(x_ratio, device), self.log_errors)

    def gain(self, to: tuple[float, Device], of: tuple[float, Device]) -> stats.Interval:
        """Return the ratio of two predictions, whose errors are taken as independent."""
        wider = [error * math.sqrt(2) for error in self.log_errors]
        return models.prediction(self.tps(*to) / self.tps(*of), wider)


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
    model = models.fit_reads([a.point for a in fitted], plateau.tps, _threads(runs))
    return Forecast(server, "read_only", model, plateau.case, fitted, _held(arms, fitted))


def _writes(runs: RunSet, server: str, miss_cpu_s: float) -> Forecast | None:
    arms = _arms(runs, server, "read_write")
    chosen = _chosen(arms)
    if chosen is None:
        return None
    fitted, plateau = chosen
    points = [a.point for a in fitted]
    model = models.fit_writes(points, plateau.tps, _threads(runs), miss_cpu_s)
    return Forecast(server, "read_write", model, plateau.case, fitted, _held(arms, fitted))


def _chosen(arms: Sequence[Arm]) -> tuple[list[Arm], Arm] | None:
    """Return the arms to fit and the one whose throughput is the CPUs' ceiling, if all are there.

    The ceiling is that of the largest pool on the fast device, where no device is in the way.
    """
    by_case = {arm.case: arm for arm in arms}
    first = arms[0].device if arms else HOST
    fast = _FAST if f"{_FAST}/uniform/22/18" in by_case else first
    wanted = dict.fromkeys([f"{first}/uniform/2/18", f"{first}/uniform/2C", f"{fast}/uniform/2/18"])
    plateau = by_case.get(f"{fast}/uniform/22/18")
    fitted = [by_case[case] for case in wanted if case in by_case]
    if plateau is None or len(fitted) < len(wanted):
        return None
    return fitted, plateau


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
        miss = models.miss_ratio(
            str(run.factors["distribution"]),
            x_ratio,
            _PAGES,
            run.conditions["dataset"]["rows"],
        )
        point = Point(tps, miss, calibrated(runs, device))
        result.append(Arm(str(case), device, x_ratio, tps, point))
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


def profiled(name: str) -> Device:
    """Return a device as its profile has it."""
    profile = profiles()[name]
    return Device(profile.pages_per_s("read"), profile.pages_per_s("write"))


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
    """One thing to buy: pool over data, the device, and the price where all its parts have one."""

    name: str
    x_ratio: float
    device: str
    price: float | None


def options(parameters: MemoryParameters) -> list[Option]:
    """Return what can be bought for the data, the memory and the device that are asked about."""
    have, data = parameters.buy_memory_gb, parameters.buy_data_gb
    mine = parameters.buy_device
    faster = [n for n in profiles() if profiled(n).read_per_s > profiled(mine).read_per_s]

    def option(name: str, memory_gb: float, device: str) -> Option:
        memory = 0.0 if memory_gb <= have else _times(parameters.price_memory_gb, memory_gb - have)
        other = 0.0 if device == mine else parameters.price_devices.get(device)
        price = None if memory is None or other is None else memory + other
        return Option(name, min(memory_gb / data, max(LEVELS.values())), device, price)

    return [
        option(f"what there is: {have:g} GB of memory, {mine}", have, mine),
        option(f"twice the memory: {2 * have:g} GB", 2 * have, mine),
        option(f"memory for all data: {data:g} GB", max(have, data), mine),
        *(option(f"a faster device: {name}", have, name) for name in faster),
        *(option(f"both: {2 * have:g} GB and {name}", 2 * have, name) for name in faster),
    ]


def _times(price: float | None, amount: float) -> float | None:
    return None if price is None else price * amount
