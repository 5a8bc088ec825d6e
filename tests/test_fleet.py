"""Whole blocks go to the hosts of a Dask cluster; what is lost, slow or wrong costs little."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import made_hosts
import pytest
from conftest import BIN, ROOT, Innolab, made_run, plan_of
from distributed import LocalCluster

from innolab import studies
from innolab.analysis import consistency
from innolab.base.clock import Clock
from innolab.base.errors import InnolabError, InputError
from innolab.hosts import machine
from innolab.hosts.network import Network, why_impossible
from innolab.record import arrived, runlog
from innolab.record.plan import Blocks, Plan
from innolab.record.run import Run
from innolab.record.runlog import RunLog
from innolab.record.runs import RunSet
from innolab.run.block import Ability, Task
from innolab.run.fleet import RESOURCE, Fleet, Measure, _require_alike
from innolab.run.measure import measure
from innolab.studies import schedule
from innolab.studies.study import Study, Trial


class Lines:
    """Progress that keeps what it was told."""

    def __init__(self) -> None:
        self.marked: list[str] = []

    def say(self, text: str) -> None:
        pass

    def mark(self, text: str) -> None:
        self.marked.append(text)

    def trials(self, done: int, total: int, left_s: float | None, text: str) -> None:
        pass


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a scheduler with four workers in this process."""
    with LocalCluster(
        n_workers=4,
        threads_per_worker=1,
        processes=False,
        resources={RESOURCE: 1},
        dashboard_address=None,
    ) as made:
        yield made.scheduler_address


@pytest.fixture
def plan(study: Study) -> Plan:
    """A plan of three to twelve blocks, four at a time."""
    chosen = plan_of(study, ["x"])
    return replace(chosen, blocks=Blocks(3, 12), wave=4)


def _tasks(study: Study, plan: Plan, blocks: int) -> list[Task]:
    trials = study.planned(plan)
    return [Task(plan, n, frozenset(t.key for t in trials if t.block == n)) for n in range(blocks)]


def _all(address: str, tasks: list[Task], how: Measure, lines: Lines | None = None) -> list[Any]:
    with Fleet(address, lines or Lines(), how) as fleet:
        return list(fleet.blocks(tasks))


def test_every_block_arrives_once_and_each_is_of_one_host(
    study: Study, plan: Plan, cluster: str
) -> None:
    tasks = _tasks(study, plan, 12)
    found = _all(cluster, tasks, made_hosts.quick)
    assert sorted(one.block for one in found) == list(range(12))
    assert len({one.member for one in found}) == 4
    for one in found:
        assert {Run.from_body(body).key for body in one.runs} == tasks[one.block].keys


def test_a_block_that_fails_on_a_host_goes_to_another(
    study: Study, plan: Plan, cluster: str
) -> None:
    lines = Lines()
    found = _all(cluster, _tasks(study, plan, 6), made_hosts.failing_on_the_first, lines)
    assert sorted(one.block for one in found) == list(range(6))
    assert any("could not measure it: The disk is full." in line for line in lines.marked)


def test_a_block_that_fails_everywhere_ends_the_work_and_says_why(
    study: Study, plan: Plan, cluster: str
) -> None:
    lines = Lines()
    with pytest.raises(InnolabError, match="No host can measure block 1; why is said above"):
        _all(cluster, _tasks(study, plan, 1), made_hosts.failing, lines)
    assert len(lines.marked) == 4
    assert all("could not measure it: The disk is full." in line for line in lines.marked)


def test_a_fault_of_the_program_is_no_reason_to_try_other_hosts(
    study: Study, plan: Plan, cluster: str
) -> None:
    with pytest.raises(InnolabError, match="block 1 failed with ZeroDivisionError"):
        _all(cluster, _tasks(study, plan, 1), made_hosts.broken)


@pytest.mark.alone
def test_a_slow_host_does_not_hold_the_rest(study: Study, plan: Plan, cluster: str) -> None:
    began = time.monotonic()
    found = _all(cluster, _tasks(study, plan, 8), made_hosts.slow_on_the_first)
    assert sorted(one.block for one in found) == list(range(8))
    assert time.monotonic() - began < 25


def test_where_no_scheduler_answers_it_says_how_to_start_one() -> None:
    with pytest.raises(InputError, match=r"No Dask scheduler answers at tcp://127\.0\.0\.1:1 "):
        Fleet("tcp://127.0.0.1:1", Lines())


def test_a_cluster_without_hosts_is_refused() -> None:
    with (
        LocalCluster(n_workers=1, processes=False, dashboard_address=None) as made,
        pytest.raises(InputError, match="no worker with the resource 'host'"),
    ):
        Fleet(made.scheduler_address, Lines())


def _ability(of: Plan, **changes: Any) -> Ability:
    known = {"member": "m", "plan": of, "innolab": {"version": "1"}, "mysqld": {"x": "0"}}
    return Ability(**{**known, "clock_s": 1000.0, **changes})


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"innolab": {"version": "2"}}, "differ in innolab: version 1 and version 2"),
        ({"mysqld": {"x": "1"}}, "differ in the servers' digests: x 0 and x 1"),
        ({"clock_s": 1060.0}, "clocks of the hosts at a and b are 60 s apart"),
    ],
)
def test_hosts_that_differ_are_refused(plan: Plan, changed: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        _require_alike(_ability(plan), _ability(plan, **changed), ("a", "b"), took_s=0.1)


def test_hosts_that_can_run_different_things_are_refused(plan: Plan) -> None:
    other = replace(plan, missing_devices={"disk": "no root"})
    with pytest.raises(InputError, match="differ in devices: none and disk no root"):
        _require_alike(_ability(plan), _ability(plan, plan=other), ("a", "b"), took_s=0.1)


def test_arms_stop_between_waves_alone(study: Study, plan: Plan) -> None:
    trials = study.planned(plan)
    due = schedule.due(study, plan, _runs(study, []))
    assert {trial.block for trial in due} == {0, 1, 2}
    ran = [_undecided(study, trial) for trial in trials if trial.block < 3]
    due = schedule.due(study, plan, _runs(study, ran))
    assert {trial.block for trial in due} == set(range(7))
    later = {n: {str(t.factors) for t in due if t.block == n} for n in range(3, 7)}
    assert len({frozenset(arms) for arms in later.values()}) == 1


def _undecided(study: Study, trial: Trial) -> Run:
    """Return a run of times that leap about, by which no claim on them is decided."""
    run = made_run(study, trial)
    for row in run.observations:
        if "seconds" in row:
            row["seconds"] = [0.2, 7.0][(trial.block + trial.position) % 2]
    return run


def _runs(study: Study, runs: list[Run]) -> RunSet:
    return RunSet(runs, {}, study.within)


def test_a_plan_of_one_host_is_written_and_named_as_before(study: Study, tmp_path: Path) -> None:
    alone = plan_of(study, ["x"])
    alone.write(tmp_path)
    assert "wave" not in (tmp_path / "plan.json").read_text()
    assert alone.sha256() != replace(alone, wave=2).sha256()


def _block(study: Study, plan: Plan, block: int = 0) -> list[dict[str, Any]]:
    trials = [trial for trial in study.planned(plan) if trial.block == block]
    return [made_run(study, trial).body() for trial in trials]


def test_a_block_is_put_in_once_however_often_a_crash_interrupts(
    study: Study, plan: Plan, tmp_path: Path
) -> None:
    log = RunLog(tmp_path / runlog.FILE)
    runs = _block(study, plan)
    arrived.set_down(tmp_path, 0, runs, {"series/0000.parquet": b"1"})
    # As if killed after a few of its runs were recorded.
    for body in runs[:3]:
        log.append(Run.from_body(body))
    assert len(arrived.put_in(log)) == len(runs)
    assert [run.body() for run in log.load()[0]] == runs
    assert (tmp_path / "series/0000.parquet").read_bytes() == b"1"
    assert arrived.put_in(log) == []
    assert not (tmp_path / "arrived").exists()


def test_half_of_a_block_is_never_put_in(study: Study, plan: Plan, tmp_path: Path) -> None:
    log = RunLog(tmp_path / runlog.FILE)
    arrived.set_down(tmp_path, 0, _block(study, plan), {})
    whole = tmp_path / "arrived" / "0000"
    whole.rename(whole.with_name("0000.part"))
    assert arrived.put_in(log) == []
    assert not log.path.exists()


def test_a_block_of_two_hosts_is_found(study: Study, plan: Plan) -> None:
    runs = [Run.from_body(body) for body in _block(study, plan)]
    of = [_of(run, "a" if number else "b") for number, run in enumerate(runs)]
    assert consistency.members([_of(run, "a") for run in runs]) == []
    assert consistency.members(of) == ["block 1 is of 2 hosts"]


def _of(run: Run, member: str) -> Run:
    return run.model_copy(update={"conditions": {**run.conditions, "member": member}})


def test_hosts_measure_beside_each_other_and_each_one_after_the_other(
    study: Study, plan: Plan
) -> None:
    one, other = [Run.from_body(body) for body in _block(study, plan)][:2]
    assert consistency.times([(None, [_of(one, "a"), _of(other, "b")])], None) == []
    assert consistency.times([(None, [_of(one, "a"), _of(other, "a")])], None) == [
        f"trial {other.trial} begins before what comes before it has ended"
    ]


@contextmanager
def _processes(workers: int, place: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """Start a scheduler and workers as processes of their own, as a team would."""
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'tests'}:{ROOT}", made_hosts.PLACE: str(place)}
    file = place / "scheduler.json"
    quiet = {"env": env, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    options = ["--scheduler-file", str(file)]
    started = [
        subprocess.Popen(
            [BIN / "dask", "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
             *options], **quiet,
        )
    ]  # fmt: skip
    try:
        for _ in range(workers):
            words = ["worker", *options, "--nthreads", "1", "--no-nanny", "--no-dashboard"]
            resource = ["--resources", f"{RESOURCE}=1", "--local-directory", str(place)]
            started.append(subprocess.Popen([BIN / "dask", *words, *resource], **quiet))
        address = _address(file)
        _until_hosts(address, workers)
        yield address, started
    finally:
        for one in started:
            one.kill()
            one.wait()


def _address(file: Path) -> str:
    _until(file.exists)
    _until(lambda: file.read_text().endswith("}"))
    return str(json.loads(file.read_text())["address"])


def _until_hosts(address: str, number: int) -> None:
    def ready() -> bool:
        try:
            with Fleet(address, Lines()) as fleet:
                return len(fleet.workers()) == number
        except InputError:
            return False

    _until(ready)


def _until(true: Any, limit_s: float = 60) -> None:
    for _ in range(round(limit_s * 10)):
        if true():
            return
        time.sleep(0.1)
    pytest.fail("it did not come about in time")


def test_a_host_that_is_killed_costs_its_block_alone(
    study: Study, plan: Plan, tmp_path: Path
) -> None:
    with (
        _processes(3, tmp_path) as (address, started),
        Fleet(address, Lines(), made_hosts.noted) as fleet,
    ):
        found = fleet.blocks(_tasks(study, plan, 6))
        arrived_first = next(found)
        started[1].send_signal(signal.SIGKILL)
        rest = list(found)
    assert sorted(one.block for one in [arrived_first, *rest]) == list(range(6))
    began = [line.split()[0] for line in (tmp_path / "began").read_text().splitlines()]
    # The killed host had one block, or was between two.
    assert len(began) - 6 in (0, 1)


def test_where_the_scheduler_ends_what_arrived_is_kept_and_the_message_says_so(
    study: Study, plan: Plan, tmp_path: Path
) -> None:
    with (
        _processes(2, tmp_path) as (address, started),
        Fleet(address, Lines(), made_hosts.noted) as fleet,
    ):
        found = fleet.blocks(_tasks(study, plan, 6))
        next(found)
        started[0].send_signal(signal.SIGKILL)
        with pytest.raises(InnolabError, match=r"does not answer any more\. All finished"):
            list(found)


def test_a_coordinator_that_is_killed_resumes_and_measures_no_block_twice(
    study: Study, plan: Plan, tmp_path: Path
) -> None:
    report = tmp_path / "report"
    report.mkdir()
    plan.write(report)
    kills = random.Random(5)
    with _processes(3, tmp_path) as (address, _):
        for _ in range(4):
            words = [sys.executable, "-c", _COORDINATOR, str(report), address]
            env = {**os.environ, "PYTHONPATH": f"{ROOT / 'tests'}:{ROOT}"}
            running = subprocess.Popen(words, env=env, start_new_session=True)
            time.sleep(kills.uniform(2.5, 5))
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
        _coordinate(report, address)
    runs, torn = RunLog(report / runlog.FILE).load()
    assert torn is None
    assert len({run.key for run in runs}) == len(runs)
    due = schedule.due(study, plan, study.read(report))
    assert {run.key for run in runs} == {trial.key for trial in due}
    assert consistency.members(runs) == []
    assert runlog.faults(RunLog(report / runlog.FILE).entries()[0]) == []


_COORDINATOR = """
import sys
from pathlib import Path
from test_fleet import _coordinate
_coordinate(Path(sys.argv[1]), sys.argv[2])
"""


def _coordinate(report: Path, address: str) -> None:
    """Measure what a report lacks, on a fleet of made hosts."""
    study = studies.find(Plan.read(report).study)
    with Fleet(address, Lines(), made_hosts.noted) as fleet:
        measure(study, report, Lines(), Clock(), crew=fleet)


@pytest.mark.alone
@pytest.mark.thorough
@pytest.mark.integration
@pytest.mark.skipif(why_impossible() is not None, reason=f"two hosts in one: {why_impossible()}")
def test_two_hosts_with_real_servers_make_one_report_that_verifies(
    innolab: Innolab, folder: Path
) -> None:
    parameters = ["--scale", "smoke", "-p", "replicates=2", "-p", "builds=mysql-5.6.24"]
    run = ["run", "multi-buffer-pool", *parameters, "-p", "devices=host"]
    env = {"INNOLAB_REPORTS": str(folder / "reports")}
    with Network(["one", "two"]) as network:
        inside = {name: node._namespace.inside for name, node in network.nodes.items()}
        address = f"tcp://{network.nodes['one'].address}:8786"
        started = [_dask(inside["one"], folder / "one", "scheduler", "--no-dashboard")]
        for name in inside:
            words = ["worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard"]
            resource = ["--resources", f"{RESOURCE}=1", "--local-directory", str(folder / name)]
            started.append(_dask(inside[name], folder / name, *words, *resource))
        try:
            done = subprocess.run(
                [*inside["one"], BIN / "innolab", *run, "--scheduler", address],
                env={**os.environ, **env}, cwd=ROOT, capture_output=True, text=True, timeout=600,
            )  # fmt: skip
        finally:
            for one in started:
                one.terminate()
                one.wait()
    assert done.returncode == 0, done.stderr
    report = Path(done.stdout.strip()).parent
    runs = RunLog(report / runlog.FILE).load()[0]
    assert {run.block for run in runs} == {0, 1}
    assert len({run.member for run in runs}) == 2
    assert consistency.members(runs) == []
    verified = innolab("verify", str(report), **env)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    page = (report / "index.html").read_text()
    assert "a host like these" in page
    assert "no host has two valid blocks" in page, "each measured one"


def _dask(inside: list[str], cache: Path, *words: str) -> subprocess.Popen[bytes]:
    """Start a part of a cluster in a network of its own, with a cache of its own."""
    for name in ("builds", "tools", "etc"):
        (cache / name).parent.mkdir(parents=True, exist_ok=True)
        if not (cache / name).is_symlink():
            (cache / name).symlink_to(machine.cache_folder() / name)
    cache.chmod(0o755)
    return subprocess.Popen(
        [*inside, BIN / "dask", *words], env={**os.environ, "INNOLAB_CACHE": str(cache)}
    )
