"""A host reached over ssh: one connection carries commands, files and the server's socket.

The servers there die with the connection, so that a lost one leaves nothing that keeps working.
"""

import atexit
import contextlib
import re
import shlex
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO, NamedTuple, NoReturn

from innolab.base.errors import InnolabError, InputError
from innolab.hosts import machine
from innolab.hosts.base import (
    TICKS_PER_S,
    Command,
    Done,
    Host,
    HostLostError,
    Input,
    Process,
    completed,
    stat_fields,
)  # fmt: skip
from innolab.hosts.connection import Address, Connection, shell_line

FOLDER = Path("/var/cache/innolab")
_END = "innolab-end-of-answer"
_TIMES = re.compile(r"(\d+)m([\d.]+)s (\d+)m([\d.]+)s\s*\Z")


class Way(NamedTuple):
    """The addresses of both ends of a connection, as the host sees them."""

    here: str
    there: str


class Remote(Host):
    """A host over ssh, as root.

    Attributes
    ----------
    emulator : the process here that emulates the host's processors, if one does
    connection : what carries all that is run there
    boot_id : what identifies this life of the host

    Raises
    ------
    InputError
        If it cannot be reached; quotes ssh.
    """

    folder = FOLDER
    server_user = machine.SERVER_USER

    def __init__(self, address: Address, emulator: int | None = None) -> None:
        self.name = address.name
        self.emulator = emulator
        self._lock = threading.Lock()
        self._shell: subprocess.Popen[str] | None = None
        self.connection = Connection(address)
        atexit.register(self.close)
        if self.must(["id", "-u"], what="Asking who we are").strip() != "0":
            self.close()
            raise InputError(
                f"innolab comes to {self.name} as {address.user}, and has to come as root: it "
                "starts servers as another user and drops caches. Set ansible_user: root in the "
                "inventory. Nothing was changed."
            )
        self.boot_id = self._boot_id()
        self._session = self._sshd()

    def close(self) -> None:
        """End the connection, and with it all that was started over it."""
        if self._shell is not None:
            self._shell.kill()
            self._shell.wait()
        self.connection.close()

    def _lost(self) -> NoReturn:
        raise HostLostError(
            f"The connection to {self.name} was lost. Restore the host, then run the same "
            "again: all finished runs are kept."
        )

    def require_here(self) -> None:
        """Raise HostLostError if the connection is gone or the host was restarted."""
        if self._boot_id() != self.boot_id:
            self._lost()

    def _boot_id(self) -> str:
        done = self.run(["cat", "/proc/sys/kernel/random/boot_id"])
        if done.status:
            self._lost()
        return done.stdout.strip()

    def _sshd(self) -> int:
        """Return the process of our connection, the parent of the shells of all commands."""
        done = completed(self.connection.command("echo $PPID"), None, None)
        if not done.stdout.strip().isdigit():
            self._lost()
        return int(done.stdout)

    def way(self) -> Way:
        """Return the addresses between which ssh goes."""
        ends = self.must(["sh", "-c", "echo $SSH_CONNECTION"], what="Asking for addresses").split()
        return Way(here=ends[0], there=ends[2])

    def run(
        self,
        command: Command,
        *,
        env: Mapping[str, str] | None = None,
        limit_s: float | None = None,
        stdin: Input = None,
    ) -> Done:
        """Run a command by the login user's shell."""
        # The last thing on stderr is what the shell's children cost.
        script = f"cd / && {shell_line(command, env)}; status=$?; times >&2; exit $status"
        done = completed(self.connection.command(script), stdin, limit_s)
        cost = _TIMES.search(done.stderr)
        if cost is None:
            self._lost()
        minutes, seconds = float(cost[1]) + float(cost[3]), float(cost[2]) + float(cost[4])
        return Done(
            done.returncode,
            done.stdout,
            done.stderr[: cost.start()].rpartition("\n")[0].rpartition("\n")[0],
            minutes * 60 + seconds,
        )

    def start(self, command: Command, *, env: Mapping[str, str], log: Path) -> Process:
        """Start a program; its process id comes first, then the shell becomes the program."""
        line = shell_line(command, env)
        script = f"cd / && echo $$ && exec {line} >>{shlex.quote(str(log))} 2>&1 </dev/null"
        client = subprocess.Popen(
            self.connection.command(script),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert client.stdout is not None
        line = client.stdout.readline().strip()
        if not line.isdigit():
            client.kill()
            client.wait()
            self._lost()
        return _Started(self, client, int(line))

    def peek(self, *paths: str | Path) -> list[str | None]:
        """Return the texts of small files, by a shell that stays: a sample each second is cheap."""
        asked = [
            f"if [ -r {q} ] && [ -f {q} ]; then cat {q} && echo && echo {_END} yes; else echo "
            f"{_END} no; fi 2>/dev/null"
            for q in (shlex.quote(str(path)) for path in paths)
        ]
        with self._lock:
            shell = self._open_shell()
            assert shell.stdin is not None
            try:
                shell.stdin.write("\n".join(asked) + "\n")
                shell.stdin.flush()
            except OSError:
                self._lost()
            return [self._answer(shell) for _ in paths]

    def _open_shell(self) -> "subprocess.Popen[str]":
        if self._shell is None or self._shell.poll() is not None:
            self._shell = subprocess.Popen(
                self.connection.command("exec sh"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                errors="replace",
            )
            assert self._shell.stdin is not None
            assert self._shell.stdout is not None
            self._shell.stdin.write("echo $$\n")
            self._shell.stdin.flush()
            self._shell_pid = int(self._shell.stdout.readline() or 0)
        return self._shell

    def _answer(self, shell: "subprocess.Popen[str]") -> str | None:
        assert shell.stdout is not None
        lines: list[str] = []
        for line in shell.stdout:
            if line.startswith(_END):
                return "".join(lines)[:-1] if line.split()[1] == "yes" else None
            lines.append(line)
        self._lost()

    def end_servers(self, folder: Path) -> None:
        """End servers that a lost connection left."""
        # In brackets, so that the pattern does not find the shell that looks for it.
        self.run(["pkill", "-KILL", "-f", "--", f"--defaults-fil[e]={folder}/"])

    def evict(self, folder: Path) -> None:
        """Drop all caches, which only root may; the folder's dirty pages are written first."""
        script = f"sync -f {shlex.quote(str(folder))} && echo 3 > /proc/sys/vm/drop_caches"
        self.must(["sh", "-c", script], what="Dropping the page cache")

    def hold(self, folder: Path) -> Path:
        """Copy a dataset to the host once; it is there whole or not at all."""
        held = self.folder / "datasets" / folder.name
        if self.run(["test", "-d", held]).status:
            self._push(folder, held)
        return held

    def _push(self, folder: Path, held: Path) -> None:
        what = f"Copying {folder.name}"
        with subprocess.Popen(
            ["tar", "-C", str(folder), "--sparse", "-cf", "-", "."], stdout=subprocess.PIPE
        ) as packed:
            assert packed.stdout is not None
            self.unpack(packed.stdout, held, what)
        if packed.returncode:
            self.remove(held)
            raise InnolabError(f"{what} failed: it could not be read here.")
        self.must(["chown", "-R", f"{self.server_user}:", held], what=what)

    def unpack(self, archive: IO[bytes], place: Path, what: str) -> None:
        """Unpack a tar into a folder of the host, which is there whole or not at all.

        Raises
        ------
        InnolabError
            If the host does not take it; `what` names what that was to do.
        """
        half = place.with_name(place.name + ".innolab-half")
        self.remove(half)
        steps: tuple[Command, ...] = (
            ["mkdir", "-p", half],
            ["tar", "-C", half, "--no-same-owner", "-xf", "-"],
            # Else a power cut could leave empty files under the name of a whole folder.
            ["sync", "-f", half],
            ["mv", half, place],
        )
        script = " && ".join(shell_line(step) for step in steps)
        self.must(["sh", "-c", script], what=what, stdin=archive)

    def reach(self, socket: Path) -> Path:
        """Forward a socket, which stays open until many others have been asked for."""
        here = self.connection.forward(socket)
        if here is None:
            self._lost()
        return here

    def tool(self, name: str) -> str:
        """Return the command of a program that the playbook installed there."""
        done = self.run(["sh", "-c", f"command -v {shlex.quote(name)}"])
        if done.status:
            raise InputError(
                f"{self.name} has no {name}. Install it with the playbook site.yml. Nothing was "
                "measured."
            )
        return done.stdout.strip()

    def module(self, name: str) -> list[str]:
        """Refuse: it has nothing of innolab's (`innolab.hosts.installed.Equipped` has)."""
        raise InputError(f"{self.name} has no innolab, so it cannot run {name}.")

    def own_cpu_s(self) -> float:
        """Return the CPU seconds of our sshd there and of all that it ran and waited for."""
        with self._lock:
            self._open_shell()
        ours = self.read(f"/proc/{self._session}/stat", f"/proc/{self._shell_pid}/stat")
        return sum(int(ticks) for stat in ours for ticks in stat_fields(stat)[11:15]) / TICKS_PER_S


class _Started:
    """A program on the host, seen through the ssh that started it."""

    def __init__(self, host: Remote, client: "subprocess.Popen[str]", pid: int) -> None:
        self._host = host
        self._client = client
        self.pid = pid

    def poll(self) -> int | None:
        return self._client.poll()

    def wait(self, timeout: float | None = None) -> int:
        return self._client.wait(timeout)

    def terminate(self) -> None:
        self._signal("TERM")

    def kill(self) -> None:
        # If the host is lost, the program died with the connection.
        with contextlib.suppress(HostLostError):
            self._signal("KILL")
        self._client.kill()

    def _signal(self, name: str) -> None:
        self._host.run(["kill", "-s", name, str(self.pid)])
