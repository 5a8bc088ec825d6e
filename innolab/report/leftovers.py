"""What a stranger's notebook leaves in its folder: bounded, made ours, and nothing but files."""

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

from innolab.base.errors import InnolabError

# What a replay may leave in its folder, and in its /tmp.
MOST_LEFT_BYTES = 1024**3
MOST_SAID = 2000
_BLOCK_BYTES = 4096
_MOST_LEVELS = 8
# What reading a folder meets while a notebook changes it.
_GONE = (FileNotFoundError, NotADirectoryError, PermissionError)


def refuse_too_much(folder: Path) -> None:
    """Raise once a folder holds more than a replay needs."""
    total = 0
    for _, found, _ in _entries(folder):
        total += _BLOCK_BYTES + found.st_blocks * 512
        if total > MOST_LEFT_BYTES:
            raise InnolabError(
                f"It wrote more than {MOST_LEFT_BYTES:,} bytes into the report's folder, and was "
                "killed."
            )


def _entries(folder: Path) -> Iterator[tuple[Path, os.stat_result, int]]:
    """Yield all in a folder as (path, status, level), no link followed; what vanishes is left out.

    A folder comes before its contents, and none below `_MOST_LEVELS` is entered.
    """
    rest = [(folder, 1)]
    while rest:
        place, level = rest.pop()
        try:
            paths = list(place.iterdir())
        except _GONE:
            continue
        for path in paths:
            try:
                found = path.lstat()
            except _GONE:
                continue
            yield path, found, level
            if stat.S_ISDIR(found.st_mode) and level < _MOST_LEVELS:
                rest.append((path, level + 1))


def owned(folder: Path) -> list[str]:
    """Make all in a folder ours, and return what was removed of it.

    That is what is neither a plain file nor a folder of plain files: a link, a pipe, a device, a
    socket, or a folder that is too deep. So no later reader is led astray.
    """
    os.chown(folder, os.geteuid(), os.getegid(), follow_symlinks=False)
    folder.chmod(0o755)
    strange = []
    for path, found, level in _entries(folder):
        is_folder = stat.S_ISDIR(found.st_mode)
        if (is_folder and level < _MOST_LEVELS) or stat.S_ISREG(found.st_mode):
            os.chown(path, os.geteuid(), os.getegid(), follow_symlinks=False)
            path.chmod(0o755 if is_folder else 0o644)
        else:
            _remove(path, is_folder=is_folder)
            strange.append(str(path.relative_to(folder)))
    return sorted(strange)


def refuse(strange: list[str]) -> None:
    """Raise where something strange had to be removed."""
    if strange:
        raise InnolabError(
            f"{plain(strange[0])}: it is neither a plain file nor a folder of plain files, but a "
            "link, a pipe or a folder too deep. It was removed."
        )


def _remove(path: Path, *, is_folder: bool) -> None:
    """Remove a file, or a folder that may be deeper than Python's stack, which fails shutil."""
    if is_folder:
        subprocess.run(["chmod", "-R", "u+rwx", "--", str(path)], check=True)
        subprocess.run(["rm", "-rf", "--", str(path)], check=True)
    else:
        path.unlink()


def plain(text: str) -> str:
    """Return the end of a stranger's text as one line that does nothing to a terminal."""
    line = " ".join(text.split()).rstrip(".")
    return "".join(c if c.isprintable() else "?" for c in line)[-MOST_SAID:]
