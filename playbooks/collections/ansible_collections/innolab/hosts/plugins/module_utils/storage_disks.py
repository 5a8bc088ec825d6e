"""Look at disks without changing a byte of them."""

from __future__ import annotations

import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from .storage_contents import Contents, contents, seed
from .storage_geometry import Disk
from .storage_host import (
    SYS_BLOCK,
    Use,
    ask,
    exported,
    machine_id,
    read,
    uses,
)

_BY_ID = Path("/dev/disk/by-id")
_EDGE_BYTES = 2**20


class Signature(NamedTuple):
    """What a probe found on a disk: the kind, such as xfs or gpt, and its UUID if it has one."""

    kind: str
    uuid: str


class Facts(NamedTuple):
    """All that is judged before a disk is touched. A disk that is not found has no node.

    Contents are read only where nothing else was found: a disk with a signature is ours or refused.
    """

    node: str = ""
    is_whole: bool = True
    serials: tuple[str, ...] = ()
    size_bytes: int = 0
    is_read_only: bool = False
    partitions: tuple[str, ...] = ()
    holders: tuple[str, ...] = ()
    uses: tuple[Use, ...] = ()
    openers: tuple[str, ...] = ()
    exclusive_error: str = ""
    signatures: tuple[Signature, ...] = ()
    md_uuid: str = ""
    probe_errors: tuple[str, ...] = ()
    zeroes_itself: bool = False
    contents: Contents | None = None

    @property
    def name(self) -> str:
        """Return the kernel's name of the disk."""
        return Path(self.node).name


def look(disks: list[Disk], by_id: Path = _BY_ID) -> dict[str, Facts]:
    """Return the facts of disks by id; nothing is written and no failed probe is passed over."""
    used, nodes = uses(), {disk: _node(by_id / disk.id) for disk in disks}
    openers = _openers({node for node in nodes.values() if node})

    def one(disk: Disk) -> Facts:
        node = nodes[disk]
        if not node:
            return Facts()
        facts = _described(disk, node, used, openers.get(node, ()))
        return _with_contents(_probed(facts), disk) if facts.is_whole else facts

    with ThreadPoolExecutor(8) as pool:
        return dict(zip((disk.id for disk in nodes), pool.map(one, nodes), strict=True))


def _node(link: Path) -> str:
    try:
        node = link.resolve(strict=True)
        return str(node) if stat.S_ISBLK(node.stat().st_mode) else ""
    except OSError:
        return ""


def _openers(nodes: set[str]) -> dict[str, tuple[str, ...]]:
    """Return which processes hold which device file open, apart from udev's short looks."""
    found: dict[str, set[str]] = {}
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            target = str(link.readlink())
        except OSError:  # ended meanwhile
            continue
        if target in nodes and link.parts[2] != str(os.getpid()):
            command = read(Path("/proc", link.parts[2], "comm")) or "?"
            if command not in ("udevd", "systemd-udevd", "(udev-worker)"):
                found.setdefault(target, set()).add(f"{command} (process {link.parts[2]})")
    return {node: tuple(sorted(who)) for node, who in found.items()}


def _described(
    disk: Disk, node: str, used: dict[str, list[Use]], openers: tuple[str, ...]
) -> Facts:
    """Return what the kernel and udev know of a disk."""
    name = Path(node).name
    entry = SYS_BLOCK / name
    if not entry.exists():  # a partition lies in the folder of its disk
        return Facts(node=node, is_whole=False)
    exclusive_error = ""
    try:
        os.close(os.open(node, os.O_RDONLY | os.O_EXCL))
    except OSError as error:
        exclusive_error = error.strerror
    return Facts(
        node=node,
        serials=_serials(disk, entry, node),
        size_bytes=int((entry / "size").read_text()) * 512,
        is_read_only=read(entry / "ro") != "0",
        partitions=tuple(sorted(x.parent.name for x in entry.glob("*/partition"))),
        holders=tuple(holders(entry)),
        uses=tuple(used.get(name, ())),
        openers=openers,
        exclusive_error=exclusive_error,
        zeroes_itself=int(read(entry / "queue/write_zeroes_max_bytes") or 0) > 0,
    )


def holders(entry: Path) -> list[str]:
    """Return what lies on a disk or on its partitions, by kernel name."""
    found = [*entry.glob("holders/*"), *entry.glob("*/holders/*")]
    return sorted({x.name for x in found})


def _serials(disk: Disk, entry: Path, node: str) -> tuple[str, ...]:
    """Return what the kernel, or else udev, takes for the disk's serial number."""
    said = [(read(entry / file) or "").strip() for file in ("serial", "device/serial")]
    if disk.serial not in said:  # a process costs an emulated guest a twentieth of a second
        known = exported(ask(["udevadm", "info", "--query=property", f"--name={node}"]).stdout)
        said += [known.get(x, "") for x in ("ID_SCSI_SERIAL", "ID_SERIAL_SHORT", "ID_SERIAL")]
    return tuple(dict.fromkeys(x for x in said if x))


def _probed(facts: Facts) -> Facts:
    """Return the facts with what is written on the disk; three probes, as each knows kinds more."""
    signatures, said = probe(facts.node)
    errors = list(said)
    md_uuid = _mdadm(facts.node, errors)
    _read_edges(facts, errors)
    return facts._replace(signatures=signatures, md_uuid=md_uuid, probe_errors=tuple(errors))


def _with_contents(facts: Facts, disk: Disk) -> Facts:
    """Return the facts with what a disk holds, where nothing was found that speaks for itself."""
    found = facts.signatures + facts.probe_errors + facts.partitions + facts.holders
    if found or facts.uses or facts.openers or facts.md_uuid or facts.exclusive_error:
        return facts
    size_bytes = facts.size_bytes
    try:
        chosen = seed(machine_id(), disk.serial, size_bytes)
        return facts._replace(contents=contents(facts.node, size_bytes, chosen))
    except OSError as error:
        return facts._replace(probe_errors=(f"reading failed ({error.strerror})",))


def probe(node: str) -> tuple[tuple[Signature, ...], tuple[str, ...]]:
    """Return the signatures on a device, and the probes that failed."""
    errors: list[str] = []
    found = _wipefs(node, errors) + _blkid(node, errors)
    return tuple(dict.fromkeys(found)), tuple(errors)


def _failed(program: str, said: str, status: int) -> str:
    return f"{program} failed with status {status} ({' '.join(said.split())[-200:]})"


def _wipefs(node: str, errors: list[str]) -> list[Signature]:
    done = ask(["wipefs", "--no-act", "--json", node])
    if done.returncode or done.stderr:
        errors.append(_failed("wipefs", done.stderr, done.returncode))
        return []
    entries = json.loads(done.stdout)["signatures"] if done.stdout.strip() else []
    return [Signature(x["type"], x.get("uuid") or "") for x in entries]


def _blkid(node: str, errors: list[str]) -> list[Signature]:
    done = ask(["blkid", "--probe", "--output", "export", node])
    # Status 2 is for nothing found and also for an unreadable disk, which it says in words.
    if done.returncode == 2 and not done.stderr:
        return []
    if done.returncode or done.stderr:
        errors.append(_failed("blkid", done.stderr, done.returncode))
        return []
    said = exported(done.stdout)
    kinds = [said[x] for x in ("TYPE", "PTTYPE") if x in said]
    return [Signature(kind, said.get("UUID", "")) for kind in kinds or ["unknown"]]


def _mdadm(node: str, errors: list[str]) -> str:
    done = ask(["mdadm", "--examine", "--export", node])
    if done.returncode == 1 and "No md superblock detected" in done.stderr:
        return ""
    uuid = exported(done.stdout).get("MD_UUID", "")
    if done.returncode:
        errors.append(_failed("mdadm --examine", done.stderr, done.returncode))
    elif not uuid:  # such as a partition table
        errors.append("mdadm --examine found something that has no UUID")
    return uuid


def _read_edges(facts: Facts, errors: list[str]) -> None:
    """Note where the disk cannot be read: the probes take some such disks for blank ones."""
    try:
        with Path(facts.node).open("rb", buffering=0) as file:
            for offset in (0, max(0, facts.size_bytes - _EDGE_BYTES)):
                file.seek(offset)
                if not file.read(_EDGE_BYTES):
                    errors.append(f"reading at byte {offset} gave nothing")
    except OSError as error:
        errors.append(f"reading failed ({error.strerror})")
