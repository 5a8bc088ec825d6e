"""What the points of a figure say, and which lines of its legend they belong to.

A point has its values as a `title`, which browsers show; marks, panels and lines of the legend have
`data-` attributes, by which a page's script (figures.js) shows and hides them.
"""

import functools
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup

from innolab.base.language import text, word
from innolab.base.units import interval_text, number

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

# Matplotlib writes the id that an artist has; of these, a picture keeps the part after the colon.
_ID = re.compile(r' id="data-(\w+):([^"]*)"')
_GROUP = re.compile(r'<g id="')
_USE = re.compile(r'<use ([^>]*?x="(?P<x>[-\d.]+)"[^>]*?y="(?P<y>[-\d.]+)"[^>]*?)/>')
# In points of the picture: coordinates are written with six digits behind the point.
_APART = 0.01
_POINTS_PER_INCH = 72
_NOT_LEVELS = {"kind", "low", "high", "n", "published", "block"}


class PlottedPoint(NamedTuple):
    """A point of a picture: its place in points from the top left, what it says, its legend."""

    x: float
    y: float
    says: str
    series: str


class Marked:
    """A picture whose artists have names, and what its points say.

    Parameters
    ----------
    picture : laid out already
    values : what is plotted; rows with `low` and `high` have an interval, with `n` the number of
        values behind a mean, and other columns are the levels of the arm
    metric : the column that is measured
    """

    def __init__(self, picture: "Picture", values: "pd.DataFrame", metric: str) -> None:
        self._picture = picture
        self._rows = _rows(values, metric)
        self._metric = metric
        self._entries = _entries(picture)
        self._points: dict[str, list[PlottedPoint]] = {}
        for axes in picture.axes:
            self._mark(axes)

    def titled(self, svg: str) -> str:
        """Return the picture, as matplotlib wrote it, with its titles and `data-` attributes."""
        for name, points in self._points.items():
            start = svg.find(f'id="data-points:{name}"')
            if start < 0:
                continue
            following = _GROUP.search(svg, start + 1)
            end = following.start() if following else len(svg)
            marked = _USE.sub(functools.partial(_with_title, points=points), svg[start:end])
            # A line goes with its points.
            of_all = {point.series for point in points}
            series = f'data-series="{of_all.pop()}"' if len(of_all) == 1 else ""
            marked = marked.replace(f'id="data-points:{name}"', series, 1)
            svg = svg[:start] + marked + svg[end:]
        return _ID.sub(r' data-\1="\2"', svg)

    def _mark(self, axes: "Axes") -> None:
        import numpy
        from matplotlib.collections import LineCollection, PathCollection

        axes.set_gid("data-panel:")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_gid(f"data-axis:{axis.axis_name}{'' if _has_labels(axis) else ' bare'}")
        for line in axes.lines:
            series = self._series(line)
            if _has_marks(line) and line.get_transform() == axes.transData:
                places = numpy.asarray(line.get_xydata(), float)
                self._name(line, axes, places, [series] * len(places))
            else:
                line.set_gid(f"data-series:{series}")
        for collection in axes.collections:
            if isinstance(collection, PathCollection):
                places = numpy.ma.filled(
                    numpy.ma.asarray(collection.get_offsets(), float), numpy.nan
                )
                colours = numpy.resize(collection.get_facecolor(), (len(places), 4))
                self._name(collection, axes, places, [self._of_colour(one) for one in colours])
            elif isinstance(collection, LineCollection):
                collection.set_gid(f"data-series:{self._series(collection)}")

    def _name(self, artist: Any, axes: "Axes", places: Any, series: Sequence[str]) -> None:
        """Name an artist with points, and keep what each says."""
        height = self._picture.get_figheight() * _POINTS_PER_INCH
        scale = _POINTS_PER_INCH / self._picture.dpi
        # One a row, as a transform of none fails.
        drawn = axes.transData.transform(places) * scale if len(places) else places
        name = str(len(self._points))
        artist.set_gid(f"data-points:{name}")
        self._points[name] = [
            PlottedPoint(at[0], height - at[1], self._says(axes, x, y), of)
            for (x, y), at, of in zip(places, drawn, series, strict=True)
        ]

    def _says(self, axes: "Axes", x: float, y: float) -> str:
        """Return a point's value with interval, number of values, and levels, a line each."""
        along, across = axes.get_xlabel(), axes.get_ylabel()
        row, unit = self._row(x, y), across
        if row is None:
            along, across = (f"{name}: " if name else "" for name in (along, across))
            return f"{across}{_read(axes.yaxis, y)}\n{along}{_read(axes.xaxis, x)}"
        if not _is_same(row[self._metric], y):
            unit = along
        value = interval_text(row[self._metric], row.get("low"), row.get("high"))
        n = row.get("n")
        counted = [text("{n} runs", n=int(n))] if n and n == n else []
        levels = [f"{word(name)}: {_shown(value)}" for name, value in row.items()
                  if name not in {*_NOT_LEVELS, self._metric} and value == value]  # fmt: skip
        return "\n".join(["; ".join([f"{value} {unit}".strip(), *counted]), *levels])

    def _row(self, x: float, y: float) -> dict[str, Any] | None:
        """Return the row of values that a point shows."""
        for value, other in ((y, x), (x, y)):
            if found := self._rows.get(f"{value:.9g}"):
                near = [row for row in found if any(_is_same(one, other) for one in row.values())]
                return {**_common(near or found), self._metric: value}
        return None

    def _series(self, artist: Any) -> str:
        """Return the lines of the legend that are about an artist, by number."""
        of_colour = self._of_colour(artist.get_color())
        marker = str(artist.get_marker()) if hasattr(artist, "get_marker") else None
        return " ".join([of_colour] * bool(of_colour) + [
            str(number) for number, entry in enumerate(self._entries)
            if not entry.has_colour and entry.marker == marker != "None"
        ])  # fmt: skip

    def _of_colour(self, colour: Any) -> str:
        named = _hex(colour)
        return " ".join(
            str(n) for n, entry in enumerate(self._entries)
            if entry.has_colour and entry.colour == named
        )  # fmt: skip


class _Entry(NamedTuple):
    """A line of a legend: what tells what it is about."""

    colour: str
    marker: str
    has_colour: bool


def _entries(picture: "Picture") -> list[_Entry]:
    """Name the lines of a picture's legend, and return what they are about."""
    legends = [*picture.legends, *(axes.get_legend() for axes in picture.axes)]
    found: list[tuple[str, str]] = []
    for legend in filter(None, legends):
        legend.set_gid("data-legend:")
        title = legend.get_title()
        title.set_gid(f"data-heading:{title.get_text()}")
        handles: list[Any] = list(legend.legend_handles)
        for handle, label in zip(handles, legend.get_texts(), strict=True):
            if shows_nothing(handle):
                label.set_gid(f"data-heading:{label.get_text()}")
                continue
            label.set_gid(f"data-entry:{label.get_text()}")
            handle.set_gid(f"data-key:{len(found)}")
            marker = str(handle.get_marker()) if hasattr(handle, "get_marker") else "None"
            found.append((_colour(handle), marker))
    colours = [colour for colour, _ in found]
    # What differs in its mark alone has the ink of all such entries.
    return [_Entry(colour, mark, colours.count(colour) == 1) for colour, mark in found]


def shows_nothing(handle: Any) -> bool:
    """Return whether a handle of a legend is empty, as seaborn has it for headings."""
    from matplotlib.lines import Line2D

    nothing = (None, "None", "none", " ", "")
    return (
        isinstance(handle, Line2D)
        and (handle.get_linestyle() in nothing or handle.get_linewidth() == 0)
        and handle.get_marker() in nothing
    )


def _has_marks(line: Any) -> bool:
    return line.get_marker() not in ("None", "none", "", " ", None)


def _colour(handle: Any) -> str:
    for name in ("get_color", "get_facecolor", "get_edgecolor"):
        if hasattr(handle, name) and (found := _hex(getattr(handle, name)())):
            return found
    return ""


def _hex(colour: Any) -> str:
    """Return the first of some colours as text, empty if there is none."""
    from matplotlib.colors import to_hex, to_rgba_array

    colours = to_rgba_array(colour)
    return to_hex(colours[0]) if len(colours) else ""


def _has_labels(axis: Any) -> bool:
    return any(label.get_visible() and label.get_text() for label in axis.get_ticklabels())


def _rows(values: "pd.DataFrame", metric: str) -> dict[str, list[dict[str, Any]]]:
    """Return the rows that are means, or all if no row says what it is, by their value."""
    if metric not in values:
        return {}
    means = values[values["kind"] == "mean"] if "kind" in values else values
    rows: dict[str, list[dict[str, Any]]] = {}
    for record in means.to_dict("records"):
        row = {str(name): value for name, value in record.items()}
        rows.setdefault(f"{float(row[metric]):.9g}", []).append(row)
    return rows


def _common(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what rows have in common: of arms of one value a point does not say which it is."""
    first = rows[0]
    return {name: value for name, value in first.items() if all(row[name] == value for row in rows)}


def _is_same(one: Any, other: float) -> bool:
    return isinstance(one, int | float) and f"{one:.9g}" == f"{other:.9g}"


def _read(axis: Any, value: float) -> str:
    """Return a coordinate as the axis names it: the label of its tick, else the number."""
    ticks = {f"{at:.9g}": label for at, label in _ticks(axis)}
    return ticks.get(f"{value:.9g}") or number(value)


def _ticks(axis: Any) -> Iterator[tuple[float, str]]:
    for at, label in zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=False):
        yield at, label.get_text()


def _shown(value: Any) -> str:
    return number(value) if isinstance(value, int | float) else word(str(value))


def _with_title(use: "re.Match[str]", points: Sequence[PlottedPoint]) -> str:
    x, y = float(use["x"]), float(use["y"])
    for point in points:
        if abs(point.x - x) < _APART and abs(point.y - y) < _APART:
            of = Markup(' data-series="{}"').format(point.series)
            titled = Markup("<use {}{}><title>{}</title></use>")
            return str(titled.format(Markup(use[1].rstrip()), of, point.says))
    return use[0]
