"""The figures of the study raid-comparison."""

from pathlib import Path
from typing import Any

import pandas as pd

from innolab.analysis import stats
from innolab.figures import BLUE, GREEN, GREY, ORANGE, Figure, canvas, publish
from innolab.record.runs import RunSet
from innolab.storage.profiles import HOST, MIXED_READ_SHARE
from innolab.studies.raid_comparison import ARRAYS, POOLS
from innolab.tables.raid_comparison import disk_iops, present, threads

_PURPLE, _BLACK, _SKY, _YELLOW = "#CC79A7", "#000000", "#56B4E9", "#F0E442"
_COLOURS = {
    "single-1": _BLACK,
    "raid1-2": BLUE,
    "raid1-4": _SKY,
    "raid1-split-4": _PURPLE,
    "raid5-4": ORANGE,
    "raid10-4": GREEN,
    "raid5-8": _YELLOW,
    "raid10-8": GREY,
}
_MARKS = dict(zip(_COLOURS, "xo^sDvP*", strict=True))
_COLUMNS = ["kind", "server", "pool", "array", "threads", "tps", "low_tps", "high_tps"]
_KINDS = {"read": ("reads", 1.0), "mixed": ("7 reads, 3 writes", MIXED_READ_SHARE),
          "write": ("writes", 0.0)}  # fmt: skip


def pools(runs: RunSet, servers: list[str], load: str, folder: Path) -> Figure:
    """Return throughput over threads by array, a panel a pool, as the seed's graphs had it."""
    plotted = pd.concat([_values(runs, server, load) for server in servers])
    picture, axes = canvas(len(POOLS), 0.7 + 3.2 * len(servers), len(servers), sharey=True)
    panels = [(server, pool) for server in servers for pool in POOLS]
    for axis, (server, pool) in zip(axes, panels, strict=True):
        of = plotted[(plotted.server == server) & (plotted.pool == pool)]
        for array in present(runs):
            _draw(axis, of[of.array == array], array)
        axis.set_title(f"{server}\n{pool}: {POOLS[pool]:.0%} of the data")
        axis.set_xlabel("threads")
        if len(of):
            axis.set_xscale("log")
        axis.set_xticks(threads(runs), [str(number) for number in threads(runs)])
        axis.minorticks_off()
    for axis in axes[:: len(POOLS)]:
        axis.set_ylabel("transactions per second")
        axis.set_ylim(bottom=0)
    handles, labels = axes[0].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    words = load.replace("_", "-")
    return publish(
        picture,
        f"pools-{words}",
        plotted,
        f"Transactions per second over threads by array, {words}, uniform access; a panel for each "
        "of the seed's buffer pools. Points are measured: geometric means over restarts with 95 % "
        "intervals, single runs as dots. The seed's own graphs are lost.",
        _alt(plotted, words, servers),
        folder,
    )


def _values(runs: RunSet, server: str, load: str) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for pool in POOLS:
        for array in present(runs):
            case = f"{array}/{load}/uniform/{pool}"
            for number in threads(runs):
                values = runs.valid.values(f"t{number}_tps", server=server, case=case)
                where = {"server": server, "pool": pool, "array": array, "threads": number}
                rows += [{"kind": "run", **where, "tps": value} for value in values.values()]
                if values:
                    mean = stats.geometric_mean(list(values.values()))
                    ends = {"low_tps": mean.low, "high_tps": mean.high}
                    rows.append({"kind": "measured", **where, "tps": mean.estimate, **ends})
    return pd.DataFrame(rows, columns=_COLUMNS)


def _draw(axis: Any, values: pd.DataFrame, array: str) -> None:
    colour = _COLOURS[array]
    runs = values[values.kind == "run"]
    axis.scatter(runs.threads, runs.tps, s=5, color=colour, alpha=0.5)
    mean = values[values.kind == "measured"]
    axis.errorbar(
        mean.threads,
        mean.tps,
        yerr=[mean.tps - mean.low_tps, mean.high_tps - mean.tps],
        marker=_MARKS[array],
        ms=5,
        linewidth=1.2,
        color=colour,
        capsize=2,
        label=array,
    )


def _alt(plotted: pd.DataFrame, words: str, servers: list[str]) -> str:
    mean = plotted[plotted.kind == "measured"]
    parts = []
    for server in servers:
        for pool in POOLS:
            of = mean[(mean.server == server) & (mean.pool == pool)]
            best = of.loc[of.groupby("array").tps.idxmax()] if len(of) else of
            said = [f"{row.array} {row.tps:.0f} at {row.threads}" for row in best.itertuples()]
            parts.append(f"{server}, {pool}: {', '.join(said) or 'no valid run'}")
    return (
        f"Most transactions per second of each array and the threads they came at, {words}. "
        f"{'; '.join(parts)}."
    )


def formula(runs: RunSet, folder: Path) -> Figure:
    """Return what fio got from each array over what N d / (r + w p) says."""
    plotted = _calibrations(runs)
    picture, axes = canvas(len(_KINDS), 3.2)
    for axis, (kind, (words, _)) in zip(axes, _KINDS.items(), strict=True):
        of = plotted[plotted.work == kind]
        most = of[["predicted_per_s", "measured_per_s"]].max().max() if len(of) else 1
        axis.plot([0, most * 1.1], [0, most * 1.1], color=GREY, linewidth=0.8)
        for array in present(runs):
            one = of[of.array == array]
            axis.scatter(one.predicted_per_s, one.measured_per_s, s=34, color=_COLOURS[array],
                         marker=_MARKS[array], label=array)  # fmt: skip
        axis.set_title(words)
        axis.set_xlabel("N d / (r + w p)")
    axes[0].set_ylabel("fio, pages of 16 KiB a second")
    handles, labels = axes[0].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    off = (plotted.measured_per_s / plotted.predicted_per_s - 1).abs()
    worst = "unknown" if off.empty else f"{off.max():.1%}"
    return publish(
        picture,
        "formula",
        plotted,
        "What fio measured on each array, each time that it was made, over what the formula "
        "predicts from the speed of one disk; on the grey line they agree.",
        f"Measured over predicted operations a second. The largest deviation is {worst}.",
        folder,
    )


def _calibrations(runs: RunSet) -> pd.DataFrame:
    found: dict[tuple[str, int], Any] = {}
    for run in runs.runs:
        device = run.conditions.get("device", {})
        if device.get("array") and run.factors["device"] != HOST:
            found[str(run.factors["device"]), run.block] = device["calibration"]
    disk = disk_iops(runs)
    rows = [
        {
            "array": array,
            "block": block,
            "work": kind,
            "predicted_per_s": ARRAYS[array].iops(disk, share),
            "measured_per_s": calibration[f"{kind}_per_s"],
        }
        for (array, block), calibration in sorted(found.items())
        for kind, (_, share) in _KINDS.items()
    ]
    return pd.DataFrame(
        rows, columns=["array", "block", "work", "predicted_per_s", "measured_per_s"]
    )
