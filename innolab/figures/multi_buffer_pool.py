"""The figures of the study multi-buffer-pool."""

from pathlib import Path
from typing import Any

import pandas as pd

from innolab.analysis import claims, stats
from innolab.base.units import bytes_text
from innolab.figures import BLUE, GREY, ORANGE, Figure, canvas, publish
from innolab.record.runs import RunSet
from innolab.record.study import Factors
from innolab.studies.multi_buffer_pool import CASES, ORIGINAL_ROWS

_PASSES = {"1": ("first pass, cold", BLUE, -0.14), "2": ("second pass", ORANGE, 0.14)}
_MARKS = {
    "debug": ("published, debug build (retracted)", "x"),
    "corrected": ("published, corrected", "s"),
}


def passes(runs: RunSet, servers: list[str], folder: Path) -> Figure:
    """Return seconds of both passes by case: measured with intervals beside both published sets."""
    plotted = _pass_values(runs, servers)
    picture, axes = canvas(len(servers), 4.2, sharey=True)
    for axis, server in zip(axes, servers, strict=True):
        _draw_passes(axis, plotted[plotted.server.isin([server, ""])])
        axis.set_xticks(range(len(CASES)), _labels(runs), fontsize=7)
        axis.set_title(f"{server}, measured")
    axes[0].set_ylabel("seconds for one full scan (log scale)")
    handles, labels = axes[0].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    blocks = len({run.block for run in runs.runs})
    return publish(
        picture,
        "passes",
        plotted,
        f"Seconds for a full scan of {_rows(runs):,} rows, first and second pass after a cold "
        f"start. Measured points are geometric means over up to {blocks} restarts with 95 % "
        "intervals; small dots are the single runs. Squares are S3's corrected figures, crosses "
        "the ones it retracted; both come from one run each on other hardware, so compare shapes, "
        "not heights.",
        _alt_of_passes(plotted, servers),
        folder,
    )


def _pass_values(runs: RunSet, servers: list[str]) -> pd.DataFrame:
    rows: list[dict[str, Any]] = [
        {
            "kind": f"published {p.series}",
            "server": "",
            "case": p.case,
            "pass": p.pass_,
            "s": p.value,
        }
        for p in claims.published(runs.study.name).values()
        if p.quantity == "time" and _rows(runs) == ORIGINAL_ROWS
    ]
    for server in servers:
        for case in CASES:
            for number in _PASSES:
                values = runs.valid.values(f"pass{number}_s", server=server, case=case.name)
                where = {"server": server, "case": case.name, "pass": number}
                rows += [{"kind": "run", **where, "s": value} for value in values.values()]
                if values:
                    mean = stats.geometric_mean(list(values.values()))
                    ends = {"low_s": mean.low, "high_s": mean.high}
                    rows.append({"kind": "measured", **where, "s": mean.estimate, **ends})
    return pd.DataFrame(rows, columns=["kind", "server", "case", "pass", "s", "low_s", "high_s"])


def _draw_passes(axis: Any, values: pd.DataFrame) -> None:
    for number, (label, colour, shift) in _PASSES.items():
        of_pass = values[values["pass"] == number]
        runs = of_pass[of_pass.kind == "run"]
        axis.scatter(_places(runs, shift), runs.s, s=6, color=colour, alpha=0.5)
        mean = of_pass[of_pass.kind == "measured"]
        error = [mean.s - mean.low_s, mean.high_s - mean.s]
        at = _places(mean, shift)
        axis.errorbar(
            at,
            mean.s,
            yerr=error,
            fmt="o",
            ms=6,
            color=colour,
            capsize=3,
            label=f"measured, {label}",
        )
        for series, (_, mark) in _MARKS.items():
            rows = of_pass[of_pass.kind == f"published {series}"]
            axis.scatter(_places(rows, shift), rows.s, **_drawn(mark, colour))
    for label, mark in _MARKS.values():
        # For the legend alone. An empty scatter is drawn by some releases of matplotlib.
        axis.plot([], [], mark, label=label, color=GREY, mfc="none", ms=5.8, mew=1.3)
    if len(values):  # A logarithmic axis cannot be empty, as it is where no run is valid.
        axis.set_yscale("log")
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")


def _drawn(mark: str, colour: str) -> dict[str, Any]:
    """Return how a published point looks: crosses are lines, squares are hollow."""
    fill = {"facecolors": colour} if mark == "x" else {"facecolors": "none", "edgecolors": colour}
    return {"marker": mark, "s": 34, "linewidths": 1.3, **fill}


def _rows(runs: RunSet) -> int:
    """Return the rows of the table. Published times are of the original number and no other."""
    known = [run.conditions["dataset"]["rows"] for run in runs.runs if run.checks]
    return known[0] if known else 0


def _labels(runs: RunSet) -> list[str]:
    """Return each case by the sizes that ran, which smaller scales shrink."""
    levels = {run.factors["case"]: run.factors for run in runs.runs}
    return [_label(levels[case.name]) if case.name in levels else case.name for case in CASES]


def _label(levels: Factors) -> str:
    count = levels["buffer_pool_instances"]
    how = (
        "O_DIRECT"
        if levels["flush_method"] == "O_DIRECT"
        else f"{count} instance{'s' * (count != 1)}"
    )
    return f"{bytes_text(float(levels['buffer_pool_bytes']))}\n{how}"


def _places(rows: pd.DataFrame, shift: float) -> list[float]:
    names = [case.name for case in CASES]
    return [names.index(case) + shift for case in rows.case]


def _alt_of_passes(plotted: pd.DataFrame, servers: list[str]) -> str:
    mean = plotted[plotted.kind == "measured"]
    parts = []
    for server in servers:
        of = mean[mean.server == server].set_index(["case", "pass"]).s
        said = [
            f"{case.name} {of[case.name, '1']:.2f} then {of[case.name, '2']:.2f}"
            for case in CASES
            if (case.name, "1") in of.index
        ]
        parts.append(f"{server}: {', '.join(said) or 'no valid run'}")
    return f"Seconds of first then second pass by case, measured. {'; '.join(parts)}."


def instances(runs: RunSet, servers: list[str], folder: Path) -> Figure:
    """Return the pages that each of eight pool instances read in the first pass."""
    plotted = _instance_values(runs, servers)
    picture, (axis,) = canvas(1, 3.2)
    kinds = list(dict.fromkeys(plotted.kind))
    for i, kind in enumerate(kinds):
        rows = plotted[plotted.kind == kind]
        colour = GREY if kind == "published" else (BLUE, ORANGE)[(i - 1) % 2]
        face = "none" if kind == "published" else colour
        at = rows.instance + 0.18 * (i - (len(kinds) - 1) / 2)
        axis.scatter(at, rows.share_ratio, s=44, facecolors=face, edgecolors=colour, label=kind)
    axis.axhline(1, color=GREY, linewidth=0.8)
    axis.set_xlabel("buffer pool instance")
    axis.set_ylabel("pages read / even share")
    axis.legend(fontsize=8)
    largest = (plotted.share_ratio - 1).abs().groupby(plotted.kind).max()
    said = "; ".join(f"{kind} {largest[kind]:.2%}" for kind in kinds)
    return publish(
        picture,
        "instances",
        plotted,
        "How evenly the first pass spreads over the eight instances of the 2 GB pool: pages read "
        "by each, relative to an eighth of all. Measured points are means over all valid runs; "
        "published ones are S3's.",
        f"Pages read by each of eight instances, against an even share. Largest deviation: {said}.",
        folder,
    )


def _instance_values(runs: RunSet, servers: list[str]) -> pd.DataFrame:
    figures = claims.published(runs.study.name)
    counts: dict[str, list[Any]] = {
        "published": [[figures[f"instance-{i}-pages"].value for i in range(8)]]
    }
    for server in servers:
        lists = [
            run.metrics["pass1_pages_read_by_instance"]
            for run in runs.valid.runs
            if run.factors["server"] == server and run.factors["case"] == "2G-8"
        ]
        if lists:
            counts[f"{server}, measured"] = lists
    rows = []
    for kind, lists in counts.items():
        means = pd.DataFrame(lists).mean()
        for instance, pages in means.items():
            share = pages / means.mean()
            rows.append({"kind": kind, "instance": instance, "pages": pages, "share_ratio": share})
    return pd.DataFrame(rows)
