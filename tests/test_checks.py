"""Each check says ok of good conditions, and finds the one thing that it is there to find."""

from typing import Any

import pytest
from conftest import (
    made_conditions,
    made_load,
    made_observations,
    made_run,
    made_usage,
    made_variables,
    made_window,
    planned,
)

from innolab import studies
from innolab.analysis import checks
from innolab.bench.usage import device_rates
from innolab.studies.multi_buffer_pool.study import ROWS_PER_S_FLOOR
from innolab.studies.study import Study

_UNSTEADY = [made_window(reached=False, drifts={"tps": -0.3, "checkpoint_age_bytes": 0.0})]
# Half a log before the window, and an age that grows by all that is written.
_FRESH_LOG = made_window(
    redo_before_bytes=2**23, redo_bytes=2**23, drifts={"checkpoint_age_bytes": 0.25}
)
# Shared checks, and those that only one study has.
CHECKS = {
    **checks.CHECKS,
    **{k: v for name in studies.names() for k, v in studies.find(name).kind.checks.items()},
}
# What these find is a doubt to be shown, not a reason to drop the run.
_WARNINGS = {"load without errors", "steady state", "array as its formula", "in one piece",
             "transactions a window", "redo come round"}  # fmt: skip


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


def _table(row_format: str) -> dict[str, Any]:
    table = made_conditions()["table"]
    return {**table, "partitions": [{**p, "row_format": row_format} for p in table["partitions"]]}


_FAULTS: dict[str, tuple[str, Any]] = {
    "debug build": ("conditions", {"build": {"debug": True}}),
    "rows per second": (
        "observations",
        [{**row, "cpu_s": 57.0} for row in made_observations()[:2]],
    ),
    "witness as told": ("observations", [*made_observations(), {"refused_present": 1}]),
    "pool not preloaded": ("variables", {"innodb_buffer_pool_load_at_startup": "ON"}),
    "cold": ("conditions", {"resident_pages_before_start": 1}),
    "effective settings": ("variables", {"innodb_buffer_pool_size": "5"}),
    "full scan": ("conditions", {"scan_plan": {"type": "index", "key": "t1_c2_idx"}}),
    "query plan": (
        "conditions",
        {"query_plan": {"path": "near", "type": "ALL", "key": None, "extra": ""}},
    ),
    "file layout": ("conditions", {"file": {"layout": "scattered", "extents": 2}}),
    "tables unchanged": ("conditions", {"tables_changed": "t1.ibd differs"}),
    "device as its profile": ("conditions", {"device": _device(read_per_s=1500.0)}),
    "array as asked": ("conditions", {"device": _array({}, degraded=1)}),
    "array as its formula": ("conditions", {"device": _array({"write_per_s": 600.0})}),
    "row format as asked": ("conditions", {"table": _table("compact")}),
    "in one piece": ("conditions", {"pieces": {"resumed_at_rows": 5, "deleted_rows": 1}}),
    "load without errors": ("conditions", {"loads": [made_load(errors=1)]}),
    "load generator idle enough": ("conditions", {"loads": [made_load(cpu_share=0.6)]}),
    "steady state": ("conditions", {"steady": _UNSTEADY}),
    "swap": ("conditions", {"usage": made_usage(swapped_pages=3)}),
    "steal": ("conditions", {"usage": made_usage(steal_share=0.3)}),
    # 40 % of one of two processors.
    "other load": ("conditions", {"usage": made_usage(others_share=0.2, others_cpus=0.4)}),
    "foreign disk traffic": ("conditions", {"usage": made_usage(foreign_read_bytes=4 * 10**8)}),
    "bytes really read": (
        "observations",
        [{**row, "read_bytes": row["read_bytes"] // 2} for row in made_observations()[:2]],
    ),
    "kernel share": (
        "observations",
        [{**row, "kernel_cpu_s": 0.7 * row["cpu_s"]} for row in made_observations()[:2]],
    ),
    "memory held": ("conditions", {"memory_held_bytes": 2**29}),
    "transactions a window": ("conditions", {"loads": [made_load(transactions=319)]}),
    "overrun": ("conditions", {"loads": [made_load(seconds=50.0)]}),
    "redo come round": ("conditions", {"steady": [_FRESH_LOG]}),
    "redo log in cache": (
        "conditions",
        {"steady": [made_window(server_read_bytes=15_000 * 16384 + 2**23)]},
    ),
    "cap in force": ("conditions", {"steady": [made_window(reads_per_s=1800.0)]}),
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


def _of(name: str, **conditions: Any) -> str:
    return _judged("conditions", conditions)[name]


def test_a_load_on_a_few_of_many_processors_is_no_fault() -> None:
    host = {**made_conditions()["host"], "cores": 64}
    usage = made_usage(others_share=0.02, others_cpus=1.28)
    assert _of("other load", host=host, usage=usage) == "ok"


def test_an_older_run_is_judged_by_the_share_of_all_processors_alone() -> None:
    usage = {"swapped_pages": 0, "steal_share": 0.0, "others_share": 0.3}
    assert _of("other load", usage=usage) == "warn"


def test_a_little_foreign_traffic_beside_a_server_that_needs_no_disk_is_no_fault() -> None:
    little = made_usage(device_bytes=2 * 10**6, foreign_written_bytes=10**6)
    assert _of("foreign disk traffic", usage=little) == "ok"
    unknown = {k: v for k, v in made_usage().items() if not k.startswith(("device", "foreign"))}
    assert _of("foreign disk traffic", usage=unknown) == "ok"


def test_memory_need_not_be_held_where_nobody_takes_it() -> None:
    host = {**made_conditions()["host"], "free_page_reporting": False}
    assert _of("memory held", host=host, memory_held_bytes=0) == "ok"


def test_a_window_that_overran_a_little_or_ended_without_transactions_is_a_warning() -> None:
    assert _of("overrun", loads=[made_load(seconds=34.0)]) == "warn"
    idle = [{"t_s": 29.0, "tps": 100.0}, {"t_s": 30.0, "tps": 0.0}]
    assert _of("overrun", loads=[made_load(intervals=idle)]) == "warn"


@pytest.mark.parametrize(
    ("changes", "result"),
    [
        ({"redo_before_bytes": 2**24}, "ok"),
        # Less than the log, but its age grows by a quarter of what is written: it levels off.
        ({"redo_before_bytes": 0, "drifts": {"checkpoint_age_bytes": 0.06}}, "ok"),
        ({"redo_before_bytes": 0, "drifts": {"checkpoint_age_bytes": 0.2}}, "warn"),
        # A sixteenth of the log in the window: too little to see whether it levels off.
        ({"redo_before_bytes": 0, "redo_bytes": 2**20}, "warn"),
        ({"redo_before_bytes": 0, "redo_bytes": 0}, "ok"),
    ],
)
def test_a_log_has_come_round_where_it_was_full_once_or_levels_off(
    changes: dict[str, Any], result: str
) -> None:
    assert _of("redo come round", steady=[made_window(**changes)]) == result


def test_a_cap_lifted_in_mid_window_is_found_though_the_mean_is_below_it() -> None:
    rows = [
        {
            "t_s": t / 4,
            "device_reads": reads,
            "device_read_bytes": reads * 16384,
            "device_writes": 0.0,
            "device_written_bytes": 0.0,
        }
        for t in range(121)
        # 1,400 reads a second of 1,600 allowed; 3,000 in the last two seconds.
        for reads in [t / 4 * 1400 + max(0.0, t / 4 - 28) * 1600]
    ]
    lifted = made_window(**device_rates(rows))
    assert lifted["reads_per_s"] < 1600
    assert _of("cap in force", steady=[lifted]) == "invalid"
    kept = made_window(**device_rates(rows[:112]))
    assert _of("cap in force", steady=[kept]) == "ok"


def test_a_device_without_a_limit_of_ours_exceeds_none() -> None:
    host = {**made_conditions()["device"], "name": "host"}
    assert _of("cap in force", device=host, steady=[made_window(reads_per_s=1e6)]) == "ok"


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


def test_a_limit_that_nobody_could_see_is_not_said_to_have_held() -> None:
    window = {k: v for k, v in made_window().items() if k != "most"}
    assert _of("cap in force", steady=[window]) == "warn"
    # What could be seen beside it still counts.
    over = made_window(reads_per_s=1800.0)
    assert _of("cap in force", steady=[window, over]) == "invalid"
