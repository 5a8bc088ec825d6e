"""This machine as a host."""

import contextlib
import os
import resource
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from innolab.base import children
from innolab.hosts import machine, pagecache
from innolab.hosts.base import Command, Done, Host, Input, Process, completed


class Here(Host):
    """This machine: commands are children of this process."""

    name = "this machine"

    @property
    def folder(self) -> Path:  # type: ignore[override]
        """Return the cache folder, which the environment may move."""
        return machine.cache_folder()

    @property
    def server_user(self) -> str | None:
        """Return the user that the set-up made, if root runs innolab."""
        return machine.server_user()

    def run(
        self,
        command: Command,
        *,
        env: Mapping[str, str] | None = None,
        limit_s: float | None = None,
        stdin: Input = None,
    ) -> Done:
        """Run a child."""
        before = _children_cpu_s()
        done = completed(command, stdin, limit_s, env={**os.environ, **(env or {})}, cwd="/")
        return Done(done.returncode, done.stdout, done.stderr, _children_cpu_s() - before)

    def start(self, command: Command, *, env: Mapping[str, str], log: Path) -> Process:
        """Start a child."""
        with log.open("ab") as file:
            return subprocess.Popen(
                list(map(str, command)),
                env={**os.environ, **env},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                cwd="/",
            )

    def peek(self, *paths: str | Path) -> list[str | None]:
        """Return the texts of small files."""
        return [_text(path) for path in paths]

    def end_servers(self, folder: Path) -> None:
        """End servers that a killed session left."""
        ours = f"--defaults-file={folder}/".encode()
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if any(word.startswith(ours) for word in entry.read_bytes().split(b"\0")):
                    os.kill(int(entry.parent.name), signal.SIGKILL)

    def evict(self, folder: Path) -> None:
        """Evict file by file, which needs no root."""
        pagecache.evict(pagecache.files_under(folder))

    def hold(self, folder: Path) -> Path:
        """Return the folder itself."""
        return folder

    def reach(self, socket: Path) -> Path:
        """Return the socket itself."""
        return socket

    def tool(self, name: str) -> str:
        """Return the command that the set-up left in the cache."""
        return machine.tool(name)

    def module(self, name: str) -> list[str]:
        """Return the words of the interpreter that we run on."""
        return children.python(name)

    def own_cpu_s(self) -> float:
        """Return our own CPU seconds and those of all children that have ended."""
        return time.process_time() + _children_cpu_s()


def _text(path: str | Path) -> str | None:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return None


def _children_cpu_s() -> float:
    """Return the CPU seconds of all children that have ended; a running mysqld is not counted."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


HERE = Here()
