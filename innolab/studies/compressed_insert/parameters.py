"""What inserts are measured on: the parameters, the arms, the empty schema, and the settings."""

import re
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from innolab.bench import oltp, sysbench
from innolab.mysql.datasets import Recipe, Say
from innolab.mysql.server import Server
from innolab.storage.profiles import HOST
from innolab.studies.compressed_insert import growth
from innolab.studies.parameters import ByScale, Devices, FlushLog, Parameters, Threads
from innolab.studies.study import Arm, Facts

# S1: throughput of the plain table falls at 70 million rows, whose data file is about 5 GB.
KNEE_MROWS, COMPRESSED_KNEE_MROWS = 70, 90
KNEE_BYTES = 5_000_000_000
ROW_BYTES = KNEE_BYTES / (KNEE_MROWS * 10**6)
# S1 inserted 200 million rows and drew 130 million of them, beyond which it claims nothing.
END_MROWS = ByScale(130, 130, 200)
# The seed's pools over its 5 GB at the knee.
POOLS = {"4G": 4 / 5, "8G": 8 / 5}
# Pauses at the end of a segment are not measured, but let the server flush: none at quick, where
# they would be a part of the whole.
SEGMENTS = ByScale(2, 1, 40)
PERIOD_S = ByScale(0.1, 0.1, 1.0)
# The arms besides those of the seed's: format, keys, pool.
SEEDS = [("plain", "auto"), ("compressed", "auto")]
OURS = [("plain", "shuffled", "4G"), ("page", "auto", "4G")]
# What a table may take on the disk at most: shuffled keys, pages half full, files grown ahead.
_MOST_BYTES_PER_ROW, _GROWN_AHEAD_BYTES = 150, 64 * oltp.MIB
_LEAST_ROLLBACK_SEGMENTS = 4
# Page compression came with 5.7.8.
_NO_PAGE_COMPRESSION = (5, 6)


class InsertParameters(Parameters):
    """The common parameters, the table's and the load's.

    The pools of the small scales are 6 and 8 MiB and their doubles: the least that MariaDB takes,
    and one in which a server's own pages are few.

    Attributes
    ----------
    rows : the rows that a whole run inserts, instead of those of the scale
    threads : the connections that insert
    rows_per_statement : the rows of one INSERT
    random_share : the share of each text that is drawn at random; the rest is always the same
    key_block_kib : the KEY_BLOCK_SIZE of the compressed table; no larger than a page
    page_kib : the server's innodb_page_size, in KiB
    devices : devices, or host; the first has all arms, the others those that a claim needs
    flush_log_at_trx_commit : the server's innodb_flush_log_at_trx_commit
    segments : the parts into which a run is cut, after each of which it can resume
    """

    ROWS: ClassVar = ByScale(205_000, 274_000, 200_000_000)
    threads: Threads = 30
    rows_per_statement: Annotated[int, Field(ge=1, le=1000)] = 1
    random_share: Annotated[float, Field(ge=0, le=1)] = 0.5
    key_block_kib: Literal[1, 2, 4, 8, 16] = 4
    page_kib: Literal[4, 8, 16] = 16
    devices: Devices = [HOST, "cap-write-20mb"]
    flush_log_at_trx_commit: FlushLog = 2
    segments: Annotated[int, Field(ge=1, le=1000)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_keep_failed(cls, given: Any) -> Any:
        """Read the plans of November 2026, which name what is an option of `run` by now."""
        is_plan = isinstance(given, dict) and given.get("keep_failed") is False
        return {k: v for k, v in given.items() if k != "keep_failed"} if is_plan else given

    @model_validator(mode="after")
    def _block_in_page(self) -> "InsertParameters":
        if self.key_block_kib > self.page_kib:
            raise ValueError(
                f"KEY_BLOCK_SIZE {self.key_block_kib} is larger than a page of {self.page_kib} KiB"
            )
        return self

    @cached_property
    def table_rows(self) -> int:
        """Return the rows of a whole run: as asked or as the scale has it, in whole statements."""
        rows = self.rows or self.ROWS.of(self)
        return int(rows // self.rows_per_statement * self.rows_per_statement)

    @property
    def rows_per_mrow(self) -> float:
        """Return the rows that stand for a million of the original's."""
        return self.table_rows / END_MROWS.of(self)

    @property
    def knee_bytes(self) -> float:
        """Return the data that stand for the original's 5 GB at its knee."""
        return KNEE_MROWS * self.rows_per_mrow * ROW_BYTES

    @property
    def sysbench_rows(self) -> int:
        """Return how many rows of sysbench's table are as much data as that at the knee."""
        return int(self.knee_bytes / oltp.BYTES_PER_ROW)


def edges_mrows(parameters: InsertParameters) -> list[int]:
    """Return the edges of the curves' bins, in millions of the original's rows."""
    return list(range(0, END_MROWS.of(parameters) + 1, growth.BIN_MROWS))


def segments_of(parameters: InsertParameters, keys: str) -> list[int]:
    """Return the rows of each segment, whole statements.

    Shuffled keys have one: the last rows of a table are nowhere in it, so what came after a
    checkpoint could not be identified.
    """
    number = 1 if keys == "shuffled" else parameters.segments or SEGMENTS.of(parameters)
    statements = parameters.table_rows // parameters.rows_per_statement
    each, rest = divmod(statements, number)
    counts = [each + (place < rest) for place in range(number)]
    return [count * parameters.rows_per_statement for count in counts if count]


def keep(parameters: InsertParameters, arm: Arm) -> bool:
    """Return whether an arm is measured.

    A second device has the arms that its hypothesis needs, and more where there is time. Never
    shuffled keys: on writes capped at 20 MB a second, two hundred million of them take a day.
    """
    is_first, is_paper = arm.device == parameters.devices[0], parameters.scale == "paper"
    is_seeds = (arm.format, arm.keys) in SEEDS
    if arm.format == "page" and not _compresses_pages(str(arm.server)):
        return False
    if parameters.scale == "smoke":
        return is_first and is_seeds and arm.pool == "4G"
    if is_first:
        is_more = is_paper and (arm.format, arm.keys, arm.pool) == ("compressed", "shuffled", "4G")
        return is_seeds or (arm.format, arm.keys, arm.pool) in OURS or is_more
    return (is_seeds and (is_paper or arm.pool == "4G")) or (
        (arm.format, arm.keys, arm.pool) == OURS[1]
    )


def _compresses_pages(build: str) -> bool:
    """Return whether a build has COMPRESSION of pages, by the version in its name."""
    numbers = re.search(r"-(\d+)\.(\d+)", build)
    return numbers is None or (int(numbers[1]), int(numbers[2])) > _NO_PAGE_COMPRESSION


def grows_bytes(parameters: InsertParameters) -> int:
    """Return what the table may take on the disk at most."""
    return parameters.table_rows * _MOST_BYTES_PER_ROW + _GROWN_AHEAD_BYTES


def dataset(parameters: InsertParameters) -> Recipe:
    """Return the recipe of an empty schema, in pages of the size asked for."""
    redo = oltp.redo_settings(parameters.sysbench_rows)
    empty = {"rows": 0, "data_bytes": 0, "index_bytes": 0}
    return Recipe(
        name=f"empty-{parameters.page_kib}k",
        spec={"page_kib": parameters.page_kib, "redo": redo, "recipe": 1},
        size_bytes=oltp.SYSTEM_BYTES + oltp.redo_bytes(parameters.sysbench_rows),
        expected=empty,
        load=_create_schema,
        verify=lambda _server: empty,
        settings=redo,
        made_with={"innodb_page_size": parameters.page_kib * 1024},
    )


def _create_schema(server: Server, _say: Say) -> None:
    server.query(f"CREATE DATABASE {sysbench.SCHEMA}")


def settings(parameters: InsertParameters, arm: Arm, _facts: Facts) -> dict[str, Any]:
    """Return the server variables of an arm; the pool is rounded to whole chunks."""
    # Each has pages of its own in the pool. Today's server has 128 twice, which are 1 % of the
    # original's pool and would be more than all of a small one.
    rollback = max(_LEAST_ROLLBACK_SEGMENTS, int(128 * parameters.knee_bytes / KNEE_BYTES))
    return {
        **oltp.pool_settings(POOLS[arm.pool], int(parameters.knee_bytes)),
        **oltp.flushing_settings(),
        **oltp.scaled_settings(parameters.sysbench_rows),
        **oltp.redo_settings(parameters.sysbench_rows),
        "innodb_flush_log_at_trx_commit": parameters.flush_log_at_trx_commit,
        "innodb_page_size": parameters.page_kib * 1024,
        "loose_innodb_rollback_segments": rollback,
        "loose_innodb_undo_logs": rollback,
        # Or 5.6 warns, and builds a table that is not compressed.
        "innodb_strict_mode": "ON",
        "loose_innodb_file_format": "Barracuda",
        "innodb_compression_level": 6,
        "max_connections": parameters.threads + 50,
    }
