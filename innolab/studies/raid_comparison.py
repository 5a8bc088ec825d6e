"""Which array for a database, and how much does memory change the answer? (seed S1, study D)."""

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import Field, field_validator

from innolab.loads import oltp, windows
from innolab.loads.sysbench import Workload
from innolab.loads.trial import Bench
from innolab.loads.windows import Times
from innolab.record.study import Factors, Needs, Parameters, Study, Trial
from innolab.storage.profiles import HOST
from innolab.storage.raid import Array

ORIGINAL_ROWS = 50_000_000
ROWS = {"smoke": ORIGINAL_ROWS // 200, "quick": ORIGINAL_ROWS // 200, "paper": ORIGINAL_ROWS}
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
USUAL = ["raid1-2", "raid1-split-4", "raid5-4", "raid10-4"]
LOADS = ("read_only", "read_write")
# S1: 14 queries without BEGIN and COMMIT; 19 with them. sysbench 1.0 issues 20 if one of its two
# updates is asked for twice as in 0.4, and 18 by itself.
OPTIONS = {"read_only": ("--skip_trx=on",), "read_write": ("--index_updates=2",)}
# Hot data in memory is what D4 speaks of; on these alone, as it needs the most time to settle.
SKEWED = ("raid1-2", "raid10-4")
THREADS = {"smoke": [10], "quick": [10, 100], "paper": [1, 5, 10, 15, 20, 30, 100]}

# Whole seconds, which is what sysbench counts in.
WINDOW_S = {"smoke": 2, "quick": 3, "paper": 60}
CAP_S = {"smoke": 2, "quick": 3, "paper": 600}
WARM_UP_S = {"smoke": 1, "quick": 2, "paper": 30}
LEARN_STEP_S = {"smoke": 1, "quick": 2, "paper": 30}
LEARN_CAP_S = {"smoke": 2, "quick": 16, "paper": 900}


class RaidParameters(Parameters):
    """The common parameters, the host, its arrays and how they are made."""

    # The server of the seed's time. In an emulated guest a second one doubles an hour.
    builds: list[str] = Field(default=["mysql-5.6.24"], min_length=1)
    rows: int | None = Field(default=None, ge=100_000, le=1_000_000_000)
    threads: list[int] | None = Field(default=None, min_length=1)
    arrays: list[str] = Field(default=USUAL, min_length=1)
    inventory: str = "lab"
    host: str = "lab"
    confirm: str | None = None
    chunk_kib: int = Field(default=512, ge=4, le=65536)
    flush_log_at_trx_commit: int = Field(default=1, ge=0, le=2)

    @field_validator("arrays")
    @classmethod
    def _known_arrays(cls, names: list[str]) -> list[str]:
        if unknown := [name for name in names if name not in ARRAYS]:
            raise ValueError(f"names '{unknown[0]}'; the arrays are {', '.join(ARRAYS)}")
        if len(set(names)) < len(names):
            raise ValueError("names an array twice")
        return names

    @field_validator("threads")
    @classmethod
    def _whole_threads(cls, threads: list[int] | None) -> list[int] | None:
        if threads and (
            min(threads) < 1 or max(threads) > 1000 or len(set(threads)) < len(threads)
        ):
            raise ValueError("has numbers of threads that are not from 1 to 1000, each once")
        return threads

    @field_validator("chunk_kib")
    @classmethod
    def _power_of_two(cls, chunk: int) -> int:
        if chunk & (chunk - 1):
            raise ValueError("is no power of two, which md asks of a chunk")
        return chunk


def rows_of(parameters: RaidParameters) -> int:
    """Return the number of rows: as asked, else as the scale has it."""
    return parameters.rows or ROWS[parameters.scale]


def threads_of(parameters: RaidParameters) -> list[int]:
    """Return the numbers of threads, ascending."""
    return sorted(parameters.threads or THREADS[parameters.scale])


def arrays(parameters: RaidParameters) -> dict[str, Array]:
    """Return the arrays by the name of their device."""
    return {name: ARRAYS[name] for name in parameters.arrays}


def spec(parameters: RaidParameters) -> dict[str, Any]:
    """Return what all arms share."""
    scale = parameters.scale
    return {
        "rows": rows_of(parameters),
        "threads": threads_of(parameters),
        "flush_log_at_trx_commit": parameters.flush_log_at_trx_commit,
        "chunk_kib": parameters.chunk_kib,
        "window_s": WINDOW_S[scale],
        "cap_s": CAP_S[scale],
        "warm_up_s": WARM_UP_S[scale],
        "learn_cap_s": LEARN_CAP_S[scale],
    }


def arms(parameters: RaidParameters, build: str) -> list[Factors]:
    """Return the arms on one build: pools and loads on every array, and a control here.

    The control runs in memory alone and on this machine itself: what it gives over what the same
    arm gives in the lab is the cost of the lab's emulated processors.
    """
    if parameters.scale == "smoke":
        return [_arm(build, name, "read_write", "uniform", "4G") for name in parameters.arrays]
    found = [
        _arm(build, device, load, access, pool)
        for device in parameters.arrays
        for load in LOADS
        for access, pool in _cases(device, load, parameters)
    ]
    if parameters.inventory == "lab":
        found += [_arm(build, HOST, load, "uniform", "12G") for load in LOADS]
    return found


def _cases(device: str, load: str, parameters: RaidParameters) -> list[tuple[str, str]]:
    uniform = [("uniform", pool) for pool in POOLS]
    if parameters.scale == "paper":
        return [*uniform, *(("special", pool) for pool in POOLS)]
    hot = device in SKEWED and load == "read_only"
    return [*uniform, *([("special", "8G")] if hot else [])]


def _arm(build: str, device: str, load: str, access: str, pool: str) -> Factors:
    return {
        "server": build,
        "case": f"{device}/{load}/{access}/{pool}",
        "device": device,
        "load": load,
        "distribution": access,
        "pool_ratio": round(POOLS[pool], 6),
    }


def needs(parameters: RaidParameters) -> Needs:
    """Return the largest pool with the server's overhead; data lies here to be brought there."""
    data = rows_of(parameters) * oltp.BYTES_PER_ROW
    whole = data + oltp.SYSTEM_BYTES + oltp.redo_bytes(rows_of(parameters))
    return Needs(
        memory_bytes=int(data * max(POOLS.values())) + oltp.SERVER_OVERHEAD_BYTES,
        disk_bytes_per_build=3 * whole,
    )


def settings(
    parameters: RaidParameters, factors: Factors, facts: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the server variables of an arm."""
    rows = rows_of(parameters)
    data = oltp.data_bytes(facts, str(factors["load"]))
    return {
        **oltp.pool_settings(float(factors["pool_ratio"]), data),
        **oltp.flushing_settings(),
        **oltp.scaled_settings(rows),
        **oltp.redo_settings(rows),
        "innodb_flush_log_at_trx_commit": parameters.flush_log_at_trx_commit,
        "max_connections": max(threads_of(parameters)) + 50,
    }


def recorded(parameters: RaidParameters, factors: Factors) -> dict[str, Any]:
    """Return the conditions that follow from parameters and levels."""
    device = str(factors["device"])
    array = ARRAYS.get(device)
    asked = {"mode": factors["load"], "distribution": factors["distribution"]}
    levels = threads_of(parameters)
    return {
        "dataset": {"rows": rows_of(parameters)},
        "device": {
            "name": device,
            **({"array": {"layout": array.layout, "disks": array.disks}} if array else {}),
        },
        "steady": {f"t{n}": {"window_s": WINDOW_S[parameters.scale]} for n in levels},
        "sysbench": {f"t{n}": {"threads": n, **asked} for n in levels},
    }


def trial(bench: Bench, trial: Trial) -> dict[str, Any]:
    """Fill the pool, then measure each number of threads in an order drawn anew each time."""
    parameters: RaidParameters = bench.parameters
    load = str(trial.factors["load"])
    seed = (parameters.seed + trial.position) % 2**20 * 1000
    workload = Workload(
        load,
        bench.dataset_facts["rows"],
        10,
        str(trial.factors["distribution"]),
        seed,
        OPTIONS[load],
    )
    asked = settings(parameters, trial.factors, bench.dataset_facts)
    found: dict[str, Any] = {}
    levels = threads_of(parameters)
    with bench.loaded_server(asked, writes=load == "read_write") as (server, ours):
        with bench.clock.stage("warm-up"):
            # A tenth more than fits: reading the rest would only push it out again.
            most = int(workload.rows * float(trial.factors["pool_ratio"]) * 1.1)
            oltp.fill(server, load, most)
            if workload.distribution != "uniform":
                scale = parameters.scale
                windows.learn(
                    bench, server, ours, workload, LEARN_STEP_S[scale], LEARN_CAP_S[scale]
                )
        redo = oltp.redo_bytes(workload.rows)
        for place, threads in enumerate(random.Random(seed).sample(levels, len(levels))):
            asked_now = replace(workload, threads=threads, seed=seed + 10 * threads)
            times = _times(parameters, first=place == 0)
            name = f"t{threads}"
            found |= windows.measure(bench, server, asked_now, times, redo, name)
    speeds = {f"fio_{kind}": value for kind, value in bench.site.speeds().items()}
    return {**found, **_kept(found, levels), **speeds}


def _kept(found: dict[str, Any], levels: list[int]) -> dict[str, float]:
    """Return the least throughput from 10 threads on over the largest: how steady it stays."""
    crowded = [found[f"t{threads}_tps"] for threads in levels if threads >= 10]
    return {"kept_ratio": min(crowded) / max(crowded)} if len(crowded) > 1 else {}


def _times(parameters: RaidParameters, *, first: bool) -> Times:
    """Return the times of a window; only the first of a start has more to warm up than itself."""
    scale = parameters.scale
    return Times(
        window_s=WINDOW_S[scale],
        cap_s=CAP_S[scale],
        settle_s=0,
        warm_up_s=WARM_UP_S[scale] if first or scale == "paper" else 0,
        warm_up_transactions=0,
    )


_POOL_VARIABLES = frozenset({"innodb_buffer_pool_size", "innodb_buffer_pool_chunk_size"})

STUDY = Study(
    name="raid-comparison",
    title="Which array for a database?",
    question="How do RAID levels compare under MySQL, and how much does memory change that?",
    parameters=RaidParameters,
    revision=1,
    replicates={"smoke": 1, "quick": 3, "paper": 5},
    variables={
        "pool_ratio": _POOL_VARIABLES,
        # The same ratio of what the load asks for.
        "load": _POOL_VARIABLES,
        # The control runs on another host, whose limit of open files is its own.
        "device": frozenset({"open_files_limit"}),
        "distribution": frozenset(),
    },
    needed_variables=frozenset(
        {"innodb_buffer_pool_instances", "innodb_flush_method", "innodb_lru_scan_depth"}
    ),
    spec=spec,
    arms=arms,
    needs=needs,
    dataset=lambda parameters: oltp.dataset(rows_of(parameters)),
    settings=settings,
    recorded=recorded,
    evidence=windows.evidence,
    trial=trial,
    checks=(
        "debug build",
        "effective settings",
        "array as asked",
        "array as its formula",
        "load without errors",
        "load generator idle enough",
        "steady state",
        "tables unchanged",
        "swap",
        "steal",
        "other load",
        "error log",
    ),
    tools=("sysbench", "fio"),
    devices=lambda parameters: parameters.arrays,
    arrays=arrays,
    whole_plot="device",
    calibration_s={"smoke": 1.0, "quick": 3.0, "paper": 30.0},
    metrics=("t10_tps", "t100_tps"),
)
