"""This machine: where things lie, who runs servers, and the right to measure on it."""

import contextlib
import os
import pwd
import shutil
import socket
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

from innolab.base import places
from innolab.base.errors import InputError

SERVER_USER = "innolab"
# An abstract socket that whoever measures holds; /proc/net/unix lists it behind an @.
LOCK = "innolab-measures"


def cache_folder() -> Path:
    """Return the folder of builds, datasets and running servers (`INNOLAB_CACHE` moves it).

    Root's lies in /var/cache: servers run as an unprivileged user, which cannot enter /root.
    """
    if named := os.environ.get("INNOLAB_CACHE"):
        return Path(named).absolute()
    if os.geteuid() == 0:
        return Path("/var/cache/innolab")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "innolab"


def server_user() -> str | None:
    """Return the unprivileged user of the servers, or None where we are unprivileged ourselves.

    Raises
    ------
    InputError
        Where root runs innolab and that user does not exist.
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


def unprivileged() -> list[str]:
    """Return the words before a command that must not run as root nor outlive innolab.

    The kernel kills the server with the process that started it: after `kill -9` of a run no
    mysqld is left to disturb the next one.
    """
    words = ["setpriv", "--pdeathsig", "KILL"]
    if user := server_user():
        words += [f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    return words


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
        Where another process measures now. Two at once would measure each other.
    """
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        lock.bind(f"\0{LOCK}")
        lock.listen(1)
    except OSError:
        lock.close()
        raise InputError(
            f"Another innolab measures on this host already (process {_lock_holder()}). Two runs "
            "at once would measure each other. Wait for it to end, then start this one again."
        ) from None
    try:
        yield
    finally:
        lock.close()


def _lock_holder() -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(1)  # Nobody accepts: where others asked before, connecting would wait.
        try:
            client.connect(f"\0{LOCK}")
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
