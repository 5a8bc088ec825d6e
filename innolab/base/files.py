"""Files that are either as they were or whole: written next to it, synced, renamed. Digests."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Give a place to write to, and put it in the place of `path` once the block has ended.

    Synced before the rename, or a power cut could leave an empty file under the name. Where the
    block fails nothing is left.
    """
    part = path.with_name(path.name + ".part")
    try:
        yield part
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.rename(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write(path: Path, text: str) -> None:
    """Write a whole text file in the place of `path`."""
    with replaced(path) as part:
        part.write_text(text)


def write_json(path: Path, body: Any, *, is_ascii: bool = True) -> None:
    """Write a value as a whole JSON file in the place of `path`."""
    write(path, json_text(body, is_ascii=is_ascii))


def json_text(body: Any, *, is_ascii: bool = True) -> str:
    """Return a value as JSON for people and programs, with a line for each part of it.

    Raises
    ------
    ValueError
        If it holds a number that is not finite, which no reader of JSON has to take.

    >>> json_text({"one": [1]})
    '{\\n "one": [\\n  1\\n ]\\n}\\n'
    """
    return json.dumps(body, indent=1, ensure_ascii=is_ascii, allow_nan=False) + "\n"


def canonical(body: Any) -> str:
    """Return a value as the one JSON text that digests and comparisons are made of."""
    return json.dumps(body, sort_keys=True)


def digest_of(body: Any) -> str:
    """Return the SHA-256 of a value, whatever the order of its keys."""
    return hashlib.sha256(canonical(body).encode()).hexdigest()


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, read by parts: it may be larger than the memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
