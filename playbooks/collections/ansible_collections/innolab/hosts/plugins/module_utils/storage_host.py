"""What storage code asks of a host: programs, mounts, the kernel's tree of block devices."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from functools import partial
from pathlib import Path
from typing import NamedTuple

from .storage_geometry import StorageError

SYS_BLOCK = Path("/sys/block")
# Debian's packages of the programs that are used.
_PACKAGES = {
    "mdadm": "mdadm",
    "mkfs.xfs": "xfsprogs",
    "xfs_info": "xfsprogs",
    "udevadm": "udev",
    "mount": "mount",
    "umount": "mount",
}


def prepare() -> None:
    """Raise where the caller is not root; make programs found and their words English."""
    if os.geteuid() != 0:
        raise StorageError("disks belong to root; run this as root, or set ansible_become: true")
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    os.environ.update(LC_ALL="C", PATH=path)
    os.umask(0o022)


def machine_id() -> str:
    """Return what tells this host from others; empty where it has nothing that does."""
    return read(Path("/etc/machine-id")) or ""


def ask(words: list[str], env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program and return all that it said, whatever its exit status."""
    try:
        given = {**os.environ, **(env or {})}
        return subprocess.run(words, env=given, capture_output=True, text=True, errors="replace")
    except FileNotFoundError:
        package = _PACKAGES.get(words[0], "util-linux")
        raise StorageError(
            f"this host has no {words[0]}, so nothing was changed; install Debian's {package}"
        ) from None


def run(words: list[str], env: dict[str, str] | None = None) -> str:
    """Run a program that must succeed and return what it wrote."""
    done = ask(words, env)
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).split())[-400:]
        raise StorageError(f"'{shlex.join(words)}' failed: {said}")
    return done.stdout


def exported(text: str) -> dict[str, str]:
    """Return the pairs of a text with lines NAME=VALUE."""
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def read(path: Path) -> str | None:
    """Return a file's content without its last newline; None where there is none to be read."""
    try:
        return path.read_text(errors="replace").rstrip("\n\0 ")
    except OSError:
        return None


def replace(path: Path, text: str | None) -> None:
    """Write a file whole, so that a power cut leaves the old or the new one; None removes it."""
    if text is None:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    with new.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.chmod(0o644)
    new.rename(path)


class Mount(NamedTuple):
    """A mount: the device's number (major:minor), its name, the point, type and all options."""

    number: str
    source: str
    point: str
    kind: str
    options: tuple[str, ...]


def mounts() -> list[Mount]:
    """Return all mounts, each after the one that it lies on."""
    plain = partial(re.sub, r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)))
    found = []
    # The kernel escapes blanks and line breaks, but not in the last field, and no other character
    # that ends a line for Python.
    for line in Path("/proc/self/mountinfo").read_text(errors="replace").split("\n"):
        if not line:
            continue
        head, _, tail = line.partition(" - ")
        number, _root, point, own = head.split(" ")[2:6]
        kind, source, of_super = tail.split(" ", 2)
        options = dict.fromkeys([*own.split(","), *of_super.split(",")])
        found.append(Mount(number, plain(source), plain(point), kind, tuple(options)))
    return found


def number_of(name: str) -> str:
    """Return major:minor of a block device by its kernel name."""
    return (SYS_BLOCK / name / "dev").read_text().strip()


def _number_of_file(path: str) -> str | None:
    try:
        device = Path(path).stat().st_rdev
    except OSError:
        return None
    return f"{os.major(device)}:{os.minor(device)}" if device else None


def _ancestors(entry: Path) -> set[str]:
    """Return the names of all that a block device lies on, itself included."""
    found = {entry.name}
    if (entry / "partition").exists():
        found |= _ancestors(entry.parent)
    for slave in (entry / "slaves").glob("*"):
        found |= _ancestors(slave.resolve())
    return found


class Use(NamedTuple):
    """What a block device is used for, by way of which device."""

    what: str
    by_way_of: str


def uses() -> dict[str, list[Use]]:
    """Return what block devices, by kernel name, are used for: mounts and swap above them."""
    used = [(mount.number, f"mounted at {mount.point}") for mount in mounts()]
    # File systems such as btrfs show a number of their own, but the name of a device.
    used += [
        (number, f"mounted at {mount.point}")
        for mount in mounts()
        if mount.source.startswith("/dev/") and (number := _number_of_file(mount.source))
    ]
    swaps = Path("/proc/swaps").read_text().splitlines()[1:]
    used += [(_number_of_file(line.split()[0]) or "", "used as swap") for line in swaps]
    found: dict[str, list[Use]] = {}
    for number, what in dict.fromkeys(used):
        entry = Path("/sys/dev/block", number or "none")
        if entry.exists():
            top = entry.resolve()
            for name in _ancestors(top):
                found.setdefault(name, []).append(Use(what, top.name))
    return found
