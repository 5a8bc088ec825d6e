"""More memory, or a faster disk? (seeds S0 and S2, studies A and B)."""

import math
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field

from innolab.analysis.checks import USUAL
from innolab.analysis.doubts import unsteady
from innolab.loads import oltp, windows
from innolab.loads.sysbench import Workload
from innolab.loads.trial import Bench
from innolab.loads.windows import Times
from innolab.record.plan import Blocks
from innolab.record.run import Observation
from innolab.storage.profiles import HOST
from innolab.studies import schema1
from innolab.studies.more_memory.settling import unsettled
from innolab.studies.parameters import (
    ByEffort,
    ByScale,
    Devices,
    FlushLog,
    Parameters,
    Profile,
    Threads,
    asks,
)
from innolab.studies.study import Arm, Facts, Study

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
POOL_RATIOS = {name: round(ratio, 6) for name, ratio in LEVELS.items()}
LOADS = ("read_only", "read_write")
SKEWED = {"special": ("C", "0.5A", "0.9A", "A"), "pareto": ("C", "0.9A"), "zipf": ("C", "0.9A")}
# What the other devices are needed for by the claims, and points far out for curve and model.
SHORT = {
    "fusionio-320": ("2/18", "C", "120/314", "250/314", "A", "22/18"),
    HOST: ("120/314", "250/314", "0.9A", "A"),
    "cap-2000": ("0.9A", "A"),
}
SHORT_SWEEP = ("2/18", "C", "A")
SMOKE = [("raid10-8x15k", "read_only", "C"), ("raid10-8x15k", "read_only", "A"),
         ("raid10-8x15k", "read_write", "C"), ("fusionio-320", "read_only", "C")]  # fmt: skip

# Whole seconds, which is what sysbench counts in. Writing comes in bursts, so it is watched longer.
WINDOW_S = {"read_only": ByEffort(1, 4, 30), "read_write": ByEffort(1, 6, 30)}
CAP_S = ByEffort(1, 8, 120)
STEP_S, SETTLE_CAP_S = ByEffort(1, 1, 5), ByEffort(1, 6, 120)
WARM_UP_S = ByScale(1, 3, 900)
LEARN_STEP_S, LEARN_CAP_S = ByEffort(1, 1, 5), ByEffort(1, 8, 120)


def _prices(prices: dict[str, float]) -> dict[str, float]:
    if not all(0 <= price < math.inf for price in prices.values()):
        raise ValueError("has a price that is no amount of money")
    return prices


Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Prices = Annotated[dict[Profile, float], AfterValidator(_prices)]


class MemoryParameters(Parameters):
    """The common parameters, the load's, and what the section "what to buy" asks about."""

    ROWS: ClassVar = ByScale(250_000, 2_000_000, 80_000_000)
    threads: Threads = 16
    devices: Devices = ["raid10-8x15k", "x25-e", "fusionio-320", "cap-2000", HOST]
    flush_log_at_trx_commit: FlushLog = 2
    buy_data_gb: float = asks(100.0, gt=0, allow_inf_nan=False)
    buy_memory_gb: float = asks(32.0, gt=0, allow_inf_nan=False)
    buy_device: Profile = asks("raid10-8x15k")
    price_memory_gb: Amount | None = asks(None)
    price_devices: Prices = asks({})


def keep(parameters: MemoryParameters, arm: Arm) -> bool:
    """Return whether an arm is measured: a sweep of each device, skewed access on one."""
    first = arm.device == parameters.devices[0]
    level = next(name for name, ratio in POOL_RATIOS.items() if ratio == arm.pool_ratio)
    if parameters.scale == "smoke":
        known = arm.device in {device for device, _, _ in SMOKE}
        stands_for = arm.device if known or not first else SMOKE[0][0]
        return arm.distribution == "uniform" and (stands_for, arm.load, level) in SMOKE
    if arm.distribution != "uniform":
        return first and arm.load == "read_only" and level in SKEWED[arm.distribution]
    if first or parameters.scale == "paper":
        return level != "0.5A"
    if arm.device == "x25-e" and arm.load == "read_write":
        return level in ("C", "A")
    return level in SHORT.get(arm.device, SHORT_SWEEP)


def _times(parameters: MemoryParameters, load: str, pages: float) -> Times:
    """Return the times of a scale.

    The warm-up touches as many leaf pages as the data has, about 20 a transaction; a writing one
    must also fill the redo log, with some 6 KB a transaction. Whatever is slow has its seconds.
    """
    writes = load == "read_write"
    filled = oltp.redo_bytes(parameters.table_rows) / 6000 * 0.75 if writes else 0
    return Times(
        warm_up_s=WARM_UP_S.of(parameters),
        warm_up_transactions=int(max(pages / 20, filled)),
        step_s=STEP_S.of(parameters),
        settle_cap_s=SETTLE_CAP_S.of(parameters),
        window_s=WINDOW_S[load].of(parameters),
        cap_s=CAP_S.of(parameters),
    )


def settings(parameters: MemoryParameters, arm: Arm, facts: Facts) -> dict[str, Any]:
    """Return the server variables of an arm; the pool is rounded to whole chunks."""
    return {
        **oltp.settings(arm.pool_ratio, arm.load, parameters.table_rows, facts),
        "innodb_flush_log_at_trx_commit": parameters.flush_log_at_trx_commit,
    }


def trial(bench: Bench, arm: Arm) -> Iterator[Observation]:
    """Fill the pool at the disk's own speed, then limit the device and measure one load."""
    parameters: MemoryParameters = bench.parameters
    data = oltp.data_bytes(bench.dataset_facts, arm.load)
    rows = bench.dataset_facts["rows"]
    workload = Workload(arm.load, rows, parameters.threads, arm.distribution, bench.seed)
    asked = settings(parameters, arm, bench.dataset_facts)
    with bench.loaded_server(asked, writes=arm.load == "read_write") as (server, ours):
        with bench.clock.stage("warm-up"):
            oltp.fill(server, arm.load)
            if arm.distribution != "uniform":
                step_s, cap_s = LEARN_STEP_S.of(parameters), LEARN_CAP_S.of(parameters)
                windows.learn(bench, server, ours, workload, step_s, cap_s)
        times = _times(parameters, arm.load, data / oltp.PAGE_BYTES)
        yield windows.measure(bench, server, workload, times, oltp.redo_bytes(rows))


STUDY = Study(
    title="More memory, or a faster disk?",
    question="How does throughput grow with the buffer pool, and when does a faster disk pay more?",
    parameters=MemoryParameters,
    factors=lambda parameters: {
        "device": parameters.devices,
        "load": LOADS,
        "distribution": ["uniform", *SKEWED],
        "pool_ratio": POOL_RATIOS,
    },
    keep=keep,
    metrics=windows.METRICS,
    compared={"tps": ()},
    blocks=ByEffort(Blocks(2, 2), Blocks(3, 3), Blocks(3, 7)),
    dataset=lambda parameters: oltp.dataset(parameters.table_rows),
    settings=settings,
    trial=trial,
    checks=(*USUAL, "pool not preloaded", "device as its profile", *windows.CHECKS),
    doubts=(unsettled, unsteady),
    # The same ratio of what the load asks for.
    variables={"pool_ratio": oltp.POOL_VARIABLES, "load": oltp.POOL_VARIABLES,
               "device": (), "distribution": ()},
    needed_variables=oltp.NEEDED_VARIABLES,
    constants=lambda parameters, arm: {"window_s": WINDOW_S[arm.load].of(parameters)},
    evidence=windows.evidence,
    tools=("sysbench", "fio", "mkfs.xfs"),
    calibration_s=ByScale(0.3, 1.0, 10.0),
    upgrade=schema1.more_memory,
)  # fmt: skip
