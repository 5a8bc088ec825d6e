"""How a pool is set back by whoever is left, and what counts as a stall: on servers made by hand.

The same on real servers: test_size.py.
"""

import contextlib
import itertools
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mysql.connector import Error
from mysql.connector.errors import ReadTimeoutError

from innolab.base.errors import InnolabError
from innolab.sizing import ladder, resizing, watchdog
from innolab.sizing.server_status import _COUNTERS, Visit
from innolab.sizing.target import Target, is_answer

MIB = 2**20
NOW, OTHER = 512 * MIB, 640 * MIB
COMPLETED = "Completed resizing buffer pool at 260101 12:00:00."
FAILED = "Resizing buffer pool failed, finished resizing at 260101 12:00:00."
MANY = Error("Too many connections", errno=1040)
LOST = Error("Lost connection to MySQL server during query", errno=2013)
SILENT = ReadTimeoutError(errno=3024)


class _Clock:
    """A time in which one waits for nothing."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    made = _Clock()
    for module in ("resizing", "server_status", "ladder"):
        monkeypatch.setattr(f"innolab.sizing.{module}.time", made)
    return made


class _Server:
    """A server that is reached by connections, or whose errors are raised in turn.

    It counts what it is asked, as Questions does; `others_per_s` come from others.
    """

    def __init__(self, clock: _Clock, size: int = OTHER, says: str = COMPLETED) -> None:
        self.clock, self.size, self.says = clock, size, says
        self.began_s = clock.now_s
        self.asked: list[str] = []
        self.errors: list[Exception] = []
        self.opened = self.shut = 0
        self.others_per_s = self.takes_s = 0.0
        self.reads: Callable[[float], float] = lambda passed_s: 500 * passed_s

    def connection(self) -> "_Connection":
        self.opened += 1
        return _Connection(self)

    def answer(self, sql: str) -> list[tuple[Any, ...]]:
        self.asked.append(sql)
        self.clock.sleep(self.takes_s)
        if self.errors:
            raise self.errors.pop(0)
        if sql.startswith("SET GLOBAL"):
            self.size = int(sql.rpartition("=")[2])
        if "resize_status" in sql:
            return [("Innodb_buffer_pool_resize_status", self.says)]
        if sql.startswith("SHOW GLOBAL STATUS"):
            return self._counters()
        return [(self.size,)] if "pool_size" in sql else [(1,)]

    def _counters(self) -> list[tuple[str, str]]:
        passed_s = self.clock.now_s - self.began_s
        counters = {
            **dict.fromkeys(_COUNTERS, 0.0),
            "Questions": self.others_per_s * passed_s + len(self.asked),
            "Innodb_pages_read": self.reads(passed_s),
            "Innodb_buffer_pool_pages_free": 0.0,
            "Innodb_buffer_pool_pages_total": 1000.0,
        }
        return [(name, str(value)) for name, value in counters.items()]


class _Connection:
    """A connection to a made server."""

    def __init__(self, server: _Server) -> None:
        self.server = server
        self.with_rows = True
        self._found: list[tuple[Any, ...]] = []

    def cursor(self) -> "_Connection":
        return self

    def __enter__(self) -> "_Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        pass

    def execute(self, sql: str) -> None:
        self._found = self.server.answer(sql)

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._found

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self._found)

    def shutdown(self) -> None:
        self.server.shut += 1


class _To(Target):
    """Where a made server is; `refuses` is asked first, and may raise."""

    def __init__(self, server: _Server, refuses: Callable[[], None] = lambda: None) -> None:
        super().__init__(socket="/nowhere")
        object.__setattr__(self, "server", server)
        object.__setattr__(self, "refuses", refuses)

    def connect_raw(self) -> Any:
        self.refuses()  # type: ignore[attr-defined]
        return self.server.connection()  # type: ignore[attr-defined]


def _until(clock: _Clock, seconds: float, error: Error, takes_s: float = 0.0) -> Callable[[], None]:
    end_s = clock.now_s + seconds

    def refuse() -> None:
        clock.sleep(takes_s)
        if clock.now_s < end_s:
            raise error

    return refuse


@pytest.mark.parametrize(("error", "takes_s"), [(MANY, 0.0), (LOST, 10.0), (SILENT, 30.0)])
def test_setting_back_waits_for_a_server_in_distress(
    clock: _Clock, error: Error, takes_s: float
) -> None:
    """One that has no connection left, or does not answer, has the changed pool still."""
    server = _Server(clock)
    assert resizing.set_back(_To(server, _until(clock, 600, error, takes_s)), NOW)
    assert server.size == NOW


def test_setting_back_ends_where_nobody_listens(clock: _Clock, folder: Path) -> None:
    """With the connector's own errors, of no socket and of one that nobody has open."""
    server = _Server(clock)
    closed = folder / "closed.sock"
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(closed))
    for place in (folder / "none.sock", closed):
        began_s = clock.now_s
        assert not resizing.set_back(Target(str(place), user="nobody"), NOW)
        assert clock.now_s - began_s < 30
    assert not server.asked


def test_setting_back_takes_the_connection_that_there_is(clock: _Clock) -> None:
    """A server that lets nobody in may still hear who is in already."""
    server = _Server(clock)
    shut_out = _To(server, _until(clock, 1e6, MANY))
    assert resizing.set_back(shut_out, NOW, server.connection())
    assert (server.size, server.opened, server.shut) == (NOW, 1, 1)


@pytest.mark.parametrize(
    ("error", "opened"),
    [(Error("Another resize is under way", errno=1231), 1), (LOST, 2), (SILENT, 2)],
)
def test_a_connection_is_left_where_it_may_be_broken(
    clock: _Clock, error: Error, opened: int
) -> None:
    """After a silence the answer to the last question could be taken for one to the next."""
    server = _Server(clock)
    server.errors = [error]
    assert resizing.set_back(_To(server), NOW)
    assert (server.opened, server.shut) == (opened, opened)
    assert is_answer(error) == (opened == 1)


def test_setting_back_waits_for_a_resize_to_end(clock: _Clock) -> None:
    """For minutes, in which the process beside us is to hear that we live."""
    server = _Server(clock, NOW, "Withdrawing blocks to be shrunken.")
    heard = [clock.now_s]
    assert not resizing.set_back(_To(server), NOW, before_each=lambda: heard.append(clock.now_s))
    assert max(after - before for before, after in itertools.pairwise(heard)) < 10
    assert heard[-1] - heard[0] > 800
    server.says = FAILED
    assert resizing.set_back(_To(server), NOW)
    assert not [one for one in server.asked if one.startswith("SET")]


@pytest.mark.parametrize(
    ("said", "has_ended", "has_failed"),
    [
        ("", True, False),
        (COMPLETED, True, False),
        (FAILED, True, True),
        ("Size did not change: old size = new size = 1", True, False),
        ("Withdrawing blocks to be shrunken.", False, False),
    ],
)
def test_the_words_for_a_resize(said: str, has_ended: bool, has_failed: bool) -> None:
    assert (resizing.has_ended(said), resizing.has_failed(said)) == (has_ended, has_failed)


def _visit(server: _Server) -> Visit:
    made = Visit(_To(server))
    made.connection = server.connection()
    return made


def test_waiting_ends_with_the_words_of_the_server_or_at_its_limit(clock: _Clock) -> None:
    server = _Server(clock)
    assert resizing.wait(_visit(server), 5, lambda: pytest.fail("it had ended")) == COMPLETED
    server.says = "Withdrawing blocks to be shrunken."
    heeded: list[float] = []
    assert resizing.wait(_visit(server), 5, lambda: heeded.append(clock.now_s)) is None
    assert heeded[-1] - heeded[0] == pytest.approx(5, abs=0.5)
    assert len(heeded) < 30


def test_our_own_questions_are_not_counted(clock: _Clock) -> None:
    server = _Server(clock)
    server.others_per_s = 7.0
    visit = _visit(server)
    first = visit.sample()
    for _ in range(50):
        visit.rows("SELECT 1")
    clock.sleep(10)
    last = visit.sample()
    assert last["Questions"] - first["Questions"] == pytest.approx(70)


def _stall(server: _Server, per_s: float, *, is_guarded: bool = True) -> Any:
    return ladder._Stall(_visit(server), per_s, lambda: is_guarded)


def _looks(clock: _Clock, stall: Any, seconds: float) -> None:
    for _ in range(round(seconds * 4)):
        stall.look()
        clock.sleep(0.25)


def test_few_statements_are_a_stall(clock: _Clock) -> None:
    """Though we ask as many as others did."""
    server = _Server(clock)
    server.others_per_s = 8.0
    stall = _stall(server, 8.0)
    _looks(clock, stall, 20)
    server.began_s, server.others_per_s = clock.now_s - 320, 0.5
    with pytest.raises(ladder.StallError, match="statements a second instead of 8"):
        _looks(clock, stall, 10)


def test_a_second_without_statements_is_no_stall_where_they_are_seldom(clock: _Clock) -> None:
    server = _Server(clock)
    stall = _stall(server, 2.0)
    for second in range(40):
        server.asked += ["by others"] * (8 if second % 4 == 3 else 0)
        _looks(clock, stall, 1.0)
    with pytest.raises(ladder.StallError):
        _looks(clock, stall, 40)


def test_slow_answers_and_a_missing_guard_end_a_ladder(clock: _Clock) -> None:
    server = _Server(clock)
    server.others_per_s = 100.0
    with pytest.raises(ladder.StallError, match="had ended"):
        _stall(server, 100.0, is_guarded=False).look()
    stall = _stall(server, 100.0)
    stall.look()
    # Between two samples a ladder asks for sums over all tables, which is no stall.
    clock.sleep(30)
    stall.look()
    server.takes_s = 0.7
    with pytest.raises(ladder.StallError, match=r"waited 1\.4 s"):
        stall.look()


def test_a_rung_settles_once_reads_a_statement_are_level(clock: _Clock) -> None:
    server = _Server(clock)
    server.others_per_s = 100.0
    began_s = clock.now_s
    assert ladder._settle(_visit(server), 5, lambda _: None)
    assert clock.now_s - began_s < 6
    server.began_s = clock.now_s
    server.reads = lambda passed_s: 1e9 - 1e8 / (1 + passed_s)
    assert not ladder._settle(_visit(server), 5, lambda _: None)


def test_a_resize_that_failed_is_said_in_the_words_of_the_server(clock: _Clock) -> None:
    server = _Server(clock, NOW, FAILED)
    server.others_per_s = 100.0
    visit = _visit(server)
    rung = ladder._rung(visit, OTHER, -1, 5.0, ladder._Stall(visit, 100.0, lambda: True))
    assert rung.stretch is None
    assert FAILED.rstrip(".") in rung.says


def test_memory_is_asked_for_again_before_a_step(
    clock: _Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ladder.observe, "memory_bytes", lambda _: {"available": 1, "total": 100})
    server = _Server(clock, NOW)
    rung = ladder._rung(_visit(server), OTHER, MIB, 5.0, _stall(server, 100.0))
    assert "does not fit this host" in rung.says
    assert not server.asked


def test_sizes_after_a_stall_are_said_not_to_be_tried(
    clock: _Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = {"available": 4000 * MIB, "total": 8000 * MIB}
    monkeypatch.setattr(ladder.observe, "memory_bytes", lambda _: memory)
    monkeypatch.setattr(resizing, "guarded", lambda *_: contextlib.nullcontext(lambda: True))
    visit = _visit(_Server(clock, NOW, FAILED))
    stalled, untried = ladder.climb(visit, NOW, [OTHER, 2 * OTHER], 5.0, 100.0, lambda _: None)
    assert stalled.says
    assert untried == ladder.Rung(2 * OTHER, None)
    # A server that hangs would else keep the pool changed for as long as it does.
    assert visit.connection.read_timeout == 10


# What stands in for the guard: it says that it is ready, then ends as wanted.
_READY = "#!/bin/sh\nread asked\necho ready\n"


@pytest.fixture
def stood_in(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Callable[[str, bool], Target]:
    """Replace the guard by a script, and what sets the pool back by an answer."""

    def replace(script: str, is_back: bool) -> Target:
        path = folder / "guard.sh"
        path.write_text(_READY + script)
        path.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(path))
        monkeypatch.setattr(resizing, "standby", lambda _: None)
        monkeypatch.setattr(resizing, "set_back", lambda *_: is_back)
        return Target(socket="/nowhere")

    return replace


_LISTENS = "while read word; do case $word in done) exit 0;; failed) exit {};; esac; done\n"


@pytest.mark.parametrize(
    ("is_back", "status", "said"),
    [(True, 1, "of the block"), (False, 0, "of the block"), (False, 1, "could not be set back")],
)
def test_a_pool_that_is_not_back_is_said_whatever_else_happened(
    stood_in: Callable[[str, bool], Target], is_back: bool, status: int, said: str
) -> None:
    target = stood_in(_LISTENS.format(status), is_back)
    with pytest.raises(InnolabError, match=said), resizing.guarded(target, NOW) as is_guarded:
        assert is_guarded()
        raise InnolabError("of the block")


def test_a_guard_that_was_killed_loses_no_results(
    stood_in: Callable[[str, bool], Target],
) -> None:
    target = stood_in("exit 3\n", True)
    with resizing.guarded(target, NOW) as is_guarded:
        for _ in range(100):
            if not is_guarded():
                break
            signal.sigtimedwait([], 0.05)
        assert not is_guarded()


def test_a_signal_does_not_end_setting_back(
    stood_in: Callable[[str, bool], Target], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = stood_in(_LISTENS.format(1), True)
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    heard: list[int] = []

    def hear(number: int, _: object) -> None:
        heard.append(number)

    def interrupted(*_: object) -> bool:
        for number in numbers:
            os.kill(os.getpid(), number)
        return True

    monkeypatch.setattr(resizing, "set_back", interrupted)
    before = [signal.signal(number, hear) for number in numbers]
    try:
        with resizing.guarded(target, NOW):
            pass
        assert not heard
        assert [signal.getsignal(number) for number in numbers] == [hear] * 3
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


@pytest.mark.parametrize(
    ("written", "is_open", "word"),
    [
        (b"alive\nalive\ndone\n", True, "done"),
        (b"alive\nfailed\n", True, "failed"),
        (b"alive\n", False, ""),
        (b"alive\n", True, None),
    ],
)
def test_a_guard_hears_what_became_of_the_other(
    written: bytes, is_open: bool, word: str | None
) -> None:
    """Silence of one that lives, stopped by Ctrl+Z or hanging, is heard too."""
    reads, writes = os.pipe()
    os.write(writes, written)
    if not is_open:
        os.close(writes)
    assert watchdog.last_word(reads, 0.2) == word
    os.close(reads)
    if is_open:
        os.close(writes)


def test_a_guard_that_is_asked_nothing_ends_in_silence() -> None:
    """The other died before it asked; and a module in the folder of the caller is not ours."""
    words = [sys.executable, "-P", "-m", "innolab.sizing.watchdog"]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
