"""Many connections that insert into seed S1's table: the table, the load, and what came of it."""

import re
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from innolab.base.errors import InnolabError
from innolab.bench import sysbench
from innolab.bench.sysbench import SysbenchResult, parse
from innolab.hosts.base import Command
from innolab.mysql.makers import is_mariadb
from innolab.mysql.server import Server

TABLE = "test"
# What a server was busy with before: rows of the same kind, many a statement, which take at least
# this much of its redo log.
_EARLIER, _EARLIER_AT_ONCE, _EARLIER_REDO_BYTES = "earlier", 100, 120
_SCRIPT = Path(__file__).with_name("insert.lua")
# S1's table: a number, an address that may be missing, a name. utf8 was utf8mb3 then.
_CREATE = f"""CREATE TABLE {sysbench.SCHEMA}.{{table}} (
  NO int NOT NULL AUTO_INCREMENT,
  EMAIL varchar(128) DEFAULT NULL,
  NAME varchar(32) NOT NULL,
  PRIMARY KEY (NO)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 {{options}}
PARTITION BY KEY () PARTITIONS 3"""
PARTITIONS = 3
# Of a table's options, by MySQL and by MariaDB.
_COMPRESSES_PAGES = ("compression=", "page_compressed")
# Rows read back to learn how far zlib presses their strings together, a page at a time.
_SAMPLED_ROWS, _PAGE_BYTES = 5_000, 16 * 1024
_DELETED_AT_ONCE = 10_000
# A fresh file has 6 pages or 7, as large as they really are. Of smaller, compressed ones it takes
# less than this many whole ones: up to 5.7 it is 4, since then 3.5 at most.
_FRESH_PAGES = 5


@dataclass(frozen=True)
class Load:
    """What is inserted, and by how many.

    Attributes
    ----------
    keys : "auto" numbered by the server, or "shuffled"
    random_share : the share of each string's letters that is drawn at random
    """

    threads: int
    rows_per_statement: int
    keys: str
    random_share: float
    seed: int


class Inserted(NamedTuple):
    """One run of sysbench: its result and the CPU seconds that it took itself."""

    result: SysbenchResult
    cpu_s: float


@dataclass(frozen=True)
class Table:
    """How the table's pages are.

    Attributes
    ----------
    form : "plain", "compressed" by the row format, or "page" with compressed pages
    key_block_kib : size of a page that the row format compressed
    page_kib : size of a page in the pool
    """

    form: str
    key_block_kib: int
    page_kib: int

    def options(self, version: str) -> str:
        """Return the words of CREATE TABLE that ask a server of a version for it."""
        return {
            "plain": "",
            "compressed": f"ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE={self.key_block_kib}",
            "page": "PAGE_COMPRESSED=1" if is_mariadb(version) else "COMPRESSION='zlib'",
        }[self.form]

    @property
    def page_bytes(self) -> int:
        """Return the size of a page in the table's files, holes of compressed pages included."""
        return 1024 * (self.key_block_kib if self.form == "compressed" else self.page_kib)

    def create(self, server: Server) -> list[dict[str, Any]]:
        """Create the empty table and return its partitions as they are.

        Raises
        ------
        InnolabError
            Where the server refuses, or made something else: 5.6 may only warn and build COMPACT.
        """
        server.query(_CREATE.format(table=TABLE, options=self.options(server.build.version)))
        made = partitions(server)
        if wrong := faults(self.form, self.key_block_kib, made) or self.too_large(made):
            raise InnolabError(f"{server.build.id} made another table than asked for: {wrong}.")
        return made

    def too_large(self, fresh: list[dict[str, Any]]) -> str:
        """Return which fresh files betray pages that are compressed in name only, in words."""
        if self.page_bytes >= self.page_kib * 1024:
            return ""
        limit = _FRESH_PAGES * self.page_kib * 1024
        return "; ".join(
            f"the fresh file of partition {number} has {one['file_bytes']:,} bytes, as of pages of "
            f"{self.page_kib} KiB"
            for number, one in enumerate(fresh)
            if one["file_bytes"] >= limit
        )

    def compression(self, server: Server) -> dict[str, int]:
        """Return the server's own count of compressed page operations, since its start.

        `failed` are compressions whose result did not fit, after which the page was split or
        packed less.
        """
        found = server.query(
            "SELECT compress_ops, compress_ops_ok, uncompress_ops FROM "
            f"information_schema.INNODB_CMP WHERE page_size = {self.key_block_kib * 1024}"
        )
        tried, well, undone = (int(x) for x in found[0]) if found else (0, 0, 0)
        return {"compressed": tried, "failed": tried - well, "uncompressed": undone}


def partitions(server: Server) -> list[dict[str, Any]]:
    """Return each partition's row format, compressed page size and file, as the server has them.

    `zip_page_bytes` is 0 where pages are not compressed by the row format; `allocated_bytes` is
    less than `file_bytes` where the server gave the compressed rest of pages back to the disk.
    """
    names = server.query(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = "
        "'information_schema' AND table_name IN ('INNODB_TABLES', 'INNODB_SYS_TABLES')"
    )
    rows = server.query(
        f"SELECT NAME, ROW_FORMAT, ZIP_PAGE_SIZE FROM information_schema.{names[0][0]} "
        f"WHERE NAME LIKE '{sysbench.SCHEMA}/{TABLE}#%' ORDER BY NAME"
    )
    [(created,)] = server.query(
        f"SELECT CREATE_OPTIONS FROM information_schema.tables WHERE table_name = '{TABLE}' "
        f"AND table_schema = '{sysbench.SCHEMA}'"
    )
    return [
        {
            "row_format": str(row_format).lower(),
            "zip_page_bytes": int(zip_page) if str(row_format).lower() == "compressed" else 0,
            "options": str(created).lower(),
            **_file(server, str(name)),
        }
        for name, row_format, zip_page in rows
    ]


def _file(server: Server, name: str) -> dict[str, int]:
    asked: Command = ["stat", "--format=%s %b %B", server.data / f"{name}.ibd"]
    size, blocks, block = server.host.must(asked, what="Asking for a table's size").split()
    return {"file_bytes": int(size), "allocated_bytes": int(blocks) * int(block)}


def faults(form: str, key_block_kib: int, made: list[dict[str, Any]]) -> str:
    """Return what of a table's partitions is not as asked, in words; nothing where all is."""
    wrong = []
    if len(made) != PARTITIONS:
        wrong.append(f"{len(made)} partitions instead of {PARTITIONS}")
    for number, one in enumerate(made):
        if (one["row_format"] == "compressed") != (form == "compressed"):
            wrong.append(f"partition {number} has row format {one['row_format']}")
        if form == "compressed" and one["zip_page_bytes"] != key_block_kib * 1024:
            wrong.append(f"partition {number} has pages of {one['zip_page_bytes']} bytes")
        if (form == "page") != any(words in one["options"] for words in _COMPRESSES_PAGES):
            wrong.append(f"partition {number} was made with '{one['options']}'")
    return "; ".join(wrong)


def argv(server: Server, load: Load, rows: int, table: str = TABLE) -> list[str]:
    """Return sysbench's words to insert an exact number of rows.

    Raises
    ------
    ValueError
        Where the rows are no whole number of statements.
    """
    statements, rest = divmod(rows, load.rows_per_statement)
    if rest:
        raise ValueError(f"{rows} rows are no whole statements of {load.rows_per_statement}")
    script = sysbench.copied(server.host, server.folder, _SCRIPT)
    return [
        *sysbench.command(server, script, load.threads, load.seed),
        "--mysql-ignore-errors=none",
        f"--table_name={table}",
        f"--rows_per_statement={load.rows_per_statement}",
        f"--keys={load.keys}",
        f"--random_share={load.random_share}",
        f"--events={statements}",
        "--time=0",
        "--histogram=on",
        "run",
    ]


def run(server: Server, load: Load, rows: int) -> Inserted:
    """Insert an exact number of rows, however long it takes.

    Raises
    ------
    InnolabError
        Where a statement fails, or sysbench or the server dies; quotes the one that did.
    """
    done = sysbench.ended(server, argv(server, load, rows), None)
    return Inserted(parse(done.stdout), done.cpu_s)


def run_in(server: Server, load: Load, redo_bytes: int) -> dict[str, int]:
    """Fill the redo log once with an earlier table, and return its rows and what log they took.

    A fresh server puts off writing pages until its log is nearly full, and 5.6 reads each block of
    a log that is not in the kernel's cache before it writes there: seen in trials as a knee where
    the log was full, and as a third of the throughput until it had come round. A server that has
    run for a while does neither.
    """
    server.query(_CREATE.format(table=_EARLIER, options=""))
    rows = redo_bytes // _EARLIER_REDO_BYTES // _EARLIER_AT_ONCE * _EARLIER_AT_ONCE
    earlier = replace(load, rows_per_statement=_EARLIER_AT_ONCE, keys="auto")
    before = log_position(server)
    sysbench.ended(server, argv(server, earlier, rows, _EARLIER), None)
    # Or the kernel would write that log while the next is measured.
    sync(server)
    return {"rows": rows, "redo_bytes": log_position(server) - before}


def state(server: Server, after_key: int = 0) -> tuple[int, int, int]:
    """Return number, last key and checksum of the rows beyond a key.

    Checksums of parts that share no row give that of the whole by exclusive or.
    """
    [(rows, last, checksum)] = server.query(
        "SELECT COUNT(*), COALESCE(MAX(NO), 0), BIT_XOR(CRC32(CONCAT_WS('|', NO, EMAIL, NAME))) "
        f"FROM {sysbench.SCHEMA}.{TABLE} WHERE NO > {after_key}"
    )
    return int(rows), int(last), int(checksum)


def sync(server: Server) -> None:
    """Have every row that is in the table on the disk, whatever a commit waits for."""
    server.query("FLUSH ENGINE LOGS")


def write_out(server: Server) -> None:
    """Have every page of the table in its files, or their compressed size could not be read."""
    server.query(f"FLUSH TABLES {sysbench.SCHEMA}.{TABLE} FOR EXPORT")


def shorten(server: Server, last_key: int) -> int:
    """Delete the rows beyond a key, some at a time, and return how many they were."""
    beyond = f"FROM {sysbench.SCHEMA}.{TABLE} WHERE NO > {last_key}"
    [(rows,)] = server.query(f"SELECT COUNT(*) {beyond}")
    for _ in range(0, int(rows), _DELETED_AT_ONCE):
        server.query(f"DELETE {beyond} ORDER BY NO DESC LIMIT {_DELETED_AT_ONCE}")
    return int(rows)


def log_position(server: Server) -> int:
    """Return how many bytes of redo log the server has made in its life.

    `Innodb_os_log_written` counts a block again each time that a commit adds to it: three times as
    much where commits are small.
    """
    [(_, _, text)] = server.query("SHOW ENGINE INNODB STATUS")
    found = re.search(r"^Log sequence number\s+(\d+)", text, re.MULTILINE)
    if found is None:
        raise InnolabError(f"{server.build.id} does not say how long its redo log is.")
    return int(found[1])


def leaf_pages(server: Server) -> dict[str, int]:
    """Return the pages that hold rows by partition, whatever its index and its files reserve."""
    table = f"{sysbench.SCHEMA}.{TABLE}"
    server.query(f"ANALYZE TABLE {table}")
    found = server.query(
        "SELECT table_name, stat_value FROM mysql.innodb_index_stats "
        "WHERE stat_name = 'n_leaf_pages' "
        f"AND database_name = '{sysbench.SCHEMA}' AND table_name LIKE '{TABLE}%'"
    )
    return {str(name).lower(): int(pages) for name, pages in found}


def zlib_bytes(server: Server) -> dict[str, int]:
    """Return the size of some rows' strings, and what zlib makes of them, a page of 16 KiB each."""
    rows = server.query(f"SELECT EMAIL, NAME FROM {sysbench.SCHEMA}.{TABLE} LIMIT {_SAMPLED_ROWS}")
    text = "".join(f"{email}{name}" for email, name in rows).encode()
    pages = [text[at : at + _PAGE_BYTES] for at in range(0, len(text), _PAGE_BYTES)]
    return {"text": len(text), "compressed": sum(len(zlib.compress(page)) for page in pages)}
