"""Where lookups stop paying, by the runs of a report: measured, and modelled."""

from typing import Any

import pandas as pd

from innolab.analysis.stats import geometric_mean
from innolab.record.run import Run
from innolab.record.runs import RunSet
from innolab.storage.profiles import PAGE_BYTES
from innolab.studies.access_paths.lookups import Costs, crossing

_BY = ["device", "server", "block"]


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
