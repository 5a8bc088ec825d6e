"""Rows a second into S3's table: our cross join, the seed's procedure, and LOAD DATA."""

import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.common import fresh_server
from innolab.mysql.server import Server
from innolab.studies.multi_buffer_pool import table as scan

ROWS = 200_000
PAIRS = 5
_PROCEDURE = """
CREATE PROCEDURE innolab.fill() BEGIN
  DECLARE i INT DEFAULT 1; DECLARE j INT DEFAULT 1;
  WHILE i <= {outer} DO
    WHILE j <= 1000 DO
      INSERT INTO innolab.t1 VALUES (j + 1000 * (i - 1), i + {outer} * (j - 1), 'dummy');
      SET j = j + 1;
    END WHILE;
    SET i = i + 1; SET j = 1;
  END WHILE;
END"""


def against_the_procedure(place: Path) -> tuple[list[float], list[float]]:
    """Return rows per second of ours and of the seed's procedure, in one transaction as there."""
    with fresh_server(place) as server:
        server.query("CREATE DATABASE innolab")
        server.query(_PROCEDURE.format(outer=ROWS // 1000))
        return _pairs(server, _call)


def against_load_data(place: Path) -> tuple[list[float], list[float]]:
    """Return rows per second of ours and of LOAD DATA from a file written before."""
    file = place / "rows.tsv"
    outer = ROWS // 1000
    file.write_text(
        "".join(
            f"{j + 1000 * (i - 1)}\t{i + outer * (j - 1)}\tdummy\n"
            for i in range(1, outer + 1)
            for j in range(1, 1001)
        )
    )
    file.chmod(0o644)
    with fresh_server(place, secure_file_priv=str(place)) as server:
        server.query("CREATE DATABASE innolab")
        return _pairs(server, lambda s: s.query(f"LOAD DATA INFILE '{file}' INTO TABLE innolab.t1"))


def _call(server: Server) -> None:
    with server.connect() as connection:
        connection.start_transaction()
        connection.cmd_query("CALL innolab.fill()")
        connection.commit()


def _pairs(server: Server, theirs: Callable[[Server], object]) -> tuple[list[float], list[float]]:
    rates: tuple[list[float], list[float]] = [], []
    for _ in range(PAIRS):
        for kept, fill in zip(rates, (_ours, theirs), strict=True):
            server.query("DROP TABLE IF EXISTS innolab.t1")
            server.query(scan.TABLE)
            began = time.perf_counter()
            fill(server)
            kept.append(ROWS / (time.perf_counter() - began))
    return rates


def _ours(server: Server) -> None:
    scan.fill(server, ROWS, lambda _: None)
