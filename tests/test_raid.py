"""The formula of arrays, the study's plan, and what is refused before any disk is touched."""

import itertools
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Innolab, made_conditions, made_run, planned

from innolab import studies
from innolab.analysis import checks
from innolab.analysis.claims import Claim
from innolab.analysis.doubts import Sample
from innolab.analysis.evidence import Evidence
from innolab.base.errors import InnolabError, InputError
from innolab.hosts import inventory
from innolab.hosts.ssh import Address, Remote
from innolab.mysql import builds
from innolab.record.runlog import RunLog
from innolab.record.runs import RunSet
from innolab.storage import emulated, model_disk, raid
from innolab.storage.profiles import HOST
from innolab.storage.raid import Array
from innolab.studies.experiment import Experiment
from innolab.studies.raid_comparison import processors
from innolab.studies.raid_comparison.parameters import speedup_of
from innolab.studies.raid_comparison.seconds import unevenness
from innolab.studies.raid_comparison.study import _kept

STUDY = studies.find("raid-comparison")


@pytest.mark.parametrize(
    ("array", "reads", "writes"),
    [
        (Array("single", 1), 200, 200),
        (Array("raid1", 2), 400, 200),
        (Array("raid1", 4), 800, 200),
        (Array("raid1-split", 4), 400, 200),
        (Array("raid5", 4), 800, 200),
        (Array("raid5", 8), 1600, 400),
        (Array("raid10", 4), 800, 400),
        (Array("raid10", 8), 1600, 800),
    ],
)
def test_the_formula_gives_what_each_layout_is_known_for(
    array: Array, reads: int, writes: int
) -> None:
    assert array.iops(200, 1.0) == reads
    assert array.iops(200, 0.0) == writes
    mixed = array.iops(200, 0.7)
    assert writes <= mixed <= reads


def test_a_block_makes_each_array_once_and_blocks_differ_in_order() -> None:
    trials = planned(STUDY, ["a", "b"])
    orders = []
    for _, block in itertools.groupby(trials, key=lambda trial: trial.block):
        of = list(block)
        order = [device for device, _ in itertools.groupby(of, key=lambda t: t.factors["device"])]
        assert len(order) == len(set(order)), "an array is made twice in a block"
        assert len({json.dumps(trial.factors) for trial in of}) == len(of)
        orders.append(order)
    assert len({tuple(order) for order in orders}) > 1, "every block has the same order"


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"arrays": ["raid6-4"]}, "raid6-4"),
        ({"arrays": ["raid1-2", "raid1-2"]}, "each one once"),
        ({"arrays": []}, "arrays"),
        ({"threads": [0]}, "greater than or equal to 1"),
        ({"threads": [10, 10]}, "twice"),
        ({"chunk_kib": 100}, "power of two"),
        ({"disks": 4}, "unknown"),
    ],
)
def test_wrong_parameters_are_named(wrong: dict[str, Any], word: str) -> None:
    with pytest.raises(InputError, match=word):
        STUDY.check(wrong)


def _speeds(claim: Claim, parameters: Any) -> Iterator[float]:
    """Yield how many times faster than real ones the disks of each side of a claim are."""
    arms = STUDY.arms(parameters, "x")
    for side in claim.sides:
        at = {k: v for k, v in side.items() if k not in STUDY.kind.within}
        [arm] = [arm for arm in arms if at.items() <= vars(arm).items()]
        yield 1.0 if "own_speed" in side else speedup_of(parameters, arm)


@pytest.mark.parametrize("scale", ["quick", "paper"])
def test_both_sides_of_a_claim_have_disks_of_one_speed(scale: str) -> None:
    parameters = STUDY.check({"scale": scale})
    of = {one.id: set(_speeds(one, parameters)) for one in STUDY.claims() if one.measure}
    assert all(len(speeds) == 1 for speeds in of.values()), of
    assert of["D3-raid10-raid5-rw"] == of["D2-reads-raid5-t100"] == of["D8"] == {2.0}
    slow = ("D1-raid1-ro", "D4-hot", "D4-write", "D6-rw", "D7-idle-t100")
    assert all(of[claim] == {1.0} for claim in slow)


def test_disks_that_an_inventory_names_are_as_fast_as_they_are() -> None:
    asked = Experiment.fresh(STUDY, {"inventory": "lab"})
    assert {speedup_of(asked.parameters, arm) for arm in asked.arms} == {1.0}
    assert not asked.limits
    assert HOST in asked.devices
    modelled = Experiment.fresh(STUDY, {})
    assert modelled.limits.keys() == set(modelled.parameters.arrays) == set(modelled.devices)
    assert asked.spec_sha256 != modelled.spec_sha256


@pytest.mark.parametrize(
    "changes", [{"speedup": 1.0}, {"chunk_kib": 64}, {"disk": "sata-7k2"}, {"arrays": ["raid5-8"]}]
)
def test_how_arrays_are_modelled_is_part_of_the_digest(changes: dict[str, Any]) -> None:
    one, other = (Experiment.fresh(STUDY, given) for given in ({}, changes))
    assert one.spec_sha256 != other.spec_sha256


def test_a_log_apart_is_on_a_device_of_its_own() -> None:
    known = Experiment.fresh(STUDY, {}).profiles
    assert [name for name, profile in known.items() if profile.has_log] == ["raid1-split-4"]
    assert known["raid1-split-4"].times == known["raid1-2"].times


def _busy(share: float, speedup: float, **within: int) -> bool:
    """Return whether a claim on two arms is doubted, of which one had processors so busy."""
    claim = next(one for one in STUDY.claims() if one.id == "D3-raid10-raid5-rw")
    device = {**made_conditions()["device"], **({"speedup": speedup} if speedup != 1 else {})}
    conditions = {**made_conditions(), "device": device}
    runs = [
        made_run(
            STUDY, trial, conditions=conditions,
            observations=[{"threads": 10, **within, "tps": 9.0, "busy_share": busy}],
        )
        for trial in planned(STUDY, ["x"], replicates=1) if not trial.twin
        for busy in [share if trial.factors["device"] == "raid10-4" else 0.2]
    ]  # fmt: skip
    return processors.busy(Sample(claim, RunSet(runs, {}, STUDY.kind.within))) is not None


def test_arms_on_faster_disks_decide_nothing_where_processors_were_busy() -> None:
    assert _busy(0.8, 2.0)
    assert not _busy(0.6, 2.0)
    assert not _busy(0.8, 1.0)


def test_how_uneven_a_window_was_leaves_out_its_first_second() -> None:
    seconds = [{"tps": rate} for rate in (0.0, 90.0, 100.0, 110.0)]
    assert unevenness(seconds)["unevenness"] == pytest.approx(0.1)
    assert unevenness(seconds[:3]) == {}


def test_what_one_arm_has_besides_is_no_part_of_how_steady_it_stays() -> None:
    rows = [{"threads": 10, "tps": 100.0}, {"threads": 100, "tps": 80.0}]
    slow = {"threads": 10, "own_speed": 1, "tps": 20.0}
    assert _kept([*rows, slow]) == {"kept_ratio": 0.8}


@pytest.mark.integration
@pytest.mark.alone
def test_a_smoke_run_on_modelled_arrays_is_valid_and_verified(
    innolab: Innolab, tmp_path: Path
) -> None:
    if why := emulated.why_impossible() or model_disk.why_impossible():
        pytest.skip(why)
    words = ("--scale", "smoke", "-p", "arrays=raid1-split-4,raid10-4", "-p", "builds=mysql-5.6.24")
    done = innolab("run", "raid-comparison", *words, INNOLAB_REPORTS=str(tmp_path))
    assert done.returncode == 0, done.stderr
    [folder] = (tmp_path / "raid-comparison").iterdir()
    runs, _ = RunLog(folder / "runs.jsonl").load()
    assert [run.error for run in runs if run.status != "complete"] == []
    assert {run.factors["device"] for run in runs} == {"raid1-split-4", "raid10-4"}
    assert all(run.conditions["device"]["speedup"] == 2 for run in runs)
    split = next(run for run in runs if run.factors["device"] == "raid1-split-4")
    assert split.conditions["device"]["emulated_log"]["size_bytes"] > 0
    more = [set(row) & {"flush_neighbors", "own_speed"} for run in runs for row in run.observations]
    assert {"flush_neighbors"} in more
    assert {"own_speed"} in more
    # Other work may load this machine, and a window of two seconds is short.
    invalid = {check.check for run in runs for check in run.checks if check.result == "invalid"}
    assert invalid <= {"other load", "steal", "array as its formula", "overrun"}
    verified = innolab("verify", str(folder), INNOLAB_REPORTS=str(tmp_path))
    assert verified.returncode == 0, verified.stdout
    assert "raid10-4" in (folder / "index.html").read_text()


def _inventory(folder: Path, host: str) -> str:
    path = folder / "hosts.yml"
    path.write_text(
        f"database_hosts:\n  hosts:\n    db1:\n      {host}\nothers:\n  hosts: {{x: }}\n"
    )
    return str(path)


@pytest.mark.parametrize(
    ("host", "words"),
    [("db2", "says nothing of the host 'db2'"), ("x", "not in the group database_hosts")],
)
def test_a_host_that_the_inventory_lacks_is_named(tmp_path: Path, host: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        inventory.find(_inventory(tmp_path, "ansible_port: 22"), host)


def test_an_inventory_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(InputError, match=r"There are: .*example-r900.*lab"):
        inventory.find("nowhere", "db1")


def test_a_key_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = _inventory(tmp_path, "ansible_ssh_private_key_file: /no/key")
    with pytest.raises(InputError, match="no ssh key /no/key"):
        inventory.find(path, "db1")


def test_an_inventory_says_where_a_host_is_and_which_disks_it_may_have(tmp_path: Path) -> None:
    path = _inventory(
        tmp_path,
        "{ansible_host: 127.0.0.2, ansible_port: 2200, ansible_user: me, "
        "ansible_ssh_common_args: \"-F /dev/null -o 'A=b c'\", "
        "storage_disks: [{id: a, serial: s, size_bytes: 5}], storage_disk_iops: 180}",
    )
    found = inventory.find(path, "db1")
    options = ("-F", "/dev/null", "-o", "A=b c")
    assert found.address == Address("db1", "127.0.0.2", 2200, "me", None, options)
    assert found.disks == [{"id": "a", "serial": "s", "size_bytes": 5}]
    assert found.disk_iops == 180


def test_a_host_that_does_not_answer_is_an_error_in_words() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    with pytest.raises(InputError, match=f"port {port}.*cannot be reached.*Nothing was changed"):
        Remote(Address("db1", "127.0.0.1", port, "root", None, ("-F", "/dev/null")))


def test_only_builds_of_the_cache_are_copied_to_a_host() -> None:
    command = ("/c/builds/m/ld.so", "/c/builds/m/mysqld")
    env, share = {"L": "/c/builds/m"}, "/c/builds/m/s"
    ours = builds.Build("m", "9.7", command, env, share, "i", "", "")
    moved = builds.moved(ours, Path("/c"), Path("/var/x"))
    assert moved.mysqld == ("/var/x/builds/m/ld.so", "/var/x/builds/m/mysqld")
    assert (moved.env, moved.share) == ({"L": "/var/x/builds/m"}, "/var/x/builds/m/s")
    with pytest.raises(InputError, match="only the builds of its cache"):
        builds.moved(ours, Path("/other"), Path("/var/x"))


def _device(**changes: Any) -> dict[str, Any]:
    """Return what is recorded of a RAID10 of four disks, with changes to its one array."""
    array = {
        "name": "data", "level": "raid10", "members": list("abcd"), "sync_action": "idle",
        "degraded": 0, **changes,
    }  # fmt: skip
    return {
        "name": "raid10-4",
        "calibration": {"read_per_s": 790.0, "write_per_s": 402.0, "mixed_per_s": 610.0},
        "array": {
            "layout": "raid10",
            "disks": 4,
            "disk_iops": 200,
            "observed": {"arrays": [array], "barriers": {"requested": True, "observed": True}},
        },
    }


def _judged(check: str, device: dict[str, Any]) -> tuple[str, str]:
    return checks.CHECKS[check](Evidence({}, {"device": device}, {}))


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"degraded": 1}, "1 members missing"),
        ({"sync_action": "resync"}, "is resync"),
        ({"level": "raid5"}, "raid5 instead of raid10"),
        ({"members": list("abc")}, "3 members instead of 4"),
    ],
)
def test_an_array_that_is_not_as_asked_supports_no_verdict(
    change: dict[str, Any], word: str
) -> None:
    assert _judged("array as asked", _device())[0] == "ok"
    result, says = _judged("array as asked", _device(**change))
    assert result == "invalid"
    assert word in says


def test_a_disk_without_an_array_is_as_asked() -> None:
    device = _device(level="single", members=["a"], sync_action=None, degraded=None)
    device["array"] |= {"layout": "single", "disks": 1}
    assert _judged("array as asked", device)[0] == "ok"


def test_barriers_that_are_not_as_asked_support_no_verdict() -> None:
    device = _device()
    device["array"]["observed"]["barriers"]["observed"] = False
    assert _judged("array as asked", device)[0] == "invalid"


def test_a_speed_off_the_formula_is_explained() -> None:
    assert _judged("array as its formula", _device())[0] == "ok"
    device = _device()
    device["calibration"]["write_per_s"] = 400 * (1 + raid.TOLERANCE) + 1
    result, says = _judged("array as its formula", device)
    assert (result, "of 400 (write)" in says) == ("warn", True)


def test_a_modelled_array_has_to_be_as_its_model() -> None:
    row = {"load": "write", "judged": True, "found_per_s": 95.0, "modelled_per_s": 100.0}
    device = {"name": "raid5-4", "fidelity": [row, {**row, "speedup": 2.0}]}
    assert _judged("array as asked", device)[0] == "ok"
    assert _judged("array as its formula", device)[0] == "ok"
    device["fidelity"] = [row, {**row, "speedup": 2.0, "found_per_s": 80.0}]
    result, says = _judged("array as its formula", device)
    assert (result, "80 of 100 writes a second at 2 times its speed" in says) == ("invalid", True)


def test_a_host_without_the_lab_says_how_to_raise_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INNOLAB_CACHE", str(tmp_path))
    with pytest.raises(InnolabError, match="make lab"):
        inventory.find("lab", "lab")
