"""What the servers of two reports had done by each second, drawn over each other."""

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from innolab.base.units import number
from innolab.compare import report_differences
from innolab.compare.compare import ReportComparison
from innolab.compare.report_differences import ArmKey
from innolab.record.run import arm_text
from innolab.record.series_store import SeriesStore
from innolab.report import figures

if TYPE_CHECKING:
    import pandas as pd

    # The series of an arm's runs in the first and in the second report.
    Both = tuple[list[pd.DataFrame], list[pd.DataFrame]]

# Columns of a series, what they count, and how many of it make one; that which says most of a
# server's work first. The last one grows in every server that does anything.
_COUNTERS = {
    "transactions": ("transactions", 1),
    "rows": ("rows", 1),
    "mysqld_read_bytes": ("GB read from the device", 1e9),
    "mysqld_cpu_s": ("seconds of processor time", 1),
}
_MOST_PANELS = 12
_COLUMNS = 3
_POINTS = 41
_TITLE_CHARACTERS = 36


def draw(found: ReportComparison, folder: Path) -> figures.Figure | None:
    """Write a figure of the arms that the reports differ in, and return it.

    Arms of changed verdicts come first, then those whose ratio of values leaves out 1. None where
    no such arm has a series in both reports.
    """
    arms = arms_apart(found)
    series = _series_of(found, arms)
    if not series:
        return None
    counter = next(
        name for name in _COUNTERS if all(_grows(both, name) for both in series.values())
    )
    curves, counted = _curves(found, series, counter), _COUNTERS[counter][0]
    said = (
        f"What the servers had done by each second, in {counted}: the median of an arm's runs, and "
        f"all between the least and the greatest. {_chosen(len(series), len(arms))}"
    )
    return figures.publish(
        _picture(curves, counted), "by-second", curves, folder=folder, caption=said,
        alt=f"{said} At the last second: {_ends(curves)}.",
    )  # fmt: skip


def arms_apart(found: ReportComparison) -> list[ArmKey]:
    """Return the arms to look at: of changed verdicts, then of ratios that leave out 1."""
    measured = list(
        dict.fromkeys(report_differences.key_of(run.factors) for run in found.runs[1].runs)
    )
    of_claims = [
        arm
        for pair in found.changed
        if (claim := found.claims.get(pair.claim))
        for side in claim.sides
        for arm in measured
        if dict(arm)["server"] == pair.server and report_differences.is_side(arm, side)
    ]
    differing = [row for row in found.ratios if row.differs]
    differing.sort(key=lambda row: -abs(math.log(row.ratio.estimate)))
    chosen = dict.fromkeys([*of_claims, *(row.key for row in differing)])
    with_series = [
        {report_differences.key_of(run.factors) for run in runs.runs if run.series}
        for runs in found.runs
    ]
    return [arm for arm in chosen if all(arm in arms for arms in with_series)]


def _series_of(found: ReportComparison, arms: Sequence[ArmKey]) -> "dict[ArmKey, Both]":
    """Return the series of the first arms that have some with work in them in both reports."""
    stores = [SeriesStore(report) for report in (found.first, found.second)]
    if any(store.faults() for store in stores):
        return {}
    chosen: dict[ArmKey, Both] = {}
    for arm in arms:
        first, second = (
            [_counts(store.read(run)) for run in runs.runs
             if run.series and not run.twin and report_differences.key_of(run.factors) == arm]
            for store, runs in zip(stores, found.runs, strict=True)
        )  # fmt: skip
        if _grows((first, second), list(_COUNTERS)[-1]):
            chosen[arm] = first, second
        if len(chosen) == _MOST_PANELS:
            break
    return chosen


def _grows(both: "Both", counter: str) -> bool:
    """Return whether a counter grew in some run of each report."""
    return all(any(counter in of and of[counter].max() > 0 for of in series) for series in both)


def _counts(series: "pd.DataFrame | None") -> "pd.DataFrame":
    """Return times in seconds and counts of a series, from 0; nothing of one that is not there."""
    import pandas as pd

    if series is None:
        return pd.DataFrame()
    frame = series[[name for name in ("t_s", *_COUNTERS) if name in series]]
    return frame - frame.iloc[0] if len(frame) else frame


def _curves(found: ReportComparison, series: "dict[ArmKey, Both]", counter: str) -> "pd.DataFrame":
    """Return what both reports' runs had counted by each second.

    A run that has ended has done all that it did. Columns: arm, report, t_s, median, least,
    greatest, runs.
    """
    import pandas as pd

    named = {report_differences.key_of(run.factors): arm_text(run) for run in found.runs[1].runs}
    parts = []
    for arm, both in series.items():
        of_counter = [[of for of in frames if counter in of and len(of)] for frames in both]
        longest = max(float(of["t_s"].iloc[-1]) for frames in of_counter for of in frames)
        for report, frames in zip((found.first, found.second), of_counter, strict=True):
            names = {"arm": f"{dict(arm)['server']}: {named[arm]}", "report": report.name}
            parts.append(_summary(frames, counter, longest).assign(**names))
    columns = ["arm", "report", "t_s", "median", "least", "greatest", "runs"]
    return pd.concat(parts, ignore_index=True)[columns]


def _summary(series: "Sequence[pd.DataFrame]", counter: str, longest: float) -> "pd.DataFrame":
    """Return median, least and greatest count of some runs by time in seconds."""
    import numpy
    import pandas as pd

    at = numpy.linspace(0, longest, _POINTS).round(3)
    one = _COUNTERS[counter][1]
    counts = numpy.array([numpy.interp(at, of["t_s"], of[counter] / one) for of in series])
    return pd.DataFrame(
        {
            "t_s": at,
            "median": numpy.median(counts, axis=0),
            "least": counts.min(axis=0),
            "greatest": counts.max(axis=0),
            "runs": len(series),
        }
    )


def _picture(curves: "pd.DataFrame", counted: str) -> Any:
    import seaborn
    from matplotlib.figure import Figure as Picture

    panels = list(curves.groupby("arm", sort=False))
    rows = math.ceil(len(panels) / _COLUMNS)
    picture = Picture(figsize=(8.6, 0.7 + 1.9 * rows), layout="constrained")
    axes = picture.subplots(rows, _COLUMNS, squeeze=False).flatten()
    reports = list(dict.fromkeys(curves["report"]))
    palette = dict(zip(reports, seaborn.color_palette("colorblind", 2), strict=False))
    for axis, (arm, of_arm) in zip(axes, panels, strict=False):
        for report, line in of_arm.groupby("report", sort=False):
            colour = palette[report]
            axis.plot(line["t_s"], line["median"], color=colour, linewidth=1.2, label=report)
            axis.fill_between(line["t_s"], line["least"], line["greatest"], color=colour,
                              alpha=0.2, linewidth=0)  # fmt: skip
        axis.set_title(textwrap.fill(str(arm), _TITLE_CHARACTERS), fontsize=7)
        axis.tick_params(labelsize=7)
        axis.set_ylim(bottom=0)
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    axes[0].legend(fontsize=7)
    picture.supxlabel("seconds", fontsize=8)
    picture.supylabel(counted, fontsize=8)
    return picture


def _chosen(shown: int, arms: int) -> str:
    said = "Arms of verdicts that changed come first, then those whose values differ most"
    return f"{said}." if shown == arms else f"{said}; {shown} of {arms} are shown."


def _ends(curves: "pd.DataFrame") -> str:
    """Return where each panel's two lines end, in words."""
    last = curves.groupby(["arm", "report"], sort=False)["median"].last()
    said = []
    for arm in dict.fromkeys(curves["arm"]):
        first, second = (number(value) for value in last[arm])
        said.append(f"{arm}: {first}, then {second}")
    return "; ".join(said)
