"""The size of a running server's buffer pool: changed for a while, and always set back.

Seen on MySQL 9.7 under load: from 512 to 256 MiB takes 3 s, in which one second answers a tenth of
the statements; back takes 50 ms, and the load is as fast as before after some 8 s.
"""

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from mysql.connector import Error

from innolab.base.errors import InnolabError, InputError
from innolab.base.units import bytes_text
from innolab.mysql.target import Target, refusal
from innolab.mysql.visit import Visit

# How long to try to set a pool back: where the server refuses as a resize is under way, and where
# it cannot be reached. One that was restarted has the size of its own configuration.
_BACK_LIMIT_S, _GONE_LIMIT_S = 900.0, 15.0
_POLL_S = 0.2
READY, DONE = "ready", "done"
_STATUS = "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_resize_status'"
_SIZE = "SELECT @@GLOBAL.innodb_buffer_pool_size"
# Of the words that a server has for a resize those after which it does nothing more.
_ENDED = ("Completed", "Size did not change", "Resizing failed", "Failed")


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
                "(up to 5.7: SUPER). Leave --resize out, or name another user. Nothing was changed."
            ) from None
        raise InnolabError(
            f"The server refused a pool of {bytes_text(size_bytes)}: {error.msg}."
        ) from None


def wait(visit: Visit, limit_s: float, heed: Callable[[], None]) -> float | None:
    """Return the seconds until the server has ended a resize, None where it has not by the limit.

    A smaller pool has to give up all pages of its last part. Those that are in use are tried again
    after 1 s and then ever longer, up to 10 s, so under load the last of them may take minutes;
    until then the server refuses another size.

    Parameters
    ----------
    heed : is called meanwhile
    """
    began = time.monotonic()
    while not _has_ended(visit.rows(_STATUS)):
        if time.monotonic() - began > limit_s:
            return None
        heed()
        time.sleep(_POLL_S / 4)
    return time.monotonic() - began


def _has_ended(rows: list[tuple[Any, ...]]) -> bool:
    said = str(rows[0][1]) if rows else ""
    return not said or said.startswith(_ENDED)


def set_back(target: Target, size_bytes: int) -> bool:
    """Make a pool as large as it was, whatever it does now; return whether it is.

    A server that is resizing refuses another size until it has ended, so this tries again, on new
    connections where the old one broke.
    """
    began = answered = time.monotonic()
    connection = None
    while (now_s := time.monotonic()) < min(began + _BACK_LIMIT_S, answered + _GONE_LIMIT_S):
        try:
            connection = connection or target.connect_anew()
            is_back = _is_back(connection, size_bytes)
            answered = now_s
            if is_back:
                connection.close()
                return True
        except (Error, OSError, ValueError):
            if connection is not None and connection.is_connected():
                answered = now_s
            else:
                connection = None
        time.sleep(_POLL_S)
    return False


def _is_back(connection: Any, size_bytes: int) -> bool:
    """Return whether a pool has a size and keeps it; ask for that size where it has another."""
    with connection.cursor() as cursor:
        cursor.execute(_STATUS)
        has_ended = _has_ended(cursor.fetchall())
        cursor.execute(_SIZE)
        [(now,)] = cursor.fetchall()
        if int(now) != size_bytes:
            cursor.execute(f"SET GLOBAL innodb_buffer_pool_size = {int(size_bytes)}")
            return False
    return has_ended


@contextmanager
def guarded(target: Target, size_bytes: int) -> Iterator[None]:
    """Run the block, then set the pool back; a process beside us does so where we are killed.

    It starts before anything is changed, in a session of its own, so that neither a terminal's
    signals nor `kill -9` of this process reach it. It learns of our death by the pipe between us.

    Raises
    ------
    InnolabError
        Where that process cannot start, or the pool could not be set back.
    """
    words = [sys.executable, "-m", "innolab.mysql.guard"]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as beside:
        assert beside.stdin is not None
        assert beside.stdout is not None
        beside.stdin.write(json.dumps({"size_bytes": size_bytes, "target": asdict(target)}) + "\n")
        beside.stdin.flush()
        if beside.stdout.readline().strip() != READY:
            raise InnolabError(
                "The process that would set the pool back could not start, so the pool was not "
                "touched. Leave --resize out."
            )
        try:
            yield
        finally:
            is_back = set_back(target, size_bytes)
            # It may have been killed, which changes nothing for us.
            with contextlib.suppress(BrokenPipeError):
                beside.stdin.write((DONE if is_back else "") + "\n")
                beside.stdin.flush()
        if not is_back:
            raise InnolabError(
                f"The pool could not be set back to {bytes_text(size_bytes)}: the server does not "
                "answer, or is still resizing. One that is started again has the size of its own "
                f"configuration; else set innodb_buffer_pool_size={size_bytes} there."
            )
