"""This machine: where things are, who runs servers, and the right to measure on it."""

import contextlib
import os
import pwd
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from innolab.base import places
from innolab.base.errors import InnolabError, InputError

SERVER_USER = "innolab"
# Before a command that the kernel is to end with innolab: after `kill -9` of a run nothing is left
# to disturb the next one.
TIED = ("setpriv", "--pdeathsig", "KILL")
SOCKETS = "/proc/net/unix"
# What `python -m innolab.hosts.machine` prints once it holds the right to measure.
HELD = "held"
# Abstract sockets, which are listed there behind an @: who measures holds the first one,
# who removes what a session left the second.
_LOCK, _CLEARING_LOCK = "innolab-measures", "innolab-clears"
# What was left is removed within seconds.
_CLEARING_S = 120.0


def cache_folder() -> Path:
    """Return the folder of builds, datasets and running servers (`INNOLAB_CACHE` moves it).

    Root's is in /var/cache: servers run as an unprivileged user, which cannot enter /root.
    """
    if named := os.environ.get("INNOLAB_CACHE"):
        return Path(named).absolute()
    if os.geteuid() == 0:
        return Path("/var/cache/innolab")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "innolab"


def server_user() -> str | None:
    """Return the unprivileged user of the servers, or None if we are unprivileged ourselves.

    Raises
    ------
    InputError
        If root runs innolab and that user does not exist.
    """
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam(SERVER_USER).pw_name
    except KeyError:
        raise InputError(
            f"innolab runs as root but the user '{SERVER_USER}', under which servers run then, "
            f"does not exist. Create it with: {places.set_up()}"
        ) from None


def within(cgroup: Path | None) -> list[str]:
    """Return the words before a command that starts it, and all it starts, in a control group."""
    if cgroup is None:
        return []
    join = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
    return ["sh", "-c", join, str(cgroup)]


def give_to_server(folder: Path) -> None:
    """Make the servers' unprivileged user the owner of a folder and all in it."""
    if user := server_user():
        subprocess.run(["chown", "-R", f"{user}:{user}", str(folder)], check=True)


@contextlib.contextmanager
def measuring_alone() -> Iterator[None]:
    """Hold the right to measure on this host until the block ends or the process dies.

    An abstract socket: the kernel frees it with the process, so nothing is ever left to clean up,
    and it is seen by every user and every cache folder of the host.

    Raises
    ------
    InputError
        If another process measures now. Two at once would measure each other.
    """
    if (lock := _taken(_LOCK)) is None:
        raise InputError(
            f"Another innolab measures on this host already (process {_holder(_LOCK)}). Two runs "
            "at once would measure each other. Wait for it to end, then start this one again."
        )
    with lock:
        yield


def is_measured(sockets: str) -> bool:
    """Return whether a process of a host holds the right to measure, by its SOCKETS.

    To try and take it instead would refuse a run that starts at that moment.
    """
    return f"@{_LOCK}" in sockets.split()


@contextlib.contextmanager
def clearing_alone() -> Iterator[None]:
    """Hold the right to remove what sessions left on this host; wait for who has it.

    Raises
    ------
    InnolabError
        If that takes longer than it ever should.
    """
    deadline = time.monotonic() + _CLEARING_S
    while (lock := _taken(_CLEARING_LOCK)) is None:
        if time.monotonic() > deadline:
            raise InnolabError(
                f"Process {_holder(_CLEARING_LOCK)} has been removing what an earlier session left "
                f"for {_CLEARING_S:.0f} s. End it, then start this one again."
            )
        time.sleep(0.05)
    with lock:
        yield


def _taken(name: str) -> socket.socket | None:
    """Return a lock, held until it is closed, or None if another process holds it."""
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        lock.bind(f"\0{name}")
        lock.listen(1)
    except OSError:
        lock.close()
        return None
    return lock


def _holder(name: str) -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(1)  # Nobody accepts: where others asked before, connecting would wait.
        try:
            client.connect(f"\0{name}")
            credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        except OSError:
            return "unknown"
    return str(struct.unpack("3i", credentials)[0])


def there(folder: Path) -> Path:
    """Return a folder, or the innermost one above it that exists."""
    return next(place for place in (folder, *folder.parents) if place.exists())


def free_disk_bytes(folder: Path) -> int:
    """Return the free bytes of the file system that holds `folder` or will hold it."""
    return shutil.disk_usage(there(folder)).free


def has_tool(name: str) -> bool:
    """Return whether the set-up has installed a program."""
    return (cache_folder() / "tools" / "bin" / name).exists()


def tool(name: str) -> str:
    """Return the command of a program that the set-up installed.

    Raises
    ------
    InputError
        If it has not.
    """
    starter = cache_folder() / "tools" / "bin" / name
    if has_tool(name):
        return str(starter)
    reason = starter.with_name(name + ".unavailable")
    why = f" The last set-up could not install it: {reason.read_text()}" if reason.exists() else ""
    raise InputError(
        f"There is no {name} in {starter.parent}.{why} Install it with: {places.set_up()}"
    )


def main() -> int:
    """Hold the right to measure on this host until killed, as on each host of a topology."""
    try:
        with measuring_alone():
            print(HELD, flush=True)
            signal.pause()
    except InputError as error:
        print(error, flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
