"""A disk made of a file, whose speed is that of a profile. Needs root.

The kernel's block-io controller holds it to limits, or the program model_disk serves its file with
service times. The playbook emulated_disk makes it and takes it away; here its speed is set and read
back.
"""

import fcntl
import json
import os
import shutil
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from innolab.base.errors import InnolabError
from innolab.hosts import machine, observe
from innolab.hosts.local import HERE
from innolab.hosts.playbooks import PlaybookError, play
from innolab.storage import fio, model_disk
from innolab.storage.model_disk import DiskModel
from innolab.storage.profiles import DeviceLoad, Profile

_RECORD = "disk.json"
# Of the available memory: the rest is for the server, its pool and the page cache.
_MEMORY_SHARE = 0.4
# A group each, so that taking one disk down leaves the processes on the other alone.
_GROUPS = {False: "innolab", True: "innolab-timed"}
_OF_LOG = "-log"
# How long the way to the program is measured.
_PATH_S = 1.0
# linux/fs/xfs/libxfs/xfs_fs.h: _IOR('X', 125, __u32), and XFS_FSOP_GOING_FLAGS_NOLOGFLUSH.
_XFS_IOC_GOINGDOWN, _WITHOUT_LOG_FLUSH = 0x8004587D, 2


def why_impossible() -> str | None:
    """Return why this user cannot have emulated disks here, or None if it can."""
    if os.geteuid() != 0:
        return "loop devices, mounts and the block-io controller need root"
    if not Path("/dev/loop-control").exists():
        return "this kernel has no loop devices (/dev/loop-control is missing)"
    mounts = [
        line.split(" ")
        for line in Path("/proc/self/mounts").read_text(errors="replace").split("\n")
        if line
    ]
    v1 = any(kind == "cgroup" and "blkio" in options for _, _, kind, options, *_ in mounts)
    v2 = [Path(place) for _, place, kind, *_ in mounts if kind == "cgroup2"]
    if not v1 and not any("io" in (p / "cgroup.controllers").read_text().split() for p in v2):
        return "no control group here limits block I/O (blkio of v1, io of v2)"
    return None


def backing(size_bytes: int) -> str:
    """Return where the disk's file should be: in memory if there is room, else the cache's disk.

    Memory is faster than any profile and has no neighbours.
    """
    room = observe.memory_bytes(HERE)["available"] * _MEMORY_SHARE
    return "memory" if size_bytes <= room else "disk"


@dataclass(frozen=True)
class EmulatedDisk:
    """A mounted XFS on a loop device, and the control group whose processes its limits bind.

    Attributes
    ----------
    device : major and minor number of the loop device
    data : where it is mounted
    cgroup : the control group's folder
    controller : "v1" or "v2", the generation of control groups
    facts : what a report says of it
    model : the program that serves it, where it has service times
    """

    device: str
    data: Path
    cgroup: Path
    controller: str
    facts: dict[str, Any]
    model: DiskModel | None = None

    @property
    def path_s(self) -> float:
        """Return how long the way to the program that serves it takes, 0 if there is none."""
        return self.model.path_s if self.model else 0.0

    def image_bytes(self) -> int:
        """Return what its image takes by now of the memory or disk that it is on."""
        image = Path(f"/sys/dev/block/{self.device}/loop/backing_file")
        file = Path(image.read_text().strip()) if image.exists() else image
        if self.model is None and file.exists():
            return file.stat().st_blocks * 512
        # A program that serves it says its whole size; what is in use is the least that it takes.
        return shutil.disk_usage(self.data).used

    def is_there(self) -> bool:
        """Return whether it can be used: the program that serves it may have ended."""
        return self.model is None or self.model.is_served()

    def of_node(self, name: str) -> "EmulatedDisk":
        """Return the same disk with another control group, which is limited separately.

        Raises
        ------
        InnolabError
            If it has service times: one set of arms cannot be several disks.
        """
        if self.model is not None:
            raise InnolabError(
                "A disk of service times cannot be divided between servers; name devices that are "
                "emulated by limits."
            )
        # Beside the disk's own: in the second generation a group with processes has none below it.
        group = self.cgroup.with_name(f"{self.cgroup.name}.{name}")
        group.mkdir(exist_ok=True)
        return replace(self, cgroup=group)

    def lose_power(self) -> None:
        """Lose all that no program had synced, as when the power is cut; then `mount_again`.

        Nothing may write until then. A file that is not synced is left for `mount_again` to miss.

        References
        ----------
        xfs_io(8), `shutdown` without -f: neither data in the page cache nor the file system's own
        log in memory reaches the device.
        """
        folder = os.open(self.data, os.O_RDONLY)
        self._unsynced.write_text("lost")
        try:
            fcntl.ioctl(folder, _XFS_IOC_GOINGDOWN, struct.pack("I", _WITHOUT_LOG_FLUSH))
        finally:
            os.close(folder)

    def mount_again(self) -> None:
        """Mount the disk after it has lost its power; its file system recovers itself.

        Raises
        ------
        InnolabError
            If something still holds it open, it cannot be mounted, or kept what nobody had
            synced: no power was cut then.
        """
        [node] = observe.mount(HERE, self.data, "SOURCE")
        HERE.must(["umount", self.data], what="Unmounting the emulated disk")
        HERE.must(["mount", "-t", "xfs", node, self.data], what="Mounting the emulated disk")
        if self._unsynced.exists():
            self._unsynced.unlink()
            raise InnolabError("The emulated disk kept what nobody had synced: no power was cut.")

    @property
    def _unsynced(self) -> Path:
        return self.data / "not-synced"

    @contextmanager
    def limited(self, profile: Profile) -> Iterator[None]:
        """Hold the processes of the control group to a profile while the block runs.

        Raises
        ------
        InnolabError
            If the kernel does not take the limits, or the program that serves the disk does not
            take its service times or no longer has them at the end.
        """
        if self.model is not None:
            self.model.become(profile.times)
            try:
                yield
                self.model.require(profile.times)
            finally:
                # One that has ended has said so above, or is what the block failed of.
                with suppress(InnolabError):
                    self.model.become(None)
            return
        self.set_limits(profile)
        try:
            yield
        finally:
            self.set_limits(None)

    def set_limits(self, profile: Profile | None) -> None:
        """Set a profile's limits, or none, and read them back."""
        wanted = limits(profile)
        write = _write_v1 if self.controller == "v1" else _write_v2
        try:
            write(self.cgroup, self.device, wanted)
            found = read_limits(self.cgroup, self.device, self.controller)
        except OSError as error:
            raise InnolabError(
                f"The kernel did not take the limits of the emulated disk: {error.strerror}. Its "
                "block-io controller has no throttling."
            ) from None
        if found != {name: value for name, value in wanted.items() if value is not None}:
            raise InnolabError(
                f"The kernel was asked for the limits {wanted} and has {found}; nothing can be "
                "measured on the emulated disk."
            )


def raise_disk(
    folder: Path, size_bytes: int, *, timed: bool = False, log: bool = False
) -> EmulatedDisk:
    """Make an emulated disk in a folder of its own, after removing what is left of an earlier one.

    Parameters
    ----------
    timed : whether it is to have service times, else limits
    log : whether it is for the redo log, next to another one of its kind

    Raises
    ------
    InnolabError
        If this host cannot; quotes the playbook's reason.
    """
    served = {"model": machine.tool(model_disk.PROGRAM)} if timed else {}
    _play(
        {
            "state": "present",
            "folder": str(folder),
            "size_bytes": size_bytes,
            "backing": backing(size_bytes),
            "mkfs": machine.tool("mkfs.xfs"),
            "user": machine.server_user(),
            "cgroup": _group(timed, log),
            **served,
        }
    )
    body = json.loads((folder / _RECORD).read_text())
    kept = ("backing", "size_bytes", "controller", "mount_options", "xfs_info")
    made = EmulatedDisk(
        device=body["device"],
        data=Path(body["data"]),
        cgroup=Path(body["cgroup"]),
        controller=body["controller"],
        facts={name: body[name] for name in kept},
        model=DiskModel(Path(body["model"])) if timed else None,
    )
    if made.model is not None:
        made.model.find_path(lambda: _reads_per_s(made))
        made.facts["path_s"] = round(made.path_s, 6)
    return made


def _reads_per_s(disk: EmulatedDisk) -> float:
    with fio.filled_file(HERE, disk.data) as file:
        return fio.measure(HERE, file, disk.cgroup, {"path": DeviceLoad(1)}, _PATH_S)["path"].per_s


def _group(timed: bool, log: bool) -> str:
    return _GROUPS[timed] + (_OF_LOG if log else "")


def lower_disk(folder: Path, *, timed: bool = False, log: bool = False) -> None:
    """Take an emulated disk away with all that belongs to it, if it is there.

    Raises
    ------
    InnolabError
        If something still holds it.
    """
    if folder.exists():
        _play({"state": "absent", "folder": str(folder), "cgroup": _group(timed, log)})


def _play(wanted: dict[str, Any]) -> None:
    try:
        play("emulated_disk.yml", {"emulated_disk_wanted": wanted})
    except PlaybookError as failure:
        raise InnolabError(
            f"The emulated disk could not be made {wanted['state']}: {failure}"
        ) from None


def limits(profile: Profile | None) -> dict[str, int | None]:
    """Return a profile's limits by the names of cgroup v2; None lifts a limit."""
    if profile is None:
        return dict.fromkeys(("riops", "wiops", "rbps", "wbps"))
    return {
        "riops": profile.read_iops,
        "wiops": profile.write_iops,
        "rbps": profile.read_bytes_per_s,
        "wbps": profile.write_bytes_per_s,
    }


_V1_FILES = {
    "riops": "blkio.throttle.read_iops_device",
    "wiops": "blkio.throttle.write_iops_device",
    "rbps": "blkio.throttle.read_bps_device",
    "wbps": "blkio.throttle.write_bps_device",
}


def _write_v1(cgroup: Path, device: str, wanted: dict[str, int | None]) -> None:
    for name, file in _V1_FILES.items():
        (cgroup / file).write_text(f"{device} {wanted[name] or 0}")


def _write_v2(cgroup: Path, device: str, wanted: dict[str, int | None]) -> None:
    words = [f"{name}={'max' if value is None else value}" for name, value in wanted.items()]
    (cgroup / "io.max").write_text(f"{device} {' '.join(words)}")


def read_limits(cgroup: Path, device: str, controller: str) -> dict[str, int]:
    """Return the effective limits of a device, by the names of cgroup v2."""
    if controller == "v1":
        lines = {name: (cgroup / file).read_text() for name, file in _V1_FILES.items()}
        found = {
            name: line.split()[1]
            for name, text in lines.items()
            for line in text.splitlines()
            if line.split()[0] == device
        }
    else:
        words = [line.split() for line in (cgroup / "io.max").read_text().splitlines()]
        mine = next((rest for first, *rest in words if first == device), [])
        found = dict(word.split("=") for word in mine)
    return {name: int(value) for name, value in found.items() if value not in ("max", "0")}
