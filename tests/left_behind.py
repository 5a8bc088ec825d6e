"""What killed processes left on this host."""

import contextlib
from pathlib import Path


def left(cache: str) -> list[str]:
    """Return the processes, mounts and loop devices that have to do with a cache."""
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    found = [mount for mount in mounts if cache in mount]
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if cache.encode() in (words := entry.read_bytes()):
                found.append(words.replace(b"\0", b" ").decode(errors="replace")[:200])
    for entry in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            if cache in (backing := entry.read_text()):
                found.append(f"{entry.parts[3]} of {backing.strip()}")
    return found
