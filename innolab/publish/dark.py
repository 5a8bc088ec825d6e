"""A figure in colours for a dark page: greys turned over, colours light enough to be seen."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from innolab.report.dark_colours import CONTRAST, dark, is_grey

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture


@contextmanager
def darkened(picture: "Picture") -> Iterator[None]:
    """Give a figure its dark colours within the block; what is laid out stays where it is."""
    undo: list[tuple[Callable[[Any], Any], Any]] = []
    for put, value, least in _colours(picture):
        if (changed := _all_dark(value, least)) is not None:
            undo.append((put, value))
            put(changed)
    try:
        yield
    finally:
        for put, value in reversed(undo):
            put(value)


def _colours(picture: "Picture") -> Iterator[tuple[Callable[[Any], Any], Any, float]]:
    """Give what sets each colour of a figure, the colour, and the contrast that it needs."""
    from matplotlib.collections import Collection
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from matplotlib.text import Text

    for artist in picture.findobj():
        if isinstance(artist, Text):
            yield artist.set_color, artist.get_color(), CONTRAST
        elif isinstance(artist, Line2D):
            # Before the line's own colour: that of a mark may follow it.
            yield artist.set_markerfacecolor, artist.get_markerfacecolor(), 1
            yield artist.set_markeredgecolor, artist.get_markeredgecolor(), 1
            yield artist.set_color, artist.get_color(), 1
        elif isinstance(artist, Patch | Collection):
            yield artist.set_facecolor, artist.get_facecolor(), 1
            yield artist.set_edgecolor, artist.get_edgecolor(), 1


def _all_dark(value: Any, least: float) -> Any:
    """Return one colour, or the colours of a collection, for a dark page; None for no colour."""
    from matplotlib.colors import to_rgba_array

    made = []
    for red, green, blue, alpha in to_rgba_array(value):
        wanted = max(least, 1.0 if is_grey((red, green, blue)) else CONTRAST)
        made.append((*dark((red, green, blue), wanted), alpha))
    if not any(alpha for *_, alpha in made):
        return None
    return made if len(made) > 1 else made[0]
