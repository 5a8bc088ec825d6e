"""Programs beside the servers, which the playbook leaves in the cache folder."""

from innolab.base import places
from innolab.base.errors import InputError
from innolab.hosts import machine


def is_there(name: str) -> bool:
    """Return whether the set-up has installed a tool."""
    return (machine.cache_folder() / "tools" / "bin" / name).exists()


def path(name: str) -> str:
    """Return the command of a tool.

    Raises
    ------
    InputError
        Where the set-up has not installed it.
    """
    starter = machine.cache_folder() / "tools" / "bin" / name
    if is_there(name):
        return str(starter)
    reason = starter.with_name(name + ".unavailable")
    why = f" The last set-up could not install it: {reason.read_text()}" if reason.exists() else ""
    raise InputError(
        f"There is no {name} in {starter.parent}.{why} Install it with: {places.set_up()}"
    )
