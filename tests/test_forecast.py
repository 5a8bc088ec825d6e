"""The model of a study's runs: fitted on three arms, tested on the others; what it says to buy."""

from typing import Any

import pytest
from conftest import made_conditions, made_run, planned

from innolab import studies
from innolab.analysis import cache_misses
from innolab.analysis.queueing import Device, Model
from innolab.record.runs import RunSet
from innolab.record.study import check_parameters
from innolab.studies import forecast

STUDY = studies.find("more-memory")
_TRUE = Model(cpu_tps=3000.0, threads=16, reads=20.0, miss_cpu_s=1e-5)
_SPEED = {"raid10-8x15k": 1600.0, "x25-e": 15_000.0, "fusionio-320": 42_000.0, "host": 60_000.0}


def _runs(without: str = "") -> RunSet:
    """Return runs whose throughput is exactly that of a model with known constants."""
    made = []
    for trial in planned(STUDY, ["x"], replicates=1):
        device, case = str(trial.factors["device"]), str(trial.factors["case"])
        if case == without or trial.factors["load"] == "read_write":
            continue
        speed = Device(_SPEED.get(device, 2000.0), 1e9)
        ratio = float(trial.factors["pool_ratio"])
        miss = cache_misses.miss_ratio(str(trial.factors["distribution"]), ratio, 20_000, 2_000_000)
        conditions = made_conditions()
        conditions["device"] = {
            "name": device,
            "calibration": {"read_per_s": speed.read_per_s, "write_per_s": speed.write_per_s},
            "emulated": None,
        }
        conditions["dataset"] = {"rows": 2_000_000}
        conditions["sysbench"]["read_only"]["intervals"] = [{"threads": 16}]
        metrics: dict[str, Any] = {"read_only_tps": _TRUE.tps(miss, speed)}
        made.append(made_run(STUDY, trial, metrics=metrics, conditions=conditions))
    return RunSet(STUDY, made, {"0123456789abcdef": {}})


def test_planted_constants_are_found_and_held_out_arms_predicted() -> None:
    [found] = forecast.forecasts(_runs(), ["x"])
    assert found.model.reads == pytest.approx(20, rel=0.01)
    assert found.model.miss_cpu_s == pytest.approx(1e-5, rel=0.02)
    assert max(abs(error) for error in found.log_errors) < 0.01


def test_no_arm_is_both_fitted_on_and_tested() -> None:
    [found] = forecast.forecasts(_runs(), ["x"])
    fitted = {arm.case for arm in found.fitted}
    held = {arm.case for arm in found.held}
    assert len(fitted) == 3
    assert len(held) > 12
    assert not fitted & held
    assert found.plateau not in held


def test_without_an_arm_of_the_fit_there_is_no_model() -> None:
    assert forecast.forecasts(_runs("raid10-8x15k/uniform/2C"), ["x"]) == []
    assert forecast.forecasts(_runs("fusionio-320/uniform/22/18"), ["x"]) == []


def test_devices_of_one_speed_tell_no_constants_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_SPEED, "fusionio-320", 1600.0)
    assert forecast.forecasts(_runs(), ["x"]) == []


def test_a_gain_is_less_certain_than_its_parts_and_of_the_same_sign() -> None:
    [found] = forecast.forecasts(_runs(), ["x"])
    slow, fast = (forecast.profiled(name) for name in ("raid10-8x15k", "fusionio-320"))
    gain = found.gain((0.32, fast), (0.32, slow))
    assert gain.estimate == pytest.approx(found.tps(0.32, fast) / found.tps(0.32, slow))
    assert gain.low < gain.estimate < gain.high


def test_the_options_are_the_originals_own_example_and_have_prices_where_known() -> None:
    asked = check_parameters(STUDY, {"price_memory_gb": 5, "price_devices": {"fusionio-320": 3000}})
    chosen = {option.name: option for option in forecast.options(asked)}
    assert chosen["twice the memory: 64 GB"].price == 160
    assert chosen["twice the memory: 64 GB"].x_ratio == 0.64
    assert chosen["memory for all data: 100 GB"].price == 340
    assert chosen["a faster device: 1 x fusionio-320"].price == 3000
    assert chosen["a faster device: 4 x x25-e"].price is None
    assert chosen["both: 64 GB and 1 x fusionio-320"].price == 3160
    assert not any("cap-2000" in name for name in chosen), "no device that can be bought"
