"""The model of a study's runs: fitted on three arms, tested on the others; what it says to buy."""

import pandas as pd
import pytest

from innolab.analysis import cache_misses
from innolab.analysis.queueing import Device, Model
from innolab.studies.more_memory import forecast
from innolab.studies.more_memory.parameters import POOL_RATIOS, TIMED, MemoryParameters
from innolab.studies.more_memory.study import STUDY

_TRUE = Model(cpu_tps=3000.0, threads=16, reads=20.0, miss_cpu_s=1e-5)
_ROWS = 2_000_000
_SPEED = {"raid10-8x15k": 1600.0, "x25-e": 15_000.0, "fusionio-320": 42_000.0,
          "cap-2000": 2000.0, "host": 60_000.0}  # fmt: skip


def _forecasts(
    without: tuple[str, str] | None = None, fast: float = 42_000.0
) -> list[forecast.Forecast]:
    """Return models of runs whose throughput is exactly that of one with known constants."""
    speeds = {name: Device(read, 1e9) for name, read in {**_SPEED, "fusionio-320": fast}.items()}
    absent = (without[0], POOL_RATIOS[without[1]]) if without else None
    rows = []
    for arm in STUDY.arms(MemoryParameters(), "x"):
        uniform = arm.distribution == "uniform"
        if arm.load == "read_only" and not (uniform and (arm.device, arm.pool_ratio) == absent):
            miss = cache_misses.miss_ratio(arm.distribution, arm.pool_ratio, 20_000, _ROWS)
            speed = speeds.get(arm.device)
            rows.append({**vars(arm), "tps": _TRUE.tps(miss, speed) if speed else 1.0})
    return forecast.forecasts(pd.DataFrame(rows), speeds, _ROWS, 16)


def test_planted_constants_are_found_and_held_out_arms_predicted() -> None:
    [found] = _forecasts()
    assert (found.server, found.load) == ("x", "read_only")
    assert found.model.reads == pytest.approx(20, rel=0.01)
    assert found.model.miss_cpu_s == pytest.approx(1e-5, rel=0.02)
    assert found.arms[found.arms.held_out].log_error.abs().max() < 0.01
    assert not set(found.arms.device) & set(TIMED.values()), "they have no one speed"


def test_no_arm_is_both_fitted_on_and_tested() -> None:
    [found] = _forecasts()
    assert found.arms.fitted.sum() == 3
    assert found.arms.held_out.sum() > 12
    assert not (found.arms.fitted & found.arms.held_out).any()
    ceiling = found.arms.query("device == 'fusionio-320' and pool_ratio > 1.2")
    assert len(ceiling) == 1
    assert not ceiling.held_out.any()
    assert set(found.arms[found.arms.held_out].distribution) > {"uniform"}
    assert len(found.errors) < found.arms.held_out.sum(), "skewed access is not predicted"


def test_without_an_arm_of_the_fit_there_is_no_model() -> None:
    assert _forecasts(("raid10-8x15k", "2C")) == []
    assert _forecasts(("fusionio-320", "22/18")) == []


def test_without_runs_there_is_no_model() -> None:
    runs = pd.DataFrame(columns=["server", "device", "load", "distribution", "pool_ratio", "tps"])
    assert forecast.forecasts(runs, forecast.calibrated(pd.DataFrame()), _ROWS, 16) == []


def test_devices_of_one_speed_tell_no_constants_apart() -> None:
    assert _forecasts(fast=1600.0) == []


def test_a_device_calibrated_twice_has_the_geometric_mean() -> None:
    names = ["device.name", "device.calibration.read_per_s", "device.calibration.write_per_s"]
    twice = pd.DataFrame(
        [("a", 100.0, 10.0), ("a", 400.0, 10.0), ("b", 5.0, 5.0), ("x25-e-timed", 9.0, 9.0)],
        columns=names,
    )
    found = forecast.calibrated(twice)
    assert set(found) == {"a", "b"}, "a device with service times has no one speed"
    assert found["a"].read_per_s == pytest.approx(200)
    assert found["b"].write_per_s == pytest.approx(5)


def test_a_gain_is_less_certain_than_its_parts_and_of_the_same_sign() -> None:
    [found] = _forecasts()
    slow, fast = (forecast.profiled(name) for name in ("raid10-8x15k", "fusionio-320"))
    gain = found.gain((0.32, fast), (0.32, slow))
    assert gain.estimate == pytest.approx(found.tps(0.32, fast) / found.tps(0.32, slow))
    assert gain.low < gain.estimate < gain.high


def test_the_options_are_the_originals_own_example_and_have_prices_where_known() -> None:
    asked = MemoryParameters(price_memory_gb=5, price_devices={"fusionio-320": 3000})
    chosen = forecast.options(asked).set_index("option")
    assert chosen.price["twice the memory: 64 GB"] == 160
    assert chosen.x_ratio["twice the memory: 64 GB"] == 0.64
    assert chosen.price["memory for all data: 100 GB"] == 340
    assert chosen.price["a faster device: 1 x fusionio-320"] == 3000
    assert pd.isna(chosen.price["a faster device: 4 x x25-e"])
    assert chosen.price["both: 64 GB and 1 x fusionio-320"] == 3160
    assert not chosen.index.str.contains("cap-2000").any(), "no device that can be bought"
