"""Hosts that servers run on, this machine or one over ssh, and the few verbs that both have.

A host needs a shell, the usual small programs and nothing of innolab's or Python's.
"""

import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

from innolab.base.errors import InnolabError
from innolab.hosts import machine

Command = Sequence[str | Path]
# Text for a command to read, or an open file with it.
Input = str | IO[bytes] | None
# USER_HZ is 100 on every Linux that MySQL runs on: see time(7).
TICKS_PER_S = 100


class HostLostError(InnolabError):
    """The host does not answer any more, or was restarted in between."""


class TimedOutError(InnolabError):
    """A command did not end in its time and was killed."""


class Done(NamedTuple):
    """A command that has ended. `cpu_s` is its own CPU time and that of all it waited for."""

    status: int
    stdout: str
    stderr: str
    cpu_s: float


class Process(Protocol):
    """A program that runs on a host, named by its process id there."""

    @property
    def pid(self) -> int:
        """Return its process id on its host."""

    def poll(self) -> int | None:
        """Return its exit status, or None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit status; subprocess.TimeoutExpired if it still runs then."""

    def terminate(self) -> None:
        """Ask it to end."""

    def kill(self) -> None:
        """End it at once."""


class Host(ABC):
    """Where servers and loads run.

    Attributes
    ----------
    name : how reports and messages call it
    folder : the folder of builds, datasets and running servers on it
    emulator : the process of this machine that emulates it, if one does
    """

    name: str
    folder: Path
    emulator: int | None = None

    @property
    @abstractmethod
    def server_user(self) -> str | None:
        """Return the unprivileged user of the servers, None if we are unprivileged ourselves."""

    @abstractmethod
    def run(
        self,
        command: Command,
        *,
        env: Mapping[str, str] | None = None,
        limit_s: float | None = None,
        stdin: Input = None,
    ) -> Done:
        """Run a command to its end; `env` is added to the host's environment.

        Raises
        ------
        TimedOutError
            If it had to be killed after `limit_s`.
        HostLostError
            If the host went away.
        """

    @abstractmethod
    def start(self, command: Command, *, env: Mapping[str, str], log: Path) -> Process:
        """Start a program, whose output goes to a file on the host; see `Daemon`."""

    @abstractmethod
    def peek(self, *paths: str | Path) -> list[str | None]:
        """Return the texts of small files, None for one that cannot be read."""

    @abstractmethod
    def end_servers(self, folder: Path) -> None:
        """End servers that run on a settings file below a folder of ours."""

    @abstractmethod
    def evict(self, folder: Path) -> None:
        """Write what is dirty below a folder, and drop it from the page cache."""

    @abstractmethod
    def hold(self, folder: Path) -> Path:
        """Return where the host has a dataset's folder of this machine, copied there first."""

    @abstractmethod
    def reach(self, socket: Path) -> Path:
        """Return the path of a unix socket here that leads to one of the host's."""

    @abstractmethod
    def tool(self, name: str) -> str:
        """Return the command of a program; InputError if the host has none."""

    @abstractmethod
    def module(self, name: str) -> list[str]:
        """Return the words that run one of innolab's own modules; InputError if it is not there.

        They begin with an interpreter's.
        """

    @abstractmethod
    def own_cpu_s(self) -> float:
        """Return the CPU seconds there of all that innolab itself ran, as far as it has ended."""

    @property
    def host(self) -> "Host":
        """Return the host itself: of a node of a network, the one that it is on."""
        return self

    def read(self, *paths: str | Path) -> list[str]:
        """Return the texts of small files; FileNotFoundError if one cannot be read."""
        texts = self.peek(*paths)
        for path, text in zip(paths, texts, strict=True):
            if text is None:
                raise FileNotFoundError(f"{path} cannot be read on {self.name}")
        return [text for text in texts if text is not None]

    def must(self, command: Command, *, what: str, stdin: Input = None) -> str:
        """Return the output of a command, which has to succeed.

        Raises
        ------
        InnolabError
            If it fails; quotes its last words, and `what` names what it was to do.
        """
        done = self.run(command, stdin=stdin)
        if done.status:
            output = (done.stderr or done.stdout).strip()[-400:] or "nothing"
            raise InnolabError(f"{what} failed on {self.name}. It said: {output}")
        return done.stdout

    def unprivileged(self) -> list[str]:
        """Return the words before a command that must not run as root nor outlive innolab."""
        user = self.server_user
        rights = [f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else []
        return [*machine.TIED, *rights]

    def processors(self, pid: int) -> str:
        """Return the processors that a process may run on, as the kernel lists them: `0-3,8`."""
        [status] = self.read(f"/proc/{pid}/status")
        return status.partition("Cpus_allowed_list:")[2].split()[0]

    def keep_on(self, pid: int, processors: str) -> None:
        """Keep a process, with the threads it has and will have, on some processors.

        Raises
        ------
        InnolabError
            If the host refuses, or does not do it.
        """
        words = ["taskset", "--all-tasks", "--cpu-list", "--pid", processors, str(pid)]
        self.must(words, what=f"Keeping a process on processors {processors}")
        if (kept := self.processors(pid)) != processors:
            raise InnolabError(
                f"A process was to run on processors {processors} of {self.name} alone, and may "
                f"run on {kept}."
            )

    def write(self, path: Path, text: str) -> None:
        """Write a small file."""
        self.must(["sh", "-c", 'cat > "$0"', path], what=f"Writing {path}", stdin=text)

    def fresh_folder(self, path: Path) -> None:
        """Make a new folder, empty and private to the servers' user."""
        self.remove(path)
        user = self.server_user
        owner = [f"--owner={user}", f"--group={user}"] if user else []
        self.must(["install", "-d", "--mode=0700", *owner, path], what=f"Making {path}")

    def remove(self, *paths: Path) -> None:
        """Remove files and folders, whether they are there or not."""
        self.must(["rm", "-rf", "--", *paths], what="Removing files")

    @cached_property
    def cores(self) -> int:
        """Return how many CPUs the host has online."""
        [stat] = self.read("/proc/stat")
        return sum(line[:3] == "cpu" and line[3] != " " for line in stat.splitlines())


def stat_fields(stat: str) -> list[str]:
    """Return the fields of /proc/PID/stat after the program's name, which may hold anything.

    >>> stat_fields("7 (a ) b) S 1")
    ['S', '1']
    """
    return stat.rpartition(")")[2].split()


def completed(
    command: Command, stdin: Input, limit_s: float | None, **options: Any
) -> "subprocess.CompletedProcess[str]":
    """Run a command of this machine to its end.

    Raises
    ------
    TimedOutError
        If it had to be killed after `limit_s`.
    """
    source: dict[str, Any] = {"input": stdin} if isinstance(stdin, str) else {"stdin": stdin}
    if stdin is None:
        source = {"stdin": subprocess.DEVNULL}
    try:
        return subprocess.run(
            list(map(str, command)),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit_s,
            **source,
            **options,
        )
    except subprocess.TimeoutExpired:
        raise TimedOutError(f"{command[0]} did not end within {limit_s:g} s") from None
