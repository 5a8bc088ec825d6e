"""Values as messages quote them: on one line, and short whatever they are."""

import reprlib

# A message is one paragraph, whatever it quotes.
MOST_SHOWN = 400
_brief = reprlib.Repr()
_brief.maxlevel, _brief.maxlist, _brief.maxdict = 3, 8, 8
_brief.maxstring = _brief.maxlong = _brief.maxother = 100


def shown(value: object) -> str:
    """Return a value as a message quotes it: on one line, and short whatever it is.

    >>> shown([1] * 1_000_000)
    '[1, 1, 1, 1, 1, 1, 1, 1, ...]'
    """
    try:
        return cut(_brief.repr(value), MOST_SHOWN)
    except ValueError:  # Python writes out no number of more than 4,300 digits.
        return "a number of thousands of digits"


def cut(text: str, most: int) -> str:
    """Return a text on one line, cut to so many characters."""
    return printable(text if len(text) <= most else text[: most - 3] + "...", " ")


def printable(text: str, instead: str = "?") -> str:
    """Return a text on one line, without what controls a terminal or the direction of writing.

    For all that somebody else wrote, such as a server or the author of a report.

    >>> printable("5.7\\x1b[2J")
    '5.7?[2J'
    """
    return "".join(c if c.isprintable() else instead for c in text)


def one_line(text: str, most: int = 300) -> str:
    """Return the beginning of a text that somebody else wrote, as one printable line.

    >>> one_line("Access denied\\n  for \\x1b[31myou")
    'Access denied for ?[31myou'
    """
    return printable(" ".join(text.split())[:most])
