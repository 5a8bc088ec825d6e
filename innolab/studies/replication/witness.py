"""A witness of commits: writes rows through one address and notes how each attempt ended.

A separate program, which runs on another node than the servers and outlives them. Every attempt
has its own id and two lines: one before it is sent, one when its end is known. A line is in the
kernel's hands before the next step, so `kill -9` of the witness loses none.
`innolab.studies.replication.acknowledged` reads them.

    python -m innolab.studies.replication.witness ADDRESS PORT USER TABLE LOG WRITERS
"""

import contextlib
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from innolab.base import children
from innolab.base.waiting import await_that
from innolab.hosts.base import Host
from innolab.hosts.daemon import Daemon
from innolab.mysql.server import Server
from innolab.studies.replication import acknowledged
from innolab.studies.replication.acknowledged import BEGIN, STRIDE, Attempt, Event

# How many connections the study's clients write with.
WRITERS = 8
# Of a server that answers nothing any more.
_TIMEOUT_S = 2
# Before an address that nobody answers is tried again.
_PAUSE_S = 0.05
# Until the first commits, if all servers are sound.
_BEGUN_WITHIN_S = 20.0
_USER, _SCHEMA = "witness", "innolab_seen"
_TABLE = f"{_SCHEMA}.commits"
# Refused before anything was done: read_only, shutting down, no such table yet, deadlock.
_REFUSED = {1290, 1836, 1053, 1146, 1205, 1213}


def prepare(source: Server) -> None:
    """Make the table, and the account that writes to it."""
    source.query(f"CREATE DATABASE {_SCHEMA}")
    source.query(f"CREATE TABLE {_TABLE} (id BIGINT PRIMARY KEY)")
    # Reaches nobody: servers listen inside the namespaces of one topology alone.
    source.query(f"CREATE USER '{_USER}'@'%'")
    source.query(f"GRANT INSERT ON {_SCHEMA}.* TO '{_USER}'@'%'")


def widen(server: Server) -> None:
    """Give the table one more column, on this server alone."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION sql_log_bin = 0")
        cursor.execute(f"ALTER TABLE {_TABLE} ADD COLUMN note VARCHAR(20)")


class Witness:
    """A witness on a node, which writes between entering and leaving; it ends with innolab too.

    Parameters
    ----------
    address, port : of the server that it writes to
    log : its lines; what is wrong with itself is in a file next to it
    writers : how many connections write at a time

    Attributes
    ----------
    rated : of the last `rate`: from when on, for how long, and how many commits it counted
    """

    def __init__(self, node: Host, address: str, port: int, log: Path, writers: int) -> None:
        self._node, self._log, self._writers = node, log, writers
        self.rated: dict[str, float] = {}
        self._arguments = [address, str(port), _USER, _TABLE, str(log), str(writers)]
        self._errors = log.with_suffix(".said")

    def __enter__(self) -> "Witness":
        words = children.python("innolab.studies.replication.witness", *self._arguments)
        self._daemon = Daemon("The witness of commits", self._node, words, self._errors)
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        status = self._daemon.poll()
        self._daemon.kill()
        if status is not None and error is None:
            raise self._daemon.failure(f"ended ({status}), so that its log is not whole")

    def history(self) -> list[Attempt]:
        """Return all attempts so far."""
        return acknowledged.read(self._log) if self._log.exists() else []

    def rate(self, seconds: float) -> float:
        """Return the commits a second that writers get now, once all can write.

        Raises
        ------
        InnolabError
            If they cannot.
        """
        await_that(
            lambda: len({one.id // STRIDE for one in self._acknowledged()}) == self._writers,
            _BEGUN_WITHIN_S,
            "Not every client could write",
        )
        began = time.monotonic()
        time.sleep(seconds)
        # By their own times: reading a long log takes a while, in which more come.
        ended = (one.ended_s for one in self._acknowledged() if one.ended_s is not None)
        commits = sum(began <= end < began + seconds for end in ended)
        self.rated = {"from_s": began, "seconds": seconds, "commits": commits}
        return commits / seconds

    def _acknowledged(self) -> list[Attempt]:
        return [one for one in self.history() if one.end == "ok"]


def present(server: Server) -> set[int]:
    """Return the ids of the rows that a server has."""
    return {row[0] for row in server.query(f"SELECT id FROM {_TABLE}")}


class _Writer(threading.Thread):
    """Writes one row after the other on its own connection, which it makes again if lost."""

    def __init__(self, address: str, port: int, user: str, table: str, log: int, place: int):
        super().__init__(daemon=True)
        self._to = {"host": address, "port": port, "user": user}
        self._table, self._log, self._next = table, log, place * STRIDE

    def run(self) -> None:
        """Write until the process ends."""
        from mysql.connector import Error

        while True:
            try:
                self._write_until_one_fails()
            except Error:
                time.sleep(_PAUSE_S)

    def _write_until_one_fails(self) -> None:
        with contextlib.closing(self._connected()) as connection:
            # One for all rows: making a cursor pings the server, a way there and back for each.
            cursor = connection.cursor()
            while self._wrote(cursor):
                pass

    def _connected(self) -> Any:
        import mysql.connector

        return mysql.connector.connect(
            **self._to, password="", use_pure=True, ssl_disabled=True, autocommit=True,
            charset="utf8mb4", collation="utf8mb4_general_ci",
            connection_timeout=_TIMEOUT_S, read_timeout=_TIMEOUT_S, write_timeout=_TIMEOUT_S,
        )  # fmt: skip

    def _wrote(self, cursor: Any) -> bool:
        """Write one row, note its end, and return whether it was acknowledged."""
        from mysql.connector import Error

        self._next += 1
        self._note(BEGIN)
        try:
            cursor.execute(f"INSERT INTO {self._table} (id) VALUES ({self._next})")
        except Error as error:
            self._note("failed" if error.errno in _REFUSED else "unknown")
            return False
        self._note("ok")
        return True

    def _note(self, event: Event) -> None:
        # One call, so lines of several writers never mix.
        os.write(self._log, f"{time.monotonic():.6f} {self._next} {event}\n".encode())


def _end_all(died: threading.ExceptHookArgs) -> None:
    sys.excepthook(died.exc_type, died.exc_value or died.exc_type(), died.exc_traceback)
    os._exit(1)


def main(address: str, port: str, user: str, table: str, log: str, writers: str) -> None:
    """Write until killed.

    A writer that dies of a mistake of ours ends all: those left would look like a slower server.
    """
    threading.excepthook = _end_all
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    threads = [
        _Writer(address, int(port), user, table, file, place)
        for place in range(1, int(writers) + 1)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
