"""The size of a running server's buffer pool: changed for a while, and always set back.

Seen on MySQL 9.7 under load: from 512 to 256 MiB takes 3 s, in which one second answers a tenth of
the statements; back takes 50 ms, and the load is as fast as before after some 8 s.
"""

import contextlib
import errno
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from mysql.connector import Error

from innolab.base import children
from innolab.base.errors import InnolabError, InputError
from innolab.base.units import bytes_text
from innolab.sizing.server_status import Visit
from innolab.sizing.target import Target, answering, is_answer, refusal, words

# How long to try to set a pool back: a server that stalls, hangs or has no connection left may
# answer again; where nobody listens at its socket there is no pool.
_BACK_LIMIT_S, _GONE_LIMIT_S = 900.0, 15.0
_POLL_S, _POLL_MOST_S = 0.2, 2.0
# A connection that waits to set the pool back is not closed by a server's own wait_timeout.
_STANDBY_S = 7 * 24 * 3600
READY, ALIVE, DONE, FAILED = "ready", "alive", "done", "failed"
_STATUS = "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_resize_status'"
_SIZE = "SELECT @@GLOBAL.innodb_buffer_pool_size"
# Of the words that a server has for a resize those after which it does nothing more.
_ENDED = (
    "Completed", "Size did not change", "Resizing failed", "Failed", "Resizing buffer pool failed",
)  # fmt: skip


def unit_bytes(instances: float, chunk_bytes: float) -> int:
    """Return what a pool's size is a multiple of: InnoDB rounds up to it.

    >>> unit_bytes(2, 1048576)
    2097152
    """
    return int(max(instances, 1) * max(chunk_bytes, 1))


def ask(visit: Visit, size_bytes: int) -> None:
    """Ask the server for another size; it begins at once and goes on by itself.

    Raises
    ------
    InputError
        Where the user may not.
    """
    try:
        with visit.connection.cursor() as cursor:
            cursor.execute(f"SET GLOBAL innodb_buffer_pool_size = {int(size_bytes)}")
    except Error as error:
        found = refusal(error)
        if isinstance(found, InputError):
            raise InputError(
                "This user may not change the size of the pool, which takes SYSTEM_VARIABLES_ADMIN "
                "(up to 5.7: SUPER). Leave --resize out, or name another user."
            ) from None
        if not is_answer(error):
            raise found from None
        raise InnolabError(
            f"The server refused a pool of {bytes_text(size_bytes)}: {words(error)}."
        ) from None


def wait(visit: Visit, limit_s: float, heed: Callable[[], None]) -> str | None:
    """Wait until the server has ended a resize; return its words, None where it goes on.

    A smaller pool has to give up all pages of its last part. Those that are in use are tried again
    after 1 s and then ever longer, up to 10 s, so under load the last of them may take minutes;
    until then the server refuses another size.

    Parameters
    ----------
    heed : is called meanwhile
    """
    began = time.monotonic()
    while not has_ended(said := _said(visit.rows(_STATUS))):
        if time.monotonic() - began > limit_s:
            return None
        heed()
        time.sleep(_POLL_S)
    return said


def _said(rows: list[tuple[Any, ...]]) -> str:
    return str(rows[0][1]) if rows else ""


def has_ended(said: str) -> bool:
    """Return whether a server that says so of a resize does nothing more."""
    return not said or said.startswith(_ENDED)


def has_failed(said: str) -> bool:
    """Return whether a resize that has ended did not give the size that was asked for.

    >>> has_failed("Resizing buffer pool failed, finished resizing at 260101 12:00:00.")
    True
    """
    return "failed" in said.lower()


def standby(target: Target) -> Any:
    """Return a connection that is there when a pool has to be set back.

    Raises
    ------
    InnolabError
        Where the server cannot be reached.
    """
    connection = target.connect()
    with answering(), connection.cursor() as cursor:
        cursor.execute(f"SET SESSION wait_timeout = {_STANDBY_S}")
    return connection


def set_back(
    target: Target, size_bytes: int, connection: Any = None, heed: Callable[[], object] = bool
) -> bool:
    """Make a pool as large as it was, whatever it does now; return whether it is.

    A server that is resizing refuses another size until it has ended, so this tries again, on new
    connections where the old one broke.

    Parameters
    ----------
    connection : the first to try; it is closed at the end
    heed : is called before each attempt
    """
    began = there = time.monotonic()
    is_back = False
    while not is_back and (now_s := time.monotonic()) < began + _BACK_LIMIT_S:
        if now_s > there + _GONE_LIMIT_S:
            break
        heed()
        try:
            connection = connection or target.connect_anew()
            is_back = _is_back(connection, size_bytes)
            there = time.monotonic()
        # Whatever the connector makes of a server in distress, only time may end the attempts.
        except Exception as error:
            if not _is_gone(error):
                there = time.monotonic()
            if connection is not None and not is_answer(error):
                connection.shutdown()
                connection = None
        if not is_back:
            time.sleep(min(_POLL_S + (time.monotonic() - began) / 30, _POLL_MOST_S))
    if connection is not None:
        connection.shutdown()
    return is_back


def _is_gone(error: Exception) -> bool:
    """Return whether nobody listens at a server's socket; one that is only busy still does."""
    cause = error.__cause__
    nobody = (errno.ENOENT, errno.ECONNREFUSED)
    return getattr(error, "errno", None) == 2002 and getattr(cause, "errno", None) in nobody


def _is_back(connection: Any, size_bytes: int) -> bool:
    """Return whether a pool has a size and keeps it; ask for that size where it has another."""
    with connection.cursor() as cursor:
        cursor.execute(_STATUS)
        said = _said(cursor.fetchall())
        cursor.execute(_SIZE)
        [(now,)] = cursor.fetchall()
        if int(now) != size_bytes:
            cursor.execute(f"SET GLOBAL innodb_buffer_pool_size = {int(size_bytes)}")
            return False
    return has_ended(said)


@contextmanager
def guarded(target: Target, size_bytes: int) -> Iterator[Callable[[], bool]]:
    """Run the block, then set the pool back; a process beside us does so where we cannot.

    It starts before anything is changed, in a session of its own, so that neither a terminal's
    signals nor `kill -9` of this process reach it. It learns of our death by the pipe between us,
    and takes a long silence for it. The block gets a function that gives a sign of life and
    returns whether that process is there.

    Raises
    ------
    InnolabError
        Where that process cannot start, or the pool could not be set back: instead of what the
        block raised, which matters less.
    """
    connection = standby(target)
    with _beside(target, size_bytes) as beside:

        def is_guarded() -> bool:
            return _tell(beside, ALIVE)

        try:
            yield is_guarded
        finally:
            with _undisturbed():
                is_back = set_back(target, size_bytes, connection, is_guarded)
                _tell(beside, DONE if is_back else FAILED)
                # It tries once more, and says by its exit status what came of it.
                is_back = is_back or beside.wait() == 0
            if not is_back:
                raise InnolabError(
                    f"The pool could not be set back to {bytes_text(size_bytes)}: the server does "
                    "not answer, or is still resizing. One that is started again has the size of "
                    f"its own configuration; else set innodb_buffer_pool_size={size_bytes} there."
                ) from None


@contextmanager
def _beside(target: Target, size_bytes: int) -> Iterator["subprocess.Popen[bytes]"]:
    """Run the process that sets a pool back while the block runs.

    Without a buffer, of which a rest would be written to one that was killed, which raises.
    """
    with subprocess.Popen(
        children.python("innolab.sizing.watchdog"), stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, bufsize=0, start_new_session=True,
    ) as beside:  # fmt: skip
        assert beside.stdout is not None
        _tell(beside, json.dumps({"size_bytes": size_bytes, "target": asdict(target)}))
        if beside.stdout.readline().decode().strip() != READY:
            raise InnolabError(
                "The process that would set the pool back could not start, so the pool was not "
                "touched. Leave --resize out."
            )
        yield beside


def _tell(beside: "subprocess.Popen[bytes]", line: str) -> bool:
    """Write a line to the process beside us, and return whether it is there to read it."""
    assert beside.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        os.write(beside.stdin.fileno(), f"{line}\n".encode())
        return True
    return False


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Ignore signals that ask to end while the block runs: a second Ctrl+C is as human as one."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)
