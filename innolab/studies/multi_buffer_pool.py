"""Full table scan with one and with several buffer pool instances (seed S3, study F)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import Field, field_validator

from innolab.base.errors import InnolabError
from innolab.loads import sql
from innolab.loads.trial import Bench
from innolab.mysql import datasets
from innolab.mysql.server import Server
from innolab.record.series import PERIOD_S
from innolab.record.study import Bounds, Factors, Needs, Parameters, Study, Trial, exactly

MIB = 1024**2
PAGE_BYTES = 16 * 1024
ORIGINAL_ROWS = 10_000_000
# Half the original: below it the 2 GiB pool would scale under 1 GiB, where every server silently
# sets one instance, and the arm with eight would measure one.
ROWS_STEP = 5_000_000
ROWS = {"smoke": ROWS_STEP, "quick": ORIGINAL_ROWS, "paper": ORIGINAL_ROWS}
# Measured for 10,000,000 rows: 1,378,877,440 B of data, as published, and up to 167 MB of index.
BYTES_PER_ROW = 155
SYSTEM_BYTES = 900 * MIB
SERVER_OVERHEAD_BYTES = 500 * MIB
# CPU time is counted in hundredths of a second, and each reading may be off by some of them.
_TICKS_S = 0.1
# Connecting and reading counters belong to the stage of the passes: some hundredths of a second,
# and more where all takes longer.
_AROUND_PASSES_S, _AROUND_PASSES_RATIO = 0.5, 0.05
# The server counts pages in all and by instance at two moments, and background threads read some.
_PAGES_BETWEEN, _PAGES_BETWEEN_RATIO = 64, 0.01

TABLE = (
    "CREATE TABLE innolab.t1 (c1 INTEGER PRIMARY KEY, c2 INTEGER, dummy CHAR(100)) "
    "ENGINE=InnoDB DEFAULT CHARSET=latin1"
)
SCAN = "SELECT COUNT(*) FROM innolab.t1 WHERE dummy='dummy'"
INDEX = "CREATE INDEX t1_c2_idx ON innolab.t1 (c2)"


@dataclass(frozen=True)
class Case:
    """One case of the seed, at its original size."""

    name: str
    pool_bytes: int
    instances: int
    flush_method: str


CASES = (
    Case("128M-1", 128 * MIB, 1, "fsync"),
    Case("256M-1", 256 * MIB, 1, "fsync"),
    Case("2G-8", 2048 * MIB, 8, "fsync"),
    Case("2G-1", 2048 * MIB, 1, "fsync"),
    Case("256M-1-direct", 256 * MIB, 1, "O_DIRECT"),
)


class ScanParameters(Parameters):
    """The common parameters, and the number of rows, with which every pool size scales."""

    rows: int | None = Field(default=None, ge=ROWS_STEP, le=1_000_000_000)

    @field_validator("rows")
    @classmethod
    def _whole_steps(cls, rows: int | None) -> int | None:
        if rows is not None and rows % ROWS_STEP:
            raise ValueError(
                f"must be a multiple of {ROWS_STEP:,}, so that every pool keeps its ratio to the "
                "data and the one with eight instances holds at least 1 GiB"
            )
        return rows


def rows_of(parameters: ScanParameters) -> int:
    """Return the number of rows: as asked, else as the scale has it."""
    return parameters.rows or ROWS[parameters.scale]


def spec(parameters: ScanParameters) -> dict[str, Any]:
    """Return what all arms share."""
    return {"rows": rows_of(parameters), "table": TABLE, "index": INDEX, "scan": SCAN}


def arms(parameters: ScanParameters, build: str) -> list[Factors]:
    """Return the five cases on one build, pools scaled with the rows."""
    return [
        {
            "server": build,
            "case": case.name,
            "buffer_pool_bytes": case.pool_bytes * rows_of(parameters) // ORIGINAL_ROWS,
            "buffer_pool_instances": case.instances,
            "flush_method": case.flush_method,
        }
        for case in CASES
    ]


def needs(parameters: ScanParameters) -> Needs:
    """Return the largest pool with the server's overhead and the table in the page cache beside it.

    Without room for the table the "memory" pass of the small pools would be one from disk.
    """
    rows = rows_of(parameters)
    largest = max(case.pool_bytes for case in CASES) * rows // ORIGINAL_ROWS
    table_bytes = rows * BYTES_PER_ROW
    return Needs(largest + SERVER_OVERHEAD_BYTES + table_bytes, 2 * (table_bytes + SYSTEM_BYTES))


def dataset(parameters: ScanParameters) -> datasets.Recipe:
    """Return the seed's table as a recipe."""
    rows = rows_of(parameters)
    return datasets.Recipe(
        name=f"scan-{rows}",
        spec={"rows": rows, "table": TABLE, "index": INDEX, "recipe": 1},
        size_bytes=rows * BYTES_PER_ROW + SYSTEM_BYTES,
        load=lambda server, say: load(server, rows, say),
        verify=lambda server: verify(server, rows),
        settings={"innodb_buffer_pool_size": 1024 * MIB},
    )


def load(server: Server, rows: int, say: datasets.Say) -> None:
    """Create the seed's table, fill it, and index c2."""
    server.query("CREATE DATABASE innolab")
    server.query(TABLE)
    fill(server, rows, say)
    say("building the index on c2")
    server.query(INDEX)
    server.query("ANALYZE TABLE innolab.t1")


def fill(server: Server, rows: int, say: datasets.Say) -> None:
    """Insert the seed's rows in the seed's order.

    The seed inserts (j + 1000 (i - 1), i + I (j - 1), 'dummy') for i = 1 .. I and j = 1 .. 1000
    by a stored procedure, a row at a time. The same rows come here from a cross join, in the same
    ascending order of the primary key on one connection, so that the pages fill alike.
    """
    numbers = ",".join(f"({n})" for n in range(1, 1001))
    server.query("CREATE TABLE innolab.digits (n INT PRIMARY KEY) ENGINE=InnoDB")
    server.query(f"INSERT INTO innolab.digits VALUES {numbers}")
    outer = rows // 1000
    step = 100
    for done in range(0, outer, step):
        say(f"loading {done * 1000:,} of {rows:,} rows")
        server.query(
            f"INSERT INTO innolab.t1 SELECT j.n + 1000 * (i.n - 1 + {done}), "
            f"i.n + {done} + {outer} * (j.n - 1), 'dummy' "
            "FROM innolab.digits i STRAIGHT_JOIN innolab.digits j "
            f"WHERE i.n <= {min(step, outer - done)} ORDER BY i.n, j.n"
        )
    server.query("DROP TABLE innolab.digits")


def verify(server: Server, rows: int) -> dict[str, Any]:
    """Check every row against the seed's formula and return the table's sizes.

    Raises
    ------
    InnolabError
        Where a row is missing, doubled or wrong.
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
    data, index = server.query(
        "SELECT data_length, index_length FROM information_schema.tables "
        "WHERE table_schema = 'innolab' AND table_name = 't1'"
    )[0]
    return {"rows": rows, "data_bytes": int(data), "index_bytes": int(index)}


def settings(
    _parameters: ScanParameters, factors: Factors, _facts: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the server variables of an arm."""
    return {
        "innodb_buffer_pool_size": str(factors["buffer_pool_bytes"]),
        "innodb_buffer_pool_instances": str(factors["buffer_pool_instances"]),
        "innodb_flush_method": str(factors["flush_method"]),
        # Smaller than the smallest pool, so that the server need not adapt it to the pool.
        "loose_innodb_buffer_pool_chunk_size": str(64 * MIB),
    }


def recorded(parameters: ScanParameters, _factors: Factors) -> dict[str, Any]:
    """Return the conditions that follow from the parameters."""
    return {"dataset": {"rows": rows_of(parameters)}}


def trial(bench: Bench, trial: Trial) -> dict[str, Any]:
    """Start cold and scan twice, as the seed did."""
    rows = bench.dataset_facts["rows"]
    asked = settings(bench.parameters, trial.factors, bench.dataset_facts)
    with bench.cold_server(asked) as server:
        bench.note("scan_plan", server.explain(SCAN))
        metrics: dict[str, Any] = {}
        for number in (1, 2):
            with bench.clock.stage("measured passes"):
                metrics |= _scan_pass(server, rows, f"pass{number}")
    return {**metrics, "pool_kept_ratio": _pool_kept(metrics, trial.factors)}


def _pool_kept(metrics: Mapping[str, Any], factors: Factors) -> float:
    """Return how much of the pool the second pass need not read again.

    Where the table is larger than the pool, that is what the pool kept through a scan larger than
    itself.
    """
    kept = metrics["pass1_pages_read"] - metrics["pass2_pages_read"]
    return float(kept / (int(factors["buffer_pool_bytes"]) // PAGE_BYTES))


def evidence(run: Any, series: Any) -> dict[str, Bounds]:
    """Return the metrics that follow from others, and those that the series bounds."""
    found = {"pool_kept_ratio": exactly(_pool_kept(run.metrics, run.factors))}
    cores = run.conditions["host"]["cores"]
    passes_s = run.conditions["time_s"]["measured passes"]
    # The last sample is taken a period before the end, or earlier where the host is busy.
    missed_s = cores * (PERIOD_S + max(0.0, passes_s - float(series["t_s"].iloc[-1])))
    sampled = {name: float(series[name].iloc[-1]) for name in ("mysqld_cpu_s", "mysqld_read_bytes")}
    for number, other in ((1, 2), (2, 1)):
        of = {name.removeprefix(f"pass{number}_"): value for name, value in run.metrics.items()}
        beside = run.metrics[f"pass{other}_mysqld_cpu_s"]
        alone_s = passes_s - run.metrics[f"pass{other}_s"]
        around_s = _AROUND_PASSES_S + _AROUND_PASSES_RATIO * passes_s
        by_instance = sum(of["pages_read_by_instance"])
        between = _PAGES_BETWEEN + _PAGES_BETWEEN_RATIO * by_instance
        found |= {
            f"pass{number}_s": (alone_s - around_s, alone_s),
            f"pass{number}_rows_per_s": exactly(run.conditions["dataset"]["rows"] / of["s"]),
            f"pass{number}_pages_read": (by_instance - between, by_instance + between),
            f"pass{number}_kernel_cpu_s": (0, of["mysqld_cpu_s"]),
            f"pass{number}_mysqld_cpu_s": (
                sampled["mysqld_cpu_s"] - beside - _TICKS_S,
                sampled["mysqld_cpu_s"] - beside + missed_s + _TICKS_S,
            ),
            f"pass{number}_read_bytes": (
                sampled["mysqld_read_bytes"] * 0.99 - run.metrics[f"pass{other}_read_bytes"],
                math.inf,
            ),
        }
    return found


def _scan_pass(server: Server, rows: int, prefix: str) -> dict[str, Any]:
    answer, cost = sql.timed(server, SCAN)
    if (counted := answer[0][0]) != rows:
        raise InnolabError(f"The scan counted {counted:,} rows of {rows:,}.")
    return {
        f"{prefix}_s": cost.seconds,
        f"{prefix}_rows_per_s": rows / cost.seconds,
        f"{prefix}_mysqld_cpu_s": round(cost.cpu_s, 2),
        f"{prefix}_kernel_cpu_s": round(cost.kernel_cpu_s, 2),
        f"{prefix}_read_bytes": cost.read_bytes,
        f"{prefix}_pages_read": cost.pages_read,
        f"{prefix}_pages_read_by_instance": cost.pages_read_by_instance,
    }


STUDY = Study(
    name="multi-buffer-pool",
    title="A full scan and several buffer pool instances",
    question="Does a large buffer pool, or one split into instances, make a full scan slower?",
    parameters=ScanParameters,
    revision=1,
    replicates={"smoke": 2, "quick": 7, "paper": 15},
    variables={
        "buffer_pool_bytes": frozenset({"innodb_buffer_pool_size"}),
        "buffer_pool_instances": frozenset({"innodb_buffer_pool_instances"}),
        "flush_method": frozenset({"innodb_flush_method"}),
    },
    needed_variables=frozenset({"innodb_buffer_pool_instances", "innodb_flush_method"}),
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
        "rows per second",
        "pool not preloaded",
        "cold",
        "effective settings",
        "full scan",
        "tables unchanged",
        "swap",
        "steal",
        "other load",
        "error log",
    ),
    metrics=("pass1_s", "pass2_s"),
)
