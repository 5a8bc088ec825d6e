"""Whole blocks go to the hosts of a Dask cluster; what is lost, slow or wrong costs little."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import command
import made_hosts
import pytest
from conftest import BIN, ROOT, Innolab, made_run, plan_of
from distributed import LocalCluster, Status

from innolab import __version__
from innolab.base.clock import Clock
from innolab.base.errors import InnolabError, InputError
from innolab.base.provenance import own_facts
from innolab.fleet import admission, fleet
from innolab.fleet.admission import RESOURCE, Can, _require_alike, _require_alone, _require_clock
from innolab.fleet.fleet import Fleet, Measure
from innolab.hosts import machine
from innolab.hosts.network import Network, why_impossible
from innolab.measure import arrived_blocks, block, session
from innolab.measure.block import Ability, Measured, Task, differing, measure_block
from innolab.measure.measure import measure
from innolab.record import runlog
from innolab.record.plan import Blocks, Plan
from innolab.record.run import Run
from innolab.record.runlog import RunLog
from innolab.record.runs import RunSet
from innolab.report.host_agreement import agreement
from innolab.studies import judging, schedule
from innolab.studies.experiment import Experiment, Trial
from innolab.studies.study import Study
from innolab.verify import times_and_hosts


class Lines:
    """Progress that keeps what it was told."""

    def __init__(self) -> None:
        self.marked: list[str] = []
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def mark(self, text: str) -> None:
        self.marked.append(text)

    def trials(self, done: int, total: int, left_s: float | None, text: str) -> None:
        pass


@contextmanager
def _hosts(number: int) -> Iterator[LocalCluster]:
    """Start a cluster of workers in this process, which others may join."""
    with LocalCluster(
        n_workers=number,
        threads_per_worker=1,
        processes=False,
        resources={RESOURCE: 1},
        dashboard_address=None,
    ) as made:
        yield made


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a scheduler with four workers in this process."""
    with _hosts(4) as made:
        yield made.scheduler_address


@pytest.fixture
def plan(study: Study) -> Plan:
    """A plan of three to twelve blocks, four at a time."""
    chosen = plan_of(study, ["x"])
    return replace(chosen, blocks=Blocks(3, 12), wave=4)


def _tasks(study: Study, plan: Plan, blocks: int) -> list[Task]:
    trials = Experiment.from_plan(plan, study).trials
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
    says = r"No host can measure block 1; the last one says: The disk is full\. All finished"
    with pytest.raises(InnolabError, match=says):
        _all(cluster, _tasks(study, plan, 1), made_hosts.failing, lines)
    assert len(lines.marked) == 4
    assert all("could not measure it: The disk is full." in line for line in lines.marked)


def test_a_fault_of_the_program_is_no_reason_to_try_other_hosts(
    study: Study, plan: Plan, cluster: str
) -> None:
    with pytest.raises(
        InnolabError,
        match=r"block 1 failed with ZeroDivisionError: .+ \(made_hosts\.py, line \d+\)",
    ):
        _all(cluster, _tasks(study, plan, 1), made_hosts.broken)


def test_a_host_whose_disk_fails_is_one_that_cannot_measure(
    study: Study, plan: Plan, cluster: str
) -> None:
    lines = Lines()
    found = _all(cluster, _tasks(study, plan, 6), made_hosts.without_room_on_the_first, lines)
    assert sorted(one.block for one in found) == list(range(6))
    assert any("could not measure it: [Errno 28] No space" in line for line in lines.marked)


def test_a_copy_with_failed_runs_does_not_displace_one_that_is_still_measured(
    study: Study, plan: Plan, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "_LOOK_S", 0.2)
    found = _all(cluster, _tasks(study, plan, 4), made_hosts.partly_where_late)
    assert sorted(one.block for one in found) == list(range(4))
    assert made_hosts.PARTLY, "no other host was given the slow one's block"
    assert [one.failed for one in found] == [0] * 4


@pytest.fixture
def hanging() -> Iterator[list[str]]:
    """The workers that hang until the test ends."""
    made_hosts.LET_GO.clear()
    made_hosts.HANGING.clear()
    yield made_hosts.HANGING
    made_hosts.LET_GO.set()


def test_a_block_goes_to_a_third_host_where_two_hang_with_it(
    study: Study, plan: Plan, hanging: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "_LOOK_S", 0.2)
    how = partial(made_hosts.hanging_with_the_first, 2)
    with _hosts(3) as made:
        found = _all(made.scheduler_address, _tasks(study, plan, 4), how)
        made_hosts.LET_GO.set()
    assert sorted(one.block for one in found) == list(range(4))
    assert len(hanging) == 2
    assert next(one.member for one in found if one.block == 0) not in hanging


def test_a_host_that_hangs_while_it_ends_is_lost(
    study: Study, plan: Plan, hanging: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "_LOOK_S", 0.2)
    # Else the other host might have given the block before anybody looks after this one.
    monkeypatch.setattr(fleet, "_SLOW", float("inf"))
    lines = Lines()
    how = partial(made_hosts.hanging_with_the_first, 1)
    with _hosts(2) as made, Fleet(made.scheduler_address, lines, how) as work:
        blocks = work.blocks(_tasks(study, plan, 2))
        assert next(blocks).block == 1
        (ending,) = (one for one in made.workers.values() if one.address in hanging)
        # It tells the scheduler so, and then nothing more.
        ending.status = Status.closing
        assert next(blocks).block == 0
        made_hosts.LET_GO.set()
        ending.status = Status.running
    assert lines.marked == [f"block 1: {ending.name} was lost"]


def test_a_fault_in_a_copy_that_nobody_waits_for_does_not_end_the_work(
    study: Study, plan: Plan, cluster: str
) -> None:
    found = _all(cluster, _tasks(study, plan, 6), made_hosts.broken_where_late)
    assert sorted(one.block for one in found) == list(range(6))


def test_what_hosts_say_to_others_is_not_heard(study: Study, plan: Plan, cluster: str) -> None:
    lines = Lines()
    found = _all(cluster, _tasks(study, plan, 1), made_hosts.quick_beside_another, lines)
    assert len(found) == 1
    assert any("of block 1" in line for line in lines.said)
    assert not any("999" in line for line in lines.said)


def test_a_fleet_measures_as_many_blocks_at_a_time_as_it_has_hosts(
    study: Study, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Fleet(cluster, Lines(), can=made_hosts.able) as fleet:
        assert fleet.hosts.prepare(Experiment.fresh(study, {})).plan.wave == 4
        monkeypatch.setattr(admission, "_CLOCKS_APART_S", -1.0)
        with pytest.raises(InputError, match=r"clock of the host at .* Nothing was written\."):
            fleet.hosts.prepare(Experiment.fresh(study, {}))


@pytest.mark.alone
def test_a_slow_host_holds_neither_the_rest_nor_the_next_wave(
    study: Study, plan: Plan, cluster: str
) -> None:
    tasks = _tasks(study, plan, 12)
    began = time.monotonic()
    with Fleet(cluster, Lines(), made_hosts.slow_on_the_first) as fleet:
        found = [*fleet.blocks(tasks[:8]), *fleet.blocks(tasks[8:])]
    assert sorted(one.block for one in found) == list(range(12))
    assert time.monotonic() - began < 25


@pytest.mark.parametrize(
    "address",
    ["nope", "", "localhost:8786", "tcp://", "tcp://host", "tcp://host:0", "tcp://host:99999",
     "tcp://:8786", "inproc://x/1/2", "foo://a:1", "tls://127.0.0.1:1", "tcp://a\x1b[2J:1",
     "tcp://a:1\n", "-x", "tcp://a:²"],
)  # fmt: skip
def test_what_is_no_schedulers_address_is_one_sentence(
    address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """At once, though Dask would wait for most of them."""
    monkeypatch.setenv("INNOLAB_REPORTS", str(tmp_path / "reports"))
    done = command.called("run", "multi-buffer-pool", "--scale", "smoke", f"--scheduler={address}")
    assert done.status == 2
    assert "scheduler; write it as tcp://HOST:PORT" in done.err or "takes keys" in done.err
    assert not (tmp_path / "reports").exists()


def test_where_no_scheduler_answers_it_says_how_to_start_one() -> None:
    with pytest.raises(InputError, match=r"No Dask scheduler answers at tcp://127\.0\.0\.1:1 "):
        Fleet("tcp://127.0.0.1:1", Lines())


def test_a_cluster_without_hosts_is_refused() -> None:
    with (
        LocalCluster(n_workers=1, processes=False, dashboard_address=None) as made,
        pytest.raises(InputError, match="no worker with the resource 'host'"),
    ):
        Fleet(made.scheduler_address, Lines())


def test_a_fleet_whose_hosts_left_is_refused(study: Study) -> None:
    with _hosts(1) as made, Fleet(made.scheduler_address, Lines(), can=made_hosts.able) as fleet:
        made.scale(0)
        _until(lambda: not fleet.hosts.workers())
        with pytest.raises(InputError, match="no worker with the resource 'host'"):
            fleet.hosts.prepare(Experiment.fresh(study, {}))


@pytest.mark.parametrize(("can", "hosts"), [(made_hosts.able, 2), (made_hosts.able_if_first, 1)])
def test_a_host_that_joins_late_must_be_like_the_others(study: Study, can: Can, hosts: int) -> None:
    lines = Lines()
    with (
        _hosts(1) as made,
        Fleet(made.scheduler_address, lines, made_hosts.quick, can) as fleet,
    ):
        chosen = fleet.hosts.prepare(Experiment.fresh(study, {}))
        chosen = replace(chosen.plan, blocks=Blocks(3, 12))
        made.scale(2)
        _until(lambda: len(fleet.hosts.workers()) == 2)
        assert len(fleet.hosts.admitted()) == hosts
        found = list(fleet.blocks(_tasks(study, chosen, 6)))
    assert len({one.member for one in found}) == hosts
    assert len(lines.marked) == 2 - hosts
    assert all("is left out: This machine and the host at" in line for line in lines.marked)


def _ability(of: Plan, **changes: Any) -> Ability:
    known = {"member": "m", "plan": of, "innolab": own_facts(), "mysqld": {"x": "0"}}
    return Ability(**{**known, **changes})


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"innolab": {**own_facts(), "version": "2"}}, rf"innolab: version {__version__} and .* 2"),
        ({"mysqld": {"x": "1"}}, "the servers' digests: x 0 and x 1"),
    ],
)
def test_hosts_that_differ_are_told_apart(plan: Plan, changed: dict[str, Any], says: str) -> None:
    assert re.fullmatch(says, differing(_ability(plan), _ability(plan, **changed)) or "")


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"missing_devices": {"disk": "no root"}, "spec_sha256": "1"}, "none and disk no root"),
        ({"unavailable": {"y": "it is gone"}}, "none and y it is gone"),
        ({"lacking": {"x": {"flush": {"4": "no such"}}}}, "none and x {'flush': {'4': 'no such'}}"),
        ({"twins": [{"server": "x"}]}, "[] and [{'server': 'x'}]"),
    ],
)
def test_hosts_that_can_run_different_things_are_refused_by_what_it_is(
    plan: Plan, changed: dict[str, Any], says: str
) -> None:
    first, found = _ability(plan), _ability(plan, plan=replace(plan, **changed))
    name = next(iter(changed))
    assert differing(first, found) == f"their plans' {name}: {says}"
    if name != "missing_devices":
        with pytest.raises(InputError, match="The hosts at a and b differ in their plans' "):
            _require_alike("b", found, ("a", first))


def test_a_host_that_differs_from_this_machine_is_refused(plan: Plan) -> None:
    _require_alike("b", _ability(plan), None)
    with pytest.raises(InputError, match="This machine and the host at b differ in innolab: "):
        _require_alike("b", _ability(plan, innolab={"version": "0"}), None)
    other = replace(plan, spec_sha256="0" * 64)
    with pytest.raises(InputError, match=r"plans' spec_sha256: .* and 0000"):
        _require_alike("b", _ability(plan, plan=other), None)


def test_two_workers_on_one_host_are_refused_by_name(plan: Plan) -> None:
    members = {"a": "m", "b": "n"}
    _require_alone("c", _ability(plan, member="o"), members)
    with pytest.raises(InputError, match="The workers at a and c are one host"):
        _require_alone("c", _ability(plan), members)


@pytest.mark.parametrize(
    ("clock_s", "took_s", "says"),
    [
        (1060.0, 0.1, "may be 60 s from this machine's"),
        (940.0, 0.1, "may be 60 s from this machine's"),
        # It may have been read at once, which is 30 s ago.
        (1000.0, 30.0, "may be 30 s .* answered in 30.0 s"),
    ],
)
def test_a_clock_that_may_be_wrong_is_refused(clock_s: float, took_s: float, says: str) -> None:
    with pytest.raises(InputError, match=says):
        _require_clock("a", clock_s, 1000.0, 1000.0 + took_s)


def test_a_clock_that_is_accepted_lets_a_report_verify() -> None:
    apart_s = admission._CLOCKS_APART_S
    _require_clock("a", 1000.0 + apart_s, 1000.0, 1000.0 + apart_s)
    assert apart_s < times_and_hosts._CLOCKS_APART.total_seconds()


class _Servers:
    """A session without servers: the trials at some places of it fail."""

    lost = False
    failing: range

    def __init__(self, study: Study, *_: object, **__: object) -> None:
        self._study = study
        self._ran = 0

    def run(self, trial: Trial) -> Run:
        failed = self._ran in self.failing
        self._ran += 1
        state = {"status": "failed", "error": "No server starts."} if failed else {}
        return made_run(self._study, trial, **state)

    def __getattr__(self, _: str) -> Any:
        return lambda *_: None


@pytest.mark.alone
def test_a_host_on_which_every_trial_fails_has_not_measured_the_block(
    study: Study, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    (task,) = _tasks(study, plan, 1)
    monkeypatch.setattr(session, "Session", _Servers)
    monkeypatch.setattr(_Servers, "failing", range(3), raising=False)
    found = measure_block(task, lambda _done, _total: None)
    assert (len(found.runs), found.failed) == (len(task.keys), 3)
    monkeypatch.setattr(_Servers, "failing", range(len(task.keys)))
    says = rf"All {len(task.keys)} trials failed; the first says: No server starts\."
    with pytest.raises(InnolabError, match=says):
        measure_block(task, lambda _done, _total: None)


def test_hosts_of_one_machine_id_or_of_none_have_names_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block, "_MACHINE_ID", tmp_path / "absent")
    found = set()
    for name in ("one", "two"):
        monkeypatch.setattr(os, "uname", lambda name=name: SimpleNamespace(nodename=name))
        found.add(block.member())
    assert len(found) == 2


def test_arms_stop_between_waves_alone(study: Study) -> None:
    plan = replace(plan_of(study, ["x", "y"]), blocks=Blocks(3, 12), wave=4)
    assert {
        trial.block for trial in schedule.due(Experiment.from_plan(plan, study), _runs(study, []))
    } == {0, 1, 2}
    whole = _arms_due(study, plan, before=3)
    assert set(whole) == set(range(7))
    assert len({frozenset(whole[n]) for n in range(3, 7)}) == 1
    # Judged block by block, arms would stop here.
    assert _arms_due(study, replace(plan, wave=None), before=4)[4] < whole[4]
    assert _arms_due(study, plan, before=4) == whole
    later = _arms_due(study, plan, before=7)
    assert set(later) == set(range(11))
    assert all(later[n] == later[7] < whole[4] for n in range(7, 11))


def _arms_due(study: Study, plan: Plan, before: int) -> dict[int, set[str]]:
    """Return the arms that are due by block, once those before one are measured."""
    ran = [
        _leaping(study, trial)
        for trial in Experiment.from_plan(plan, study).trials
        if trial.block < before
    ]
    due = schedule.due(Experiment.from_plan(plan, study), _runs(study, ran))
    return {n: {str(t.factors) for t in due if t.block == n} for n in {t.block for t in due}}


def _leaping(study: Study, trial: Trial) -> Run:
    """Return a run of times that leap about: on server x in the first blocks alone."""
    run = made_run(study, trial)
    pace = [0.2, 7.0][(trial.block + trial.position) % 2]
    if trial.factors["server"] == "x":
        pace = [0.5, 1, 2, 1][min(trial.block, 3)] if trial.factors["pool"] == "2G" else 9.0
    for row in run.observations:
        if "seconds" in row:
            row["seconds"] = pace
    return run


def _runs(study: Study, runs: list[Run]) -> RunSet:
    return RunSet(runs, {}, study.kind.within)


def test_a_plan_of_one_host_is_written_and_named_as_before(study: Study, tmp_path: Path) -> None:
    alone = plan_of(study, ["x"])
    alone.write(tmp_path)
    assert "wave" not in (tmp_path / "plan.json").read_text()
    assert alone.sha256() != replace(alone, wave=2).sha256()


def _block(study: Study, plan: Plan, block: int = 0) -> list[dict[str, Any]]:
    trials = [trial for trial in Experiment.from_plan(plan, study).trials if trial.block == block]
    return [made_run(study, trial).body() for trial in trials]


def test_a_block_is_put_in_once_however_often_a_crash_interrupts(
    study: Study, plan: Plan, tmp_path: Path
) -> None:
    log = RunLog(tmp_path / runlog.FILE)
    runs = _block(study, plan)
    arrived_blocks.set_down(tmp_path, 0, runs, {"series/0000.parquet": b"1"})
    # As if killed after a few of its runs were recorded.
    for body in runs[:3]:
        log.append(Run.from_body(body))
    assert len(arrived_blocks.put_in(log)) == len(runs)
    assert [run.body() for run in log.load()[0]] == runs
    assert (tmp_path / "series/0000.parquet").read_bytes() == b"1"
    assert arrived_blocks.put_in(log) == []
    assert not (tmp_path / "arrived").exists()


def test_a_block_that_was_put_in_and_half_removed_is_no_block(
    study: Study, plan: Plan, tmp_path: Path
) -> None:
    arrived_blocks.set_down(tmp_path, 0, _block(study, plan), {"series/0000.parquet": b"1"})
    (tmp_path / "arrived" / "0000" / "runs.json").unlink()
    assert arrived_blocks.put_in(RunLog(tmp_path / runlog.FILE)) == []
    assert not (tmp_path / "arrived").exists()


class _Crew:
    """Hosts that have some blocks, and fail the test where they are asked again."""

    def __init__(self, *blocks: Measured) -> None:
        self._blocks = list(blocks)

    def blocks(self, tasks: Sequence[Task]) -> Iterator[Measured]:
        assert len(tasks) == len(self._blocks)
        while self._blocks:
            yield self._blocks.pop()


def test_what_arrived_before_a_crash_is_recorded_and_not_sealed_beside_the_record(
    study: Study, plan: Plan, tmp_path: Path
) -> None:
    chosen = replace(plan, blocks=Blocks(1, 1), wave=1)
    chosen.write(tmp_path)
    runs = _block(study, chosen)
    for run in runs:
        run["conditions"]["variables"] = None
    measure(
        Experiment.read(tmp_path),
        tmp_path,
        Lines(),
        Clock(),
        crew=_Crew(Measured(0, "m", runs, {})),
    )
    log = tmp_path / runlog.FILE
    whole = log.read_text()
    # As if killed before two runs were recorded, and after all of them were.
    for text in ("".join(whole.splitlines(keepends=True)[:-2]), whole):
        log.write_text(text)
        arrived_blocks.set_down(tmp_path, 0, runs, {})
        clock = Clock()
        measure(Experiment.read(tmp_path), tmp_path, Lines(), clock, crew=_Crew())
        assert log.read_text() == whole
        assert not (tmp_path / "arrived").exists()
        spent_s = sum(sum(run["conditions"]["time_s"].values()) for run in runs)
        assert sum(clock.seconds.values()) == pytest.approx(spent_s)


def test_half_of_a_block_is_never_put_in(study: Study, plan: Plan, tmp_path: Path) -> None:
    log = RunLog(tmp_path / runlog.FILE)
    arrived_blocks.set_down(tmp_path, 0, _block(study, plan), {})
    whole = tmp_path / "arrived" / "0000"
    whole.rename(whole.with_name("0000.part"))
    assert arrived_blocks.put_in(log) == []
    assert not log.path.exists()


def test_a_block_of_two_hosts_is_found(study: Study, plan: Plan) -> None:
    runs = [Run.from_body(body) for body in _block(study, plan)]
    of = [_of(run, "a" if number else "b") for number, run in enumerate(runs)]
    assert times_and_hosts.members([_of(run, "a") for run in runs]) == []
    assert times_and_hosts.members(of) == ["block 1 is of 2 hosts"]


def _of(run: Run, member: str) -> Run:
    return run.model_copy(update={"conditions": {**run.conditions, "member": member}})


def test_hosts_measure_beside_each_other_and_each_one_after_the_other(
    study: Study, plan: Plan
) -> None:
    one, other = [Run.from_body(body) for body in _block(study, plan)][:2]
    assert times_and_hosts.times([(None, [_of(one, "a"), _of(other, "b")])], None) == []
    assert times_and_hosts.times([(None, [_of(one, "a"), _of(other, "a")])], None) == [
        f"trial {other.trial} begins before what comes before it has ended"
    ]


def _at(run: Run, member: str, began: datetime, took_s: float) -> Run:
    times = {"started_at": began, "ended_at": began + timedelta(seconds=took_s)}
    return _of(run, member).model_copy(update={k: v.isoformat() for k, v in times.items()})


def test_a_host_may_join_days_after_a_session_began(study: Study, plan: Plan) -> None:
    run = Run.from_body(_block(study, plan)[0])
    began = datetime(2026, 1, 31, tzinfo=UTC)
    hours = [_at(run, "a", began + timedelta(hours=n), 3590) for n in range(30)]
    late = _at(run, "b", began + timedelta(hours=30), 60)
    assert times_and_hosts.times([(None, [*hours, late])], None) == []
    says = [f"trial {run.trial} begins 1 day, 5:00:15 after what comes before it"]
    assert times_and_hosts.times([(None, [hours[0], late])], None) == says


def test_a_host_may_be_seconds_ahead_of_who_seals(study: Study, plan: Plan) -> None:
    run = Run.from_body(_block(study, plan)[0])
    began = datetime(2026, 1, 31, tzinfo=UTC)
    runs = [_at(run, "a", began, 60)]
    for ahead_s, faults in ((4, 0), (6, 1)):
        sealed = began + timedelta(seconds=60 - ahead_s)
        assert len(times_and_hosts.times([(None, runs)], sealed.isoformat())) == faults
    alone = [_at(run, "", began, 60)]
    sealed = began + timedelta(seconds=59)
    assert len(times_and_hosts.times([(None, alone)], sealed.isoformat())) == 1


@pytest.mark.parametrize("blocks", [1, 2])
def test_why_no_host_has_an_estimate_is_the_reason(study: Study, plan: Plan, blocks: int) -> None:
    trials = [
        trial for trial in Experiment.from_plan(plan, study).trials if trial.block < 2 * blocks
    ]
    of = [_of(made_run(study, t), "a" if t.block < blocks else "b") for t in trials]
    runs = _runs(study, of)
    first, *others = judging.verdicts(Experiment.from_plan(plan, study), runs)
    withheld = first.model_copy(update={"verdict": "withheld", "reason": "The disk changed."})
    verdicts = [withheld, *others]
    rows = agreement(study, runs, verdicts).frame.to_dict("records")
    assert "F3" in {verdict.claim for verdict in verdicts}
    assert "F3" not in {row["claim"] for row in rows}, "a largest value is no estimate"
    says = {row["each host"] for row in rows}
    assert ("no host has two valid blocks" in says) == (blocks == 1)
    assert any(text.startswith("A ") for text in says) == (blocks == 2)
    assert ("withheld: The disk changed." in says) == (blocks == 2)


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
                return len(fleet.hosts.workers()) == number
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


@pytest.mark.alone
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_host_that_is_lost_with_its_block_while_others_are_recorded_costs_it_alone(
    study: Study, plan: Plan, tmp_path: Path, how: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == signal.SIGSTOP:
        monkeypatch.setattr(fleet, "_FETCH_S", 2.0)
    lines = Lines()
    with (
        _processes(3, tmp_path) as (address, _),
        Fleet(address, lines, made_hosts.noted) as hosts,
    ):
        found = hosts.blocks(_tasks(study, plan, 3))
        came = [next(found)]
        _until(lambda: all(copy.future.done() for copy in hosts._working.values()))
        came.append(next(found))
        began = dict(line.split() for line in (tmp_path / "began").read_text().splitlines()[2::-1])
        (left,) = {0, 1, 2} - {one.block for one in came}
        os.kill(int(began[str(left)]), how)
        if how == signal.SIGKILL:
            _until(lambda: len(hosts.hosts.workers()) == 2)
        lost_at = time.monotonic()
        came += found
        assert time.monotonic() - lost_at < 40
    assert sorted(one.block for one in came) == [0, 1, 2]
    assert any(line.startswith(f"block {left + 1}: ") for line in lines.marked)


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
    due = schedule.due(Experiment.from_plan(plan, study), study.read(report))
    assert {run.key for run in runs} == {trial.key for trial in due}
    assert times_and_hosts.members(runs) == []
    assert not (report / "arrived").exists()
    assert runlog.faults(RunLog(report / runlog.FILE).entries()[0]) == []


_COORDINATOR = """
import sys
from pathlib import Path
from test_fleet import _coordinate
_coordinate(Path(sys.argv[1]), sys.argv[2])
"""


def _coordinate(report: Path, address: str) -> None:
    """Measure what a report lacks, on a fleet of made hosts."""
    with Fleet(address, Lines(), made_hosts.noted) as fleet:
        measure(Experiment.read(report), report, Lines(), Clock(), crew=fleet)


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
        inside = {name: node.inside for name, node in network.nodes.items()}
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
    report = Path(done.stdout.splitlines()[-1]).parent
    runs = RunLog(report / runlog.FILE).load()[0]
    assert {run.block for run in runs} == {0, 1}
    assert len({run.member for run in runs}) == 2
    assert times_and_hosts.members(runs) == []
    verified = innolab("verify", str(report), **env)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    page = (report / "index.html").read_text()
    assert "a host like these" in page
    # Whether a run is valid where both share two processors is not this test's: one block each is.
    assert "it takes three hosts with two valid blocks each" in page


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
