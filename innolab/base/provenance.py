"""Which innolab this is."""

import hashlib
import json
import subprocess
from typing import Any

from innolab import __version__
from innolab.base import places


def own_facts() -> dict[str, Any]:
    """Return which innolab this is: version, commit, and whether files differ from the commit.

    Commit and difference are None where nobody knows them: no clone, or built from none.
    """
    return {"version": __version__, **(_built_from() if places.is_installed() else _checked_out())}


def lock_sha256() -> str:
    """Return the digest of requirements.lock, of which a wheel has nothing else."""
    if places.is_installed():
        return str(_revision()["lock_sha256"])
    return hashlib.sha256(places.own("requirements.lock").read_bytes()).hexdigest()


def _built_from() -> dict[str, Any]:
    """Return the revision that a wheel was built from.

    Git is not asked: an environment often is in a clone of something else.
    """
    return {name: _revision()[name] for name in ("commit", "dirty")}


def _revision() -> dict[str, Any]:
    return dict(json.loads(places.own(places.REVISION_FILE).read_text()))


def _checked_out() -> dict[str, Any]:
    root = places.PACKAGE.parent
    if not (root / ".git").exists():  # Unpacked somewhere, perhaps in a clone of something else.
        return {"commit": None, "dirty": None}
    git = ["git", "-C", str(root)]
    commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True)
    changes = subprocess.run(
        [*git, "status", "--porcelain", "--untracked-files=no"], capture_output=True, text=True
    )
    known = commit.returncode == 0
    return {
        "commit": commit.stdout.strip() if known else None,
        "dirty": bool(changes.stdout.strip()) if known else None,
    }
