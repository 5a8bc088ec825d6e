"""What one pastes to show a figure: Markdown, HTML and LaTeX, its words escaped for each."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from innolab.report.prose import in_markdown, line

# Narrower than this a browser takes the picture of a single column.
PHONE_PX = 480

_IN_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
    **{mark: "\\" + mark for mark in "&%$#_"},
}  # fmt: skip


@dataclass(frozen=True)
class Picture:
    """A picture in a file, with its width and height in CSS pixels."""

    file: str
    width: int
    height: int
    is_dark: bool = False


def in_latex(text: str) -> str:
    r"""Return a text that LaTeX shows as it is.

    >>> print(in_latex("95 % of a_b"))
    95 \% of a\_b
    """
    return "".join(_IN_LATEX.get(mark, mark) for mark in line(text))


def markdown(picture: Picture, caption: str, alt: str) -> str:
    """Return a picture with its caption below."""
    return f"![{in_markdown(alt)}]({picture.file})\n\n{in_markdown(caption)}\n"


def html_figure(
    pictures: Sequence[Picture], phones: Sequence[Picture], caption: str, alt: str
) -> str:
    """Return a `figure` whose picture follows the reader's colour scheme and screen.

    Parameters
    ----------
    pictures : of one width; the first light one is for browsers that know no colour schemes
    phones : the same of a smaller width; none where there is one width alone
    """
    plain = next((one for one in pictures if not one.is_dark), pictures[0])
    sources = [
        *(_source(one, f"(max-width: {PHONE_PX}px)", phones) for one in _dark_first(phones)),
        *(_source(one, "", pictures) for one in _dark_first(pictures) if one is not plain),
    ]
    image = Markup(
        '<img src="{}" width="{}" height="{}" style="max-width: 100%; height: auto" alt="{}">'
    ).format(plain.file, plain.width, plain.height, line(alt))
    inner = Markup("  {}").format(image)
    if sources:
        each = Markup("").join(Markup("    {}\n").format(source) for source in sources)
        inner = Markup("  <picture>\n{}    {}\n  </picture>").format(each, image)
    figure = Markup("<figure>\n{}\n  <figcaption>{}</figcaption>\n</figure>\n")
    return str(figure.format(inner, line(caption)))


def latex_figure(file: str, label: str, caption: str, alt: str, *, is_wide: bool = False) -> str:
    """Return a `figure` that is as wide as a column, or `figure*` as wide as the page's text.

    It needs `graphicx`, of 2021 or later for the alternative text.
    """
    kind, width = ("figure*", r"\textwidth") if is_wide else ("figure", r"\columnwidth")
    return (
        f"\\begin{{{kind}}}\n  \\centering\n"
        f"  \\includegraphics[width={width},\n    alt={{{in_latex(alt)}}}]{{{file}}}\n"
        f"  \\caption{{{in_latex(caption)}}}\n"
        f"  \\label{{fig:{label}}}\n\\end{{{kind}}}\n"
    )


def _dark_first(pictures: Sequence[Picture]) -> list[Picture]:
    # A browser takes the first source that fits, and a light one always fits.
    return sorted(pictures, key=lambda one: not one.is_dark)


def _source(picture: Picture, media: str, among: Sequence[Picture]) -> Markup:
    is_choice = any(one.is_dark != picture.is_dark for one in among)
    scheme = "(prefers-color-scheme: dark)" if picture.is_dark and is_choice else ""
    said = " and ".join(part for part in (media, scheme) if part)
    source = Markup('<source media="{}" srcset="{}" width="{}" height="{}">')
    return source.format(said, picture.file, picture.width, picture.height)
