"""Does a compressed table continue inserting where a plain one outgrows memory? (S1, study C)."""

import contextlib
from collections.abc import Iterator
from dataclasses import asdict

from innolab.analysis.checks import LOAD_CHECKS, USUAL
from innolab.analysis.evidence import Check, Evidence, Finding
from innolab.bench import oltp
from innolab.bench.trial import Bench
from innolab.mysql import builds
from innolab.record.plan import Blocks
from innolab.record.run import Observation
from innolab.studies.compressed_insert import evidence, filling, growth, inserts
from innolab.studies.compressed_insert.filling import GrowthPace
from innolab.studies.compressed_insert.inserts import Load, Table
from innolab.studies.compressed_insert.parameters import (
    PERIOD_S,
    POOLS,
    InsertParameters,
    dataset,
    edges_mrows,
    grows_bytes,
    keep,
    segments_of,
    settings,
)
from innolab.studies.kind import Kind, named
from innolab.studies.parameters import ByEffort
from innolab.studies.study import Arm, Demands, Design, Study


def refuses(build: builds.Build) -> str | None:
    """Return why a build cannot have the seed's table, or None.

    Up to 5.7 a build could come without partitioning; since then InnoDB has it.
    """
    if build.version.startswith("5.") and builds.lacks(build, frozenset({"partition"})):
        return "it was compiled without partitioning, which the seed's table needs"
    return None


def trial(bench: Bench, arm: Arm) -> Iterator[Observation]:
    """Insert all rows, and yield what that gave and cost against the rows inserted."""
    parameters: InsertParameters = bench.parameters
    table = Table(arm.format, parameters.key_block_kib, parameters.page_kib)
    load = Load(
        parameters.threads,
        parameters.rows_per_statement,
        arm.keys,
        parameters.random_share,
        bench.seed,
    )
    bench.note("load", asdict(load))
    sizes = segments_of(parameters, arm.keys)
    asked = settings(parameters, arm, bench.dataset_facts)
    pace = GrowthPace(sum(sizes), bench.say)
    with contextlib.ExitStack() as stack:
        server, done = filling.opened(stack, bench, asked, pace, PERIOD_S.of(parameters))
        if not done.rows:
            table.create(server)
        filling.run_in(bench, server, load, oltp.redo_bytes(parameters.sysbench_rows))
        pace.begin(done.rows)
        with bench.site.limited():
            done = filling.inserted(bench, server, table, load, sizes, done)
        physical = filling.physical(bench, server, table, sum(sizes))
    *rows, whole = growth.measured(done, edges_mrows(parameters), parameters.rows_per_mrow)
    yield from rows
    whole |= physical
    knee = evidence.knee_data_ratio(whole, parameters.rows_per_mrow, arm.pool)
    yield {**whole, "knee_data_ratio": knee}


def row_format(evidence: Evidence) -> Finding:
    """Prevents a table that the server only called compressed: 5.6 may warn and build COMPACT."""
    table = evidence.conditions["table"]
    if wrong := inserts.faults(table["format"], table["key_block_kib"], table["partitions"]):
        return "invalid", wrong
    kinds = ", ".join(sorted({one["row_format"] for one in table["partitions"]}))
    return "ok", f"{len(table['partitions'])} partitions, {kinds}, as asked"


STUDY = Study(
    title="Does a compressed table outlast a plain one?",
    question="How do inserts into a plain and a compressed table continue as they outgrow memory?",
    parameters=InsertParameters,
    factors=lambda parameters: {
        "device": parameters.devices,
        "pool": list(POOLS),
        "format": ["plain", "compressed", "page"],
        "keys": ["auto", "shuffled"],
    },
    keep=keep,
    kind=Kind(
        metrics=evidence.METRICS,
        checks={
            **named(*(name for name in USUAL if name != "tables unchanged"), *LOAD_CHECKS),
            **named("device as its profile"),
            "row format as asked": Check(row_format),
            "in one piece": Check(filling.one_piece),
        },
        within={"span": list(growth.SPANS_MROWS), "mrows": []},
        main=("mrows",),
        compared={"per_s": ("span",), "all_per_s": ()},
        variables={"pool": oltp.POOL_VARIABLES},
    ),
    dataset=dataset,
    settings=settings,
    trial=trial,
    # Knees may be censored, and their median has an interval from seven runs on at three looks.
    design=Design(blocks=ByEffort(Blocks(1, 1), Blocks(3, 3), Blocks(6, 8))),
    demands=Demands(
        tools=("sysbench", "fio", "mkfs.xfs"),
        variables=("innodb_flush_method", "innodb_compression_level"),
        copies=1,
        grows_bytes=grows_bytes,
        refuses=refuses,
    ),
)
