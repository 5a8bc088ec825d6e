"""Which array for a database, and how much does memory change the answer? (seed S1, study D)."""

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field

from innolab.analysis.bounds import Bound, Metric, Record, all_exactly, metrics
from innolab.analysis.checks import USUAL
from innolab.analysis.doubts import unsteady
from innolab.bench import oltp, windows
from innolab.bench.sysbench import Workload
from innolab.bench.trial import Bench
from innolab.bench.windows import Times
from innolab.record.plan import Blocks
from innolab.record.run import Observation
from innolab.storage.profiles import HOST, Calibration
from innolab.storage.raid import Array
from innolab.studies.parameters import (
    Builds,
    ByEffort,
    ByScale,
    FlushLog,
    Parameters,
    Threads,
    one_of,
    repeats,
)
from innolab.studies.raid_comparison import schema1
from innolab.studies.study import Arm, Facts, Study

# The seed's pools over its 11 GB of data, by the names that it gives them.
POOLS = {"12G": 12 / 11, "8G": 8 / 11, "4G": 4 / 11}
# The seed states no number of disks. A mirror usually has two; the others have four here, and the
# split mirrors four together, so that three of the layouts have the same number.
ARRAYS = {
    "single-1": Array("single", 1),
    "raid1-2": Array("raid1", 2),
    "raid1-4": Array("raid1", 4),
    "raid1-split-4": Array("raid1-split", 4),
    "raid5-4": Array("raid5", 4),
    "raid10-4": Array("raid10", 4),
    "raid5-8": Array("raid5", 8),
    "raid10-8": Array("raid10", 8),
}
# S1: 14 queries without BEGIN and COMMIT; 19 with them. sysbench 1.0 issues 20 if one of its two
# updates is asked for twice as in 0.4, and 18 otherwise.
OPTIONS = {"read_only": ("--skip_trx=on",), "read_write": ("--index_updates=2",)}
THREADS = ByScale([10], [10, 100], [1, 5, 10, 15, 20, 30, 100])
# Whole seconds, which is what sysbench counts in.
# A window of many threads on few disks takes its cap: a minute for twenty transactions each.
WINDOW_S, CAP_S, WARM_UP_S = ByEffort(2, 4, 10), ByEffort(2, 12, 60), ByScale(1, 2, 30)
STEP_S, SETTLE_CAP_S = ByEffort(1, 1, 2), ByEffort(1, 6, 12)
LEARN_STEP_S, LEARN_CAP_S = ByEffort(1, 2, 2), ByEffort(2, 16, 16)


def _each_once(threads: list[int]) -> list[int]:
    if len(set(threads)) < len(threads):
        raise ValueError("names a number of threads twice")
    return threads


def _power_of_two(chunk: int) -> int:
    if chunk & (chunk - 1):
        raise ValueError("is no power of two, which md asks of a chunk")
    return chunk


class RaidParameters(Parameters):
    """The common parameters, the host, its arrays and how they are made.

    Attributes
    ----------
    threads : the connections of the load, one window for each number; left out, the scale says them
    arrays : layouts on a number of disks, each made anew in every block
    inventory : the inventory that has the host: a name in playbooks/inventories, or a path
    host : the host's name there
    confirm : the hash of the plan for the host's disks, which lets arrays be made; the lab's disks
        are innolab's own and need none
    chunk_kib : the chunk of striped arrays, a power of two
    flush_log_at_trx_commit : the server's innodb_flush_log_at_trx_commit
    """

    ROWS: ClassVar = ByScale(250_000, 250_000, 50_000_000)
    # The server of the seed's time. In an emulated guest a second one doubles an hour.
    builds: Builds = repeats(["mysql-5.6.24"])
    threads: Annotated[list[Threads], Field(min_length=1), AfterValidator(_each_once)] | None = None
    arrays: Annotated[list[str], Field(min_length=1), one_of(ARRAYS, "arrays")] = [
        "raid1-2", "raid1-split-4", "raid5-4", "raid10-4"
    ]  # fmt: skip
    inventory: str = repeats("lab")
    host: str = repeats("lab")
    confirm: str | None = repeats(None)
    chunk_kib: Annotated[int, Field(ge=4, le=65536), AfterValidator(_power_of_two)] = 512
    flush_log_at_trx_commit: FlushLog = 1


def threads_of(parameters: RaidParameters) -> list[int]:
    """Return the numbers of threads, ascending."""
    return sorted(parameters.threads or THREADS.of(parameters))


def keep(parameters: RaidParameters, arm: Arm) -> bool:
    """Return whether an arm is measured.

    The control runs in memory alone and on this machine itself: what it gives over what the same
    arm gives in the lab is the cost of the lab's emulated processors.
    """
    uniform = arm.distribution == "uniform"
    if parameters.scale == "smoke":
        at = (arm.load, arm.pool) == ("read_write", "4G")
        return uniform and at and arm.device != HOST
    if arm.device == HOST:
        return uniform and arm.pool == "12G"
    # Hot data in memory is what D4 speaks of; on two alone, as it needs the most time to settle.
    d4 = [(array, "read_only", "8G") for array in ("raid1-2", "raid10-4")]
    return uniform or (arm.device, arm.load, arm.pool) in d4 or parameters.scale == "paper"


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
    within={"threads": []},
    main=("threads",),
    metrics={
        **windows.METRICS,
        "kept_ratio": Metric("least over largest throughput from 10 threads on", [_of_windows]),
        **metrics({f"fio_{name}": "1/s" for name in Calibration._fields}, _of_calibration),
    },
    compared={"tps": ("threads",)},
    blocks=ByEffort(Blocks(1, 1), Blocks(3, 3), Blocks(3, 7)),
    dataset=lambda parameters: oltp.dataset(parameters.table_rows),
    settings=settings,
    trial=trial,
    checks=(*USUAL, "array as asked", "array as its formula", *windows.CHECKS),
    doubts=(unsteady,),
    variables={
        "pool": oltp.POOL_VARIABLES,
        # The same ratio of what the load asks for.
        "load": oltp.POOL_VARIABLES,
        # The control runs on another host, whose limit of open files is its own.
        "device": ("open_files_limit",),
        "distribution": (),
    },
    needed_variables=oltp.NEEDED_VARIABLES,
    known_windows_s=lambda parameters, _: [WINDOW_S.of(parameters)],
    tools=("sysbench", "fio"),
    arrays=lambda parameters: {name: ARRAYS[name] for name in parameters.arrays},
    whole_plot="device",
    calibration_s=ByScale(1.0, 3.0, 30.0),
    window_s=WINDOW_S,
    upgrade=schema1.upgraded,
)  # fmt: skip
