"""What access paths are measured on: the parameters, and the paths and shares of each device."""

from typing import Annotated, ClassVar

from pydantic import AfterValidator

from innolab.storage.profiles import HOST, profiles
from innolab.studies.parameters import ByScale, Devices, Parameters, Rows
from innolab.studies.study import Arm

# Shares of the rows. Where rows lie at random a disk needs a turn for each, so it gets fewer.
SHARES = {"scan": (1.0,), "covering": (1.0,), "range": (0.1,), "near": (0.1, 1.0)}
FAR = {"disk": {"far": (0.0003, 0.001, 0.003), "far, MRR": (0.001, 0.003)},
       "flash": {"far": (0.001, 0.01, 0.1), "far, MRR": (0.01, 0.1)}}  # fmt: skip
POOLS = {"quarter": 0.25, "all": 1.5}
LAYOUTS = ("as loaded", "scattered")


def _ten_thousands(rows: int | None) -> int | None:
    if rows is not None and rows % 10_000:
        raise ValueError("must be a multiple of 10,000, in which the table is loaded")
    return rows


class AccessParameters(Parameters):
    """The common parameters.

    Attributes
    ----------
    rows : the rows of the table, in steps of 10,000
    devices : devices, or host; at smoke the first and the last of them; the last is also asked
        with all data in memory
    """

    ROWS: ClassVar = ByScale(200_000, 600_000, 40_000_000)
    rows: Annotated[Rows, AfterValidator(_ten_thousands)] = None
    devices: Devices = ["15k-timed", "iodrive-80", HOST]


def _turns(device: str) -> bool:
    times = profiles()[device].times if device != HOST else None
    return times is not None and times.turn_s > 0


def paths(device: str) -> dict[str, tuple[float, ...]]:
    """Return the paths that are taken on a device, and the shares of the rows that each reads."""
    return {**SHARES, **FAR["disk" if _turns(device) else "flash"]}


def keep(parameters: AccessParameters, arm: Arm) -> bool:
    """Return whether an arm is measured; with a pool for all data only what reads all rows."""
    shares = paths(arm.device)[arm.path]
    if arm.share not in shares:
        return False
    if parameters.scale == "smoke" and (
        arm.path not in ("scan", "near", "far") or (arm.share, arm.pool_ratio) != (shares[-1], 0.25)
    ):
        return False
    if arm.layout == "scattered":
        return arm.path == "scan" and arm.pool_ratio == POOLS["quarter"]
    # From memory all devices are one.
    in_memory = arm.device == parameters.devices[-1] and arm.path in ("scan", "near")
    return arm.pool_ratio == POOLS["quarter"] or (in_memory and arm.share == 1)


def all_shares(devices: list[str]) -> list[float]:
    """Return every share of the rows that is read on some devices, ascending."""
    return sorted(
        {share for name in devices for shares in paths(name).values() for share in shares}
    )
