"""Hosts of an Ansible inventory: how ssh reaches them, and which disks innolab may have there."""

import shlex
from pathlib import Path
from typing import Any, NamedTuple

from innolab.errors import InputError
from innolab.hosts.ssh import Address
from innolab.playbooks import FOLDER, PlaybookError, ask

_ASKED = """{
  'known': inventory_hostname in groups['database_hosts'] | default([]),
  'host': ansible_host | default(inventory_hostname), 'port': ansible_port | default(22),
  'user': ansible_user | default('root'), 'key': ansible_ssh_private_key_file | default(none),
  'options': ansible_ssh_common_args | default(''), 'disks': storage_disks | default([]),
  'disk_iops': storage_disk_iops | default(none), 'emulator': emulator_pid | default(none),
  'accelerator': emulator_accelerator | default(none)
}"""


class Named(NamedTuple):
    """A host as its inventory has it.

    Attributes
    ----------
    inventory : the inventory's path
    disks : mappings of id, serial and size_bytes
    disk_iops : what its owner says that one disk gives in a second, or None
    emulator : the process here that emulates the host, where one does
    accelerator : how it runs the host's processors; "tcg" is by software
    """

    address: Address
    inventory: Path
    disks: list[dict[str, Any]]
    disk_iops: float | None
    emulator: int | None
    accelerator: str | None


def find(inventory: str, name: str) -> Named:
    """Return a host of an inventory, given by its name in playbooks/inventories or by its path.

    Raises
    ------
    InputError
        Where there is no such inventory, or it has no such host, or no key where it names one.
    """
    path = Path(inventory) if "/" in inventory else FOLDER / "inventories" / inventory
    if not path.exists():
        known = ", ".join(sorted(p.name for p in (FOLDER / "inventories").iterdir()))
        raise InputError(
            f"There is no inventory '{inventory}'. There are: {known}; or give a path. Nothing was "
            "changed."
        )
    try:
        told = ask(path, name, " ".join(_ASKED.split()))
    except PlaybookError as failure:
        raise InputError(
            f"The inventory {inventory} says nothing of the host '{name}': {failure}. Nothing was "
            "changed."
        ) from None
    if not told["known"]:
        raise InputError(
            f"The host '{name}' is not in the group database_hosts of the inventory {inventory}. "
            "Nothing was changed."
        )
    key = told["key"]
    if key and not Path(key).expanduser().exists():
        raise InputError(
            f"There is no ssh key {key}, which the inventory {inventory} names for '{name}'. "
            "Nothing was changed."
        )
    options = tuple(shlex.split(told["options"]))
    address = Address(name, told["host"], int(told["port"]), told["user"], key, options)
    return Named(
        address, path, *(told[name] for name in ("disks", "disk_iops", "emulator", "accelerator"))
    )
