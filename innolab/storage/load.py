"""Loads on a device, which fio runs and the model of a device simulates, and what they get."""

from typing import NamedTuple

from innolab.storage.profiles import MIXED_READ_SHARE, PAGE_BYTES

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


# What limits cannot tell apart, and service times do.
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
