"""Make, or take down, a disk on this host whose reads and writes can be limited."""

import json
import os
import re
import shutil
import subprocess
import time
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: emulated_disk
short_description: Make, or take down, a disk whose reads and writes can be limited or timed
description:
  - The disk is a loop device on a sparse image in memory or on a real disk, with XFS on it. With
    I(model) that program stands between both, and its file C(model/profile) takes service times.
  - Makes the control group of the processes that use it, in which the caller sets the limits. Takes
    down the groups of single processes beside it, named after it with a dot, that the caller made.
  - In I(folder) lie C(backing/image), C(data/), where the disk is mounted, and C(disk.json), which
    says what was made. It is written last, and a disk of which it is not true is made again.
  - Takes down only mounts and loop devices below I(folder), and the control group once no process
    is in it. Refuses a folder that holds anything else. Needs root.
author: innolab
options:
  state: {description: Which to reach., type: str, choices: [present, absent], default: present}
  folder: {description: Absolute path of a folder of its own., type: path, required: true}
  size_bytes: {description: Size of the disk; needed where it is to be present., type: int}
  backing: {description: Place of the image., type: str, choices: [memory, disk], default: memory}
  mkfs: {description: Program that makes XFS., type: str, default: mkfs.xfs}
  user: {description: Owner of C(data/); root where not given., type: str}
  cgroup: {description: Name of the control group., type: str, default: innolab}
  model: {description: The program model_disk; without it no service times., type: path}
"""

EXAMPLES = r"""
- name: Make a disk of 2 GB in memory
  innolab.hosts.emulated_disk: {folder: /var/cache/some-disk, size_bytes: 2000000000}
"""

RETURN = r"""
disk: {description: The content of C(disk.json)., type: dict, returned: when present}
"""


class _DiskError(Exception):
    """Why the disk cannot be made or taken down, in words for the user."""


class _Mount(NamedTuple):
    source: str
    point: Path
    kind: str
    options: str


def _run(*words: str | Path, advice: str = "") -> str:
    """Run a tool of the system and return what it wrote."""
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        said = " ".join(done.stderr.split())[-400:]
        raise _DiskError(f"'{' '.join(map(str, words))}' failed: {said} {advice}".strip())
    return done.stdout


def _mounts() -> list[_Mount]:
    """Return all mounts, each after the one that it lies on."""
    plain = partial(re.sub, r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)))
    lines = os.fsdecode(Path("/proc/self/mounts").read_bytes()).split("\n")
    fields = (line.split(" ") for line in lines if line)
    return [_Mount(source, Path(plain(point)), *rest[:2]) for source, point, *rest in fields]


def _block_io() -> tuple[str, Path] | None:
    """Return version and root of the control groups that can limit block I/O."""
    for mount in _mounts():
        if mount.kind == "cgroup" and "blkio" in mount.options.split(","):
            return "v1", mount.point
        controllers = mount.point / "cgroup.controllers"
        if mount.kind == "cgroup2" and "io" in controllers.read_text().split():
            return "v2", mount.point
    return None


class _Disk:
    """All parts of a disk that there may be: none, all, or what an interrupted run left."""

    def __init__(self, folder: Path, group: str) -> None:
        self.folder, self.data, self.backing = folder, folder / "data", folder / "backing"
        self.model, self.served = folder / "model", folder / "model/disk"
        self.image, self.file = folder / "backing/image", folder / "disk.json"
        self.new_file = folder / "disk.json.new"
        # Where there is no controller there is no group: nothing lies below a device.
        self.controller, groups = _block_io() or (None, Path(os.devnull))
        self.cgroup = groups / group

    def _mounts(self) -> list[_Mount]:
        return [mount for mount in _mounts() if self.folder in mount.point.parents]

    def _loops(self) -> dict[str, str]:
        """Return device nodes by backing file; the kernel marks a file as deleted if it is."""
        loops = {}
        for entry in Path("/sys/block").glob("loop*/loop/backing_file"):
            with suppress(OSError):  # detached meanwhile
                file = os.fsdecode(entry.read_bytes()).removesuffix("\n")
                if self.folder in Path(file).parents:
                    loops[f"/dev/{entry.parts[3]}"] = file
        return loops

    def _groups(self) -> list[Path]:
        """Return the control group, and those of single servers that the caller made beside it."""
        named = [self.cgroup, *self.cgroup.parent.glob(f"{self.cgroup.name}.*")]
        return [group for group in named if group.is_dir()]

    def parts(self) -> list[str]:
        """Return what there is of the disk, for people."""
        mounts = [f"{mount.kind} at {mount.point}" for mount in self._mounts()]
        loops = [f"{node} on {file}" for node, file in self._loops().items()]
        return mounts + loops + [str(x) for x in (*self._groups(), self.folder) if x.is_dir()]

    def _facts(self) -> dict[str, Any]:
        """Return what is so of a whole disk; nothing where a part is missing or one too many."""
        mounts, loops = self._mounts(), self._loops()
        points = [mount.point for mount in mounts]
        below = [place for place in (self.backing, self.model) if place in points]
        if points != [*below, self.data] or len(loops) != 1:
            return {}
        [(node, file)], (source, _, kind, options) = loops.items(), mounts[-1]
        on = self.served if self.model in points else self.image
        if (node, str(on), "xfs") != (source, file, kind) or not self.cgroup.is_dir():
            return {}
        if self.model in points and not self._answers():
            return {}
        return {
            "device": Path("/sys/block", Path(node).name, "dev").read_text().strip(),
            "node": node,
            "data": str(self.data),
            "backing": "memory" if self.backing in points else "disk",
            "model": str(self.model) if self.model in points else None,
            "size_bytes": self.image.stat().st_size,
            "cgroup": str(self.cgroup),
            "controller": self.controller,
            "mount_options": options,
        }

    def _answers(self) -> bool:
        """Return whether the program that serves the image has not ended."""
        with suppress(OSError):
            return bool((self.model / "profile").read_text())
        return False

    def record(self) -> dict[str, Any]:
        """Return the content of disk.json if all of it is so, else nothing."""
        with suppress(OSError, ValueError):
            record: dict[str, Any] = json.loads(self.file.read_text())
            if (facts := self._facts()) and record == {**record, **facts}:
                return record
        return {}

    def refuse_foreign(self) -> None:
        """Raise where the folder is, or holds, what this module would not have made."""
        folders = [self.folder, self.backing, self.data, self.model]
        files = [self.image, self.file, self.new_file]
        points = [mount.point for mount in self._mounts()]
        opened = [x for x in folders if x not in (self.data, self.model) or x not in points]
        for place in [self.folder, *(entry for x in opened for entry in x.glob("*"))]:
            # A mount whose program has ended cannot be asked what it is.
            ours = place in points or place.is_dir()
            known = (place in folders and ours) or (place in files and place.is_file())
            if place not in points and os.path.lexists(place) and (place.is_symlink() or not known):
                only = f"{self.folder} should hold an emulated disk alone but there is {place}"
                raise _DiskError(f"{only}; nothing was touched; name a folder of its own")

    def take_down(self) -> None:
        """Remove every part that there is."""
        for group in self._groups():
            if pids := (group / "cgroup.procs").read_text().split():
                named = f"{group} still holds processes ({', '.join(pids)})"
                raise _DiskError(f"{named}, so nothing was taken down; end them, then try again")
        for group in self._groups():
            group.rmdir()
        self._unmount(self.data)
        self._detach()
        self._unmount(self.model)
        self._unmount(self.backing)
        for file in (self.image, self.file, self.new_file):
            file.unlink(missing_ok=True)
        # Not a recursive removal, which would take what came in meanwhile.
        for place in (self.model, self.backing, self.data, self.folder):
            with suppress(FileNotFoundError):
                place.rmdir()

    def _unmount(self, place: Path) -> None:
        for mount in reversed(self._mounts()):
            if mount.point.is_relative_to(place):
                _run("umount", mount.point, advice="stop what uses it, then run this again")

    def _detach(self) -> None:
        for node in self._loops():
            _run("losetup", "--detach", node)
        end = time.monotonic() + 5  # udev may look at it a moment longer
        while loops := self._loops():
            if time.monotonic() > end:
                raise _DiskError(f"{', '.join(loops)} is still used; unmount it elsewhere")
            time.sleep(0.01)

    def build(self, size: int, backing: str, mkfs: str, program: str | None) -> dict[str, Any]:
        """Make all parts, or none where one of them cannot be made, and return the record."""
        self.folder.mkdir(parents=True)
        with ExitStack() as undo:
            undo.callback(self.take_down)
            _require_space(size, backing, self.folder)
            self.backing.mkdir(mode=0o700)
            self.data.mkdir()
            if backing == "memory":
                options = f"mode=0700,size={size + 2**20}"  # it counts pages beside the image's
                _run("mount", "-t", "tmpfs", "-o", options, "tmpfs", self.backing)
            _run("truncate", f"--size={size}", self.image)
            node = self._serve(program) if program else self._attach(self.image, backing == "disk")
            # So that a file's pages do not straddle two arms.
            stripes = ["-d", "su=64k,sw=1"] if program else []
            xfs_info = _run(mkfs, "-K", *stripes, node)
            _run("mount", "-t", "xfs", node, self.data)
            if self.controller == "v2":
                (self.cgroup.parent / "cgroup.subtree_control").write_text("+io")
            self.cgroup.mkdir()
            record = {**self._facts(), "xfs_info": xfs_info}
            self.new_file.write_text(json.dumps(record, indent=2) + "\n")
            self.new_file.rename(self.file)
            if not self.record():
                raise _DiskError(f"{self.folder} was changed while it was made; run this again")
            undo.pop_all()
        return record

    def _serve(self, program: str) -> str:
        """Have a program serve the image, attach it to a free loop device and return its node."""
        self.model.mkdir(mode=0o700)
        _run(program, "serve", self.image, self.model)
        # Past the page cache, which would answer in the program's place.
        return self._attach(self.served, True)

    def _attach(self, file: Path, direct: bool) -> str:
        """Attach a file to a free loop device and return its node."""
        options = ["--find", "--show", f"--direct-io={'on' if direct else 'off'}"]
        node = _run("losetup", *options, file).strip()
        granted = Path("/sys/block", Path(node).name, "loop/dio").read_text() == "1\n"
        if direct and not granted:
            where = f"{file} lies on a file system that grants loop devices no direct I/O"
            raise _DiskError(f"{where}; name a folder on another one, or take backing: memory")
        return node


def _require_space(size: int, backing: str, folder: Path) -> None:
    """Raise where memory, or the file system of the folder, is too small for the image."""
    free = shutil.disk_usage(folder).free
    if backing == "memory":
        meminfo = Path("/proc/meminfo").read_text()
        free = int(re.search(r"MemAvailable: *(\d+)", meminfo)[1]) * 1024
    if free < size:
        fits = f"only {free} bytes of {backing} are free for a disk of {size}"
        raise _DiskError(f"{fits}; ask for a smaller one, or free some")


def _require_host(disk: _Disk, mkfs: str, user: str | None, program: str | None) -> None:
    """Raise where this host does not have what a disk is made of."""
    needed = {
        "losetup; install util-linux (in Debian its package mount)": shutil.which("losetup"),
        f"program {mkfs}, which makes XFS; install the tool xfsprogs": shutil.which(mkfs),
        "loop devices; run 'modprobe loop' or allow them here": Path("/dev/loop-control").exists(),
        "control groups that limit block I/O (v1 blkio or v2 io); mount them": disk.controller,
    }
    if program:
        needed[f"program {program}, which serves disks; run make setup"] = shutil.which(program)
        needed["FUSE; run 'modprobe fuse' or allow /dev/fuse here"] = Path("/dev/fuse").exists()
    for what, there in needed.items():
        if not there:
            raise _DiskError(f"this host has no {what}")
    _run("id", user or "root", advice="; create this user or name another")


def _ensure(module: AnsibleModule) -> dict[str, Any]:
    """Do what is asked, or only find out what would change, and return the module's result."""
    given, folder = module.params, Path(module.params["folder"])
    if os.geteuid() != 0:
        raise _DiskError("loop devices, mounts and control groups need root; run this as root")
    if not folder.is_absolute():
        raise _DiskError(f"the folder {folder} should be an absolute path, such as /srv/disk")
    # The kernel names all places resolved. A link in the place of the folder itself is foreign.
    disk = _Disk(folder if folder.is_symlink() else folder.resolve(), given["cgroup"])
    disk.refuse_foreign()
    size, backing, mkfs, user = (given[x] for x in ("size_bytes", "backing", "mkfs", "user"))
    program = given["model"]
    before, after, result = disk.parts(), [], {}
    if given["state"] == "present":
        _require_host(disk, mkfs, user, program)
        record = disk.record()
        found = record.get("size_bytes"), record.get("backing"), bool(record.get("model"))
        if found == (size, backing, bool(program)):
            changed = module.set_owner_if_different(str(disk.data), user, False)
            return {"changed": changed, "disk": record}
        after = [f"XFS of {size} bytes at {disk.data}, backing: {backing}"]
    if not module.check_mode:
        disk.take_down()
        if after:
            result["disk"] = disk.build(size, backing, mkfs, program)
            module.set_owner_if_different(str(disk.data), user, False)
    diff = {"before": "\n".join([*before, ""]), "after": "\n".join([*after, ""])}
    return {"changed": before != after, "diff": diff, **result}


def main() -> None:
    """Run the module."""
    options = {
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "folder": {"type": "path", "required": True},
        "size_bytes": {"type": "int"},
        "backing": {"type": "str", "choices": ["memory", "disk"], "default": "memory"},
        "mkfs": {"type": "str", "default": "mkfs.xfs"},
        "user": {"type": "str"},
        "cgroup": {"type": "str", "default": "innolab"},
        "model": {"type": "path"},
    }
    present = ("state", "present", ["size_bytes"])
    module = AnsibleModule(options, required_if=[present], supports_check_mode=True)
    os.umask(0o022)  # the user of the disk, who is not root, enters its folder
    os.environ.update(LC_ALL="C", PATH=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    try:
        result = _ensure(module)
    except (_DiskError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
