"""How likely a claim holds by its interval, and what that says of a claim that is not decided."""

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from innolab.analysis import stats

Leaning = Literal["leans yes", "leans no", "at the edge"]

# More digits would differ from one CPU to the next, and say nothing to a reader.
_DIGITS = 3


class Likelihood(NamedTuple):
    """How likely a claim holds.

    Attributes
    ----------
    probability : that the claim holds, 0 to 1; None where it is not known
    leaning : to which side an undecided claim leans, or that its value is near its bound
    """

    probability: float | None = None
    leaning: Leaning | None = None


NOT_KNOWN = Likelihood()


def standing(verdict: Mapping[str, Any]) -> str:
    """Return what an entry of verdicts.json is to a reader: how it leans, else its outcome.

    Older reports do not have how a verdict leans.
    """
    return str(verdict.get("leaning") or verdict["verdict"])


def likelihood(
    interval: stats.Interval, low: float, high: float, edge: float, *, on_logs: bool, is_open: bool
) -> Likelihood:
    """Return how likely a claim holds, and how one that is open leans.

    Parameters
    ----------
    low, high : the values between which the claim is true; either may be infinite
    edge : how near to a bound a value is at the edge, as a share of the bound
    on_logs : whether the interval is Student's on logarithms, as that of a ratio
    is_open : whether the interval does not decide the claim

    >>> likelihood(stats.Interval(1.1, 0.9, 1.34, 5), 1.0, math.inf, 0.05, on_logs=True,
    ...            is_open=True)
    Likelihood(probability=0.871, leaning='leans yes')
    """
    found = stats.probability(interval, low, high, on_logs=on_logs)
    if found is None:
        return NOT_KNOWN
    found = round(found, _DIGITS)
    if not is_open:
        return Likelihood(found)
    if _is_at_edge(interval, (low, high), edge, on_logs=on_logs):
        return Likelihood(found, "at the edge")
    return Likelihood(found, leaning(found))


def leaning(probability: float) -> Leaning:
    """Return to which side a claim leans that is not decided.

    >>> leaning(0.7)
    'leans yes'
    """
    return "leans yes" if probability >= 0.5 else "leans no"


def _is_at_edge(
    interval: stats.Interval, bounds: tuple[float, float], edge: float, *, on_logs: bool
) -> bool:
    """Return whether an interval that holds a bound is no wider than what the bound leaves open."""
    if on_logs:
        return math.log(interval.high / interval.low) / 2 <= math.log1p(edge)
    held = [abs(bound) for bound in bounds if interval.low <= bound <= interval.high]
    return (interval.high - interval.low) / 2 <= edge * max(held, default=0.0)
