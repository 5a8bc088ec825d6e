"""Have a report made again by the very innolab that rendered it, found by its commit.

The command line is what all revisions have in common: `innolab render` makes a report's derived
files again from its recorded runs, by that revision's own code and notebook.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from innolab.base import places
from innolab.base.errors import InnolabError
from innolab.base.provenance import own_facts
from innolab.hosts import machine
from innolab.report import manifest

# What another revision's code reads; its tests and reports are not needed.
_PARTS = ("innolab", "notebooks", "data", "playbooks", "requirements.lock", "CITATION.cff")
_LIMIT_S = 900
_MAIN = "from innolab.cli import main; main()"


class UnavailableError(InnolabError):
    """The revision cannot be had here; the message says what to fetch."""


def is_todays(body: dict[str, Any]) -> bool:
    """Return whether the revision that rendered a report has the code that runs now."""
    if places.is_installed():
        return bool(body["rendered_by"] == own_facts() and own_facts()["dirty"] is False)
    commit = body["rendered_by"]["commit"]
    if body["rendered_by"]["dirty"] or not _is_known(commit):
        return False
    # Compares with the files as they are, so that a change that is not committed counts too.
    return _git("diff", "--quiet", commit, "--", *_PARTS).returncode == 0


def remake(report: Path, body: dict[str, Any], place: Path, *, own_lock: bool) -> Path:
    """Return the folder of a report that its own revision made again from its recorded runs.

    Parameters
    ----------
    body : the report's manifest
    place : an empty folder to make it in
    own_lock : whether the libraries are those of the revision's own lock, instead of today's

    Raises
    ------
    UnavailableError
        Where the commit or its libraries cannot be had here.
    InnolabError
        Where that revision fails on these runs.
    """
    words = ("render", str(report), "--version", str(body["version"]))
    _innolab(body, place, *words, own_lock=own_lock)
    return place / str(body["study"]) / str(body["version"])


def verified(made: Path, body: dict[str, Any], place: Path, *, own_lock: bool) -> None:
    """Have a report that its own revision made again checked by that revision's `verify`.

    Its notebook is the revision's own, so even one that executes it executes nothing foreign.

    Raises
    ------
    InnolabError
        Where it finds a fault in what was recorded.
    """
    _innolab(body, place, "verify", str(made), own_lock=own_lock)


def has_own_lock(body: dict[str, Any]) -> bool:
    """Return whether a report was rendered with other libraries than today's lock names."""
    return bool(body["lock_sha256"] != manifest.digest(manifest.LOCK))


def tree(body: dict[str, Any]) -> Path:
    """Return the files of the revision that rendered a report, from this clone's history.

    Raises
    ------
    UnavailableError
        Where nobody has that revision, or this clone has not.
    """
    commit = body["rendered_by"]["commit"]
    if body["rendered_by"]["dirty"]:
        raise UnavailableError(
            f"it was rendered by an innolab whose files differed from its commit {commit}, so "
            "nobody else has that revision"
        )
    if places.is_installed():
        raise UnavailableError(
            f"it was rendered by innolab at commit {commit}, and this innolab is installed as a "
            "package, without the project's history. Verify it in a clone of innolab: git clone, "
            "then make setup there, then .venv/bin/innolab verify"
        )
    if not _is_known(commit):
        raise UnavailableError(
            f"it was rendered by innolab at commit {commit}, which the history of this clone does "
            f"not have. Fetch it (git fetch --unshallow, or git fetch origin {commit}) and verify "
            "again"
        )
    place = _cache() / f"tree-{commit[:16]}"
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent) as half:
            archive = Path(half) / "tree.tar"
            # Some parts are younger than the first revisions.
            parts = _git("ls-tree", "--name-only", commit, "--", *_PARTS).stdout.split()
            _git("archive", f"--output={archive}", commit, "--", *parts).check_returncode()
            with tarfile.open(archive) as packed:
                packed.extractall(Path(half) / "tree", filter="data")
            _keep(Path(half) / "tree", place)
    return place


def _keep(made: Path, place: Path) -> None:
    """Put a folder in its place, unless another process has put the same there meanwhile."""
    try:
        made.rename(place)
    except OSError:
        if not place.exists():
            raise


def _is_known(commit: str | None) -> bool:
    """Return whether a commit is part of this clone's own history.

    A commit that is merely among its objects could be anybody's.
    """
    if commit is None:
        return False
    return _git("merge-base", "--is-ancestor", commit, "HEAD").returncode == 0


def _git(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", "-C", str(places.PACKAGE.parent), *words], capture_output=True, text=True
    )


def _python(place: Path) -> Path:
    """Return the interpreter of an environment of the revision's own lock, made once."""
    lock = place / "requirements.lock"
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()
    folder = _cache() / f"venv-{digest[:16]}"
    if not folder.exists():
        uv = shutil.which("uv", path=str(Path(sys.executable).parent))
        with tempfile.TemporaryDirectory(dir=_cache()) as room:
            half = Path(room) / "venv"
            python = half / "bin" / "python"
            for words in (
                ["venv", "--quiet", "--relocatable", "--python", sys.executable, half],
                ["pip", "install", "--quiet", "--python", python, "--require-hashes", "-r", lock],
            ):
                done = subprocess.run([str(uv), *map(str, words)], capture_output=True, text=True)
                if done.returncode:
                    raise UnavailableError(
                        f"the libraries of its requirements.lock (sha256 {digest}) could not be "
                        f"installed: {' '.join(done.stderr.split())[-300:]}"
                    )
            _keep(half, folder)
    return folder / "bin" / "python"


def _cache() -> Path:
    return machine.cache_folder() / "revisions"


def _innolab(body: dict[str, Any], place: Path, *words: str, own_lock: bool) -> None:
    """Run the revision's own command line, its reports in `place`."""
    revision = tree(body)
    python = _python(revision) if own_lock else Path(sys.executable)
    try:
        done = subprocess.run(
            [str(python), "-c", _MAIN, *words],
            env={**os.environ, "PYTHONPATH": str(revision), "INNOLAB_REPORTS": str(place)},
            cwd=place,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        raise InnolabError(
            f"its own revision did not end within {_LIMIT_S} s (innolab {words[0]})"
        ) from None
    if done.returncode:
        said = " ".join((done.stdout + done.stderr).split())[-600:]
        raise InnolabError(f"its own revision says (innolab {words[0]}): {said}")
