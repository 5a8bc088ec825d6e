"""Which array for a database, and how much does memory change the answer? (seed S1, study D)."""

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from innolab.analysis.bounds import Bound, Metric, Record, all_exactly, metrics
from innolab.bench import oltp, windows
from innolab.bench.sysbench import Workload
from innolab.bench.trial import Bench
from innolab.bench.windows import Times
from innolab.mysql.server import Server
from innolab.record.plan import Blocks
from innolab.record.run import Level, Observation
from innolab.storage.profiles import HOST, Calibration
from innolab.studies.kind import load_windows
from innolab.studies.parameters import ByEffort, ByScale
from innolab.studies.raid_comparison import schema1, seconds
from innolab.studies.raid_comparison.parameters import (
    HOT_OPTIONS,
    OPTIONS,
    POOLS,
    RaidParameters,
    keep,
    modelled,
    real,
    speedup_of,
    threads_of,
)
from innolab.studies.raid_comparison.processors import busy
from innolab.studies.study import Arm, Demands, Design, Facts, Study

# Whole seconds, which is what sysbench counts in.
# A window of many threads on few disks takes its cap: a minute for twenty transactions each.
WINDOW_S, CAP_S = ByEffort(2, 4, 10), ByEffort(2, 12, 60)
# A load that writes must also fill the redo log once, with some 6 KB a transaction.
WARM_UP_S = {"read_only": ByScale(1, 2, 30), "read_write": ByScale(1, 20, 120)}
STEP_S, SETTLE_CAP_S = ByEffort(1, 1, 2), ByEffort(1, 6, 20)
LEARN_STEP_S, LEARN_CAP_S = ByEffort(1, 2, 2), ByEffort(2, 16, 16)
# Four disks of 15,000 turns with a queue read 1,600 pages a second, and write 800 as RAID10: half
# of that, and at most all of it. One pair of values for all arrays, which differ in nothing else.
IO_CAPACITY = {"innodb_io_capacity": 400, "innodb_io_capacity_max": 800}


def io_capacity(speedup: float) -> dict[str, int]:
    """Return what the server may flush a second, on disks that are so many times faster."""
    return {name: round(value * speedup) for name, value in IO_CAPACITY.items()}


def settings(parameters: RaidParameters, arm: Arm, facts: Facts) -> dict[str, Any]:
    """Return the server variables of an arm."""
    return {
        **oltp.settings(round(POOLS[arm.pool], 6), arm.load, parameters.table_rows, facts),
        **io_capacity(speedup_of(parameters, arm)),
        "innodb_flush_log_at_trx_commit": parameters.flush_log_at_trx_commit,
        "max_connections": max(threads_of(parameters)) + 50,
    }


def trial(bench: Bench, arm: Arm) -> Iterator[Observation]:
    """Fill the pool, then measure each number of threads in a new random order each time.

    Windows that one arm has besides come last, as they change the server or its disks.
    """
    parameters: RaidParameters = bench.parameters
    rows = bench.dataset_facts["rows"]
    options = (*OPTIONS[arm.load], *(HOT_OPTIONS if arm.distribution == "hot" else ()))
    workload = Workload(arm.load, rows, 10, arm.distribution, bench.seed, options)
    levels = threads_of(parameters)
    asked = settings(parameters, arm, bench.dataset_facts)
    bench.site = bench.site.at_speed(speedup_of(parameters, arm))
    found: list[Observation] = []
    with bench.loaded_server(asked, writes=arm.load == "read_write") as (server, ours):
        with bench.clock.stage("warm-up"):
            # A tenth more than fits: reading the rest would only push it out again.
            oltp.fill(server, arm.load, int(rows * POOLS[arm.pool] * 1.1))
            if arm.distribution != "uniform":
                step_s, cap_s = LEARN_STEP_S.of(parameters), LEARN_CAP_S.of(parameters)
                windows.learn(bench, server, ours, workload, step_s, cap_s)
        shuffled = random.Random(bench.seed).sample(levels, len(levels))
        for within in [*({"threads": threads} for threads in shuffled), *_besides(arm)]:
            _change(bench, server, within)
            threads = within["threads"]
            now = replace(
                workload, threads=threads, seed=bench.seed + 10 * threads + 5 * len(within)
            )
            times = _times(parameters, arm.load, is_first=not found)
            with server.on_one_processor() if "processors" in within else nullcontext():
                row = windows.measure(bench, server, now, times, oltp.redo_bytes(rows), within)
            found.append({**row, **seconds.unevenness(bench.conditions["loads"][-1]["intervals"])})
            yield found[-1]
    yield {**_kept(found), **{f"fio_{kind}": value for kind, value in bench.site.speeds().items()}}


def _besides(arm: Arm) -> list[dict[str, int]]:
    """Return the windows of some arms alone, whose within-factors say what they are.

    On one processor, where a load needs no disk; with neighbours flushed together; on disks that
    are as fast as real ones.
    """
    if (arm.load, arm.distribution, arm.pool) == ("read_only", "uniform", "12G"):
        return [{"threads": threads, "processors": 1} for threads in (10, 100)]
    if (arm.device, arm.distribution, arm.pool) != ("raid10-4", "uniform", "4G"):
        return []
    neighbors = [{"threads": 10, "flush_neighbors": 1}] if arm.load == "read_write" else []
    return [*neighbors, {"threads": 10, "own_speed": 1}]


def _change(bench: Bench, server: Server, within: Mapping[str, int]) -> None:
    """Make server and disks as a window asks for; what it does not name is as it was."""
    if "flush_neighbors" in within:
        server.query("SET GLOBAL innodb_flush_neighbors = 1")
    if "own_speed" in within:
        bench.site = bench.site.at_speed(1.0)
        server.query("SET GLOBAL innodb_flush_neighbors = 0")
        for name, value in io_capacity(1.0).items():
            server.query(f"SET GLOBAL {name} = {value}")


def _kept(rows: Sequence[Mapping[str, Level]]) -> dict[str, float]:
    """Return the least throughput from 10 threads on over the largest: how steady it stays."""
    usual = [row for row in rows if not row.keys() & {"flush_neighbors", "own_speed", "processors"}]
    crowded = [float(row["tps"]) for row in usual if int(row.get("threads", 0)) >= 10]
    return {"kept_ratio": min(crowded) / max(crowded)} if len(crowded) > 1 else {}


def _of_windows(record: Record) -> Iterator[Bound]:
    yield from all_exactly({}, _kept([row for _, row in record.rows("tps")]))


def _of_calibration(record: Record) -> Iterator[Bound]:
    found = record.run.conditions["device"]["calibration"]
    yield from all_exactly({}, {f"fio_{kind}": value for kind, value in found.items()})


def _times(parameters: RaidParameters, load: str, *, is_first: bool) -> Times:
    """Return the times of a window; only the first of a start has more to warm up than itself."""
    warms_up = is_first or parameters.scale == "paper"
    filled = oltp.redo_bytes(parameters.table_rows) // 6000 if load == "read_write" else 0
    return Times(
        warm_up_s=WARM_UP_S[load].of(parameters) if warms_up else 0,
        warm_up_transactions=filled,
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
        "distribution": ["uniform", "special", "hot"],
        "pool": list(POOLS),
    },
    keep=keep,
    kind=load_windows(
        WINDOW_S,
        known_windows_s=lambda parameters, _: [WINDOW_S.of(parameters)],
        checks=("array as asked", "array as its formula"),
        within={"threads": []},
        of_some={"flush_neighbors": [1], "own_speed": [1]},
        metrics={
            **windows.METRICS,
            "unevenness": Metric("standard deviation over mean, of seconds", [seconds.evidence]),
            "kept_ratio": Metric("least over largest throughput from 10 threads on", [_of_windows]),
            **metrics({f"fio_{name}": "1/s" for name in Calibration._fields}, _of_calibration),
        },
        # The control runs on another host, which has its own limit of open files.
        variables={
            "pool": (*oltp.POOL_VARIABLES, *IO_CAPACITY),
            "distribution": tuple(IO_CAPACITY),
            "device": ("open_files_limit",),
        },
        doubts=[busy],
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
        arrays=real,
        modelled=modelled,
    ),
)
