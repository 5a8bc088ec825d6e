"""Colours for a dark page in place of those for white: greys turned over, others light enough."""

import colorsys

# That of pages, as style.css has it.
BACKGROUND = (0.090, 0.098, 0.110)
INK = (0.94, 0.94, 0.94)
# What WCAG 2.2 asks of text; lines and marks get as much, which is more than they need.
CONTRAST = 4.5
_GREY = 0.08
_STEP = 0.02

Colour = tuple[float, float, float]


def is_grey(colour: Colour) -> bool:
    """Return whether a colour is a grey: grids, frames and reference lines are meant to be faint.

    >>> is_grey((0.8, 0.8, 0.8)), is_grey((0.8, 0.2, 0.2))
    (True, False)
    """
    return max(colour) - min(colour) <= _GREY


def dark(colour: Colour, least: float) -> Colour:
    """Return a colour for the dark background in place of one for white.

    Parameters
    ----------
    least : the contrast with the background that it has at least; 1 for none

    >>> dark((0.0, 0.0, 0.0), CONTRAST) == INK
    True
    >>> [round(part, 3) for part in dark((1.0, 1.0, 1.0), 1)]
    [0.09, 0.098, 0.11]
    """
    if is_grey(colour):
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
