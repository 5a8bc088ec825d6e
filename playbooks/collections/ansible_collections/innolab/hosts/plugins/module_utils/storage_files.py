"""The host's files in which storage is written down, each changed whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .storage_geometry import StorageError
from .storage_host import read, replace
from .storage_plan import MDADM_CONF, RECORD

FSTAB = Path("/etc/fstab")
HOST_RECORD = Path("/etc/innolab/host.json")
BARRIER_RULES = Path("/etc/udev/rules.d/99-innolab-barriers.rules")
KERNEL_RULES = Path("/etc/udev/rules.d/99-innolab-kernel.rules")
_BEGIN, _END = "# innolab: what follows is rewritten", "# innolab: end"


def record() -> dict[str, Any]:
    """Return what is ours on this host; empty where nothing is.

    Raises
    ------
    StorageError
        Where the record is there but cannot be read: what is ours is unknown then.
    """
    path = Path(RECORD)
    if not path.exists():
        return {}
    try:
        found: dict[str, Any] = json.loads(path.read_text())
        return found
    except (OSError, ValueError) as error:
        raise StorageError(
            f"{RECORD}, which says what is ours, cannot be read ({error}), so nothing was changed; "
            "restore it from a backup"
        ) from None


def write_record(content: dict[str, Any]) -> None:
    """Write what is ours on this host."""
    replace(Path(RECORD), json.dumps(content, indent=1) + "\n")


def block(text: str, lines: list[str], path: Path = FSTAB) -> str:
    """Return the text of a file with our marked lines replaced; without lines the marks go too.

    >>> print(block("a\\n", ["b"]), end="")
    a
    # innolab: what follows is rewritten
    b
    # innolab: end
    >>> block(block("a\\n", ["b"]), [])
    'a\\n'

    Raises
    ------
    StorageError
        Where the marks do not stand in one pair: which lines are the user's own is unknown then.
    """
    found = text.splitlines()
    marks = [at for at, line in enumerate(found) if line.strip() in (_BEGIN, _END)]
    if marks:
        if [found[at].strip() for at in marks] != [_BEGIN, _END]:
            raise StorageError(_unsound(path, [f"line {at + 1}: {found[at]}" for at in marks]))
        del found[marks[0] : marks[1] + 1]
    marked = [_BEGIN, *lines, _END] if lines else []
    return "".join(f"{line}\n" for line in found + marked)


def _unsound(path: Path, marks: list[str]) -> str:
    return (
        f"{path} should have one line '{_BEGIN}' and after it one line '{_END}', with only "
        f"innolab's own lines between, but has {'; '.join(marks)}. Nothing was changed, as lines "
        "of yours could be lost. Put the marks right, or remove them and innolab's lines"
    )


def require_marks() -> None:
    """Raise where our lines in a file do not stand apart from the user's, before any change."""
    for path in (FSTAB, mdadm_conf()):
        block(read(path) or "", [], path)


def set_block(path: Path, lines: list[str]) -> bool:
    """Write our marked lines into a file and say whether it changed."""
    before = read(path)
    old = "" if before is None else before + "\n"
    new = block(old, lines, path)
    if new == old or (before is None and not lines):
        return False
    replace(path, new)
    return True


def mdadm_conf() -> Path:
    """Return the file of which mdadm and, on Debian, the early boot read arrays' names."""
    path = Path(MDADM_CONF)
    return path if path.parent.is_dir() else Path("/etc/mdadm.conf")


def forget() -> None:
    """Remove all that names arrays or disks that are about to go."""
    set_block(FSTAB, [])
    for path in (BARRIER_RULES, KERNEL_RULES, HOST_RECORD):
        path.unlink(missing_ok=True)
