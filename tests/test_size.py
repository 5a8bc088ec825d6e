"""`innolab size` on real servers under load: what it says, what it refuses, and what it leaves."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import BIN, Innolab

from innolab.base.errors import InnolabError
from innolab.bench import oltp, sysbench
from innolab.bench.sysbench import Workload
from innolab.hosts import machine
from innolab.hosts.local import HERE
from innolab.mysql import builds, datasets
from innolab.mysql.builds import Build
from innolab.mysql.datasets import Dataset
from innolab.mysql.server import Server, ServerError, base_settings_file
from innolab.sizing.server_status import Visit
from innolab.sizing.target import Target

pytestmark = pytest.mark.integration

ROWS, MIB = 200_000, 2**20
NOW, LARGER, SMALLER = 20 * MIB, 30 * MIB, 15 * MIB
SECONDS = 7
# Transactions a second that leave a server time to give up pages: one that always has a client at
# work tries those in use again and again, for minutes.
EASY = 50


@pytest.fixture(scope="module", params=["mysql-5.6.24", "mysql-9.7"])
def any_build(request: pytest.FixtureRequest) -> Build:
    return _build(request.param)


@pytest.fixture(scope="module")
def today() -> Build:
    return _build("mysql-9.7")


def _build(name: str) -> Build:
    found = builds.find(machine.cache_folder(), name)
    assert isinstance(found, Build), f"make setup could not bring {name}: {found}"
    return found


def _base() -> Path:
    return base_settings_file(machine.cache_folder())


def _dataset(build: Build) -> Dataset:
    cache = machine.cache_folder()
    return datasets.obtain(oltp.dataset(ROWS), build, cache, _base(), lambda _: None)


@contextmanager
def _running(build: Build, folder: Path, pool: int = NOW) -> Iterator[Server]:
    made = _dataset(build)
    clone = datasets.Clone(HERE, made, folder / "data")
    settings = {
        **oltp.settings(0.4, "read_only", ROWS, made.facts),
        "innodb_buffer_pool_size": pool,
        "performance_schema": "ON",
    }
    with Server(build, clone.data, folder / "run", _base(), settings) as server:
        yield server
    clone.remove()


@contextmanager
def _loaded(
    server: Server, seconds: int, threads: int = 8, per_s: int | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Keep clients at work while the block runs, for some seconds at most; yield who does.

    Parameters
    ----------
    per_s : how many transactions of 14 statements they ask for; as many as they can without
    """
    oltp.fill(server, "read_only")
    load = Workload("read_only", ROWS, threads, "zipf", 5)
    words = [
        *HERE.unprivileged(), *sysbench.argv(load, server, f"--time={seconds}", "--events=0",
                                              *([f"--rate={per_s}"] if per_s else []), "run")
    ]  # fmt: skip
    env = {**os.environ, "LC_ALL": "C", "INNOLAB_OLTP": "oltp_read_only"}
    with subprocess.Popen(
        words, env=env, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        time.sleep(4)
        assert process.poll() is None
        try:
            yield process
        finally:
            process.terminate()


def _size(server: Server, *words: str, seconds: int = SECONDS) -> list[str]:
    return ["size", "--socket", str(server.socket), "--user", "root", "--seconds", str(seconds),
            *words]  # fmt: skip


def _pool(server: Server) -> int:
    return int(server.variables()["innodb_buffer_pool_size"])


def _row(body: Any, pool: int) -> Any:
    return next(row for row in body["rows"] if row["pool_bytes"] == pool)


@pytest.mark.alone
def test_one_size_says_what_another_reads(any_build: Build, innolab: Innolab, folder: Path) -> None:
    """And leaves every variable and every counter of writes as it was."""
    with _running(any_build, folder) as server, _loaded(server, 200):
        before, written = server.variables(), _written(server)
        page = folder / "size.html"
        done = innolab(*_size(server, "--at", "30M", "--json", "--html", str(page)))
        assert done.returncode == 0, done.stderr
        assert _unchanging(server.variables()) == _unchanging(before)
        assert _written(server) == written
    body = json.loads(done.stdout)
    assert body["pool_bytes"] == NOW
    assert body["by_promotions"]
    assert _row(body, NOW)["known"] == "measured"
    assert 6 < body["clients"] < 10
    predicted = _row(body, LARGER)
    assert predicted["known"] == "modelled"
    reads, per_s = _measured(any_build, folder, LARGER)
    found = predicted["reads_a_statement"]
    assert found["estimate"] == pytest.approx(reads, rel=0.25)
    assert 0.9 * found["low"] <= reads <= 1.1 * found["high"]
    assert body["statements_per_s"] < predicted["statements_per_s"]["estimate"] < 3 * per_s
    text = page.read_text()
    assert "<svg" in text
    assert "modelled" in text
    assert not re.findall(r"(?:src|href)=\"(?:https?:)?//", text)


def _unchanging(variables: dict[str, str]) -> dict[str, str]:
    volatile = ("timestamp", "gtid_executed", "rand_seed", "pseudo_")
    return {name: value for name, value in variables.items() if not name.startswith(volatile)}


def _written(server: Server) -> dict[str, str]:
    """Return the counters of what clients change: none of them may grow."""
    status = server.status()
    writes = r"Com_(insert|update|delete|replace|create|alter|drop|grant|set_option|flush)\w*"
    kept = {name: value for name, value in status.items() if re.fullmatch(writes, name)}
    # Sessions set their own character set and time zone, which is nobody else's.
    kept.pop("Com_set_option", None)
    return {**kept, "rows": status["Innodb_rows_inserted"], "pages": status["Innodb_pages_created"]}


def _measured(build: Build, folder: Path, pool: int) -> tuple[float, float]:
    """Return reads a statement and statements a second of a server started with a pool."""
    with _running(build, folder, pool) as server, _loaded(server, 200):
        first = server.status()
        began = time.monotonic()
        time.sleep(5)
        last, seconds = server.status(), time.monotonic() - began
    reads, asked = (int(last[n]) - int(first[n]) for n in ("Innodb_pages_read", "Questions"))
    return reads / asked, asked / seconds


# Down, a server may take minutes to give up its last pages, and the rung is left then.
@pytest.mark.parametrize(
    ("size", "pool"),
    [("30M", LARGER), pytest.param("15M", SMALLER, marks=pytest.mark.thorough)],
)
@pytest.mark.alone
def test_a_ladder_measures_and_comes_back(
    today: Build, innolab: Innolab, folder: Path, size: str, pool: int
) -> None:
    with _running(today, folder) as server, _loaded(server, 200, threads=1, per_s=EASY):
        done = innolab(*_size(server, "--resize", size, "--json", seconds=5))
        assert done.returncode == 0, done.stderr
        assert _pool(server) == NOW
    body = json.loads(done.stdout)
    measured = {row["pool_bytes"] for row in body["rows"] if row["known"] == "measured"}
    assert measured == {NOW, pool}, body["not_known"]
    there, now = (_row(body, one)["reads_a_statement"]["estimate"] for one in (pool, NOW))
    assert (there < now) == (pool > NOW)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.alone
def test_the_pool_comes_back_however_innolab_ends(
    today: Build, folder: Path, number: signal.Signals
) -> None:
    with _running(today, folder) as server:
        words = _size(server, "--resize", "30M", seconds=5)
        with (
            _loaded(server, 200, threads=1, per_s=EASY) as load,
            subprocess.Popen(
                [BIN / "innolab", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            ) as process,
        ):
            _wait_until(lambda: _pool(server) == LARGER or process.poll() is not None, 60)
            assert process.poll() is None, process.communicate()
            guard = _guards(process.pid)
            assert len(guard) == 1
            process.send_signal(number)
            # Or the server may take minutes to give up the pages that its clients use.
            load.terminate()
            process.wait(300)
            _wait_until(lambda: _pool(server) == NOW, 300)
            said = process.communicate()[1]
        _wait_until(lambda: "Completed" in server.status()["Innodb_buffer_pool_resize_status"], 300)
        assert _pool(server) == NOW
    if number == signal.SIGKILL:
        assert process.returncode == -9
        assert "innolab has died. The pool is 20 MiB again." in said
    else:
        assert process.returncode == 1
        assert "Interrupted. The pool has the size that it had." in said
        assert "has died" not in said
    assert "Traceback" not in said
    _wait_until(lambda: not Path(f"/proc/{guard[0]}").exists(), 10)


# A short silence is a sign of a stall, wherever it comes; a long one breaks the connection.
@pytest.mark.parametrize(
    ("after_s", "hangs_s", "says"),
    [
        (0, 4, "instead of|questions for counters waited"),
        pytest.param(3, 4, "questions for counters waited", marks=pytest.mark.thorough),
        pytest.param(3, 13, "silent for too long", marks=pytest.mark.thorough),
    ],
)
@pytest.mark.alone
def test_a_server_that_hangs_on_a_ladder_gets_its_pool_back(
    today: Build, folder: Path, after_s: float, hangs_s: float, says: str
) -> None:
    with _running(today, folder) as server, _on_a_rung(server) as process:
        time.sleep(after_s)
        with _hanging(server):
            time.sleep(hangs_s)
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        assert _pool(server) == NOW
    body = json.loads(out)
    [measured] = [row for row in body["rows"] if row["known"] == "measured"]
    assert measured["pool_bytes"] == NOW
    assert any(re.search(says, line) for line in body["not_known"]), body["not_known"]
    assert "Traceback" not in err


@pytest.mark.alone
@pytest.mark.thorough
def test_a_pool_comes_back_where_innolab_was_killed_while_the_server_hung(
    today: Build, folder: Path
) -> None:
    with _running(today, folder) as server, _on_a_rung(server) as process:
        guard = _guards(process.pid)
        with _hanging(server):
            time.sleep(2)
            process.kill()
            time.sleep(20)
        _wait_until(lambda: _pool(server) == NOW, 300)
        assert "innolab has died. The pool is 20 MiB again." in process.communicate()[1]
    _wait_until(lambda: not Path(f"/proc/{guard[0]}").exists(), 10)


@pytest.mark.alone
@pytest.mark.thorough
def test_a_server_that_dies_on_a_ladder_has_no_pool_to_set_back(today: Build, folder: Path) -> None:
    with pytest.raises(ServerError, match="died while"), _running(today, folder) as server:
        with _on_a_rung(server) as process:
            os.kill(server.pid, signal.SIGKILL)
            said = process.communicate(timeout=120)[1]
        assert process.returncode == 1
        assert "could not be set back to 20 MiB" in said
        assert "Traceback" not in said
        server.query("SELECT 1")


@contextmanager
def _on_a_rung(server: Server) -> Iterator["subprocess.Popen[str]"]:
    """Run the block once `innolab size` watches a larger pool, under an easy load."""
    words = _size(server, "--resize", "30M", "--json", seconds=20)
    with (
        _loaded(server, 200, threads=1, per_s=EASY),
        subprocess.Popen(
            [BIN / "innolab", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process,
    ):
        _wait_until(lambda: _pool(server) == LARGER or process.poll() is not None, 60)
        assert process.poll() is None, process.communicate()
        yield process


@contextmanager
def _hanging(server: Server) -> Iterator[None]:
    """Stop a server's process while the block runs: it answers nobody, and is not gone."""
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


def _guards(parent: int) -> list[int]:
    """Return the processes that watch over an innolab; other sessions have their own."""
    words = ["pgrep", "--parent", str(parent), "--full", "innolab.sizing.watchdog"]
    return [int(pid) for pid in subprocess.run(words, stdout=subprocess.PIPE).stdout.split()]


def _wait_until(holds: Any, limit_s: float) -> None:
    for _ in range(round(limit_s * 10)):
        if holds():
            return
        time.sleep(0.1)
    pytest.fail("it did not come to pass")


def test_a_server_that_cannot_resize_says_so(innolab: Innolab, folder: Path) -> None:
    with _running(_build("mysql-5.6.24"), folder) as server:
        done = innolab(*_size(server, "--resize", "30M"))
        assert _pool(server) == NOW
    assert done.returncode == 2
    assert "only from 5.7.5 on can a pool change its size" in done.stderr


def test_what_a_server_does_not_allow_is_one_paragraph(
    today: Build, innolab: Innolab, folder: Path
) -> None:
    with _running(today, folder) as server:
        server.query("CREATE USER 'reader'@'localhost' IDENTIFIED BY 'very-secret'")
        options = folder / "client.cnf"
        options.write_text(f"[client]\nsocket={server.socket}\nuser=reader\npassword=very-secret\n")
        refused = innolab("size", "--defaults-file", str(options), "--seconds", "5")
        options.write_text(f"[client]\nsocket={server.socket}\nuser=reader\npassword=wrong-one\n")
        denied = innolab("size", "--defaults-file", str(options), "--seconds", "5")
        idle = innolab(*_size(server, seconds=5))
        with Visit(Target(str(server.socket), user="root")) as visit:
            visit.answer_within(1)
            with pytest.raises(InnolabError, match="silent for too long"):
                visit.rows("SELECT SLEEP(20)")
        for size, said in (
            ("20M", "is what there is"), ("5M", "at most one step"), ("900G", "does not fit"),
        ):  # fmt: skip
            done = innolab(*_size(server, "--resize", size))
            assert (done.returncode, said in done.stderr) == (2, True), done.stderr
        assert _pool(server) == NOW
        server.query("GRANT PROCESS ON *.* TO 'reader'@'localhost'")
        server.query("GRANT SELECT ON performance_schema.* TO 'reader'@'localhost'")
        options.write_text(f"[client]\nsocket={server.socket}\nuser=reader\npassword=very-secret\n")
        with _loaded(server, 200):
            words = ("size", "--defaults-file", str(options), "--seconds", "5")
            allowed = innolab(*words)
            tried = innolab(*words, "--resize", "30M")
        assert _pool(server) == NOW
    assert (refused.returncode, denied.returncode, idle.returncode) == (2, 2, 2)
    assert "GRANT PROCESS" in refused.stderr
    assert "Access denied" in denied.stderr
    assert "too idle" in idle.stderr
    assert allowed.returncode == 0, allowed.stderr
    assert tried.returncode == 2
    assert "may not change the size" in tried.stderr
    said = "".join(one.stdout + one.stderr for one in (refused, denied, idle, allowed, tried))
    assert "secret" not in said
    assert "wrong-one" not in said
    assert "Traceback" not in said


def test_a_server_that_stops_is_explained(today: Build, folder: Path) -> None:
    with pytest.raises(ServerError, match="died while"), _running(today, folder) as server:
        with subprocess.Popen(
            [BIN / "innolab", *_size(server, seconds=60)], stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stderr is not None
            assert "watching" in process.stderr.readline()
            time.sleep(1)
            os.kill(server.pid, signal.SIGKILL)
            said = process.stderr.read()
        assert process.returncode == 1
        assert "stopped answering" in said
        assert "Traceback" not in said
        server.query("SELECT 1")


_BAD = {
    "no server": ((), "No server was named"),
    "socket": (("--socket", "/no/such.sock"), "There is no /no/such.sock"),
    "no socket": (("--socket", "/etc/hostname"), "could not be reached"),
    "option file": (("--defaults-file", "/no/such.cnf"), "There is no /no/such.cnf"),
    "login path": (("--login-path", "mine"), "--defaults-file"),
    "seconds": (("--seconds", "0"), "it is 5 to 3600"),
    "size": (("--at", "much"), "is no size of a pool"),
    "device": (("--price-device", "tape=3"), "no device with its price"),
    "price": (("--price-memory-gb", "-1"), "no amount of money"),
    "page": (("--html", "/no/such/page.html"), "There is no folder"),
    "page's folder": (("--html", "/tmp"), "/tmp is a folder"),
}


@pytest.mark.parametrize("name", _BAD)
def test_bad_input_is_one_paragraph(innolab: Innolab, name: str) -> None:
    words, said = _BAD[name]
    done = innolab("size", *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not done.stdout
