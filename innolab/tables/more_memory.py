"""The tables and sentences of the study more-memory."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from innolab.analysis import claims, stats
from innolab.base.units import bytes_text
from innolab.record.run import Run
from innolab.record.runs import RunSet
from innolab.storage.profiles import HOST, Calibration, profiles
from innolab.studies import knees
from innolab.studies.forecast import MODES
from innolab.studies.more_memory import LEVELS

# Notebooks of older reports call `published` here.
from innolab.tables import Table, Text, interval
from innolab.tables import published as published

# What a claim of A2 to A4 says of the curve: the throughput at A over that at C, if throughput
# never falls as memory grows. Below 0.9 A it is at most A's over 2.6, at or above A it is A's.
_GAINS_AT = {"1.6C": "c-gain-small", "2.5C": "c-gain-large", "2.6C": "c-gain-large",
             "3.5C": "c-gain-large", "3.6C": "c-gain-large"}  # fmt: skip


_KINDS = {
    "read": "reads",
    "write": "writes",
    "mixed": "7 reads to 3 writes",
    "synced_write": "synced writes",
}


def conflicts(runs: RunSet, servers: Sequence[str]) -> Table:
    """Return what each claim of A2 and A4 implies for one number, A over C, beside that number."""
    figures = claims.published(runs.study.name)
    drop = figures["b-slowdown"].value
    rows = [
        {
            "published": f"{figures[gain].value:g} times at {level}",
            "implies for A over C": f"exactly {figures[gain].value:g}"
            if LEVELS[level] >= 1
            else f"at least {figures[gain].value * drop:g}, with A2's {drop:g}",
        }
        for level, gain in _GAINS_AT.items()
    ]
    k = (drop - 1) / 0.1
    rows.append(
        {
            "published": f"{drop:g} times between 0.9 A and A",
            "implies for A over C": f"{1 + k * 2 / 3:.1f}, where time grows with misses alone",
        }
    )
    for server in servers:
        for mode in MODES:
            here = _of(runs, server)
            found = _gain(here, f"{mode}_tps", "raid10-8x15k/uniform/A", _C) or "not measured"
            rows.append({"published": f"measured, {server}, {mode}", "implies for A over C": found})
    return Table(rows)


def devices(runs: RunSet, missing: Mapping[str, str]) -> Table:
    """Return what each device should give and what fio got from it, pages of 16 KiB a second.

    A resumed session calibrates anew, so a device may have several rows.
    """
    seen: dict[str, dict[str, Any]] = {}
    for name in _devices(runs):
        for run in runs.runs:
            if run.factors["device"] == name and "device" in run.conditions:
                facts = run.conditions["device"]
                seen.setdefault(json.dumps([name, facts["calibration"]]), facts)
    rows = [_device(facts) for facts in seen.values()]
    rows += [{"device": name, "kind": f"not run: {why}"} for name, why in missing.items()]
    return Table(rows or [{"device": "none", "kind": "no run came as far as its device"}])


def _device(facts: Mapping[str, Any]) -> dict[str, str]:
    found = Calibration(**facts["calibration"])
    profile = profiles().get(facts["name"])
    wanted = {}
    if profile is not None:
        wanted = {
            "read": profile.pages_per_s("read"),
            "write": profile.pages_per_s("write"),
            "mixed": profile.mixed_pages_per_s(),
        }
    return {
        "device": facts["name"],
        "kind": f"emulated, on {facts['emulated']['backing']}" if profile else "as it is",
        **{
            title: f"{found._asdict()[f'{kind}_per_s']:,.0f}"
            + (f" of {wanted[kind]:,.0f}" if kind in wanted else "")
            for kind, title in _KINDS.items()
        },
        "source": profile.source if profile else "this host",
    }


def _devices(runs: RunSet) -> list[str]:
    known = [*profiles(), HOST]
    return sorted(runs.levels("device"), key=known.index)


def arms(runs: RunSet) -> Table:
    """Return the arms by device and access, with their pools and how many runs are valid."""
    counts = Counter((_series(run), run.valid) for run in runs.runs)
    levels: dict[Any, set[str]] = {}
    for run in runs.runs:
        levels.setdefault(_series(run), set()).add(_level(run))
    order = list(LEVELS)
    return Table(
        [
            {
                "server": server,
                "device": device,
                "load": load,
                "access": distribution,
                "pool over data": ", ".join(sorted(of, key=order.index)),
                "valid runs": counts[(server, device, load, distribution), True],
                "invalid or failed": counts[(server, device, load, distribution), False],
            }
            for (server, device, load, distribution), of in sorted(levels.items())
        ]
    )


def _series(run: Run) -> tuple[str, ...]:
    names = ("server", "device", "load", "distribution")
    return tuple(str(run.factors[name]) for name in names)


def _level(run: Run) -> str:
    return str(run.factors["case"]).split("/", 2)[2]


def pools(runs: RunSet) -> Table:
    """Return what the levels are: pool over data, and the pool's size for each server and load."""
    rows: dict[str, dict[str, Any]] = {}
    for run in sorted(runs.runs, key=lambda r: (float(r.factors["pool_ratio"]), r.trial)):
        if run.checks:
            row = rows.setdefault(_level(run), {"level": _level(run)})
            row["pool over data"] = f"{run.factors['pool_ratio']:.3f}"
            load = run.factors["load"]
            pages = run.metrics[f"{load}_pool_pages"]
            assert isinstance(pages, int)
            row[f"{run.factors['server']}, {load}"] = bytes_text(pages * 16 * 1024)
    return Table([dict(sorted(row.items(), key=_columns)) for row in rows.values()])


def _columns(item: tuple[str, Any]) -> tuple[bool, bool, str]:
    return item[0] != "level", item[0] != "pool over data", item[0]


def throughput(runs: RunSet, mode: str) -> Table:
    """Return transactions per second by level and device, uniform access, with 95 % intervals."""
    return _by_level(
        runs,
        {device: (device, "uniform") for device in _devices(runs)},
        lambda arm: _values(runs, f"{mode}_tps", arm),
    )


def headline(runs: RunSet) -> list[str]:
    """Return the question's answer in measured numbers, a sentence for each server and load."""
    said = []
    for server in runs.levels("server"):
        for load in MODES:
            here = _of(runs, server)
            values = here.values(f"{load}_tps", case="raid10-8x15k/uniform/C")
            gains = {words: _gain(here, f"{load}_tps", *of) for words, of in _HEADLINE.items()}
            if values and all(gains.values()):
                at = stats.geometric_mean(list(values.values())).estimate
                said.append(
                    f"{server}, {load}: with a third of the data in memory RAID10 gives "
                    f"{at:,.0f} transactions a second. "
                    + "; ".join(f"{words} {gain} times" for words, gain in gains.items())
                    + "."
                )
    return said


_C = "raid10-8x15k/uniform/C"
_HEADLINE = {
    "Twice the memory gives": ("raid10-8x15k/uniform/2C", _C),
    "memory for all data": ("raid10-8x15k/uniform/A", _C),
    "X25-E instead": ("x25-e/uniform/C", _C),
    "FusionIO instead": ("fusionio-320/uniform/C", _C),
    "a tenth less memory than the data needs costs": (
        "raid10-8x15k/uniform/A",
        "raid10-8x15k/uniform/0.9A",
    ),
}


def _gain(runs: RunSet, metric: str, of: str, to: str) -> str:
    top, bottom = runs.pairs(metric, {"case": of}, {"case": to})
    return interval(stats.paired_ratio(top, bottom)) if top else ""


def points(runs: RunSet) -> Table:
    """Return where each curve has the original's points, found by machine, with intervals."""
    factor = claims.published(runs.study.name)["b-slowdown"].value
    rows = []
    for server in runs.levels("server"):
        for load in MODES:
            for device in _devices(runs):
                at = knees.found(runs, server, device, load, factor)
                if len(at) > 1:
                    rows.append(
                        {
                            "server": server,
                            "load": load,
                            "device": device,
                            "A: pool / data": _found(at, "A"),
                            "slower at 0.9 A": _found(at, "slowdown"),
                            f"{factor:g} times slower at": _found(at, "fall"),
                            "A over C": _found(at, "C"),
                        }
                    )
    return Table(rows) if rows else Table([{"points": "no curve has the levels for them"}])


def _found(points_: Mapping[str, stats.Interval], name: str) -> str:
    return interval(points_[name]) if name in points_ else "not within the levels"


def skewed(runs: RunSet) -> Table | Text:
    """Return read-only transactions per second by level and access, on the first device."""
    device = next(
        (str(r.factors["device"]) for r in runs.runs if r.factors["distribution"] != "uniform"),
        _devices(runs)[0],
    )
    found = [
        d for d in ("uniform", "special", "pareto", "zipf") if d in runs.levels("distribution")
    ]
    levels = {_level(run) for run in runs.runs if run.factors["distribution"] != "uniform"}
    if not levels:
        return Text(["No arm with skewed access at this scale."])
    return _by_level(
        runs,
        {f"{device}, {name}": (device, name) for name in found},
        lambda arm: _values(runs, "read_only_tps", arm),
        [level for level in LEVELS if level in levels],
    )


def _by_level(
    runs: RunSet,
    columns: Mapping[str, tuple[str, str]],
    values: Callable[[dict[str, str]], list[float]],
    levels: Sequence[str] = tuple(LEVELS),
) -> Table:
    rows = []
    for server in runs.levels("server"):
        for level in levels:
            row: dict[str, Any] = {}
            for column, (device, distribution) in columns.items():
                case = f"{device}/{distribution}/{level}"
                if found := values({"server": server, "case": case}):
                    row[column] = interval(stats.geometric_mean(found))
            if row:
                head = {"server": server, "level": level, "ratio": f"{LEVELS[level]:.3f}"}
                rows.append({**head, **{name: row.get(name, "") for name in columns}})
    return Table(rows)


def _values(runs: RunSet, metric: str, arm: Mapping[str, Any]) -> list[float]:
    return list(runs.valid.values(metric, **arm).values())


def costs(runs: RunSet, mode: str) -> Table:
    """Return what a transaction cost, and its service times, by arm with uniform access."""
    rows = []
    for server in runs.levels("server"):
        for device in _devices(runs):
            for level in LEVELS:
                arm = {"server": server, "case": f"{device}/uniform/{level}"}
                if _values(runs, f"{mode}_tps", arm):
                    head = {"server": server, "device": device, "level": level}
                    rows.append({**head, **_cost(runs, mode, arm)})
    return Table(rows)


def _cost(runs: RunSet, mode: str, arm: Mapping[str, Any]) -> dict[str, str]:
    def mean(metric: str) -> float:
        values = _values(runs, f"{mode}_{metric}", arm)
        return sum(values) / len(values)

    of = [
        run
        for run in runs.valid.runs
        if run.factors["load"] == mode
        and all(run.factors[name] == level for name, level in arm.items())
    ]
    reached = sum(run.conditions["steady"][mode]["reached"] for run in of)
    generator = max(run.conditions["sysbench"][mode]["cpu_share"] for run in of)
    return {
        "pages read": f"{mean('pages_read_per_tx'):.2f}",
        "pages written": f"{mean('pages_written_per_tx'):.2f}",
        "redo (KB)": f"{mean('redo_bytes_per_tx') / 1000:.1f}",
        "p50 (ms)": f"{mean('p50_ms'):.1f}",
        "p95 (ms)": f"{mean('p95_ms'):.1f}",
        "p99 (ms)": f"{mean('p99_ms'):.1f}",
        "sysbench's CPU": f"{generator:.0%}",
        "steady": f"{reached} of {len(of)}",
    }


def _of(runs: RunSet, server: str) -> RunSet:
    return runs.valid.where(lambda run: run.factors["server"] == server)
