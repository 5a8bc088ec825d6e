"""How a figure is wanted: widths, font and its size, light or dark, formats. Checked as given."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from innolab.base.errors import InputError
from innolab.base.quoting import shown

MM_PER_INCH = 25.4
FORMATS = ("svg", "png", "pdf")
# What matplotlib takes beside names of families: the first of a list of its own.
_GENERIC = ("serif", "sans-serif", "monospace")
# Widths on which a figure can be read at all, and sizes of text that somebody prints.
_WIDTHS_MM = (30.0, 1000.0)
_SIZES_PT = (4.0, 40.0)
_MOST_FONTS = 12


class Width(NamedTuple):
    """A width to draw a figure in, the size of its text, and its pixels an inch as PNG."""

    name: str
    inches: float
    text_pt: float
    dpi: int

    @property
    def mm(self) -> float:
        """Return the width in millimetres."""
        return self.inches * MM_PER_INCH


# Columns as most journals have them; a post is 720 CSS pixels wide, with text as the web has it.
NAMED = (
    Width("single", 85 / MM_PER_INCH, 7.5, 300),
    Width("double", 178 / MM_PER_INCH, 8, 300),
    Width("post", 720 / 96, 10, 192),
)


@dataclass(frozen=True)
class Style:
    """What of a figure is drawn, and how.

    Attributes
    ----------
    font : a family that this host has; None for the house's own
    tones : whether dark, of each that is drawn
    """

    widths: Sequence[Width] = NAMED
    font: str | None = None
    tones: Sequence[bool] = (False, True)
    formats: Sequence[str] = FORMATS


def style(
    widths: str | None = None,
    font: str | None = None,
    size_pt: float | None = None,
    tones: Sequence[bool] = (),
    formats: str | None = None,
    like: str | None = None,
) -> Style:
    """Return a style as it was asked for.

    Parameters
    ----------
    widths : names, millimetres or inches, with commas between them, as in "single,120mm,4.5in"
    size_pt : of all text in the figure; that of each width where none is given
    tones : whether dark, of each; light and dark where none is given
    formats : with commas between them
    like : a style of matplotlib, by name or file, whose font and size count where none is given

    Raises
    ------
    InputError
        Says what is wrong, and what there is.
    """
    asked = _widths(widths) if widths is not None else list(NAMED)
    named_font, named_pt = _like(like) if like is not None else (None, None)
    size_pt = size_pt if size_pt is not None else named_pt
    if size_pt is not None:
        if not _SIZES_PT[0] <= size_pt <= _SIZES_PT[1]:
            raise InputError(
                f"Text of {size_pt:g} pt is not drawn; sizes go from {_SIZES_PT[0]:g} to "
                f"{_SIZES_PT[1]:g} pt. Nothing was written."
            )
        asked = [width._replace(text_pt=size_pt) for width in asked]
    found = Style(asked, tones=tuple(dict.fromkeys(tones)) or (False, True))
    if formats is not None:
        found = replace(found, formats=_chosen(formats, FORMATS, "format"))
    family = font if font is not None else named_font
    return replace(found, font=_family(family)) if family is not None else found


def _widths(text: str) -> list[Width]:
    found = []
    for word in _words(text):
        known = next((width for width in NAMED if width.name == word), None)
        measured = re.fullmatch(r"(\d{1,4}(?:\.\d{1,2})?)\s?(mm|in)", word)
        if known:
            found.append(known)
        elif measured:
            inches = float(measured[1]) / (MM_PER_INCH if measured[2] == "mm" else 1)
            # Text as of the named width that is next above it.
            near = next((n for n in NAMED[:2] if inches <= n.inches), NAMED[1])
            found.append(Width(word.replace(" ", ""), inches, near.text_pt, near.dpi))
        else:
            raise InputError(
                f"{shown(word)} is no width. Give {', '.join(w.name for w in NAMED)}, or a length "
                "as 120mm or 4.5in. Nothing was written."
            )
        if not _WIDTHS_MM[0] <= found[-1].mm <= _WIDTHS_MM[1]:
            raise InputError(
                f"A width of {found[-1].mm:.4g} mm is not drawn; widths go from "
                f"{_WIDTHS_MM[0]:g} to {_WIDTHS_MM[1]:g} mm. Nothing was written."
            )
    if not found:
        raise InputError(f"No width is given; there are {', '.join(w.name for w in NAMED)}.")
    return list({width.name: width for width in found}.values())


def _chosen(text: str, known: Collection[str], what: str) -> list[str]:
    words = _words(text.lower())
    if not words or (unknown := [word for word in words if word not in known]):
        said = shown(unknown[0]) if words else "nothing"
        raise InputError(
            f"{said} is no {what}; there are: {', '.join(known)}. Nothing was written."
        )
    return list(dict.fromkeys(words))


def _words(text: str) -> list[str]:
    return [word for part in text.split(",") if (word := part.strip())]


def _family(name: str) -> str:
    """Return a font's family as this host writes it."""
    from matplotlib import font_manager

    there = sorted({*font_manager.fontManager.get_font_names(), *_GENERIC}, key=str.lower)
    if found := [family for family in there if family.lower() == name.strip().lower()]:
        return found[0]
    # Those for text come first; the rest have signs for formulas alone.
    some = sorted(there, key=lambda family: family.startswith(("cm", "STIX")))[:_MOST_FONTS]
    more = f" and {len(there) - len(some)} more" if len(there) > len(some) else ""
    raise InputError(
        f"There is no font {shown(name)} on this host. There are: {', '.join(some)}{more}. "
        "Install its files for your user or for the host, or name another. Nothing was written."
    )


def _like(name: str) -> tuple[str | None, float | None]:
    """Return the font and the size of a style of matplotlib; None for what it does not set."""
    import matplotlib
    from matplotlib import style as styles

    try:
        settings: Any = styles.library.get(name)
        if settings is None:
            if not Path(name).is_file():
                raise InputError(
                    f"There is no style {shown(name)}: name a file of matplotlib's settings "
                    f"(.mplstyle) or one of {', '.join(sorted(styles.available)[:_MOST_FONTS])} "
                    "and so on. Nothing was written."
                )
            settings = matplotlib.rc_params_from_file(
                name, fail_on_error=True, use_default_template=False
            )
    except (ValueError, KeyError, OSError, UnicodeError) as error:
        raise InputError(
            f"The style {shown(name)} cannot be read: {shown(str(error))}. Nothing was written."
        ) from None
    families = settings.get("font.family", [])
    family = families if isinstance(families, str) else next(iter(families), None)
    # A generic family stands for the first of its list.
    named = settings.get(f"font.{family}", [family])
    sizes = (settings.get(name) for name in ("axes.labelsize", "font.size"))
    size_pt = next((float(size) for size in sizes if isinstance(size, int | float)), None)
    return named if isinstance(named, str) else named[0], size_pt
