"""A study of another package: from which share of rows on is a scan cheaper than lookups?"""

import random
from collections.abc import Iterator
from typing import Any, ClassVar

from innolab.bench import oltp, passes
from innolab.bench.sysbench import TABLE
from innolab.bench.trial import Bench
from innolab.record.plan import Blocks
from innolab.record.run import Observation
from innolab.studies import kind
from innolab.studies.parameters import ByEffort, ByScale, Parameters
from innolab.studies.study import Arm, Demands, Design, Facts, Study


class AccessParameters(Parameters):
    """The common parameters."""

    ROWS: ClassVar = ByScale(100_000, 1_000_000, 40_000_000)


def settings(parameters: AccessParameters, arm: Arm, facts: Facts) -> dict[str, Any]:
    """Return the server variables of an arm."""
    return oltp.settings(arm.pool_ratio, "read_only", parameters.table_rows, facts)


def statement(arm: Arm, rows: int, seed: int) -> str:
    """Return the statement that reads a share of the rows on a path."""
    wanted = int(rows * arm.share)
    ids = ",".join(map(str, random.Random(seed).sample(range(1, rows), wanted)))
    conditions = {
        "scan": "pad <> ''",
        "range": f"id BETWEEN 1 AND {wanted}",
        "lookup": f"id IN ({ids})",
    }
    return f"SELECT SUM(LENGTH(c)) FROM {TABLE} FORCE INDEX (PRIMARY) WHERE {conditions[arm.path]}"


def trial(bench: Bench, arm: Arm) -> Iterator[Observation]:
    """Read on one path from a cold start, and again."""
    asked = statement(arm, bench.dataset_facts["rows"], bench.seed)
    with bench.cold_server(settings(bench.parameters, arm, bench.dataset_facts)) as server:
        for cache in ("cold", "warm"):
            with bench.clock.stage("measured passes"):
                _, cost = passes.timed(bench, server, asked, within={"cache": cache})
            yield {"cache": cache, **cost.metrics()}


STUDY = Study(
    title="Scan, range or lookups?",
    question="From which share of rows is a full scan cheaper than lookups or a range?",
    parameters=AccessParameters,
    factors=lambda _: {
        "path": ["scan", "range", "lookup"],
        "share": [0.01, 0.9],
        "pool_ratio": {"small": 0.5},
    },
    keep=lambda _, arm: arm.path != "scan" or arm.share == 0.9,
    kind=kind.timed_passes(
        {"cache": ["cold", "warm"]},
        cold={"cache": "cold"},
        variables={"pool_ratio": oltp.POOL_VARIABLES},
    ),
    dataset=lambda parameters: oltp.dataset(parameters.table_rows),
    settings=settings,
    trial=trial,
    design=Design(blocks=ByEffort(Blocks(2, 2), Blocks(3, 5), Blocks(3, 10))),
    demands=Demands(tools=("sysbench",), copies=1),
)
