"""Read JSON and YAML that came from elsewhere: within bounds, no key twice, no traceback."""

import json
import math
import stat
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from innolab.base.quoting import one_line, shown

# The largest text of a reference report has 6 MB. What is read takes up to thirty times its size in
# memory, as lists of nothing.
MOST_BYTES = 64 * 1024**2
# The largest YAML file of this collection has 10 KB, and a second's reading has 100 KB.
MOST_YAML_BYTES = 256 * 1024
# The deepest notebook has ten levels. Code that walks through a value calls itself at each.
_MOST_DEPTH = 50
_MOST_DIGITS = 40


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
        found = json.loads(
            text,
            object_pairs_hook=_without_doubles,
            parse_int=_integer,
            parse_float=_number,
            parse_constant=_number,
        )
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    _require_shallow(found)
    return found


def yaml_node(text: str) -> yaml.Node:
    """Return the node of a YAML document, whose places name lines; `yaml_value` has its value.

    Raises
    ------
    ValueError
        Where the text is empty or not YAML, is nested too deep, names a key twice, or has an alias:
        aliases of aliases stand for a billion values.
    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if node is None:
        raise ValueError("it is empty")
    _require_plain(node)
    return node


def yaml_value(node: yaml.Node) -> Any:
    """Return the value of a YAML node.

    Raises
    ------
    ValueError
        Where a part of it is not what its form says, such as a date 2026-99-99.
    """
    try:
        return yaml.SafeLoader("").construct_document(node)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None


def _require_plain(node: yaml.Node) -> None:
    """Raise ValueError where a node is meant twice, by an alias, or has a key twice."""
    waiting, seen = [node], set[int]()
    while waiting:
        one = waiting.pop()
        line = one.start_mark.line + 1
        if id(one) in seen:
            raise ValueError(f"an alias refers to line {line}: write its content there instead")
        seen.add(id(one))
        if isinstance(one, yaml.MappingNode):
            keys = Counter(key.value for key, _ in one.value if isinstance(key, yaml.ScalarNode))
            if double := next((key for key, count in keys.items() if count > 1), None):
                raise ValueError(f"line {line}: the key '{double[:_MOST_DIGITS]}' appears twice")
            waiting += [part for pair in one.value for part in pair]
        elif isinstance(one, yaml.SequenceNode):
            waiting += one.value


def read_text(path: Path, most_bytes: int = MOST_BYTES) -> str:
    """Return the text of a regular file.

    Raises
    ------
    ValueError
        Where it is missing, not a regular file (a pipe would wait indefinitely), too large, or not
        UTF-8.
    """
    _require_readable(path, most_bytes)
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(most_bytes + 1)  # It may have grown, or be one of /proc, of no size.
    except UnicodeDecodeError:
        raise ValueError(
            "it is not UTF-8 text. Save it as UTF-8; a spreadsheet offers that as 'CSV UTF-8'"
        ) from None
    if len(text) > most_bytes:
        raise ValueError(f"it has more than {most_bytes:,} bytes, the most allowed")
    return text


def text_of_any_encoding(path: Path, most_bytes: int = MOST_BYTES) -> str:
    """Return the text of a regular file in UTF-8, or else in the encoding that it most likely has.

    Fit for ASCII in a file of any encoding; letters beyond it may be wrong, so that what names
    something is to be read by `read_text`.

    Raises
    ------
    ValueError
        Where it is missing, not a regular file, too large, or of no encoding at all.
    """
    _require_readable(path, most_bytes)
    data = path.read_bytes()[: most_bytes + 1]
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        # Imported here: few files are of another encoding.
        from charset_normalizer import from_bytes

        if (best := from_bytes(data).best()) is None:
            raise ValueError("it is not text in any known encoding") from None
        return str(best)


def _require_readable(path: Path, most_bytes: int) -> None:
    try:
        found = path.lstat()
    except OSError as error:
        raise ValueError(f"it cannot be read ({error.strerror})") from None
    if not stat.S_ISREG(found.st_mode):
        raise ValueError("it is not a regular file")
    if found.st_size > most_bytes:
        raise ValueError(f"it has {found.st_size:,} bytes, and {most_bytes:,} are the most allowed")


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
        return one_line(f"{'.'.join(map(str, first['loc'])) or 'it'}: {says}")
    return one_line(str(error))


def _require_shallow(value: Any) -> None:
    level = [value]
    for _ in range(_MOST_DEPTH):
        level = [part for one in level for part in _parts(one) if isinstance(part, dict | list)]
        if not level:
            return
    raise ValueError(f"it is nested deeper than {_MOST_DEPTH} levels")


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


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
