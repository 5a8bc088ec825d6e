"""The build hook: a wheel has the project's own files inside the package.

A clone has them at its top, where people look for them; `innolab.base.places` finds both. All else
about the package is in pyproject.toml.
"""

import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
OWN = ("data", "notebooks", "playbooks", "CITATION.cff", "LICENSE")
_NO_SOURCE = shutil.ignore_patterns("__pycache__", "*.pyc", ".ipynb_checkpoints")


class WithOwnFiles(build_py):
    """As setuptools builds a package, and the project's own files below innolab/_files."""

    def run(self) -> None:
        """Build the package; an editable one reads its files where they are."""
        super().run()
        if self.editable_mode:
            return
        place = Path(self.build_lib) / "innolab" / "_files"
        shutil.rmtree(place, ignore_errors=True)  # Of an earlier build.
        place.mkdir(parents=True)
        for source in (ROOT / name for name in OWN):
            if source.is_dir():
                shutil.copytree(source, place / source.name, ignore=_NO_SOURCE)
            else:
                shutil.copy(source, place)
        (place / "revision.json").write_text(json.dumps(_revision()) + "\n")


def _revision() -> dict[str, Any]:
    """Return the digest of the lock, commit and dirty; None for these if this is no clone."""
    lock = {"lock_sha256": hashlib.sha256((ROOT / "requirements.lock").read_bytes()).hexdigest()}
    if not (ROOT / ".git").exists():
        return {"commit": None, "dirty": None, **lock}
    changed = _git("status", "--porcelain", "--untracked-files=no")
    return {"commit": _git("rev-parse", "HEAD"), "dirty": bool(changed), **lock}


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


setup(cmdclass={"build_py": WithOwnFiles})
