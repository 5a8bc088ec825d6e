"""Figures that can leave the report: picture, plotted values, caption and alternative text."""

import html
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from innolab.figures import svg

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Picture

# Okabe and Ito's palette, told apart by all common kinds of colour vision: https://jfly.uni-koeln.de
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#6E6E6E"
_PNG_DPI = 192


@dataclass(frozen=True)
class Figure:
    """A published figure; a notebook shows it with its caption."""

    name: str
    svg: str
    caption: str
    alt: str

    def _repr_html_(self) -> str:
        alt = html.escape(self.alt, quote=True)
        drawn = self.svg[self.svg.index("<svg") :]
        drawn = drawn.replace("<svg ", f'<svg role="img" aria-label="{alt}" ', 1)
        links = " ".join(
            f'<a href="figures/{self.name}.{kind}">{kind.upper()}</a>'
            for kind in ("svg", "png", "csv")
        )
        return (
            f'<figure id="{self.name}">{drawn}'
            f"<figcaption>{html.escape(self.caption)} <small>{links}</small></figcaption></figure>"
        )

    def __repr__(self) -> str:
        return f"{self.caption}\n{self.alt}"


def publish(
    picture: "Picture", name: str, plotted: "pd.DataFrame", caption: str, alt: str, folder: Path
) -> Figure:
    """Write NAME.svg, .png, .csv and .md into the folder's `figures/` and return the figure.

    The same values give the same bytes: coordinates are rounded, values have the digits that they
    are shown with, and no file says when it was made.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    place = folder / "figures"
    place.mkdir(exist_ok=True)
    text = io.StringIO()
    # Simplified, a path would lose another point on another processor.
    with matplotlib.rc_context({"svg.hashsalt": name, "path.simplify": False}):
        # One layout for both formats; it is half of the time that they take.
        if layout := picture.get_layout_engine():
            layout.execute(picture)
            picture.set_layout_engine("none")
        # By the canvases themselves: savefig draws each twice, in case the layout moves.
        FigureCanvasSVG(picture).print_svg(text, metadata={"Date": None, "Creator": None})
        picture.set_dpi(_PNG_DPI)
        FigureCanvasAgg(picture).print_png(place / f"{name}.png", metadata={"Software": None})
    drawn = svg.settled(text.getvalue(), name)
    (place / f"{name}.svg").write_text(drawn)
    values = plotted.map(_settled)
    values.to_csv(place / f"{name}.csv", index=False, float_format="%.6g", lineterminator="\n")
    (place / f"{name}.md").write_text(_leaflet(name, caption, alt))
    return Figure(name, drawn, caption, alt)


def _settled(value: Any) -> Any:
    """Return a number without the digits in which processors disagree.

    Shown with six, half-way cases would else be rounded up on one and down on the other.
    """
    return float(f"{value:.12g}") if isinstance(value, float) else value


def _leaflet(name: str, caption: str, alt: str) -> str:
    return (
        f"# {name}\n\n{caption}\n\nAlternative text: {alt}\n\n"
        f"Embed it in Markdown:\n\n    ![{alt}]({name}.svg)\n\n"
        f'or in HTML:\n\n    <img src="{name}.png" alt="{html.escape(alt, quote=True)}">\n\n'
        f"The plotted values are in {name}.csv.\n"
    )


def canvas(
    columns: int, height_in: float = 3.6, rows: int = 1, **options: Any
) -> tuple["Picture", list[Any]]:
    """Return a picture with rows of axes in the house style, and the axes row by row."""
    import seaborn
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Picture

    seaborn.set_theme(style="whitegrid", font="DejaVu Sans", rc={"axes.titlesize": 10})
    picture = Picture(figsize=(8.6, height_in), layout="constrained")
    FigureCanvasAgg(picture)
    axes = picture.subplots(rows, columns, squeeze=False, **options)
    return picture, list(axes.flat)
