"""Which code makes a report's page of its runs: a page is checked by that very code alone."""

import contextlib
import hashlib
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from innolab.base import language, places
from innolab.studies.study import Study

# Rooms of the package that decide what a page shows; those that measure do not.
_ROOMS = ("base", "record", "analysis", "studies", "report", "tables")
_SUFFIXES = (".py", ".j2", ".css", ".js", ".html")
_DATA = ("devices.csv", "service-times.csv")
# What draws pictures, rounds numbers and writes HTML. A font is part of Matplotlib.
_LIBRARIES = (
    "ipython", "jinja2", "matplotlib", "mistune", "nbconvert", "nbformat", "numpy", "pandas",
    "pygments", "scipy", "seaborn",
)  # fmt: skip


def todays(study: Study | None) -> dict[str, Any]:
    """Return which code makes pages here: the digest of ours, and the libraries' versions.

    Parameters
    ----------
    study : whose notebook and answer are part of it; None for a judged table, which has neither
    """
    whole = hashlib.sha256(_code().encode())
    for path in (study.papers.notebook, study.papers.answer) if study else ():
        if path.is_file():
            whole.update(path.read_bytes())
    return {"code_sha256": whole.hexdigest(), "libraries": _libraries()}


def difference(body: dict[str, Any], study: Study | None) -> str | None:
    """Return why today's code cannot say whether a report's page is right, or None if it can.

    Parameters
    ----------
    body : the report's manifest
    """
    made, today = body.get("renderer"), todays(study)
    if made == today:
        return None
    by = body["rendered_by"]
    if made is None or made["code_sha256"] != today["code_sha256"]:
        at = f" at commit {by['commit'][:12]}" if by["commit"] else ""
        return f"innolab {by['version']}{at} rendered it, and its code is not today's"
    others = [
        f"{name} {made['libraries'].get(name)} instead of {version}"
        for name, version in today["libraries"].items()
        if made["libraries"].get(name) != version
    ]
    return f"it was rendered with other libraries: {', '.join(others)}"


@cache
def _code() -> str:
    whole = hashlib.sha256()
    for name, path in sorted(_files()):
        whole.update(f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    # Of a catalogue its texts: their order and comments show nowhere.
    for name in sorted(language.FONTS.keys() - {language.ENGLISH}):
        whole.update(f"{name} {sorted(map(str, language.messages(name)))}\n".encode())
    return whole.hexdigest()


def _files() -> Iterator[tuple[str, Path]]:
    yield "notebook.py", places.PACKAGE / "notebook.py"
    yield "CITATION.cff", places.own("CITATION.cff")
    for room in _ROOMS:
        for path in (places.PACKAGE / room).rglob("*"):
            if path.suffix in _SUFFIXES:
                yield path.relative_to(places.PACKAGE).as_posix(), path
    yield from ((name, places.own("data", name)) for name in _DATA)


@cache
def _libraries() -> dict[str, str]:
    found = {}
    for name in _LIBRARIES:
        with contextlib.suppress(metadata.PackageNotFoundError):  # Of an install without rendering.
            found[name] = metadata.version(name)
    return found
