"""Which array for a database, and how much does memory change the answer? (seed S1, study D)."""

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from innolab.analysis.bounds import Bound, Metric, Record, all_exactly, metrics
from innolab.bench import oltp, windows
from innolab.bench.sysbench import Workload
from innolab.bench.trial import Bench
from innolab.bench.windows import Times
from innolab.record.plan import Blocks
from innolab.record.run import Observation
from innolab.storage.profiles import HOST, Calibration
from innolab.studies.kind import load_windows
from innolab.studies.parameters import ByEffort, ByScale
from innolab.studies.raid_comparison import schema1
from innolab.studies.raid_comparison.parameters import (
    ARRAYS,
    OPTIONS,
    POOLS,
    RaidParameters,
    keep,
    threads_of,
)
from innolab.studies.study import Arm, Demands, Design, Facts, Study

# Whole seconds, which is what sysbench counts in.
# A window of many threads on few disks takes its cap: a minute for twenty transactions each.
WINDOW_S, CAP_S, WARM_UP_S = ByEffort(2, 4, 10), ByEffort(2, 12, 60), ByScale(1, 2, 30)
STEP_S, SETTLE_CAP_S = ByEffort(1, 1, 2), ByEffort(1, 6, 12)
LEARN_STEP_S, LEARN_CAP_S = ByEffort(1, 2, 2), ByEffort(2, 16, 16)


def settings(parameters: RaidParameters, arm: Arm, facts: Facts) -> dict[str, Any]:
    """Return the server variables of an arm."""
    return {
        **oltp.settings(round(POOLS[arm.pool], 6), arm.load, parameters.table_rows, facts),
        "innodb_flush_log_at_trx_commit": parameters.flush_log_at_trx_commit,
        "max_connections": max(threads_of(parameters)) + 50,
    }


def trial(bench: Bench, arm: Arm) -> Iterator[Observation]:
    """Fill the pool, then measure each number of threads in a new random order each time."""
    parameters: RaidParameters = bench.parameters
    rows = bench.dataset_facts["rows"]
    workload = Workload(arm.load, rows, 10, arm.distribution, bench.seed, OPTIONS[arm.load])
    levels = threads_of(parameters)
    asked = settings(parameters, arm, bench.dataset_facts)
    tps: dict[int, float] = {}
    with bench.loaded_server(asked, writes=arm.load == "read_write") as (server, ours):
        with bench.clock.stage("warm-up"):
            # A tenth more than fits: reading the rest would only push it out again.
            oltp.fill(server, arm.load, int(rows * POOLS[arm.pool] * 1.1))
            if arm.distribution != "uniform":
                step_s, cap_s = LEARN_STEP_S.of(parameters), LEARN_CAP_S.of(parameters)
                windows.learn(bench, server, ours, workload, step_s, cap_s)
        for place, threads in enumerate(random.Random(bench.seed).sample(levels, len(levels))):
            now = replace(workload, threads=threads, seed=bench.seed + 10 * threads)
            times = _times(parameters, is_first=place == 0)
            within = {"threads": threads}
            row = windows.measure(bench, server, now, times, oltp.redo_bytes(rows), within)
            tps[threads] = row["tps"]
            yield row
    yield {**_kept(tps), **{f"fio_{kind}": value for kind, value in bench.site.speeds().items()}}


def _kept(tps: dict[int, float]) -> dict[str, float]:
    """Return the least throughput from 10 threads on over the largest: how steady it stays."""
    crowded = [rate for threads, rate in tps.items() if threads >= 10]
    return {"kept_ratio": min(crowded) / max(crowded)} if len(crowded) > 1 else {}


def _of_windows(record: Record) -> Iterator[Bound]:
    tps = {int(within["threads"]): row["tps"] for within, row in record.rows("tps")}
    yield from all_exactly({}, _kept(tps))


def _of_calibration(record: Record) -> Iterator[Bound]:
    found = record.run.conditions["device"]["calibration"]
    yield from all_exactly({}, {f"fio_{kind}": value for kind, value in found.items()})


def _times(parameters: RaidParameters, *, is_first: bool) -> Times:
    """Return the times of a window; only the first of a start has more to warm up than itself."""
    warms_up = is_first or parameters.scale == "paper"
    return Times(
        warm_up_s=WARM_UP_S.of(parameters) if warms_up else 0,
        warm_up_transactions=0,
        step_s=STEP_S.of(parameters),
        settle_cap_s=SETTLE_CAP_S.of(parameters),
        window_s=WINDOW_S.of(parameters),
        cap_s=CAP_S.of(parameters),
    )


STUDY = Study(
    title="Which array for a database?",
    question="How do RAID levels compare under MySQL, and how much does memory change that?",
    parameters=RaidParameters,
    factors=lambda parameters: {
        "device": [*parameters.arrays, *([HOST] if parameters.inventory == "lab" else [])],
        "load": list(OPTIONS),
        "distribution": ["uniform", "special"],
        "pool": list(POOLS),
    },
    keep=keep,
    kind=load_windows(
        WINDOW_S,
        known_windows_s=lambda parameters, _: [WINDOW_S.of(parameters)],
        checks=("array as asked", "array as its formula"),
        within={"threads": []},
        metrics={
            **windows.METRICS,
            "kept_ratio": Metric("least over largest throughput from 10 threads on", [_of_windows]),
            **metrics({f"fio_{name}": "1/s" for name in Calibration._fields}, _of_calibration),
        },
        # The control runs on another host, which has its own limit of open files.
        variables={"pool": oltp.POOL_VARIABLES, "device": ("open_files_limit",)},
        calibration_s=ByScale(1.0, 3.0, 30.0),
        upgrade=schema1.upgraded,
    ),
    dataset=lambda parameters: oltp.dataset(parameters.table_rows),
    settings=settings,
    trial=trial,
    design=Design(blocks=ByEffort(Blocks(1, 1), Blocks(3, 3), Blocks(3, 7)), whole_plot="device"),
    demands=Demands(
        tools=("sysbench", "fio"),
        variables=oltp.NEEDED_VARIABLES,
        arrays=lambda parameters: {name: ARRAYS[name] for name in parameters.arrays},
    ),
)
