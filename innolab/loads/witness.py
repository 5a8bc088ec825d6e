"""A witness of commits: writes rows through one address and notes how each attempt ended.

A program of its own, which runs in a node beside the servers and outlives them. Every attempt has
an id of its own and two lines: one before it is sent, one when its end is known. A line is in the
kernel's hands before the next step, so `kill -9` of the witness loses none.
`innolab.analysis.acknowledged` reads them.

    python -m innolab.loads.witness ADDRESS PORT USER TABLE LOG WRITERS
"""

import os
import sys
import threading
import time
from typing import Literal

from innolab.analysis.acknowledged import BEGIN, End

# Of a server that answers nothing any more.
TIMEOUT_S = 2
# Before an address that nobody answers is tried again.
_PAUSE_S = 0.05
_STRIDE = 1_000_000
# Refused before anything was done: read_only, shutting down, no such table yet, deadlock.
_REFUSED = {1290, 1836, 1053, 1146, 1205, 1213}


class _Writer(threading.Thread):
    """Writes one row after the other on a connection of its own, which it makes again if lost."""

    def __init__(self, address: str, port: int, user: str, table: str, log: int, place: int):
        super().__init__(daemon=True)
        self._to = {"host": address, "port": port, "user": user}
        self._table, self._log, self._next = table, log, place * _STRIDE

    def run(self) -> None:
        while True:
            try:
                self._write_until_lost()
            except OSError:
                time.sleep(_PAUSE_S)

    def _write_until_lost(self) -> None:
        import mysql.connector
        from mysql.connector import Error

        try:
            connection = mysql.connector.connect(
                **self._to, password="", use_pure=True, ssl_disabled=True, autocommit=True,
                charset="utf8mb4", collation="utf8mb4_general_ci",
                connection_timeout=TIMEOUT_S, read_timeout=TIMEOUT_S, write_timeout=TIMEOUT_S,
            )  # fmt: skip
        except Error:
            time.sleep(_PAUSE_S)
            return
        try:
            cursor = connection.cursor()
            while True:
                self._next += 1
                self._note(BEGIN)
                try:
                    cursor.execute(f"INSERT INTO {self._table} (id) VALUES ({self._next})")
                except Error as error:
                    refused = error.errno in _REFUSED
                    self._note("failed" if refused else "unknown")
                    return
                self._note("ok")
        finally:
            connection.close()

    def _note(self, event: End | Literal["begin"]) -> None:
        # One call, so lines of several writers never mix.
        os.write(self._log, f"{time.monotonic():.6f} {self._next} {event}\n".encode())


def main(address: str, port: str, user: str, table: str, log: str, writers: str) -> None:
    """Write until killed."""
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
