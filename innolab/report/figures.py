"""Figures that can leave a report: picture, plotted values, caption and alternative text."""

import io
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from innolab import studies
from innolab.base import language, quoting, spreadsheet
from innolab.base.errors import InputError
from innolab.record.plan import PLAN_FILE, Plan
from innolab.report import citation, embedding, folders, svg
from innolab.report.figure_points import Marked
from innolab.report.prose import Prose, in_markdown, prose

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Picture

_PNG_DPI = 192
# Beside each figure of a page: files by their kind. They are found where a report is moved alone.
_LINKS = {"svg": "SVG", "png": "PNG", "csv": "CSV", "md": "Use this figure"}


@dataclass(frozen=True)
class Figure:
    """A published figure; a notebook shows it with its caption."""

    name: str
    svg: str
    caption: str
    alt: str

    def _repr_html_(self) -> str:
        links = Markup(" ").join(
            Markup('<a href="figures/{}.{}">{}</a>').format(self.name, kind, language.text(said))
            for kind, said in _LINKS.items()
        )
        whole = '<figure id="{}">{}<figcaption>{} <small>{}</small></figcaption></figure>'
        drawn = labelled(self.svg, self.alt)
        return str(Markup(whole).format(self.name, drawn, self.caption, links))

    def __repr__(self) -> str:
        return f"{self.caption}\n{self.alt}"


def labelled(drawn: str, alt: str) -> Markup:
    """Return a picture of ours as HTML that reads it out by its alternative text."""
    opening = Markup('<svg role="img" aria-label="{}" ').format(alt)
    return opening + Markup(drawn[drawn.index("<svg") :].removeprefix("<svg").lstrip())


def file_name(text: str) -> str:
    """Return the name of a figure, which is one of files and of anchors too, made of a text."""
    return re.sub(r"[^0-9A-Za-z._-]+", "-", text)


@dataclass(frozen=True)
class Drawn:
    """A figure as a notebook gives it to be published: drawn, and nothing of it written yet."""

    picture: "Picture"
    name: str
    values: "pd.DataFrame"
    caption: str
    alt: str


def publish(
    picture: "Picture",
    name: str,
    values: "pd.DataFrame",
    caption: str,
    alt: str,
    folder: Path,
    take: Callable[[Drawn], None] | None = None,
    metric: str = "estimate",
) -> Figure:
    """Write NAME.svg, .png, .csv and .md into the folder's `figures/` and return the figure.

    The same values give the same bytes: coordinates are rounded, values have the digits that they
    are shown with, and no file says when it was made.

    Parameters
    ----------
    take : takes the figure instead, and nothing is written
    metric : the column of values that is measured, as `figure_points.Marked`

    Raises
    ------
    InputError
        Where the name is not one of a file.
    """
    from matplotlib import pyplot

    if not name or name != file_name(name):
        raise InputError(
            f"{quoting.shown(name)} cannot name a figure, as it names files: letters, digits, "
            "points, hyphens and underscores make a name."
        )
    # Or a notebook would show it twice.
    pyplot.close(picture)
    _as_written(picture)
    if take:
        take(Drawn(picture, name, values, caption, alt))
        return Figure(name, "<svg/>", caption, alt)
    place = folder / "figures"
    place.mkdir(exist_ok=True)
    with_plain_ticks(picture)
    # One layout for both formats; it is half of the time that they take.
    if layout := picture.get_layout_engine():
        layout.execute(picture)
        picture.set_layout_engine("none")
    _keep_whole(picture)
    drawn = as_svg(picture, name, points=Marked(picture, values, metric))
    picture.set_dpi(_PNG_DPI)
    write_png(picture, place / f"{name}.png")
    (place / f"{name}.svg").write_text(drawn)
    (place / f"{name}.csv").write_text(as_csv(values))
    (place / f"{name}.md").write_text(leaflet(picture, name, caption, alt, folder))
    return Figure(name, drawn, caption, alt)


def _keep_whole(picture: "Picture") -> None:
    """Let marks at the edge of a panel be drawn whole: nothing that is inside it is cut there."""
    import numpy

    for axes in picture.axes:
        (left, right), (low, high) = map(sorted, (axes.get_xlim(), axes.get_ylim()))
        for line in axes.lines:
            x, y = numpy.asarray(line.get_xydata()).T
            if ((x >= left) & (x <= right) & (y >= low) & (y <= high)).all():
                line.set_clip_on(False)


def as_svg(
    picture: "Picture",
    name: str,
    about: Mapping[str, str] | None = None,
    points: Marked | None = None,
) -> str:
    """Return a picture, laid out already, as SVG: the same bytes each time, its letters as paths.

    Parameters
    ----------
    name : begins the ids in it, which several pictures on one page must not share
    about : what the file says of itself, in the words of Dublin Core
    points : what its points say, if they say anything
    """
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    text = io.StringIO()
    # Simplified, a path would lose another point on another processor.
    with matplotlib.rc_context(
        {"svg.hashsalt": name, "svg.fonttype": "path", "path.simplify": False}
    ):
        # By the canvas itself: savefig draws twice, in case the layout moves.
        metadata = {"Date": None, "Creator": None, **(about or {})}
        FigureCanvasSVG(picture).print_svg(text, metadata=metadata)
    drawn = text.getvalue()
    return svg.settled(points.titled(drawn) if points else drawn, name)


def write_png(picture: "Picture", path: Path, about: Mapping[str, str] | None = None) -> None:
    """Write a picture, laid out already, with the resolution that it has."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    with matplotlib.rc_context({"path.simplify": False}):
        FigureCanvasAgg(picture).print_png(path, metadata={"Software": None, **(about or {})})


def as_csv(values: "pd.DataFrame") -> str:
    """Return the plotted values as CSV, numbers with six digits."""
    return spreadsheet.csv_text(values.map(_settled), "%.6g")


def with_plain_ticks(picture: "Picture") -> None:
    """Write the ticks of logarithmic axes as plain numbers: 2 and not 2 x 10^0."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for axes in picture.axes:
        for axis in (axes.xaxis, axes.yaxis):
            if axis.get_scale() != "log":
                continue
            # Beside ticks that a notebook names too, those between them had powers of ten.
            axis.set_minor_formatter(NullFormatter())
            if isinstance(axis.get_major_locator(), LogLocator):
                low, high = sorted(axis.get_view_interval())
                steps = (1.0, 2.0, 5.0) if high / low < 100 else (1.0,)
                axis.set_major_locator(LogLocator(subs=steps))
                axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))


def _as_written(picture: "Picture") -> None:
    """Let a figure's words show as they are: dollars in a level's name would be of a formula.

    What matplotlib itself writes beside numbers stays a formula.
    """
    from matplotlib.text import Text
    from matplotlib.ticker import LogFormatter, ScalarFormatter

    numbers = {
        id(label)
        for axes in picture.axes
        for axis in (axes.xaxis, axes.yaxis)
        if isinstance(axis.get_major_formatter(), LogFormatter | ScalarFormatter)
        for label in axis.get_ticklabels()
    }
    for words in picture.findobj(Text):
        if isinstance(words, Text) and id(words) not in numbers:
            words.set_parse_math(False)


def _settled(value: Any) -> Any:
    """Return a number without the digits in which processors disagree.

    Shown with six, half-way cases would else be rounded up on one and down on the other.
    """
    return float(f"{value:.12g}") if isinstance(value, float) else value


def leaflet(picture: "Picture", name: str, caption: str, alt: str, folder: Path) -> str:
    """Return how to use a figure: the front of its kit, which `innolab figure` makes."""
    width, height = (round(96 * inches) for inches in picture.get_size_inches())
    shown = embedding.Picture(f"{name}.svg", width, height)
    report = _report(folder)
    said = f"{caption} {citation.credit(citation.sentence(*report))}" if report else caption
    pasted = {
        "Markdown": embedding.markdown(shown, said, alt),
        "HTML": embedding.html_figure([shown], [], said, alt),
        "LaTeX": embedding.latex_figure(f"{name}.png", name, said, alt),
    }
    parts = [
        f"# {in_markdown(name)}",
        in_markdown(caption),
        prose("Alternative text: {alt}", alt=alt),
        *(f"## {form}\n\n{_indented(text)}" for form, text in pasted.items()),
        f"## {language.text('Values')}",
        # In the address of a link a name of a file is as it is.
        prose("The plotted values are in [{name}.csv]({name}.csv).", name=Prose(name)),
    ]
    if report:
        parts += [
            f"## {language.text('PDF, dark, other widths and fonts, units, BibTeX')}",
            _indented(f"innolab figure {report[1]} {name}"),
        ]
    return "\n\n".join(parts) + "\n"


def _report(folder: Path) -> tuple[str, str] | None:
    """Return the title and the name of the report that a folder is of, or becomes."""
    if not (folder / PLAN_FILE).is_file():
        return None
    study = studies.find(Plan.read(folder).study)
    return study.title, f"{study.name}/{folders.version_of(folder)}"


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" if line else "" for line in text.rstrip().splitlines())


def forest(rows: "pd.DataFrame", hue: str = "server") -> Any:
    """Return a forest plot of ratios: a line each, its interval, and the published value.

    Parameters
    ----------
    rows : columns `claim`, `estimate`, `low`, `high`, `published` and that of `hue`
    hue : the column whose levels have a colour each
    """
    import seaborn
    from matplotlib.figure import Figure as Picture

    names = list(dict.fromkeys(rows["claim"]))
    levels = list(dict.fromkeys(rows[hue]))
    picture = Picture(figsize=(5.0, 1.2 + 0.25 * max(len(names), 4)), layout="constrained")
    axis = picture.subplots()
    palette = seaborn.color_palette("colorblind", len(levels))
    for place, (level, colour) in enumerate(zip(levels, palette, strict=True)):
        of = rows[rows[hue] == level]
        at = [names.index(claim) + 0.16 * (2 * place - len(levels) + 1) for claim in of["claim"]]
        error = [of["estimate"] - of["low"], of["high"] - of["estimate"]]
        axis.errorbar(of["estimate"], at, xerr=error, fmt="o", ms=4, capsize=2, linewidth=1,
                      color=colour, label=level)  # fmt: skip
    known = rows.dropna(subset=["published"]).drop_duplicates("claim")
    at = [names.index(claim) for claim in known["claim"]]
    axis.scatter(known["published"], at, marker="s", s=30, facecolors="none", edgecolors="0.4",
                 label="published", zorder=3)  # fmt: skip
    axis.axvline(1, color="0.4", linewidth=0.8)
    axis.set_yticks(range(len(names)), names, fontsize=9)
    axis.invert_yaxis()
    axis.set_xscale("log")
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axis.xaxis.set_minor_formatter(lambda value, _: "")
    axis.set_xlabel("ratio (log scale), 95 % intervals")
    axis.legend(fontsize=9)
    return picture
