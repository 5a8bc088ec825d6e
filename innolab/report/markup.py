"""The HTML of a notebook's outputs, made fit for a page: it is read on phones and by ear too."""

import math
import re

# CSS pixels in a point, and the smallest letters that people read on a phone.
_PX_PER_PT = 4 / 3
_LEGIBLE_PX = 9.0

_PICTURE = re.compile(
    r'<svg\b[^>]*?\swidth="(?P<width>[\d.]+)pt"[^>]*?>.*?</svg>|<svg\b.*?</svg>', re.DOTALL
)
_HEIGHT = re.compile(r'\sheight="([\d.]+)pt"')
# Matplotlib draws letters as outlines of size 100, or writes them as text.
_OUTLINES = re.compile(r"scale\((0?\.\d+) -")
_LETTERS = re.compile(r"\bfont(?:-size)?: ?(?:[a-z0-9]+ )*?([\d.]+)px")
# Its names of the parts of a picture are the same in each, and nothing refers to them.
_PART_ID = re.compile(
    r' id="(?:figure|axes|patch|text|line2d|legend|matplotlib\.axis|xtick|ytick|\w+Collection'
    r'|QuadMesh\w*|offset_text)_\d+"'
)
_TABLE = re.compile(r"<table\b.*?</table>", re.DOTALL)


def fit(html: str) -> str:
    """Return an output's HTML with pictures and tables in boxes of their own, which may scroll.

    A picture's box says how wide it is and how narrow it may become; style.css chooses between the
    two. Corners of tables lose the name of a heading, and lists that of an alert that just came up.
    """
    html = html.replace("<th></th>", "<td></td>").replace(' role="alert"', "")
    html = _TABLE.sub(lambda found: f'<div class="scroll">{found[0]}</div>', html)
    return _PICTURE.sub(_boxed, html)


def _boxed(found: re.Match[str]) -> str:
    picture = _PART_ID.sub("", found[0])
    opening = picture[: picture.index(">")]
    height = _HEIGHT.search(opening)
    if found["width"] is None or height is None:
        return f'<div class="scroll">{picture}</div>'
    wide, high = (float(side) * _PX_PER_PT for side in (found["width"], height[1]))
    sizes = f"--wide: {wide:.0f}px; --least: {_least_px(picture, wide)}px"
    sizes += f"; --shape: {wide / high:.3f}"
    return f'<div class="scroll" style="{sizes}">{picture}</div>'


def _least_px(picture: str, wide: float) -> int:
    """Return the width at which a picture's smallest letters can still be read."""
    sizes = [100 * float(scale) for scale in _OUTLINES.findall(picture)]
    sizes += [float(size) for size in _LETTERS.findall(picture)]
    smallest_px = min(sizes, default=10.0) * _PX_PER_PT
    return math.ceil(wide * min(1.0, _LEGIBLE_PX / smallest_px))
