"""Single runs as points: a frame of one metric, and its drawing. No widget, no kernel."""

import html
import io
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from innolab.base.units import number
from innolab.record.run import Run
from innolab.record.runs import RunSet
from innolab.report.display import Table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

BLOCK = "block"
_WHY = "why not valid"
# What of the distance between two names on an axis their points take.
_SPREAD = 0.7
# An irrational share: consecutive blocks fall on places far from each other, and none on another's.
_GOLDEN = 0.618
_MOST_ROWS = 600
# Letters that fit below the axis side by side.
_WIDEST_NAMES = 60
_COLUMNS = {"trial", BLOCK, "valid", _WHY}


class PointQuantity(NamedTuple):
    """A metric as one kind of observation has it: `seconds` of a pass is none of a whole run."""

    metric: str
    within: tuple[str, ...]

    def __str__(self) -> str:
        """Return its name for a reader."""
        return f"{self.metric} by {', '.join(self.within)}" if self.within else self.metric


class View(NamedTuple):
    """What of a frame is shown how.

    Attributes
    ----------
    x : a factor, a within-factor or `block`
    metric, unit : what is drawn along y
    colour : as `x`, or None for points of one colour
    log_x, log_y : whether an axis is logarithmic; one of names never is
    """

    x: str
    metric: str
    unit: str
    colour: str | None = None
    log_x: bool = False
    log_y: bool = False


class DrawnPoints(NamedTuple):
    """A picture, and of each of its groups of points what each point is, in words."""

    picture: "Picture"
    says: Mapping[str, Sequence[str]]


def quantities(runs: RunSet, metrics: Sequence[str]) -> list[PointQuantity]:
    """Return every metric that some run has, in the order given, by the within-factors it has."""
    found = {
        PointQuantity(metric, tuple(name for name in row if name in runs.within))
        for run in runs.runs
        for row in run.observations
        for metric in row
        if metric not in runs.within
    }
    return sorted(found, key=lambda one: (metrics.index(one.metric), one.within))


def points(runs: RunSet, quantity: PointQuantity) -> "pd.DataFrame":
    """Return a row a point, of valid runs and of others; failed runs have no values and no row.

    Columns: trial, block (from 1), valid, the factors, the within-factors, the metric, and why a
    run is not valid.
    """
    frame = runs.frame(*quantity.within).dropna(subset=[quantity.metric])
    own = [name for name in frame.columns if name not in (*_COLUMNS, *quantity.within)]
    factors = [name for name in own if name in runs.runs[0].factors]
    why = {run.trial: _why(run) for run in runs.runs}
    named = frame[["trial", BLOCK, "valid", *factors, *quantity.within, quantity.metric]]
    return named.assign(**{_WHY: named["trial"].map(why)}).reset_index(drop=True)


def _why(run: Run) -> str:
    return "; ".join(f"{c.check}: {c.says}" for c in run.checks if c.result == "invalid")


def axes_of(frame: "pd.DataFrame", metric: str) -> list[str]:
    """Return what may stand along x or have colours: factors with two levels or more, the block."""
    names = [name for name in frame.columns if name not in (*_COLUMNS, metric)]
    return [*(name for name in names if frame[name].nunique() > 1), BLOCK]


def is_numeric(frame: "pd.DataFrame", name: str) -> bool:
    """Return whether a column has numbers and no names, so that its axis can be logarithmic."""
    from pandas.api import types

    column = frame[name].infer_objects()
    return types.is_numeric_dtype(column) and not types.is_bool_dtype(column)


def counted(frame: "pd.DataFrame") -> str:
    """Return in words how many points of how many runs there are, and how many are not valid."""
    runs = frame["trial"].nunique()
    bad = frame.loc[~frame["valid"].astype(bool), "trial"].nunique()
    said = f"{len(frame)} points of {runs} runs"
    return f"{said}, {bad} of them not valid (crosses)" if bad else f"{said}, all valid"


def drawn(
    frame: "pd.DataFrame", view: View, orders: Mapping[str, Sequence[Any]] | None = None
) -> DrawnPoints:
    """Return a picture with a point for each row: a dot where its run is valid, else a cross.

    Points that a logarithmic axis cannot have are left out, and the title counts them.

    Parameters
    ----------
    frame : as `points`
    orders : the levels of factors in their order; others are sorted
    """
    import seaborn
    from matplotlib.figure import Figure as Picture

    orders = orders or {}
    log_x = view.log_x and is_numeric(frame, view.x)
    kept = frame[frame[view.metric] > 0] if view.log_y else frame
    kept = kept[kept[view.x] > 0] if log_x else kept
    colours = _levels(kept, view.colour, orders) if view.colour else [None]
    palette = seaborn.color_palette("colorblind", len(colours))
    picture = Picture(figsize=(7.2, 4.4), layout="constrained")
    axis = picture.subplots()
    says = {}
    for place, level in enumerate(colours):
        of = kept if level is None else kept[kept[view.colour] == level]
        at = _places(of, view.x, orders, kept, (place, len(colours)))
        for is_valid, marker in ((True, "o"), (False, "x")):
            chosen = of["valid"].astype(bool) == is_valid
            if chosen.any():
                group = f"points-{place}-{marker}"
                says[group] = [_said(row, view) for _, row in of[chosen].iterrows()]
                axis.scatter(
                    at[chosen], of.loc[chosen, view.metric], s=22, marker=marker, alpha=0.75,
                    color=palette[place], label=_label(level, is_valid=is_valid), gid=group,
                )  # fmt: skip
    _finish(axis, kept, view, orders, log_x=log_x)
    if left_out := len(frame) - len(kept):
        axis.set_title(f"{left_out} points at or below 0 are not on a logarithmic axis", fontsize=9)
    return DrawnPoints(picture, says)


def _said(row: "pd.Series[Any]", view: View) -> str:
    """Return in words what a point is."""
    names = [name for name in row.index if name not in (*_COLUMNS, view.metric)]
    arm = ", ".join(f"{name} {row[name]}" for name in names)
    why = f"; not valid: {row[_WHY]}" if row[_WHY] else ""
    return f"{number(row[view.metric])} {view.unit}: {arm}, block {row[BLOCK]}{why}"


def _levels(frame: "pd.DataFrame", name: str, orders: Mapping[str, Sequence[Any]]) -> list[Any]:
    """Return the levels that a column has, in the order of the study, else sorted."""
    present = set(frame[name])
    known = [level for level in orders.get(name, ()) if level in present]
    return [*known, *sorted(present - set(known), key=lambda level: (str(type(level)), level))]


def _places(
    of: "pd.DataFrame",
    x: str,
    orders: Mapping[str, Sequence[Any]],
    whole: "pd.DataFrame",
    colour: tuple[int, int],
) -> "pd.Series[float]":
    """Return where points lie along x: numbers where they are, names beside each other by colour.

    The blocks of one arm are set apart by a fixed rule: the same runs give the same picture.
    """
    if is_numeric(whole, x):
        return of[x].astype(float)
    names = {level: place for place, level in enumerate(_levels(whole, x, orders))}
    place, count = colour
    width = _SPREAD / count
    apart = (of[BLOCK] * _GOLDEN % 1 - 0.5) * width * 0.6
    return of[x].map(names).astype(float) + (place - (count - 1) / 2) * width + apart


def _label(level: Any, *, is_valid: bool) -> str:
    name = "valid" if level is None else str(level)
    if is_valid:
        return name
    return "not valid" if level is None else f"{name}, not valid"


def _finish(
    axis: "Axes",
    frame: "pd.DataFrame",
    view: View,
    orders: Mapping[str, Sequence[Any]],
    *,
    log_x: bool,
) -> None:
    """Give an axis its scales, ticks, names and legend."""
    if log_x:
        axis.set_xscale("log")
    if view.log_y:
        axis.set_yscale("log")
    if not is_numeric(frame, view.x):
        names = [str(level) for level in _levels(frame, view.x, orders)]
        axis.set_xticks(range(len(names)), names)
        if sum(map(len, names)) > _WIDEST_NAMES:
            axis.tick_params(axis="x", rotation=30)
    axis.set_xlabel(view.x)
    axis.set_ylabel(f"{view.metric} ({view.unit})")
    axis.grid(visible=True, alpha=0.4)
    if len(frame):
        axis.legend(title=view.colour, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))


def as_html(drawing: DrawnPoints, frame: "pd.DataFrame", view: View) -> str:
    """Return a picture as SVG in HTML; a point says what it is where the mouse is over it."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    text = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "explorer"}):
        FigureCanvasSVG(drawing.picture).print_svg(text, metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    for group, says in drawing.says.items():
        svg = _titled(svg, group, says)
    colour = f", coloured by {view.colour}" if view.colour else ""
    alt = f"{view.metric} ({view.unit}) over {view.x}{colour}: {counted(frame)}."
    head = f'<svg role="img" aria-label="{html.escape(alt, quote=True)}" '
    return head + svg[svg.index("<svg") :].removeprefix("<svg ")


def _titled(svg: str, group: str, says: Sequence[str]) -> str:
    """Return a picture whose points of one group have titles, which browsers show on hovering."""
    start = svg.index(f'<g id="{group}">')
    end = svg.find('<g id="', start + 1)
    texts = iter(says)
    marked = re.sub(
        r"<use ([^>]*)/>",
        lambda found: f"<use {found[1]}><title>{html.escape(next(texts, ''))}</title></use>",
        svg[start:end],
    )
    return svg[:start] + marked + svg[end:]


def table(frame: "pd.DataFrame", view: View) -> str:
    """Return the points as a table in HTML, in the order of x: what varies, the value, why not."""
    names = axes_of(frame, view.metric)
    first = list(dict.fromkeys(name for name in (view.x, view.colour) if name))
    rest = [name for name in names if name not in first]
    columns = [*first, *rest, view.metric]
    columns += [_WHY] if frame[_WHY].astype(bool).any() else []
    ordered = frame.sort_values([*first, *rest], key=_sortable, ignore_index=True)
    shown = Table(ordered[columns].head(_MOST_ROWS))._repr_html_()
    more = len(frame) - _MOST_ROWS
    return shown + (f"<p>and {more} more</p>" if more > 0 else "")


def _sortable(column: "pd.Series[Any]") -> "pd.Series[Any]":
    """Return a column that can be sorted, also where it has names and numbers."""
    return column if column.infer_objects().dtype != object else column.astype(str)
