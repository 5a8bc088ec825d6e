"""Decide which steps lead to the storage asked for, and seal them with a hash."""

from __future__ import annotations

import hashlib
import json
import shlex
from typing import Any, NamedTuple

from .storage_contents import MIB, Erasure, seed
from .storage_disks import Facts
from .storage_geometry import Disk, Place, StorageError, disk, names, places
from .storage_refusals import Ours, is_ours, refusals

BACKUPS = "/etc/innolab/backup"
RECORD = "/etc/innolab/storage.json"
MDADM_CONF = "/etc/mdadm/mdadm.conf"
# Without these a step would wait for an answer, or leave what matters to a default.
_CREATE = ["--run", "--metadata=1.2", "--homehost=any"]


class Step(NamedTuple):
    """One step: what it does in words, and commands that may run at the same time."""

    kind: str
    says: str = ""
    commands: tuple[tuple[str, ...], ...] = ()
    given: Any = None

    def lines(self) -> list[str]:
        """Return the step for people."""
        return [self.says] if self.says else [shlex.join(words) for words in self.commands]


class Host(NamedTuple):
    """What a plan depends on besides what is asked."""

    machine_id: str
    record: dict[str, Any]
    facts: dict[str, Facts]
    live: dict[str, dict[str, Any]]  # arrays that run, by UUID
    mounts: dict[str, list[str]]  # mount points by kernel name, the innermost first
    updates_initramfs: bool = False


class Plan(NamedTuple):
    """The steps, the hash that allows them, and the record of what they make."""

    steps: list[Step]
    hash: str
    record: dict[str, Any]

    def lines(self) -> list[str]:
        """Return all steps for people."""
        return [line for step in self.steps for line in step.lines()]


def recorded(entry: dict[str, Any]) -> Place:
    """Return the place that a record's entry describes."""
    keys = {key: entry[key] for key in Place._fields}
    journal = disk(entry["journal"]) if entry["journal"] else None
    members = tuple(disk(x) for x in entry["members"])
    return Place(**{**keys, "members": members, "journal": journal})


def link(entry: dict[str, Any]) -> str:
    """Return the name below /dev by which udev knows a place's device, whenever it appears."""
    if entry["md_uuid"]:
        return f"disk/by-id/md-uuid-{entry['md_uuid']}"
    return f"disk/by-id/{entry['members'][0]['id']}"


def entries(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all places that may be there: the record's own and those that it was to replace."""
    return record.get("places", []) + record.get("former", [])


def all_disks(wanted: dict[str, Any] | None, record: dict[str, Any]) -> list[Disk]:
    """Return every disk that a plan looks at: those asked for first, then the recorded ones."""
    found = [x for place in places(wanted) for x in place.disks] if wanted else []
    kept = [x for entry in entries(record) for x in recorded(entry).disks]
    return list({x.id: x for x in [*kept, *found]}.values())


def _ours(host: Host) -> Ours:
    known = entries(host.record)
    uuids = frozenset(x["md_uuid"] for x in known if x["md_uuid"])
    return Ours(
        md_uuids=uuids,
        xfs_uuids=frozenset(x["xfs_uuid"] for x in known),
        arrays=frozenset(host.live[uuid]["node"] for uuid in uuids if uuid in host.live),
    )


def make(
    wanted: dict[str, Any] | None,
    host: Host,
    replace_ours: bool,
    zero: bool,
    may_be_lost: frozenset[str] = frozenset(),
) -> Plan:
    """Return the plan to reach a geometry, or, where it is None, to take down what is ours.

    Parameters
    ----------
    wanted, host : the geometry, and what is there
    replace_ours : whether another geometry of ours may go
    zero : whether disks that can zero themselves do
    may_be_lost : serials of disks on which data without a signature may be lost

    Raises
    ------
    StorageError
        Where a disk must not be touched, or another geometry is there. It names every reason.
    """
    record, ours = host.record, _ours(host)
    asked = {x.id: x for place in places(wanted) for x in place.disks} if wanted else {}
    _require_known(may_be_lost, [x.serial for x in asked.values()])
    # A recorded disk that is gone holds nothing that we could touch.
    disks = all_disks(wanted, record)
    there = [x for x in disks if x.id in asked or host.facts[x.id].node]
    # No step writes to a disk that is neither asked for nor ours.
    may_hold = {x.id for x in there if x.id not in asked or x.serial in may_be_lost}
    wrong = refusals(there, host.facts, ours, frozenset(may_hold)) + _strangers(host, ours)
    if wrong:
        raise StorageError("; ".join(wrong))
    lost = [x for x in asked.values() if _holds_data(host.facts[x.id])]
    is_same = record.get("geometry") == wanted and record.get("is_complete", False)
    broken = not_whole(host) if is_same else []
    if is_same and not broken and not lost:
        return Plan([], "", record)
    if not wanted and not record.get("places") and not record.get("former"):
        return Plan([], "", record)
    if wanted and not replace_ours:
        _refuse_replacing(record, host, ours, broken)
    return _sealed(wanted, host, ours, zero, lost)


def _require_known(may_be_lost: frozenset[str], serials: list[str]) -> None:
    if unknown := sorted(may_be_lost - set(serials)):
        known = ", ".join(serials) or "none, as nothing is to be made"
        raise StorageError(
            f"contents_may_be_lost names {', '.join(unknown)}, but should name serials of the "
            f"disks asked for ({known}); nothing was changed. Correct it or leave it out"
        )


def _holds_data(seen: Facts) -> bool:
    return seen.contents is not None and not seen.contents.is_blank


def _strangers(host: Host, ours: Ours) -> list[str]:
    """Return arrays that have our names but not our UUIDs, or that carry something else."""
    wrong = []
    for uuid, array in host.live.items():
        if uuid in ours.md_uuids:
            wrong += [f"{array['node']}, ours, {what}" for what in strange(array, ours.xfs_uuids)]
        elif array["name"].split(":")[-1].startswith("innolab-"):
            named = f"the array {array['node']} is named {array['name']} but has the UUID {uuid}"
            wrong.append(f"{named}, which no record of this host tells of; stop it by hand")
    return wrong


def strange(array: dict[str, Any], xfs_uuids: frozenset[str]) -> list[str]:
    """Return what lies on an array of ours that is not ours."""
    found = [f"is part of {name}" for name in array["holders"]]
    found += [f"cannot be looked at: {error}" for error in array["probe_errors"]]
    return found + [
        f"holds a signature of {kind} that we did not make"
        for kind, uuid in array["signatures"]
        if kind != "xfs" or uuid not in xfs_uuids
    ]


def not_whole(host: Host) -> list[str]:
    """Return in what the recorded arrays differ from the live ones, apart from a resync."""
    wrong = []
    for entry in host.record.get("places", []):
        place = recorded(entry)
        live = host.live.get(entry["md_uuid"])
        if place.level == "single":
            continue
        if live is None:
            wrong.append(f"{place.device} does not run")
            continue
        on = {host.facts[x.id].name for x in place.disks}
        expected = {
            "level": place.level,
            "chunk_kib": place.chunk_kib,
            "raid10_layout": place.copies,
            "bitmap": place.bitmap,
            "has_journal": place.journal is not None,
            "runs_on": sorted(on),
        }
        found = {**live, "runs_on": sorted(live["runs_on"])}
        wrong += [
            f"{place.device}: {key} should be {value} but is {found[key]}"
            for key, value in expected.items()
            if found[key] != value
        ]
        # During a resync none is missing; a rebuild ends by itself, and is waited for.
        if live["degraded"] and live["sync_action"] == "idle":
            wrong.append(f"{place.device} is degraded and nothing rebuilds it")
    return wrong


def _refuse_replacing(record: dict[str, Any], host: Host, ours: Ours, broken: list[str]) -> None:
    """Raise where something of ours would be lost to which the user did not say yes."""
    kept = [x.id for x in all_disks(None, record) if is_ours(host.facts[x.id], ours)]
    if not kept:
        return
    if broken:
        what = f"our storage is not as it was made ({'; '.join(broken)})"
    elif not record["is_complete"]:
        what = f"an interrupted run left parts of ours on {', '.join(kept)}"
    else:
        what = f"this host has another geometry of ours, {record['geometry']['layout']} on "
        what += ", ".join(kept)
    raise StorageError(
        f"{what}; nothing was changed. To lose all data there and make it again, set "
        "replace_ours: true in storage_changes"
    )


def _sealed(
    wanted: dict[str, Any] | None, host: Host, ours: Ours, zero: bool, lost: list[Disk]
) -> Plan:
    """Return the plan with teardown and creation under one hash."""
    generation = host.record.get("generation", 0) + 1
    made = [
        {**_json(place), **names(host.machine_id, generation, place)}
        for place in (places(wanted) if wanted else [])
    ]
    steps = []
    record = {
        "generation": generation,
        "geometry": wanted,
        "is_complete": True,
        "places": made,
        "former": [],
    }
    begun = {**record, "is_complete": False, "former": entries(host.record)}
    steps.append(Step("record", f"write {RECORD}: what is ours from here on", given=begun))
    if old := entries(host.record):
        steps.append(Step("forget", "remove our lines from fstab, udev's rules and host.json"))
        for entry in old:
            steps += _teardown(entry, host, ours, zero)
    if lost:
        held = "; ".join(f"{x.id}: {host.facts[x.id].contents.words()}" for x in lost)
        says = f"erase what may be lost: {held}"
        steps.append(Step("erase", says, given=_erasures(lost, host, zero, 0, None)))
    conf = [
        f"ARRAY /dev/md/innolab-{x['name']} metadata=1.2 name=any:innolab-{x['name']} "
        f"UUID={x['md_uuid']}"
        for x in made
        if x["md_uuid"]
    ]
    steps.append(Step("conf", f"write to {MDADM_CONF}: " + ("; ".join(conf) or "none"), given=conf))
    for entry in made:
        if entry["md_uuid"]:
            zeroed = zero and all(host.facts[x.id].zeroes_itself for x in recorded(entry).members)
            entry["assume_clean"] = zeroed
            steps += _creation(recorded(entry), entry, zeroed)
    if host.updates_initramfs:
        # Else the early boot assembles by the old mdadm.conf, and an array may become md127.
        steps.append(Step("run", commands=(("update-initramfs", "-u"),)))
    steps.append(Step("record", f"write {RECORD}: all of this is done", given=record))
    lines = [line for step in steps for line in step.lines()]
    disks = [_sealed_disk(x, host.facts[x.id], lost) for x in all_disks(wanted, host.record)]
    sealed = json.dumps([host.machine_id, disks, wanted, lines], sort_keys=True)
    return Plan(steps, hashlib.sha256(sealed.encode()).hexdigest(), record)


def _sealed_disk(disk: Disk, seen: Facts, lost: list[Disk]) -> list[Any]:
    """Return what a hash holds of a disk; of what it contains, a digest."""
    held = seen.contents.sha256 if seen.contents else None
    return [disk.id, disk.serial, seen.size_bytes, held, disk in lost]


def _erasures(
    disks: list[Disk], host: Host, zero: bool, begin: int, end: int | None
) -> list[Erasure]:
    """Return what makes disks blank from one byte to another, or to their end."""
    return [
        Erasure(
            path=x.path,
            size_bytes=x.size_bytes,
            seed=seed(host.machine_id, x.serial, x.size_bytes),
            begin=begin,
            end=x.size_bytes if end is None else end,
            zeroes_itself=zero and host.facts[x.id].zeroes_itself,
        )
        for x in disks
    ]


def _json(place: Place) -> dict[str, Any]:
    journal = place.journal._asdict() if place.journal else None
    members = [x._asdict() for x in place.members]
    return {**place._asdict(), "members": members, "journal": journal}


def _command(*words: str) -> Step:
    return Step("run", commands=(words,))


def _released(disks: list[Disk], host: Host, zero: bool, unmark: list[Step]) -> list[Step]:
    """Return the steps that leave disks of ours blank, so that a later look finds them free.

    Their beginning, by which they are known as ours, goes last: what an interrupted run leaves can
    be torn down again.
    """
    if not disks:
        return []
    ids, rest = ", ".join(x.id for x in disks), _erasures(disks, host, zero, MIB, None)
    beginning = _erasures(disks, host, zero, 0, MIB)
    says = f"erase {ids} from 1 MiB on (where a disk cannot zero itself, only what a look reads)"
    return [
        Step("erase", says, given=rest),
        *unmark,
        Step("erase", f"erase the first MiB of {ids}", given=beginning),
    ]


def _teardown(entry: dict[str, Any], host: Host, ours: Ours, zero: bool) -> list[Step]:
    """Return the steps that remove one recorded place, as far as it is there."""
    place, uuid = recorded(entry), entry["md_uuid"]
    marked = [x for x in place.disks if is_ours(host.facts[x.id], ours)]
    if uuid is None:
        [member] = place.members
        before = entry.get("write_cache_before")
        points = host.mounts.get(host.facts[member.id].name, [])
        steps = [_command("umount", point) for point in points]
        if before and host.facts[member.id].node:
            says = f"set the write cache of {member.id} to '{before}', as it was"
            steps.append(Step("write_cache", says, given=(member.path, before)))
        unmark = [_command("wipefs", "--all", "--backup", x.path) for x in marked]
        return steps + _released(marked, host, zero, unmark)
    steps = []
    marked = [x for x in marked if host.facts[x.id].md_uuid == uuid]
    if live := host.live.get(uuid):
        device = f"/dev/{link(entry)}"
        steps += [_command("umount", point) for point in host.mounts.get(live["node"], [])]
        if live["array_state"] != "inactive":
            steps.append(_command("wipefs", "--all", "--backup", device))
        steps.append(_command("mdadm", "--stop", device))
    if marked:
        says = f"check that {', '.join(x.id for x in marked)} carry the array's UUID {uuid}"
        steps.append(Step("expect", says, given=([x.path for x in marked], uuid)))
    unmark = []
    for member in marked:
        unmark.append(_command("wipefs", "--all", "--no-act", "--backup", member.path))
        unmark.append(_command("mdadm", "--zero-superblock", member.path))
    return steps + _released(marked, host, zero, unmark)


def _creation(place: Place, entry: dict[str, Any], zeroed: bool) -> list[Step]:
    """Return the steps that make one array and wait until it is whole."""
    words = ["mdadm", "--create", place.device, *_CREATE, f"--name=innolab-{place.name}"]
    words += [f"--uuid={entry['md_uuid']}", f"--level={place.level.removeprefix('raid')}"]
    words += [f"--chunk={place.chunk_kib}"] if place.chunk_kib else []
    words += [f"--layout={place.copies[0]}2"] if place.copies else []
    words += [] if place.journal else [f"--bitmap={place.bitmap}"]
    words += [f"--write-journal={place.journal.path}"] if place.journal else []
    words += [f"--size={place.size_mib * 1024}"] if place.size_mib else []
    words += ["--assume-clean"] if zeroed else []
    words += [f"--raid-devices={len(place.members)}", *(x.path for x in place.members)]
    steps = []
    if zeroed:
        # The kernel promises zeros after this; where the disk cannot do it by itself it fails.
        zeros = [
            ("fallocate", "--punch-hole", "--offset=0", f"--length={x.size_bytes}", x.path)
            for x in place.members
        ]
        steps.append(Step("run", commands=tuple(zeros)))
        ids = ", ".join(x.id for x in place.members)
        says = f"read samples of {ids}: all should be zero"
        steps.append(Step("zeros", says, given=[x.path for x in place.members]))
    steps.append(_command(*words))
    says = f"wait until {place.device} is whole: no resync, none degraded"
    return [*steps, Step("wait", says, given=entry["md_uuid"])]
