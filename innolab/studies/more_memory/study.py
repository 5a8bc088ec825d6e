"""More memory, or a faster disk? (seeds S0 and S2, studies A and B)."""

import math
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field

from innolab.analysis.checks import USUAL
from innolab.analysis.doubts import unsteady
from innolab.bench import oltp, windows
from innolab.bench.sysbench import Workload
from innolab.bench.trial import Bench
from innolab.bench.windows import Times
from innolab.record.plan import Blocks
from innolab.record.run import Observation
from innolab.storage.profiles import HOST
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

# Buffer pool / data. C is a third of the data; its multiples are of memory. A is where the data
# just fit: a pool holds more than rows, and of exactly their size it reads a page a transaction.
LEVELS = {
    "2/18": 2 / 18,
    "C": 6 / 18,
    "120/314": 120 / 314,
    "half": 9 / 18,
    "1.6C": 9.6 / 18,
    "2C": 12 / 18,
    "250/314": 250 / 314,
    "2.5C": 15 / 18,
    "0.9A": 18 / 18,
    "A": 20 / 18,
    "3.5C": 21 / 18,
    "22/18": 22 / 18,
}
POOL_RATIOS = {name: round(ratio, 6) for name, ratio in LEVELS.items()}
LOADS = ("read_only", "read_write")
SKEWED = {"special": ("C", "half", "0.9A", "A"), "pareto": ("C", "0.9A"), "zipf": ("C", "0.9A")}
# The sweep of the first device. Writing is bound by writes nearly everywhere: the seeds do not say
# which load their graphs had, so their other reading of "250 %" is of the reading one alone.
SWEEP = {
    "read_only": tuple(name for name in LEVELS if name != "half"),
    "read_write": ("2/18", "C", "120/314", "1.6C", "2C", "250/314", "0.9A", "A", "3.5C", "22/18"),
}
# Devices by limits, and the same ones by service times.
TIMED = {"raid10-8x15k": "raid10-8x15k-timed", "x25-e": "x25-e-timed"}
# What the other devices are needed for by the claims and the model; our own hypotheses ask about
# reading alone, since a writing trial takes five times as long.
SHORT: dict[str, dict[str, tuple[str, ...]]] = {
    **{name: dict.fromkeys(LOADS, ("C",)) for name in ("x25-e", *TIMED.values())},
    "fusionio-320": dict.fromkeys(LOADS, ("2/18", "C", "120/314", "250/314", "22/18")),
    HOST: {"read_only": ("120/314", "250/314", "0.9A", "A"), "read_write": ()},
    "cap-2000": {"read_only": ("0.9A", "A"), "read_write": ()},
}
SHORT_SWEEP = ("2/18", "C", "A")
SMOKE = [("raid10-8x15k", "read_only", "C"), ("raid10-8x15k", "read_only", "A"),
         ("raid10-8x15k", "read_write", "C"), ("fusionio-320", "read_only", "C")]  # fmt: skip

# Whole seconds, which is what sysbench counts in. A server flushes in waves of 10 to 20 s where the
# device binds its writes, and needs a minute or two under the limit until these are alike: 5.6.24
# had half of its later rate in seconds 30 to 60 (docs/decisions/0016).
WINDOW_S = {"read_only": ByEffort(1, 4, 15), "read_write": ByEffort(1, 6, 60)}
# Of the report 2026-11-23-1: too short for writing, of which it decides little.
_EARLIER_S = {"read_only": ByEffort(1, 4, 5), "read_write": ByEffort(1, 6, 12)}
CAP_S = {"read_only": ByEffort(1, 8, 30), "read_write": ByEffort(1, 8, 60)}
STEP_S = {"read_only": ByEffort(1, 1, 1), "read_write": ByEffort(1, 1, 10)}
SETTLE_CAP_S = {"read_only": ByEffort(1, 6, 18), "read_write": ByEffort(1, 6, 150)}
WARM_UP_S = ByScale(1, 3, 900)
LEARN_STEP_S, LEARN_CAP_S = ByEffort(1, 1, 5), ByEffort(1, 8, 120)


def _prices(prices: dict[str, float]) -> dict[str, float]:
    if not all(0 <= price < math.inf for price in prices.values()):
        raise ValueError("has a price that is no amount of money")
    return prices


Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Prices = Annotated[dict[Profile, float], AfterValidator(_prices)]


class MemoryParameters(Parameters):
    """The common parameters, the load's, and what the section "what to buy" asks about.

    Attributes
    ----------
    threads : the connections of the load
    devices : devices, or host; the first has the whole sweep and skewed access, the others less
    flush_log_at_trx_commit : the server's innodb_flush_log_at_trx_commit
    buy_data_gb : how large your data are
    buy_memory_gb : the buffer pool that you have
    buy_device : the device that you have
    price_memory_gb : the price of a gigabyte of memory
    price_devices : the prices of devices by their names
    """

    ROWS: ClassVar = ByScale(250_000, 2_000_000, 80_000_000)
    threads: Threads = 16
    devices: Devices = ["raid10-8x15k", "x25-e", "fusionio-320", "cap-2000", HOST,
                        *TIMED.values()]  # fmt: skip
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
        return level in SWEEP[arm.load]
    short = SHORT.get(arm.device)
    return level in (short[arm.load] if short else SHORT_SWEEP)


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
        step_s=STEP_S[load].of(parameters),
        settle_cap_s=SETTLE_CAP_S[load].of(parameters),
        window_s=WINDOW_S[load].of(parameters),
        cap_s=CAP_S[load].of(parameters),
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
    # One look: a block takes two hours, and the level of a few more looks would cost more.
    blocks=ByEffort(Blocks(2, 2), Blocks(3, 3), Blocks(3, 3)),
    dataset=lambda parameters: oltp.dataset(parameters.table_rows),
    settings=settings,
    trial=trial,
    checks=(*USUAL, "pool not preloaded", "device as its profile", *windows.CHECKS),
    doubts=(unsettled, unsteady),
    # The same ratio of what the load asks for.
    variables={"pool_ratio": oltp.POOL_VARIABLES, "load": oltp.POOL_VARIABLES,
               "device": (), "distribution": ()},
    needed_variables=oltp.NEEDED_VARIABLES,
    known_windows_s=lambda parameters, arm: [
        windows[arm.load].of(parameters) for windows in (WINDOW_S, _EARLIER_S)
    ],
    tools=("sysbench", "fio", "mkfs.xfs"),
    calibration_s=ByScale(0.3, 1.0, 10.0),
    window_s=WINDOW_S["read_write"],
)  # fmt: skip
