"""What its executor hands over to a notebook: the recorded runs that are all it may show."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# The name among a notebook's globals under which its executor hands a replay over.
GLOBAL = "_innolab_replay"


@dataclass(frozen=True)
class Replay:
    """A notebook's execution on recorded runs alone.

    Attributes
    ----------
    folder : holds plan and runs, and receives verdicts and figures
    is_partial : whether the first blocks of the plan are enough
    take : takes each figure that is published, which is not written then
    """

    folder: Path
    is_partial: bool = False
    take: Callable[[Any], None] | None = None


def of(names: Mapping[str, Any]) -> Replay | None:
    """Return the replay that was handed over to a notebook with these globals, if one was."""
    found = names.get(GLOBAL)
    return found if isinstance(found, Replay) else None
