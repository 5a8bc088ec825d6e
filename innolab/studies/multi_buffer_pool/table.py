"""The seed's table, its query, and pages of it that are in use besides the query."""

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from innolab.base.errors import InnolabError
from innolab.bench import passes
from innolab.bench.trial import Bench
from innolab.mysql import datasets
from innolab.mysql.datasets import Recipe, Say
from innolab.mysql.server import Server
from innolab.record.run import Observation

TABLE = (
    "CREATE TABLE innolab.t1 (c1 INTEGER PRIMARY KEY, c2 INTEGER, dummy CHAR(100)) "
    "ENGINE=InnoDB DEFAULT CHARSET=latin1"
)
SCAN = "SELECT COUNT(*) FROM innolab.t1 WHERE dummy='dummy'"
INDEX = "CREATE INDEX t1_c2_idx ON innolab.t1 (c2)"
# Measured for 10,000,000 rows: 1,378,877,440 B of data, as published, and up to 167 MB of index.
BYTES_PER_ROW = 155
_LONGER_THAN_OLD_BLOCKS_TIME_S = 1.2
# So that they fit into the part of a pool that what is read first enters, which is 3/8.
_HOT_SHARE_OF_POOL = 0.25
_FILLS = 1.2
# How their passes are called in a record.
HOT, HOT_AGAIN = "hot pages", "hot pages after the scan"
_MIB = 1024**2
_SYSTEM_BYTES = 900 * _MIB


def recipe(rows: int) -> Recipe:
    """Return the recipe of the table with some rows."""
    return Recipe(
        name=f"scan-{rows}",
        spec={"rows": rows, "table": TABLE, "index": INDEX, "recipe": 1},
        size_bytes=rows * BYTES_PER_ROW + _SYSTEM_BYTES,
        expected={"rows": rows, "data_bytes": rows * BYTES_PER_ROW, "index_bytes": 0},
        load=lambda server, say: _load(server, rows, say),
        verify=lambda server: verify(server, rows),
        settings={"innodb_buffer_pool_size": 1024 * _MIB},
    )


def _load(server: Server, rows: int, say: Say) -> None:
    server.query("CREATE DATABASE innolab")
    server.query(TABLE)
    fill(server, rows, say)
    say("building the index on c2")
    server.query(INDEX)
    server.query("ANALYZE TABLE innolab.t1")


def fill(server: Server, rows: int, say: Say) -> None:
    """Insert the seed's rows in the seed's order.

    The seed inserts (j + 1000 (i - 1), i + I (j - 1), 'dummy') for i = 1 .. I and j = 1 .. 1000
    by a stored procedure, a row at a time. The same rows come here from a cross join, in the same
    ascending order of the primary key on one connection, so that the pages fill alike.
    """
    values = f"{{n}}, {{i}} + {rows // 1000} * ({{j}} - 1), 'dummy'"
    datasets.insert_numbered(server, "innolab.t1", values, rows, 1000, say)


def verify(server: Server, rows: int) -> dict[str, Any]:
    """Check every row against the seed's formula and return the table's sizes.

    Raises
    ------
    InnolabError
        If a row is missing, doubled or wrong.
    """
    outer = rows // 1000
    counted, right, low, high = server.query(
        "SELECT COUNT(*), SUM(dummy = 'dummy' AND c2 = (c1 - 1) DIV 1000 + 1 "
        f"+ {outer} * ((c1 - 1) MOD 1000)), MIN(c1), MAX(c1) FROM innolab.t1"
    )[0]
    if (counted, int(right), low, high) != (rows, rows, 1, rows):
        raise InnolabError(
            f"The loaded table has {counted:,} rows, {right:,} of them right, keys {low} to "
            f"{high}; expected {rows:,} right rows from 1 to {rows:,}."
        )
    return datasets.table_facts(server, "innolab.t1", rows)


class HotPages(NamedTuple):
    """The first rows of the table, as pages that are in use, and others that fill the pool first.

    A server moves no page to the part of its list that a scan leaves alone until the pool has been
    full once: the pages of an empty pool would be lost to any scan.
    """

    rows: int
    others_after: int

    @classmethod
    def of_pool(cls, facts: Mapping[str, Any], pool_bytes: int) -> "HotPages":
        """Return pages in use for a pool of a size that is smaller than the table."""
        rows, row_bytes = int(facts["rows"]), facts["data_bytes"] / facts["rows"]
        hot = int(_HOT_SHARE_OF_POOL * pool_bytes / row_bytes)
        return cls(hot, rows - int(_FILLS * pool_bytes / row_bytes))

    def use(self, bench: Bench, server: Server) -> int:
        """Fill the pool, read them twice, and return how many pages they are.

        A second access counts only after innodb_old_blocks_time, which is a second by default.
        """
        server.query(_counting(f"c1 > {self.others_after}"))
        _, cost = passes.timed(bench, server, _counting(f"c1 <= {self.rows}"), HOT)
        time.sleep(_LONGER_THAN_OLD_BLOCKS_TIME_S)
        passes.timed(bench, server, _counting(f"c1 <= {self.rows}"), "hot pages once more")
        return cost.pages_read

    def kept(self, bench: Bench, server: Server, pages: int) -> Observation:
        """Read them again, and return which share of them was still in the pool."""
        _, cost = passes.timed(bench, server, _counting(f"c1 <= {self.rows}"), HOT_AGAIN)
        again = min(cost.pages_read, pages)
        return {
            "hot_pages": pages,
            "hot_pages_read_again": again,
            "hot_kept_ratio": 1 - again / pages,
        }


def _counting(where: str) -> str:
    return f"SELECT COUNT(*) FROM innolab.t1 WHERE {where} AND dummy = 'dummy'"
