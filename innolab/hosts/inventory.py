"""Hosts of an Ansible inventory: how ssh reaches them, and which disks innolab may have there.

An inventory is trusted as a playbook is: its values may look things up by running commands. What is
checked here is that it holds what we need, and that nobody runs a program without knowing it.
"""

import itertools
import os
import re
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from innolab.base.errors import InputError
from innolab.base.quoting import shown
from innolab.hosts.connection import Address
from innolab.hosts.playbooks import FOLDER, PlaybookError, ask

# Set to 1 by a user who has a program as inventory and wants it run.
PROGRAMS_ALLOWED = "INNOLAB_EXECUTABLE_INVENTORY"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_GROUPS = ("all", "ungrouped")
# Whose hosts measure.
GROUP = "database_hosts"
_MOST_FILES = 1000
_MOST_FAULTS = 3
_MOST_QUOTED = 600

_ASKED = """{
  'inventory_hostname': inventory_hostname,
  'is_database_host': inventory_hostname in groups['database_hosts'] | default([]),
  'ansible_host': ansible_host | default(inventory_hostname),
  'ansible_port': ansible_port | default(22), 'ansible_user': ansible_user | default('root'),
  'ansible_ssh_private_key_file': ansible_ssh_private_key_file | default(none),
  'ansible_ssh_common_args': ansible_ssh_common_args | default(''),
  'storage_disks': storage_disks | default([]),
  'storage_disk_iops': storage_disk_iops | default(none),
  'emulator_pid': emulator_pid | default(none),
  'emulator_accelerator': emulator_accelerator | default(none)
}"""


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("should be printable text")
    return text


def _split(text: Any) -> list[str]:
    if not isinstance(text, str):
        raise ValueError("should be text, as on a command line")
    return shlex.split(text)


Text = Annotated[str, AfterValidator(_printable)]


class Disk(BaseModel):
    """A disk that innolab may have, as the playbooks take it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    id: Text = Field(min_length=1)
    serial: Text = Field(min_length=1)
    size_bytes: int = Field(gt=0)


class Named(BaseModel):
    """A host as its inventory has it, each variable by the name that it has there.

    Attributes
    ----------
    inventory : the inventory's path
    disk_iops : what its owner says that one disk gives in a second, or None
    emulator : the process here that emulates the host, if one does
    accelerator : how it runs the host's processors; "tcg" is by software
    """

    inventory: Path = Path()
    inventory_hostname: Text
    is_database_host: bool
    ansible_host: Text = Field(min_length=1)
    ansible_port: int = Field(ge=1, le=65535)
    ansible_user: Text = Field(min_length=1)
    ansible_ssh_private_key_file: Text | None
    ansible_ssh_common_args: Annotated[tuple[Text, ...], BeforeValidator(_split)]
    storage_disks: list[Disk]
    disk_iops: float | None = Field(alias="storage_disk_iops", gt=0, allow_inf_nan=False)
    emulator: int | None = Field(alias="emulator_pid", gt=0)
    accelerator: Text | None = Field(alias="emulator_accelerator")

    @property
    def address(self) -> Address:
        """Return how ssh reaches it."""
        key = self.ansible_ssh_private_key_file
        return Address(
            self.inventory_hostname,
            self.ansible_host,
            self.ansible_port,
            self.ansible_user,
            str(Path(key).expanduser().absolute()) if key else None,
            self.ansible_ssh_common_args,
        )

    @property
    def disks(self) -> list[dict[str, Any]]:
        """Return its disks as mappings of id, serial and size_bytes."""
        return [disk.model_dump() for disk in self.storage_disks]


def find(inventory: str, name: str) -> Named:
    """Return a host of an inventory, given by its name in playbooks/inventories or by its path.

    Raises
    ------
    InputError
        If there is no such inventory, it has no such host, it is a program, what it says of the
        host cannot be used, or the key that it names is not there.
    """
    if not _NAME.fullmatch(name) or name in _GROUPS:
        raise InputError(
            f"{shown(name)} does not name one host. Give the name of a host as the inventory has "
            "it: letters, digits, '_', '.' and '-', the first a letter or a digit; no pattern and "
            "no group. Nothing was changed."
        )
    path, each = _asked(inventory, name)
    if len(each) != 1:
        raise InputError(
            f"The inventory {shown(inventory)} names no single host: '{name}' is {len(each)} "
            "hosts there, and one is needed. Nothing was changed."
        )
    return _checked(each[0], inventory, name, path)


def find_each(inventory: str, group: str = GROUP) -> list[Named]:
    """Return the hosts of a group of an inventory, or the one host that is named so.

    Raises
    ------
    InputError
        As `find`, for any of them; names it.
    """
    if not _NAME.fullmatch(group):
        raise InputError(
            f"{shown(group)} names neither a host nor a group: letters, digits, '_', '.' and '-', "
            "the first a letter or a digit. Nothing was changed."
        )
    path, each = _asked(inventory, group)
    by_name = {str(variables["inventory_hostname"]): variables for variables in each}
    return [_checked(by_name[name], inventory, name, path) for name in sorted(by_name)]


def _asked(inventory: str, name: str) -> tuple[Path, list[Any]]:
    """Return an inventory's path, and what it says of each host of a group or of one host."""
    path = _path(inventory)
    try:
        return path, ask(path, name, " ".join(_ASKED.split()))
    except PlaybookError as failure:
        reason = " ".join(str(failure).split())[:_MOST_QUOTED]
        raise InputError(
            f"The inventory {shown(inventory)} says nothing of the host '{name}', nor of a group "
            f"of that name: {reason}. Nothing was changed."
        ) from None


def _checked(variables: Any, inventory: str, name: str, path: Path) -> Named:
    """Return a host of an inventory if its variables can be used and it is one for databases."""
    try:
        host = Named.model_validate(variables).model_copy(update={"inventory": path})
    except ValidationError as error:
        wrong = "; ".join(_fault(item) for item in error.errors()[:_MOST_FAULTS])
    except UnicodeError:
        wrong = "a name in it is no valid text"
    else:
        _require_reachable(host, inventory, name)
        return host
    raise InputError(
        f"The inventory {shown(inventory)} says of '{name}' what cannot be used: {wrong}. How each "
        "variable is written: playbooks/inventories/example-r900/hosts.yml. Nothing was changed."
    )


def _require_reachable(host: Named, inventory: str, name: str) -> None:
    if host.inventory_hostname != name or not host.is_database_host:
        raise InputError(
            f"The host '{name}' is not in the group database_hosts of the inventory "
            f"{shown(inventory)}. Nothing was changed."
        )
    key = host.ansible_ssh_private_key_file
    if key and not _is_there(key):
        raise InputError(
            f"There is no ssh key {key[:_MOST_QUOTED]}, which the inventory {shown(inventory)} "
            f"names for '{name}'. Nothing was changed."
        )


def _is_there(key: str) -> bool:
    try:
        return Path(key).expanduser().exists()
    except (OSError, RuntimeError):  # Too long for a path, or in the home of a user who is none.
        return False


def _path(inventory: str) -> Path:
    """Return the path of an inventory, once nothing in it is a program or would block."""
    # Absolute, as Ansible runs in another folder.
    path = Path(inventory).absolute() if "/" in inventory else FOLDER / "inventories" / inventory
    # A comma makes it a list of hosts for Ansible.
    is_name = "/" in inventory or _NAME.fullmatch(inventory)
    if not is_name or "," in inventory or not os.path.lexists(path):
        known = ", ".join(sorted(p.name for p in (FOLDER / "inventories").iterdir()))
        raise InputError(
            f"There is no inventory {shown(inventory)}. There are: {known}; or give a path. "
            "Nothing was changed."
        )
    files = list(itertools.islice(_files(path), _MOST_FILES + 1))
    if not files or len(files) > _MOST_FILES:
        many = f"more than {_MOST_FILES:,} files" if files else "no file"
        raise InputError(
            f"The inventory {shown(inventory)} is a folder that holds {many}. Name an inventory's "
            "file, or a folder of such files. Nothing was changed."
        )
    for file in files:
        if why := _why_not(file):
            raise InputError(f"{shown(str(file))} cannot be an inventory: {why}")
    return path


def _files(path: Path) -> Iterator[Path]:
    """Give the files of an inventory, be it one or a folder of them."""
    if not path.is_dir():
        yield path
        return
    for folder, inside, names in os.walk(path, followlinks=True):
        # As Ansible, which passes over hidden ones, such as git's hooks.
        inside[:] = [name for name in inside if not name.startswith(".")]
        yield from (Path(folder, name) for name in names if not name.startswith("."))


def _why_not(file: Path) -> str | None:
    """Return why Ansible should not read a file, and what to do about it; None if it may."""
    try:
        mode = file.stat().st_mode
    except OSError as error:
        return f"it leads nowhere ({error.strerror}). Repair it or remove it. Nothing was changed."
    if not stat.S_ISREG(mode):
        return "it is no regular file. Name a YAML or INI file. Nothing was changed."
    if os.access(file, os.X_OK) and os.environ.get(PROGRAMS_ALLOWED) != "1":
        return (
            "it is executable, so Ansible would execute it. Take that from it (chmod -x), name a "
            f"YAML inventory, or set {PROGRAMS_ALLOWED}=1 if it is a program that you trust. "
            "Nothing was changed or executed."
        )
    return None


def _fault(item: Any) -> str:
    place = "".join(f"[{x}]" if isinstance(x, int) else f".{x}" for x in item["loc"])
    if item["type"] == "missing":
        return f"{shown(place[1:])} is missing"
    says = item["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return f"{shown(place[1:])} is {shown(item['input'])} but {says[0].lower()}{says[1:]}"


def named_hosts(asked: str) -> list[Named]:
    """Return the hosts of INVENTORY or INVENTORY:GROUP, where GROUP may be one host's name.

    Raises
    ------
    InputError
        If there is no such inventory, group or host, or one cannot be used.
    """
    inventory, _, group = asked.partition(":")
    return find_each(inventory, group or GROUP)
