"""What the servers of two reports had done by each second, drawn over each other."""

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from innolab.base.units import number
from innolab.report import apart, companions, figures
from innolab.report.apart import ArmKey
from innolab.report.compare import Comparison

if TYPE_CHECKING:
    import pandas as pd

# Columns of a series and what they count, that which says most of a server's work first; the last
# one grows in every server that does anything.
_COUNTERS = {
    "transactions": "transactions",
    "rows": "rows",
    "mysqld_read_bytes": "bytes read from the device",
    "mysqld_cpu_s": "seconds of processor time",
}
_MOST_PANELS = 12
_COLUMNS = 3
_POINTS = 41
_TITLE_CHARACTERS = 36


def draw(found: Comparison, folder: Path) -> figures.Figure | None:
    """Write a figure of the arms that the reports differ in, and return it.

    Arms of changed verdicts come first, then those whose ratio of values leaves out 1. None where
    no such arm has a series in both reports.
    """
    arms = arms_apart(found)
    for counter, counted in _COUNTERS.items():
        curves = _curves(found, arms[:_MOST_PANELS], counter)
        if curves is not None:
            said = (
                f"What the servers had done by each second, in {counted}: the median of an arm's "
                f"runs, and all between the least and the greatest. {_chosen(len(arms))}"
            )
            return figures.publish(
                _picture(curves, counted), "by-second", curves, folder=folder, caption=said,
                alt=f"{said} At the last second: {_ends(curves)}.",
            )  # fmt: skip
    return None


def arms_apart(found: Comparison) -> list[ArmKey]:
    """Return the arms to look at: of changed verdicts, then of ratios that leave out 1."""
    measured = list(dict.fromkeys(apart.key_of(run.factors) for run in found.runs[1].runs))
    of_claims = [
        arm
        for pair in found.changed
        if (claim := found.claims.get(pair.claim))
        for side in claim.sides
        for arm in measured
        if dict(arm)["server"] == pair.server and apart.is_side(arm, side)
    ]
    differing = [row for row in found.ratios if row.differs]
    differing.sort(key=lambda row: -abs(math.log(row.ratio.estimate)))
    chosen = dict.fromkeys([*of_claims, *(row.key for row in differing)])
    with_series = [
        {apart.key_of(run.factors) for run in runs.runs if run.series} for runs in found.runs
    ]
    return [arm for arm in chosen if all(arm in arms for arms in with_series)]


def _curves(found: Comparison, arms: Sequence[ArmKey], counter: str) -> "pd.DataFrame | None":
    """Return what both reports' runs had counted by each second; None where an arm counted nothing.

    Columns: arm, report, t_s, median, least, greatest, runs.
    """
    import pandas as pd

    parts = []
    for arm in arms:
        of_arm = [
            _series(report, [str(run.series) for run in runs.runs
                             if run.series and not run.twin and apart.key_of(run.factors) == arm],
                    counter)
            for report, runs in zip((found.first, found.second), found.runs, strict=True)
        ]  # fmt: skip
        if not all(any(counts.max() > 0 for _, counts in series) for series in of_arm):
            return None
        longest = max(float(times[-1]) for series in of_arm for times, _ in series)
        for report, series in zip((found.first, found.second), of_arm, strict=True):
            names = {"arm": f"{dict(arm)['server']}: {apart.arm_text(arm)}", "report": report.name}
            parts.append(_summary(series, longest).assign(**names))
    if not parts:
        return None
    columns = ["arm", "report", "t_s", "median", "least", "greatest", "runs"]
    return pd.concat(parts, ignore_index=True)[columns]


def _series(report: Path, names: Sequence[str], counter: str) -> list[tuple[Any, Any]]:
    """Return times in seconds and counts of each series that can be read, both from 0."""
    import pandas as pd
    from pyarrow import parquet

    found = []
    for name in names:
        path = report / name
        if companions.unreadable(path) or counter not in parquet.read_schema(path).names:
            continue
        frame = pd.read_parquet(path, columns=["t_s", counter])
        if len(frame):
            found.append(tuple((frame[c] - frame[c].iloc[0]).to_numpy() for c in ("t_s", counter)))
    return found


def _summary(series: Sequence[tuple[Any, Any]], longest: float) -> "pd.DataFrame":
    """Return median, least and greatest count of some runs by time, while half of them go on."""
    import numpy
    import pandas as pd

    at = numpy.linspace(0, longest, _POINTS).round(3)
    counts = numpy.array([numpy.interp(at, *run, right=numpy.nan) for run in series])
    going = numpy.isfinite(counts).sum(axis=0)
    kept = 2 * going >= len(series)
    counts = counts[:, kept]
    return pd.DataFrame(
        {
            "t_s": at[kept],
            "median": numpy.nanmedian(counts, axis=0),
            "least": numpy.nanmin(counts, axis=0),
            "greatest": numpy.nanmax(counts, axis=0),
            "runs": going[kept],
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


def _chosen(arms: int) -> str:
    said = "Arms of verdicts that changed come first, then those whose values differ most"
    return f"{said}." if arms <= _MOST_PANELS else f"{said}; {_MOST_PANELS} of {arms} are shown."


def _ends(curves: "pd.DataFrame") -> str:
    """Return where each panel's two lines end, in words."""
    last = curves.groupby(["arm", "report"], sort=False)["median"].last()
    said = []
    for arm in dict.fromkeys(curves["arm"]):
        first, second = (number(value) for value in last[arm])
        said.append(f"{arm}: {first}, then {second}")
    return "; ".join(said)
