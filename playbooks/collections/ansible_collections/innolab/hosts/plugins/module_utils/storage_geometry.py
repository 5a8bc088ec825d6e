"""What a layout means: which arrays, of which disks, made how. Nothing here touches a host.

A place is where files are to lie: C(data) or C(log). It is an md array or, in the layout
C(single), a disk as it is.
"""

from __future__ import annotations

import hashlib
import uuid
from typing import Any, NamedTuple

LAYOUTS = ("single", "raid1", "raid1-split", "raid5", "raid10")
_FEWEST = {"single": 1, "raid1": 2, "raid1-split": 4, "raid5": 3, "raid10": 2}
_LEVELS = {"single": "single", "raid1-split": "raid1"}
_MIB = 2**20
# mkfs.xfs makes no smaller file system, and md keeps some of each member for itself.
_LEAST_MIB = 320


class StorageError(Exception):
    """What cannot be done, and what to do about it, in words for the user."""


class Disk(NamedTuple):
    """A disk as its owner names it: by its name in /dev/disk/by-id, its serial number and size."""

    id: str
    serial: str
    size_bytes: int

    @property
    def path(self) -> str:
        """Return the device file, which stays the same over a reboot."""
        return f"/dev/disk/by-id/{self.id}"


class Place(NamedTuple):
    """An array or a disk on which one file system is to lie."""

    name: str
    level: str
    members: tuple[Disk, ...]
    chunk_kib: int | None
    copies: str | None
    bitmap: str | None
    journal: Disk | None
    size_mib: int | None

    @property
    def disks(self) -> tuple[Disk, ...]:
        """Return the members and the disk of the write journal."""
        return self.members + ((self.journal,) if self.journal else ())

    @property
    def device(self) -> str:
        """Return the device file under which the place is used."""
        return self.members[0].path if self.level == "single" else f"/dev/md/innolab-{self.name}"


def disk(given: dict[str, Any]) -> Disk:
    """Return the disk that a user or a record describes."""
    return Disk(given["id"], given["serial"], int(given["size_bytes"]))


def geometry(given: dict[str, Any]) -> dict[str, Any]:
    """Return what makes two requests the same, as JSON; what a layout has no use for is None.

    Raises
    ------
    StorageError
        Where what is asked makes no sense on any host. It names everything that is wrong.
    """
    layout = given["layout"]
    if layout not in LAYOUTS:
        raise StorageError(f"the layout '{layout}' is unknown; known are {', '.join(LAYOUTS)}")
    is_md = layout != "single"
    wanted = {
        "layout": layout,
        "disks": [disk(x)._asdict() for x in given["disks"]],
        "chunk_kib": given["chunk_kib"] if layout in ("raid5", "raid10") else None,
        "raid10_copies": given["raid10_copies"] if layout == "raid10" else None,
        "bitmap": given["bitmap"] if is_md else None,
        "journal": disk(given["journal"])._asdict() if given["journal"] else None,
        "size_mib": given["size_mib"],
    }
    if wrong := _wrong(wanted):
        raise StorageError("; ".join(wrong))
    return wanted


def _wrong(wanted: dict[str, Any]) -> list[str]:
    """Return all that is wrong with a geometry."""
    layout, count = wanted["layout"], len(wanted["disks"])
    wrong = []
    if count < _FEWEST[layout] or (layout == "single" and count > 1):
        least = "exactly" if layout == "single" else "at least"
        wrong.append(f"{layout} needs {least} {_FEWEST[layout]} disk(s) but {count} are named")
    if layout == "raid1-split" and count % 2:
        wrong.append(f"raid1-split halves its disks but {count} is an odd number; name an even one")
    wrong += _wrong_journal(wanted)
    chunk = wanted["chunk_kib"]
    if chunk is not None and (chunk < 4 or chunk & (chunk - 1)):
        wrong.append(f"chunk_kib is {chunk} but should be a power of two from 4 on")
    return wrong + _wrong_disks(wanted)


def _wrong_journal(wanted: dict[str, Any]) -> list[str]:
    if not wanted["journal"]:
        return []
    wrong = []
    if wanted["layout"] != "raid5":
        wrong.append(f"a write journal serves raid5 only, not {wanted['layout']}; leave it out")
    if wanted["bitmap"] != "none":
        wrong.append("an array with a write journal takes no bitmap; set bitmap: none")
    return wrong


def _wrong_disks(wanted: dict[str, Any]) -> list[str]:
    """Return what is wrong with the disks among themselves."""
    members = [disk(x) for x in wanted["disks"]]
    named = members + ([disk(wanted["journal"])] if wanted["journal"] else [])
    wrong = [
        f"'{name}' is no name in /dev/disk/by-id"
        for name in dict.fromkeys(x.id for x in named)
        if not name or "/" in name or name.startswith(".")
    ]
    for what in ("id", "serial"):
        words = [getattr(x, what) for x in named]
        twice = sorted({word for word in words if words.count(word) > 1})
        wrong += [f"the disk with the {what} '{word}' is named twice" for word in twice]
    for place in places(wanted):
        if len({x.size_bytes for x in place.members}) > 1:
            sizes = ", ".join(f"{x.id}: {x.size_bytes}" for x in place.members)
            wrong.append(f"the disks of one array should be of one size but are not ({sizes})")
    size, smallest = wanted["size_mib"], min((x.size_bytes for x in members), default=0)
    if size is not None and not _LEAST_MIB <= size <= smallest // _MIB:
        most = smallest // _MIB
        wrong.append(f"size_mib is {size} but should lie in {_LEAST_MIB} to {most}, a disk's size")
    return wrong


def places(wanted: dict[str, Any]) -> list[Place]:
    """Return the places of a geometry, the data's first."""
    layout, members = wanted["layout"], tuple(disk(x) for x in wanted["disks"])
    half = len(members) // 2
    split = layout == "raid1-split"
    shares = {"data": members[:half], "log": members[half:]} if split else {"data": members}
    common = {
        "level": _LEVELS.get(layout, layout),
        "chunk_kib": wanted["chunk_kib"],
        "copies": wanted["raid10_copies"],
        "bitmap": wanted["bitmap"],
        "journal": disk(wanted["journal"]) if wanted["journal"] else None,
        "size_mib": wanted["size_mib"],
    }
    return [Place(name=name, members=share, **common) for name, share in shares.items()]


def names(machine_id: str, generation: int, place: Place) -> dict[str, str | None]:
    """Return the UUIDs that a place is to get.

    They are chosen before anything is made, so that what an interrupted run left is known as ours.
    The generation grows with every plan carried out, so that no old superblock fits a new array.
    """
    text = "\n".join([machine_id, str(generation), *map(str, place)])
    digest = hashlib.sha256(text.encode()).digest()
    words = [digest[i : i + 4].hex() for i in range(0, 16, 4)]
    return {
        "md_uuid": None if place.level == "single" else ":".join(words),
        "xfs_uuid": str(uuid.UUID(bytes=digest[16:], version=4)),
    }
