"""Full table scan with one and with several buffer pool instances (seed S3, study F)."""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator

from innolab.analysis import checks
from innolab.analysis.checks import USUAL
from innolab.analysis.doubts import kernel_share
from innolab.analysis.evidence import Check, Evidence, Finding
from innolab.base.errors import InnolabError
from innolab.bench import passes
from innolab.bench.sql import Cost
from innolab.bench.trial import Bench
from innolab.mysql.datasets import Recipe
from innolab.mysql.server import Server
from innolab.record.plan import Blocks
from innolab.record.run import Level, Observation
from innolab.storage.profiles import HOST
from innolab.studies.multi_buffer_pool import evidence, table
from innolab.studies.multi_buffer_pool.table import BYTES_PER_ROW, SCAN
from innolab.studies.parameters import ByEffort, ByScale, Devices, Parameters, Rows
from innolab.studies.study import Arm, Facts, Study

MIB = 1024**2
ORIGINAL_ROWS = 10_000_000
# Half the original: below it the 2 GiB pool would scale under 1 GiB, where every server silently
# sets one instance, and the arm with eight would measure one.
ROWS_STEP = 5_000_000
# The seed's pools, at its number of rows.
POOLS = {"128M": 128 * MIB, "256M": 256 * MIB, "2G": 2048 * MIB}
CASES = [("128M", 1, "fsync"), ("256M", 1, "fsync"), ("2G", 8, "fsync"), ("2G", 1, "fsync"),
         ("256M", 1, "O_DIRECT")]  # fmt: skip
# What is in the pool before a scan: nothing, or pages in use; and how long a page that a scan reads
# must have been in it before a second access counts, in milliseconds.
OLD_BLOCKS_MS = {"nothing": 1000, "hot pages": 1000, "hot pages, 0 ms": 0}
HOT_CASE = ("256M", 1, "fsync")
# Half way, in ratio, between the fastest published debug scan (10,000,000 rows in 56.77 s, so
# 176,000 a second) and the slowest published corrected one (6.86 s, so 1,458,000): see S3.
ROWS_PER_S_FLOOR = 500_000


def _whole_steps(rows: int | None) -> int | None:
    if rows is not None and rows % ROWS_STEP:
        raise ValueError(
            f"must be a multiple of {ROWS_STEP:,}, so that every pool keeps its ratio to the "
            "data and the one with eight instances holds at least 1 GiB"
        )
    return rows


class ScanParameters(Parameters):
    """The common parameters; every pool scales with the number of rows.

    Attributes
    ----------
    rows : the rows of the table, in steps of 5,000,000: a smaller pool would have one instance
    devices : devices, or host; the first has all cases, the others the scans by the page cache
    """

    ROWS: ClassVar = ByScale(ROWS_STEP, ROWS_STEP, ORIGINAL_ROWS)
    rows: Annotated[Rows, AfterValidator(_whole_steps)] = None
    devices: Devices = [HOST, "s3-disk"]


def pool_bytes(rows: int, pool: str) -> int:
    """Return the size of one of the seed's pools beside a table of some rows."""
    return POOLS[pool] * rows // ORIGINAL_ROWS


def keep(parameters: ScanParameters, arm: Arm) -> bool:
    """Return whether an arm is measured.

    A second device has the cold scans through the page cache: there the device's time outweighs
    what the host's memory costs.
    """
    case = arm.pool, arm.instances, arm.flush_method
    is_first = arm.device == parameters.devices[0]
    if arm.beside != "nothing":
        return is_first and case == HOT_CASE
    return case in CASES and (is_first or arm.flush_method == "fsync")


def settings(parameters: ScanParameters, arm: Arm, _facts: Facts) -> dict[str, Any]:
    """Return the server variables of an arm."""
    return {
        "innodb_buffer_pool_size": pool_bytes(parameters.table_rows, arm.pool),
        "innodb_buffer_pool_instances": arm.instances,
        "innodb_flush_method": arm.flush_method,
        "innodb_old_blocks_time": OLD_BLOCKS_MS[arm.beside],
        # Smaller than the smallest pool, so that the server need not adapt it to the pool.
        "loose_innodb_buffer_pool_chunk_size": 64 * MIB,
    }


def trial(bench: Bench, arm: Arm) -> Iterator[Observation]:
    """Start cold and scan twice, as the seed did; or once beside pages that are in use."""
    pool = pool_bytes(bench.dataset_facts["rows"], arm.pool)
    asked = settings(bench.parameters, arm, bench.dataset_facts)
    with bench.cold_server(asked) as server, bench.site.limited():
        bench.note("scan_plan", server.explain(SCAN))
        if arm.beside == "nothing":
            costs = [_scan(bench, server, {"pass": number}) for number in (1, 2)]
        else:
            yield _beside_hot_pages(bench, server, pool)
            return
    for number, cost in enumerate(costs, 1):
        yield from _observed(number, cost, bench.dataset_facts["rows"])
    read = [cost.pages_read for cost in costs]
    yield {"pool_kept_ratio": evidence.pool_kept_ratio(read, pool)}


def _beside_hot_pages(bench: Bench, server: Server, pool: int) -> Observation:
    hot = table.hot_pages(bench.dataset_facts, pool)
    with bench.clock.stage("warm-up"):
        used = hot.use(bench, server)
    cost = _scan(bench, server, {}, evidence.SCAN)
    with bench.clock.stage("warm-up"):
        return {"cpu_s": cost.cpu_s, **hot.kept(bench, server, used)}


def _scan(
    bench: Bench, server: Server, within: dict[str, Level], what: str = passes.STATEMENT
) -> Cost:
    rows = bench.dataset_facts["rows"]
    with bench.clock.stage(passes.STAGE):
        answer, cost = passes.timed(bench, server, SCAN, what, within)
    if (counted := answer[0][0]) != rows:
        raise InnolabError(f"The scan counted {counted:,} rows of {rows:,}.")
    return cost


def _observed(number: int, cost: Cost, rows: int) -> Iterator[Observation]:
    yield {"pass": number, "rows_per_s": rows / cost.seconds, **cost.metrics()}
    for instance, pages in enumerate(cost.pages_read_by_instance):
        yield {"pass": number, "instance": instance, "instance_pages_read": pages}


def rows_floor(evidence: Evidence) -> Finding:
    """Prevents a debug build that hides it; CPU seconds leave slow disks out of it."""
    rows = evidence.conditions["dataset"]["rows"]
    taken = [row["cpu_s"] for row in evidence.observations if "cpu_s" in row]
    slowest = min(rows / max(cpu_s, 0.01) for cpu_s in taken)
    floor = evidence.bounds["least_per_s"]
    says = f"{slowest:,.0f} rows a CPU second in the slower pass; floor {floor:,.0f}"
    return ("ok" if slowest >= floor else "invalid"), says


def dataset(parameters: ScanParameters) -> Recipe:
    """Return the seed's table as a recipe."""
    return table.recipe(parameters.table_rows)


STUDY = Study(
    title="A full scan and several buffer pool instances",
    question="Does a large buffer pool, or one split into instances, make a full scan slower?",
    parameters=ScanParameters,
    factors=lambda parameters: {
        "device": parameters.devices,
        "pool": list(POOLS),
        "instances": [1, 8],
        "flush_method": ["fsync", "O_DIRECT"],
        "beside": list(OLD_BLOCKS_MS),
    },
    keep=keep,
    control={"pool": "2G", "instances": 1, "beside": "nothing"},
    within={"pass": [1, 2], "instance": list(range(8))},
    main=("pass",),
    metrics=evidence.METRICS,
    compared={"seconds": ("pass",)},
    blocks=ByEffort(Blocks(1, 1), Blocks(3, 5), Blocks(3, 12)),
    dataset=dataset,
    settings=settings,
    trial=trial,
    checks=(*USUAL, "rows per second", "pool not preloaded", "cold", "full scan",
            "memory held", "bytes really read", "kernel share", "device as its profile"),
    own_checks={"rows per second": Check(rows_floor, {"least_per_s": ROWS_PER_S_FLOOR}),
                "bytes really read": checks.read_from_disk(**{"pass": 1}),
                "kernel share": checks.kernel_share(**{"pass": 1})},
    doubts=(kernel_share(**{"pass": 1}),),
    variables={
        "device": (),
        "beside": {"innodb_old_blocks_time"},
        "pool": {"innodb_buffer_pool_size"},
        "instances": {"innodb_buffer_pool_instances"},
        "flush_method": {"innodb_flush_method"},
    },
    needed_variables=("innodb_buffer_pool_instances", "innodb_flush_method"),
    tools=("fio", "mkfs.xfs"),
    calibration_s=ByScale(0.3, 1.0, 10.0),
    copies=1,
    # With the table in the page cache: without room for it the second pass of the small pools
    # would be one from disk.
    beside_bytes=lambda parameters: 500 * MIB + parameters.table_rows * BYTES_PER_ROW,
)  # fmt: skip
