"""Barriers: whether the kernel sends cache flushes to a device. Pure.

XFS lost its option C(nobarrier) in Linux 4.19 and ignored it from 4.10 on. What stops flushes since
is the queue's C(write_cache) of the topmost device: it changes what the kernel believes, nothing in
the device, and so is safe only where the cache keeps its content without power.
"""

from __future__ import annotations

import re
from typing import Any

MOUNT_OPTION, WRITE_THROUGH, ON = "mount option", "write through", "on"
_IGNORED_FROM = (4, 10)


def way(release: str) -> str:
    """Return how a kernel of this release is kept from flushing.

    >>> way("3.16.0-4-amd64"), way("6.1.0-56-cloud-amd64")
    ('mount option', 'write through')
    """
    version = tuple(int(x) for x in re.findall(r"\d+", release)[:2])
    return MOUNT_OPTION if version < _IGNORED_FROM else WRITE_THROUGH


def mount_options(wanted: list[str], barriers: bool, release: str) -> list[str]:
    """Return the options that a file system is to be mounted with."""
    needed = not barriers and way(release) == MOUNT_OPTION
    return [*wanted, "nobarrier"] if needed else list(wanted)


def rules(links: list[str], values: dict[str, str], why: str) -> str:
    """Return udev rules that set attributes of devices, named by a link below /dev, for ever.

    >>> print(rules(["disk/by-id/x"], {"queue/write_cache": "write through"}, "Why."), end="")
    # Why. Written by innolab.
    ACTION!="remove", SUBSYSTEM=="block", ENV{DEVTYPE}=="disk", SYMLINK=="disk/by-id/x", \
ATTR{queue/write_cache}="write through"
    """
    which = 'ACTION!="remove", SUBSYSTEM=="block", ENV{DEVTYPE}=="disk"'
    what = ", ".join(f'ATTR{{{key}}}="{value}"' for key, value in values.items())
    lines = [f'{which}, SYMLINK=="{link}", {what}\n' for link in links]
    return f"# {why} Written by innolab.\n{''.join(lines)}" if links and values else ""


def observed(places: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what live systems say of barriers; `places` hold what was read of each.

    A device may say `write through` of itself, having no volatile cache: then nothing is kept from
    it. It is kept back where we changed the value, or where a device below still has such a cache.
    """
    ways = set()
    for place in places:
        hidden = place["before"] == "write back" or "write back" in place["below"]
        if "nobarrier" in place["options"]:
            ways.add(MOUNT_OPTION)
        elif place["write_cache"] == WRITE_THROUGH and hidden:
            ways.add(WRITE_THROUGH)
        else:
            ways.add(ON)
    how = " and ".join(sorted(ways)) or ON
    return {"observed": ON in ways or not ways, "how": how}
