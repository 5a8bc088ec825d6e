"""Markdown with values in it, none of which is markup: the one place that writes values into it."""

import numbers
import re
from collections.abc import Iterable, Sequence
from typing import Any

from innolab.base import language

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\\": "&#92;"}
# Marks of words, links, pictures, tables, formulas and addresses.
_MARK = re.compile(r"[`*_\[\]|$~@]|:(?=//)|(?<=www)\.", re.IGNORECASE)
# What makes a heading, a list or a definition of the line that begins with it.
_FIRST = re.compile(r"^([-+=#:]|\d+[.)](?=\s|$))")


class Prose(str):
    """Markdown that may be shown as it is: what was written here, with escaped values in it."""

    def _repr_markdown_(self) -> str:
        return str(self)

    def __repr__(self) -> str:
        return str(self)


def line(text: str) -> str:
    """Return a text on one line: the labels in alternative texts may have line breaks."""
    return " ".join(text.split())


def in_markdown(text: str) -> str:
    r"""Return a text that Markdown shows as it is, on one line.

    >>> print(in_markdown("a_b [1]"), in_markdown("<b>"), in_markdown("1. x"))
    a\_b \[1\] &lt;b&gt; 1\. x
    """
    if isinstance(text, Prose):
        return text
    bare = "".join(_ENTITIES.get(mark, mark) for mark in line(text))
    first = _FIRST.sub(lambda found: f"{found[0][:-1]}\\{found[0][-1]}", bare)
    return _MARK.sub(r"\\\g<0>", first)


def code(text: str) -> Prose:
    """Return a text as code in a line of Markdown, where no mark means anything.

    >>> code("a`b")
    ``a`b``
    """
    bare = line(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", bare)), default=0))
    space = " " if bare.startswith("`") or bare.endswith("`") else ""
    return Prose(f"{fence}{space}{bare}{space}{fence}")


def from_markdown(text: str) -> str:
    """Return the text that `in_markdown` escaped."""
    bare = re.sub(r"\\(?=[^0-9A-Za-z\s])", "", text)
    for mark, entity in reversed(_ENTITIES.items()):
        bare = bare.replace(entity, mark)
    return line(bare)


def prose(words: str, /, **values: Any) -> Prose:
    """Return Markdown with named values in it, in the language chosen.

    Parameters
    ----------
    words : English, one text for the translator, as "**{n:,}** rows"; written by an author
    values : numbers; prose, which stays as it is; anything else as text that shows as it is
    """
    return Prose(language.text(words, **{name: _shown(value) for name, value in values.items()}))


def lines(parts: Sequence[str], between: str = "\n") -> Prose:
    """Return prose of several parts, lines where nothing else is said; texts are escaped."""
    return Prose(between.join(map(in_markdown, parts)))


def _shown(value: Any) -> Any:
    return value if isinstance(value, numbers.Number) else in_markdown(
        value if isinstance(value, str) else str(value)
    )  # fmt: skip


def listed(words: Iterable[object]) -> str:
    """Return words as a sentence lists them, in the language chosen; prose if one of them is.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    each = list(words)
    texts = [one if isinstance(one, Prose) else language.word(str(one)) for one in each]
    is_prose = any(isinstance(one, Prose) for one in each)
    if is_prose:
        texts = [in_markdown(one) for one in texts]
    # In another language a joining word would depend on the sound before it.
    if language.chosen() == language.ENGLISH and len(texts) > 1:
        texts = [" and ".join([", ".join(texts[:-1]), texts[-1]])]
    sentence = ", ".join(texts)
    return Prose(sentence) if is_prose else sentence
