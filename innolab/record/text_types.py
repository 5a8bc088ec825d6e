"""Types of the texts in records: names and versions as they can be, and sentences that only show.

Who wrote a record is not known. A name is refused where it is not made like one; a sentence, such
as the error of a program, is taken, and what in it would not show as a character is replaced.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field, PlainSerializer, PlainValidator

from innolab.base.language import Message

# A study or a judged table: both name folders, out of which they must not lead.
FOLDER_NAME = r"^[a-z0-9-]{1,60}$"
MOST_CHARACTERS = 4000
_MOST_NESTED = 20
# What breaks a line or sets words apart, and is no printable character for Python.
_SPACES = "\n\t\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}\N{IDEOGRAPHIC SPACE}"


def plain(text: str) -> str:
    """Return a text with what would not show as a character replaced, cut where it is too long.

    Control characters drive a terminal, and marks of direction show a text in another order.

    >>> plain("red: \\x1b[31m, turned: \\u202e")
    'red: \\ufffd[31m, turned: \\ufffd'
    """
    if len(text) > MOST_CHARACTERS:
        text = text[: MOST_CHARACTERS - 3] + "..."
    if text.isprintable():  # As nearly all are, and a report has a hundred thousand.
        return text
    return "".join(c if c.isprintable() or c in _SPACES else "\ufffd" for c in text)


def all_plain(value: Any, depth: int = 0) -> Any:
    """Return a value of JSON with all of its texts plain, names of fields included.

    Raises
    ------
    ValueError
        Where it is nested deeper than any record is.
    """
    if depth > _MOST_NESTED:
        raise ValueError(f"it is nested deeper than {_MOST_NESTED} levels")
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, Mapping):
        return {plain(name): all_plain(of, depth + 1) for name, of in value.items()}
    return [all_plain(of, depth + 1) for of in value] if isinstance(value, list) else value


def _require_plain(value: Any) -> Any:
    if all_plain(value) != value:
        raise ValueError(
            f"has a control character or a mark of direction, or over {MOST_CHARACTERS} characters"
        )
    return value


# A sentence or a quotation: anything that shows.
Text = Annotated[str, AfterValidator(plain)]
# A message that records have in English.
Said = Annotated[
    Message,
    PlainValidator(lambda value: value if isinstance(value, Message) else Message(plain(value))),
    PlainSerializer(lambda message: plain(str(message)), return_type=str),
]
# The same where a person or innolab wrote it, so that nothing in it is to be replaced.
PlainText = Annotated[str, AfterValidator(_require_plain)]
# Facts of which each kind of trial and host has others.
Facts = Annotated[dict[str, Any], AfterValidator(all_plain)]
PlainFacts = Annotated[dict[str, Any], AfterValidator(_require_plain)]
# The words of studies: of a level, a metric, a check or a claim.
Label = Annotated[str, Field(pattern=r"^[\w ,./:%()+~=*-]{1,120}$")]
# A server, a device, a stage.
Name = Annotated[str, Field(pattern=r"^[0-9A-Za-z][0-9A-Za-z ._+~-]{0,99}$")]
Version = Annotated[str, Field(pattern=r"^[0-9A-Za-z][0-9A-Za-z.+~:_-]{0,59}$")]
Release = Annotated[str, Field(pattern=r"^[0-9A-Za-z][0-9A-Za-z.+~_-]{0,99}$")]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Commit = Annotated[str, Field(pattern="^[0-9a-f]{40}$")]
FolderName = Annotated[str, Field(pattern=FOLDER_NAME)]
