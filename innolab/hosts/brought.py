"""innolab on a host that has nothing of it: brought over ssh, and a worker of it run there."""

import json
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path

from innolab.base.errors import InnolabError, InputError
from innolab.base.units import bytes_text
from innolab.hosts import machine
from innolab.hosts.base import Words
from innolab.hosts.bundle import FOLDER, PARTS, Bundle
from innolab.hosts.ssh import Remote

_RUN = FOLDER / "run"
# Itself is half of that.
_ROOM_BYTES = 3 * 2**30
_PORTS = """
import json, socket
found = [socket.socket() for _ in range(2)]
for one in found:
    one.bind(("127.0.0.1", 0))
print(json.dumps([one.getsockname()[1] for one in found]))
"""
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def require_able(host: Remote) -> None:
    """Raise InputError where a host cannot run what is brought, or measures for somebody else."""
    kind = host.must(["uname", "-sm"], what="Asking what it is").strip()
    if kind != "Linux x86_64":
        raise InputError(
            f"{host.name} is {kind}, and servers here are for Linux x86_64. Nothing was changed."
        )
    sockets = host.read("/proc/net/unix")[0]
    if f"@{machine.LOCK}" in sockets:
        raise InputError(
            f"Another innolab measures on {host.name} already. Two runs at once would measure each "
            "other. Wait for it to end, then start this one again."
        )


def bring(host: Remote, bundle: Bundle) -> None:
    """Have a bundle on a host, whole or not at all, in place of an older one.

    Raises
    ------
    InputError
        Where the host has no room for it.
    InnolabError
        Where it cannot be packed here, or the host does not take it.
    """
    if host.run(["test", "-d", bundle.root]).status:
        _require_room(host)
        half = bundle.root.with_name(f"{bundle.root.name}.half")
        host.must(["rm", "-rf", half], what="Removing half of an innolab")
        _send(host, bundle, half)
        host.must(["sync", "-f", half], what="Bringing innolab")
        host.must(["mv", half, bundle.root], what="Bringing innolab")
    links = [f"ln -sfn {bundle.root}/{part} {FOLDER}/{part}" for part in PARTS]
    others = f"find {FOLDER} -mindepth 1 -maxdepth 1 -name 'innolab-*'"
    others += f" ! -name {bundle.root.name} -exec rm -rf {{}} +"
    user = machine.SERVER_USER
    make = f"useradd --system --no-create-home --shell /usr/sbin/nologin {user}"
    script = " && ".join([*links, others, f"{{ id {user} >/dev/null 2>&1 || {make}; }}"])
    host.must(["sh", "-c", script], what="Bringing innolab")


def _require_room(host: Remote) -> None:
    host.must(["mkdir", "-p", FOLDER], what="Making a folder")
    said = host.must(["df", "--output=avail", "-B1", FOLDER], what="Asking for its room")
    free = int(said.split()[-1])
    if free < _ROOM_BYTES:
        raise InputError(
            f"{host.name} has {bytes_text(free)} free in {FOLDER}, and innolab with its servers "
            f"and their data needs {bytes_text(_ROOM_BYTES)}. Make room there. Nothing was written."
        )


def _send(host: Remote, bundle: Bundle, place: Path) -> None:
    """Unpack a bundle on a host while it is packed here."""
    unpack = f"mkdir -p {place} && tar --no-same-owner -x -C {place} -f -"
    with host.feeding(["sh", "-c", unpack]) as tar:
        assert tar.stdin is not None
        try:
            bundle.pack(tar.stdin)
            tar.stdin.close()
        except BrokenPipeError:
            pass  # It has ended, and says why below.
        assert tar.stderr is not None
        said = tar.stderr.read().decode(errors="replace").strip()[-300:]
    if tar.returncode:
        raise InnolabError(f"Bringing innolab to {host.name} failed. It said: {said or 'nothing'}")


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
        self._log = log
        host.must(["install", "-d", "-m", "0700", _RUN], what="Making a folder")
        for name, text in credentials.items():
            host.write(_RUN / f"{name}.pem", text)
        there = host.must([bundle.python, "-c", _PORTS], what="Starting Python")
        inward, port = json.loads(there)
        contact = f"tls://127.0.0.1:{own_port}"
        words: Words = [
            "setpriv", "--pdeathsig", "KILL", bundle.python, "-m", "distributed.cli.dask_worker",
            f"tls://127.0.0.1:{inward}", "--name", host.name, "--nthreads", "1", "--no-nanny",
            "--no-dashboard", "--memory-limit", "0", "--resources", "host=1",
            "--listen-address", f"tls://127.0.0.1:{port}", "--contact-address", contact,
            "--tls-ca-file", _RUN / "ca.pem", "--tls-cert", _RUN / "cert.pem",
            "--tls-key", _RUN / "key.pem", "--local-directory", _RUN, "--death-timeout", "60",
        ]  # fmt: skip
        self._client = host.start_linked(
            words,
            env={"INNOLAB_CACHE": str(FOLDER), "PATH": _PATH, "LC_ALL": "C.UTF-8"},
            inward={inward: scheduler_port},
            outward={own_port: port},
            log=log,
        )

    def ended(self) -> str | None:
        """Return its last words where it has ended, else None."""
        if self._client.poll() is None:
            return None
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return " | ".join(lines[-3:])[-400:] or "nothing"

    def end(self) -> None:
        """End it, with all that it runs."""
        self._client.terminate()
        try:
            self._client.wait(10)
        except subprocess.TimeoutExpired:
            self._client.kill()
            self._client.wait()


def in_parallel(hosts: list[Remote], bundle: Bundle) -> None:
    """Bring a bundle to several hosts at once.

    Raises
    ------
    InnolabError
        The first host's error, by its order.
    """
    errors: dict[str, InnolabError] = {}

    def one(host: Remote) -> None:
        try:
            bring(host, bundle)
        except InnolabError as error:
            errors[host.name] = error

    threads = [threading.Thread(target=one, args=(host,)) for host in hosts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for host in hosts:
        if host.name in errors:
            raise errors[host.name]
