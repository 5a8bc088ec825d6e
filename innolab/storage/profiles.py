"""Profiles of devices that are emulated by limits, and what a calibration says of them."""

import csv
from functools import cache
from typing import Any, NamedTuple

from innolab.base.errors import InputError
from innolab.base.provenance import ROOT

PAGE_BYTES = 16 * 1024
HOST = "host"
# Of the mixed calibration: OLTP's rough share of reads.
MIXED_READ_SHARE = 0.7
TOLERANCE = 0.05
_LIMITS = ("_iops", "_per_s")
_FILE = ROOT / "data" / "devices.csv"


class Profile(NamedTuple):
    """A device by what it can do at most in a second; None is no limit of its own."""

    name: str
    read_iops: int | None
    write_iops: int | None
    read_bytes_per_s: int | None
    write_bytes_per_s: int | None
    capacity_bytes: int | None
    source: str
    note: str

    def pages_per_s(self, direction: str) -> float:
        """Return how many pages of 16 KiB it can read or write in a second."""
        operations, bandwidth = (
            (self.read_iops, self.read_bytes_per_s)
            if direction == "read"
            else (self.write_iops, self.write_bytes_per_s)
        )
        by_bandwidth = None if bandwidth is None else bandwidth / PAGE_BYTES
        return min(limit for limit in (operations, by_bandwidth) if limit is not None)

    def limits(self) -> dict[str, int | None]:
        """Return what can change a measurement: all but the words."""
        return {name: value for name, value in self._asdict().items() if name.endswith(_LIMITS)}

    def mixed_pages_per_s(self) -> float:
        """Return the pages a second of a mix of MIXED_READ_SHARE reads, as limits allow it.

        Each direction has its own limit, so the scarcer one decides. Real mirrors share their
        arms between both and would do less: N d / (r + 2 w).
        """
        reads = self.pages_per_s("read") / MIXED_READ_SHARE
        return min(reads, self.pages_per_s("write") / (1 - MIXED_READ_SHARE))


@cache
def profiles() -> dict[str, Profile]:
    """Return all profiles by name, in the order of data/devices.csv."""
    with _FILE.open(newline="") as file:
        rows = list(csv.DictReader(file))
    found = {r["name"]: Profile(**{k: _number(k, v) for k, v in r.items()}) for r in rows}
    for profile in found.values():
        if None in (profile.read_iops or profile.read_bytes_per_s,
                    profile.write_iops or profile.write_bytes_per_s):  # fmt: skip
            raise InputError(
                f"{_FILE.name}: {profile.name} has no limit for reads or none for writes; a device "
                "needs operations or bytes a second for both."
            )
    return found


def _number(column: str, text: str) -> Any:
    if column in ("name", "source", "note"):
        return text
    return int(text) if text else None


class Calibration(NamedTuple):
    """What fio got from a device: pages of 16 KiB a second, by kind of work."""

    read_per_s: float
    write_per_s: float
    mixed_per_s: float
    synced_write_per_s: float


def faults(profile: Profile, found: Calibration) -> list[str]:
    """Return in words what is off the profile by more than TOLERANCE.

    Profiles say nothing of synced writes: how many writes of its own a file system adds to each
    varies from moment to moment. They are measured to be known, not to be judged.
    """
    wanted = {
        "reads": (found.read_per_s, profile.pages_per_s("read")),
        "writes": (found.write_per_s, profile.pages_per_s("write")),
        "mixed": (found.mixed_per_s, profile.mixed_pages_per_s()),
    }
    return [
        f"{got:,.0f} of {want:,.0f} {kind} a second"
        for kind, (got, want) in wanted.items()
        if abs(got / want - 1) > TOLERANCE
    ]
