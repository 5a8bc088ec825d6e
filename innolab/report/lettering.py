"""The words within a figure in the language of its book, and the font that has their letters."""

from typing import TYPE_CHECKING

from innolab.base import language

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture


def use_font() -> None:
    """Let matplotlib draw the letters of the language that the house's font lacks.

    The font comes with a package of the lock, so that a figure is the same on every host.
    """
    import matplotlib
    from matplotlib import font_manager

    if (name := language.FONTS[language.chosen()]) is None:
        return
    if name not in font_manager.fontManager.get_font_names():
        font_manager.fontManager.addfont(_file_of(name))
    matplotlib.rcParams["font.family"] = [*matplotlib.rcParams["font.family"], name]


def lettered(picture: "Picture") -> "Picture":
    """Give titles, labels and legends of a figure their words in the language chosen."""
    from matplotlib.text import Text

    if language.chosen() != language.ENGLISH:
        for words in picture.findobj(Text):
            assert isinstance(words, Text)
            words.set_text(language.word(words.get_text()))
    return picture
