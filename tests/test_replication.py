"""Servers of both eras that follow one another over namespaces: applied, promoted, compared."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from innolab.base.errors import InnolabError
from innolab.hosts import machine, network
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
    made.shape("b", Link(delay_s=0.01))
    assert raised.wait_until_equal(90) == []
