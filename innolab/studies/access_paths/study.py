"""Scan, or lookups through an index? Study G of the seeds: an SSD and SQL Server, 2009."""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator

from innolab.analysis import checks
from innolab.analysis.bounds import Bound, Metric, Record, exactly
from innolab.analysis.checks import USUAL
from innolab.analysis.evidence import Check, Evidence, Finding
from innolab.base.errors import InnolabError
from innolab.bench import oltp, passes
from innolab.bench.trial import Bench
from innolab.mysql.datasets import Recipe
from innolab.record.plan import Blocks
from innolab.record.run import Observation
from innolab.storage.profiles import HOST, profiles
from innolab.studies.access_paths import fragments, table
from innolab.studies.parameters import ByEffort, ByScale, Devices, Parameters, Rows
from innolab.studies.study import Arm, Facts, Study

# Shares of the rows. Where rows lie at random a disk needs a turn for each, so it gets fewer.
SHARES = {"scan": (1.0,), "covering": (1.0,), "range": (0.1,), "near": (0.1, 1.0)}
FAR = {"disk": {"far": (0.0003, 0.001, 0.003), "far, MRR": (0.001, 0.003)},
       "flash": {"far": (0.001, 0.01, 0.1), "far, MRR": (0.01, 0.1)}}  # fmt: skip
POOLS = {"quarter": 0.25, "all": 1.5}
LAYOUTS = ("as loaded", "scattered")
# The disk's file system may cut a file where one of its groups ends.
EXTENTS = {"most_as_loaded": 50, "least_scattered": 500}


def _ten_thousands(rows: int | None) -> int | None:
    if rows is not None and rows % 10_000:
        raise ValueError("must be a multiple of 10,000, in which the table is loaded")
    return rows


class AccessParameters(Parameters):
    """The common parameters.

    Attributes
    ----------
    rows : the rows of the table, in steps of 10,000
    devices : devices, or host; at smoke the first and the last of them; the last is also asked
        with all data in memory
    """

    ROWS: ClassVar = ByScale(200_000, 600_000, 40_000_000)
    rows: Annotated[Rows, AfterValidator(_ten_thousands)] = None
    devices: Devices = ["15k-timed", "iodrive-80", HOST]


def _turns(device: str) -> bool:
    times = profiles()[device].times if device != HOST else None
    return times is not None and times.turn_s > 0


def paths(device: str) -> dict[str, tuple[float, ...]]:
    """Return the paths that are taken on a device, and the shares of the rows that each reads."""
    return {**SHARES, **FAR["disk" if _turns(device) else "flash"]}


def keep(parameters: AccessParameters, arm: Arm) -> bool:
    """Return whether an arm is measured; with a pool for all data only what reads all rows."""
    shares = paths(arm.device)[arm.path]
    if arm.share not in shares:
        return False
    if parameters.scale == "smoke" and (
        arm.path not in ("scan", "near", "far") or (arm.share, arm.pool_ratio) != (shares[-1], 0.25)
    ):
        return False
    if arm.layout == "scattered":
        return arm.path == "scan" and arm.pool_ratio == POOLS["quarter"]
    # From memory all devices are one.
    in_memory = arm.device == parameters.devices[-1] and arm.path in ("scan", "near")
    return arm.pool_ratio == POOLS["quarter"] or (in_memory and arm.share == 1)


def settings(parameters: AccessParameters, arm: Arm, facts: Facts) -> dict[str, Any]:
    """Return the server variables of an arm; no page gets past the pool."""
    return {
        **oltp.pool_settings(arm.pool_ratio, facts["data_bytes"] + facts["index_bytes"]),
        "innodb_flush_method": "O_DIRECT",
    }


def trial(bench: Bench, arm: Arm) -> Iterator[Observation]:
    """Read a share of the rows on a path from a cold start, and again."""
    rows = bench.dataset_facts["rows"]
    asked = settings(bench.parameters, arm, bench.dataset_facts)
    statement = table.statement(arm.path, arm.share, rows)
    with bench.clock.stage("cloning"):
        copy = bench.clone("scattered" if arm.layout == "scattered" else None, None)
        if arm.layout == "scattered":
            fragments.scatter(copy.data / table.FILE)
    extents = fragments.extents(copy.data / table.FILE)
    bench.note("file", {"layout": arm.layout, "extents": extents})
    with bench.cold_server(asked, copy) as server, bench.site.limited():
        table.choose(server, arm.path)
        bench.note("query_plan", {"path": arm.path, **server.explain(statement)})
        for cache in ("cold", "warm"):
            with bench.clock.stage("measured passes"):
                within = {"cache": cache}
                [(_, counted)], cost = passes.timed(bench, server, statement, within=within)
            if not 0.8 * arm.share * rows <= counted <= 1.2 * arm.share * rows:
                raise InnolabError(f"The statement read {counted:,} rows of {rows:,}.")
            yield {"cache": cache, "rows": counted, **cost.metrics()}


def counted_rows(record: Record) -> Iterator[Bound]:
    """Yield the bounds of the rows that a statement counts, which its keys decide."""
    factors, rows = record.run.factors, record.run.conditions["dataset"]["rows"]
    counted = table.counted(str(factors["path"]), float(factors["share"]), rows)
    for within, _ in record.rows("rows"):
        yield exactly(within, "rows", counted)


def query_plan(evidence: Evidence) -> Finding:
    """Prevents another path than the one that is asked for from being timed."""
    plan = evidence.conditions["query_plan"]
    fault = table.plan_fault(plan["path"], plan)
    return ("invalid", fault) if fault else ("ok", "EXPLAIN has the path that was asked for")


def file_layout(evidence: Evidence) -> Finding:
    """Prevents a file that the file system put together again from passing for a scattered one."""
    layout, found = (evidence.conditions["file"][name] for name in ("layout", "extents"))
    most, least = (evidence.bounds[name] for name in EXTENTS)
    is_so = found >= least if layout == "scattered" else found <= most
    return ("ok" if is_so else "invalid"), f"the file lies in {found:,} pieces"


def _all_shares(devices: list[str]) -> list[float]:
    return sorted(
        {share for name in devices for shares in paths(name).values() for share in shares}
    )


def dataset(parameters: AccessParameters) -> Recipe:
    """Return the table as a recipe."""
    return table.recipe(parameters.table_rows)


STUDY = Study(
    title="A scan, or lookups through an index?",
    question="From which share of the rows is a scan cheaper than lookups, on disks and on flash?",
    parameters=AccessParameters,
    factors=lambda parameters: {
        "device": parameters.measured_of(parameters.devices),
        "layout": LAYOUTS,
        "path": list(table.PATHS),
        "share": _all_shares(parameters.devices),
        "pool_ratio": POOLS,
    },
    keep=keep,
    control={"path": "scan", "layout": "as loaded", "pool_ratio": POOLS["quarter"]},
    within={"cache": ["cold", "warm"]},
    main=("cache",),
    metrics={**passes.METRICS, "rows": Metric("rows", [counted_rows])},
    compared={"seconds": ("cache",)},
    blocks=ByEffort(Blocks(1, 1), Blocks(3, 3), Blocks(5, 12)),
    dataset=dataset,
    settings=settings,
    trial=trial,
    checks=(*USUAL, "query plan", "file layout", "pool not preloaded", "cold", "memory held",
            "bytes really read", "device as its profile"),
    own_checks={"query plan": Check(query_plan), "file layout": Check(file_layout, EXTENTS),
                "bytes really read": checks.read_from_disk(cache="cold")},
    variables={"device": (), "layout": (), "path": (), "share": (),
               "pool_ratio": oltp.POOL_VARIABLES},
    tools=("fio", "mkfs.xfs"),
    calibration_s=ByScale(0.3, 1.0, 10.0),
)  # fmt: skip
