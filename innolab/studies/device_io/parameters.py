"""What devices are asked for: the parameters, the patterns, and how long each is measured."""

from typing import Annotated, ClassVar

from pydantic import AfterValidator

from innolab.storage.profiles import HOST, DeviceLoad
from innolab.studies.parameters import Builds, ByEffort, ByScale, Devices, Parameters, repeats

MIB = 1024**2
# SQLIO's patterns in S4, with two threads of four each in flight.
IN_FLIGHT = 8
PATTERNS = {
    "8K random read": DeviceLoad(IN_FLIGHT, 8192),
    "8K random write": DeviceLoad(IN_FLIGHT, 8192, 0.0),
    "256K read in order": DeviceLoad(IN_FLIGHT, 256 * 1024, 1.0, in_order=True),
    "256K write in order": DeviceLoad(IN_FLIGHT, 256 * 1024, 0.0, in_order=True),
    "1024K read in order": DeviceLoad(IN_FLIGHT, MIB, 1.0, in_order=True),
    "1024K write in order": DeviceLoad(IN_FLIGHT, MIB, 0.0, in_order=True),
}
SWEPT = "8K random read"
ALL_DEPTHS = (1, 2, 4, 8, 16, 32, 64)
DEPTHS = ByEffort((1, 8, 32), (1, 4, 8, 32, 64), ALL_DEPTHS)
# Five blocks of `reference` took 70 minutes so (docs/decisions/0021).
WINDOW_S = ByEffort(1, 1, 5)
# Seconds before a burst, and from its beginning on.
BURST_S = ByEffort((3, 4), (4, 6), (10, 20))
FILE_BYTES = ByScale(256 * MIB, 1024 * MIB, 16 * 1024 * MIB)


def _fio_alone(builds: list[str]) -> list[str]:
    if builds != ["fio"]:
        raise ValueError("should be fio alone: no server runs in this study")
    return builds


class DeviceParameters(Parameters):
    """The common parameters; no server runs, so the only build is the program that asks.

    Attributes
    ----------
    builds : fio, and nothing else
    rows : without a meaning here
    devices : devices, or host; at smoke the first and the last of them
    """

    ROWS: ClassVar = ByScale(100_000, 100_000, 100_000)
    builds: Annotated[Builds, AfterValidator(_fio_alone)] = repeats(["fio"])
    devices: Devices = ["15k-timed", "raid10-10x15k", "x25-e-timed", "vertex", "slc-2008",
                        "iodrive-80", HOST]  # fmt: skip
