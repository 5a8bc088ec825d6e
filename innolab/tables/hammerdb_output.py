"""What HammerDB prints at the end of a timed TPROC-C run, read into numbers."""

import re
from typing import NamedTuple

from innolab.base.errors import InnolabError

# Its own counter is of all transactions; new orders are those that the TPC counts.
_RESULT = re.compile(
    r"TEST RESULT : System achieved (?P<nopm>\d+) NOPM from (?P<tpm>\d+) [\w ]*?TPM\b"
)


class HammerDbResult(NamedTuple):
    """New orders and transactions of all kinds, a minute."""

    nopm: int
    tpm: int


def parse(text: str) -> HammerDbResult:
    """Return the result of a run that ended.

    Raises
    ------
    InnolabError
        Where the text has no result, as of a run that died, or several that differ.

    >>> parse("Vuser 1:TEST RESULT : System achieved 152010 NOPM from 353125 MySQL TPM")
    Result(nopm=152010, tpm=353125)
    """
    found = {HammerDbResult(int(one["nopm"]), int(one["tpm"])) for one in _RESULT.finditer(text)}
    if not found:
        raise InnolabError("HammerDB did not come to a result: no line says TEST RESULT.")
    if len(found) > 1:
        raise InnolabError(
            f"It holds {len(found)} results of HammerDB that differ; keep each run in a file of "
            "its own."
        )
    return found.pop()
