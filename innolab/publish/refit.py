"""Fit a drawn figure to another width, font and size of text, so that it still can be read.

Done to the artists and not by matplotlib's settings: a study's notebook names sizes of its own, and
so one drawing serves all widths.
"""

import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from innolab.base.errors import InputError
from innolab.report import figures
from innolab.report.figure_points import shows_nothing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture
    from matplotlib.legend import Legend
    from matplotlib.text import Text

# The size of text for which the notebooks' lines and marks are drawn.
_HOUSE_PT = 12.0
# In sizes of its text: what a panel needs at least, and a line of text.
_LEAST_PANEL = 7.0
_LINE = 1.25
# As printed; lengths of text differ by up to a pixel between resolutions.
_DPI = 300
_PAD_INCHES = 0.03
# Labels that are turned change the height, and the height changes where labels are.
_ROUNDS = 4
_MOST_INCHES = 40.0


class _Entry(NamedTuple):
    """A line of a legend; a heading names the entries after it, and has nothing to show."""

    handle: Any
    label: str
    is_heading: bool = False


class Refit:
    """A drawn figure that is fitted to one width after another."""

    def __init__(self, picture: "Picture", families: list[str]) -> None:
        figures.with_plain_ticks(picture)
        if layout := picture.get_layout_engine():
            layout.execute(picture)
        self.picture, self.families = picture, families
        sizes = [axes.get_window_extent() for axes in picture.axes]
        self._proportions = [size.width / size.height for size in sizes]
        self._entries, self._heading = self._take_legend()
        self._words = [
            (axes, text, text.get_text())
            for axes in picture.axes
            for text in (axes.title, axes.xaxis.label, axes.yaxis.label)
        ]
        self._strokes = list(self._find_strokes())

    def fit(self, inches: float, text_pt: float) -> None:
        """Lay the figure out in a width: all of its text in one size, panels in their proportions.

        Its height follows. Titles and labels are broken to their panels' width, labels of ticks
        that would overlap are turned, and the legend lies below.

        Raises
        ------
        InputError
            Where the panels have no room beside their text.
        """
        self._dress(text_pt)
        self.picture.set_dpi(_DPI)
        self.picture.set_size_inches(inches, 2 * inches)
        self._put_legend(text_pt)
        height = 0.0
        for _ in range(_ROUNDS):
            self._lay_out(inches, text_pt)
            before_words = self._read()
            self._break_words()
            self._turn_labels(text_pt)
            # Most of the time goes by laying out; from the second round on little changes.
            if self._read() != before_words:
                self._lay_out(inches, text_pt)
            height, before = self._height(text_pt), height
            self.picture.set_size_inches(inches, height)
            if abs(height - before) < 0.01:
                break
        self._lay_out(inches, text_pt)
        self.picture.set_layout_engine("none")

    def _take_legend(self) -> tuple[list[_Entry], str]:
        """Remove the only legend and return what it holds; several stay where they are."""
        of_axes = [(axes, legend) for axes in self.picture.axes if (legend := axes.get_legend())]
        found: list[tuple[Axes | None, Legend]] = [
            *((None, legend) for legend in self.picture.legends),
            *of_axes,
        ]
        if len(found) != 1:
            return [], ""
        [(axes, legend)] = found
        labels = [text.get_text() for text in legend.get_texts()]
        handles: list[Any] = list(legend.legend_handles)
        if axes is not None:
            # What an interval was drawn with: a legend's own handle is but a part of that.
            drawn, named = axes.get_legend_handles_labels()
            handles = drawn if named == labels else handles
        legend.remove()
        entries = [
            _Entry(handle, label, shows_nothing(handle))
            for handle, label in zip(handles, labels, strict=True)
        ]
        return entries, legend.get_title().get_text()

    def _find_strokes(self) -> Iterator[tuple[Callable[[Any], Any], Any, int]]:
        """Give what sets the thickness or size of each line and mark, as it is, and its power."""
        from matplotlib.artist import Artist
        from matplotlib.collections import Collection, PathCollection
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        artists: list[Any] = [e.handle for e in self._entries if isinstance(e.handle, Artist)]
        for axes in self.picture.axes:
            artists += [*axes.lines, *axes.collections, *axes.patches, *axes.spines.values()]
        for artist in {id(artist): artist for artist in artists}.values():
            if isinstance(artist, Line2D | Patch):
                yield artist.set_linewidth, artist.get_linewidth(), 1
            if isinstance(artist, Line2D):
                yield artist.set_markersize, artist.get_markersize(), 1
                yield artist.set_markeredgewidth, artist.get_markeredgewidth(), 1
            if isinstance(artist, Collection):
                yield artist.set_linewidth, artist.get_linewidth(), 1
            if isinstance(artist, PathCollection):
                yield artist.set_sizes, artist.get_sizes(), 2

    def _dress(self, text_pt: float) -> None:
        """Give all text the font and the size, and lines and marks what goes with it."""
        import numpy
        from matplotlib.text import Text

        scale = text_pt / _HOUSE_PT
        for _, text, words in self._words:
            text.set_text(words)
        for text in self.picture.findobj(Text):
            assert isinstance(text, Text)
            text.set_fontfamily(self.families)
            text.set_fontsize(text_pt)
        for axes in self.picture.axes:
            # Ticks that come later take these.
            axes.tick_params(
                which="both", labelsize=text_pt, labelfontfamily=self.families,
                width=scale, length=4 * scale, pad=4 * scale, grid_linewidth=scale,
            )  # fmt: skip
            axes.tick_params(axis="x", labelrotation=0)
            axes.xaxis.labelpad = axes.yaxis.labelpad = 4 * scale
        for put, value, power in self._strokes:
            put(numpy.asarray(value) * scale**power if numpy.ndim(value) else value * scale**power)

    def _put_legend(self, text_pt: float) -> None:
        """Put the legend below, in as few lines as its width allows."""
        if not self._entries:
            return
        for legend in list(self.picture.legends):
            legend.remove()
        grouped = self._grouped()
        for columns, entries in [
            *([(len(grouped), _padded(grouped))] if len(grouped) > 1 else []),
            *((n, self._entries) for n in range(len(self._entries), 0, -1) if len(grouped) == 1),
            (1, self._entries),
        ]:
            made = self._legend(columns, entries, text_pt)
            room = self.picture.bbox.width - 4 * _PAD_INCHES * _DPI
            if columns == 1 or made.get_window_extent(self._renderer()).width <= room:
                return
            made.remove()

    def _grouped(self) -> list[list[_Entry]]:
        groups: list[list[_Entry]] = []
        for entry in self._entries:
            if entry.is_heading or not groups:
                groups.append([])
            groups[-1].append(entry)
        return groups

    def _legend(self, columns: int, entries: list[_Entry], text_pt: float) -> "Legend":
        from matplotlib.font_manager import FontProperties

        font = FontProperties(family=self.families, size=text_pt)
        return self.picture.legend(
            [entry.handle for entry in entries],
            [entry.label for entry in entries],
            title=self._heading or None,
            loc="outside lower center",
            ncols=columns,
            frameon=False,
            prop=font,
            title_fontproperties=font,
            columnspacing=1.2,
            handletextpad=0.5,
        )

    def _lay_out(self, inches: float, text_pt: float) -> None:
        """Lay out, with more height where the panels have none."""
        picture = self.picture
        pads = dict.fromkeys(("w_pad", "h_pad", "wspace", "hspace"), _PAD_INCHES)
        picture.set_layout_engine("constrained", **pads)
        layout = picture.get_layout_engine()
        assert layout is not None
        while picture.get_figheight() < _MOST_INCHES:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                layout.execute(picture)
            panels = [axes.get_window_extent().width for axes in picture.axes]
            is_collapsed = any("collapsed" in str(one.message) for one in said)
            if not is_collapsed:
                if min(panels) >= _LEAST_PANEL / 2 * text_pt * _DPI / 72:
                    return
                break
            picture.set_figheight(1.5 * picture.get_figheight())
        raise InputError(
            f"The figure's panels have no room in {inches * 25.4:.4g} mm with text of "
            f"{text_pt:g} pt. Take a larger width or smaller text. Nothing was written."
        )

    def _read(self) -> list[tuple[str, float]]:
        """Return all words whose lines or direction a round may change."""
        texts = [text for _, text, _ in self._words]
        texts += [label for axes in self.picture.axes for label in axes.get_xticklabels()]
        return [(text.get_text(), text.get_rotation()) for text in texts]

    def _break_words(self) -> None:
        """Break titles and labels that are longer than their panels."""
        for axes, text, words in self._words:
            if words:
                size = axes.get_window_extent()
                is_upright = text.get_rotation() == 90
                room = size.height if is_upright else size.width
                text.set_text(_broken(words, room, self._measure(text, is_upright=is_upright)))

    def _measure(self, text: "Text", *, is_upright: bool) -> Callable[[str], float]:
        def measure(words: str) -> float:
            text.set_text(words)
            extent = text.get_window_extent(self._renderer())
            return float(extent.height if is_upright else extent.width)

        return measure

    def _turn_labels(self, text_pt: float) -> None:
        """Turn the labels of ticks below the panels, of all where those of one overlap."""
        gap = 0.3 * text_pt * _DPI / 72
        for axes in self.picture.axes:
            boxes = [label.get_window_extent(self._renderer()) for label in _labels(axes.xaxis)]
            ends = sorted((box.x0, box.x1) for box in boxes)
            if any(later[0] < sooner[1] + gap for sooner, later in itertools.pairwise(ends)):
                for each in self.picture.axes:
                    each.tick_params(axis="x", labelrotation=90)
                return

    def _height(self, text_pt: float) -> float:
        """Return the height at which panels have their proportions, and room for their labels."""
        line = text_pt * _DPI / 72
        rows: dict[int, list[float]] = {}
        for axes, proportion in zip(self.picture.axes, self._proportions, strict=True):
            size = axes.get_window_extent()
            lines = sum(label.get_text().count("\n") + 1 for label in _labels(axes.yaxis))
            wanted = max(size.width / proportion, _LEAST_PANEL * line, _LINE * lines * line)
            place = axes.get_subplotspec()
            row = place.rowspan.start if place else 0
            rows.setdefault(row, []).append(wanted - size.height)
        missing = max(max(row) for row in rows.values()) * len(rows)
        return round(float(self.picture.get_figheight() + missing / _DPI), 2)

    def _renderer(self) -> Any:
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        canvas = self.picture.canvas
        if not isinstance(canvas, FigureCanvasAgg):
            canvas = FigureCanvasAgg(self.picture)
        return canvas.get_renderer()


def _labels(axis: Any) -> list["Text"]:
    """Return the labels of an axis's ticks that are seen."""
    low, high = sorted(axis.get_view_interval())
    place = 0 if axis.axis_name == "x" else 1
    return [
        label
        for label in axis.get_ticklabels()
        if label.get_visible() and label.get_text() and low <= label.get_position()[place] <= high
    ]


def _padded(groups: list[list[_Entry]]) -> list[_Entry]:
    """Return the entries of groups of one length, so that each group is a column of its own."""
    from matplotlib.lines import Line2D

    most = max(map(len, groups))
    nothing = _Entry(Line2D([], [], linestyle="none"), "")
    return [entry for group in groups for entry in [*group, *[nothing] * (most - len(group))]]


def _broken(words: str, room: float, measure: Callable[[str], float]) -> str:
    """Return a text with line breaks between words, no line longer than the room if possible."""
    lines: list[str] = []
    for paragraph in words.split("\n"):
        lines.append("")
        for word in paragraph.split(" "):
            longer = f"{lines[-1]} {word}".strip()
            if lines[-1] and measure(longer) > room:
                lines.append(word)
            else:
                lines[-1] = longer
    return "\n".join(lines)
