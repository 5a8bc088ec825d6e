"""A program that innolab runs in the background of a host: start, ready, stop, last words."""

import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from innolab.base.errors import InnolabError
from innolab.hosts import machine
from innolab.hosts.base import Command, Host

_LOOK_S = 0.02
_MOST_QUOTED = 1200


class Daemon:
    """A program in the background of a host; a context manager that kills it on leaving.

    The kernel ends it with innolab, also after `kill -9`.

    Parameters
    ----------
    name : how messages call it, such as "HAProxy"
    log : file on the host for its output
    own_log : file on the host that it writes itself, which messages quote too
    unprivileged : whether the servers' user runs it
    cgroup : the control group that it starts in
    error : what is raised if it fails
    """

    def __init__(
        self,
        name: str,
        host: Host,
        command: Command,
        log: Path,
        *,
        own_log: Path | None = None,
        env: Mapping[str, str] | None = None,
        unprivileged: bool = False,
        cgroup: Path | None = None,
        error: type[InnolabError] = InnolabError,
    ) -> None:
        self.name, self._host, self._error = name, host, error
        self._logs = [log, own_log] if own_log else [log]
        tied = host.unprivileged() if unprivileged else machine.TIED
        command = [*machine.within(cgroup), *tied, *command]
        self._process = host.start(command, env=env or {}, log=log)

    def __enter__(self) -> "Daemon":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        """Return its process id on its host."""
        return self._process.pid

    def poll(self) -> int | None:
        """Return its exit status, or None while it runs."""
        return self._process.poll()

    def await_ready(self, is_ready: Callable[[], bool], limit_s: float) -> None:
        """Wait until it is ready; if it ends first or takes longer, kill it and raise its error."""
        deadline = time.monotonic() + limit_s
        try:
            while True:
                if self.poll() is not None:
                    raise self.failure("did not start")
                if is_ready():
                    return
                if time.monotonic() > deadline:
                    raise self.failure(f"was not ready within {limit_s:g} s")
                time.sleep(_LOOK_S)
        except BaseException:
            self.kill()
            raise

    def terminate(self) -> None:
        """Ask it to end, without waiting."""
        self._process.terminate()

    def stop(self, limit_s: float = 10.0) -> int | None:
        """Ask it to end and return its exit status; None if it had to be killed after `limit_s`."""
        self.terminate()
        try:
            return self._process.wait(timeout=limit_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return None

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait()

    def has_died(self, within_s: float = 1.0) -> bool:
        """Return whether it has ended; its connections break a little before that is known."""
        try:
            self._process.wait(timeout=within_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def failure(self, what: str) -> InnolabError:
        """Return the error that says what it did, and its last words."""
        return self._error(f"{self.name} {what}. It said: {self.last_words()}")

    def last_words(self) -> str:
        """Return what its logs complain of."""
        texts = self._host.peek(*self._logs)
        return complaints("\n".join(text or "" for text in texts)) or "nothing"


def complaints(log: str) -> str:
    """Return what a log complains of: the first line, which names the cause, and the last two.

    If it complains of nothing, its last lines.

    >>> complaints("[ERROR] unknown variable\\n[ERROR] unusable\\n[ERROR] Aborting\\nbye")
    '[ERROR] unknown variable | [ERROR] unusable | [ERROR] Aborting'
    """
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    # A warning may speak of errors too.
    wrong = [line for line in lines if "[ERROR]" in line or "signal" in line] or [
        line for line in lines if "ERROR" in line.upper()
    ]
    quoted = wrong[:1] + wrong[1:][-2:] if wrong else lines[-3:]
    return " | ".join(line[: _MOST_QUOTED // len(quoted)] for line in quoted)
