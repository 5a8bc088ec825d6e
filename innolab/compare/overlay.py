"""What the servers of several reports had done by each second, drawn over each other."""

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from innolab.base.units import number
from innolab.compare.compare import ReportComparison
from innolab.compare.report_differences import ArmKey, is_side, key_of
from innolab.record.run import arm_text
from innolab.record.series_store import SeriesStore
from innolab.report import figures

if TYPE_CHECKING:
    import pandas as pd

    # The series of an arm's runs, in each report.
    ByReport = list[list[pd.DataFrame]]

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


def draw(comparison: ReportComparison, folder: Path) -> figures.Figure | None:
    """Write a figure of the arms that the reports differ in, and return it.

    Arms of changed verdicts come first, then those whose ratio of values leaves out 1. None if no
    such arm has a series in all reports.
    """
    arms = _arms_to_show(comparison)
    series = _series_of(comparison, arms)
    if not series:
        return None
    counter = next(
        name for name in _COUNTERS if all(_grows(by_report, name) for by_report in series.values())
    )
    curves, counted = _curves(comparison, series, counter), _COUNTERS[counter][0]
    order = "Arms of verdicts that changed come first, then those whose values differ most"
    chosen = "" if len(series) == len(arms) else f"; {len(series)} of {len(arms)} are shown"
    caption = (
        f"What the servers had done by each second, in {counted}: the median of an arm's runs, and "
        f"all between the least and the greatest. {order}{chosen}."
    )
    return figures.publish(
        _picture(curves, counted), "by-second", curves, folder=folder, caption=caption,
        alt=f"{caption} At the last second: {_ends(curves)}.",
    )  # fmt: skip


def _arms_to_show(comparison: ReportComparison) -> list[ArmKey]:
    """Return the arms with series: of changed verdicts, then of ratios that leave out 1."""
    measured = list(dict.fromkeys(key_of(run.factors) for run in comparison.members[-1].runs.runs))
    of_claims = [
        arm
        for row in comparison.changed
        for side in row.claim.sides
        for arm in measured
        if dict(arm)["server"] == row.server and is_side(arm, side)
    ]
    of_ratios = [row.key for row in comparison.ratios if row.differs]
    with_series = [
        {key_of(run.factors) for run in member.runs.valid.runs if run.series}
        for member in comparison.members
    ]
    chosen = dict.fromkeys([*of_claims, *of_ratios])
    return [arm for arm in chosen if all(arm in arms for arms in with_series)]


def _series_of(comparison: ReportComparison, arms: Sequence[ArmKey]) -> "dict[ArmKey, ByReport]":
    """Return the series of the first arms that have some with work in them in all reports."""
    stores = [SeriesStore(member.folder) for member in comparison.members]
    if any(store.faults() for store in stores):
        return {}
    chosen: dict[ArmKey, ByReport] = {}
    for arm in arms:
        by_report = [
            [_counts(store.read(run)) for run in member.runs.valid.runs
             if run.series and not run.twin and key_of(run.factors) == arm]
            for store, member in zip(stores, comparison.members, strict=True)
        ]  # fmt: skip
        if _grows(by_report, list(_COUNTERS)[-1]):
            chosen[arm] = by_report
        if len(chosen) == _MOST_PANELS:
            break
    return chosen


def _grows(by_report: "ByReport", counter: str) -> bool:
    """Return whether a counter grew in some run of each report."""
    return all(
        any(counter in frame and frame[counter].max() > 0 for frame in frames)
        for frames in by_report
    )


def _counts(series: "pd.DataFrame | None") -> "pd.DataFrame":
    """Return times in seconds and counts of a series, from 0; nothing of one that is not there."""
    import pandas as pd

    if series is None:
        return pd.DataFrame()
    frame = series[[name for name in ("t_s", *_COUNTERS) if name in series]]
    return frame - frame.iloc[0] if len(frame) else frame


def _curves(
    comparison: ReportComparison, series: "dict[ArmKey, ByReport]", counter: str
) -> "pd.DataFrame":
    """Return what the reports' runs had counted by each second.

    A run that has ended has done all that it did. Columns: arm, report, t_s, median, least,
    greatest, runs.
    """
    import pandas as pd

    named = {key_of(run.factors): arm_text(run) for run in comparison.members[-1].runs.runs}
    parts = []
    for arm, by_report in series.items():
        counted = [[of for of in frames if counter in of and len(of)] for frames in by_report]
        longest = max(float(of["t_s"].iloc[-1]) for frames in counted for of in frames)
        for member, frames in zip(comparison.members, counted, strict=True):
            names = {"arm": f"{dict(arm)['server']}: {named[arm]}", "report": member.name}
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
    palette = dict(zip(reports, seaborn.color_palette("colorblind", len(reports)), strict=True))
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


def _ends(curves: "pd.DataFrame") -> str:
    """Return where each panel's lines end, as text."""
    last = curves.groupby(["arm", "report"], sort=False)["median"].last()
    return "; ".join(
        f"{arm}: {', then '.join(map(number, last[arm]))}" for arm in dict.fromkeys(curves["arm"])
    )
