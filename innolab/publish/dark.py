"""A figure in colours for a dark page: greys turned over, colours light enough to be seen."""

import colorsys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

BACKGROUND = (0.082, 0.094, 0.110)
INK = (0.94, 0.94, 0.94)
# What WCAG 2.2 asks of text; lines and marks get as much, which is more than they need.
CONTRAST = 4.5
_GREY = 0.08
_STEP = 0.02

Colour = tuple[float, float, float]


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


def dark(colour: Colour, least: float) -> Colour:
    """Return a colour for the dark background in place of one for white.

    Parameters
    ----------
    least : the contrast with the background that it has at least; 1 for none

    >>> dark((0.0, 0.0, 0.0), CONTRAST) == INK
    True
    >>> [round(part, 3) for part in dark((1.0, 1.0, 1.0), 1)]
    [0.082, 0.094, 0.11]
    """
    if max(colour) - min(colour) <= _GREY:
        share = sum(colour) / 3
        red, green, blue = (
            ink + share * (paper - ink) for ink, paper in zip(INK, BACKGROUND, strict=True)
        )
    else:
        red, green, blue = colour
    while contrast((red, green, blue), BACKGROUND) < least:
        hue, lightness, saturation = colorsys.rgb_to_hls(red, green, blue)
        red, green, blue = colorsys.hls_to_rgb(hue, min(1.0, lightness + _STEP), saturation)
    return red, green, blue


def contrast(one: Colour, other: Colour) -> float:
    """Return the contrast of two colours as WCAG defines it, from 1 to 21.

    >>> round(contrast((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)), 2)
    21.0
    """
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: Colour) -> float:
    parts = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour
    ]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def _colours(picture: "Picture") -> Iterator[tuple[Callable[[Any], Any], Any, float]]:
    """Give what sets each colour of a figure, the colour, and the contrast that it needs."""
    from matplotlib.collections import Collection
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from matplotlib.text import Text

    # Grids, frames and reference lines are grey, and meant to be faint.
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
        is_grey = max(red, green, blue) - min(red, green, blue) <= _GREY
        wanted = max(least, 1.0 if is_grey else CONTRAST)
        made.append((*dark((red, green, blue), wanted), alpha))
    if not any(alpha for *_, alpha in made):
        return None
    return made if len(made) > 1 else made[0]
