"""Full table scan with one and with several buffer pool instances (seed S3, study F)."""

from collections.abc import Iterator

from innolab.analysis import checks, doubts
from innolab.analysis.evidence import Check, Evidence, Finding
from innolab.base.errors import InnolabError
from innolab.bench import passes
from innolab.bench.passes import Cost
from innolab.bench.trial import Bench
from innolab.mysql.server import Server
from innolab.record.plan import Blocks
from innolab.record.run import Level, Observation
from innolab.studies.kind import named, timed_passes
from innolab.studies.multi_buffer_pool import evidence, in_turn, table
from innolab.studies.multi_buffer_pool.parameters import (
    IN_TURN,
    MIB,
    OLD_BLOCKS_MS,
    POOLS,
    ScanParameters,
    keep,
    pool_bytes,
    settings,
)
from innolab.studies.multi_buffer_pool.table import BYTES_PER_ROW, SCAN
from innolab.studies.parameters import ByEffort
from innolab.studies.study import Arm, Demands, Design, Study

# Half way, in ratio, between the fastest published debug scan (10,000,000 rows in 56.77 s, so
# 176,000 a second) and the slowest published corrected one (6.86 s, so 1,458,000): see S3.
ROWS_PER_S_FLOOR = 500_000
COLD: dict[str, Level] = {"pass": 1}


def trial(bench: Bench, arm: Arm) -> Iterator[Observation]:
    """Start cold and scan twice, as the seed did; or once beside pages that are in use.

    Or scan from memory, in turn with a second server.
    """
    if arm.beside in IN_TURN:
        yield from in_turn.trial(bench, arm)
        return
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
    hot = table.HotPages.of_pool(bench.dataset_facts, pool)
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


STUDY = Study(
    title="A full scan and several buffer pool instances",
    question="Does a large buffer pool, or one split into instances, make a full scan slower?",
    parameters=ScanParameters,
    factors=lambda parameters: {
        "device": parameters.devices,
        "pool": list(POOLS),
        "instances": [1, 8],
        "flush_method": ["fsync", "O_DIRECT"],
        "beside": [*OLD_BLOCKS_MS, *IN_TURN],
    },
    keep=keep,
    kind=timed_passes(
        {"pass": [1, 2], "instance": list(range(8)), "side": in_turn.SIDES},
        cold=COLD,
        metrics=evidence.METRICS,
        checks={
            **named("full scan"),
            "rows per second": Check(rows_floor, {"least_per_s": ROWS_PER_S_FLOOR}),
            "kernel share": checks.kernel_share(**COLD),
        },
        doubts=(doubts.kernel_share(**COLD), in_turn.unlike_itself),
        variables={
            "beside": {"innodb_old_blocks_time"},
            "pool": {"innodb_buffer_pool_size"},
            "instances": {"innodb_buffer_pool_instances"},
            "flush_method": {"innodb_flush_method"},
        },
    ),
    dataset=lambda parameters: table.recipe(parameters.table_rows),
    settings=settings,
    trial=trial,
    design=Design(
        blocks=ByEffort(Blocks(1, 1), Blocks(3, 5), Blocks(3, 12)),
        control={"pool": "2G", "instances": 1, "beside": "nothing"},
    ),
    demands=Demands(
        tools=("fio", "mkfs.xfs"),
        variables=("innodb_buffer_pool_instances", "innodb_flush_method"),
        # With the table in the page cache: without room for it the second pass of the small pools
        # would be one from disk. All of it twice, for servers in turn.
        extra_bytes=lambda parameters: (
            2 * (500 * MIB + parameters.table_rows * BYTES_PER_ROW)
            + pool_bytes(parameters.table_rows, "2G")
            if parameters.in_turn or parameters.scale == "paper"
            else 500 * MIB + parameters.table_rows * BYTES_PER_ROW
        ),
    ),
)
