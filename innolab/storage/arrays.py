"""Arrays of a host's disks, made one after the other by the playbook site.yml.

An array is made of the disks that the inventory names by id, serial and size. The playbook plans
first; only the hash of its plan confirms it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from innolab.base import files
from innolab.base.errors import InnolabError, InputError
from innolab.base.units import bytes_text
from innolab.hosts import machine, observe
from innolab.hosts.inventory import Named, find
from innolab.hosts.playbooks import PlaybookError, play
from innolab.hosts.ssh import Remote
from innolab.mysql.builds import Build, require_same
from innolab.storage.raid import Array

DATA, LOG = Path("/srv/innolab/data"), Path("/srv/innolab/log")
RECORD = Path("/etc/innolab/host.json")


@dataclass
class Arrays:
    """The arrays that a study asks for, on one host; one of them at a time is present.

    Attributes
    ----------
    host : the host, connected
    named : the host as its inventory has it
    known : the arrays by the name of their device
    storage : what is asked of the role `storage` besides layout and disks
    """

    host: Remote
    named: Named
    known: Mapping[str, Array]
    storage: Mapping[str, Any]
    present: str | None = None

    def prepare_host(self, builds: list[Build]) -> None:
        """Install servers and tools on the host, and prove that the servers are those of here.

        Raises
        ------
        InnolabError
            If the playbook fails, or a server's digest is another.
        """
        wanted = {"mysql_host_builds": [build.id for build in builds]}
        self._play(wanted, "software", "its servers and tools could not be installed")
        for build in builds:
            require_same(build, self.host, self.host.folder)

    def arrange(self, name: str) -> dict[str, Any]:
        """Make an array with its file system, in place of the last, and return its record.

        Raises
        ------
        InnolabError
            If the playbook refuses or fails.
        """
        self.host.require_here()
        before, self.present = self.present, None
        array = self.known[name]
        disks = self.named.disks[: array.disks]
        if before == name:
            # The same geometry again would change nothing, and its speed be measured twice.
            self._confirmed({"state": "absent"}, f"{name} could not be taken down")
        storage = {**self.storage, "layout": array.layout, "disks": disks, "replace_ours": True}
        self._confirmed(storage, f"{name} could not be made")
        self.present = name
        return {
            "layout": array.layout,
            "disks": array.disks,
            "disk_iops": self.named.disk_iops,
            "accelerator": self.named.accelerator,
            **json.loads(self.host.read(RECORD)[0]),
        }

    def _confirmed(self, storage: dict[str, Any], failed: str) -> None:
        """Have storage planned, and give the plan's hash back."""
        planned = self._play({"storage_changes": {**storage, "action": "plan"}}, "arrays", failed)
        digest = next(result["hash"] for result in planned if "hash" in result)
        confirmed = {**storage, "action": "apply", "confirm": digest}
        self._play({"storage_changes": confirmed}, "arrays", failed)

    def _play(self, wanted: dict[str, Any], tag: str, failed: str) -> list[dict[str, Any]]:
        options = ("--inventory", self.named.inventory, "--limit", f"{self.host.name},localhost")
        try:
            return play("site.yml", wanted, *options, "--tags", tag)
        except PlaybookError as failure:
            raise InnolabError(f"{self.host.name}: {failed}: {failure}") from None


def connect(
    known: Mapping[str, Array], inventory: str, name: str, storage: Mapping[str, Any]
) -> Arrays:
    """Return the arrays of a host that answers and has disks enough. Nothing is changed.

    Raises
    ------
    InputError
        If there is no such host, it does not answer, or it has too few disks.
    """
    named = find(inventory, name)
    wanted = max(array.disks for array in known.values())
    if len(named.disks) < wanted:
        raise InputError(
            f"{name} has {len(named.disks)} disks for arrays (storage_disks in the inventory "
            f"{inventory}) and the largest array asked for takes {wanted}. Name smaller arrays. "
            "Nothing was changed."
        )
    return Arrays(Remote(named.address, named.emulator), named, known, storage)


def require_confirmed(arrays: Arrays, confirmation: str | None) -> None:
    """Raise InputError if the owner of the disks has not agreed to lose what is on them.

    The lab's disks are files that innolab made itself: they need no confirmation.
    """
    [machine_id] = arrays.host.read("/etc/machine-id")
    wide = max(array.disks for array in arrays.known.values())
    disks = arrays.named.disks[:wide]
    body = [machine_id, disks, {name: list(array) for name, array in arrays.known.items()}]
    digest = files.digest_of(body)[:16]
    if confirmation == digest or _is_lab(machine_id):
        return
    listed = ", ".join(f"{disk['id']} (serial {disk['serial']})" for disk in disks)
    raise InputError(
        f"This study makes {', '.join(arrays.known)} on {arrays.host.name}, one after the other. "
        f"All data on these disks will be lost: {listed}. Disks that hold anything but arrays of "
        f"innolab's are refused. To confirm: -p confirm={digest}. Nothing was changed."
    )


def _is_lab(machine_id: str) -> bool:
    record = machine.cache_folder() / "lab" / "lab.json"
    return record.exists() and json.loads(record.read_text())["machine_id"] == machine_id.strip()


def require_room(arrays: Arrays, memory_bytes: int, disk_bytes: int) -> None:
    """Raise InputError where the host has too little memory, or its disks are too small."""
    free = observe.memory_bytes(arrays.host)["available"]
    if free < memory_bytes:
        raise InputError(
            f"The largest server needs {bytes_text(memory_bytes)} of memory and {arrays.host.name} "
            f"has {bytes_text(free)} available. Take a smaller scale or size."
        )
    smallest = min(disk["size_bytes"] for disk in arrays.named.disks)
    if smallest < disk_bytes:
        raise InputError(
            f"The copies of the data need {bytes_text(disk_bytes)} and a mirror of "
            f"{arrays.host.name}'s disks has {bytes_text(smallest)}. Take a smaller scale or size."
        )
