"""From which share of the rows a scan costs less than lookups at random places."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike


def crossing(shares: ArrayLike, seconds: ArrayLike, scan_s: float) -> float:
    """Return the share at which lookups take as long as a scan; NaN where none was measured.

    Between two shares that were measured both axes are taken as logarithmic.

    Parameters
    ----------
    shares, seconds : float, shape (n,), in any order; lookups of more rows take longer
    scan_s : seconds of a scan of all rows

    >>> round(crossing([0.001, 0.01], [1.0, 10.0], 5.0), 6)
    0.005
    >>> crossing([0.001, 0.01], [1.0, 2.0], 5.0)
    nan
    """
    order = np.argsort(shares)
    x, y = np.log(np.asarray(shares)[order]), np.log(np.asarray(seconds)[order])
    if not y[0] <= math.log(scan_s) <= y[-1]:
        return math.nan
    return float(np.exp(np.interp(math.log(scan_s), y, x)))


class Costs(NamedTuple):
    """What a table costs on a device and a server.

    Attributes
    ----------
    rows, pages, pool_pages : of the table, and of the pool
    ahead_s, alone_s : seconds a page with an extent in flight in order, and one at a random place
    scan_s, lookup_s : the processor's seconds for all rows in order, and for one lookup
    """

    rows: int
    pages: float
    pool_pages: float
    ahead_s: float
    alone_s: float
    scan_s: float
    lookup_s: float

    def crossing(self) -> float:
        """Return the share at which lookups at random places cost as much as a scan, or NaN."""
        lookups = np.geomspace(1, self.rows, 2000)
        missed = pages_missed(lookups, self.pages, self.pool_pages)
        seconds = missed * self.alone_s + lookups * self.lookup_s
        scan_s = self.pages * self.ahead_s + self.scan_s
        return crossing(lookups / self.rows, seconds, scan_s)


def pages_missed(lookups: np.ndarray, pages: float, pool_pages: float) -> np.ndarray:
    """Return how many pages lookups at random places read into a pool that is empty at first.

    Until it is full, as many different ones as they fall on; then each misses the pages outside.

    References
    ----------
    Cardenas (1975), "Analysis and performance of inverted data base structures", CACM 18(5).

    >>> pages_missed(np.array([10.0, 1e6]), 1000.0, 250.0).round().tolist()
    [10.0, 750034.0]
    """
    stays = math.log1p(-1 / pages)
    full_at = math.log1p(-pool_pages / pages) / stays if pool_pages < pages else math.inf
    different = -pages * np.expm1(np.minimum(lookups, full_at) * stays)
    return different + np.maximum(lookups - full_at, 0) * max(1 - pool_pages / pages, 0)
