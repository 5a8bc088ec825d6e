"""Read JSON that came from elsewhere: within bounds, no key twice, no traceback."""

import json
import math
import stat
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from innolab.base.quoting import cut, shown

# The largest file of a reference report has 6 MB. A hostile one must not fill the memory.
MOST_BYTES = 512 * 1024**2
_MOST_DIGITS = 40
_MOST_SAID = 300


def from_json(text: str) -> Any:
    """Return what a JSON text holds.

    Raises
    ------
    ValueError
        Where the text is not JSON, names a key twice (readers differ in which one they take), is
        nested too deep, or holds a number that is not finite or too long.

    >>> from_json('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    ...
    ValueError: the key 'a' appears twice
    """
    try:
        return json.loads(
            text,
            object_pairs_hook=_without_doubles,
            parse_int=_integer,
            parse_float=_number,
            parse_constant=_number,
        )
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def read_text(path: Path, most_bytes: int = MOST_BYTES) -> str:
    """Return the text of a regular file.

    Raises
    ------
    ValueError
        Where it is missing, not a regular file (a pipe would wait for ever), too large, or not
        UTF-8.
    """
    try:
        found = path.lstat()
    except OSError as error:
        raise ValueError(f"it cannot be read ({error.strerror})") from None
    if not stat.S_ISREG(found.st_mode):
        raise ValueError("it is not a regular file")
    if found.st_size > most_bytes:
        raise ValueError(f"it has {found.st_size:,} bytes, and {most_bytes:,} are the most allowed")
    return path.read_text()


def json_file(path: Path) -> Any:
    """Return what a JSON file holds.

    Raises
    ------
    ValueError
        As `read_text` and `from_json`.
    """
    return from_json(read_text(path))


def reason(error: ValueError) -> str:
    """Return why something was refused, in one line for people."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        says = first["msg"]
        if first["type"] == "string_pattern_mismatch":
            says = f"{shown(first['input'])} is not written as such a thing is"
        return cut(f"{'.'.join(map(str, first['loc'])) or 'it'}: {says}", _MOST_SAID)
    return " ".join(str(error).split())[:_MOST_SAID]


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        double = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key '{double[:_MOST_DIGITS]}' appears twice")
    return found


def _integer(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"it holds a number of {len(digits):,} digits")
    return int(digits)


def _number(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"it holds {text[:_MOST_DIGITS]}, which is not a finite number")
    return value
