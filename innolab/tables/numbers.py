"""Numbers as cells of other people's tables have them, and what to do where one is none."""

import math
import re

# 1,147,448 or 1,520.3: between thousands. With a single comma either is possible.
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(,\d{3})+(\.\d+)?")
_DECIMAL_COMMA = re.compile(r"[-+]?\d{1,3}(?:[.' \u00a0\u202f]\d{3})*,\d+|[-+]?\d+,\d+")
_OTHER_THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:[' \u00a0\u202f]\d{3})+(\.\d+)?")


def number(cell: str) -> float | None:
    """Return a number of a cell; none for words, nan, infinities and 1_000."""
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in cell else None


def is_of_nothing(cell: str) -> bool:
    """Return whether a cell is that of a run that came to nothing: empty, 0, or without a digit."""
    return number(cell) == 0 or not any(character.isdigit() for character in cell)


def hint(cell: str) -> str:
    """Return how to write what is no number, in brackets.

    >>> hint("1520,3"), hint("1 520.3"), hint("N/A")
    (' (write 1520.3)', ' (write 1520.3)', ' (leave the cell of a run without a value empty)')
    """
    if is_of_nothing(cell):
        return " (leave the cell of a run without a value empty)"
    if _THOUSANDS.fullmatch(cell):
        return " (write 1147448 for 1,147,448; where the comma is before decimals, write a point)"
    if _DECIMAL_COMMA.fullmatch(cell):
        return f" (write {re.sub('[^0-9,+-]', '', cell).replace(',', '.')})"
    if _OTHER_THOUSANDS.fullmatch(cell):
        return f" (write {re.sub('[^0-9.+-]', '', cell)})"
    return " (write the number alone, and its unit into the heading)"
