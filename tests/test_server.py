"""Real servers: start, values, refusal, death, stop. One data directory per build, made here."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from innolab.hosts import machine
from innolab.mysql import builds, server
from innolab.mysql.builds import Build
from innolab.mysql.server import Server, ServerError, base_settings_file

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module", params=["mysql-5.6.24", "mysql-9.7"])
def build(request: pytest.FixtureRequest) -> Build:
    found = builds.find(machine.cache_folder(), request.param)
    assert isinstance(found, Build), f"make setup could not bring {request.param}: {found}"
    return found


@pytest.fixture(scope="module")
def data(build: Build, reports: Path) -> Path:
    place = reports / f"data-{build.id}"
    server.initialize(build, place, _base())
    return place


@pytest.fixture
def running(build: Build, data: Path, folder: Path) -> Iterator[Server]:
    with Server(build, data, folder / "run", _base(), {"max_connections": 123}) as one:
        yield one


def _base() -> Path:
    return base_settings_file(machine.cache_folder())


def test_it_runs_unprivileged_on_a_private_socket(running: Server) -> None:
    assert running.variables()["max_connections"] == "123"
    assert running.variables()["skip_networking"] == "ON"
    assert running.folder.stat().st_mode & 0o777 == 0o700
    assert Path(f"/proc/{running.pid}").stat().st_uid != 0
    listening = subprocess.run(["ss", "-ltnp"], capture_output=True, text=True, check=True)
    assert f"pid={running.pid}," not in listening.stdout
    assert int(running.status()["Innodb_pages_read"]) > 0


def test_it_ends_when_asked(build: Build, data: Path, folder: Path) -> None:
    one = Server(build, data, folder / "run", _base(), {})
    one.start()
    pid = one.pid
    one.stop()
    assert not Path(f"/proc/{pid}").exists()
    assert "Shutdown complete" in one.error_log


def test_an_unknown_setting_stops_the_start_with_the_servers_words(
    build: Build, data: Path, folder: Path
) -> None:
    with pytest.raises(ServerError, match="unknown variable 'no_such_thing=1'"):
        Server(build, data, folder / "run", _base(), {"no_such_thing": 1}).start()


def test_a_setting_that_was_removed_is_named_where_a_directory_is_made(
    build: Build, folder: Path
) -> None:
    """Not what follows from it: that the directory, left half made, is unusable."""
    base = folder / "my.cnf"
    base.write_text(f"!include {_base()}\n[mysqld]\nold_setting=0\nmax_allowed_packet=64M\n")
    base.chmod(0o644)
    with pytest.raises(ServerError, match="old_setting") as caught:
        server.initialize(build, folder / "data", base)
    assert str(base) in str(caught.value)


def test_a_death_in_mid_query_is_explained_as_one(build: Build, data: Path, folder: Path) -> None:
    one = Server(build, data, folder / "run", _base(), {})
    one.start()
    os.kill(one.pid, signal.SIGKILL)
    with pytest.raises(ServerError, match=r"died while it was working \(exit status -9\)"):
        one.query("SELECT 1")
    one.kill()


def test_a_wrong_statement_is_explained_as_one(running: Server) -> None:
    with pytest.raises(ServerError, match="refused a statement"):
        running.query("SELECT nonsense")


def test_the_base_settings_are_in_force(running: Server) -> None:
    asked = {"innodb_old_blocks_time": "1000", "innodb_buffer_pool_load_at_startup": "OFF"}
    in_force = running.variables()
    assert {name: in_force[name] for name in asked} == asked


def test_release_builds_are_not_taken_for_debug_builds(build: Build) -> None:
    assert not builds.is_debug(build)
    assert builds.lacks(build, frozenset({"innodb_buffer_pool_instances"})) == []
    assert builds.lacks(build, frozenset({"no_such_variable"})) == ["no_such_variable"]


def test_it_is_kept_on_one_processor_with_all_its_threads_and_then_on_all(running: Server) -> None:
    every = running.host.processors(running.pid)
    tasks = Path(f"/proc/{running.pid}/task")
    with running.on_one_processor():
        assert running.processor is not None
        kept = {running.host.processors(int(task.name)) for task in tasks.iterdir()}
        assert kept == {running.processor}
    assert running.host.processors(running.pid) == every


def test_a_stopped_one_does_nothing_until_it_goes_on(running: Server) -> None:
    with running.stopped():
        state = Path(f"/proc/{running.pid}/stat").read_text().rpartition(")")[2].split()[0]
        assert state == "T"
    assert running.query("SELECT 1") == [(1,)]
