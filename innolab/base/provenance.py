"""Which innolab this is."""

import subprocess
from pathlib import Path
from typing import Any

from innolab import __version__

# The project's own files: notebooks, data, playbooks, reports.
ROOT = Path(__file__).parents[2]


def own_facts() -> dict[str, Any]:
    """Return which innolab this is: version, commit, and whether files differ from the commit."""
    git = ["git", "-C", str(ROOT)]
    commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True)
    changes = subprocess.run(
        [*git, "status", "--porcelain", "--untracked-files=no"], capture_output=True, text=True
    )
    known = commit.returncode == 0
    return {
        "version": __version__,
        "commit": commit.stdout.strip() if known else None,
        "dirty": bool(changes.stdout.strip()) if known else None,
    }
