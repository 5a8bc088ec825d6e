"""What an array of equal disks should give, by the usual formula. Pure numbers."""

from typing import NamedTuple

from innolab.storage.profiles import ServiceTimes

# Operations on disks that a small write costs: on RAID5 the old data and the old parity are read,
# and both are written again.
_RAID5_PENALTY = 4
# How far a calibration may be off the formula before it needs an explanation.
TOLERANCE = 0.10
# What md keeps of RAID5 in memory unless asked otherwise (stripe_cache_size), in rows of a page.
_MD_ROWS = 256


class Array(NamedTuple):
    """A layout of the role `storage` on a number of disks, its journal not counted."""

    layout: str
    disks: int

    @property
    def splits(self) -> bool:
        """Return whether the redo log is on disks of its own."""
        return self.layout == "raid1-split"

    @property
    def level(self) -> str | None:
        """Return the level of its md arrays, or None for a disk without one."""
        return None if self.layout == "single" else self.layout.partition("-")[0]

    @property
    def data_disks(self) -> int:
        """Return how many disks hold the tables: half, where the log has the others."""
        return self.disks // 2 if self.splits else self.disks

    @property
    def write_penalty(self) -> int:
        """Return how many operations on disks a write of a page costs."""
        if self.level == "raid1":
            return self.data_disks
        return {None: 1, "raid5": _RAID5_PENALTY, "raid10": 2}[self.level]

    def iops(self, disk_iops: float, read_share: float) -> float:
        """Return the operations a second of a mix: N d / (r + w p).

        Parameters
        ----------
        disk_iops : operations a second of one disk, d
        read_share : the share of reads, r; w is the rest

        >>> Array("raid10", 8).iops(200, 0.0), Array("raid5", 4).iops(200, 0.0)
        (800.0, 200.0)
        >>> Array("raid1", 4).iops(200, 1.0), Array("raid1-split", 4).iops(200, 0.0)
        (800.0, 200.0)
        """
        cost = read_share + (1 - read_share) * self.write_penalty
        return self.data_disks * disk_iops / cost

    def of_disks(self, disk: ServiceTimes, chunk_bytes: int) -> ServiceTimes:
        """Return the service times of the array that holds the tables, made of equal disks.

        Each disk has its own bus. With parity it is what Linux md makes of them.
        """
        parity = self.level == "raid5"
        return disk._replace(
            units=self.data_disks,
            copies={"raid1": self.data_disks, "raid10": 2}.get(self.level or "", 1),
            parity=int(parity),
            cached_rows=_MD_ROWS if parity else 0,
            stripe_bytes=chunk_bytes,
            bus_bytes_per_s=self.data_disks * disk.bus_bytes_per_s,
        )
