"""The page that shows what other sizes of a server's buffer pool would give."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from innolab.base.units import bytes_text, number
from innolab.report import figures, pages

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

_LINE, _MEASURED = "#0173b2", "#de8f05"
_MIB = 2**20


class Place(NamedTuple):
    """A size of the pool and a value there with its interval, NaN where it has none."""

    pool_bytes: int
    estimate: float
    low: float
    high: float
    is_measured: bool


def write(
    path: Path, reads: Sequence[Place], per_s: Sequence[Place], values: Mapping[str, Any]
) -> Path:
    """Write a page that loads nothing from elsewhere, and return its path.

    Parameters
    ----------
    reads : pages read a statement
    per_s : statements a second; empty where they are not known
    values : `summary`, `table`, `offers`, `unknown` and `closing`, as the template takes them

    Raises
    ------
    InputError
        Where its folder cannot be written.
    """
    picture = _drawn(reads, per_s)
    drawn = figures.as_svg(picture, "sizes")
    said = "; ".join(
        f"{number(one.estimate)} at {bytes_text(one.pool_bytes)}"
        f"{' (measured)' if one.is_measured else ''}"
        for one in reads
    )
    shown = figures.labelled(drawn, f"Pages read a statement: {said}.")
    return pages.write(path, "size.html.j2", figure=shown, **values)


def _drawn(reads: Sequence[Place], per_s: Sequence[Place]) -> "Picture":
    from matplotlib.figure import Figure as Picture

    shown = [("pages read a statement", reads), ("statements a second", per_s)]
    panels = [(label, places) for label, places in shown if places]
    picture = Picture(figsize=(4.4 * max(len(panels), 1), 3.4), layout="constrained")
    for place, (label, places) in enumerate(panels, 1):
        axes = picture.add_subplot(1, len(panels), place)
        _panel(axes, places)
        axes.set_xlabel("buffer pool (MiB)")
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
    if panels:
        picture.axes[0].legend(fontsize=8)
    if layout := picture.get_layout_engine():
        layout.execute(picture)
        picture.set_layout_engine("none")
    return picture


def _panel(axes: "Axes", places: Sequence[Place]) -> None:
    # Through what was measured a line would show as modelled what the model does not say.
    if modelled := [one for one in places if not one.is_measured]:
        at = [one.pool_bytes / _MIB for one in modelled]
        axes.plot(
            at, [one.estimate for one in modelled], color=_LINE, linewidth=1.5, label="modelled"
        )
        axes.fill_between(
            at, [one.low for one in modelled], [one.high for one in modelled], color=_LINE,
            alpha=0.2, linewidth=0, label="its interval",
        )  # fmt: skip
    seen = [one for one in places if one.is_measured]
    axes.plot(
        [one.pool_bytes / _MIB for one in seen], [one.estimate for one in seen], "o",
        color=_MEASURED, label="measured",
    )  # fmt: skip
