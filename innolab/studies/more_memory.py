"""More memory, or a faster disk? (seeds S0 and S2, studies A and B)."""

import math
from collections.abc import Mapping
from typing import Any

from pydantic import Field, field_validator

from innolab.loads import oltp, windows
from innolab.loads.sysbench import Workload
from innolab.loads.trial import Bench
from innolab.loads.windows import Times
from innolab.record.study import Factors, Needs, Parameters, Study, Trial
from innolab.storage.profiles import HOST, profiles

ORIGINAL_ROWS = 80_000_000
ROWS = {"smoke": ORIGINAL_ROWS // 320, "quick": ORIGINAL_ROWS // 40, "paper": ORIGINAL_ROWS}
# Buffer pool / data. A is where the data just fits; C is a third of it; multiples are of these.
LEVELS = {
    "2/18": 2 / 18,
    "C": 6 / 18,
    "120/314": 120 / 314,
    "0.5A": 9 / 18,
    "1.6C": 9.6 / 18,
    "2C": 12 / 18,
    "250/314": 250 / 314,
    "2.5C": 15 / 18,
    "2.6C": 15.6 / 18,
    "0.9A": 16.2 / 18,
    "A": 18 / 18,
    "3.5C": 21 / 18,
    "3.6C": 21.6 / 18,
    "22/18": 22 / 18,
}
LOADS = ("read_only", "read_write")
_Sweep = dict[str, tuple[str, ...]]  # Levels by load.
SWEEP = tuple(name for name in LEVELS if name != "0.5A")
# What the other devices are needed for by the claims, and points far out for curve and model.
SHORT_SWEEPS: dict[str, _Sweep] = {
    "x25-e": {"read_only": ("2/18", "C", "A"), "read_write": ("C", "A")},
    "fusionio-320": dict.fromkeys(LOADS, ("2/18", "C", "120/314", "250/314", "A", "22/18")),
    HOST: dict.fromkeys(LOADS, ("120/314", "250/314", "0.9A", "A")),
    "cap-2000": dict.fromkeys(LOADS, ("0.9A", "A")),
}
SHORT_SWEEP: _Sweep = dict.fromkeys(LOADS, ("2/18", "C", "A"))
# Reading alone.
SKEWED = {"special": ("C", "0.5A", "0.9A", "A"), "pareto": ("C", "0.9A"), "zipf": ("C", "0.9A")}
SMOKE: dict[str, _Sweep] = {
    "raid10-8x15k": {"read_only": ("C", "A"), "read_write": ("C",)},
    "fusionio-320": {"read_only": ("C",), "read_write": ()},
}
SMOKE_ALONE: _Sweep = {"read_only": ("C", "A"), "read_write": ("C",)}

# Whole seconds, which is what sysbench counts in. Writing comes in bursts, so it is watched longer.
WINDOW_S = {
    "smoke": {"read_only": 1, "read_write": 1},
    "quick": {"read_only": 2, "read_write": 3},
    "paper": {"read_only": 60, "read_write": 60},
}
# How long a steady state is waited for, the window included: at most scales that is one window.
CAP_S = {"smoke": 1, "quick": 3, "paper": 900}
SETTLE_S = {"smoke": 0, "quick": 1, "paper": 60}
WARM_UP_S = {"smoke": 1, "quick": 2, "paper": 900}


class MemoryParameters(Parameters):
    """The common parameters, the load's, and what the section "what to buy" asks about."""

    rows: int | None = Field(default=None, ge=100_000, le=1_000_000_000)
    threads: int = Field(default=16, ge=1, le=1000)
    devices: list[str] = Field(
        default=["raid10-8x15k", "x25-e", "fusionio-320", "cap-2000", HOST], min_length=1
    )
    flush_log_at_trx_commit: int = Field(default=2, ge=0, le=2)
    buy_data_gb: float = Field(default=100.0, gt=0, allow_inf_nan=False)
    buy_memory_gb: float = Field(default=32.0, gt=0, allow_inf_nan=False)
    buy_device: str = "raid10-8x15k"
    price_memory_gb: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    price_devices: dict[str, float] = Field(default={})

    @field_validator("devices")
    @classmethod
    def _known_devices(cls, names: list[str]) -> list[str]:
        known = [*profiles(), HOST]
        if unknown := [name for name in names if name not in known]:
            raise ValueError(f"names '{unknown[0]}'; the devices are {', '.join(known)}")
        if len(set(names)) < len(names):
            raise ValueError("names a device twice")
        return names

    @field_validator("buy_device")
    @classmethod
    def _known_device(cls, name: str) -> str:
        if name not in profiles():
            raise ValueError(f"is none of the profiles {', '.join(profiles())}")
        return name

    @field_validator("price_devices")
    @classmethod
    def _known_prices(cls, prices: dict[str, float]) -> dict[str, float]:
        if unknown := [name for name in prices if name not in profiles()]:
            raise ValueError(f"names '{unknown[0]}'; the devices are {', '.join(profiles())}")
        if not all(0 <= price < math.inf for price in prices.values()):
            raise ValueError("has a price that is no amount of money")
        return prices


QUESTION = frozenset(
    {"buy_data_gb", "buy_memory_gb", "buy_device", "price_memory_gb", "price_devices"}
)


def rows_of(parameters: MemoryParameters) -> int:
    """Return the number of rows: as asked, else as the scale has it."""
    return parameters.rows or ROWS[parameters.scale]


def spec(parameters: MemoryParameters) -> dict[str, Any]:
    """Return what all arms share."""
    scale = parameters.scale
    return {
        "rows": rows_of(parameters),
        "threads": parameters.threads,
        "flush_log_at_trx_commit": parameters.flush_log_at_trx_commit,
        "window_s": WINDOW_S[scale],
        "cap_s": CAP_S[scale],
        "settle_s": SETTLE_S[scale],
        "warm_up_s": WARM_UP_S[scale],
        "devices": {n: profiles()[n].limits() for n in parameters.devices if n != HOST},
    }


def arms(parameters: MemoryParameters, build: str) -> list[Factors]:
    """Return the arms on one build: the sweep of every device, and skewed access on the first."""
    return [
        {
            "server": build,
            "case": f"{device}/{distribution}/{level}",
            "load": load,
            "device": device,
            "distribution": distribution,
            "pool_ratio": round(LEVELS[level], 6),
        }
        for device in parameters.devices
        for load in LOADS
        for distribution, level in _levels(device, load, parameters)
    ]


def _levels(device: str, load: str, parameters: MemoryParameters) -> list[tuple[str, str]]:
    if parameters.scale == "smoke":
        some = SMOKE.get(device, {} if device != parameters.devices[0] else SMOKE_ALONE)
        return [("uniform", level) for level in some.get(load, ())]
    first = device == parameters.devices[0]
    whole = first or parameters.scale == "paper"
    uniform = SWEEP if whole else SHORT_SWEEPS.get(device, SHORT_SWEEP)[load]
    skewed = SKEWED if first and load == "read_only" else {}
    return [
        *(("uniform", level) for level in uniform),
        *((name, level) for name, levels in skewed.items() for level in levels),
    ]


def _emulated(parameters: MemoryParameters) -> bool:
    return any(device != HOST for device in parameters.devices)


def needs(parameters: MemoryParameters) -> Needs:
    """Return the largest pool with the server's overhead, and the emulated disk."""
    data = rows_of(parameters) * oltp.BYTES_PER_ROW
    whole = data + oltp.SYSTEM_BYTES + oltp.redo_bytes(rows_of(parameters))
    return Needs(
        memory_bytes=int(data * max(LEVELS.values())) + oltp.SERVER_OVERHEAD_BYTES,
        disk_bytes_per_build=whole + (2 * whole if HOST in parameters.devices else 0),
        emulated_bytes=_copies(parameters) * int(whole * 1.3) + 400 * oltp.MIB
        if _emulated(parameters)
        else 0,
    )


def _copies(parameters: MemoryParameters) -> int:
    """Return how many copies lie on a disk: one to read for each build, one to write."""
    return len(parameters.builds) + 1


def _times(parameters: MemoryParameters, load: str, pages: float) -> Times:
    """Return the times of a scale.

    The warm-up touches as many leaf pages as the data has, about 20 a transaction; a writing one
    must also fill the redo log, with some 6 KB a transaction. Whatever is slow has its seconds.
    """
    scale = parameters.scale
    writes = load == "read_write"
    filled = oltp.redo_bytes(rows_of(parameters)) / 6000 * 0.75 if writes else 0
    return Times(
        window_s=WINDOW_S[scale][load],
        cap_s=CAP_S[scale],
        settle_s=SETTLE_S[scale] if writes else 0,
        warm_up_s=WARM_UP_S[scale],
        warm_up_transactions=int(max(pages / 20, filled)),
    )


def settings(
    parameters: MemoryParameters, factors: Factors, facts: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the server variables of an arm; the pool is rounded to whole chunks."""
    rows = rows_of(parameters)
    data = oltp.data_bytes(facts, str(factors["load"]))
    return {
        **oltp.pool_settings(float(factors["pool_ratio"]), data),
        **oltp.flushing_settings(),
        "innodb_flush_log_at_trx_commit": parameters.flush_log_at_trx_commit,
        **oltp.scaled_settings(rows),
        **oltp.redo_settings(rows),
    }


def recorded(parameters: MemoryParameters, factors: Factors) -> dict[str, Any]:
    """Return the conditions that follow from parameters and levels."""
    load = str(factors["load"])
    asked = {"distribution": factors["distribution"], "threads": parameters.threads}
    return {
        "dataset": {"rows": rows_of(parameters)},
        "device": {"name": factors["device"]},
        "steady": {load: {"window_s": WINDOW_S[parameters.scale][load]}},
        "sysbench": {load: {"mode": load, **asked}},
    }


def trial(bench: Bench, trial: Trial) -> dict[str, Any]:
    """Fill the pool at the disk's own speed, then limit the device and measure one load."""
    parameters: MemoryParameters = bench.parameters
    load = str(trial.factors["load"])
    data = oltp.data_bytes(bench.dataset_facts, load)
    asked = settings(parameters, trial.factors, bench.dataset_facts)
    workload = Workload(
        load,
        bench.dataset_facts["rows"],
        parameters.threads,
        str(trial.factors["distribution"]),
        seed=(parameters.seed + trial.position) % 2**20 * 1000,
    )
    with bench.loaded_server(asked, writes=load == "read_write") as (server, _):
        with bench.clock.stage("warm-up"):
            oltp.fill(server, load)
        times = _times(parameters, load, data / oltp.PAGE_BYTES)
        redo = oltp.redo_bytes(workload.rows)
        return windows.measure(bench, server, workload, times, redo)


_POOL_VARIABLES = frozenset({"innodb_buffer_pool_size", "innodb_buffer_pool_chunk_size"})

STUDY = Study(
    name="more-memory",
    title="More memory, or a faster disk?",
    question="How does throughput grow with the buffer pool, and when does a faster disk pay more?",
    parameters=MemoryParameters,
    revision=1,
    replicates={"smoke": 2, "quick": 3, "paper": 5},
    variables={
        "pool_ratio": _POOL_VARIABLES,
        # The same ratio of what the load asks for.
        "load": _POOL_VARIABLES,
        "device": frozenset(),
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
        "pool not preloaded",
        "effective settings",
        "device as its profile",
        "load without errors",
        "load generator idle enough",
        "steady state",
        "tables unchanged",
        "swap",
        "steal",
        "other load",
        "error log",
    ),
    tools=("sysbench", "fio", "mkfs.xfs"),
    devices=lambda parameters: parameters.devices,
    calibration_s={"smoke": 0.3, "quick": 1.0, "paper": 10.0},
    question_parameters=QUESTION,
    metrics=("read_only_tps", "read_write_tps"),
)
