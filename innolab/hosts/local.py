"""This machine as a host."""

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from innolab.base import children
from innolab.hosts import machine, pagecache, tools
from innolab.hosts.base import Done, Host, Process, TimedOutError, Words


class Here(Host):
    """This machine: commands are children of this process."""

    name = "this machine"

    @property
    def folder(self) -> Path:  # type: ignore[override]
        """Return the cache folder, which the environment may move."""
        return machine.cache_folder()

    def unprivileged(self) -> list[str]:
        """Return the words that drop root's rights, where we have them, and tie to our life."""
        return machine.unprivileged()

    def run(
        self, words: Words, *, env: Mapping[str, str] | None = None, limit_s: float | None = None
    ) -> Done:
        """Run a command; without `env` it has ours."""
        before = _children_cpu_s()
        try:
            done = subprocess.run(
                list(map(str, words)),
                env={**os.environ, **(env or {})},
                capture_output=True,
                text=True,
                errors="replace",
                timeout=limit_s,
                cwd="/",
            )
        except subprocess.TimeoutExpired:
            raise TimedOutError(f"{words[0]} did not end within {limit_s:.0f} s") from None
        return Done(done.returncode, done.stdout, done.stderr, _children_cpu_s() - before)

    def start(self, words: Words, *, env: Mapping[str, str], log: Path) -> Process:
        """Start a child."""
        with log.open("ab") as file:
            return subprocess.Popen(
                list(map(str, words)),
                env={**os.environ, **env},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                cwd="/",
            )

    def peek(self, *paths: str | Path) -> list[str | None]:
        """Return the texts of small files."""
        return [_text(path) for path in paths]

    def write(self, path: Path, text: str) -> None:
        """Write a small file."""
        path.write_text(text)

    def fresh_folder(self, path: Path) -> None:
        """Make a new, empty folder."""
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True, mode=0o700)
        machine.give_to_server(path)

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
        return tools.path(name)

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
