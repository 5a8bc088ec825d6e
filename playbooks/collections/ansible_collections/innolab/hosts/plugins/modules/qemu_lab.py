"""Raise, or take down, the lab: a guest in QEMU with disks of limited speed."""

import fcntl
import json
import os
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import lab_host as host
from ..module_utils.lab_host import LabError
from ..module_utils.lab_image import Recipe
from ..module_utils.lab_qemu import Guest, Shape, limits

DOCUMENTATION = r"""
module: qemu_lab
short_description: Raise, or take down, a guest in QEMU with disks of limited speed
description:
  - The guest is made of this machine's own Debian suite and kept as an image, keyed by what it is
    made of. Programs that are missing are installed where root runs this on Debian.
  - Leaves C(lab.json) in I(folder), written last, which says how the guest is reached and what it
    has; and C(ssh_config), with which C(ssh -F) reaches the host C(lab).
  - A guest that runs and answers is left alone. One whose QEMU ended boots again on its disks. One
    that never was ready is made anew.
  - Uses C(/dev/kvm) only where a guest that was started on it for the purpose got to user space.
author: innolab
options:
  state:
    description: Which to reach. All but I(folder) is needed for C(present) only.
    type: str
    choices: [present, absent]
    default: present
  image:
    description: Whether the image outlives the lab; looked at where it is to be absent.
    type: str
    choices: [kept, absent]
    default: kept
  folder: {description: Absolute path of a folder of its own., type: path, required: true}
  files: {description: Folder with the guest's own files., type: path}
  devices: {description: CSV file of device profiles., type: path}
  device: {description: Profile that limits each data disk., type: str}
  packages: {description: Debian packages of the guest., type: list, elements: str}
  cpus: {description: Most processors; never more than the machine has., type: int}
  memory_bytes: {description: Memory of the guest., type: int}
  disks: {description: Count of data disks., type: int}
  disk_bytes: {description: Size of each data disk., type: int}
  system_bytes: {description: Size of the system disk., type: int}
  boot_limit_s: {description: Seconds after which a guest counts as stuck., type: int, default: 180}
"""

EXAMPLES = r"""
- name: Take the lab down
  innolab.hosts.qemu_lab:
    state: absent
    folder: /var/cache/innolab/lab
"""

RETURN = r"""
lab: {description: The content of C(lab.json)., type: dict, returned: when present}
"""

# What an image takes while it is built, beside its own disk: packages, a tar and a tree of them.
_BUILD_BYTES = 2 * 2**30


def _record(guest: Guest) -> dict[str, Any]:
    """Return what lab.json says, or nothing where the guest never was ready."""
    try:
        record: dict[str, Any] = json.loads(guest.record.read_text())
        Shape.of(record)
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
    found += [_disks_in_words(len(disks), disks[0].stat().st_size)] if disks else []
    found += [_files_in_words(files)] if files else []
    return found + ([f"QEMU, process {pid}"] if pid else [])


def _disks_in_words(count: int, size: int) -> str:
    return f"{count} data disks of {size} bytes"


def _files_in_words(names: list[str]) -> str:
    return f"files {' '.join(sorted(names))}"


class _Lab:
    """What is wanted of a guest, and the way there."""

    def __init__(self, given: dict[str, Any], guest: Guest) -> None:
        self.given, self.guest = given, guest
        self.recipe = Recipe(Path(given["files"]), given["packages"], given["system_bytes"])
        self.shape = Shape(
            cpus=min(given["cpus"], os.cpu_count() or 1),
            memory_bytes=given["memory_bytes"],
            disks=given["disks"],
            disk_bytes=given["disk_bytes"],
            device=given["device"],
            limits=limits(Path(given["devices"]), given["device"]),
        )

    def parts(self) -> list[str]:
        """Return what there will be, for people."""
        shape, names = self.shape, [file.name for file in self.guest.files()]
        disks = _disks_in_words(shape.disks, shape.disk_bytes)
        guest = f"{shape.cpus} processors and {shape.memory_bytes} bytes of memory"
        limit = f"each disk limited as {shape.device}: {shape.limits}"
        image = f"image {self.recipe.digest()}"
        return [image, disks, _files_in_words(names), f"QEMU with {guest}, {limit}"]

    def require_same(self, record: dict[str, Any]) -> None:
        """Raise where the guest that there is differs from the wanted one."""
        wanted = {"image": self.recipe.digest(), **self.shape._asdict()}
        found = {"image": record["image"], **Shape.of(record)._asdict()}
        differs = [f"{x}: {found[x]}, not {wanted[x]}" for x in wanted if found[x] != wanted[x]]
        if not differs and self.guest.image.digest() != wanted["image"]:
            differs = ["the image it was made of is gone"]
        if differs:
            other = f"there is a lab already, but another ({'; '.join(differs)})"
            raise LabError(f"{other}; take it and its disks down first with: make lab-down")

    def require_room(self, new: bool) -> list[str]:
        """Raise where this machine cannot hold the guest; return the packages it still needs."""
        host.require_kind()
        host.suite()
        self.shape.require_sound()
        packages = host.missing_packages()
        host.require_installable(packages)
        host.require_memory(self.shape.memory_bytes)
        if new:
            needed = self.shape.disks * self.shape.disk_bytes + self.given["system_bytes"]
            host.require_space(self.guest.folder, needed + _BUILD_BYTES)
        return packages

    def make(self) -> None:
        """Make the disks, and the image if it is missing."""
        guest = self.guest
        guest.stop(gently=False)  # what an interrupted run left
        guest.remove()
        if guest.image.digest() != self.recipe.digest():
            guest.image.build(self.recipe)
        host.run("cp", "--sparse=always", "--reflink=auto", guest.image.system, guest.system)
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
        machine_id = guest.wait(port, shape.disks, self.given["boot_limit_s"])
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
def alone(folder: Path) -> Any:
    """Keep every other run out of the folder meanwhile."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _present(lab: _Lab, check: bool) -> dict[str, Any]:
    """Reach the wanted guest, or only find out what would change."""
    guest, record, before = lab.guest, _record(lab.guest), _parts(lab.guest)
    if record:
        lab.require_same(record)
    if record and guest.pid():
        if not check:
            guest.wait(record["port"], lab.shape.disks, lab.given["boot_limit_s"])
        return {"changed": False, "lab": record}
    packages = lab.require_room(new=not record)
    diff = _diff(before, [*(f"package {name}" for name in packages), *lab.parts()])
    if check:
        return {"changed": True, "diff": diff}
    host.install(packages)
    with ExitStack() as undo:
        if not record:
            undo.callback(guest.remove)
            lab.make()
        lab.boot()
        undo.pop_all()
    return {"changed": True, "diff": diff, "lab": _record(guest)}


def _absent(guest: Guest, keep_image: bool, check: bool) -> dict[str, Any]:
    """Take the guest down, and its image if that is not kept, or only say what would go."""
    before = _parts(guest)
    after = [part for part in before if keep_image and part.startswith("image ")]
    if not check:
        guest.stop(gently=True)
        guest.remove()
        if not keep_image:
            guest.image.remove()
    return {"changed": before != after, "diff": _diff(before, after)}


def _diff(before: list[str], after: list[str]) -> dict[str, str]:
    return {"before": "\n".join([*before, ""]), "after": "\n".join([*after, ""])}


def _ensure(given: dict[str, Any], check: bool) -> dict[str, Any]:
    """Do what is asked and return the module's result."""
    folder, present = Path(given["folder"]), given["state"] == "present"
    guest = Guest(folder)

    def reach(check: bool) -> dict[str, Any]:
        if present:
            return _present(_Lab(given, guest), check)
        return _absent(guest, given["image"] == "kept", check)

    if check or not (present or folder.exists()):
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


def main() -> None:
    """Run the module."""
    options: dict[str, Any] = {
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "image": {"type": "str", "choices": ["kept", "absent"], "default": "kept"},
        "folder": {"type": "path", "required": True},
        "files": {"type": "path"},
        "devices": {"type": "path"},
        "device": {"type": "str"},
        "packages": {"type": "list", "elements": "str"},
        "cpus": {"type": "int"},
        "memory_bytes": {"type": "int"},
        "disks": {"type": "int"},
        "disk_bytes": {"type": "int"},
        "system_bytes": {"type": "int"},
        "boot_limit_s": {"type": "int", "default": 180},
    }
    needed = [name for name, option in options.items() if len(option) == 1 or "elements" in option]
    present = ("state", "present", needed)
    module = AnsibleModule(options, required_if=[present], supports_check_mode=True)
    os.environ.update(LC_ALL="C", PATH=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    try:
        result = _ensure(module.params, module.check_mode)
    except (LabError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
