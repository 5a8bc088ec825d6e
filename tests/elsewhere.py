"""The project elsewhere: a clone of its own, other environments, a user without rights."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from conftest import BIN, ROOT

LOCK = ROOT / "requirements.lock"
# Before a command that must not run as root. What setpriv itself starts may still lie where only
# root may look; what `env` starts may not.
UNPRIVILEGED = (
    ["/usr/bin/setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "/usr/bin/env"]
    if os.geteuid() == 0
    else []
)


def clone(place: Path, *also: str, without: tuple[str, ...] = ("reports",)) -> Path:
    """Copy the files of the working tree that git has or would take, and commit them there.

    Parameters
    ----------
    also : folders that are taken though they lie in one of `without`
    """
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if name.split("/")[0] in without and not name.startswith(also):
            continue
        if (ROOT / name).is_file():  # Deleted and not committed yet, it is listed still.
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, place / name)
    git = ["git", "-c", "user.name=test", "-c", "user.email=test@example.org"]
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "all"]):
        subprocess.run([*git, *words], cwd=place, check=True)
    return place


def python() -> str:
    """Return a Python that an unprivileged user may start: root's own may lie in root's home."""
    known = [str(Path(sys.executable).resolve()), *map(shutil.which, ("python3", "python3.11"))]
    for found in [*filter(None, known), "/usr/bin/python3"]:
        try:
            subprocess.run(
                [*UNPRIVILEGED, found, "-c", "import sys; assert sys.version_info >= (3, 11)"],
                check=True, capture_output=True,
            )  # fmt: skip
        except (OSError, subprocess.CalledProcessError):
            continue
        return found
    raise AssertionError("no Python 3.11 or later that an unprivileged user may start is here")


def installed(wheel: Path, place: Path) -> Path:
    """Return an environment of a wheel without extras, by the hashes of the lock alone."""
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    wanted = place / "wanted.txt"
    wanted.write_text(f"innolab @ {wheel.as_uri()} --hash=sha256:{digest}\n")
    venv = place / "venv"
    uv("venv", "--quiet", "--python", python(), venv)
    uv("pip", "install", "--quiet", "--python", venv / "bin" / "python", "--require-hashes",
       "--requirements", wanted, "--constraints", LOCK)  # fmt: skip
    return venv


def uv(*words: str | Path) -> str:
    """Run uv and return what it printed."""
    done = subprocess.run([BIN / "uv", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout
