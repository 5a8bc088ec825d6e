"""Read back what runs on this host: arrays, mounts on them, the queues of block devices."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from .storage_disks import holders, probe
from .storage_host import SYS_BLOCK, exported, mounts, number_of, read, run


def arrays() -> dict[str, dict[str, Any]]:
    """Return the md arrays that there are, by UUID. One that is inactive counts too."""
    found = {}
    for entry in sorted(SYS_BLOCK.glob("md*")):
        state = read(entry / "md/array_state")
        if state not in (None, "clear"):
            said = exported(run(["mdadm", "--detail", "--export", f"/dev/{entry.name}"]))
            found[said.get("MD_UUID", entry.name)] = _array(entry, said, state)
    return found


def _array(entry: Path, said: dict[str, str], state: str) -> dict[str, Any]:
    md = entry / "md"
    signatures, errors = probe(f"/dev/{entry.name}") if state != "inactive" else ((), ())
    members = {
        read(x / "slot"): (x / "block").resolve().name
        for x in md.glob("dev-*")
        if (read(x / "slot") or "").isdigit()
    }
    chunk = int(read(md / "chunk_size") or 0) // 1024
    level = read(md / "level") or ""
    return {
        "node": entry.name,
        "name": said.get("MD_NAME", ""),
        "level": level,
        "chunk_kib": chunk if level in ("raid5", "raid10") else None,
        "raid10_layout": _copies(int(read(md / "layout") or 0)) if level == "raid10" else None,
        "bitmap": "none" if read(md / "bitmap/location") in (None, "none") else "internal",
        "size_mib": int(read(md / "component_size") or 0) // 1024,
        "has_journal": any("journal" in (read(x / "state") or "") for x in md.glob("dev-*")),
        "members": [members[slot] for slot in sorted(members, key=int)],
        "runs_on": [x.name for x in (entry / "slaves").glob("*")],
        "holders": holders(entry),
        "array_state": state,
        **progress(entry.name),
        "signatures": signatures,
        "probe_errors": errors,
    }


def _copies(layout: int) -> str:
    """Return what md's number says: its lowest byte counts near copies, the next one far ones."""
    near, far = layout & 0xFF, layout >> 8 & 0xFF
    known = {(2, 1): "near", (1, 2): "far"}
    return known.get((near, far), f"near {near}, far {far}")


def progress(node: str) -> dict[str, Any]:
    """Return what an array is about: its sync_action and how many members are missing."""
    md = SYS_BLOCK / node / "md"
    return {
        "sync_action": read(md / "sync_action"),
        "degraded": int(read(md / "degraded") or 0),
    }


def points() -> dict[str, list[str]]:
    """Return mount points by the kernel name of their device, the innermost first."""
    by_number = {number_of(x.name): x.name for x in SYS_BLOCK.iterdir()}
    found: dict[str, list[str]] = {}
    for mount in reversed(mounts()):
        if mount.number in by_number:
            found.setdefault(by_number[mount.number], []).append(mount.point)
    return found


def chosen(text: str | None) -> str | None:
    """Return the word in brackets, by which the kernel marks the one of several in effect."""
    found = re.search(r"\[([^]]+)\]", text or "")
    return found[1] if found else text
