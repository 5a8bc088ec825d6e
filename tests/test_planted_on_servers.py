"""Faults planted beside real servers: each makes its run invalid, or its verdicts withheld.

Each is what its name says, done by the kernel or another process to a server that measures; where
that cannot be had (a hypervisor that takes memory back at will), the note at the test says what
stands for it.
"""

import contextlib
import itertools
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_planted import AT_40_PERCENT

from innolab import studies
from innolab.analysis import controls
from innolab.base.clock import Clock
from innolab.bench import sysbench
from innolab.bench.sysbench import LoadResult, Workload
from innolab.hosts import machine, pagecache
from innolab.hosts.held_memory import Memory
from innolab.measure import measure, prepare
from innolab.measure.session import Session, opened
from innolab.mysql.server import Server
from innolab.record.plan import Silent
from innolab.record.run import Run
from innolab.studies import experiment, judging
from innolab.studies.experiment import Experiment, Trial
from innolab.studies.study import Study

pytestmark = [
    pytest.mark.alone,
    pytest.mark.integration,
    pytest.mark.thorough,
    pytest.mark.skipif(
        os.geteuid() != 0, reason="loop devices, mounts and control groups need root"
    ),
]
_OLD, _TODAY = "mysql-5.6.24", "mysql-9.7"
_WINDOW_S = 4
# Bound by the device, so that processors are free.
_READING = {"server": _TODAY, "load": "read_only", "device": "raid10-8x15k", "pool_ratio": 0.333333}


class _Bench:
    """A session of one study whose trials are run one by one."""

    def __init__(self, session: Session, trials: list[Trial]) -> None:
        self.session, self._trials = session, trials

    def run(self, **levels: Any) -> Run:
        trial = next(t for t in self._trials if levels.items() <= t.factors.items())
        return self.session.run(trial)


@contextlib.contextmanager
def _bench(name: str, report: Path, **parameters: Any) -> Iterator[_Bench]:
    study = studies.find(name)
    with machine.measuring_alone():
        ready = prepare.prepare(Experiment.fresh(study, {"scale": "smoke", **parameters}))
        with opened(ready, report, Silent(), Clock()) as session:
            yield _Bench(session, ready.trials)


@pytest.fixture
def oltp(tmp_path: Path) -> Iterator[_Bench]:
    """Loads on an emulated array, in windows that last long enough to do something in them."""
    with _bench("more-memory", tmp_path, effort="quick", builds=[_OLD, _TODAY]) as bench:
        yield bench


@pytest.fixture
def scan(tmp_path: Path) -> Iterator[_Bench]:
    """Cold scans through the page cache."""
    with _bench("multi-buffer-pool", tmp_path, builds=[_OLD], devices=["host"]) as bench:
        yield bench


def _found(run: Run, check: str) -> str:
    assert run.status == "complete", run.error
    [found] = [one.result for one in run.checks if one.check == check]
    return found


def _during_windows(
    monkeypatch: pytest.MonkeyPatch, does: Callable[[Server, threading.Event], None]
) -> None:
    """Do something to the server in a thread while a window, and no shorter run, is measured."""
    original = sysbench.run

    def run(server: Server, workload: Workload, duration_s: int) -> LoadResult:
        if duration_s < _WINDOW_S:
            return original(server, workload, duration_s)
        ended = threading.Event()
        thread = threading.Thread(target=does, args=(server, ended))
        thread.start()
        try:
            return original(server, workload, duration_s)
        finally:
            ended.set()
            thread.join()

    monkeypatch.setattr(sysbench, "run", run)


def test_another_load_at_forty_percent_of_a_core(oltp: _Bench) -> None:
    burner = subprocess.Popen([sys.executable, "-c", AT_40_PERCENT])
    try:
        run = oltp.run(**_READING)
    finally:
        burner.kill()
        burner.wait()
    assert _found(run, "other load") == "invalid"


def test_a_cap_that_is_lifted_in_mid_window(oltp: _Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = oltp.session.sites.at("raid10-8x15k", 0).disk
    assert disk is not None

    def lift(_server: Server, ended: threading.Event) -> None:
        if not ended.wait(_WINDOW_S / 2):
            disk.set_limits(None)

    assert _found(oltp.run(**_READING), "cap in force") != "invalid"
    _during_windows(monkeypatch, lift)
    assert _found(oltp.run(**_READING), "cap in force") == "invalid"


def test_a_redo_log_on_a_cold_cache(oltp: _Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only servers up to 5.6 read a block of the log before they write it."""

    def evict(server: Server, ended: threading.Event) -> None:
        while not ended.wait(0.1):
            pagecache.evict(server.data.glob("ib_logfile*"))

    levels = {"server": _OLD, "load": "read_write", "device": "raid10-8x15k"}
    assert _found(oltp.run(**levels), "redo log in cache") == "ok"
    _during_windows(monkeypatch, evict)
    assert _found(oltp.run(**levels), "redo log in cache") == "invalid"


def _before_scanning(monkeypatch: pytest.MonkeyPatch, does: Callable[[Server], None]) -> None:
    original = Server.explain

    def explain(server: Server, sql: str) -> dict[str, Any]:
        does(server)
        return original(server, sql)

    monkeypatch.setattr(Server, "explain", explain)


def test_a_cache_that_another_process_warms(scan: _Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(server: Server) -> None:
        for file in pagecache.files_under(server.data):
            with file.open("rb") as opened:
                while opened.read(2**24):
                    pass

    _before_scanning(monkeypatch, read)
    run = scan.run(server=_OLD, pool="2G", instances=1, flush_method="fsync")
    assert _found(run, "bytes really read") == "invalid"


def test_memory_that_is_not_there(scan: _Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """No guest can tell its hypervisor to take memory back: here nothing is held of it."""
    monkeypatch.setattr(Memory, "hold", lambda _memory, _wanted: 0)
    run = scan.run(server=_OLD, pool="2G", instances=1, flush_method="fsync")
    assert _found(run, "memory held") == "invalid"


def test_a_build_that_is_many_times_slower(scan: _Bench) -> None:
    """Valgrind translates a server's every instruction, which is what a debug build costs."""
    valgrind = shutil.which("valgrind") or _installed("valgrind")
    sound = scan.session.builds[_OLD]
    slow = (valgrind, "--tool=memcheck", "--leak-check=no", "--undef-value-errors=no", "-q")
    scan.session.builds[_OLD] = replace(sound, mysqld=(*slow, *sound.mysqld))
    try:
        run = scan.run(server=_OLD, pool="2G", instances=1, flush_method="fsync")
    finally:
        scan.session.builds[_OLD] = sound
    assert _found(run, "rows per second") == "invalid"


def _installed(package: str) -> str:
    subprocess.run(["apt-get", "install", "-y", "-q", package], check=True, capture_output=True)
    return shutil.which(package) or pytest.fail(f"{package} was installed and is not on the path")


@contextlib.contextmanager
def _quota() -> Iterator[Callable[[float], None]]:
    """Give a function that sets how many processors this process and its children may use."""
    group = Path(f"/sys/fs/cgroup/cpu/innolab-test-{os.getpid()}")
    group.mkdir()
    period_us = int((group / "cpu.cfs_period_us").read_text())
    (group / "cgroup.procs").write_text(str(os.getpid()))

    def allow(cpus: float) -> None:
        (group / "cpu.cfs_quota_us").write_text(str(int(cpus * period_us)))

    try:
        yield allow
    finally:
        (group.parent / "cgroup.procs").write_text(str(os.getpid()))
        deadline = time.monotonic() + 10
        while group.exists() and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                group.rmdir()
            time.sleep(0.1)


def test_a_machine_that_drifts_and_an_order_that_never_changes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processors are taken away by 5 % a block, and arms run as they are listed.

    From 70 % of them, which a busy hypervisor always gives: of more nothing would be taken.
    """
    monkeypatch.setattr(experiment, "_orders", lambda arms, *_: itertools.repeat(arms))
    study: Study = studies.find("more-memory")
    blocks, cpus = 6, 0.7 * (os.cpu_count() or 1)
    asked = Experiment.fresh(
        study,
        {"scale": "smoke", "builds": [_OLD], "replicates": blocks,
         "devices": ["raid10-8x15k", "fusionio-320"]}
    )  # fmt: skip
    with machine.measuring_alone(), _quota() as allow:
        ready = prepare.prepare(asked)
        ready.plan.write(folder)
        allow(cpus)

        def slow_down(done: int, _is_whole: bool) -> None:
            allow(cpus * 0.95**done)

        runs = measure.measure(ready, folder, Silent(), Clock(), slow_down)
    failed = " ".join(str(one.says) for one in controls.controls(runs, study.kind.compared).failed)
    assert "the machine drifted: cpus_ops_per_s changed by -" in failed
    assert f"the arms ran in the same order in each of {blocks} blocks" in failed
    judged = [v for v in judging.verdicts(ready, runs) if v.estimate is not None]
    assert judged
    assert {v.verdict for v in judged} <= {"withheld", "inconclusive"}
    assert "withheld" in {v.verdict for v in judged}
