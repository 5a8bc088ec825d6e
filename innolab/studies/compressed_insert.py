"""Does a compressed table carry on inserting where a plain one outgrows memory? (S1, study C)."""

import contextlib
import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pydantic import Field, field_validator, model_validator

from innolab.analysis import growth
from innolab.loads import inserting, oltp, sysbench
from innolab.loads.insert import Load, Table
from innolab.loads.trial import Bench
from innolab.mysql import builds, datasets
from innolab.mysql.server import Server
from innolab.record.journal import Checkpoint, Pace
from innolab.record.study import Bounds, Factors, Needs, Parameters, Study, Trial, exactly
from innolab.storage.profiles import HOST, profiles

# S1: throughput of the plain table falls at 70 million rows, whose data file is about 5 GB.
KNEE_MROWS, COMPRESSED_KNEE_MROWS = 70, 90
KNEE_BYTES = 5_000_000_000
ROW_BYTES = KNEE_BYTES / (KNEE_MROWS * 10**6)
# S1 inserted 200 million rows and drew 130 million of them, beyond which it claims nothing.
END_MROWS = {"smoke": 130, "quick": 130, "paper": 200}
# The pools of the small scales are 5 and 8 MiB and their doubles: the least that servers take, and
# one in which a server's own pages are few.
ROWS = {"smoke": 171_000, "quick": 274_000, "paper": 200_000_000}
# The seed's pools over its 5 GB at the knee.
POOLS = {"4G": 4 / 5, "8G": 8 / 5}
# Pauses at the end of a segment are not measured, but let the server flush: none at quick, where
# they would be a part of the whole.
SEGMENTS = {"smoke": 2, "quick": 1, "paper": 40}
PERIOD_S = {"smoke": 0.1, "quick": 0.1, "paper": 1.0}
CAPPED = "cap-write-20mb"
# What a table may take on the disk at most: shuffled keys, pages half full, files grown ahead.
_MOST_BYTES_PER_ROW, _GROWN_AHEAD_BYTES = 150, 64 * oltp.MIB
_LEAST_ROLLBACK_SEGMENTS = 4
# Page compression came with 5.7.8.
_NO_PAGE_COMPRESSION = (5, 6)


class InsertParameters(Parameters):
    """The common parameters, the table's and the load's."""

    rows: int | None = Field(default=None, ge=100_000, le=2_000_000_000)
    threads: int = Field(default=30, ge=1, le=1000)
    rows_per_statement: int = Field(default=1, ge=1, le=1000)
    random_share: float = Field(default=0.5, ge=0, le=1)
    key_block_kib: int = 4
    page_kib: int = 16
    devices: list[str] = Field(default=[HOST, CAPPED], min_length=1)
    flush_log_at_trx_commit: int = Field(default=2, ge=0, le=2)
    segments: int | None = Field(default=None, ge=1, le=1000)
    keep_failed: bool = False

    @field_validator("devices")
    @classmethod
    def _known_devices(cls, names: list[str]) -> list[str]:
        known = [HOST, *profiles()]
        if unknown := [name for name in names if name not in known]:
            raise ValueError(f"names '{unknown[0]}'; the devices are {', '.join(known)}")
        if len(set(names)) < len(names):
            raise ValueError("names a device twice")
        return names

    @field_validator("page_kib")
    @classmethod
    def _pages_that_compress(cls, size: int) -> int:
        if size not in (4, 8, 16):
            raise ValueError("is none of 4, 8 and 16, the pages that InnoDB can compress")
        return size

    @field_validator("key_block_kib")
    @classmethod
    def _key_blocks(cls, size: int) -> int:
        if size not in (1, 2, 4, 8, 16):
            raise ValueError("is none of 1, 2, 4, 8 and 16, the values of KEY_BLOCK_SIZE")
        return size

    @model_validator(mode="after")
    def _block_in_page(self) -> "InsertParameters":
        if self.key_block_kib > self.page_kib:
            raise ValueError(
                f"KEY_BLOCK_SIZE {self.key_block_kib} is larger than a page of {self.page_kib} KiB"
            )
        return self


def rows_of(parameters: InsertParameters) -> int:
    """Return the rows of a whole run: as asked or as the scale has it, in whole statements."""
    rows = parameters.rows or ROWS[parameters.scale]
    return rows // parameters.rows_per_statement * parameters.rows_per_statement


def rows_per_mrow(parameters: InsertParameters) -> float:
    """Return the rows that stand for a million of the original's."""
    return rows_of(parameters) / END_MROWS[parameters.scale]


def knee_bytes(parameters: InsertParameters) -> float:
    """Return the data that stand for the original's 5 GB at its knee."""
    return KNEE_MROWS * rows_per_mrow(parameters) * ROW_BYTES


def edges_mrows(parameters: InsertParameters) -> list[int]:
    """Return the edges of the curves' bins, in millions of the original's rows."""
    return list(range(0, END_MROWS[parameters.scale] + 1, growth.BIN_MROWS))


def segments_of(parameters: InsertParameters, keys: str) -> list[int]:
    """Return the rows of each segment, whole statements.

    Shuffled keys have one: the last rows of a table are nowhere in it, so what came after a
    checkpoint could not be told apart.
    """
    number = 1 if keys == "shuffled" else parameters.segments or SEGMENTS[parameters.scale]
    statements = rows_of(parameters) // parameters.rows_per_statement
    each, rest = divmod(statements, number)
    counts = [each + (place < rest) for place in range(number)]
    return [count * parameters.rows_per_statement for count in counts if count]


def spec(parameters: InsertParameters) -> dict[str, Any]:
    """Return what all arms share."""
    names = ("threads", "rows_per_statement", "random_share", "key_block_kib", "page_kib",
             "flush_log_at_trx_commit")  # fmt: skip
    return {
        **{name: getattr(parameters, name) for name in names},
        "rows": rows_of(parameters),
        "end_mrows": END_MROWS[parameters.scale],
        "segments": segments_of(parameters, "auto"),
        "devices": {n: profiles()[n].limits() for n in parameters.devices if n != HOST},
    }


def arms(parameters: InsertParameters, build: str) -> list[Factors]:
    """Return the arms on one build."""
    return [
        {
            "server": build,
            "case": f"{device}/{form}/{keys}/{pool}",
            "device": device,
            "format": form,
            "keys": keys,
            "pool_ratio": POOLS[pool],
        }
        for device in parameters.devices
        for form, keys, pool in _cases(device, parameters)
        if form != "page" or _compresses_pages(build)
    ]


def _cases(device: str, parameters: InsertParameters) -> list[tuple[str, str, str]]:
    """Return formats, keys and pools on a device.

    A second device has the arms that its hypothesis needs, and more where there is time. Never
    shuffled keys: on writes capped at 20 MB a second, two hundred million of them take a day.
    """
    seeds = [(form, "auto", pool) for pool in POOLS for form in ("plain", "compressed")]
    ours = [("plain", "shuffled", "4G"), ("page", "auto", "4G")]
    first, paper = device == parameters.devices[0], parameters.scale == "paper"
    if parameters.scale == "smoke":
        return seeds[:2] if first else []
    if first:
        return [*seeds, *ours, *([("compressed", "shuffled", "4G")] if paper else [])]
    return [*(seeds if paper else seeds[:2]), ours[1]]


def _compresses_pages(build: str) -> bool:
    """Return whether a build has COMPRESSION of pages, by the version in its name."""
    numbers = re.search(r"-(\d+)\.(\d+)", build)
    return numbers is None or (int(numbers[1]), int(numbers[2])) > _NO_PAGE_COMPRESSION


def needs(parameters: InsertParameters) -> Needs:
    """Return the largest pool with the server's overhead, and the disk of the largest table."""
    table = rows_of(parameters) * _MOST_BYTES_PER_ROW + _GROWN_AHEAD_BYTES
    whole = dataset(parameters).size_bytes + table
    emulated = any(device != HOST for device in parameters.devices)
    # One table at a time, of whichever build.
    here = whole // len(parameters.builds) if HOST in parameters.devices else 0
    return Needs(
        memory_bytes=int(knee_bytes(parameters) * max(POOLS.values())) + oltp.SERVER_OVERHEAD_BYTES,
        disk_bytes_per_build=dataset(parameters).size_bytes + here,
        emulated_bytes=int(whole * 1.3) + 400 * oltp.MIB if emulated else 0,
    )


def dataset(parameters: InsertParameters) -> datasets.Recipe:
    """Return the recipe of an empty schema, in pages of the size asked for."""
    redo = oltp.redo_settings(_sysbench_rows(parameters))
    return datasets.Recipe(
        name=f"empty-{parameters.page_kib}k",
        spec={"page_kib": parameters.page_kib, "redo": redo, "recipe": 1},
        size_bytes=oltp.SYSTEM_BYTES + oltp.redo_bytes(_sysbench_rows(parameters)),
        load=lambda server, _say: _schema(server),
        verify=lambda _server: {"rows": 0, "data_bytes": 0, "index_bytes": 0},
        settings=redo,
        made_with={"innodb_page_size": parameters.page_kib * 1024},
    )


def _schema(server: Server) -> None:
    server.query(f"CREATE DATABASE {sysbench.SCHEMA}")


def _sysbench_rows(parameters: InsertParameters) -> int:
    """Return how many rows of the other studies' table are as much data as that at the knee."""
    return int(knee_bytes(parameters) / oltp.BYTES_PER_ROW)


def settings(
    parameters: InsertParameters, factors: Factors, _facts: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the server variables of an arm; the pool is rounded to whole chunks."""
    alike = _sysbench_rows(parameters)
    return {
        **oltp.pool_settings(float(factors["pool_ratio"]), int(knee_bytes(parameters))),
        **oltp.flushing_settings(),
        **oltp.scaled_settings(alike),
        **oltp.redo_settings(alike),
        "innodb_flush_log_at_trx_commit": parameters.flush_log_at_trx_commit,
        "innodb_page_size": parameters.page_kib * 1024,
        "loose_innodb_rollback_segments": _rollback_segments(parameters),
        "loose_innodb_undo_logs": _rollback_segments(parameters),
        # Or 5.6 warns, and builds a table that is not compressed.
        "innodb_strict_mode": "ON",
        "loose_innodb_file_format": "Barracuda",
        "innodb_compression_level": 6,
        "max_connections": parameters.threads + 50,
    }


def _rollback_segments(parameters: InsertParameters) -> int:
    """Return how many a server uses by turns, each with pages of its own in the pool.

    Today's has 256, which are 1 % of the original's pool and would be more than all of a small one.
    """
    return max(_LEAST_ROLLBACK_SEGMENTS, int(128 * knee_bytes(parameters) / KNEE_BYTES))


def refuses(build: builds.Build) -> str | None:
    """Return why a build cannot have the seed's table, or None.

    Up to 5.7 partitioning was a part that a build could lack; since then InnoDB has it.
    """
    if build.version.startswith("5.") and builds.lacks(build, frozenset({"partition"})):
        return "it was compiled without partitioning, which the seed's table needs"
    return None


def trial(bench: Bench, trial: Trial) -> dict[str, Any]:
    """Insert all rows, and return what that gave and cost against the rows inserted."""
    parameters: InsertParameters = bench.parameters
    keys, pool_ratio = str(trial.factors["keys"]), float(trial.factors["pool_ratio"])
    table = Table(str(trial.factors["format"]), parameters.key_block_kib, parameters.page_kib)
    load = Load(
        parameters.threads,
        parameters.rows_per_statement,
        keys,
        parameters.random_share,
        seed=(parameters.seed + trial.position) % 2**20 * 1000,
    )
    bench.note("load", asdict(load))
    sizes = segments_of(parameters, keys)
    asked = settings(parameters, trial.factors, bench.dataset_facts)
    period_s = PERIOD_S[parameters.scale]
    pace = Pace(sum(sizes), bench.say)
    with contextlib.ExitStack() as stack:
        server, done = inserting.opened(stack, bench, asked, pace, period_s)
        if not done.rows:
            table.create(server)
        inserting.run_in(bench, server, load, oltp.redo_bytes(_sysbench_rows(parameters)))
        pace.begin(done.rows)
        with bench.site.limited():
            done = inserting.inserted(bench, server, table, load, sizes, done)
        found = inserting.physical(bench, server, table, sum(sizes))
    grown = growth.measured(done, edges_mrows(parameters), rows_per_mrow(parameters))
    at_knee = _data_at_knee(parameters, pool_ratio, {**grown, **found})
    return {**grown, **found, "knee_data_ratio": at_knee}


def _data_at_knee(
    parameters: InsertParameters, pool_ratio: float, metrics: Mapping[str, Any]
) -> float:
    """Return the data over the pool where the curve falls, by the bytes that rows take at last."""
    rows = metrics["knee_mrows"] * rows_per_mrow(parameters)
    return float(rows * metrics["leaf_bytes_per_row"] / (pool_ratio * knee_bytes(parameters)))


def recorded(parameters: InsertParameters, factors: Factors) -> dict[str, Any]:
    """Return the conditions that follow from parameters and levels."""
    names = ("threads", "rows_per_statement", "random_share")
    return {
        "device": {"name": factors["device"]},
        "load": {"keys": factors["keys"], **{name: getattr(parameters, name) for name in names}},
        "table": {"format": factors["format"], "key_block_kib": parameters.key_block_kib},
    }


def evidence(run: Any, series: Any) -> dict[str, Bounds]:
    """Return the metrics that follow from the table's files, and those that the series gives.

    A run that was resumed has the series of its last session alone, and one of an older innolab
    does not say which samples are of a segment.
    """
    segments, table = run.conditions["segments"], run.conditions["table"]["partitions"]
    rows = sum(one["rows"] for one in segments)
    found = {
        f"{name}_per_row": exactly(sum(one[name] for one in table) / rows)
        for name in ("file_bytes", "allocated_bytes")
    }
    if run.conditions["pieces"]["resumed_at_rows"] or run.is_older:
        return found
    samples = [
        series[series["t_s"].between(one["from_s"], one["to_s"])].to_dict("records")
        for one in segments
    ]
    edges = range(0, growth.BIN_MROWS * len(run.metrics["curve_per_s"]) + 1, growth.BIN_MROWS)
    grown = growth.measured(
        Checkpoint(rows=rows, segments=segments, samples=samples), edges, rows / edges[-1]
    )
    numbers = {name: value for name, value in grown.items() if not isinstance(value, list)}
    return found | {name: exactly(value) for name, value in numbers.items()}


STUDY = Study(
    name="compressed-insert",
    title="Does a compressed table outlast a plain one?",
    question="How do inserts into a plain and a compressed table go on as they outgrow memory?",
    parameters=InsertParameters,
    revision=1,
    replicates={"smoke": 1, "quick": 3, "paper": 3},
    variables={
        "pool_ratio": frozenset({"innodb_buffer_pool_size", "innodb_buffer_pool_chunk_size"}),
        "device": frozenset(),
        "format": frozenset(),
        "keys": frozenset(),
    },
    needed_variables=frozenset(
        {"innodb_buffer_pool_instances", "innodb_flush_method", "innodb_compression_level"}
    ),
    spec=spec,
    arms=arms,
    needs=needs,
    dataset=dataset,
    settings=settings,
    recorded=recorded,
    evidence=evidence,
    trial=trial,
    checks=(
        "debug build",
        "effective settings",
        "row format as asked",
        "in one piece",
        "device as its profile",
        "load without errors",
        "load generator idle enough",
        "swap",
        "steal",
        "other load",
        "error log",
    ),
    tools=("sysbench", "fio", "mkfs.xfs"),
    devices=lambda parameters: parameters.devices,
    calibration_s={"smoke": 0.3, "quick": 1.0, "paper": 10.0},
    refuses=refuses,
    metrics=("early_per_s", "late_per_s", "all_per_s"),
)
