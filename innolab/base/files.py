"""Files that are either as they were or whole: written beside, synced, renamed. Their digests."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, read by parts: it may be larger than the memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
