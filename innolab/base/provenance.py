"""Which innolab this is."""

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


def _built_from() -> dict[str, Any]:
    """Return the revision that a wheel was built from.

    Git is not asked: an environment often is in a clone of something else.
    """
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
