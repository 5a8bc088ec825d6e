"""The study access-paths: paths that are really taken, files in pieces, where lines cross."""

import math
import os
import signal
import subprocess
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import Innolab, made_conditions, made_run, planned
from test_planted_on_servers import _bench

from innolab import studies
from innolab.analysis.evidence import Evidence
from innolab.record.runlog import RunLog
from innolab.record.runs import RunSet
from innolab.storage.profiles import PAGE_BYTES
from innolab.studies.access_paths import crossover, fragments, table
from innolab.studies.access_paths.crossover import Costs, crossing, pages_missed
from innolab.studies.access_paths.parameters import LAYOUTS, AccessParameters
from innolab.studies.access_paths.study import STUDY

_OLD = "mysql-5.6.24"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="loop devices and mounts need root")


@pytest.mark.parametrize("path", table.PATHS)
def test_a_statement_has_the_condition_that_its_path_needs(path: str) -> None:
    said = table.statement(path, 0.25, 1000)
    assert f"FORCE INDEX ({table.PATHS[path].key})" in said
    assert ("WHERE" in said) == (path not in ("scan", "covering"))
    # All values at most are a condition still: else the server scans.
    assert "4294967296" not in table.statement(path, 1.0, 1000)


@pytest.mark.parametrize(
    ("path", "plan", "is_so"),
    [
        ("near", {"type": "range", "key": "near", "extra": "Using index condition"}, True),
        ("near", {"type": "ALL", "key": None, "extra": "Using where"}, False),
        ("near", {"type": "range", "key": "near", "extra": "Using MRR"}, False),
        ("far, MRR", {"type": "range", "key": "far", "extra": "Using index condition"}, False),
        ("far, MRR", {"type": "range", "key": "far", "extra": "Using MRR"}, True),
        ("far, MRR", {"type": "range", "key": "far", "extra": "Rowid-ordered scan"}, True),
        ("scan", {"type": "index", "key": "near", "extra": "Using index"}, False),
    ],
)  # fmt: skip
def test_another_path_than_the_one_asked_for_is_invalid(
    path: str, plan: dict[str, Any], is_so: bool
) -> None:
    evidence = Evidence([], {"query_plan": {"path": path, **plan}}, {})
    assert (STUDY.kind.checks["query plan"](evidence)[0] == "ok") == is_so


@pytest.mark.parametrize(
    ("layout", "pieces", "is_so"),
    [("as loaded", 2, True), ("as loaded", 900, False),
     ("scattered", 900, True), ("scattered", 4, False)],
)  # fmt: skip
def test_a_file_is_laid_as_its_arm_says(layout: str, pieces: int, is_so: bool) -> None:
    evidence = Evidence([], {"file": {"layout": layout, "extents": pieces}}, {})
    assert (STUDY.kind.checks["file layout"](evidence)[0] == "ok") == is_so


def test_a_scattered_file_has_the_same_bytes_and_time(folder: Path) -> None:
    file = folder / table.FILE
    file.parent.mkdir()
    content = os.urandom(2**20) * 40
    file.write_bytes(content)
    os.utime(file, ns=(1, 2))
    fragments.scatter(file)
    assert file.read_bytes() == content
    assert file.stat().st_mtime_ns == 2
    assert list(file.parent.iterdir()) == [file]
    assert fragments.extents(file) > 300


def test_lines_cross_between_two_shares_or_nowhere() -> None:
    assert crossing([0.01, 0.001], [10.0, 1.0], 5.0) == pytest.approx(0.005)
    assert math.isnan(crossing([0.01, 0.001], [10.0, 1.0], 50.0))
    rows = [
        {"device": "d", "server": "s", "block": block, "path": path, "share": share, "seconds": s}
        for block in (1, 2)
        for path, share, s in (("scan", 1.0, 2.0 * block), ("far", 0.001, 1.0), ("far", 0.01, 10.0))
    ]
    found = crossover.crossings(pd.DataFrame(rows))
    assert list(found.share) == pytest.approx([0.002, 0.004])


def test_lookups_read_each_page_once_until_the_pool_is_full() -> None:
    counts = np.array([100, 5_000, 40_000])
    pages, pool = 10_000, 2_500
    places = np.random.default_rng(1).integers(pages, size=counts[-1])
    held: OrderedDict[int, None] = OrderedDict()
    missed = []
    for place in places:
        missed.append(place not in held)
        held[place] = None
        held.move_to_end(place)
        if len(held) > pool:
            held.popitem(last=False)
    found = pages_missed(counts, pages, pool)
    assert list(found) == pytest.approx(list(np.cumsum(missed)[counts - 1]), rel=0.02)
    assert pages_missed(np.array([1e6]), 100, 150)[0] == pytest.approx(100)


def test_the_model_has_lookups_pay_as_long_as_their_pages_take_less_than_all_in_order() -> None:
    on_a_disk = Costs(600_000, 11_000, 3_000, 1 / 6_000, 1 / 300, 0.0, 0.0)
    # 11,000 pages in order take as long as 550 at random places, which 564 lookups fall on.
    assert on_a_disk.crossing() == pytest.approx(564 / 600_000, rel=0.01)
    assert on_a_disk._replace(lookup_s=1e-3).crossing() < on_a_disk.crossing()
    assert on_a_disk._replace(scan_s=1.0).crossing() > on_a_disk.crossing()
    assert math.isnan(on_a_disk._replace(alone_s=10.0).crossing())


def test_the_model_has_the_device_from_fio_and_the_processor_from_memory() -> None:
    reads = {"15k-timed": (6_000.0, 300.0), "iodrive-80": (40_000.0, 30_000.0)}
    runs = []
    for trial in planned(STUDY, [_OLD], replicates=1):
        device = {"name": trial.factors["device"]}
        if device["name"] in reads:
            device["page_reads"] = dict(zip(("ahead", "alone"), reads[device["name"]], strict=True))
        data = {"rows": 600_000, "data_bytes": 11_000 * PAGE_BYTES, "index_bytes": 1}
        pool = {"innodb_buffer_pool_size": 3_000 * PAGE_BYTES}
        conditions = {"device": device, "dataset": data, "requested": pool}
        runs.append(
            made_run(
                studies.find("access-paths"), trial, conditions={**made_conditions(), **conditions}
            )
        )
    passes = [("scan", "warm", 0.1), ("near", "warm", 0.6), ("near", "cold", 9.0)]
    observed = pd.DataFrame(passes, columns=["path", "cache", "seconds"])
    observed = observed.assign(server=_OLD, pool_ratio=1.5)
    found = crossover.modelled(RunSet(runs, {}, STUDY.kind.within), observed)
    assert {device for device, *_ in found.index} == set(reads), "this host was not asked"
    for device, (ahead, alone) in reads.items():
        costs = Costs(600_000, 11_000, 3_000, 1 / ahead, 1 / alone, 0.1, 1e-6)
        modelled = found.modelled[device, _OLD, "far"]
        assert modelled == pytest.approx(costs.crossing(), rel=0.01)
    unknown = crossover.modelled(RunSet(runs, {}, STUDY.kind.within), observed.iloc[:1])
    assert unknown.empty, "without lookups from memory there is no model"


def test_a_disk_is_asked_for_fewer_lookups_than_flash() -> None:
    parameters = AccessParameters()
    arms = STUDY.arms(parameters, "b")
    most = {
        device: max(arm.share for arm in arms if (arm.device, arm.path) == (device, "far"))
        for device in parameters.devices
    }
    assert most == {"15k-timed": 0.003, "iodrive-80": 0.1, "host": 0.1}
    assert {arm.layout for arm in arms} == set(LAYOUTS)


@pytest.mark.alone
@pytest.mark.integration
def test_its_runs_take_the_paths_and_its_report_verifies(folder: Path, innolab: Innolab) -> None:
    env = {"INNOLAB_REPORTS": str(folder)}
    words = ("--scale", "smoke", "-p", f"builds={_OLD}", "-p", "devices=host")
    done = innolab("run", "access-paths", *words, **env)
    assert done.returncode == 0, done.stderr
    report = Path(done.stdout.splitlines()[-1]).parent
    runs, _ = RunLog(report / "runs.jsonl").load()
    assert [run.error for run in runs if run.error] == []
    by = {(run.factors["path"], run.factors["layout"]): run for run in runs}
    for run in runs:
        [plan] = [check for check in run.checks if check.check == "query plan"]
        assert plan.result == "ok", plan.says
        reads = run.conditions["device"]["page_reads"]
        assert 0 < reads["alone"] < reads["ahead"], "many in flight get more than one alone"
    cold = {
        at: next(row for row in run.observations if row["cache"] == "cold")
        for at, run in by.items()
    }
    # A tenth of the rows at random places reads pages again that a pool of a quarter lost.
    far, scan = cold["far", "as loaded"], cold["scan", "as loaded"]
    assert far["pages_read"] > 2 * scan["pages_read"]
    assert cold["near", "as loaded"]["pages_read"] < 1.2 * scan["pages_read"]
    verified = innolab("verify", str(report), **env)
    assert verified.returncode == 0, verified.stdout


@pytest.fixture
def on_a_disk(tmp_path: Path) -> Iterator[Any]:
    with _bench("access-paths", tmp_path, builds=[_OLD], devices=["15k-timed", "host"]) as bench:
        yield bench


def _programs() -> list[int]:
    """Return the processes that serve disks of this cache's sessions."""
    said = subprocess.run(["pgrep", "-f", "model_disk serve"], capture_output=True, text=True)
    return [int(pid) for pid in said.stdout.split()]


@pytest.mark.alone
@pytest.mark.integration
@needs_root
def test_a_disk_that_ends_in_a_trial_fails_it_and_is_made_anew(
    on_a_disk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = table.choose

    def choose(server: Any, path: str) -> None:
        original(server, path)
        for pid in _programs():
            os.kill(pid, signal.SIGKILL)

    monkeypatch.setattr(table, "choose", choose)
    scan = {"path": "scan", "layout": "as loaded"}
    failed = on_a_disk.run(path="scan", layout="scattered", device="15k-timed")
    assert failed.status == "failed"
    monkeypatch.setattr(table, "choose", original)
    beside = on_a_disk.run(**scan, device="host")
    assert beside.status == "complete", beside.error
    again, scattered = (
        on_a_disk.run(path="scan", layout=layout, device="15k-timed") for layout in LAYOUTS
    )
    for run in (again, scattered):
        assert run.status == "complete", run.error
        assert run.conditions["device"]["fidelity"]
    took = [
        next(row["seconds"] for row in run.observations if row["cache"] == "cold")
        for run in (scattered, again)
    ]
    assert took[0] > 1.2 * took[1], "an arm turns and seeks between pieces"
