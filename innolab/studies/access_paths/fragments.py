"""A file in pieces: laid so on purpose, and in how many pieces a file lies."""

import contextlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from innolab.hosts.local import HERE

# As SQL Server's extents, in which the two files of seed S4 grew by turns.
PIECE_BYTES = 64 * 1024
_MOST_OTHERS = 6
_MIB = 1024**2


def scatter(file: Path) -> None:
    """Lay a file anew in pieces between those of another one, as two that grow by turns.

    Its content stays in its order, and its time what it was. Some file systems set two files
    apart, so it is tried with more and more others; `extents` says what came of it.
    """
    # In one folder: a file system keeps the files of each near each other, and of two apart.
    new, before = file.with_suffix(".new"), file.stat()
    others: list[Path] = []
    while len(others) < _MOST_OTHERS:
        others.append(file.with_suffix(f".other{len(others)}"))
        _grow_by_turns([new, *others], before.st_size)
        if extents(new) >= before.st_size / PIECE_BYTES / 2:
            break
    with file.open("rb") as source, new.open("r+b") as target:
        shutil.copyfileobj(source, target, _MIB)
        target.truncate(before.st_size)
        os.fsync(target.fileno())
    os.chown(new, before.st_uid, before.st_gid)
    os.utime(new, ns=(before.st_atime_ns, before.st_mtime_ns))
    new.rename(file)
    for other in others:
        other.unlink()


def _grow_by_turns(places: Sequence[Path], size_bytes: int) -> None:
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(place.open("wb")) for place in places]
        for offset in range(0, size_bytes, PIECE_BYTES):
            for file in files:
                os.posix_fallocate(file.fileno(), offset, PIECE_BYTES)


def extents(file: Path) -> int:
    """Return in how many pieces a file lies on its disk, by filefrag."""
    said = HERE.must(["filefrag", file], what="Asking for a file's extents")
    return int(said.rsplit(":", 1)[1].split()[0])
