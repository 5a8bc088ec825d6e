"""Scan, or lookups through an index? Study G of the seeds: an SSD and SQL Server, 2009."""

from collections.abc import Iterator
from typing import Any

from innolab.analysis.bounds import Bound, Metric, Record, exactly
from innolab.analysis.evidence import Check, Evidence, Finding
from innolab.base.errors import InnolabError
from innolab.bench import oltp, passes
from innolab.bench.trial import Bench
from innolab.record.plan import Blocks
from innolab.record.run import Observation
from innolab.studies.access_paths import fragments, table
from innolab.studies.access_paths.parameters import (
    LAYOUTS,
    POOLS,
    AccessParameters,
    all_shares,
    keep,
)
from innolab.studies.kind import timed_passes
from innolab.studies.parameters import ByEffort
from innolab.studies.study import Arm, Demands, Design, Facts, Study

# The disk's file system may cut a file where one of its groups ends.
EXTENTS = {"most_as_loaded": 50, "least_scattered": 500}


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
    layout, extents = (evidence.conditions["file"][name] for name in ("layout", "extents"))
    most, least = (evidence.bounds[name] for name in EXTENTS)
    is_so = extents >= least if layout == "scattered" else extents <= most
    return ("ok" if is_so else "invalid"), f"the file lies in {extents:,} pieces"


STUDY = Study(
    title="A scan, or lookups through an index?",
    question="From which share of the rows is a scan cheaper than lookups, on disks and on flash?",
    parameters=AccessParameters,
    factors=lambda parameters: {
        "device": parameters.measured_of(parameters.devices),
        "layout": LAYOUTS,
        "path": list(table.PATHS),
        "share": all_shares(parameters.devices),
        "pool_ratio": POOLS,
    },
    keep=keep,
    kind=timed_passes(
        {"cache": ["cold", "warm"]},
        cold={"cache": "cold"},
        metrics={**passes.METRICS, "rows": Metric("rows", [counted_rows])},
        checks={"query plan": Check(query_plan), "file layout": Check(file_layout, EXTENTS)},
        variables={"pool_ratio": oltp.POOL_VARIABLES},
    ),
    dataset=lambda parameters: table.recipe(parameters.table_rows),
    settings=settings,
    trial=trial,
    design=Design(
        blocks=ByEffort(Blocks(1, 1), Blocks(3, 3), Blocks(5, 12)),
        control={"path": "scan", "layout": "as loaded", "pool_ratio": POOLS["quarter"]},
    ),
    demands=Demands(tools=("fio", "mkfs.xfs")),
)
