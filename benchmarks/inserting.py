"""Rows a second of our insert load, against what sysbench can do at most and a loop in Python.

All on S1's plain table, which memory holds: one row a statement, committed on its own, on as many
connections as the seed had. What differs is who asks.
"""

import random
import string
import threading
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.common import fresh_server
from innolab.bench import sysbench
from innolab.bench.sysbench import parse
from innolab.mysql.server import Server
from innolab.studies.compressed_insert import inserts
from innolab.studies.compressed_insert.inserts import Load

PAIRS = 8
THREADS = 30
# One to two seconds each.
ROWS, EMPTY_CALLS, LOOPED_ROWS = 60_000, 150_000, 15_000
_LOAD = Load(THREADS, rows_per_statement=1, keys="auto", random_share=0.5, seed=1)
# The least that a statement can be: the server parses it and answers that it is done.
_EMPTY_CALL = """
function thread_init() con = sysbench.sql.driver():connect() end
function event() con:query("DO 0") end
function thread_done() con:disconnect() end
"""
_INSERT = "INSERT INTO test (NO, EMAIL, NAME) VALUES (NULL, %s, %s)"
Pairs = tuple[list[float], list[float]]


def against_empty_calls(place: Path) -> Pairs:
    """Return rows per second of ours, and statements per second of sysbench that ask nothing.

    The latter is the most that sysbench and the connections give here, whatever the server did.
    """
    script = place / "empty_call.lua"
    script.write_text(_EMPTY_CALL)
    return _pairs(place, lambda server: _empty_calls(server, script))


def against_the_connector(place: Path) -> Pairs:
    """Return rows per second of ours, and of a loop on mysql-connector-python's pure part.

    As a user would write it: threads of one process, each with a connection and a cursor, of which
    one at a time has Python's interpreter.
    """
    return _pairs(place, _looped)


def _pairs(place: Path, theirs: Callable[[Server], float]) -> Pairs:
    rates: Pairs = ([], [])
    with fresh_server(place, innodb_flush_log_at_trx_commit=2) as server:
        server.query(f"CREATE DATABASE {sysbench.SCHEMA}")
        for pair in range(PAIRS):
            turns = ((0, _ours), (1, theirs))
            for at, turn in turns if pair % 2 else turns[::-1]:
                server.query(f"DROP TABLE IF EXISTS {sysbench.SCHEMA}.{inserts.TABLE}")
                inserts.Table("plain", 4, 16).create(server)
                rates[at].append(turn(server))
    return rates


def _ours(server: Server) -> float:
    return inserts.run(server, _LOAD, ROWS).result.tps


def _empty_calls(server: Server, script: Path) -> float:
    words = sysbench.command(
        server, sysbench.copied(server.host, server.folder, script), THREADS, _LOAD.seed
    )
    words += [f"--events={EMPTY_CALLS}", "--time=0", "--histogram=on", "run"]
    return parse(sysbench.ended(server, words, None).stdout).tps


def _looped(server: Server) -> float:
    """Return the rate once all are connected, as sysbench counts its own."""
    ready = threading.Barrier(THREADS + 1)
    each = LOOPED_ROWS // THREADS
    threads = [
        threading.Thread(target=_insert, args=(server, each, ready, number))
        for number in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    ready.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - began
    made, _, _ = inserts.state(server)
    assert made == each * THREADS, "a thread of the loop failed"
    return made / seconds


def _insert(server: Server, rows: int, ready: threading.Barrier, seed: int) -> None:
    drawn = random.Random(seed)
    with server.connect(database=sysbench.SCHEMA) as connection, connection.cursor() as cursor:
        ready.wait()
        for _ in range(rows):
            email = f"{_text(drawn, 7, 13)}@example.com"
            cursor.execute(_INSERT, (email, _text(drawn, 7, 15)))


def _text(drawn: random.Random, least: int, most: int) -> str:
    """Return a string of which about half is drawn, as the load's."""
    length = drawn.randint(least, most)
    letters = "".join(drawn.choices(string.ascii_lowercase, k=length - length // 2))
    return letters + "jejuhal"[: length // 2]
