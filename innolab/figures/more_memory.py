"""The figures of the study more-memory."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from innolab.analysis import claims, stats
from innolab.analysis.claims import Verdict
from innolab.figures import BLUE, GREEN, GREY, ORANGE, Figure, canvas, publish
from innolab.record.runs import RunSet
from innolab.storage.profiles import HOST, profiles
from innolab.studies.forecast import Forecast, calibrated
from innolab.studies.more_memory import LEVELS

_PURPLE, _BLACK = "#CC79A7", "#000000"
_COLOURS = {
    "raid10-8x15k": BLUE,
    "x25-e": GREEN,
    "fusionio-320": ORANGE,
    "cap-2000": _PURPLE,
    HOST: _BLACK,
}
_MARKS = {"uniform": "o", "special": "^", "pareto": "s", "zipf": "D"}
_POINTS = {"C": "C", "0.9A": "B", "A": "A"}
_COLUMNS = ["kind", "server", "device", "level", "pool_ratio", "tps", "low_tps", "high_tps"]


def sweep(
    runs: RunSet, servers: list[str], found: list[Forecast], mode: str, folder: Path
) -> Figure:
    """Return throughput over buffer pool / data by device, measured, with the model's curves."""
    plotted = _sweep_values(runs, servers, found, mode)
    picture, axes = canvas(len(servers), 4.4, sharey=True)
    for axis, server in zip(axes, servers, strict=True):
        of = plotted[plotted.server == server]
        for device in _devices(runs):
            _draw_device(axis, of[of.device == device], device)
        for level, name in _POINTS.items():
            axis.axvline(LEVELS[level], color=GREY, linewidth=0.7, linestyle=":")
            axis.annotate(name, (LEVELS[level], 1.01), xycoords=("data", "axes fraction"),
                          ha="center", fontsize=8, color=GREY)  # fmt: skip
        axis.set_title(server, pad=16)
        axis.set_xlabel("buffer pool / data")
        if len(of):
            axis.set_yscale("log")
        _plain(axis.yaxis)
    axes[0].set_ylabel("transactions per second (log scale)")
    handles, labels = axes[0].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    words = mode.replace("_", "-")
    return publish(
        picture,
        f"sweep-{words}",
        plotted,
        f"Transactions per second over buffer pool / data, {words}, uniform access. Points are "
        f"measured on devices emulated by limits ({HOST} is the disk as it is): geometric means "
        "over restarts with 95 % intervals, single runs as dots. Dashed curves are modelled, "
        "fitted on the hollow points alone. Dotted lines mark the original's points A, B and C.",
        _alt_of_sweep(plotted, servers, words),
        folder,
    )


def _plain(axis: Any) -> None:
    """Write ticks as plain numbers, and none between the decades."""
    axis.set_major_formatter(lambda value, _: f"{value:,g}")
    axis.set_minor_formatter(lambda value, _: "")


def _devices(runs: RunSet) -> list[str]:
    return [name for name in [*profiles(), HOST] if name in runs.levels("device")]


def _sweep_values(
    runs: RunSet, servers: list[str], found: list[Forecast], mode: str
) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for server in servers:
        forecast = next((f for f in found if (f.server, f.mode) == (server, mode)), None)
        fitted = {arm.case for arm in forecast.fitted} if forecast else set()
        for device in _devices(runs):
            here = {"server": server, "device": device}
            for level in LEVELS:
                case = f"{device}/uniform/{level}"
                place = {**here, "level": level, "pool_ratio": LEVELS[level]}
                values = runs.valid.values(f"{mode}_tps", server=server, case=case)
                rows += [{"kind": "run", **place, "tps": value} for value in values.values()]
                if values:
                    mean = stats.geometric_mean(list(values.values()))
                    kind = "measured, fitted on" if case in fitted else "measured"
                    ends = {"low_tps": mean.low, "high_tps": mean.high}
                    rows.append({"kind": kind, **place, "tps": mean.estimate, **ends})
            if forecast and any(row["device"] == device for row in rows):
                rows += _modelled(forecast, here, runs)
    return pd.DataFrame(rows, columns=_COLUMNS)


def _modelled(forecast: Forecast, here: dict[str, str], runs: RunSet) -> list[dict[str, Any]]:
    device = calibrated(runs, here["device"])
    return [
        {"kind": "modelled", **here, "pool_ratio": x, "tps": forecast.tps(x, device)}
        for x in np.round(np.linspace(2 / 18, 22 / 18, 61), 4)
    ]


def _draw_device(axis: Any, values: pd.DataFrame, device: str) -> None:
    colour = _COLOURS.get(device, GREY)
    runs = values[values.kind == "run"]
    axis.scatter(runs.pool_ratio, runs.tps, s=6, color=colour, alpha=0.5)
    for kind, face in (("measured", colour), ("measured, fitted on", "white")):
        mean = values[values.kind == kind]
        axis.errorbar(
            mean.pool_ratio,
            mean.tps,
            yerr=[mean.tps - mean.low_tps, mean.high_tps - mean.tps],
            fmt="o",
            ms=5,
            color=colour,
            markerfacecolor=face,
            capsize=2,
            linewidth=1,
            label=device if kind == "measured" else None,
        )
    curve = values[values.kind == "modelled"]
    axis.plot(curve.pool_ratio, curve.tps, "--", color=colour, linewidth=1)


def _alt_of_sweep(plotted: pd.DataFrame, servers: list[str], words: str) -> str:
    mean = plotted[plotted.kind.str.startswith("measured")]
    said = []
    for (server, device), of in mean.groupby(["server", "device"], sort=False):
        points = of.sort_values("pool_ratio")
        said.append(
            f"{server} on {device}: "
            + ", ".join(f"{p.tps:.0f} at {p.pool_ratio:.2f}" for p in points.itertuples())
        )
    return f"Transactions per second, {words}, by buffer pool / data. {'; '.join(said)}."


def ratios(found: list[Verdict], servers: list[str], folder: Path) -> Figure:
    """Return every claim's ratio: published and measured with its interval."""
    judged = [v for v in found if v.estimate is not None]
    plotted = pd.DataFrame(
        [
            {
                "claim": v.claim,
                "server": v.server,
                "published": v.published,
                "ratio": v.estimate,
                "low_ratio": v.low,
                "high_ratio": v.high,
            }
            for v in judged
        ],
        columns=["claim", "server", "published", "ratio", "low_ratio", "high_ratio"],
    )
    names = list(dict.fromkeys(plotted.claim))
    picture, (axis,) = canvas(1, 1.2 + 0.2 * max(len(names), 4))
    for i, server in enumerate(servers):
        of = plotted[plotted.server == server]
        at = [names.index(claim) + 0.16 * (2 * i - len(servers) + 1) for claim in of.claim]
        error = [of.ratio - of.low_ratio, of.high_ratio - of.ratio]
        axis.errorbar(of.ratio, at, xerr=error, fmt="o", ms=4, capsize=2, linewidth=1,
                      color=(BLUE, ORANGE, GREEN)[i % 3], label=f"{server}, measured")  # fmt: skip
    known = plotted.dropna(subset=["published"]).drop_duplicates("claim")
    at = [names.index(claim) for claim in known.claim]
    axis.scatter(known.published, at, marker="s", s=30, facecolors="none", edgecolors=GREY,
                 label="published", zorder=3)  # fmt: skip
    axis.axvline(1, color=GREY, linewidth=0.8)
    axis.set_yticks(range(len(names)), names, fontsize=7)
    axis.invert_yaxis()
    if len(plotted):
        axis.set_xscale("log")
    _plain(axis.xaxis)
    axis.set_xlabel("ratio of throughputs (log scale)")
    axis.legend(fontsize=8, loc="lower right")
    said = "; ".join(f"{r.claim} {r.ratio:.3g} on {r.server}" for r in plotted.itertuples())
    return publish(
        picture,
        "ratios",
        plotted,
        "The ratio of which each claim speaks: squares are published, points measured within "
        "blocks with 95 % intervals. Claims without a square name no number.",
        f"Measured ratios by claim: {said or 'none'}.",
        folder,
    )


def accuracy(found: list[Forecast], folder: Path) -> Figure:
    """Return predicted over measured throughput of every arm that the model was not fitted on."""
    plotted = pd.DataFrame(
        [
            {
                "server": f.server,
                "load": f.mode,
                "case": arm.case,
                "measured_tps": arm.tps,
                "predicted_tps": f.model.tps(arm.point.miss_ratio, arm.point.device),
            }
            for f in found
            for arm in f.held
        ],
        columns=["server", "load", "case", "measured_tps", "predicted_tps"],
    )
    picture, (axis,) = canvas(1, 4.0)
    colours = dict(zip(dict.fromkeys(plotted.server), (BLUE, ORANGE, GREEN), strict=False))
    for (server, load), of in plotted.groupby(["server", "load"], sort=False):
        face = colours[server] if load == "read_only" else "white"
        axis.scatter(of.measured_tps, of.predicted_tps / of.measured_tps, s=26, facecolors=face,
                     edgecolors=colours[server], label=f"{server}, {load}")  # fmt: skip
    axis.axhline(1, color=GREY, linewidth=0.8)
    if len(plotted):
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.legend(fontsize=8)
        low, high = axis.get_ylim()
        axis.set_yticks([tick for tick in (0.1, 0.25, 0.5, 1, 2, 4, 10) if low <= tick <= high])
    _plain(axis.xaxis)
    _plain(axis.yaxis)
    axis.set_xlabel("measured transactions per second (log scale)")
    axis.set_ylabel("predicted / measured (log scale)")
    ratio = plotted.predicted_tps / plotted.measured_tps
    off = ratio.where(ratio >= 1, 1 / ratio) - 1
    said = f"median {off.median():.0%}, worst {off.max():.0%}" if len(plotted) else "no model"
    return publish(
        picture,
        "model-accuracy",
        plotted,
        "How the model does on arms that it was not fitted on, skewed access among them: predicted "
        "over measured throughput.",
        f"Predicted over measured throughput of {len(plotted)} held-out arms: {said}.",
        folder,
    )


def skew(runs: RunSet, servers: list[str], folder: Path) -> Figure:
    """Return read-only throughput by level and access, on the device that has skewed arms."""
    plotted = _skew_values(runs, servers)
    picture, axes = canvas(len(servers), 3.4, sharey=True)
    colours = dict(zip(_MARKS, (BLUE, ORANGE, GREEN, _PURPLE), strict=True))
    for axis, server in zip(axes, servers, strict=True):
        for distribution, mark in _MARKS.items():
            of = plotted[(plotted.server == server) & (plotted.access == distribution)]
            error = [of.tps - of.low_tps, of.high_tps - of.tps]
            axis.errorbar(of.pool_ratio, of.tps, yerr=error, fmt=mark, ms=5, capsize=2,
                          linewidth=1, label=distribution, color=colours[distribution])  # fmt: skip
        axis.set_title(server)
        axis.set_xlabel("buffer pool / data")
        if len(plotted):
            axis.set_yscale("log")
        _plain(axis.yaxis)
    axes[0].set_ylabel("transactions per second (log scale)")
    axes[0].legend(fontsize=8)
    said = "; ".join(
        f"{r.access} {r.tps:.0f} at {r.pool_ratio:.2f} on {r.server}" for r in plotted.itertuples()
    )
    return publish(
        picture,
        "access",
        plotted,
        "Read-only transactions per second by how ids are drawn, on the first device: geometric "
        "means over restarts with 95 % intervals. Where access is skewed, the points A, B and C "
        "of uniform access lie elsewhere.",
        f"Transactions per second by access: {said or 'none'}.",
        folder,
    )


def _skew_values(runs: RunSet, servers: list[str]) -> pd.DataFrame:
    skewed = {
        (str(run.factors["device"]), str(run.factors["case"]).split("/", 2)[2])
        for run in runs.runs
        if run.factors["distribution"] != "uniform"
    }
    rows = []
    for server in servers:
        for distribution in _MARKS:
            for device, level in sorted(skewed, key=lambda pair: LEVELS[pair[1]]):
                case = f"{device}/{distribution}/{level}"
                values = runs.valid.values("read_only_tps", server=server, case=case)
                if values:
                    mean = stats.geometric_mean(list(values.values()))
                    rows.append((server, distribution, level, LEVELS[level], *mean[:3]))
    columns = ["server", "access", "level", "pool_ratio", "tps", "low_tps", "high_tps"]
    return pd.DataFrame(rows, columns=columns)


def study_b(runs: RunSet, servers: list[str], folder: Path) -> Figure:
    """Return study B: the gain from 120 to 250 of 314 GB, published and measured by device."""
    figures = claims.published(runs.study.name)
    rows: list[tuple[str, str, float, float, float]] = []
    for mode, short in (("read_only", "ro"), ("read_write", "rw")):
        value = figures[f"b-250-{short}"].value / figures[f"b-120-{short}"].value
        rows.append(("published", f"fusionio-320, {mode}", value, value, value))
        for server in servers:
            here = _of(runs, server)
            for device in _devices(runs):
                top, bottom = (
                    {"case": f"{device}/uniform/{level}"} for level in ("250/314", "120/314")
                )
                values = here.pairs(f"{mode}_tps", top, bottom)
                if values[0]:
                    found = stats.paired_ratio(*values)
                    rows.append((server, f"{device}, {mode}", *found[:3]))
    plotted = pd.DataFrame(rows, columns=["kind", "arm", "ratio", "low_ratio", "high_ratio"])
    names = list(dict.fromkeys(plotted.arm))
    picture, (axis,) = canvas(1, 1.4 + 0.28 * len(names))
    kinds = ["published", *servers]
    for i, kind in enumerate(kinds):
        of = plotted[plotted.kind == kind]
        at = [names.index(arm) + 0.14 * (i - 1) for arm in of.arm]
        colour = (GREY, BLUE, ORANGE, GREEN)[i % 4]
        error = [of.ratio - of.low_ratio, of.high_ratio - of.ratio]
        axis.errorbar(of.ratio, at, xerr=error, fmt="s" if i == 0 else "o", ms=5, capsize=2,
                      linewidth=1, color=colour, label=kind)  # fmt: skip
    axis.axvline((314 - 120) / (314 - 250), color=GREY, linewidth=0.8, linestyle="--")
    axis.set_yticks(range(len(names)), names, fontsize=8)
    axis.invert_yaxis()
    axis.set_xlabel("throughput at 250/314 of the data in memory over that at 120/314")
    axis.legend(fontsize=8)
    said = "; ".join(f"{r.kind}, {r.arm} {r.ratio:.2f}" for r in plotted.itertuples())
    return publish(
        picture,
        "study-b",
        plotted,
        "What 2.08 times the memory gains, as in study B. The dashed line is the ratio of misses, "
        "the gain where the device alone decides.",
        f"Gain from 120/314 to 250/314 of the data in memory: {said}.",
        folder,
    )


def _of(runs: RunSet, server: str) -> RunSet:
    return runs.valid.where(lambda run: run.factors["server"] == server)
