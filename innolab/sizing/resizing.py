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
from functools import partial
from typing import Any

from mysql.connector import Error

from innolab.base import children
from innolab.base.errors import InnolabError, InputError
from innolab.base.units import bytes_text
from innolab.sizing.server_status import Visit
from innolab.sizing.target import Target, answering, error_text, is_answer, refusal

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


def ask(visit: Visit, size_bytes: int) -> None:
    """Ask the server for another size; it begins at once and goes on by itself.

    Raises
    ------
    InputError
        If the user may not.
    """
    try:
        with visit.connection.cursor() as cursor:
            cursor.execute(f"SET GLOBAL innodb_buffer_pool_size = {int(size_bytes)}")
    except Error as error:
        reason = refusal(error)
        if isinstance(reason, InputError):
            reason = InputError(
                "This user may not change the size of the pool, which takes SYSTEM_VARIABLES_ADMIN "
                "(up to 5.7: SUPER). Leave --resize out, or name another user."
            )
        elif is_answer(error):
            reason = InnolabError(
                f"The server refused a pool of {bytes_text(size_bytes)}: {error_text(error)}."
            )
        raise reason from None


def wait(visit: Visit, limit_s: float, check: Callable[[], None]) -> str | None:
    """Wait until the server has ended a resize; return its status, None if it goes on.

    A smaller pool has to give up all pages of its last part. Those that are in use are tried again
    after 1 s and then ever longer, up to 10 s, so under load the last of them may take minutes;
    until then the server refuses another size.

    Parameters
    ----------
    check : is called again and again, and may raise
    """
    end = time.monotonic() + limit_s
    while not has_ended(status := _status(visit.rows(_STATUS))):
        if time.monotonic() > end:
            return None
        check()
        time.sleep(_POLL_S)
    return status


def _status(rows: list[tuple[Any, ...]]) -> str:
    return str(rows[0][1]) if rows else ""


def has_ended(status: str) -> bool:
    """Return whether a server with this status of a resize does nothing more."""
    return not status or status.startswith(_ENDED)


def has_failed(status: str) -> bool:
    """Return whether a resize that has ended did not give the size that was asked for.

    >>> has_failed("Resizing buffer pool failed, finished resizing at 260101 12:00:00.")
    True
    """
    return "failed" in status.lower()


def standby(target: Target) -> Any:
    """Return a connection that is there when a pool has to be set back.

    Raises
    ------
    InnolabError
        If the server cannot be reached.
    """
    connection = target.connect()
    with answering(), connection.cursor() as cursor:
        cursor.execute(f"SET SESSION wait_timeout = {_STANDBY_S}")
    return connection


def set_back(
    target: Target, size_bytes: int, connection: Any = None,
    before_each: Callable[[], object] = bool,
) -> bool:  # fmt: skip
    """Make a pool as large as it was, whatever it does now; return whether it is.

    A server that is resizing refuses another size until it has ended, so this tries again, on new
    connections if the old one broke.

    Parameters
    ----------
    connection : the first to try; it is closed at the end
    before_each : is called before each attempt
    """
    began = there = now_s = time.monotonic()
    is_back = False
    while not is_back and now_s < min(began + _BACK_LIMIT_S, there + _GONE_LIMIT_S):
        before_each()
        try:
            connection = connection or target.connect_raw()
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
        now_s = time.monotonic()
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
        status = _status(cursor.fetchall())
        cursor.execute(_SIZE)
        [(now,)] = cursor.fetchall()
        if int(now) != size_bytes:
            cursor.execute(f"SET GLOBAL innodb_buffer_pool_size = {int(size_bytes)}")
            return False
    return has_ended(status)


@contextmanager
def guarded(target: Target, size_bytes: int) -> Iterator[Callable[[], bool]]:
    """Run the block, then set the pool back; a second process does so if this one cannot.

    It starts before anything is changed, in its own session, so that neither a terminal's
    signals nor `kill -9` of this process reach it. It learns of our death by the pipe between us,
    and takes a long silence for one. The block gets a function that gives a sign of life and
    returns whether that process is there.

    Raises
    ------
    InnolabError
        If that process cannot start, or the pool could not be set back: instead of what the
        block raised, which matters less.
    """
    connection = standby(target)
    # Without a buffer, of which a rest would be written to one that was killed, which raises.
    with subprocess.Popen(
        children.python("innolab.sizing.watchdog"), stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, bufsize=0, start_new_session=True,
    ) as watchdog:  # fmt: skip
        assert watchdog.stdin is not None
        assert watchdog.stdout is not None
        pipe = watchdog.stdin.fileno()
        _write_line(pipe, json.dumps({"size_bytes": size_bytes, "target": asdict(target)}))
        if watchdog.stdout.readline().decode().strip() != READY:
            raise InnolabError(
                "The process that would set the pool back could not start, so the pool was not "
                "touched. Leave --resize out."
            )
        is_guarded = partial(_write_line, pipe, ALIVE)
        try:
            yield is_guarded
        finally:
            with _undisturbed():
                is_back = set_back(target, size_bytes, connection, is_guarded)
                _write_line(pipe, DONE if is_back else FAILED)
                # It tries once more, and says by its exit status what came of it.
                is_back = is_back or watchdog.wait() == 0
            if not is_back:
                raise InnolabError(
                    f"The pool could not be set back to {bytes_text(size_bytes)}: the server does "
                    "not answer, or is still resizing. One that is started again has the size of "
                    f"its own configuration; else set innodb_buffer_pool_size={size_bytes} there."
                ) from None


def _write_line(pipe: int, line: str) -> bool:
    """Write a line to the other process, and return whether it is there to read it."""
    with contextlib.suppress(BrokenPipeError):
        os.write(pipe, f"{line}\n".encode())
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
