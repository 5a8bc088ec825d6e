"""From which share of the rows a scan is cheaper than lookups: measured, and by fio alone. Pure."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from innolab.record.runs import RunSet
from innolab.storage.profiles import PAGE_BYTES

_BY = ["device", "server", "block"]


def crossing(shares: Sequence[float], seconds: Sequence[float], scan_s: float) -> float:
    """Return the share at which lookups take as long as a scan; NaN where none was measured.

    Between two measured shares both axes are taken as logarithmic.

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


def by_fio(runs: RunSet) -> pd.DataFrame:
    """Return the crossing that fio's reads in order and alone give, by device and server.

    Pages of the table / reads in order a second = share x rows / reads alone a second. Only devices
    of service times are asked for both.
    """
    rows = {}
    for run in runs.valid.runs:
        found = {
            row["load"]: row["found_per_s"] for row in run.conditions["device"].get("fidelity", [])
        }
        if found:
            data = run.conditions["dataset"]
            scan_s = data["data_bytes"] / PAGE_BYTES / found["read_in_order"]
            share = scan_s * found["read_alone"] / data["rows"]
            rows[run.factors["device"], run.factors["server"]] = float(f"{share:.3g}")
    index = pd.MultiIndex.from_tuples(rows, names=["device", "server"]) if rows else None
    return pd.DataFrame({"by fio's two numbers": list(rows.values())}, index=index)
