"""What all test workers use of this machine: the first that needs it makes it, others wait."""

import contextlib
import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator

from innolab.hosts import machine


@contextlib.contextmanager
def one_at_a_time(what: str) -> Iterator[None]:
    """Let one process in at a time; the kernel opens the door where one is killed."""
    door = machine.cache_folder() / f"tests-{what}.lock"
    door.parent.mkdir(parents=True, exist_ok=True)
    with door.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def chromium() -> str:
    """Return the path of Chromium, which is installed where it is absent and root runs the test.

    Raises
    ------
    RuntimeError
        Where it is absent and another user runs the test.
    """
    with one_at_a_time("chromium"):
        if not (found := _found()):
            if os.geteuid() != 0:
                raise RuntimeError(
                    "There is no Chromium. As root on Debian: apt-get install chromium"
                )
            subprocess.run(["apt-get", "update", "-qq"], check=True)
            subprocess.run(["apt-get", "install", "-y", "-qq", "chromium"], check=True)
            found = _found()
    assert found
    return found


def _found() -> str | None:
    return shutil.which("chromium") or shutil.which("google-chrome")
