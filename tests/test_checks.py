"""Each check says ok of good conditions, and finds the one thing that it is there to find."""

from typing import Any

import pytest
from conftest import made_conditions, made_observations, made_run, made_variables, planned

from innolab import studies
from innolab.analysis import checks
from innolab.studies.multi_buffer_pool.study import ROWS_PER_S_FLOOR
from innolab.studies.study import Study

_UNSTEADY = [{"label": "x", "reached": False, "waited_s": 2, "drifts": {"tps": -0.3}}]
# Shared checks, and those that only one study has.
CHECKS = {
    **checks.CHECKS,
    **{k: v for name in studies.names() for k, v in studies.find(name).own_checks.items()},
}
# What these find is a doubt to be told, not a reason to drop the run.
_WARNINGS = {"load without errors", "steady state", "array as its formula", "in one piece"}


def _device(**changes: float) -> dict[str, Any]:
    device = made_conditions()["device"]
    return {**device, "calibration": {**device["calibration"], **changes}}


def _array(calibration: dict[str, float], **changes: Any) -> dict[str, Any]:
    """Return what is recorded of a RAID10 of eight disks of 200 operations a second each."""
    one = {"name": "data", "level": "raid10", "members": list("abcdefgh"), "sync_action": "idle"}
    barriers = {"requested": True, "observed": True}
    speeds = {"read_per_s": 1600.0, "write_per_s": 800.0, "mixed_per_s": 1230.0}
    return {
        "name": "host",
        "calibration": {**speeds, "synced_write_per_s": 400.0, **calibration},
        "array": {
            "layout": "raid10",
            "disks": 8,
            "disk_iops": 200,
            "observed": {"arrays": [{**one, "degraded": 0, **changes}], "barriers": barriers},
        },
    }


def _load(**changes: float) -> list[dict[str, Any]]:
    return [{**made_conditions()["loads"][0], **changes}]


def _table(row_format: str) -> dict[str, Any]:
    table = made_conditions()["table"]
    return {**table, "partitions": [{**p, "row_format": row_format} for p in table["partitions"]]}


_FAULTS: dict[str, tuple[str, Any]] = {
    "debug build": ("conditions", {"build": {"debug": True}}),
    "rows per second": ("observations", [{"pass": 1, "cpu_s": 57.0}]),
    "pool not preloaded": ("variables", {"innodb_buffer_pool_load_at_startup": "ON"}),
    "cold": ("conditions", {"resident_pages_before_start": 1}),
    "effective settings": ("variables", {"innodb_buffer_pool_size": "5"}),
    "full scan": ("conditions", {"scan_plan": {"type": "index", "key": "t1_c2_idx"}}),
    "tables unchanged": ("conditions", {"tables_changed": "t1.ibd differs"}),
    "device as its profile": ("conditions", {"device": _device(read_per_s=1500.0)}),
    "array as asked": ("conditions", {"device": _array({}, degraded=1)}),
    "array as its formula": ("conditions", {"device": _array({"write_per_s": 600.0})}),
    "row format as asked": ("conditions", {"table": _table("compact")}),
    "in one piece": ("conditions", {"pieces": {"resumed_at_rows": 5, "deleted_rows": 1}}),
    "load without errors": ("conditions", {"loads": _load(errors=1)}),
    "load generator idle enough": ("conditions", {"loads": _load(cpu_share=0.6)}),
    "steady state": ("conditions", {"steady": _UNSTEADY}),
    "swap": ("conditions", {"usage": {"swapped_pages": 3, "steal_share": 0, "others_share": 0}}),
    "steal": ("conditions", {"usage": {"swapped_pages": 0, "steal_share": 0.3, "others_share": 0}}),
    "other load": (
        "conditions",
        {"usage": {"swapped_pages": 0, "steal_share": 0, "others_share": 0.6}},
    ),
    "error log": ("conditions", {"error_log": {"errors": ["[ERROR] x"], "warnings": []}}),
}


def _judged(part: str = "", change: Any = None) -> dict[str, str]:
    evidence: dict[str, Any] = {
        "observations": made_observations(),
        "conditions": made_conditions(),
        "variables": made_variables(),
    }
    if change:
        evidence[part] = {**evidence[part], **change} if isinstance(change, dict) else change
    judged = checks.judge(checks.Evidence(**evidence), CHECKS)
    return {c.check: c.result for c in judged}


def test_good_conditions_pass_every_check() -> None:
    assert set(_judged().values()) == {"ok"}


def test_every_check_has_a_fault_that_it_finds() -> None:
    assert set(_FAULTS) == set(CHECKS)


@pytest.mark.parametrize("name", _FAULTS)
def test_a_check_finds_its_fault_and_no_other_check_does(name: str) -> None:
    judged = _judged(*_FAULTS[name])
    assert judged.pop(name) == ("warn" if name in _WARNINGS else "invalid")
    assert set(judged.values()) == {"ok"}


def test_a_debug_variable_betrays_a_build_whose_help_hides_it() -> None:
    assert _judged("variables", {"debug": "d:t"})["debug build"] == "invalid"


def test_an_optional_setting_that_the_server_adapted_is_found() -> None:
    change = {"requested": {"loose_innodb_buffer_pool_size": "5G"}}
    assert _judged("conditions", change)["effective settings"] == "invalid"


def test_a_required_setting_that_the_server_lacks_is_found() -> None:
    change = {"requested": {"innodb_buffer_pool_instances": "8"}}
    assert _judged("conditions", change)["effective settings"] == "invalid"


@pytest.mark.parametrize(
    ("asked", "effective", "same"),
    [
        ("128M", "134217728", True),
        ("ON", "1", True),
        ("OFF", "ON", False),
        ("2G", "134217728", False),
        ("NO_ENGINE_SUBSTITUTION,STRICT_TRANS_TABLES",
         "STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION", True),
        ("fsync", "fsync", True),
        ('""', "", True),
    ],
)  # fmt: skip
def test_settings_are_compared_by_meaning(asked: str, effective: str, same: bool) -> None:
    assert checks.same_value(asked, effective) is same


def test_the_floor_tells_every_published_debug_time_from_every_corrected_one(study: Study) -> None:
    for figure in study.published().values():
        if figure.quantity == "time":
            passes = 10_000_000 / figure.value >= ROWS_PER_S_FLOOR
            assert passes == (figure.series == "corrected"), figure.id


def test_an_invalid_check_makes_the_run_invalid(study: Study) -> None:
    trial = planned(study, ["x"])[0]
    wrong = {"check": "cold", "result": "invalid", "says": "no"}
    assert made_run(study, trial).valid
    assert not made_run(study, trial, checks=[wrong]).valid
    assert not made_run(study, trial, status="failed", error="died").valid
