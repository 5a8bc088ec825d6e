"""The model of one study's runs: fitted on some arms, tested on the others, taken further.

Constants are fitted on arms far from the plateau on a slow and on a fast device; no other arm
takes part in the fit, so their errors say how far the model can be trusted.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from innolab.analysis import buying, cache_misses, queueing, stats
from innolab.analysis.queueing import ArmPoint, Device, Model
from innolab.storage.profiles import profiles
from innolab.studies.more_memory.parameters import POOL_RATIOS, MemoryParameters

# The miss ratio hardly depends on the number of pages.
_PAGES = 20_000
# The fast device of a fit, and how many times faster than the slow one it must be.
_FAST, _APART = "fusionio-320", 4


@dataclass(frozen=True)
class Forecast:
    """A fitted model of one server and load, and how it does on each arm.

    `arms` has columns server, load, device, distribution, pool_ratio, tps, `log_error`, which is
    ln(modelled / measured), `fitted` and `held_out`: all others but that of the ceiling.
    """

    server: str
    load: str
    model: Model
    arms: pd.DataFrame

    @property
    def errors(self) -> list[float]:
        """Return the log errors of held-out arms of uniform access, which is what is predicted."""
        return list(self.arms.query("held_out and distribution == 'uniform'").log_error)

    def tps(self, x_ratio: float, device: Device) -> float:
        """Return the predicted transactions per second under uniform access."""
        return self.model.tps(max(0.0, 1 - x_ratio), device)

    def interval(self, x_ratio: float, device: Device) -> stats.Interval:
        """Return the prediction with an interval from the errors on held-out arms."""
        return queueing.prediction(self.tps(x_ratio, device), self.errors)

    def gain(self, to: tuple[float, Device], of: tuple[float, Device]) -> stats.Interval:
        """Return the ratio of two predictions, whose errors are taken as independent."""
        wider = [error * math.sqrt(2) for error in self.errors]
        return queueing.prediction(self.tps(*to) / self.tps(*of), wider)


def forecasts(
    runs: pd.DataFrame, speeds: dict[str, Device], rows: int, threads: int
) -> list[Forecast]:
    """Return the model of each server and load that has the arms for it.

    `runs` has a row a run; those of devices without a speed are left out.
    """
    found: list[Forecast | None] = []
    for _, of in runs[runs.device.isin(list(speeds))].groupby("server", sort=False):
        arms = _arms(of, speeds, rows)
        reads = _forecast(arms[arms.load == "read_only"], queueing.fit_reads, threads)
        if reads:
            fit = partial(queueing.fit_writes, miss_cpu_s=reads.model.miss_cpu_s)
            found += [reads, _forecast(arms[arms.load == "read_write"], fit, threads)]
    return [forecast for forecast in found if forecast]


def curves(models: Sequence[Forecast], speeds: Mapping[str, Device]) -> pd.DataFrame:
    """Return what models say of each device, from the smallest to the largest pool."""
    return pd.DataFrame(
        [
            (model.server, model.load, device, x_ratio, model.tps(x_ratio, speed))
            for model in models
            for device, speed in speeds.items()
            for x_ratio in np.linspace(2 / 18, 22 / 18, 61)
        ],
        columns=["server", "load", "device", "pool_ratio", "tps"],
    )


def arms(models: Sequence[Forecast]) -> pd.DataFrame:
    """Return the arms of all models, as `Forecast.arms`, with more of each.

    `arm` is its name, `access` uniform or skewed, `ratio` modelled over measured throughput, and
    `off` how far the larger of the two is above the smaller.
    """
    if not models:
        columns = ["server", "load", "device", "distribution", "pool_ratio", "tps"]
        no_arms = pd.DataFrame(columns=[*columns, "arm", "access", "ratio", "off"])
        return no_arms.assign(fitted=False, held_out=False).astype(
            {"fitted": bool, "held_out": bool}
        )
    each = pd.concat([model.arms for model in models], ignore_index=True)
    levels = {ratio: name for name, ratio in POOL_RATIOS.items()}
    return each.assign(
        arm=each.device + ", " + each.distribution + ", " + each.pool_ratio.map(levels),
        access=np.where(each.distribution == "uniform", "uniform", "skewed"),
        ratio=np.exp(each.log_error),
        off=np.exp(each.log_error.abs()) - 1,
    )


def _arms(runs: pd.DataFrame, speeds: dict[str, Device], rows: int) -> pd.DataFrame:
    at = ["device", "distribution", "pool_ratio"]
    arms: Any = runs.groupby(["server", "load", *at], sort=False).tps.agg(_mean).reset_index()
    miss = partial(cache_misses.miss_ratio, pages=_PAGES, rows=rows)
    misses = map(miss, arms.distribution, arms.pool_ratio)
    points = map(ArmPoint, arms.tps, misses, arms.device.map(speeds))
    return arms.assign(point=list(points)).set_index(at, drop=False)


def _mean(values: Any) -> float:
    return stats.geometric_mean(list(values)).estimate


def _forecast(arms: pd.DataFrame, fit: Callable[..., Model], threads: int) -> Forecast | None:
    """Return the model fitted to some arms, if all that it needs are there.

    A slow and a fast device, or two constants cannot be distinguished: fitted on one device alone,
    a model of others is off by any factor. The slow one has the most arms, the whole sweep. The
    ceiling is that of the largest pool on the fast one, where no device is in the way.
    """
    slow = next(iter(arms.device.mode()), "")
    needed = [(slow, "2/18"), (slow, "2C"), (_FAST, "2/18"), (_FAST, "22/18")]
    *fitted, ceiling = [(device, "uniform", POOL_RATIOS[level]) for device, level in needed]
    if not all(arm in arms.index for arm in [*fitted, ceiling]):
        return None
    points = [arms.point[arm] for arm in fitted]
    if points[-1].device.read_per_s <= _APART * points[0].device.read_per_s:
        return None
    model = fit(points, arms.tps[ceiling], threads)
    # Six digits a constant: more differ from one processor to the next.
    short: Any = {name: float(f"{value:.6g}") for name, value in asdict(model).items()}
    model = replace(model, **{**short, "threads": threads})
    of = arms.reset_index(drop=True).drop(columns="point")
    of["log_error"] = queueing.errors(model, list(arms.point))
    of["fitted"] = arms.index.isin(fitted)
    of["held_out"] = ~arms.index.isin([*fitted, ceiling])
    return Forecast(of.server[0], of.load[0], model, of)


def calibrated(devices: pd.DataFrame) -> dict[str, Device]:
    """Return what fio found each device to give; of several sessions, the geometric mean.

    Those with service times are left out: the model's stations have one speed whatever waits.
    Takes a row a run: `device.name`, `device.calibration.read_per_s` and `.write_per_s`.
    """
    speeds = [f"device.calibration.{kind}_per_s" for kind in ("read", "write")]
    timed = [name for name, profile in profiles().items() if profile.times]
    by_speed = devices[~devices["device.name"].isin(timed)] if len(devices) else devices
    groups: Any = by_speed.groupby("device.name") if len(by_speed) else ()
    return {name: Device(*(_mean(of[speed]) for speed in speeds)) for name, of in groups}


def profiled(name: str, count: int = 1) -> Device:
    """Return a device as its profile has it; several share the work, as in a stripe."""
    reads, writes = (profiles()[name].pages_per_s(kind) for kind in ("read", "write"))
    return Device(count * reads, count * writes)


def pieces(name: str, data_gb: float) -> int:
    """Return how many of a device hold the data; one of a device whose size is not its own."""
    return buying.pieces(profiles()[name].capacity_bytes, data_gb)


def options(asked: MemoryParameters) -> pd.DataFrame:
    """Return what can be bought for the data, the memory and the device that are asked about.

    Columns: option, x_ratio (pool over data), device (its speed), price (NaN where not known).
    """
    have, data, mine = asked.buy_memory_gb, asked.buy_data_gb, asked.buy_device
    least = profiled(mine).read_per_s
    sold = [(pieces(p.name, data), p.name) for p in profiles().values() if p.capacity_bytes]
    faster = [(n, name) for n, name in sold if profiled(name).read_per_s > least]
    most = max(POOL_RATIOS.values())
    found = buying.offers(have, data, mine, faster, asked.price_memory_gb, asked.price_devices)
    return pd.DataFrame(
        {"option": offer.option, "x_ratio": min(offer.memory_gb / data, most),
         "device": profiled(offer.device, max(offer.pieces, 1)), "price": offer.price}
        for offer in found
    )  # fmt: skip
