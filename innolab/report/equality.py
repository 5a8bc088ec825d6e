"""Whether two reports show the same: text to the letter, coordinates and pixels within a tolerance.

Processors disagree in the last bits of a sum, so pictures are compared by what can be seen.
Everything that is printed as a number, in tables, CSV, verdicts and prose, must be equal.
"""

import difflib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from innolab.base import parsing
from innolab.report import file_contents, svg

# Of 255. A changed digit changes some of its pixels by more than a hundred.
PIXEL_TOLERANCE = 32
_SHOWN = 60
_MOST_DIFF_LINES = 40


def differences(report: Path, made: Path, names: list[str]) -> list[str]:
    """Return how files of a report differ from those made again, each in one line.

    Parameters
    ----------
    names : relative paths; one that is missing on either side is a difference
    """
    return [
        f"{name}: {why}"
        for name in names
        if (why := _difference(report / name, made / name)) is not None
    ]


def cells_diff(report: Path, made: Path) -> list[str]:
    """Return the lines in which a notebook's cells are not those of another, as a unified diff."""
    kept, wanted = (list(_sources(path)) for path in (report, made))
    lines = list(
        difflib.unified_diff(
            wanted, kept, "the study's notebook", "this report's", lineterm="", n=1
        )
    )
    if len(lines) > _MOST_DIFF_LINES:
        lines = [*lines[:_MOST_DIFF_LINES], f"({len(lines) - _MOST_DIFF_LINES} lines more)"]
    return lines


def _sources(path: Path) -> Iterator[str]:
    body = parsing.json_file(path)
    for cell in body["cells"]:
        yield f"[{cell['cell_type']}]"
        yield from str(cell["source"] if isinstance(cell["source"], str)
                       else "".join(cell["source"])).splitlines()  # fmt: skip


def _difference(kept: Path, made: Path) -> str | None:
    if not made.is_file():
        return "nothing of this name follows from the recorded runs"
    if not kept.is_file():
        return "it is missing, and follows from the recorded runs"
    if kept.read_bytes() == made.read_bytes():
        return None
    try:
        return _COMPARED.get(kept.suffix, _texts)(kept, made)
    except (ValueError, KeyError, TypeError) as error:
        return f"it is damaged: {error}"


def _texts(kept: Path, made: Path) -> str | None:
    return text_difference(parsing.read_text(kept), parsing.read_text(made))


def text_difference(kept: str, made: str) -> str | None:
    """Return where a text is not the one that was made again, or None.

    >>> text_difference('<use x="1.00"/>', '<use x="1.01"/>')
    >>> text_difference('a,1.00', 'a,1.01')
    "line 1 has 'a,1.00' where the recorded runs give 'a,1.01'"
    """
    (words, places), (wanted_words, wanted) = svg.split(kept), svg.split(made)
    if words == wanted_words:
        far = [
            f"a coordinate of {ours:g} px where the recorded runs give {theirs:g}"
            for ours, theirs in zip(places, wanted, strict=True)
            if not abs(ours - theirs) <= svg.TOLERANCE_PX
        ]
        return far[0] if far else None
    pairs = itertools.zip_longest(words.split("\n"), wanted_words.split("\n"), fillvalue="")
    number, (ours, theirs) = next((n, p) for n, p in enumerate(pairs, 1) if p[0] != p[1])
    start = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), 0)
    start = max(0, start - _SHOWN // 3)
    return (
        f"line {number} has '{ours[start : start + _SHOWN]}' where the recorded runs give "
        f"'{theirs[start : start + _SHOWN]}'"
    )


def _notebooks(kept: Path, made: Path) -> str | None:
    return _values(parsing.json_file(kept), parsing.json_file(made), "")


def _values(kept: Any, made: Any, where: str) -> str | None:
    """Return where two JSON values differ, and how."""
    if isinstance(kept, str) and isinstance(made, str):
        why = text_difference(kept, made)
        return why and f"{where.strip('.') or 'it'}: {why}"
    if isinstance(kept, dict) and isinstance(made, dict) and kept.keys() == made.keys():
        parts = ((kept[name], made[name], f"{where}.{name}") for name in made)
    elif isinstance(kept, list) and isinstance(made, list) and len(kept) == len(made):
        parts = ((a, b, f"{where}.{i}") for i, (a, b) in enumerate(zip(kept, made, strict=True)))
    elif type(kept) is type(made) and kept == made:
        return None
    else:
        return f"{where.strip('.') or 'it'} does not follow from the recorded runs"
    return next((why for part in parts if (why := _values(*part))), None)


def _pictures(kept: Path, made: Path) -> str | None:
    import numpy
    from PIL import Image

    if why := file_contents.png_fault(kept):
        return why
    try:
        with Image.open(kept, formats=["PNG"]) as ours, Image.open(made, formats=["PNG"]) as theirs:
            if (ours.size, ours.info) != (theirs.size, theirs.info):
                return f"it is of {ours.size}, {ours.info}, not {theirs.size}, {theirs.info}"
            pixels = [numpy.asarray(x, dtype=numpy.int16) for x in (ours, theirs)]
    except (OSError, SyntaxError) as error:
        return f"it cannot be read as a picture ({type(error).__name__})"
    off = (abs(pixels[0] - pixels[1]) > PIXEL_TOLERANCE).any(axis=2)
    if not off.any():
        return None
    row, column = (int(x) for x in numpy.argwhere(off)[0])
    return (
        f"{int(off.sum())} pixels are not those that the recorded runs give, the first at column "
        f"{column}, row {row}"
    )


_COMPARED: dict[str, Callable[[Path, Path], str | None]] = {
    ".png": _pictures,
    ".ipynb": _notebooks,
}
