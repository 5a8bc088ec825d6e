"""Judge disks by their facts: is this the disk that is meant, and is it free to be written?

Every doubt refuses: the data of a wrong disk do not come back. Only data without a signature may be
given up, disk by disk.
"""

from __future__ import annotations

from typing import NamedTuple

from .storage_disks import Facts
from .storage_geometry import Disk


class Ours(NamedTuple):
    """What the record of this host says is innolab's: UUIDs, and the names of arrays by them."""

    md_uuids: frozenset[str] = frozenset()
    xfs_uuids: frozenset[str] = frozenset()
    arrays: frozenset[str] = frozenset()


def refusals(
    disks: list[Disk],
    facts: dict[str, Facts],
    ours: Ours,
    may_hold: frozenset[str] = frozenset(),
) -> list[str]:
    """Return why disks are not to be touched, each reason with the disk's id; none if they may.

    Parameters
    ----------
    may_hold : ids of disks on which data without a signature are no reason
    """
    found = _twice(disks, facts)
    for disk in disks:
        seen = facts[disk.id]
        reasons = _wrong_disk(disk, seen) or _not_free(seen, ours)
        if not reasons and disk.id not in may_hold and not is_ours(seen, ours):
            reasons = _not_blank(disk, seen)
        found += [f"{disk.id}: {reason}" for reason in reasons]
    return found


def _twice(disks: list[Disk], facts: dict[str, Facts]) -> list[str]:
    """Return the disks that are named by two ids."""
    by_node: dict[str, list[str]] = {}
    for disk in disks:
        by_node.setdefault(facts[disk.id].node, []).append(disk.id)
    return [
        f"{' and '.join(ids)} are one disk ({node}), named twice"
        for node, ids in by_node.items()
        if node and len(ids) > 1
    ]


def _wrong_disk(disk: Disk, seen: Facts) -> list[str]:
    """Return why the device found is not the disk that is meant."""
    if not seen.node:
        return [f"there is no such disk; {disk.path} should be its device file"]
    if not seen.is_whole:
        return [f"{seen.node} is a part of a disk; name the whole disk"]
    wrong = []
    if disk.serial not in seen.serials:
        said = ", ".join(seen.serials) or "none that can be read"
        wrong.append(f"its serial number should be {disk.serial} but is {said}")
    if disk.size_bytes != seen.size_bytes:
        wrong.append(f"it should have {disk.size_bytes} bytes but has {seen.size_bytes}")
    if seen.is_read_only:
        wrong.append("it is read-only")
    return wrong


def is_ours(seen: Facts, ours: Ours) -> bool:
    """Say whether what lies on a disk is what the record of this host says we made."""
    kinds = {signature.kind for signature in seen.signatures}
    if seen.md_uuid:
        return seen.md_uuid in ours.md_uuids and kinds <= {"linux_raid_member"}
    uuids = {signature.uuid for signature in seen.signatures}
    return kinds == {"xfs"} and uuids <= ours.xfs_uuids


def _not_blank(disk: Disk, seen: Facts) -> list[str]:
    """Return what was read on a disk on which no probe knows a thing."""
    if seen.contents is None:
        return ["what it holds was not read, so it may hold data"]
    if seen.contents.is_blank:
        return []
    return [
        f"it is not blank: {seen.contents.words()}, though no signature says whose; if they may "
        f"be lost, name its serial {disk.serial} under contents_may_be_lost"
    ]


def _not_free(seen: Facts, ours: Ours) -> list[str]:
    """Return what speaks against writing to a disk."""
    found = [f"a look at it failed, so it may hold data: {error}" for error in seen.probe_errors]
    mine = is_ours(seen, ours)
    may_hold = ours.arrays if mine else frozenset()
    may_use = may_hold | {seen.name} if mine else frozenset()
    uses = [use.what for use in seen.uses if use.by_way_of not in may_use]
    found += [f"it is in use: {what}" for what in dict.fromkeys(uses)]
    holders = [name for name in seen.holders if name not in may_hold]
    found += [f"it is part of {name}" for name in holders]
    found += [f"it has a partition table with {name}" for name in seen.partitions]
    if mine:
        return found
    found += [f"it is held open by {who}" for who in seen.openers]
    if seen.exclusive_error and not (uses or holders):
        found.append(f"it is held: an exclusive open fails ({seen.exclusive_error})")
    if seen.md_uuid:
        found.append(f"it is a member of the md array {seen.md_uuid}, which is not ours")
    kinds = dict.fromkeys(signature.kind for signature in seen.signatures)
    return found + [f"it holds a signature of {kind}" for kind in kinds]
