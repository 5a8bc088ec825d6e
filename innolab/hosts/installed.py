"""innolab on a host without it: copied there over ssh, and a worker of it run there."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from innolab.base.errors import InputError
from innolab.base.units import bytes_text
from innolab.hosts import machine
from innolab.hosts.base import Command
from innolab.hosts.bundle import FOLDER, PARTS, Bundle
from innolab.hosts.daemon import Daemon
from innolab.hosts.local import HERE
from innolab.hosts.ssh import Remote

_RUN = FOLDER / "run"
# Itself is half of that.
_ROOM_BYTES = 3 * 2**30
# Of the folder, or the innermost one above it that there is.
_ROOM = 'd=$0; until [ -d "$d/" ]; do d=${d%/*}; done; df --output=avail -B1 "${d:-/}"'
# Of a bundle: its interpreter.
_PROGRAMS = "bin"
_PORTS = "from innolab.base.ports import free_ports; print(*free_ports(2))"
_COPYING = "Copying innolab"
# A slow host takes this long to import what holds the right to measure.
_HELD_WITHIN_S = 60.0
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def require_able(host: Remote) -> None:
    """Raise InputError if a host cannot run innolab, or measures for somebody else."""
    kind = host.must(["uname", "-sm"], what="Asking what it is").strip()
    if kind != "Linux x86_64":
        raise InputError(
            f"{host.name} is {kind}, and servers here are for Linux x86_64. Nothing was changed."
        )
    if machine.is_measured(host.read(machine.SOCKETS)[0]):
        raise InputError(
            f"Another innolab measures on {host.name} already. Two runs at once would measure each "
            "other. Wait for it to end, then start this one again."
        )


def is_there(host: Remote, bundle: Bundle) -> bool:
    """Return whether a host has a bundle already."""
    return host.run(["test", "-d", bundle.root]).status == 0


def require_room(host: Remote) -> None:
    """Raise InputError where a host has no room for a bundle; nothing is changed there."""
    free = int(host.must(["sh", "-c", _ROOM, FOLDER], what="Asking for its room").split()[-1])
    if free < _ROOM_BYTES:
        raise InputError(
            f"{host.name} has {bytes_text(free)} free where {FOLDER} is to be, and innolab with "
            f"its servers and their data needs {bytes_text(_ROOM_BYTES)}. Make room there. Nothing "
            "was written."
        )


def bring(host: Remote, bundle: Bundle, archive: Path) -> None:
    """Have a bundle on a host, whole or not at all, in place of an older one.

    Parameters
    ----------
    archive : the bundle, packed here

    Raises
    ------
    InnolabError
        If the host does not take it.
    """
    if not is_there(host, bundle):
        with archive.open("rb") as packed:
            host.unpack(packed, bundle.root, _COPYING)
    parts = (*PARTS, _PROGRAMS)
    links = [f"ln -sfn {bundle.root}/{part} {FOLDER}/{part}" for part in parts]
    others = f"find {FOLDER} -mindepth 1 -maxdepth 1 -name 'innolab-*'"
    others += f" ! -name {bundle.root.name} -exec rm -rf {{}} +"
    user = machine.SERVER_USER
    make = f"useradd --system --no-create-home --shell /usr/sbin/nologin {user}"
    script = " && ".join([*links, others, f"{{ id {user} >/dev/null 2>&1 || {make}; }}"])
    host.must(["sh", "-c", script], what=_COPYING)


class Equipped(Remote):
    """A host over ssh that works with the innolab that was copied to it."""

    folder = FOLDER

    def tool(self, name: str) -> str:
        """Return the command of a program of the set-up here, which was copied too."""
        return str(FOLDER / "tools" / "bin" / name)

    def module(self, name: str) -> list[str]:
        """Return the command of the interpreter that was copied, for a module."""
        return [str(FOLDER / _PROGRAMS / "python"), "-m", name]


@contextlib.contextmanager
def measured_alone(host: Equipped) -> Iterator[None]:
    """Hold the right to measure on a host while the block runs, or as long as it is connected."""
    host.must(["install", "-d", "-m", "0700", _RUN], what="Making a folder")
    log = _RUN / "alone.log"
    host.remove(log)
    name = f"What holds the right to measure on {host.name}"
    with Daemon(name, host, host.module(machine.__name__), log, error=InputError) as holder:
        holder.await_ready(lambda: host.read(log)[0].startswith(machine.HELD), _HELD_WITHIN_S)
        yield


class Worker:
    """A Dask worker on a host, which ends with this process or with the connection.

    It talks through its own connection alone: the host's port of the scheduler leads here, and a
    port here leads to the worker's. Both are loopback addresses.

    Parameters
    ----------
    scheduler_port : of the scheduler on this machine's loopback
    credentials : the texts of the files that both prove themselves with: ca, cert, key
    log : file here for what it says
    """

    def __init__(
        self,
        host: Remote,
        bundle: Bundle,
        scheduler_port: int,
        own_port: int,
        credentials: Mapping[str, str],
        log: Path,
    ) -> None:
        self.name = host.name
        host.must(["install", "-d", "-m", "0700", _RUN], what="Making a folder")
        for name, text in credentials.items():
            host.write(_RUN / f"{name}.pem", text)
        ports = host.must([bundle.python, "-c", _PORTS], what="Starting Python")
        inward, port = map(int, ports.split())
        contact = f"tls://127.0.0.1:{own_port}"
        words: Command = [
            *machine.TIED, bundle.python, "-m", "distributed.cli.dask_worker",
            f"tls://127.0.0.1:{inward}", "--name", host.name, "--nthreads", "1", "--no-nanny",
            "--no-dashboard", "--memory-limit", "0", "--resources", "host=1",
            "--listen-address", f"tls://127.0.0.1:{port}", "--contact-address", contact,
            "--tls-ca-file", _RUN / "ca.pem", "--tls-cert", _RUN / "cert.pem",
            "--tls-key", _RUN / "key.pem", "--local-directory", _RUN, "--death-timeout", "60",
        ]  # fmt: skip
        ssh = host.connection.linked(
            words,
            env={"INNOLAB_CACHE": str(FOLDER), "PATH": _PATH, "LC_ALL": "C.UTF-8"},
            inward={inward: scheduler_port},
            outward={own_port: port},
        )
        self._daemon = Daemon(f"innolab on {host.name}", HERE, ssh, log)

    def ended(self) -> str | None:
        """Return its last words if it has ended, else None."""
        return None if self._daemon.poll() is None else self._daemon.last_words()

    def end(self) -> None:
        """End it, with all that it runs."""
        self._daemon.stop()
