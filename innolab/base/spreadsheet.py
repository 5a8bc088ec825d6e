"""CSV that a spreadsheet may open: no cell of it is a formula, and each reads as what it was.

A spreadsheet runs a cell that begins with one of a few characters, quoted or not. An apostrophe
before it makes it the text that it is; `plain` takes it off again.
"""

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

# Also as wide as an ideograph, which spreadsheets of East Asia take for the same.
_RUNS = re.compile("'*[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|-inf", re.ASCII)


def guarded(cell: str) -> str:
    """Return a text as a cell that a spreadsheet shows; a number as it is.

    >>> guarded("=HYPERLINK(A1)"), guarded("-1.5"), guarded("8.0")
    ("'=HYPERLINK(A1)", '-1.5', '8.0')
    """
    return f"'{cell}" if _RUNS.match(cell) and not _NUMBER.fullmatch(cell) else cell


def plain(cell: str) -> str:
    """Return the text that a cell was made of.

    >>> plain(guarded("=1+1")), plain("'tis")
    ('=1+1', "'tis")
    """
    return cell[1:] if cell.startswith("'") and guarded(cell[1:]) == cell else cell


def csv_text(frame: "pd.DataFrame", float_format: str | None = None) -> str:
    """Return a table as CSV: all that this package writes for others.

    Parameters
    ----------
    float_format : of numbers that are no integers, as `%.6g`
    """
    named = frame.rename(columns=_guarded)
    return str(
        named.map(_guarded).to_csv(index=False, float_format=float_format, lineterminator="\n")
    )


def _guarded(value: Any) -> Any:
    return guarded(value) if isinstance(value, str) else value
