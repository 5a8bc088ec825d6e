"""sysbench's table as a dataset, and what the studies on it have in common."""

import math
from collections.abc import Mapping
from typing import Any

from innolab.base.errors import InnolabError
from innolab.bench import sysbench
from innolab.bench.sysbench import Workload
from innolab.mysql import counters, datasets
from innolab.mysql.server import Server

MIB = 1024**2
PAGE_BYTES = 16 * 1024
# Measured: 243 to 252 B a row, index included, on both servers.
BYTES_PER_ROW = 255
SYSTEM_BYTES = 130 * MIB
# The usual size of the seeds' time, for the 80,000,000 rows of study A. It shrinks with the rows,
# down to a log that does not wrap around within seconds: with 16 MiB, a writing load measured how a
# server flushes for its log (docs/decisions/0042).
ORIGINAL_ROWS = 80_000_000
ORIGINAL_REDO_BYTES, LEAST_REDO_BYTES = 512 * MIB, 128 * MIB
# How many pages a page cleaner keeps free shrinks with the rows too: unscaled, they would be a
# fifteenth of a small pool. With fewer than 400 a server that reads 1,600 pages a second finds no
# free one, and flushes single pages while the device is idle.
ORIGINAL_LRU_SCAN_DEPTH, LEAST_LRU_SCAN_DEPTH = 1024, 400
# How long a page must have been in the pool before a second access counts. A small pool on a fast
# disk turns over within the default, which would keep no page for being wanted often.
ORIGINAL_OLD_BLOCKS_MS = 1000


def redo_bytes(rows: int) -> int:
    """Return the size of the redo log, whole MiB, in the proportion of the original's time."""
    return _scaled(ORIGINAL_REDO_BYTES, LEAST_REDO_BYTES, rows) // (2 * MIB) * 2 * MIB


def scaled_settings(rows: int) -> dict[str, str | int]:
    """Return the variables that a small pool needs in proportion, or it would behave otherwise."""
    return {
        "innodb_lru_scan_depth": _scaled(ORIGINAL_LRU_SCAN_DEPTH, LEAST_LRU_SCAN_DEPTH, rows),
        "innodb_old_blocks_time": _scaled(ORIGINAL_OLD_BLOCKS_MS, 1, rows),
    }


def _scaled(original: int, least: int, rows: int) -> int:
    return max(least, original * rows // ORIGINAL_ROWS)


def redo_settings(rows: int) -> dict[str, str | int]:
    """Return the server variables of the redo log, by the names of old and new servers."""
    return {
        "loose_innodb_log_file_size": redo_bytes(rows) // 2,
        "loose_innodb_redo_log_capacity": redo_bytes(rows),
    }


def pool_settings(pool_ratio: float, data: int) -> dict[str, str | int]:
    """Return the server variables of a pool of a share of the data, rounded to whole chunks."""
    wanted = pool_ratio * data
    # At most a thousand chunks, which is what a server is meant for.
    chunk = MIB * max(1, math.ceil(wanted / (1000 * MIB)))
    return {
        "innodb_buffer_pool_size": round(wanted / chunk) * chunk,
        "loose_innodb_buffer_pool_chunk_size": chunk,
        "innodb_buffer_pool_instances": 1,
    }


def flushing_settings() -> dict[str, str | int]:
    """Return the variables that all servers share: no page cache, no early flushing, one probe."""
    return {
        "innodb_flush_method": "O_DIRECT",
        # The low-water mark is 10 by default today and was 0: it would flush early on one server.
        "innodb_max_dirty_pages_pct": 75,
        "innodb_max_dirty_pages_pct_lwm": 0,
        "innodb_monitor_enable": counters.CHECKPOINT_AGE,
    }


POOL_VARIABLES = ("innodb_buffer_pool_size", "innodb_buffer_pool_chunk_size")
NEEDED_VARIABLES = ("innodb_flush_method", "innodb_lru_scan_depth")


def settings(
    pool_ratio: float, load: str, rows: int, facts: Mapping[str, Any]
) -> dict[str, str | int]:
    """Return the server variables of a load on sysbench's table: pool, flushing, redo log."""
    return {
        **pool_settings(pool_ratio, data_bytes(facts, load)),
        **flushing_settings(),
        **scaled_settings(rows),
        **redo_settings(rows),
    }


def dataset(rows: int) -> datasets.Recipe:
    """Return sysbench's table as a recipe."""
    return datasets.Recipe(
        name=f"oltp-{rows}",
        spec={"rows": rows, "tool": "sysbench 1.0 oltp", "redo": redo_bytes(rows), "recipe": 1},
        size_bytes=rows * BYTES_PER_ROW + SYSTEM_BYTES + redo_bytes(rows),
        expected={"rows": rows, "data_bytes": rows * BYTES_PER_ROW, "index_bytes": 0},
        load=lambda server, say: load(server, rows, say),
        verify=lambda server: verify(server, rows),
        settings={"innodb_buffer_pool_size": 1024 * MIB, **redo_settings(rows)},
    )


def load(server: Server, rows: int, say: datasets.Say) -> None:
    """Create sysbench's table, fill it, and index k, by sysbench itself."""
    server.query(f"CREATE DATABASE {sysbench.SCHEMA}")
    say(f"loading {rows:,} rows by sysbench")
    sysbench.prepare(server, Workload("read_only", rows, 1, "uniform", 1))
    server.query(f"ANALYZE TABLE {sysbench.TABLE}")


def verify(server: Server, rows: int) -> dict[str, Any]:
    """Check number, keys and lengths of the rows and return the table's sizes.

    Raises
    ------
    InnolabError
        If a row is missing, doubled or of another shape.
    """
    counted, low, high, right = server.query(
        "SELECT COUNT(*), MIN(id), MAX(id), SUM(CHAR_LENGTH(c) = 119 AND CHAR_LENGTH(pad) = 59 "
        f"AND k BETWEEN 1 AND {rows}) FROM {sysbench.TABLE}"
    )[0]
    if (counted, low, high, int(right or 0)) != (rows, 1, rows, rows):
        raise InnolabError(
            f"The loaded table has {counted:,} rows, {int(right or 0):,} of them right, keys "
            f"{low} to {high}; expected {rows:,} right rows from 1 to {rows:,}."
        )
    return datasets.table_facts(server, sysbench.TABLE, rows)


def data_bytes(facts: Mapping[str, Any], load: str) -> int:
    """Return the size of what a load asks for, in bytes: A is the pool of this size.

    Reading loads use the clustered index alone; writing ones change the secondary index too.
    """
    index = facts["index_bytes"] if load == "read_write" else 0
    return int(facts["data_bytes"]) + index


def fill(server: Server, load: str, most: int | None = None) -> None:
    """Read once what the load will ask for, so that no pool has room left that would fill.

    Reads the first `most` rows of the table, all of them where that is None.

    Reading loads never ask for the secondary index: its pages would take the room of others until
    they are pushed out, long after the window.
    """
    some = "" if most is None else f" AND id <= {most}"
    query = f"SELECT COUNT(*) FROM {sysbench.TABLE} FORCE INDEX (PRIMARY) WHERE pad <> ''{some}"
    server.query(query)
    if load == "read_write":
        server.query(f"SELECT COUNT(*) FROM {sysbench.TABLE} FORCE INDEX (k_1) WHERE k >= 0")
