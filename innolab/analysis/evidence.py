"""What a validity check reads and returns."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from innolab.record.run import Result


@dataclass(frozen=True)
class Evidence:
    """What one trial recorded."""

    observations: Sequence[Mapping[str, Any]]
    conditions: Mapping[str, Any]
    variables: Mapping[str, str]


Finding = tuple[Result, str]
Check = Callable[[Evidence], Finding]


def graded(share: float, warn: float, invalid: float) -> Result:
    """Return how bad a share is, by the shares above which it is a warning and invalid."""
    if share > invalid:
        return "invalid"
    return "warn" if share > warn else "ok"
