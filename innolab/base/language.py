"""The language of what a report says: English, or one that a catalogue in data/languages has.

As gettext has it, an English text is the name of its translation, and what the catalogue lacks
stays English. The language chosen is a value of the context and not of the process, so that two
books that are made in one process do not take each other's.

What verdicts, controls and doubts say is a `Message`, a template with its values, which becomes a
sentence where it is shown; records have it in English. Of other sentences that records have,
`sentence` finds the template that made them.
"""

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from innolab.base import places

if TYPE_CHECKING:
    from babel.messages.catalog import Catalog

ENGLISH = "en"
CATALOGUES = places.own("data", "languages")
# The languages, each with the font of its letters where the house's has none of them.
FONTS: dict[str, str | None] = {ENGLISH: None, "ko": "NanumGothic"}
# The context of templates that code beneath the reports fills, and `sentence` recognises.
COMPOSED = "composed"
# Values of templates that are numbers, so that "{low} to {high}" is no other words with a "to".
_NUMBERS = {"low", "high", "n", "total"}
_NUMBER = r"[-+\d.,e%]+"
_chosen: ContextVar[str] = ContextVar("language", default=ENGLISH)


class _Template(NamedTuple):
    pattern: re.Pattern[str]
    translated: str


def chosen() -> str:
    """Return the language in which texts are given."""
    return _chosen.get()


def choose(name: str) -> None:
    """Give texts in a language from now on, until the context ends."""
    _chosen.set(name)


@contextmanager
def speaking(name: str) -> Iterator[None]:
    """Give texts in a language within the block, whatever it chooses itself."""
    token = _chosen.set(name)
    try:
        yield
    finally:
        _chosen.reset(token)


def text(english: str, /, **values: Any) -> str:
    """Return a text in the language chosen, with its named values.

    >>> text("{n:,} rows", n=1000)
    '1,000 rows'
    """
    found = _exact(chosen()).get(english, english)
    return found.format(**values) if values else found


@dataclass(frozen=True)
class Message:
    """A sentence as what it is made of; as a string it is English.

    Attributes
    ----------
    template : the English sentence, with its values' names in braces; without values, a sentence
        as somebody wrote or recorded it
    values : by name; those that are messages or recorded sentences are shown in the same language
    """

    template: str
    values: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.template.format(**self.values) if self.values else self.template

    def shown(self) -> str:
        """Return the sentence in the language chosen."""
        if not self.values:
            return sentence(self.template)
        return text(self.template, **{name: _shown(value) for name, value in self.values.items()})


def message(template: str, /, **values: Any) -> Message:
    """Return a sentence of a template that catalogues translate.

    >>> str(message("up to {share:.0%} of {n} runs", share=0.25, n=8))
    'up to 25% of 8 runs'
    """
    return Message(template, values)


def joined(messages: Sequence[Message]) -> Message:
    """Return messages as one, with a semicolon between them.

    >>> str(joined([message("{n} runs", n=1), Message("a note")]))
    '1 runs; a note'
    """
    if len(messages) == 1:
        return messages[0]
    parts = {f"part{place}": part for place, part in enumerate(messages)}
    return Message("; ".join(f"{{{name}}}" for name in parts), parts)


def _shown(value: Any) -> Any:
    if isinstance(value, Message):
        return value.shown()
    return sentence(value) if isinstance(value, str) else value


def word(english: str) -> str:
    """Return a heading, a label or the name of a level in the language chosen.

    One that is made of others, as "mysql-9.7: MB a second", is given part by part; identifiers
    stay.
    """
    return english if chosen() == ENGLISH else _parted(chosen(), english, ": ", ", ")


def sentence(english: str) -> str:
    """Return a sentence that templates of the catalogue made, in the language chosen.

    Its values are sentences or words themselves. What no template made, as a quoted error, stays.
    """
    return english if chosen() == ENGLISH else _parted(chosen(), english, "; ")


def markdown(source: str) -> str:
    """Return the prose of a notebook's cell in the language chosen, paragraph by paragraph."""
    if chosen() == ENGLISH:
        return source
    return "\n\n".join(map(_paragraph, source.split("\n\n")))


def parts(paragraph: str) -> tuple[str, str]:
    """Return a paragraph's marks of a heading, and its words: what a catalogue names it by.

    >>> parts("## The answer")
    ('## ', 'The answer')
    """
    marks = re.match(r"#* *", paragraph)
    assert marks is not None
    return marks[0], paragraph[marks.end() :]


def catalogue(name: str) -> "Catalog":
    """Return the catalogue of a language, as translators write it."""
    from babel.messages.pofile import read_po

    with path_of(name).open("rb") as file:
        return read_po(file, locale=name)


def path_of(name: str) -> Path:
    """Return the path of a language's catalogue."""
    return CATALOGUES / f"{name}.po"


def _paragraph(paragraph: str) -> str:
    marks, words = parts(paragraph)
    return marks + text(words)


@functools.cache
def messages(name: str) -> list[tuple[str, str, str | None]]:
    """Return English text, translation and context of each message that is translated."""
    if name == ENGLISH:
        return []
    return [
        (str(message.id), str(message.string), message.context)
        for message in catalogue(name)
        if message.id and message.string and not message.fuzzy
    ]


@functools.cache
def _exact(name: str) -> Mapping[str, str]:
    return {english: translated for english, translated, _ in messages(name)}


@functools.cache
def _templates(name: str) -> list[_Template]:
    """Return what recognises composed sentences, those with most fixed letters first."""
    composed = [m for m in messages(name) if m[2] == COMPOSED and "{" in m[0]]
    composed.sort(key=lambda m: len(re.sub(r"\{\w+\}", "", m[0])), reverse=True)
    return [_Template(_pattern(english), translated) for english, translated, _ in composed]


def _pattern(english: str) -> re.Pattern[str]:
    """Return what matches the texts that a template made; a name twice is the same value twice."""
    seen: set[str] = set()
    made = ""
    for fixed, name in re.findall(r"([^{]*)(?:\{(\w+)\})?", english):
        made += re.escape(fixed)
        if name:
            shape = _NUMBER if name in _NUMBERS else ".+?"
            made += f"(?P={name})" if name in seen else f"(?P<{name}>{shape})"
            seen.add(name)
    return re.compile(made)


@functools.lru_cache(maxsize=4096)
def _known(name: str, english: str) -> str | None:
    """Return the translation of a text, or of the template that made it; None if there is none.

    The values of a template are sentences or words themselves.
    """
    if english in (exact := _exact(name)):
        return exact[english]
    for template in _templates(name):
        if found := template.pattern.fullmatch(english):
            values = {key: _parted(name, value, "; ") for key, value in found.groupdict().items()}
            return template.translated.format(**values)
    return None


def _parted(name: str, english: str, *separators: str) -> str:
    """Return a text in a language, or else its parts that are known."""
    if (found := _known(name, english)) is not None:
        return found
    for separator in separators:
        if separator in english:
            parted = english.split(separator)
            return separator.join(_parted(name, part, *separators) for part in parted)
    return english
