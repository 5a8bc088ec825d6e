"""A connection by ssh: it carries commands, forwarded sockets and ports, and ends with us."""

import itertools
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from innolab.base.errors import InputError
from innolab.hosts.base import Command
from innolab.hosts.daemon import Daemon
from innolab.hosts.local import HERE

CONNECT_S = 20
_LOOK_S = 0.02
# More servers than a topology has on one host.
_MOST_FORWARDED = 16


@dataclass(frozen=True)
class Address:
    """How ssh finds a host; `options` are further words for ssh, as the inventory has them."""

    name: str
    host: str
    port: int
    user: str
    key: str | None
    options: tuple[str, ...]


class Connection:
    """One connection to a host, that all commands share.

    It is a process of ours that the kernel ends with us, also if we are killed, and the host
    ends with it all that was started over it.

    Raises
    ------
    InputError
        If the host cannot be reached; quotes ssh.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._place = Path(tempfile.mkdtemp(prefix="innolab-ssh-"))
        self._forwarded: dict[Path, Path] = {}
        self._numbers = itertools.count()
        words = [*self._ssh(), "-o", "ControlMaster=yes", "-o", f"ConnectTimeout={CONNECT_S}"]
        self._master = Daemon("ssh", HERE, [*words, "-N", address.name], self._place / "log")
        # The socket is there once the host has let us in.
        while not (self._place / "control").exists():
            if self._master.poll() is not None:
                reason = self._master.last_words()
                self.close()
                raise InputError(
                    f"{address.name} ({address.user}@{address.host}, port {address.port}) cannot "
                    f"be reached: {reason}. Check that it runs, its address and its key in the "
                    "inventory. Nothing was changed."
                )
            time.sleep(_LOOK_S)

    def close(self) -> None:
        """End it, and with it all that was started over it."""
        self._master.stop()
        shutil.rmtree(self._place, ignore_errors=True)

    def _ssh(self, control: str | None = None) -> list[str]:
        """Return the words of ssh, by the common connection unless another is named."""
        a = self._address
        settings = {
            "HostName": a.host,
            "Port": a.port,
            "User": a.user,
            "BatchMode": "yes",
            "ControlPath": control or self._place / "control",
            "ControlPersist": "no",
            # A host that is switched off closes nothing: these find it out within 15 s.
            "ServerAliveInterval": 5,
            "ServerAliveCountMax": 3,
            "StreamLocalBindUnlink": "yes",
            "LogLevel": "ERROR",
        }
        if a.key:
            settings |= {"IdentityFile": a.key, "IdentitiesOnly": "yes"}
        words = [word for k, v in settings.items() for word in ("-o", f"{k}={v}")]
        return ["ssh", *words, *a.options]

    def command(self, script: str) -> list[str]:
        """Return the words that run a script of the host's shell over this connection."""
        # Never a separate connection: without the first one, all has to stop.
        return [*self._ssh(), "-o", "ControlMaster=no", "-o", "ProxyCommand=false",
                self._address.name, script]  # fmt: skip

    def forward(self, there: Path) -> Path | None:
        """Return a socket here that leads to one of the host's, None if the host is lost.

        It stays open until _MOST_FORWARDED others have been asked for: servers that end say
        nothing of it.
        """
        if there not in self._forwarded:
            if len(self._forwarded) == _MOST_FORWARDED:
                oldest = next(iter(self._forwarded))
                self._forward("cancel", self._forwarded.pop(oldest), oldest)
            here = self._place / f"server{next(self._numbers)}"
            if not self._forward("forward", here, there):
                return None
            self._forwarded[there] = here
        return self._forwarded[there]

    def _forward(self, verb: str, here: Path, there: Path) -> bool:
        words = [*self._ssh(), "-O", verb, "-L", f"{here}:{there}", self._address.name]
        return subprocess.run(words, capture_output=True).returncode == 0

    def linked(
        self,
        command: Command,
        *,
        env: Mapping[str, str],
        inward: Mapping[int, int],
        outward: Mapping[int, int],
    ) -> list[str]:
        """Return the words that run a program by a separate connection, which carries ports.

        Parameters
        ----------
        inward : by port of the host's loopback, the port of ours that it leads to
        outward : by port of our loopback, the port of the host's that it leads to
        """
        carried = [
            *(f"-R127.0.0.1:{there}:127.0.0.1:{here}" for there, here in inward.items()),
            *(f"-L127.0.0.1:{here}:127.0.0.1:{there}" for here, there in outward.items()),
        ]
        ssh = [*self._ssh(control="none"), "-o", "ExitOnForwardFailure=yes", *carried]
        return [*ssh, self._address.name, f"cd / && exec {shell_line(command, env)}"]


def shell_line(command: Command, env: Mapping[str, str] | None = None) -> str:
    """Return a command as a line for a shell, with variables of its environment before it."""
    variables = [f"{name}={value}" for name, value in (env or {}).items()]
    return shlex.join([*(["env", *variables] if variables else []), *map(str, command)])
