"""Raise the lab, or take it down: `python -m innolab.hosts.lab.program OPTIONS_JSON [--check]`.

The options are one JSON object, those of `Asked` and, to raise the lab, of `Wanted`. The answer is
one line of JSON: whether anything changed, the difference as text, and what lab.json says. If
the lab cannot be so, one sentence on standard error says why, and the exit status is 1.

- The guest is made of this machine's own Debian suite and kept as an image, keyed by what it is
  made of. Programs that are missing are installed if root runs this on Debian.
- lab.json, written last, says how the guest is reached and what it has; `ssh -F FOLDER/ssh_config
  lab` reaches it.
- A guest that runs and answers is left alone. One whose QEMU ended boots again on its disks. One
  that never was ready is made again.
- /dev/kvm is used only where a guest that was started on it for the purpose got to user space.
"""

import argparse
import fcntl
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from innolab.hosts.lab import machine
from innolab.hosts.lab.image import ImageRecipe
from innolab.hosts.lab.machine import LabError
from innolab.hosts.lab.qemu import Guest, GuestShape, limits

# What an image takes while it is built, besides its own disk: packages, a tar and a tree of them.
_BUILD_BYTES = 2 * 2**30


class LabRequest(BaseModel):
    """What is asked of any lab: whether it is there, and whether the image outlives it."""

    state: Literal["present", "absent"] = "present"
    image: Literal["kept", "absent"] = "kept"
    folder: Path


class Wanted(LabRequest):
    """What a lab that is there should have.

    Attributes
    ----------
    files : folder with the guest's own files
    devices : CSV file of device profiles, of which `device` limits each data disk
    cpus : most processors; never more than the machine has
    boot_limit_s : seconds after which a guest that does not answer counts as stuck
    """

    model_config = ConfigDict(extra="forbid")

    files: Path
    devices: Path
    device: str
    packages: list[str]
    cpus: int
    memory_bytes: int
    disks: int
    disk_bytes: int
    system_bytes: int
    boot_limit_s: int = 180


class LabResult(NamedTuple):
    """What was done, or would be."""

    changed: bool
    diff: dict[str, str]
    lab: dict[str, Any] | None = None


def _record(guest: Guest) -> dict[str, Any]:
    """Return what lab.json says, or nothing if the guest never was ready."""
    try:
        record: dict[str, Any] = json.loads(guest.record.read_text())
        GuestShape.of(record)
        return record
    except FileNotFoundError:
        return {}
    except (LookupError, TypeError, ValueError):
        unknown = f"{guest.record} is not what this version of the lab writes"
        raise LabError(f"{unknown}; take it and its disks down with: make lab-down") from None


def _parts(guest: Guest) -> list[str]:
    """Return what there is of a lab, for people."""
    digest, pid, disks = guest.image.digest(), guest.pid(), guest.data_disks()
    files = [file.name for file in guest.files() if file.exists()]
    found = [f"image {digest}"] if digest else []
    found += [_disks_text(len(disks), disks[0].stat().st_size)] if disks else []
    found += [_files_text(files)] if files else []
    return found + ([f"QEMU, process {pid}"] if pid else [])


def _disks_text(count: int, size: int) -> str:
    return f"{count} data disks of {size} bytes"


def _files_text(names: list[str]) -> str:
    return f"files {' '.join(sorted(names))}"


class _Lab:
    """What is wanted of a guest, and the way there."""

    def __init__(self, wanted: Wanted, guest: Guest) -> None:
        self.wanted, self.guest = wanted, guest
        self.recipe = ImageRecipe(wanted.files, wanted.packages, wanted.system_bytes)
        self.shape = GuestShape(
            cpus=min(wanted.cpus, os.cpu_count() or 1),
            memory_bytes=wanted.memory_bytes,
            disks=wanted.disks,
            disk_bytes=wanted.disk_bytes,
            device=wanted.device,
            limits=limits(wanted.devices, wanted.device),
        )

    def parts(self) -> list[str]:
        """Return what there will be, for people."""
        shape, names = self.shape, [file.name for file in self.guest.files()]
        disks = _disks_text(shape.disks, shape.disk_bytes)
        guest = f"{shape.cpus} processors and {shape.memory_bytes} bytes of memory"
        limit = f"each disk limited as {shape.device}: {shape.limits}"
        image = f"image {self.recipe.digest()}"
        return [image, disks, _files_text(names), f"QEMU with {guest}, {limit}"]

    def require_same(self, record: dict[str, Any]) -> None:
        """Raise if the guest that there is differs from the wanted one."""
        wanted = {"image": self.recipe.digest(), **self.shape._asdict()}
        found = {"image": record["image"], **GuestShape.of(record)._asdict()}
        differs = [f"{x}: {found[x]}, not {wanted[x]}" for x in wanted if found[x] != wanted[x]]
        if not differs and self.guest.image.digest() != wanted["image"]:
            differs = ["the image it was made of is gone"]
        if differs:
            other = f"there is a lab already, but another ({'; '.join(differs)})"
            raise LabError(f"{other}; take it and its disks down first with: make lab-down")

    def require_room(self, new: bool) -> list[str]:
        """Raise if this machine cannot hold the guest; return the packages it still needs."""
        machine.require_kind()
        machine.suite()
        self.shape.require_sound()
        packages = machine.missing_packages()
        machine.require_installable(packages)
        machine.require_memory(self.shape.memory_bytes)
        if new:
            needed = self.shape.disks * self.shape.disk_bytes + self.wanted.system_bytes
            machine.require_space(self.guest.folder, needed + _BUILD_BYTES)
        return packages

    def make(self) -> None:
        """Make the disks, and the image if it is missing."""
        guest = self.guest
        guest.stop(gently=False)  # what an interrupted run left
        guest.remove()
        if guest.image.digest() != self.recipe.digest():
            guest.image.build(self.recipe)
        machine.run("cp", "--sparse=always", "--reflink=auto", guest.image.system, guest.system)
        guest.disks.mkdir()
        for number in range(1, self.shape.disks + 1):
            with guest.disk(number).open("wb") as disk:
                disk.truncate(self.shape.disk_bytes)

    def boot(self) -> None:
        """Start the guest on its disks and record how it is reached once it answers."""
        accelerator = self.guest.probe()
        with ExitStack() as undo:
            undo.callback(self.guest.stop, gently=False)
            port = self.guest.start(self.shape, accelerator)
            self.write_record(port, accelerator)
            undo.pop_all()

    def write_record(self, port: int, accelerator: str) -> None:
        """Wait for the guest and write lab.json."""
        guest, shape = self.guest, self.shape
        machine_id = guest.wait(port, shape.disks, self.wanted.boot_limit_s)
        serials = [f"innolab-{number}" for number in range(1, shape.disks + 1)]
        size = shape.disk_bytes
        record = {
            "port": port,
            "user": "root",
            "key": str(guest.image.key),
            "known_hosts": str(guest.known_hosts),
            "ssh_config": str(guest.ssh_config),
            "pid": guest.pid(),
            "accelerator": accelerator,
            "cpus": shape.cpus,
            "memory_bytes": shape.memory_bytes,
            "disks": [{"id": f"virtio-{x}", "serial": x, "size_bytes": size} for x in serials],
            "iops": shape.limits.get("iops-total"),
            "device": shape.device,
            "limits": shape.limits,
            "machine_id": machine_id,
            "image": self.recipe.digest(),
        }
        guest.new_record.write_text(json.dumps(record, indent=2) + "\n")
        guest.new_record.rename(guest.record)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep every other run out of the folder while the block runs."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _present(lab: _Lab, check: bool) -> LabResult:
    """Reach the wanted guest, or only find out what would change."""
    guest, record, before = lab.guest, _record(lab.guest), _parts(lab.guest)
    if record:
        lab.require_same(record)
    if record and guest.pid():
        if not check:
            guest.wait(record["port"], lab.shape.disks, lab.wanted.boot_limit_s)
        return LabResult(False, _diff(before, before), record)
    packages = lab.require_room(new=not record)
    diff = _diff(before, [*(f"package {name}" for name in packages), *lab.parts()])
    if check:
        return LabResult(True, diff)
    machine.install(packages)
    with ExitStack() as undo:
        if not record:
            undo.callback(guest.remove)
            lab.make()
        lab.boot()
        undo.pop_all()
    return LabResult(True, diff, _record(guest))


def _absent(guest: Guest, keep_image: bool, check: bool) -> LabResult:
    """Take the guest down, and its image if that is not kept, or only say what would go."""
    before = _parts(guest)
    after = [part for part in before if keep_image and part.startswith("image ")]
    if not check:
        guest.stop(gently=True)
        guest.remove()
        if not keep_image:
            guest.image.remove()
    return LabResult(before != after, _diff(before, after))


def _diff(before: list[str], after: list[str]) -> dict[str, str]:
    return {"before": "\n".join([*before, ""]), "after": "\n".join([*after, ""])}


def ensure(asked: LabRequest, check: bool = False) -> LabResult:
    """Raise the lab or take it down; where it is only checked, change nothing.

    Raises
    ------
    LabError
        If the lab cannot be as asked.
    """
    guest, folder = Guest(asked.folder), asked.folder

    def reach(check: bool) -> LabResult:
        if isinstance(asked, Wanted):
            return _present(_Lab(asked, guest), check)
        return _absent(guest, asked.image == "kept", check)

    if check or not (isinstance(asked, Wanted) or folder.exists()):
        return reach(check=True)
    if not folder.exists():
        reach(check=True)  # before there is even a folder
        folder.mkdir(mode=0o700, parents=True)
    try:
        with alone(folder):
            return reach(check=False)
    finally:
        with suppress(OSError):  # where something is left, the folder stays
            folder.rmdir()


def _read(options: str) -> LabRequest:
    """Return what a JSON object asks for."""
    try:
        asked = LabRequest.model_validate_json(options)
        asked = Wanted.model_validate_json(options) if asked.state == "present" else asked
    except ValidationError as error:
        wrong = error.errors()[0]
        name = ".".join(map(str, wrong["loc"])) or "the JSON object"
        raise LabError(f"{name} is not as the lab takes it: {wrong['msg']}") from None
    if not asked.folder.is_absolute():
        raise LabError(f"folder should be an absolute path, but {asked.folder} was asked for")
    return asked


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks; return the exit status."""
    parser = argparse.ArgumentParser(description="Raise the lab, or take it down.")
    parser.add_argument("options", help="what is asked, as one JSON object")
    parser.add_argument("--check", action="store_true", help="only say what would change")
    options = parser.parse_args(arguments)
    try:
        result = ensure(_read(options.options), options.check)
    except (LabError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(result._asdict()))
    return 0


if __name__ == "__main__":
    # For the programs that it runs: what they say is read here, and some are for administrators.
    os.environ.update(LC_ALL="C", PATH=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    sys.exit(main())
