"""The cells of a table that came from elsewhere, as text by column."""

import csv
import io
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence

from innolab.base import parsing, spreadsheet
from innolab.base.quoting import shown

_MOST_ROWS = 20_000
_MOST_COLUMNS = 500
# A published table has some thousand; each takes a hundred bytes of memory.
_MOST_CELLS = 1_000_000
_TOO_MANY = (
    f"it has more than {_MOST_ROWS:,} rows, {_MOST_COLUMNS} columns or {_MOST_CELLS:,} cells"
)
_MOST_QUOTED = 60
# A number, however it is written, or a date: no name of a column.
_LIKE_DATA = re.compile(r"[-+]?\d[\d.,'\s]*(?:[eE][-+]?\d+)?|\d{4}-\d\d-\d\d.*|\d\d?:\d\d.*")
_SPACES = str.maketrans("\t\r\n", "   ")
# For each row its place, which is its line or its number in a list, and its cells by column.
Cells = list[tuple[int, dict[str, str]]]


def cells_of_csv(text: str) -> Cells:
    """Return the cells of each line by heading.

    Raises
    ------
    ValueError
        Where it is too large, a line has more or fewer cells than the heading, or a heading comes
        twice.
    """
    _require_few(text)
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    lines = [(reader.line_num, line) for line in reader if any(cell.strip() for cell in line)]
    if not lines:
        raise ValueError("it is empty")
    (first, names), *rest = lines
    names = list(map(spreadsheet.plain, names))
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        raise ValueError(
            "its cells are not separated by commas. Save it as CSV with commas between cells and "
            "points before decimals"
        )
    columns = len(names)
    if len(rest) > _MOST_ROWS or columns > _MOST_COLUMNS or len(rest) * columns > _MOST_CELLS:
        raise ValueError(_TOO_MANY)
    _require_plain(names, [(f"line {number}", line) for number, line in rest])
    _require_heading(first, names)
    if ragged := [(n, line) for n, line in rest if len(line) != len(names)]:
        number, line = ragged[0]
        raise ValueError(f"line {number} has {len(line)} cells, and the heading {len(names)}")
    return [(n, dict(_once(names, list(map(_cell, line))))) for n, line in rest]


def _require_heading(line: int, names: Sequence[str]) -> None:
    """Raise ValueError where the first line looks like data: no column is named by a number."""
    if number := next((name for name in names if _LIKE_DATA.fullmatch(name.strip())), None):
        raise ValueError(
            f"line {line} looks like data and not like a heading, as it has {shown(number)}. Write "
            "a first line with the name of each column; where numbers are levels of a factor, a "
            "column each, make a row for each measurement instead, with the level in a column"
        )


def _cell(text: str) -> str:
    return spreadsheet.plain(text.strip())


def _require_few(text: str) -> None:
    """Raise ValueError where a text has too many cells, before each becomes a value of its own.

    A quoted comma or line counts too, so that the bounds are twice those of cells.
    """
    if text.count(",") > 2 * _MOST_CELLS or text.count("\n") > 2 * _MOST_ROWS:
        raise ValueError(_TOO_MANY)


def _once(names: Sequence[str], cells: Sequence[str]) -> list[tuple[str, str]]:
    twice = [name for name, n in Counter(names).items() if n > 1 or not name.strip()]
    if twice:
        raise ValueError(f"the heading {shown(twice[0])} is empty or stands twice")
    return list(zip(names, cells, strict=True))


def cells_of_json(text: str) -> Cells:
    """Return the values of each object of a list; those of an object in it as `outer.inner`.

    Lists, such as time series, are left out: seconds of one run are no replicates.
    """
    body = parsing.from_json(text)
    if not isinstance(body, list) or not all(isinstance(one, dict) for one in body):
        raise ValueError("it holds no list of objects, one for each run")
    if len(body) > _MOST_ROWS:
        raise ValueError(f"it has more than {_MOST_ROWS:,} runs")
    flat = [_flat(one) for one in body]
    names = dict.fromkeys(name for one in flat for name in one)
    if len(names) > _MOST_COLUMNS or len(names) * len(flat) > _MOST_CELLS:
        raise ValueError(
            f"its runs have more than {_MOST_COLUMNS} values, or {_MOST_CELLS:,} in all"
        )
    _require_plain(list(names), [(f"run {n}", list(one.values())) for n, one in enumerate(flat, 1)])
    return [(n, {name: one.get(name, "").strip() for name in names})
            for n, one in enumerate(flat, 1)]  # fmt: skip


def _require_plain(names: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]]) -> None:
    """Raise ValueError where a heading or a cell holds what controls a terminal, or is not seen.

    Two levels that differ in that alone look the same. A cell may hold several lines.
    """
    if hidden := [name for name in names if not _is_plain(name)]:
        raise ValueError(f"the heading {ascii(hidden[0])[:_MOST_QUOTED]} holds a control character")
    for place, cells in rows:
        if hidden := [cell for cell in cells if not _is_plain(cell.translate(_SPACES))]:
            quoted = ascii(hidden[0])[:_MOST_QUOTED]
            raise ValueError(f"{place}: the cell {quoted} holds a control character")


def _is_plain(text: str) -> bool:
    return text.isprintable() or all(map(_is_seen, text))


def _is_seen(character: str) -> bool:
    # Another space than the usual one, as between thousands, does nothing.
    return character.isprintable() or unicodedata.category(character) == "Zs"


def _flat(body: Mapping[str, object], outer: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in body.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{outer}{name}.")
        elif not isinstance(value, list):
            is_text = isinstance(value, str)
            text = value if is_text else json.dumps(value)
            found[outer + name] = "" if value is None else str(text)
    return found
