"""Servers of both eras that follow one another over namespaces: applied, promoted, compared."""

import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from innolab.analysis import acknowledged
from innolab.base.errors import InnolabError
from innolab.hosts import machine, network
from innolab.hosts.base import Process
from innolab.hosts.local import HERE
from innolab.hosts.network import Link, Network
from innolab.loads.trial import base_settings_file
from innolab.mysql import builds, replication, server
from innolab.mysql.builds import Build
from innolab.mysql.topology import Topology

pytestmark = [
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


@pytest.fixture
def topology(build: Build, empty: Path, place: Path) -> Iterator[tuple[Topology, Network]]:
    def copied(name: str) -> Path:
        data = place / f"data-{name}"
        HERE.remove(data)
        HERE.must(["cp", "--archive", empty, data], what="Copying")
        return data

    base = base_settings_file(machine.cache_folder())
    with (
        Network(["a", "b", "c"]) as made,
        Topology(build, made.nodes, copied, place / "run", base, _SMALL) as raised,
    ):
        yield raised, made


def _filled(raised: Topology) -> None:
    raised.source.query("CREATE DATABASE shop")
    raised.source.query("CREATE TABLE shop.orders (id INT PRIMARY KEY, what INT)")
    raised.source.query("INSERT INTO shop.orders VALUES (1, 10), (2, 20)")


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
    made.mend("b")
    made.shape("b", Link(bits_per_s=10**6))
    assert raised.wait_until_equal(90) == []


def _witness(raised: Topology, made: Network, folder: Path, writers: int) -> tuple[Process, Path]:
    """Start a witness of the source in another node; return it and its log."""
    raised.source.query("CREATE DATABASE seen")
    raised.source.query("CREATE TABLE seen.commits (id BIGINT PRIMARY KEY)")
    raised.source.query("CREATE USER 'witness'@'%'")
    raised.source.query("GRANT INSERT ON seen.* TO 'witness'@'%'")
    address, log = made.nodes["a"].address, folder / "witness.log"
    words = [sys.executable, "-m", "innolab.loads.witness", address, str(replication.PORT),
             "witness", "seen.commits", log, str(writers)]  # fmt: skip
    return made.nodes["c"].start(words, env={}, log=folder / "said.log"), log


def test_a_witness_that_is_killed_loses_no_line_and_knows_what_was_acknowledged(
    topology: tuple[Topology, Network], folder: Path
) -> None:
    raised, made = topology
    witness, log = _witness(raised, made, folder, 4)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and (not log.exists() or log.stat().st_size < 20_000):
        time.sleep(0.1)
    witness.kill()
    witness.wait()
    history = acknowledged.read(log)
    present = {row[0] for row in raised.source.query("SELECT id FROM seen.commits")}
    found = acknowledged.fate(history, present)
    assert found.acknowledged > 100, (folder / "said.log").read_text()
    assert (found.lost, found.failed_present) == ([], [])
    assert present <= {one.id for one in history}, "a row that the log does not know"
    assert sum(one.end == "unknown" for one in history) <= 4, "one attempt a writer is open"


def test_what_a_server_refuses_has_failed_and_what_it_never_answers_is_unknown(
    topology: tuple[Topology, Network], folder: Path
) -> None:
    raised, made = topology
    witness, log = _witness(raised, made, folder, 2)
    time.sleep(3)
    raised.source.query("SET GLOBAL read_only = ON")
    time.sleep(1)
    raised.source.query("SET GLOBAL read_only = OFF")
    time.sleep(1)
    made.cut("a")
    time.sleep(4)
    made.mend("a")
    time.sleep(2)
    witness.kill()
    witness.wait()
    history = acknowledged.read(log)
    present = {row[0] for row in raised.source.query("SELECT id FROM seen.commits")}
    found = acknowledged.fate(history, present)
    assert {one.end for one in history} == {"ok", "failed", "unknown"}
    assert (found.lost, found.failed_present) == ([], [])
    assert 3 < found.gap_s < 8, "the link was cut for 4 s"
