"""What a session leaves on its hosts, and the process beside it that removes that after a kill.

`python -P -m innolab.measure.sweeper PID` is that process; PID is the session's. A server dies with
the session that started it, but what is mounted stays until somebody unmounts it. The process
learns of the session's death by the pipe between them, and removes what is left, unless another
session is there to do so first.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from innolab.base import children
from innolab.base.errors import InnolabError
from innolab.hosts import machine
from innolab.hosts.base import Host, HostLostError
from innolab.hosts.local import HERE
from innolab.mysql import datasets
from innolab.storage import sites

_READY, _DONE = b"ready", b"done"
_LOOK_S = 0.02
# What died with the session may need a moment until it lets go of a disk, and a step of a playbook
# that had begun does not die with it: it may make a disk after all.
_TRIES, _BETWEEN_S = 10, 2.0


def clear(hosts: Sequence[Host]) -> None:
    """Remove the servers, the emulated disks and the folder of a session that is over.

    Raises
    ------
    InnolabError
        If something still holds a disk.
    """
    with machine.clearing_alone():
        _clear(hosts)


def _clear(hosts: Sequence[Host]) -> None:
    # A host that is lost is cleared by the next session.
    for host in hosts:
        with contextlib.suppress(HostLostError):
            host.end_servers(host.folder / datasets.WORK)
    sites.lower_disks(HERE.folder / datasets.WORK)
    for host in hosts:
        with contextlib.suppress(HostLostError):
            host.remove(host.folder / datasets.WORK)


class Beside:
    """The process beside a session, in a session of its own: no signal to ours reaches it.

    Raises
    ------
    InnolabError
        If it cannot start.
    """

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            children.python(__name__, str(os.getpid())),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # Ours may be relative to a folder that it is not in.
            env={**os.environ, "INNOLAB_CACHE": str(machine.cache_folder())},
            start_new_session=True,
            cwd="/",
        )
        assert self._process.stdout is not None
        # From then on it only waits: what starts takes processors from the first trial.
        if self._process.stdout.read(len(_READY)) != _READY:
            raise InnolabError(
                "The process that removes emulated disks after a kill could not start, so nothing "
                "was measured."
            )

    def dismiss(self) -> None:
        """Let it end: nothing is left."""
        # It may have been killed.
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate(_DONE)


def main() -> int:
    """Wait for the end of a session, and remove what it left if it did not do so itself."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(BrokenPipeError):
        os.write(sys.stdout.fileno(), _READY)
    if sys.stdin.buffer.read() == _DONE:
        return 0
    # One that dies closes the pipe before it lets go of the right to measure, which would then
    # pass for that of another session.
    while os.getppid() == int(sys.argv[1]):
        time.sleep(_LOOK_S)
    with contextlib.suppress(InnolabError), machine.clearing_alone():
        # A session that has begun meanwhile removes all itself, as soon as it has this right.
        [sockets] = HERE.read(machine.SOCKETS)
        return 0 if machine.is_measured(sockets) or _is_cleared() else 1
    return 1


def _is_cleared() -> bool:
    """Remove what is left until nothing comes back, and return whether nothing does."""
    for _ in range(_TRIES):
        with contextlib.suppress(InnolabError, OSError):
            _clear([HERE])
        time.sleep(_BETWEEN_S)
        if not (HERE.folder / datasets.WORK).exists():
            return True
    return False


if __name__ == "__main__":
    sys.exit(main())
