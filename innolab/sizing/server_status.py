"""What a running server says of its buffer pool, by SELECT and SHOW alone.

INFORMATION_SCHEMA.INNODB_BUFFER_PAGE would name each page in the pool, and is never asked: it holds
the pool's latches while it copies them all.
"""

import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from innolab.base.errors import InnolabError, InputError
from innolab.base.quoting import printable, shown
from innolab.sizing.target import Target, answering

Values = dict[str, float]

_COUNTERS = (
    "Innodb_buffer_pool_pages_data", "Innodb_buffer_pool_pages_free",
    "Innodb_buffer_pool_pages_total", "Innodb_buffer_pool_read_ahead",
    "Innodb_buffer_pool_read_requests", "Innodb_pages_read", "Questions",
)  # fmt: skip
_OURS = "('mysql', 'sys', 'information_schema', 'performance_schema')"
_PROMOTED = "SELECT SUM(PAGES_MADE_YOUNG) FROM information_schema.INNODB_BUFFER_POOL_STATS"
# In picoseconds.
_WAITS = (
    "SELECT SUM(SUM_TIMER_READ) FROM performance_schema.file_summary_by_event_name "
    "WHERE EVENT_NAME = 'wait/io/file/innodb/innodb_data_file'"
)
_USED = (
    "SELECT OBJECT_SCHEMA, OBJECT_NAME, INDEX_NAME, COUNT_READ, COUNT_WRITE "
    "FROM performance_schema.table_io_waits_summary_by_index_usage "
    f"WHERE OBJECT_TYPE = 'TABLE' AND COUNT_STAR > 0 AND OBJECT_SCHEMA NOT IN {_OURS}"
)
_SIZES = (
    "SELECT TABLE_SCHEMA, TABLE_NAME, DATA_LENGTH, INDEX_LENGTH FROM information_schema.TABLES "
    f"WHERE ENGINE = 'InnoDB' AND TABLE_SCHEMA NOT IN {_OURS}"
)
# Who works now, or did within the last second.
_CLIENTS = (
    "SELECT COUNT(*) FROM performance_schema.threads WHERE TYPE = 'FOREGROUND' "
    "AND PROCESSLIST_ID <> CONNECTION_ID() AND (PROCESSLIST_COMMAND IN ('Query', 'Execute') "
    "OR PROCESSLIST_COMMAND = 'Sleep' AND PROCESSLIST_TIME <= 1)"
)
# Counters that only grow.
_GROWING = ("Innodb_buffer_pool_read_ahead", "Innodb_buffer_pool_read_requests",
            "Innodb_pages_read")  # fmt: skip
# The sizes of many tables take a server of 5.6 minutes; nothing is changed by then.
_LONGEST_ANSWER_S = 600
# What a server may say, so that one that never ends does not fill the memory.
_MOST_COUNTED = 2**80  # Sums of picoseconds are the largest.
_MOST_ROWS, _MOST_CHARACTERS, _LONGEST_TEXT = 2_000_000, 2**28, 200
OLDEST = (5, 6)
RESIZABLE = (5, 7, 5)


@dataclass(frozen=True)
class ServerTable:
    """A table of InnoDB: bytes of rows and of secondary indexes, as its statistics have them."""

    name: str
    data_bytes: int
    index_bytes: int


class Facts(BaseModel, frozen=True):
    """What a server is, by its variables, each in the range that it can have; and its tables.

    Tables of the server itself are not counted.
    """

    version: str
    version_comment: str = ""
    information_schema_stats_expiry: str | None = None
    innodb_buffer_pool_chunk_size: int = Field(1, ge=0, le=2**50)
    innodb_buffer_pool_instances: int = Field(1, ge=0, le=2**16)
    innodb_buffer_pool_size: int = Field(ge=2**20, le=2**50)
    innodb_flush_method: str = ""
    innodb_old_blocks_pct: int = Field(37, ge=1, le=99)
    innodb_old_blocks_time: int = Field(0, ge=0, le=2**32)
    innodb_page_size: int = Field(16384, ge=2**10, le=2**20)
    tables: tuple[ServerTable, ...] = ()

    @property
    def release(self) -> tuple[int, ...]:
        """Return the numbers of the version."""
        return _release(self.version)

    @property
    def data_bytes(self) -> int:
        """Return the bytes of all tables."""
        return sum(table.data_bytes + table.index_bytes for table in self.tables)

    @property
    def is_mariadb(self) -> bool:
        """Return whether it is a MariaDB."""
        return "mariadb" in f"{self.version} {self.version_comment}".lower()


@dataclass(frozen=True)
class Stretch:
    """What a stretch of time showed: samples of counters since the start, in order.

    Attributes
    ----------
    samples : as `Visit.sample` returns them
    promoted : how often a hit moved an old page to the young part, NaN if not known
    waited_s : that threads waited for reads of data files, NaN if not known
    used : reads and writes of rows by table and index, if they were counted
    """

    samples: list[Values]
    promoted: float
    waited_s: float
    used: Mapping[tuple[str, str | None], tuple[int, int]]


class Visit:
    """A connection to a running server that only reads; a context manager."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.connection: Any = None
        self._asked = 0

    def __enter__(self) -> "Visit":
        self.connection = self.target.connect()
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def answer_within(self, seconds: int) -> None:
        """Take a server that is silent for longer as one that stopped answering."""
        self.connection.read_timeout = self.connection.write_timeout = seconds

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a statement, their texts without control characters.

        Raises
        ------
        InputError
            If the user has no right to them.
        InnolabError
            If the server is gone, or its answer makes no sense or does not end.
        """
        self._asked += 1
        with answering():
            cursor = self.connection.cursor()
            cursor.execute(sql)
            rows = _bounded(cursor) if cursor.with_rows else []
            # Not if rows are left: closing would raise that, and hide what happened.
            cursor.close()
        return rows

    def _rows_of_all_tables(self, sql: str) -> list[tuple[Any, ...]]:
        usual_s = self.connection.read_timeout
        self.answer_within(_LONGEST_ANSWER_S)
        try:
            return self.rows(sql)
        finally:
            self.answer_within(usual_s)

    def facts(self) -> Facts:
        """Return what the server is and the sizes of its tables.

        Raises
        ------
        InputError
            If it is too old, or has no InnoDB.
        InnolabError
            As `rows`.
        """
        names = [name for name in Facts.model_fields if name != "tables"]
        with answering():
            named = {str(name): str(value) for name, value in self._shown("VARIABLES", names)}
        version = named.get("version", "")
        if _release(version) < OLDEST:
            raise InputError(
                f"This server is {version or 'of no version'}; sizing takes MySQL 5.6 or later, "
                "whose counters it reads. Nothing was changed."
            )
        if "innodb_buffer_pool_size" not in named:
            raise InputError(f"This server ({version}) has no InnoDB, so there is no pool to size.")
        try:
            facts = Facts.model_validate(named)
        except ValidationError as error:
            name = error.errors()[0]["loc"][0]
            raise InnolabError(
                f"The server says that its {name} is {shown(named[str(name)])}, which cannot be. "
                "Check that it is a MySQL server."
            ) from None
        if "information_schema_stats_expiry" in named:
            # Else the server keeps what it is asked for in a table of its own: that is a write.
            self.rows("SET SESSION information_schema_stats_expiry = 0")
        with answering():
            tables = tuple(
                ServerTable(f"{schema}.{name}", int(_counted(data or 0)), int(_counted(index or 0)))
                for schema, name, data, index in self._rows_of_all_tables(_SIZES)
            )
        return facts.model_copy(update={"tables": tables})

    def stretch(
        self, seconds: float, period_s: float, check: Callable[[Values], None] | None = None
    ) -> Stretch:
        """Watch the server for some seconds and return what its counters showed.

        Parameters
        ----------
        period_s : between two samples, of which each is two statements
        check : is called with each sample, and may raise to end it
        """
        sums, rows = self._sums(), self._used_rows()
        samples = [self.sample()]
        end = samples[0]["t_s"] + seconds
        while samples[-1]["t_s"] < end:
            left = end - time.monotonic()
            time.sleep(max(0.0, left if left < 1.5 * period_s else period_s))
            samples.append(self.sample())
            if check:
                check(samples[-1])
        _require_growing(samples)
        promoted, waited_ps = (b - a for a, b in zip(sums, self._sums(), strict=True))
        used = {
            key: (read - rows.get(key, (0, 0))[0], written - rows.get(key, (0, 0))[1])
            for key, (read, written) in self._used_rows().items()
        }
        used = {key: counts for key, counts in used.items() if any(counts)}
        return Stretch(samples, promoted, waited_ps / 1e12, used)

    def sample(self) -> Values:
        """Return the counters now, `Questions` without our own.

        With `t_s`, seconds on a monotonic clock, `took_s`, how long the server took to answer, and
        `clients` that work.
        """
        began = time.monotonic()
        with answering():
            counters = dict(self._shown("STATUS", _COUNTERS))
            values = {name: _counted(counters[name]) for name in _COUNTERS}
            # On a server with few statements ours would be the most, and hide that it has stalled.
            values["Questions"] -= self._asked
            [(clients,)] = self.rows(_CLIENTS)
            values["clients"] = _counted(clients)
            if not values["Innodb_buffer_pool_pages_total"]:
                raise ValueError("a pool without pages")
        now_s = time.monotonic()
        return {**values, "t_s": now_s, "took_s": now_s - began}

    def _shown(self, what: str, names: Sequence[str]) -> list[tuple[Any, ...]]:
        listed = ", ".join(f"'{name}'" for name in names)
        return self.rows(f"SHOW GLOBAL {what} WHERE Variable_name IN ({listed})")

    def _sums(self) -> tuple[float, ...]:
        with answering():
            [(promoted,)], [(waited,)] = self.rows(_PROMOTED), self.rows(_WAITS)
            return tuple(
                math.nan if value is None else _counted(value) for value in (promoted, waited)
            )

    def _used_rows(self) -> dict[tuple[str, str | None], tuple[int, int]]:
        with answering():
            return {
                (f"{schema}.{name}", index): (int(read), int(written))
                for schema, name, index, read, written in self._rows_of_all_tables(_USED)
            }


def _bounded(cursor: Any) -> list[tuple[Any, ...]]:
    """Return the rows that a server sends, as long as there is an end to them."""
    rows: list[tuple[Any, ...]] = []
    characters = 0
    for row in cursor:
        characters += sum(len(cell) for cell in row if isinstance(cell, str | bytes | bytearray))
        if len(rows) == _MOST_ROWS or characters > _MOST_CHARACTERS:
            raise InnolabError(
                f"The server answered with more than {_MOST_ROWS:,} rows or {_MOST_CHARACTERS:,} "
                "characters. Check that it is a MySQL server."
            )
        rows.append(tuple(
            printable(cell[:_LONGEST_TEXT]) if isinstance(cell, str) else cell for cell in row
        ))  # fmt: skip
    return rows


def _counted(value: Any) -> float:
    """Return a count as a number, or raise ValueError."""
    if not 0 <= (number := float(value)) < _MOST_COUNTED:
        raise ValueError(f"{number} is no count")
    return number


def _require_growing(samples: list[Values]) -> None:
    for name in _GROWING:
        if any(after[name] < before[name] for before, after in pairwise(samples)):
            raise InnolabError(
                f"The server's counter {name} fell while it was watched, and it only grows while a "
                "server runs. Was it started again? Run the same command again."
            )


def _release(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version.

    >>> _release("5.6.24-log")
    (5, 6, 24)
    """
    numbers = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, numbers[0].split("."))) if numbers else ()
