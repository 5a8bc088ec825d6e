"""Profiles of emulated devices, by limits or by service times, and what fio says of them."""

import csv
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from innolab.base import places
from innolab.base.errors import InputError

PAGE_BYTES = 16 * 1024
HOST = "host"
# Of the mixed calibration: OLTP's rough share of reads.
MIXED_READ_SHARE = 0.7
TOLERANCE, TIMED_TOLERANCE = 0.05, 0.10
_LIMITS = ("_iops", "_per_s")
_FILE = places.own("data", "devices.csv")
_TIMES_FILE = places.own("data", "service-times.csv")
_WORDS = ("name", "source", "note")


class ServiceTimes(NamedTuple):
    """What the program model_disk makes of a device: seconds, bytes, and numbers of parts.

    See the head of model_disk.c for what the model does with each.
    """

    units: float
    copies: float
    stripe_bytes: float
    queue: float
    seek_min_s: float
    seek_full_s: float
    turn_s: float
    read_s: float
    write_s: float
    random_write_s: float
    unit_bytes_per_s: float
    bus_s: float
    bus_bytes_per_s: float
    cache_bytes: float
    cache_s: float
    cache_kept: float
    flush_s: float
    parity: float = 0
    cached_rows: float = 0

    def limits(self) -> dict[str, float]:
        """Return it by name; what only RAID5 has is left out elsewhere, as in older records."""
        named = self._asdict()
        return {k: v for k, v in named.items() if v or k not in self._field_defaults}

    def faster(self, times: float) -> "ServiceTimes":
        """Return the device whose every step takes so many times less."""
        changed = {
            name: value / times if name.endswith("_s") and not name.endswith("_per_s") else value
            for name, value in self._asdict().items()
        }
        rates = {k: v * times for k, v in changed.items() if k.endswith("_per_s")}
        return ServiceTimes(**{**changed, **rates})

    def contradiction(self) -> str | None:
        """Return as text why there can be no such device, or None."""
        if self.units % self.copies:
            return f"{self.units:g} units cannot be {self.copies:g} copies of each other"
        if self.seek_full_s < self.seek_min_s:
            return "a seek over the whole disk takes less than one to the next track"
        if self.seek_full_s and not self.turn_s:
            return "it seeks but does not turn"
        if self.turn_s and (self.read_s or self.write_s or self.random_write_s):
            return "it turns as a disk, and has the reads and writes of flash"
        if self.random_write_s and self.random_write_s < self.write_s:
            return "a random write takes less than one in order"
        return None


class Profile(NamedTuple):
    """A device by what it can do at most in a second, None being no limit, or by service times.

    Attributes
    ----------
    times : how long each step of it takes, if it is one of service times
    has_log : whether a second one, with the same times, holds the redo log
    speedups : how many times faster than that it is to be had
    """

    name: str
    read_iops: int | None
    write_iops: int | None
    read_bytes_per_s: int | None
    write_bytes_per_s: int | None
    capacity_bytes: int | None
    source: str
    note: str
    times: ServiceTimes | None = None
    has_log: bool = False
    speedups: tuple[float, ...] = (1.0,)

    def faster(self, times: float) -> "Profile":
        """Return a device of service times with every step so many times faster."""
        return self._replace(times=self.times and self.times.faster(times))

    def pages_per_s(self, direction: str) -> float:
        """Return how many pages of 16 KiB a device of limits can read or write in a second."""
        operations, bandwidth = (
            (self.read_iops, self.read_bytes_per_s)
            if direction == "read"
            else (self.write_iops, self.write_bytes_per_s)
        )
        by_bandwidth = None if bandwidth is None else bandwidth / PAGE_BYTES
        return min(limit for limit in (operations, by_bandwidth) if limit is not None)

    def limits(self) -> dict[str, int | float | None]:
        """Return what can change a measurement: all but the words."""
        if self.times is not None:
            return {**self.times.limits(), **({"has_log": 1} if self.has_log else {})}
        return {name: value for name, value in self._asdict().items() if name.endswith(_LIMITS)}

    def mixed_pages_per_s(self) -> float:
        """Return the pages a second of a mix of MIXED_READ_SHARE reads, as limits allow it.

        Each direction has its own limit, so the scarcer one decides. Real mirrors share their
        arms between both and would do less: N d / (r + 2 w).
        """
        reads = self.pages_per_s("read") / MIXED_READ_SHARE
        return min(reads, self.pages_per_s("write") / (1 - MIXED_READ_SHARE))

    def expected(self) -> dict[str, float]:
        """Return what fio should get from a device of limits, pages a second by kind of work."""
        return {
            "read_per_s": self.pages_per_s("read"),
            "write_per_s": self.pages_per_s("write"),
            "mixed_per_s": self.mixed_pages_per_s(),
        }


def of_limits(name: str, limits: Mapping[str, int | float | None]) -> Profile:
    """Return the profile of a device with some limits or service times, as a report keeps them.

    Raises
    ------
    TypeError
        If these are neither.
    """
    if "units" in limits:
        named = {k: v or 0.0 for k, v in limits.items() if k != "has_log"}
        return Profile(
            name, None, None, None, None, None, "", "", ServiceTimes(**named), "has_log" in limits
        )
    return Profile(name, **limits, capacity_bytes=None, source="", note="")  # type: ignore[arg-type]


@cache
def profiles() -> dict[str, Profile]:
    """Return all profiles by name, those of limits first, in the order of their files.

    Raises
    ------
    InputError
        If a profile contradicts itself.
    """
    found = {name: _limited(row) for name, row in _rows(_FILE).items()}
    return found | {name: timed(row) for name, row in _rows(_TIMES_FILE).items()}


def _rows(file: Any) -> dict[str, dict[str, str]]:
    with file.open(newline="") as opened:
        return {row["name"]: row for row in csv.DictReader(opened)}


def _limited(row: dict[str, str]) -> Profile:
    profile = Profile(
        **{k: v if k in _WORDS else int(v) if v else None for k, v in row.items()}  # type: ignore[arg-type]
    )
    if None in (profile.read_iops or profile.read_bytes_per_s,
                profile.write_iops or profile.write_bytes_per_s):  # fmt: skip
        raise InputError(
            f"{_FILE.name}: {profile.name} has no limit for reads or none for writes; a device "
            "needs operations or bytes a second for both."
        )
    return profile


def timed(row: dict[str, str]) -> Profile:
    """Return the profile of a row of service-times.csv.

    Raises
    ------
    InputError
        If it contradicts itself.
    """
    times = ServiceTimes(**{k: float(v) for k, v in row.items() if k not in _WORDS})
    if why := times.contradiction():
        raise InputError(f"{_TIMES_FILE.name}: {row['name']} contradicts itself: {why}.")
    return Profile(row["name"], None, None, None, None, None, row["source"], row["note"], times)


def limited() -> dict[str, Profile]:
    """Return the profiles of devices that are emulated by limits."""
    return {name: profile for name, profile in profiles().items() if profile.times is None}


class Calibration(NamedTuple):
    """What fio got from a device: pages of 16 KiB a second, by kind of work."""

    read_per_s: float
    write_per_s: float
    mixed_per_s: float
    synced_write_per_s: float


# How calibrations and what they are compared with are named.
KINDS_IN_WORDS = {
    "read_per_s": "reads",
    "write_per_s": "writes",
    "mixed_per_s": "mixed",
    "read_alone_per_s": "reads one at a time",
    "read_in_order_per_s": "reads in order",
}


def faults(profile: Profile, found: Calibration, tolerance: float = TOLERANCE) -> list[str]:
    """Return as text what is off the limits of a profile by more than a share.

    Profiles say nothing of synced writes: how many writes of its own a file system adds to each
    varies from moment to moment. They are measured to be known, not to be judged.
    """
    got = found._asdict()
    return [
        f"{got[kind]:,.0f} of {want:,.0f} {KINDS_IN_WORDS[kind]} a second"
        for kind, want in profile.expected().items()
        if abs(got[kind] / want - 1) > tolerance
    ]


# More in flight than any load keeps here, so that the device and not the waiting decides.
DEPTH = 32


class DeviceLoad(NamedTuple):
    """Operations that are kept in flight on one file.

    Attributes
    ----------
    depth : how many
    block_bytes : the bytes of each
    read_share : the share of reads; the rest writes
    in_order : each after the last, else at random places
    synced : each write is flushed before the next
    """

    depth: int = DEPTH
    block_bytes: int = PAGE_BYTES
    read_share: float = 1.0
    in_order: bool = False
    synced: bool = False


class Outcome(NamedTuple):
    """What a load got: operations a second, their number, and latencies in seconds."""

    per_s: float
    operations: int
    mean_s: float
    p50_s: float
    p99_s: float


def calibrating(depth: int) -> dict[str, DeviceLoad]:
    """Return the loads that every device is asked for, by kind of work."""
    return {
        "read": DeviceLoad(depth),
        "write": DeviceLoad(depth, read_share=0),
        "mixed": DeviceLoad(depth, read_share=MIXED_READ_SHARE),
        "synced_write": DeviceLoad(1, read_share=0, synced=True),
    }


# What limits cannot distinguish, and service times do.
TIMED = {
    "read_alone": DeviceLoad(1),
    "read_in_order": DeviceLoad(1, in_order=True),
}

# What a server's lookups and scans ask for: a page at a time at random places, and the pages of an
# extent ahead (innodb_read_ahead_threshold; storage/innobase/buf/buf0rea.cc).
PAGE_READS = {
    "alone": DeviceLoad(1),
    "ahead": DeviceLoad(64, in_order=True),
}


def timed_faults(rows: list[Mapping[str, Any]], tolerance: float = TIMED_TOLERANCE) -> list[str]:
    """Return as text which loads got more or less than the model by more than a share."""
    return [
        f"{row['found_per_s']:,.0f} of {row['modelled_per_s']:,.0f} "
        f"{KINDS_IN_WORDS[row['load'] + '_per_s']} a second"
        + (f" at {row['speedup']:g} times its speed" if "speedup" in row else "")
        for row in rows
        if row["judged"] and abs(row["found_per_s"] / row["modelled_per_s"] - 1) > tolerance
    ]
