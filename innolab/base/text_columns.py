"""Rows of text as lines whose columns stand under each other."""

from collections.abc import Collection, Sequence


def aligned(rows: Sequence[Sequence[str]], numbers: Collection[int] = ()) -> list[str]:
    """Return rows as lines, two spaces between columns.

    Parameters
    ----------
    rows : at least one, all of as many cells
    numbers : the columns to align at their right

    >>> aligned([["claim", "power"], ["A", "9%"]], numbers={1})
    ['claim  power', 'A         9%']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if place in numbers else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
