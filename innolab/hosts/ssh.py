"""A host reached over ssh: one connection carries commands, files and the server's socket.

The servers there die with the connection, so that a lost one leaves nothing that keeps working.
"""

import atexit
import contextlib
import re
import shlex
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from innolab.base.errors import InnolabError, InputError
from innolab.hosts.base import TICKS_PER_S, Done, Host, HostLostError, Process, TimedOutError, Words

FOLDER = Path("/var/cache/innolab")
SERVER_USER = "innolab"
CONNECT_S = 20
_LOOK_S = 0.02
# ssh's own status where it, and not the command, failed.
_SSH_FAILED = 255
_END = "innolab-end-of-answer"
_TIMES = re.compile(r"(\d+)m([\d.]+)s (\d+)m([\d.]+)s\s*\Z")


@dataclass(frozen=True)
class Address:
    """How ssh finds a host; `options` are further words for ssh, as the inventory has them."""

    name: str
    host: str
    port: int
    user: str
    key: str | None
    options: tuple[str, ...]


class Remote(Host):
    """A host over ssh, as root.

    Attributes
    ----------
    emulator : the process here that emulates the host's processors, where one does
    boot_id : what tells this life of the host from the next

    Raises
    ------
    InputError
        Where it cannot be reached; quotes ssh.
    """

    folder = FOLDER

    def __init__(self, address: Address, emulator: int | None = None) -> None:
        self.name = address.name
        self.emulator = emulator
        self._address = address
        self._place = Path(tempfile.mkdtemp(prefix="innolab-ssh-"))
        self._forwarded: tuple[Path, Path] | None = None
        self._lock = threading.Lock()
        self._shell: subprocess.Popen[str] | None = None
        atexit.register(self.close)
        self._connect()
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
        self._master.terminate()
        self._master.wait()
        shutil.rmtree(self._place, ignore_errors=True)

    def _connect(self) -> None:
        # It ends with us, also where we are killed, and with it all that it carries.
        words = ["setpriv", "--pdeathsig", "KILL", *self._ssh(), "-o", "ControlMaster=yes"]
        words += ["-o", f"ConnectTimeout={CONNECT_S}", "-N", self.name]
        said = self._place / "said"
        with said.open("wb") as file:
            self._master = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=file, stderr=file
            )
        # The socket is there once the host has let us in.
        while not (self._place / "control").exists():
            if self._master.poll() is not None:
                why = said.read_text(errors="replace").strip()
                shutil.rmtree(self._place, ignore_errors=True)
                raise InputError(
                    f"{self.name} ({self._address.user}@{self._address.host}, port "
                    f"{self._address.port}) cannot be reached: {why or 'no reason'}. Check that "
                    "it runs, its address and its key in the inventory. Nothing was changed."
                )
            time.sleep(_LOOK_S)

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

    def _command(self, script: str) -> list[str]:
        # Never a connection of its own: without the first one, all has to stop.
        return [*self._ssh(), "-o", "ControlMaster=no", "-o", "ProxyCommand=false", self.name,
                script]  # fmt: skip

    def _lost(self) -> NoReturn:
        raise HostLostError(
            f"The connection to {self.name} was lost. Restore the host, then run the same "
            "again: all finished runs are kept."
        )

    def require_here(self) -> None:
        """Raise HostLostError where the connection is gone or the host was restarted."""
        if self._boot_id() != self.boot_id:
            self._lost()

    def _boot_id(self) -> str:
        done = self.run(["cat", "/proc/sys/kernel/random/boot_id"])
        if done.status:
            self._lost()
        return done.stdout.strip()

    def _sshd(self) -> int:
        """Return the process of our connection, the parent of the shells of all commands."""
        done = subprocess.run(self._command("echo $PPID"), capture_output=True, text=True)
        if not done.stdout.strip().isdigit():
            self._lost()
        return int(done.stdout)

    def unprivileged(self) -> list[str]:
        """Return the words of the servers' user; the kernel ends the server with its sshd."""
        user = SERVER_USER
        return ["setpriv", "--pdeathsig", "KILL", f"--reuid={user}", f"--regid={user}",
                "--clear-groups"]  # fmt: skip

    def run(
        self, words: Words, *, env: Mapping[str, str] | None = None, limit_s: float | None = None
    ) -> Done:
        """Run a command by the login user's shell."""
        # The last thing on stderr is what the shell's children cost.
        script = f"cd / && {_line(words, env or {})}; status=$?; times >&2; exit $status"
        try:
            done = subprocess.run(
                self._command(script),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=limit_s,
            )
        except subprocess.TimeoutExpired:
            raise TimedOutError(f"{words[0]} did not end within {limit_s:.0f} s") from None
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

    def start(self, words: Words, *, env: Mapping[str, str], log: Path) -> Process:
        """Start a program; its process id comes first, then the shell becomes the program."""
        line = _line(words, env)
        script = f"cd / && echo $$ && exec {line} >>{shlex.quote(str(log))} 2>&1 </dev/null"
        client = subprocess.Popen(
            self._command(script),
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

    @contextlib.contextmanager
    def feeding(self, words: Words) -> Iterator["subprocess.Popen[bytes]"]:
        """Run a command that reads what the block writes to its standard input."""
        with subprocess.Popen(
            self._command(_line(words)), stdin=subprocess.PIPE, stderr=subprocess.PIPE
        ) as client:
            yield client

    def start_linked(
        self,
        words: Words,
        *,
        env: Mapping[str, str],
        inward: Mapping[int, int],
        outward: Mapping[int, int],
        log: Path,
    ) -> "subprocess.Popen[bytes]":
        """Start a program by a connection of its own, which carries ports and ends with us.

        Parameters
        ----------
        inward : by port of the host's loopback, the port of ours that it leads to
        outward : by port of our loopback, the port of the host's that it leads to
        log : file here for what the program and ssh say
        """
        carried = [
            *(f"-R127.0.0.1:{there}:127.0.0.1:{here}" for there, here in inward.items()),
            *(f"-L127.0.0.1:{here}:127.0.0.1:{there}" for here, there in outward.items()),
        ]
        command = ["setpriv", "--pdeathsig", "KILL", *self._ssh(control="none")]
        command += ["-o", "ExitOnForwardFailure=yes", *carried, self.name]
        with log.open("ab") as file:
            return subprocess.Popen(
                [*command, f"cd / && exec {_line(words, env)}"],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )

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
                self._command("exec sh"),
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

    def write(self, path: Path, text: str) -> None:
        """Write a small file."""
        done = subprocess.run(
            self._command(f"cat > {shlex.quote(str(path))}"),
            input=text, capture_output=True, text=True,
        )  # fmt: skip
        self._require(done, f"Writing {path}")

    def _require(self, done: "subprocess.CompletedProcess[str]", what: str) -> None:
        if done.returncode == _SSH_FAILED:
            self._lost()
        if done.returncode:
            raise InnolabError(f"{what} failed on {self.name}: {done.stderr.strip()[-300:]}")

    def fresh_folder(self, path: Path) -> None:
        """Make a new, empty folder."""
        self.remove(path)
        owner = [f"--owner={SERVER_USER}", f"--group={SERVER_USER}", "--mode=0700"]
        self.must(["install", "-d", *owner, path], what=f"Making {path}")

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
        there = self.run(["test", "-d", held])
        if there.status:
            self._push(folder, held)
        return held

    def _push(self, folder: Path, held: Path) -> None:
        half = held.with_name(held.name + ".innolab-half")
        self.remove(half)
        steps: tuple[Words, ...] = (
            ["mkdir", "-p", half],
            ["tar", "-C", half, "-xf", "-"],
            # Else a power cut could leave empty files under the name of a whole dataset.
            ["sync", "-f", half],
            ["mv", half, held],
        )
        unpack = " && ".join(_line(step) for step in steps)
        with subprocess.Popen(
            ["tar", "-C", str(folder), "--sparse", "-cf", "-", "."], stdout=subprocess.PIPE
        ) as packed:
            done = subprocess.run(
                self._command(unpack), stdin=packed.stdout, capture_output=True, text=True
            )
        self._require(done, f"Copying {folder.name}")
        if packed.returncode:
            self.remove(held)
            raise InnolabError(f"Copying {folder.name} failed: it could not be read here.")
        self.must(["chown", "-R", f"{SERVER_USER}:", held], what=f"Copying {folder.name}")

    def reach(self, socket: Path) -> Path:
        """Forward a socket; only the last one asked for stays open."""
        here = self._place / "server"
        if self._forwarded is not None:
            self._forward("cancel", *self._forwarded)
        self._forwarded = (here, socket)
        self._forward("forward", here, socket)
        return here

    def _forward(self, verb: str, here: Path, there: Path) -> None:
        done = subprocess.run(
            [*self._ssh(), "-O", verb, "-L", f"{here}:{there}", self.name],
            capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode and verb == "forward":
            self._lost()

    def tool(self, name: str) -> str:
        """Return the command of a program that the playbook installed there."""
        done = self.run(["sh", "-c", f"command -v {shlex.quote(name)}"])
        if done.status:
            raise InputError(
                f"{self.name} has no {name}. Install it with the playbook site.yml. Nothing was "
                "measured."
            )
        return done.stdout.strip()

    def own_cpu_s(self) -> float:
        """Return the CPU seconds of our sshd there and of all that it ran and waited for."""
        with self._lock:
            self._open_shell()
        ours = self.read(f"/proc/{self._session}/stat", f"/proc/{self._shell_pid}/stat")
        fields = [stat.rsplit(")", 1)[1].split() for stat in ours]
        return sum(int(ticks) for of in fields for ticks in of[11:15]) / TICKS_PER_S


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
        # Where the host is lost, the program died with the connection.
        with contextlib.suppress(HostLostError):
            self._signal("KILL")
        self._client.kill()

    def _signal(self, name: str) -> None:
        self._host.run(["kill", "-s", name, str(self.pid)])


def _line(words: Sequence[str | Path], env: Mapping[str, str] | None = None) -> str:
    """Return words as a line for a shell, with variables of its environment before them."""
    said = shlex.join(str(word) for word in words)
    variables = shlex.join(f"{name}={value}" for name, value in (env or {}).items())
    return f"env {variables} {said}" if variables else said
