"""Where an executed notebook finds the runs that it shows, when it may not measure."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

# Says so to a kernel: the folder of the runs, or 1 for the folder that the kernel works in.
VARIABLE = "INNOLAB_REPLAY"
_HERE = "1"


@dataclass(frozen=True)
class Replay:
    """A notebook's execution on recorded runs alone.

    Attributes
    ----------
    folder : holds plan and runs, and receives verdicts and figures
    is_partial : whether the first blocks of the plan are enough
    """

    folder: Path
    is_partial: bool = False


_current: ContextVar[Replay | None] = ContextVar("replay", default=None)


def current() -> Replay | None:
    """Return the replay that this process is in, or None where it may measure."""
    if found := _current.get():
        return found
    named = os.environ.get(VARIABLE)
    if not named:
        return None
    return Replay(Path.cwd() if named == _HERE else Path(named))


@contextmanager
def of(folder: Path, *, partly: bool = False) -> Iterator[None]:
    """Let the block use the runs in a folder and measure nothing."""
    token = _current.set(Replay(folder, partly))
    try:
        yield
    finally:
        _current.reset(token)
