"""Servers of both eras that follow one another over namespaces: applied, promoted, compared."""

import contextlib
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from innolab.base.errors import InnolabError
from innolab.hosts import machine, network
from innolab.hosts.local import HERE
from innolab.hosts.network import VIRTUAL, Link, Network
from innolab.mysql import builds, replication, server
from innolab.mysql.builds import Build
from innolab.mysql.server import base_settings_file
from innolab.mysql.topology import Shape, Topology, star
from innolab.studies.replication import (
    acknowledged,
    aftermath,
    daemons,
    split_load,
    windows,
    witness,
)
from innolab.studies.replication.daemons import Proxy
from innolab.studies.replication.failover import Failover, MovedBy
from innolab.studies.replication.heartbeat import Heartbeat, prepare
from innolab.studies.replication.split_load import Split
from innolab.studies.replication.witness import Witness

pytestmark = [
    pytest.mark.alone,
    pytest.mark.integration,
    pytest.mark.skipif(
        network.why_impossible() is not None, reason=f"needs more: {network.why_impossible()}"
    ),
]
_SMALL = {
    "innodb_buffer_pool_size": 32 * 2**20,
    "loose_innodb_log_file_size": 2**23,
    "loose_innodb_redo_log_capacity": 2**24,
    "performance_schema": "OFF",
}


@pytest.fixture(scope="module", params=["mysql-5.6.24", "mysql-9.7"])
def build(request: pytest.FixtureRequest) -> Build:
    found = builds.find(machine.cache_folder(), request.param)
    assert isinstance(found, Build), found
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = Path("/var/tmp") / tmp_path_factory.mktemp("replication").name
    folder.mkdir(mode=0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def empty(build: Build, place: Path) -> Path:
    """A data directory without tables of ours."""
    folder = place / build.id
    base = base_settings_file(machine.cache_folder())
    server.initialize(build, folder, base, {"innodb_log_file_size": 2**23}
                      if build.version.startswith("5") else None)  # fmt: skip
    return folder


Raise = Callable[..., contextlib.AbstractContextManager[tuple[Topology, Network]]]


@pytest.fixture
def raising(build: Build, empty: Path, place: Path) -> Raise:
    """Return what raises a topology of some shape."""
    base = base_settings_file(machine.cache_folder())

    @contextlib.contextmanager
    def raised(shape: Shape, **settings: Any) -> Iterator[tuple[Topology, Network]]:
        data = {name: place / f"data-{name}" for name in shape.servers}
        for folder in data.values():
            HERE.remove(folder)
            HERE.must(["cp", "--archive", empty, folder], what="Copying")
        own = {**_SMALL, **settings}
        with (
            Network([*shape.servers, *shape.clients]) as made,
            Topology(build, shape, made.nodes, data, place / "run", base, own) as topology,
        ):
            yield topology, made

    return raised


@pytest.fixture
def topology(raising: Raise) -> Iterator[tuple[Topology, Network]]:
    with raising(Shape(("a", "b", "c"), {"b": "a", "c": "a"})) as made:
        yield made


def _filled(raised: Topology) -> None:
    raised.source.query("CREATE DATABASE shop")
    raised.source.query("CREATE TABLE shop.orders (id INT PRIMARY KEY, what INT)")
    raised.source.query("INSERT INTO shop.orders VALUES (1, 10), (2, 20)")


def test_a_server_writes_its_dirty_pages_when_told_and_keeps_its_setting(
    topology: tuple[Topology, Network],
) -> None:
    raised, _ = topology
    source, limit = raised.source, "SELECT @@GLOBAL.innodb_max_dirty_pages_pct"
    usual = source.query(limit)

    def fill(name: str) -> None:
        source.query(f"CREATE TABLE shop.{name} (id INT AUTO_INCREMENT PRIMARY KEY, c CHAR(250))")
        source.query(f"INSERT INTO shop.{name} (c) VALUES ('x')")
        for _ in range(14):
            source.query(f"INSERT INTO shop.{name} (c) SELECT c FROM shop.{name}")

    source.query("CREATE DATABASE shop")
    fill("one")
    assert windows.dirty_pages(source) > 100
    windows.flush(source, 20)
    assert windows.dirty_pages(source) <= 50
    assert source.query(limit) == usual
    fill("two")
    with pytest.raises(InnolabError, match="did not write its dirty pages within 0 s"):
        windows.flush(source, 0)
    assert source.query(limit) == usual


def test_replicas_apply_what_the_source_writes_and_a_promoted_one_is_followed(
    topology: tuple[Topology, Network],
) -> None:
    raised, made = topology
    _filled(raised)
    assert raised.wait_until_equal(20) == []
    sums = {name: replication.checksums(one) for name, one in raised.servers.items()}
    assert sums["a"] == sums["b"] == sums["c"]
    assert set(sums["a"]) == {"shop.orders"}
    found = replication.status(raised.servers["b"])
    assert found.receives and found.applies and not found.error
    # The source dies; what it had sent is not forgotten.
    raised.source.kill()
    replication.promote(raised.servers["b"], 10)
    raised.source_name = "b"
    replication.follow_instead(raised.servers["c"], made.nodes["b"].address)
    raised.source.query("INSERT INTO shop.orders VALUES (3, 30)")
    assert replication.wait_for(raised.servers["c"], replication.executed(raised.source), 20)
    assert replication.checksums(raised.servers["c"]) == replication.checksums(raised.source)
    with pytest.raises(InnolabError, match="follows no source"):
        replication.status(raised.source)


def test_a_replica_behind_a_cut_link_lacks_what_the_source_acknowledged(
    topology: tuple[Topology, Network],
) -> None:
    raised, made = topology
    _filled(raised)
    assert raised.wait_until_equal(20) == []
    made.cut("b")
    raised.source.query("INSERT INTO shop.orders VALUES (3, 30)")
    assert raised.wait_until_equal(2) == ["b"]
    ids = replication.executed(raised.source)
    has = replication.executed(raised.servers["b"])
    assert replication.missing(raised.source, ids, has)
    assert not replication.missing(raised.source, has, ids), "no errant transaction"
    made.reconnect("b")
    made.shape("b", Link(bits_per_s=10**6))
    assert raised.wait_until_equal(90) == []


def _witness(raised: Topology, made: Network, folder: Path, writers: int) -> tuple[Witness, Path]:
    """Return a witness of the source in another node, and its log."""
    witness.prepare(raised.source)
    log = folder / "witness.log"
    address = made.nodes["a"].address
    return Witness(made.nodes["c"], address, replication.PORT, log, writers), log


def test_a_witness_that_is_killed_loses_no_line_and_knows_what_was_acknowledged(
    topology: tuple[Topology, Network], folder: Path
) -> None:
    raised, made = topology
    client, log = _witness(raised, made, folder, 4)
    with client:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and (not log.exists() or log.stat().st_size < 20_000):
            time.sleep(0.1)
    history = acknowledged.read(log)
    present = witness.present(raised.source)
    found = acknowledged.fate(history, present)
    assert found.acknowledged > 100, log.with_suffix(".said").read_text()
    assert (found.lost, found.failed_present) == ([], [])
    assert present <= {one.id for one in history}, "a row that the log does not know"
    assert sum(one.end == "unknown" for one in history) <= 4, "one attempt a writer is open"


def _wait_for_commits(log: Path, count: int) -> None:
    """Wait until so many commits more are acknowledged."""

    def so_far() -> int:
        return log.read_text().count(" ok") if log.exists() else 0

    wanted, end = so_far() + count, time.monotonic() + 30
    while so_far() < wanted:
        assert time.monotonic() < end, "writers go on once they are not refused any more"
        time.sleep(0.05)


def test_what_a_server_refuses_has_failed_and_what_it_never_answers_is_unknown(
    topology: tuple[Topology, Network], folder: Path
) -> None:
    raised, made = topology
    client, log = _witness(raised, made, folder, 2)
    with client:
        time.sleep(3)
        raised.source.query("SET GLOBAL read_only = ON")
        time.sleep(1)
        raised.source.query("SET GLOBAL read_only = OFF")
        _wait_for_commits(log, 100)  # Or writers that are not connected yet have nothing open.
        made.cut("a")
        time.sleep(4)
        made.reconnect("a")
        time.sleep(2)
    history = acknowledged.read(log)
    present = witness.present(raised.source)
    found = acknowledged.fate(history, present)
    assert {one.end for one in history} == {"ok", "failed", "unknown"}
    unanswered = {
        one.id // 1_000_000: one for one in history if one.ended_s and one.end == "unknown"
    }
    assert set(unanswered) == {1, 2}, "each writer waits for an answer that never comes"
    later = acknowledged.split(history, max(one.ended_s or 0 for one in unanswered.values()))[1]
    assert {one.id // 1_000_000 for one in later if one.end == "ok"} == {1, 2}, "both write again"
    assert (found.lost, found.failed_present) == ([], [])
    assert 3 < found.gap_s < 8, "the link was cut for 4 s"


def test_a_heartbeat_sees_a_replica_that_is_held_up(raising: Raise) -> None:
    with raising(star(1)) as (raised, _):
        prepare(raised.source)
        assert raised.wait_until_equal(20) == []
        replica = raised.servers["replica1"]
        with Heartbeat(raised.source, raised.replicas, 30) as beating:
            time.sleep(2)
            # The lock ends with its connection: what holds it has to stay.
            with replica.connect() as connection, connection.cursor() as cursor:
                cursor.execute("FLUSH TABLES WITH READ LOCK")
                time.sleep(2)
            time.sleep(1)
        lags = [beat.lag_s for beat in beating.beats("replica1")]
        assert sorted(lags)[len(lags) // 4] < 0.3, "it follows at once"
        assert 1.5 < max(lags) < 4, "it was held up for 2 s"
        assert beating.catch_up_s["replica1"] < 5


@pytest.mark.parametrize("moved_by", get_args(MovedBy))
def test_the_address_moves_with_the_source_and_clients_go_on(
    raising: Raise, build: Build, folder: Path, moved_by: MovedBy
) -> None:
    with raising(star(2, ["clients"])) as (raised, made):
        log = folder / "witness.log"
        if moved_by == "mha" and not replication.knows_old_words(build):
            # What keeps its arms from this build is what it really says.
            with pytest.raises(InnolabError, match=r"manager did not start.* SLAVE"):
                Failover(raised, folder, moved_by).__enter__()
            return
        witness.prepare(raised.source)
        with Failover(raised, folder, moved_by) as guarded:
            assert raised.wait_until_equal(20) == []
            with Witness(made.nodes["clients"], VIRTUAL, replication.PORT, log, 4):
                _wait_for_commits(log, 50)
                old = raised.source
                old.kill()
                new = guarded.move(reaches_old=True)
                assert new in raised.replicas and guarded.holders() == [new]
                _wait_for_commits(log, 50)
            old.start()
            left = guarded.left(new)
            assert (left.first, left.last, left.holders) == (new, new, [new])
            source = raised.servers[new]
            found = acknowledged.fate(acknowledged.read(log), witness.present(source))
            assert found.acknowledged > 50, log.with_suffix(".said").read_text()
            assert 0.2 < found.gap_s < 15
            [other] = [one for name, one in raised.replicas.items() if name != new]
            ids = replication.executed(source)
            for one in (old, other):
                # What one of them alone has is lost, and keeps it from following.
                has_more = replication.missing(source, replication.executed(one), ids)
                assert aftermath.rejoined(source, one) == (not has_more)


def test_a_manager_leaves_the_address_where_it_reaches_nobody(
    raising: Raise, build: Build, folder: Path
) -> None:
    if not replication.knows_old_words(build):
        assert build.id == "mysql-9.7"
        return
    with raising(star(2, ["clients"])) as (raised, made):
        _filled(raised)
        assert raised.wait_until_equal(20) == []
        with Failover(raised, folder, "mha") as guarded:
            made.cut("source")
            new = guarded.move(reaches_old=False)
            assert sorted(guarded.holders()) == sorted(["source", new])
            assert sorted(guarded.writable()) == sorted(["source", new])
            assert guarded.left(new).last == new
            [other] = [one for name, one in raised.replicas.items() if name != new]
            raised.servers[new].query("INSERT INTO shop.orders VALUES (3, 30)")
            ids = replication.executed(raised.servers[new])
            assert replication.wait_for(other, ids, 20), "MHA has let it follow the new source"


def test_a_proxy_spreads_reads_over_replicas_and_sends_writes_to_the_source(
    raising: Raise, folder: Path
) -> None:
    with raising(star(2, ["clients"]), binlog_format="ROW") as (raised, made):
        raised.source.query("CREATE DATABASE innolab")
        raised.source.query("CREATE TABLE innolab.sbtest1 (id INT PRIMARY KEY, k INT, c INT)")
        rows = ", ".join(f"({number}, 0, 0)" for number in range(1, 101))
        raised.source.query(f"INSERT INTO innolab.sbtest1 VALUES {rows}")
        for server in raised.servers.values():
            replication.admit(server, split_load.USER, "SELECT, UPDATE")
        assert raised.wait_until_equal(20) == []
        clients, at = made.nodes["clients"], {n: made.nodes[n].address for n in raised.servers}
        before = {name: one.status() for name, one in raised.servers.items()}
        with Proxy(clients, {"source": at.pop("source")}, at, replication.PORT,
                   folder / "haproxy") as proxy:  # fmt: skip
            with pytest.raises(OSError, match="refused"):
                socket.create_connection((daemons.LOOPBACK, daemons.READS), timeout=1)
            done = split_load.run_through(proxy, raised.source, 2, Split(100, 8, 0.25, 1), 3)
            carried = proxy.carried()
        assert clients.run(["ss", "-Hltn"]).stdout == "", "nothing listens any more"
        after = {name: one.status() for name, one in raised.servers.items()}

    def asked(name: str, what: str) -> int:
        return int(after[name][what]) - int(before[name][what])

    writes, reads = done.result.writes, done.result.transactions - done.result.writes
    assert writes > 50 and reads > 150
    assert asked("source", "Com_update") == writes
    # Of each connection one asks a server for its name, and ours ask for their counters.
    assert asked("source", "Com_select") < 100
    for name in ("replica1", "replica2"):
        assert asked(name, "Com_select") > reads / 5
        assert carried["reads"][name].connections >= 3, "of eight, with the fewest first"
        assert carried["reads"][name].received_bytes > carried["reads"][name].sent_bytes / 10
    assert carried["writes"]["source"].connections >= 8
    assert set(carried["reads"]) == {"replica1", "replica2"}


def test_semi_synchronous_commits_wait_for_a_replica_and_fall_back(
    raising: Raise, build: Build
) -> None:
    if not replication.has_semi_sync(build):
        assert build.id == "mysql-5.6.24", "its package has no plugins"
        return
    settings = replication.semi_sync(on=True, timeout_ms=1000)
    with raising(star(1), **settings) as (raised, made):
        raised.source.query("CREATE DATABASE shop")
        raised.source.query("CREATE TABLE shop.orders (id INT PRIMARY KEY)")
        assert raised.wait_until_equal(20) == []
        assert replication.semi_sync_clients(raised.source) == 1
        assert _committing_s(raised, 1) < 0.5
        made.cut("replica1")
        assert 0.9 < _committing_s(raised, 2) < 5, "it waits for its time"
        assert _committing_s(raised, 3) < 0.5, "then it waits no longer"
        assert replication.semi_sync_clients(raised.source) == 0


def _committing_s(raised: Topology, row: int) -> float:
    began = time.monotonic()
    raised.source.query(f"INSERT INTO shop.orders VALUES ({row})")
    return time.monotonic() - began


def test_a_filter_leaves_out_the_other_databases(raising: Raise) -> None:
    shape = Shape(
        ("top", "web"), {"web": "top"}, writable=("web",),
        own={"web": {"replicate_do_db": "common"}},
    )  # fmt: skip
    with raising(shape) as (raised, _):
        for name in ("common", "shop"):
            raised.source.query(f"CREATE DATABASE {name}")
        to = raised.source.connect(database="common")
        with to as connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
            cursor.execute("INSERT INTO t VALUES (1)")
        assert raised.wait_until_equal(20) == []
        assert list(replication.checksums(raised.servers["web"])) == ["common.t"]
        raised.servers["web"].query("INSERT INTO common.t VALUES (2)")
