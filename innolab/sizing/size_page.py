"""The page that shows what other sizes of a server's buffer pool would give."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from innolab.base.units import bytes_text, number
from innolab.report import figures, pages
from innolab.sizing import size_document
from innolab.sizing.size_document import Range, SizeDocument

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

_LINE, _MEASURED = "#0173b2", "#de8f05"
_MIB = 2**20
# A size of the pool, how it is known, and a value there.
Place = tuple[int, str, Range]


def write(path: Path, document: SizeDocument) -> Path:
    """Write a page that loads nothing from elsewhere, and return its path.

    Raises
    ------
    InputError
        If its folder cannot be written.
    """
    reads = [(row.pool_bytes, row.known, row.reads_a_statement) for row in document.rows]
    rates = [
        (row.pool_bytes, row.known, row.statements_per_s)
        for row in document.rows
        if row.statements_per_s
    ]
    values = "; ".join(
        f"{number(value.estimate)} at {bytes_text(pool)}{' (measured)' * (known == 'measured')}"
        for pool, known, value in reads
    )
    shown = figures.labelled(
        figures.as_svg(drawn(reads, rates), "sizes"), f"Pages read a statement: {values}."
    )
    return pages.write(
        path, "size.html.j2", figure=shown, summary=size_document.summary(document),
        table=size_document.table(document), offers=size_document.offered(document),
        unknown=document.not_known, closing=size_document.closing(document),
    )  # fmt: skip


def drawn(reads: Sequence[Place], rates: Sequence[Place]) -> "Picture":
    """Return a panel of pages read a statement, and one of statements a second if known."""
    from matplotlib.figure import Figure as Picture

    panels = {"pages read a statement": reads, "statements a second": rates}
    panels = {label: places for label, places in panels.items() if places}
    picture = Picture(figsize=(4.4 * max(len(panels), 1), 3.4), layout="constrained")
    for position, (label, places) in enumerate(panels.items(), 1):
        axes = picture.add_subplot(1, len(panels), position)
        # Through what was measured a line would show as modelled what the model does not say.
        if lines := [(pool / _MIB, value) for pool, known, value in places if known == "modelled"]:
            sizes = [size for size, _ in lines]
            estimates = [value.estimate for _, value in lines]
            low, high = ([_end(value, end) for _, value in lines] for end in ("low", "high"))
            axes.plot(sizes, estimates, color=_LINE, linewidth=1.5, label="modelled")
            axes.fill_between(
                sizes, low, high, color=_LINE, alpha=0.2, linewidth=0, label="its interval"
            )
        dots = [(pool, value.estimate) for pool, known, value in places if known == "measured"]
        axes.plot(
            [pool / _MIB for pool, _ in dots], [estimate for _, estimate in dots], "o",
            color=_MEASURED, label="measured",
        )  # fmt: skip
        axes.set_xlabel("buffer pool (MiB)")
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
    if panels:
        picture.axes[0].legend(fontsize=8)
    if layout := picture.get_layout_engine():
        layout.execute(picture)
        picture.set_layout_engine("none")
    return picture


def _end(value: Range, name: str) -> float:
    end = getattr(value, name)
    return math.nan if end is None else end
