"""What a validity check reads, what it is judged by, and what it returns."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from innolab.record.run import Result
from innolab.storage import profiles
from innolab.storage.profiles import Profile


@dataclass(frozen=True)
class Evidence:
    """What one trial recorded.

    Attributes
    ----------
    bounds : the numbers that a check judges it by, by name; those that are left out are the check's
        own
    devices : what emulated devices should do, by name
    """

    observations: Sequence[Mapping[str, Any]]
    conditions: Mapping[str, Any]
    variables: Mapping[str, str]
    bounds: Mapping[str, float] = field(default_factory=dict)
    devices: Mapping[str, Profile] = field(default_factory=profiles.profiles)


Finding = tuple[Result, str]


@dataclass(frozen=True)
class Check:
    """One validity check.

    A report keeps the bounds, so that a later innolab with other bounds can still verify it.

    Attributes
    ----------
    examine : takes what a trial recorded, with all bounds, and returns what it finds
    bounds : the numbers that it judges by, by name
    """

    examine: Callable[[Evidence], Finding]
    bounds: Mapping[str, float] = field(default_factory=dict)

    def __call__(self, evidence: Evidence) -> Finding:
        """Return what the check finds, by its own bounds where the evidence names no others."""
        return self.examine(replace(evidence, bounds={**self.bounds, **evidence.bounds}))


def graded(share: float, bounds: Mapping[str, float]) -> Result:
    """Return how bad a share is: a warning above bound `warn`, invalid above bound `invalid`."""
    if share > bounds["invalid"]:
        return "invalid"
    return "warn" if share > bounds["warn"] else "ok"
