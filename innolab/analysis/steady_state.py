"""Whether a window of measurement was steady: what it ended with is what it began with.

Throughput alone is not enough. A server may put off flushing for minutes and give the same number
of transactions each second while its dirty pages and its redo log fill up.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

# The shares by which the second half of a window may differ from the first. Throughput: of its
# mean. The others: of what they can be at most, so that a few dirty pages are no drift.
TOLERANCES = {
    "tps": 0.10,
    "dirty_pages": 0.05,
    "checkpoint_age_bytes": 0.05,
    "free_pages": 0.02,
}


LEAST_SAMPLES = 3


class Drift(NamedTuple):
    """How far one quantity drifted from the first to the second half of a window, as a share."""

    quantity: str
    share: float
    tolerance: float

    @property
    def steady(self) -> bool:
        """Return whether it stayed within its tolerance."""
        return abs(self.share) <= self.tolerance


def drifts(samples: Sequence[Mapping[str, float]], capacity: Mapping[str, float]) -> list[Drift]:
    """Return the drift of every quantity over a window.

    Parameters
    ----------
    samples : at least 3 mappings in order of time, with `t_s`, `transactions` (counted since the
        start) and a value for each quantity but tps
    capacity : what each quantity but tps can be at most, in its own unit

    Raises
    ------
    ValueError
        Where there are fewer than 3 samples, which leave no two halves.

    >>> rows = [{"t_s": t, "transactions": 100 * t, "dirty_pages": 5 * t} for t in range(5)]
    >>> [(d.quantity, d.share) for d in drifts(rows, {"dirty_pages": 100})]
    [('tps', 0.0), ('dirty_pages', 0.1)]
    """
    if len(samples) < LEAST_SAMPLES:
        raise ValueError(f"a window needs at least {LEAST_SAMPLES} samples, got {len(samples)}")
    middle = len(samples) // 2
    first, second = samples[: middle + 1], samples[middle:]
    result = [Drift("tps", _of_rate(first, second), TOLERANCES["tps"])]
    for quantity, most in capacity.items():
        change = _mean(second, quantity) - _mean(first, quantity)
        result.append(Drift(quantity, change / most, TOLERANCES[quantity]))
    return result


def _of_rate(first: Sequence[Mapping[str, float]], second: Sequence[Mapping[str, float]]) -> float:
    before, after = _rate(first), _rate(second)
    mean = (before + after) / 2
    return (after - before) / mean if mean else 0.0


def _rate(samples: Sequence[Mapping[str, float]]) -> float:
    seconds = samples[-1]["t_s"] - samples[0]["t_s"]
    return (samples[-1]["transactions"] - samples[0]["transactions"]) / seconds


def _mean(samples: Sequence[Mapping[str, float]], quantity: str) -> float:
    return sum(sample[quantity] for sample in samples) / len(samples)
