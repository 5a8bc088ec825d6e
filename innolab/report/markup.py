"""The HTML of a page: outputs made fit for phones and ears, and the one style sheet that it obeys.

Values enter HTML by markupsafe alone, in a template or by `Markup.format`, which escape them.
"""

import base64
import hashlib
import math
import re

from markupsafe import Markup

from innolab.report import svg

# CSS pixels in a point, and the smallest letters that people read on a phone.
_PX_PER_PT = 4 / 3
_LEGIBLE_PX = 9.0

_PICTURE = re.compile(
    r'<svg\b[^>]*?\swidth="(?P<width>[\d.]+)pt"[^>]*?>.*?</svg>|<svg\b.*?</svg>', re.DOTALL
)
_HEIGHT = re.compile(r'\sheight="([\d.]+)pt"')
# Matplotlib draws letters as outlines of size 100.
_OUTLINES = re.compile(r"scale\((0?\.\d+) -")
# Its names of the parts of a picture are the same in each, and nothing refers to them.
_PART_ID = re.compile(
    r' id="(?:figure|axes|patch|text|line2d|legend|matplotlib\.axis|xtick|ytick|\w+Collection'
    r'|QuadMesh\w*|offset_text)_\d+"'
)
_TABLE = re.compile(r"<table\b.*?</table>", re.DOTALL)
# JupyterLab shows these, which has no style sheet of ours; within a tag no value can have them.
_STYLE = re.compile(r'(<[a-z][^<>]*?) style="[^"]*"')


class Sheet:
    """The rules of one page that hold numbers of its own, each named by a class."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def __str__(self) -> str:
        return "".join(f"\n.{name} {{ {rules} }}" for rules, name in self._names.items())

    def share(self, n: int) -> str:
        """Return the class of what takes so many parts of its line."""
        return self._named(f"flex: {n:d}")

    def fit(self, html: str) -> Markup:
        """Return an output's HTML with pictures and tables in boxes of their own, which may scroll.

        A picture's box says how wide it is and how narrow it may become; style.css chooses between
        the two. Corners of tables lose the name of a heading, and lists that of an alert that just
        came up.

        Parameters
        ----------
        html : in which all values are escaped
        """
        # As plain text: a replacement in `Markup` would be escaped itself.
        html = _PICTURE.sub(self._boxed, str(html))
        html = _STYLE.sub(r"\1", html)
        html = html.replace("<th></th>", "<td></td>")
        html = html.replace('<ul class="alert" role="alert">', '<ul class="alert">')
        return Markup(_TABLE.sub(lambda found: f'<div class="scroll">{found[0]}</div>', html))

    def _boxed(self, found: re.Match[str]) -> str:
        picture = svg.without_styles(_PART_ID.sub("", found[0]))
        opening = picture[: picture.index(">")]
        height = _HEIGHT.search(opening)
        if found["width"] is None or height is None:
            return f'<div class="scroll">{picture}</div>'
        wide, high = (float(side) * _PX_PER_PT for side in (found["width"], height[1]))
        sizes = f"--wide: {wide:.0f}px; --least: {_least_px(picture, wide)}px"
        sizes += f"; --shape: {wide / high:.3f}"
        return f'<div class="scroll {self._named(sizes)}">{picture}</div>'

    def _named(self, rules: str) -> str:
        return self._names.setdefault(rules, f"own-{len(self._names) + 1}")


def policy(style: str, script: str = "", images: str = "data:") -> str:
    """Return what a browser may do for a page: obey its own style sheet and script, fetch nothing.

    Whatever else a notebook's text or a recorded message brings into the page stays text.

    Parameters
    ----------
    style, script : as the page has them, to the letter
    images : from where it shows pictures
    """
    scripts = f"script-src {_source(script)}; " if script else ""
    return (
        f"default-src 'none'; {scripts}style-src {_source(style)}; img-src {images}; "
        "base-uri 'none'; form-action 'none'"
    )


def _source(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _least_px(picture: str, wide: float) -> int:
    """Return the width at which a picture's smallest letters can still be read."""
    sizes = [100 * float(scale) for scale in _OUTLINES.findall(picture)]
    smallest_px = min(sizes, default=10.0) * _PX_PER_PT
    return math.ceil(wide * min(1.0, _LEGIBLE_PX / smallest_px))
