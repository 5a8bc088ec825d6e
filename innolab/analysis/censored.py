"""Intervals on values of which some are known only to be larger than what was seen.

A curve that was followed to its last row and shows no knee has its knee beyond that row, if at
all: the row is a bound and no value, and a mean over it would mean nothing. The median does not
ask how far beyond.
"""

import math
import statistics
from collections.abc import Sequence

from innolab.analysis.stats import LEVEL, Interval


def median(values: Sequence[float], found: Sequence[bool], level: float = LEVEL) -> Interval:
    """Return the median of independent values with an interval by the sign test.

    It assumes nothing of their distribution, and holds at least at its level.

    Parameters
    ----------
    values : the values, or what each is at least
    found : whether each is known

    Returns
    -------
    Interval
        The estimate is NaN where the median is not known, `high` infinite where it has no known
        upper end; both ends are NaN where there are fewer than `least_runs`.

    References
    ----------
    Conover (1999), "Practical Nonparametric Statistics", 3rd edition, section 3.2.

    >>> median([130.0] * 6, [False] * 6)[:3]
    (nan, 130.0, inf)
    >>> median([70.0, 71.0, 72.0, 73.0, 74.0, 130.0, 130.0], [True] * 5 + [False] * 2)[:3]
    (73.0, 70.0, inf)
    """
    lows = sorted(values)
    highs = sorted(value if known else math.inf for value, known in zip(values, found, strict=True))
    ends = statistics.median(lows), statistics.median(highs)
    estimate = ends[0] if ends[0] == ends[1] else math.nan
    n, rank = len(lows), _rank(len(lows), level)
    if not rank:
        return Interval(estimate, math.nan, math.nan, n, level)
    return Interval(estimate, lows[rank - 1], highs[n - rank], n, level)


def least_runs(level: float = LEVEL) -> int:
    """Return how many runs an interval on the median needs at least.

    >>> least_runs(0.95)
    6
    """
    return math.ceil(1 - math.log2(1 - level))


def _rank(n: int, level: float) -> int:
    """Return which smallest and largest value bound the median, counted from 1; 0 for none."""
    rank, outside = 0, 0.0
    for below in range(n // 2):
        outside += 2 * math.comb(n, below) / 2**n
        if outside > 1 - level:
            break
        rank = below + 1
    return rank
