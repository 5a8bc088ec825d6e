"""Whether a load was steady: before its window, and from the beginning of that to the end.

Throughput alone is not enough. A server may put off flushing for minutes and give the same number
of transactions each second while its dirty pages and its redo log fill up. Pages read and written
a transaction tell both: what is put off is missing there, what was put off before is too many.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

# The shares by which the second half of a window may differ from the first. Throughput: of its
# mean. The others: of what they can be at most, so that a few dirty pages are no drift.
TOLERANCES = {
    "tps": 0.10,
    "pages_read_per_tx": 0.15,
    "pages_written_per_tx": 0.15,
    "dirty_pages": 0.05,
    "checkpoint_age_bytes": 0.05,
    "free_pages": 0.02,
}

LEAST_SAMPLES = 3
# What a transaction costs, as counters of the server have it, and the counter of each.
COSTS = {"pages_read_per_tx": "pages_read", "pages_written_per_tx": "pages_written"}
# What a server puts off, as a share of what it can put off.
PUT_OFF = ("dirty_pages", "checkpoint_age_bytes")
# Of a cost below it a change is none that throughput would show.
_FEW_PAGES = 0.5
# Steps of a warm-up that are compared: the last with those before it.
LEAST_STEPS = 3


class Drift(NamedTuple):
    """How far one quantity drifted from the first to the second half of a window, as a share."""

    quantity: str
    share: float
    tolerance: float

    @property
    def steady(self) -> bool:
        """Return whether it stayed within its tolerance."""
        return abs(self.share) <= self.tolerance


def is_level(steps: Sequence[Mapping[str, float]]) -> bool:
    """Return whether what a transaction costs, and what is put off, has stopped changing.

    Parameters
    ----------
    steps : the COSTS in each step of a warm-up, in order of time, and PUT_OFF at its end; older
        records have no PUT_OFF

    >>> is_level([{"pages_read_per_tx": 9.0, "pages_written_per_tx": w} for w in (30, 12, 11)])
    False
    >>> is_level([{"pages_read_per_tx": 9.0, "pages_written_per_tx": w} for w in (12, 11, 11)])
    True
    """
    if len(steps) < LEAST_STEPS:
        return False
    *before, last = steps[-LEAST_STEPS:]
    levelled = all(
        abs(_change(_mean(before, cost), last[cost])) <= TOLERANCES[cost] for cost in COSTS
    )
    return levelled and all(
        abs(last[quantity] - _mean(before, quantity)) <= TOLERANCES[quantity]
        for quantity in PUT_OFF
        if quantity in last
    )


def _change(first: float, second: float) -> float:
    """Return by which share a cost changed, of its mean; a few pages are no drift."""
    return (second - first) / max((first + second) / 2, _FEW_PAGES)


def drifts(samples: Sequence[Mapping[str, float]], capacity: Mapping[str, float]) -> list[Drift]:
    """Return the drift of every quantity over a window.

    Parameters
    ----------
    samples : at least 3 mappings in order of time, with `t_s`, `transactions` (counted since the
        start), the counters of COSTS and a value for each quantity of `capacity`
    capacity : what each other quantity can be at most, in its own unit

    Raises
    ------
    ValueError
        Where there are fewer than 3 samples, which leave no two halves.

    >>> rows = [{"t_s": t, "transactions": 100 * t, "dirty_pages": 5 * t, "pages_read": 0,
    ...          "pages_written": 200 * t} for t in range(5)]
    >>> [d.share for d in drifts(rows, {"dirty_pages": 100})]
    [0.0, 0.0, 0.0, 0.1]
    """
    result = [throughput(samples)]
    first, second = _halves(samples)
    for cost, counter in COSTS.items():
        share = _change(_a_transaction(first, counter), _a_transaction(second, counter))
        result.append(Drift(cost, share, TOLERANCES[cost]))
    for quantity, most in capacity.items():
        change = _mean(second, quantity) - _mean(first, quantity)
        result.append(Drift(quantity, change / most, TOLERANCES[quantity]))
    return result


def throughput(samples: Sequence[Mapping[str, float]]) -> Drift:
    """Return the drift of throughput over a window.

    Parameters
    ----------
    samples : as of `drifts`, of which `t_s` and `transactions` are read

    Raises
    ------
    ValueError
        Where there are fewer than 3 samples, which leave no two halves.
    """
    if len(samples) < LEAST_SAMPLES:
        raise ValueError(f"a window needs at least {LEAST_SAMPLES} samples, got {len(samples)}")
    return Drift("tps", _of_rate(*_halves(samples)), TOLERANCES["tps"])


def _halves(
    samples: Sequence[Mapping[str, float]],
) -> tuple[Sequence[Mapping[str, float]], Sequence[Mapping[str, float]]]:
    middle = len(samples) // 2
    return samples[: middle + 1], samples[middle:]


def _of_rate(first: Sequence[Mapping[str, float]], second: Sequence[Mapping[str, float]]) -> float:
    before, after = _rate(first), _rate(second)
    mean = (before + after) / 2
    return (after - before) / mean if mean else 0.0


def _a_transaction(samples: Sequence[Mapping[str, float]], counter: str) -> float:
    done = samples[-1]["transactions"] - samples[0]["transactions"]
    return (samples[-1][counter] - samples[0][counter]) / max(done, 1)


def _rate(samples: Sequence[Mapping[str, float]]) -> float:
    seconds = samples[-1]["t_s"] - samples[0]["t_s"]
    return (samples[-1]["transactions"] - samples[0]["transactions"]) / seconds


def _mean(samples: Sequence[Mapping[str, float]], quantity: str) -> float:
    return sum(sample[quantity] for sample in samples) / len(samples)
