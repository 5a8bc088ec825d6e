"""An environment of its own for the tools of tests/standards.lock, made once."""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from shared import one_at_a_time

from innolab.hosts import machine

LOCK = Path(__file__).parent / "standards.lock"


def bin_folder() -> Path:
    """Return the folder of the tools' commands; they clash with JupyterLab's libraries.

    The environment lies in the cache folder under the lock's digest.
    """
    uv = Path(sys.executable).parent / "uv"
    digest = hashlib.sha256(LOCK.read_bytes()).hexdigest()[:16]
    folder = machine.cache_folder() / "standards" / digest
    with one_at_a_time("standards"):
        if not folder.exists():
            half = folder.with_name(f"{digest}.part")
            shutil.rmtree(half, ignore_errors=True)
            half.parent.mkdir(parents=True, exist_ok=True)
            for words in (
                ["venv", "--quiet", "--relocatable", "--python", sys.executable, str(half)],
                ["pip", "install", "--quiet", "--python", str(half / "bin" / "python"),
                 "--require-hashes", "-r", str(LOCK)],
            ):  # fmt: skip
                subprocess.run([str(uv), *words], check=True)
            half.rename(folder)
    return folder / "bin"
