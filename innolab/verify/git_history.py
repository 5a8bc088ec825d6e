"""What the project's own history says of a session: its commit, and the claims at that commit.

A session writes down which commit measured and the digest of the claims then. In a clone both can
be asked for. Git is only read from, in the clone that this innolab runs in: nothing is checked out,
fetched or executed, and no report is asked.
"""

import hashlib
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from innolab.base import places
from innolab.record import runlog
from innolab.record.run import Run
from innolab.record.runlog import Entry, SessionStart

_LIMIT_S = 20
# Nothing that a clone's own settings name is started, and what is absent is not fetched.
_READ_ONLY = (
    "--no-replace-objects", "--no-optional-locks", "-c", "core.fsmonitor=false",
    "-c", "core.hooksPath=/dev/null", "-c", "protocol.allow=never",
)  # fmt: skip


def of_sessions(
    entries: Sequence[Entry], claims: Path, clone: Path | None = None
) -> tuple[list[str], list[str]]:
    """Return sessions that contradict the history, and notes on those that it cannot speak of.

    Parameters
    ----------
    claims : the file of the study's claims
    clone : whose history is asked; that of this innolab, which as a wheel has none
    """
    found = [f"{runlog.FILE}: {fault}" for fault in _of_another(entries)]
    clone = clone or places.PACKAGE.parent
    if places.is_installed() or not (clone / ".git").exists() or not claims.is_relative_to(clone):
        return found, []
    commits = dict.fromkeys(c for entry in entries if (c := _commit(entry.content)))
    known = [c for c in commits if _git(clone, "cat-file", "-e", f"{c}^{{commit}}") is not None]
    name = claims.relative_to(clone).as_posix()
    for entry in entries:
        session = entry.content
        if not isinstance(session, SessionStart) or session.innolab.get("dirty"):
            continue
        if (commit := _commit(session)) in known and commit:
            kept = _digest(clone, commit, name)
            if kept not in (None, session.claims_sha256):
                found.append(
                    f"{runlog.FILE}: the session of line {entry.number} says that it began with "
                    f"claims of the digest {session.claims_sha256[:16]}, but in its commit "
                    f"{commit[:10]} {name} has another"
                )
    return found, [
        f"The commit {commit[:10]} that measured is not in this clone's history, as in a shallow "
        "clone or where somebody measured with changes of their own: which claims it had was not "
        "checked."
        for commit in commits
        if commit not in known
    ]


def _of_another(entries: Sequence[Entry]) -> list[str]:
    return [
        f"trial {run.trial} was measured by another innolab than its session says"
        for session, runs in runlog.by_session(list(entries))
        if session is not None and session.innolab
        for run in runs
        if run.conditions["innolab"] != session.innolab
    ]


def _commit(content: Run | SessionStart) -> str | None:
    facts = content.conditions["innolab"] if isinstance(content, Run) else content.innolab
    commit = str(facts.get("commit"))
    return commit if re.fullmatch(r"[0-9a-f]{40}", commit) else None


def _digest(clone: Path, commit: str, name: str) -> str | None:
    """Return the digest of a file at a commit; None if it was not there, or is elsewhere."""
    found = _git(clone, "cat-file", "blob", f"{commit}:{name}")
    return None if found is None else hashlib.sha256(found).hexdigest()


def _git(clone: Path, *words: str) -> bytes | None:
    """Return what git prints, or None if it refuses or is not there."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", *_READ_ONLY, *words],
            cwd=clone,
            env={**own, "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LIMIT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
