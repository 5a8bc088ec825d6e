"""The table: one index that follows the primary key, and one that does not; and the ways to it."""

import zlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from innolab.base.errors import InnolabError
from innolab.mysql import datasets
from innolab.mysql.datasets import Recipe, Say
from innolab.mysql.server import Server

# Wide enough that a page holds some fifty rows: a lookup is not a scan in disguise.
TABLE = (
    "CREATE TABLE innolab.paths (id INT UNSIGNED PRIMARY KEY, near_k INT UNSIGNED NOT NULL, "
    "far_k INT UNSIGNED NOT NULL, val INT, filler CHAR(240) NOT NULL) "
    "ENGINE=InnoDB DEFAULT CHARSET=latin1"
)
INDEXES = (
    "CREATE INDEX near ON innolab.paths (near_k)",
    "CREATE INDEX far ON innolab.paths (far_k)",
)
FILE = Path("innolab") / "paths.ibd"
BYTES_PER_ROW = 330
_KEYS = 2**32
_MIB = 1024**2
# A server's own tablespaces, its redo log, and what sorting an index takes.
_SYSTEM_BYTES = 500 * _MIB


def recipe(rows: int) -> Recipe:
    """Return the recipe of the table with some rows, a multiple of ten thousand."""
    return Recipe(
        name=f"paths-{rows}",
        spec={"rows": rows, "table": TABLE, "indexes": INDEXES, "recipe": 1},
        size_bytes=rows * BYTES_PER_ROW + _SYSTEM_BYTES,
        expected={"rows": rows, "data_bytes": rows * 290, "index_bytes": rows * 30},
        load=lambda server, say: _load(server, rows, say),
        verify=lambda server: verify(server, rows),
        settings={"innodb_buffer_pool_size": 1024 * _MIB},
    )


def _load(server: Server, rows: int, say: Say) -> None:
    server.query("CREATE DATABASE innolab")
    server.query(TABLE)
    values = f"{{n}}, ({{n}} - 1) * {_KEYS // rows}, CRC32({{n}}), 1, 'row'"
    datasets.insert_numbered(server, "innolab.paths", values, rows, 100, say)
    for index in INDEXES:
        say(f"building an index: {index.split()[2]}")
        server.query(index)
    server.query("ANALYZE TABLE innolab.paths")


def verify(server: Server, rows: int) -> dict[str, Any]:
    """Check the rows and how far each index follows the primary key; return the table's sizes.

    Raises
    ------
    InnolabError
        If rows are missing or the indexes are not what their names say.
    """
    counted, low, high, near, far = server.query(
        "SELECT COUNT(*), MIN(id), MAX(id), "
        "(AVG(id * near_k) - AVG(id) * AVG(near_k)) / (STD(id) * STD(near_k)), "
        "(AVG(id * far_k) - AVG(id) * AVG(far_k)) / (STD(id) * STD(far_k)) FROM innolab.paths"
    )[0]
    if (counted, low, high) != (rows, 1, rows) or near < 0.999 or abs(far) > 0.05:
        raise InnolabError(
            f"The loaded table has {counted:,} rows from {low} to {high}, whose keys follow the "
            f"primary key by {near:.3f} and {far:.3f}; expected {rows:,} from 1, by 1 and 0."
        )
    return datasets.table_facts(server, "innolab.paths", rows)


class Way(NamedTuple):
    """A way to rows: the index that is forced, and what EXPLAIN says if it is really taken."""

    key: str
    type: str
    extra: str
    mrr: bool = False


# What EXPLAIN says where keys are sorted before rows are looked up: MySQL's words, and MariaDB's.
_SORTED = ("Using MRR", "Rowid-ordered scan")
# The paths that read all rows, without a condition.
_ALL = ("scan", "covering")
PATHS = {
    "scan": Way("PRIMARY", "ALL", ""),
    "covering": Way("near", "index", "Using index"),
    "range": Way("PRIMARY", "range", "Using where"),
    "near": Way("near", "range", "Using index condition"),
    "far": Way("far", "range", "Using index condition"),
    "far, MRR": Way("far", "range", "", mrr=True),
}


def statement(path: str, share: float, rows: int) -> str:
    """Return the statement that adds up a column of a share of the rows.

    Not COUNT: of a column that is never null the server counts rows and reads none.
    """
    index = PATHS[path].key
    column = "near_k" if path == "covering" else "val"
    key = "id" if index == "PRIMARY" else f"{index}_k"
    where = "" if path in _ALL else f" WHERE {key} < {_end(path, share, rows)}"
    return f"SELECT SUM({column}), COUNT(*) FROM innolab.paths FORCE INDEX ({index}){where}"


def _end(path: str, share: float, rows: int) -> int:
    if PATHS[path].key == "PRIMARY":
        return int(rows * share) + 1
    # A bound above all values is no condition to the server, which then scans.
    return min(int(share * _KEYS), _KEYS - 1)


@cache
def counted(path: str, share: float, rows: int) -> int:
    """Return how many rows a statement reads, by the keys that rows were loaded with."""
    end = _end(path, share, rows)
    if path in _ALL:
        return rows
    if PATHS[path].key == "PRIMARY":
        return end - 1
    if PATHS[path].key == "near":
        return min(rows, -(-end // (_KEYS // rows)))
    return sum(zlib.crc32(b"%d" % number) < end for number in range(1, rows + 1))


def choose(server: Server, path: str) -> None:
    """Have new connections of a server sort keys before it looks rows up (MRR), or not."""
    on = "on" if PATHS[path].mrr else "off"
    server.query(f"SET GLOBAL optimizer_switch = 'mrr={on},mrr_cost_based=off'")


def plan_fault(path: str, plan: Mapping[str, Any]) -> str | None:
    """Return how the server reaches the table instead of by a path, or None."""
    wanted = PATHS[path]
    key = None if wanted.type == "ALL" else wanted.key
    is_so = (plan["type"], plan["key"]) == (wanted.type, key) and wanted.extra in plan["extra"]
    if is_so and any(words in plan["extra"] for words in _SORTED) == wanted.mrr:
        return None
    return f"asked for {path}, taken was {plan['type']} {plan['key']} ({plan['extra']})"
