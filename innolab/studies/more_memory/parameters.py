"""What memory against disks is measured on: the parameters, the levels, and each device's arms."""

import math
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from innolab.storage.profiles import HOST
from innolab.studies.parameters import (
    ByScale,
    Devices,
    FlushLog,
    Parameters,
    Profile,
    Threads,
    asks,
)
from innolab.studies.study import Arm

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
# From here on a reading load needs no disk.
PLATEAU = POOL_RATIOS["3.5C"]
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
