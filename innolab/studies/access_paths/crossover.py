"""From which share of the rows a scan costs less than lookups: measured, and modelled."""

import math
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from innolab.analysis.stats import geometric_mean
from innolab.record.run import Run
from innolab.record.runs import RunSet
from innolab.storage.profiles import PAGE_BYTES

_BY = ["device", "server", "block"]


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


def crossings(cold: pd.DataFrame) -> pd.DataFrame:
    """Return where each path at random places crosses, a row a block.

    Columns: device, server, path, share.

    Parameters
    ----------
    cold : a row an observation from a cold start: factors, block, seconds
    """
    rows: list[dict[str, Any]] = []
    for (device, server, _block), of in cold.groupby(_BY, sort=False):
        scans = of.loc[of["path"] == "scan", "seconds"]
        for path, lookups in of[of["path"].str.startswith("far")].groupby("path", sort=False):
            if len(scans):
                share = crossing(list(lookups["share"]), list(lookups["seconds"]), scans.iloc[0])
                rows.append({"device": device, "server": server, "path": path, "share": share})
    return pd.DataFrame(rows, columns=["device", "server", "path", "share"]).dropna()


def modelled(runs: RunSet, observed: pd.DataFrame) -> pd.DataFrame:
    """Return where lookups cross by `Costs`, by device, server and path, which is far alone.

    The device's part is fio's, the processor's that of passes from memory: no cold run has a part
    in it. Columns: modelled, and fio's time for a page with an extent in flight, and for one alone.

    Parameters
    ----------
    observed : a row an observation: factors, cache, seconds
    """
    memory = observed[(observed["pool_ratio"] > 1) & (observed["cache"] == "warm")]
    passes = memory.groupby(["server", "path"], observed=True)["seconds"]
    means = {by: geometric_mean(list(of)).estimate for by, of in passes}
    rows = {}
    for run in runs.valid.runs:
        server, reads = run.factors["server"], run.conditions["device"].get("page_reads")
        scan_s, near_s = (means.get((server, path)) for path in ("scan", "near"))
        if reads and scan_s and near_s and float(run.factors["pool_ratio"]) < 1:
            share = float(f"{_costs(run, scan_s, near_s).crossing():.3g}")
            each_us = (float(f"{1e6 / reads[name]:.3g}") for name in ("ahead", "alone"))
            rows[run.factors["device"], server, "far"] = (share, *each_us)
    index = pd.MultiIndex.from_tuples(rows, names=["device", "server", "path"])
    columns = ["modelled", "64 in order, µs a page", "one alone, µs a page"]
    return pd.DataFrame(list(rows.values()), index, columns)


def _costs(run: Run, scan_s: float, near_s: float) -> Costs:
    data, reads = run.conditions["dataset"], run.conditions["device"]["page_reads"]
    return Costs(
        rows=data["rows"],
        pages=data["data_bytes"] / PAGE_BYTES,
        pool_pages=run.conditions["requested"]["innodb_buffer_pool_size"] / PAGE_BYTES,
        ahead_s=1 / reads["ahead"],
        alone_s=1 / reads["alone"],
        scan_s=scan_s,
        lookup_s=near_s / data["rows"],
    )
