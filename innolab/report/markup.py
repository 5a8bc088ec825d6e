"""The HTML of a page: outputs made fit for phones and ears, and the one style sheet that it obeys.

Values enter HTML by markupsafe alone, in a template or by `Markup.format`, which escape them.
"""

import base64
import hashlib
import math
import re

from markupsafe import Markup

from innolab.base import language
from innolab.report import dark_colours, svg

# CSS pixels in a point, and the smallest letters that people read on a phone.
_PX_PER_PT = 4 / 3
_LEGIBLE_PX = 9.0

_PICTURE = re.compile(
    r'<svg\b[^>]*?\swidth="(?P<width>[\d.]+)pt"[^>]*?>.*?</svg>|<svg\b.*?</svg>', re.DOTALL
)
_COLOUR = re.compile(r'\b(fill|stroke)="#([0-9a-f]{6})"')
_HEIGHT = re.compile(r'\sheight="([\d.]+)pt"')
# Matplotlib draws letters as outlines of size 100.
_OUTLINES = re.compile(r"scale\((0?\.\d+) -")
# Its names of the parts of a picture are the same in each, and nothing refers to them.
_PART_ID = re.compile(
    r' id="(?:figure|axes|patch|text|line2d|legend|matplotlib\.axis|xtick|ytick|\w+Collection'
    r'|QuadMesh\w*|offset_text)_\d+"'
)
_HEADING = re.compile(r'<h2(?: id="(?P<id>[^"]*)")?>(?P<words>.*?)</h2>', re.DOTALL)
_TAG = re.compile(r"<[^<>]*>")
# From so many headings on a page has a list of them.
_LONG = 5
_TABLE = re.compile(r"<table\b.*?</table>", re.DOTALL)
# JupyterLab shows these, which has no style sheet of ours; within a tag no value can have them.
_STYLE = re.compile(r'(<[a-z][^<>]*?) style="[^"]*"')


class Sheet:
    """The rules of one page that hold numbers of its own, each named by a class."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._colours: dict[tuple[str, str], None] = {}

    def __str__(self) -> str:
        own = "".join(f"\n.{name} {{ {rules} }}" for rules, name in self._names.items())
        dark = "".join(map(_in_the_dark, self._colours))
        return (
            f"{own}\n@media screen and (prefers-color-scheme: dark) {{{dark}\n}}" if dark else own
        )

    def __html__(self) -> str:
        """Return the rules as a template has them: numbers, names and colours of ours alone."""
        return str(self)

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
        self._colours |= dict.fromkeys(_COLOUR.findall(picture))
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


def _in_the_dark(coloured: tuple[str, str]) -> str:
    """Return the rule for what has a colour of a picture, on a dark page.

    It names no element around it, as what a `use` shows has none.
    """
    name, digits = coloured
    red, green, blue = (int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4))
    least = 1.0 if dark_colours.is_grey((red, green, blue)) else dark_colours.CONTRAST
    made = dark_colours.dark((red, green, blue), least)
    shown = "".join(f"{round(255 * part):02x}" for part in made)
    return f'\n[{name}="#{digits}"] {{ {name}: #{shown} }}'


def with_contents(html: str) -> Markup:
    """Return a long page with a list of its headings before the first one, and a way back to it.

    Parameters
    ----------
    html : in which all values are escaped
    """
    headings: list[Markup] = []

    def named(found: re.Match[str]) -> str:
        anchor = found["id"] or f"section-{len(headings) + 1}"
        words = Markup(_TAG.sub("", found["words"]))
        headings.append(Markup('<li><a href="#{}">{}</a></li>').format(anchor, words))
        return f'<h2 id="{anchor}">{found["words"]}</h2>'

    html = str(html)
    marked = _HEADING.sub(named, html)
    if len(headings) < _LONG:
        return Markup(html)
    name = language.text("Contents")
    contents = Markup(
        '<nav class="contents" id="contents" aria-label="{0}"><ol>{1}</ol></nav>\n'
        '<a class="back" href="#contents">{0}</a>\n'
    ).format(name, Markup("").join(headings))
    at = marked.index("<h2 ")
    return Markup(f"{marked[:at]}{contents}{marked[at:]}")


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
