"""SVG pictures without styles, the same on every processor, and how far two of them may differ."""

import re

# What a reader can see, and far above what processors disagree in.
DIGITS = 2
# Two roundings of one coordinate lie at most a hundredth of a pixel apart; and a bit for the sum.
TOLERANCE_PX = 0.0101

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
# Paths, places and sizes, and the shifts of text. Scales are no coordinates: rounded, they would
# change the size of every letter.
_COORDINATES = re.compile(
    r'(?<=[ \n])(?:d|x|y|width|height|x1|x2|y1|y2|cx|cy)="[^"]*"|translate\([^)]*\)'
)
# Matplotlib's ids of clips and markers are digests of coordinates: another processor, another id.
_DIGEST_ID = re.compile(r'id="((?:[a-zA-Z]|C\w+_)[0-9a-f]{10})"')
_TAG = re.compile(r"<[a-zA-Z][^<>]*>")
_STYLE = re.compile(r'(?<=[ \n])style="([^"]*)"')
_SHEET = re.compile(r'<style type="text/css">\*\{([^{}]*)\}</style>')


def settled(svg: str, name: str) -> str:
    """Return a picture with rounded coordinates, its ids numbered in order after its name.

    Styles are attributes in it, as a page's policy forbids the style of an element.

    >>> settled('<path style="fill: none; stroke: #000"/>', "a")
    '<path fill="none" stroke="#000"/>'
    >>> settled('<path id="m0123456789" d="M 1.234567 2 "/><use xlink:href="#m0123456789"/>', "a")
    '<path id="a-1" d="M 1.23 2 "/><use xlink:href="#a-1"/>'
    """
    svg = without_styles(svg)
    ids = list(dict.fromkeys(_DIGEST_ID.findall(svg)))
    numbered = {old: f"{name}-{number}" for number, old in enumerate(ids, 1)}
    if numbered:
        svg = re.sub("|".join(map(re.escape, ids)), lambda found: numbered[found[0]], svg)
    return _COORDINATES.sub(lambda found: _NUMBER.sub(_rounded, found[0]), svg)


def split(text: str) -> tuple[str, list[float]]:
    """Return a text with its SVG coordinates taken out, and the coordinates.

    >>> split('<use x="1.5" y="-2"/> 3.5')
    ('<use x="#" y="#"/> 3.5', [1.5, -2.0])
    """
    taken: list[float] = []

    def take(found: re.Match[str]) -> str:
        # The name of an attribute such as x1 holds a digit too.
        name, mark, values = re.split(r'(="|\()', found[0], maxsplit=1)
        taken.extend(float(number) for number in _NUMBER.findall(values))
        return name + mark + _NUMBER.sub("#", values)

    return _COORDINATES.sub(take, text), taken


def without_styles(svg: str) -> str:
    """Return a picture whose styles are attributes; what holds for all of it is its root's."""
    if sheet := _SHEET.search(svg):
        svg = _SHEET.sub("", svg).replace("<svg ", f"<svg {_attributes(sheet[1])} ", 1)
    return _TAG.sub(lambda tag: _STYLE.sub(lambda style: _attributes(style[1]), tag[0]), svg)


def _attributes(style: str) -> str:
    rules = dict(rule.split(":", 1) for rule in style.split(";") if ":" in rule)
    return " ".join(f'{name.strip()}="{value.strip()}"' for name, value in rules.items())


def _rounded(found: re.Match[str]) -> str:
    value = round(float(found[0]), DIGITS)
    # Without a sign of its own: -0.001 on one processor is 0.001 on another.
    return f"{value + 0:.{DIGITS}f}".rstrip("0").rstrip(".")
