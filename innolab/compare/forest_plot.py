"""The forest plot of a claim: what each report estimates, what all do, and what a further one may.

An interval that goes far beyond the reports' own is cut, with an arrow at its end: otherwise that
of few reports together would leave the reports themselves a dot each.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from innolab.analysis.claims import Claim, Comparison
from innolab.analysis.claims_together import PooledClaim
from innolab.analysis.stats import Interval
from innolab.compare.compare import estimate_text
from innolab.report import figures

if TYPE_CHECKING:
    import pandas as pd

TOGETHER, FURTHER = "together", "a further host"
# Of the width that the reports and the claim's bounds need: how far the one of all may widen it.
_MOST_WIDER = 0.5
# As a factor, or as a share of the value: what equal values are shown in.
_LEAST_WIDTH = 0.1
_MARGIN = 0.04
# Ticks of a logarithmic axis that shows less than this factor are not powers and halves of ten.
_NARROW = 6.0
# The first colour of seaborn's palette for the colour-blind, as in other figures.
_BLUE = "#0173b2"
_TITLE_SIZE, _LETTER_SIZE = 8.5, 7.5


class _Line(NamedTuple):
    """A line of a forest plot; `weight` is the share of a report in the meta-analysis."""

    name: str
    interval: Interval | None
    enters: bool = True
    weight: float | None = None
    verdict: str = ""


def is_drawable(row: PooledClaim) -> bool:
    """Return whether two reports or more have an interval that the claim's axis can show."""
    return sum(_can_be_shown(part.interval, row) for part in row.parts) > 1


def draw(rows: Sequence[PooledClaim], units: Mapping[str, str], folder: Path) -> figures.Figure:
    """Write the figure of one claim, a panel for each server, and return it."""
    claim = rows[0].claim
    caption = (
        f"{claim.id}: each report's estimate of all its blocks with its 95 % interval (hollow: "
        "withheld or not judged). An arrow: the interval goes on. Where the ground is grey, the "
        "claim is true; a dotted line is the published value."
    )
    if any(row.pooled for row in rows):
        caption += (
            " Together: the mean over hosts like these. A further host: where a further report "
            "puts its estimate, 19 times in 20."
        )
    values = "; ".join(
        f"{row.server}: "
        + ", ".join(f"{line.name} {estimate_text(line.interval)}" for line in _lines(row))
        for row in rows
    )
    return figures.publish(
        _picture(rows, _axis_text(claim, units)), figures.file_name(f"forest-{claim.id}"),
        _values(rows), folder=folder, caption=caption, alt=f"{caption} {values}.",
    )  # fmt: skip


def _lines(row: PooledClaim) -> Iterator[_Line]:
    for part in row.parts:
        yield _Line(
            part.report, part.interval, part.why_not is None, row.weight(part), part.outcome
        )
    if row.pooled:
        yield _Line(TOGETHER, row.pooled.interval, verdict=row.outcome)
        if row.pooled.predicted:
            yield _Line(FURTHER, row.pooled.predicted)


def _values(rows: Sequence[PooledClaim]) -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame(
        {
            "server": row.server,
            "report": line.name,
            "verdict": line.verdict,
            "estimate": line.interval.estimate,
            "low": line.interval.low,
            "high": line.interval.high,
            "n": line.interval.n,
            "weight_share": line.weight,
            "published": row.published,
        }
        for row in rows
        for line in _lines(row)
        if line.interval
    )


def _axis_text(claim: Claim, units: Mapping[str, str]) -> str:
    assert claim.measure is not None
    metric = claim.measure.metric
    if isinstance(claim.measure, Comparison):
        return f"{metric}, ratio"
    return f"{metric} ({units[metric]})" if metric in units else metric


def _picture(rows: Sequence[PooledClaim], text: str) -> Any:
    from matplotlib.figure import Figure as Picture

    names = [line.name for line in max(([*_lines(row)] for row in rows), key=len)]
    picture = Picture(figsize=(8.6, 0.85 + 0.21 * len(names)), layout="constrained")
    axes = picture.subplots(1, len(rows), squeeze=False)[0]
    for place, (axis, row) in enumerate(zip(axes, rows, strict=True)):
        _panel(axis, row)
        axis.set_yticks(range(len(names)), names if place == 0 else [""] * len(names))
        axis.set_ylim(len(names) - 0.4, -0.6)
        axis.tick_params(labelsize=_LETTER_SIZE)
        axis.tick_params(axis="y", length=0)
        axis.set_xlabel(text, fontsize=_LETTER_SIZE)
        title = f"{row.server}: {row.outcome}" if row.pooled else row.server
        axis.set_title(title, fontsize=_TITLE_SIZE)
    return picture


def _panel(axis: Any, row: PooledClaim) -> None:
    low, high = shown_range(row)
    if row.on_logs:
        axis.set_xscale("log")
    axis.set_xlim(low, high)
    _plain_ticks(axis, low, high)
    true_from, true_to = max(low, row.bounds[0]), min(high, row.bounds[1])
    if true_from < true_to:
        axis.axvspan(true_from, true_to, color="0.93", linewidth=0)
    if row.published is not None and low <= row.published <= high:
        axis.axvline(row.published, color="0.4", linewidth=0.8, linestyle=":")
    for place, line in enumerate(_lines(row)):
        if line.interval:
            _interval(axis, place, line, (low, high))


def _interval(axis: Any, place: int, line: _Line, ends: tuple[float, float]) -> None:
    """Draw one interval, with an arrow at each end of the axis that it goes beyond."""
    assert line.interval is not None
    of_all = line.name in (TOGETHER, FURTHER)
    colour = _BLUE if of_all else ("0.2" if line.enters else "0.55")
    estimate, low, high = line.interval[:3]
    if math.isfinite(low) and math.isfinite(high):
        shown = [min(max(x, ends[0]), ends[1]) for x in (low, high)]
        width = {TOGETHER: 2.6, FURTHER: 1.2}.get(line.name, 1.2)
        axis.plot(shown, [place, place], color=colour, linewidth=width, solid_capstyle="butt")
        for end, mark in zip(ends, "<>", strict=True):
            if not ends[0] <= (low if mark == "<" else high) <= ends[1]:
                axis.plot([end], [place], mark, color=colour, markersize=5, clip_on=False)
    if line.name == FURTHER or not ends[0] <= estimate <= ends[1]:
        return
    inside = colour if line.enters else "white"
    mark = "D" if of_all else "o"
    axis.plot([estimate], [place], mark, color=colour, markerfacecolor=inside, markersize=5)


def shown_range(row: PooledClaim) -> tuple[float, float]:
    """Return the values from which to which a claim's axis goes."""
    known = [x for part in row.parts if part.interval for x in part.interval[:3]]
    known += [x for x in (*row.bounds, row.published) if x is not None]
    places = [_place(x, row) for x in known if _has_place(x, row)]
    low, high = min(places), max(places)
    least = math.log1p(_LEAST_WIDTH) if row.on_logs else _LEAST_WIDTH * max(abs(low), abs(high))
    if high - low < least or high == low:
        middle, half = (low + high) / 2, max(least, _LEAST_WIDTH) / 2
        low, high = middle - half, middle + half
    beyond = [
        _place(end, row)
        for interval in (row.pooled[:2] if row.pooled else ())
        if interval
        for end in (interval.low, interval.high)
        if _has_place(end, row)
    ]
    room = _MOST_WIDER * (high - low)
    low, high = max(min([low, *beyond]), low - room), min(max([high, *beyond]), high + room)
    margin = _MARGIN * (high - low)
    low, high = low - margin, high + margin
    return (math.exp(low), math.exp(high)) if row.on_logs else (low, high)


def _can_be_shown(interval: Interval | None, row: PooledClaim) -> bool:
    return interval is not None and all(_has_place(value, row) for value in interval[:3])


def _has_place(value: float, row: PooledClaim) -> bool:
    return math.isfinite(value) and (value > 0 or not row.on_logs)


def _place(value: float, row: PooledClaim) -> float:
    return math.log(value) if row.on_logs else value


def _plain_ticks(axis: Any, low: float, high: float) -> None:
    """Give an axis that shows little ticks at round numbers, and none between them."""
    from matplotlib.ticker import MaxNLocator, NullLocator

    if axis.get_xscale() == "log" and high / low >= _NARROW:
        return
    axis.xaxis.set_major_locator(MaxNLocator(5))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:.6g}")
