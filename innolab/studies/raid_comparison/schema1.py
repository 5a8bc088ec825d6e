"""Runs of schema 1, as the study's reference has them, in today's schema.

Then a run had metrics whose names began with a level (`t10_tps`), and an arm was named by a text of
its levels, its `case`. Names are looked up here by building them from levels; none is
taken apart. It goes with that report.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from innolab.studies.raid_comparison.seconds import unevenness

Body = dict[str, Any]
Rows = Iterator[dict[str, Any]]

_PERCENTILES = ("p50", "p95", "p99")
_WINDOW = ("tps", "pages_read_per_tx", "pages_written_per_tx", "redo_bytes_per_tx", "dirty_pages",
           "checkpoint_age_bytes", "pool_pages", "busy_share", "iowait_share")  # fmt: skip


def upgraded(body: Body) -> Body:
    """Return a run as of schema 2."""
    old = body["factors"]
    places = (old["device"], old["load"], old["distribution"])
    pools = {"/".join((*places, pool)): pool for pool in ("12G", "8G", "4G")}
    factors = {
        "server": old["server"],
        "device": old["device"],
        "load": old["load"],
        "distribution": old["distribution"],
        "pool": pools[old["case"]],
    }
    loads = body["conditions"].get("sysbench", {})
    within = [(name, {"threads": load["threads"]}) for name, load in _with_threads(loads)]
    if factors["pool"] == "4G":
        # Its disks are as fast as they are: these windows are what claims of such disks ask for.
        within += [(name, {**levels, "own_speed": 1}) for name, levels in within]
    rest = {name: value for name, value in body.items() if name != "metrics"}
    return {
        **rest,
        "schema": 2,
        "factors": factors,
        "observations": list(_raid(body, within)) if body["status"] == "complete" else [],
        "conditions": _listed(body, within),
    }


def _with_threads(loads: Body) -> list[tuple[str, Body]]:
    """Return loads with their threads: 0.1.0 wrote these with each second of a window alone."""
    return [
        (name, {**load, "threads": max(line["threads"] for line in load["intervals"])})
        for name, load in loads.items()
    ]


def _raid(body: Body, within: Sequence[tuple[str, Body]]) -> Rows:
    yield from _windows(body, within)
    whole = ["kept_ratio", *(f"fio_{kind}_per_s" for kind in _KINDS)]
    yield {name: body["metrics"][name] for name in whole if name in body["metrics"]}


_KINDS = ("read", "write", "mixed", "synced_write")


def _windows(body: Body, within: Sequence[tuple[str, Body]]) -> Rows:
    metrics, conditions = body["metrics"], body["conditions"]
    for name, levels in within:
        yield {
            **levels,
            **{p + "_s": metrics[f"{name}_{p}_ms"] / 1000 for p in _PERCENTILES},
            **{m: metrics[f"{name}_{m}"] for m in _WINDOW if f"{name}_{m}" in metrics},
            **unevenness(conditions["sysbench"][name]["intervals"]),
            "generator_share": conditions["sysbench"][name]["cpu_share"],
            "steady": int(conditions["steady"][name]["reached"]),
        }


def _listed(body: Body, within: Sequence[tuple[str, Body]]) -> Body:
    """Return conditions in which windows are rows instead of names."""
    found = {k: v for k, v in body["conditions"].items() if k not in ("sysbench", "steady")}
    for old, new in (("sysbench", "loads"), ("steady", "steady")):
        if old in body["conditions"]:
            found[new] = [
                {"label": name, "within": levels, **_renamed(body["conditions"][old][name])}
                for name, levels in within
                if name in body["conditions"][old]
            ]
    return found


def _renamed(row: Body) -> Body:
    return {{"mode": "load"}.get(name, name): value for name, value in row.items()}
