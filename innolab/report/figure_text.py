"""The words within a figure in the language of its book, and the font that has their letters."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from innolab.base import language
from innolab.base.errors import InnolabError

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

# Where a font lies: the package of the lock that carries it, which is not imported as it would
# change matplotlib's settings, and its file there.
_FILES = {"NanumGothic": ("koreanize_matplotlib", "fonts/NanumGothic.ttf")}

# Has the letters of Korean, Japanese and most Chinese, which the house's font lacks.
_WIDE = "NanumGothic"


def use_font() -> None:
    """Let matplotlib draw the letters of the language that the house's font lacks.

    The font comes with a package of the lock, so that a figure is the same on every host.

    Raises
    ------
    InnolabError
        Where that package is not installed.
    """
    import matplotlib
    from matplotlib import font_manager

    if (name := language.FONTS[language.chosen()]) is None:
        return
    if name not in font_manager.fontManager.get_font_names():
        font_manager.fontManager.addfont(_file_of(name))
    matplotlib.rcParams["font.family"] = [*matplotlib.rcParams["font.family"], name]


@contextmanager
def letters_of(texts: Iterable[str]) -> Iterator[dict[str, str]]:
    """Let figures within the block have the letters of any text, and give each as it is drawn.

    A text with a letter that no font of the lock has is drawn as a number in brackets, so that the
    figure is the same on every host; its caption has to say what the number is.
    """
    import matplotlib
    from matplotlib import font_manager

    families = list(matplotlib.rcParams["font.family"])
    files = [font_manager.findfont(font_manager.FontProperties()), str(_file_of(_WIDE))]
    house, wide = (set(font_manager.get_font(file).get_charmap()) for file in files)
    letters = {text: {ord(c) for c in text if c.isprintable()} for text in dict.fromkeys(texts)}
    if not all(of <= house for of in letters.values()):
        if _WIDE not in font_manager.fontManager.get_font_names():
            font_manager.fontManager.addfont(files[1])
        families.append(_WIDE)
    drawn = {
        text: text if of <= house | wide else f"({place})"
        for place, (text, of) in enumerate(letters.items(), 1)
    }
    with matplotlib.rc_context({"font.family": families}):
        yield drawn


def lettered(picture: "Picture") -> "Picture":
    """Give titles, labels and legends of a figure their words in the language chosen."""
    from matplotlib.text import Text

    if language.chosen() != language.ENGLISH:
        for words in picture.findobj(Text):
            assert isinstance(words, Text)
            words.set_text(language.word(words.get_text()))
    return picture


def _file_of(name: str) -> Path:
    package, file = _FILES[name]
    found = find_spec(package)
    if found is None or found.origin is None:
        raise InnolabError(
            f"The font {name} is missing, without which figures have no letters in this language. "
            f"It comes with the package {package.replace('_', '-')}: run make setup."
        )
    return Path(found.origin).parent / file
