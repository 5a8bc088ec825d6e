"""The seconds of published runs: what they say of each, and the floor that they give a spread."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from innolab.analysis.seconds import Course
from innolab.base import spreadsheet
from innolab.tables.rankings import Spread

Seconds = list[tuple[float, float]]
_COLUMNS = ["row", "metric", "t_s", "value"]


class Series(NamedTuple):
    """The seconds of one metric in one run, by its row in the table, from 0."""

    row: int
    metric: str


def spread(courses: Sequence[Course]) -> Spread:
    """Return the least spread that runs have by their own seconds; 0 if there are none."""
    known = [one for one in courses if one.freedom > 0 and one.error > 0]
    freedom = sum(one.freedom for one in known)
    if not known:
        says = "not known: no arm was run twice, and no spread was borrowed (--spread)"
        return Spread(0.0, 1, 0, says, is_floor=True)
    variance = math.fsum(one.error**2 * one.freedom for one in known) / freedom
    says = (
        f"at least what the seconds of {len(known)} runs give: no arm was run twice, and restarts "
        "differ by more than seconds show"
    )
    return Spread(math.sqrt(variance), freedom, len(known), says, is_floor=True)


def as_csv(series: Mapping[Series, Seconds]) -> str:
    """Return series as CSV; `read` of it gives the same ones."""
    import pandas as pd

    rows = [
        (row, metric, repr(t_s), repr(value))
        for (row, metric), seconds in series.items()
        for t_s, value in seconds
    ]
    return spreadsheet.csv_text(pd.DataFrame(rows, columns=_COLUMNS))


def read(text: str) -> dict[Series, Seconds]:
    """Return the series of a CSV.

    Raises
    ------
    ValueError
        If it is none of ours.
    """
    header, *lines = csv.reader(io.StringIO(text), strict=True)
    if header != _COLUMNS:
        raise ValueError(f"its columns are not {', '.join(_COLUMNS)}")
    series: dict[Series, Seconds] = {}
    for row, guarded, t_s, value in lines:
        metric = spreadsheet.plain(guarded)
        moment = float(t_s), float(value)
        if not all(map(math.isfinite, moment)):
            raise ValueError("it holds a number that is not finite")
        series.setdefault(Series(int(row), metric), []).append(moment)
    return series
