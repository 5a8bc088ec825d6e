"""Runs of schema 1, measured by innolab 0.1.0 and 0.2.0, as today's schema has them.

Then a run had metrics whose names began with a level (`t10_tps`, `pass1_s`), and an arm was named
by a text of its levels, its `case`. Names are looked up here by building them from levels; none is
taken apart. The reference reports of these versions are read by it.
"""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

Body = dict[str, Any]
Rows = Iterator[dict[str, Any]]

_SWAPPED = {"mysqld_cpu_s": "cpu_s", "s": "seconds"}
_PASS = ("s", "rows_per_s", "mysqld_cpu_s", "kernel_cpu_s", "read_bytes", "pages_read")
_PERCENTILES = ("p50", "p95", "p99")
_WINDOW = ("tps", "pages_read_per_tx", "pages_written_per_tx", "redo_bytes_per_tx", "dirty_pages",
           "checkpoint_age_bytes", "pool_pages", "busy_share", "iowait_share")  # fmt: skip
_CURVE = ("per_s", "read_bytes_per_s", "written_bytes_per_s", "reads_per_s", "writes_per_s",
          "busy_share", "iowait_share", "mysqld_share", "dirty_pages",
          "checkpoint_age_bytes")  # fmt: skip
_SPANS = ("early", "middle", "late")
_BIN_MROWS = 10


def _upgraded(body: Body, factors: Mapping[str, Any], rows: Rows, conditions: Body) -> Body:
    rest = {name: value for name, value in body.items() if name != "metrics"}
    observations = list(rows) if body["status"] == "complete" else []
    return {
        **rest,
        "schema": 2,
        "factors": dict(factors),
        "observations": observations,
        "conditions": conditions,
    }


def multi_buffer_pool(body: Body) -> Body:
    """Return a run of multi-buffer-pool."""
    old = body["factors"]
    direct = {"fsync": "", "O_DIRECT": "-direct"}[old["flush_method"]]
    instances = old["buffer_pool_instances"]
    pools = {f"{pool}-{instances}{direct}": pool for pool in ("128M", "256M", "2G")}
    factors = {
        "server": old["server"],
        "pool": pools[old["case"]],
        "instances": instances,
        "flush_method": old["flush_method"],
    }
    return _upgraded(body, factors, _passes(body["metrics"]), body["conditions"])


def _passes(metrics: Body) -> Rows:
    for number in (1, 2):
        values = {_SWAPPED.get(name, name): metrics[f"pass{number}_{name}"] for name in _PASS}
        yield {"pass": number, **values}
        for instance, pages in enumerate(metrics[f"pass{number}_pages_read_by_instance"]):
            yield {"pass": number, "instance": instance, "instance_pages_read": pages}
    yield {"pool_kept_ratio": metrics["pool_kept_ratio"]}


def more_memory(body: Body) -> Body:
    """Return a run of more-memory."""
    names = ("server", "device", "load", "distribution", "pool_ratio")
    factors = {name: body["factors"][name] for name in names}
    within: dict[str, dict[str, Any]] = {factors["load"]: {}}
    return _upgraded(body, factors, _windows(body, within), _listed(body, within))


def raid_comparison(body: Body) -> Body:
    """Return a run of raid-comparison."""
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
    within = {name: {"threads": load["threads"]} for name, load in _with_threads(loads)}
    return _upgraded(body, factors, _raid(body, within), _listed(body, within))


def _with_threads(loads: Body) -> list[tuple[str, Body]]:
    """Return loads with their threads: 0.1.0 wrote these with each second of a window alone."""
    return [
        (name, {**load, "threads": max(line["threads"] for line in load["intervals"])})
        for name, load in loads.items()
    ]


def _raid(body: Body, within: Mapping[str, Body]) -> Rows:
    yield from _windows(body, within)
    whole = ["kept_ratio", *(f"fio_{kind}_per_s" for kind in _KINDS)]
    yield {name: body["metrics"][name] for name in whole if name in body["metrics"]}


_KINDS = ("read", "write", "mixed", "synced_write")


def _windows(body: Body, within: Mapping[str, Body]) -> Rows:
    metrics, conditions = body["metrics"], body["conditions"]
    for name, levels in within.items():
        yield {
            **levels,
            **{p + "_s": metrics[f"{name}_{p}_ms"] / 1000 for p in _PERCENTILES},
            **{m: metrics[f"{name}_{m}"] for m in _WINDOW if f"{name}_{m}" in metrics},
            "generator_share": conditions["sysbench"][name]["cpu_share"],
            "steady": int(conditions["steady"][name]["reached"]),
        }


def _listed(body: Body, within: Mapping[str, Body]) -> Body:
    """Return conditions in which windows are rows instead of names."""
    found = {k: v for k, v in body["conditions"].items() if k not in ("sysbench", "steady")}
    for old, new in (("sysbench", "loads"), ("steady", "steady")):
        if old in body["conditions"]:
            found[new] = [
                {"label": name, "within": levels, **_renamed(body["conditions"][old][name])}
                for name, levels in within.items()
                if name in body["conditions"][old]
            ]
    return found


def _renamed(row: Body) -> Body:
    return {{"mode": "load"}.get(name, name): value for name, value in row.items()}


def compressed_insert(body: Body) -> Body:
    """Return a run of compressed-insert."""
    old = body["factors"]
    pools = {
        "/".join((old["device"], old["format"], old["keys"], pool)): pool for pool in ("4G", "8G")
    }
    factors = {
        "server": old["server"],
        "device": old["device"],
        "pool": pools[old["case"]],
        "format": old["format"],
        "keys": old["keys"],
    }
    conditions = {k: v for k, v in body["conditions"].items() if k != "sysbench"}
    if "sysbench" in body["conditions"]:
        loads = body["conditions"]["sysbench"].items()
        conditions["loads"] = [{"label": name, **load} for name, load in loads]
    return _upgraded(body, factors, _grown(body["metrics"]), conditions)


def _with_operations(curve: Body) -> Body:
    return {**curve, "operations_per_s": curve["reads_per_s"] + curve["writes_per_s"]}


def _grown(metrics: Body) -> Rows:
    for place in range(len(metrics["curve_per_s"])):
        curve = {name: metrics[f"curve_{name}"][place] for name in _CURVE}
        yield {"mrows": (place + 1) * _BIN_MROWS, **_with_operations(curve)}
    for span in _SPANS:
        names = [name for name in _CURVE if f"{span}_{name}" in metrics]
        yield {
            "span": span,
            **_with_operations({name: metrics[f"{span}_{name}"] for name in names}),
        }
    parts = {f"{part}_{name}" for part, name in product(("curve", *_SPANS), _CURVE)}
    yield {name: value for name, value in metrics.items() if name not in parts}
