"""What a number of blocks can decide, at the spread that blocks were found to have.

The spread is the standard deviation of the log ratios of blocks: 0.1 is about a tenth from one
block to the next. All is for Student's interval on normal log ratios. `stats.robust_ratio` is wider
where blocks look disturbed, as a tenth of all samples do by chance: its power was found up to 0.04
lower for a claim with one bound, up to 0.09 lower for one with two.
"""

import bisect
import math
from collections.abc import Sequence
from functools import lru_cache

from innolab.analysis import stats

# More blocks than these nobody waits for: another arm or a longer window is needed instead.
MOST_BLOCKS = 200

# Of the distribution of a found spread, by which a power is averaged: right to three decimals.
_SPREADS = 400


def spread(numerators: Sequence[float], denominators: Sequence[float]) -> float:
    """Return the standard deviation of the log ratios of blocks; NaN for one block.

    >>> round(spread([1.0, 2.0], [1.0, 1.0]), 3)
    0.49
    """
    logs = [math.log(a / b) for a, b in zip(numerators, denominators, strict=True)]
    if len(logs) < 2:
        return math.nan
    mean = math.fsum(logs) / len(logs)
    return math.sqrt(math.fsum((x - mean) ** 2 for x in logs) / (len(logs) - 1))


def half_width(spread: float, n: int, level: float = stats.LEVEL) -> float:
    """Return the half-width to expect of the interval of n blocks, on the log scale.

    Its exponential is the factor by which the bounds are from the estimate. The root mean square;
    infinite for one block.

    >>> round(math.exp(half_width(0.1, 10)), 3)
    1.074
    """
    if n < 2:
        return math.inf
    return stats.student_quantile(level, n - 1) * spread / math.sqrt(n)


# Schedule, verdicts and page ask for the same look again.
@lru_cache(maxsize=4096)
def power(
    spread: float, n: int, low: float, high: float, truth: float, level: float = stats.LEVEL
) -> float:
    """Return the chance that n blocks decide a claim, either way.

    Parameters
    ----------
    spread : standard deviation of the log ratios of blocks
    n : blocks
    low, high : the ratios between which the claim is true; a bound may be infinite
    truth : the true ratio, above 0

    Notes
    -----
    The mean of normal log ratios is normal, and independent of the spread that is found, whose
    square has a chi-squared distribution. The chance is that of the mean at a given found spread,
    averaged over found spreads. For one bound this is the noncentral t distribution.

    >>> round(power(0.1, 6, 1.0, math.inf, 1.2), 2)
    0.94
    """
    if n < 2:
        return 0.0
    if spread == 0:
        return float(truth not in (low, high))
    import numpy as np
    from scipy.special import chdtri, ndtr

    error = spread / math.sqrt(n)
    middles = (np.arange(_SPREADS) + 0.5) / _SPREADS
    found = np.sqrt(chdtri(n - 1, middles) / (n - 1))
    half = half_width(spread, n, level) / error * found
    below = (_log(low) - math.log(truth)) / error
    above = (_log(high) - math.log(truth)) / error
    within = np.maximum(0, ndtr(above - half) - ndtr(below + half))
    outside = ndtr(below - half) + ndtr(-above - half)
    return float(np.mean(within + outside))


def _log(bound: float) -> float:
    return math.log(bound) if bound > 0 else -math.inf


@lru_cache(maxsize=4096)
def blocks_for(
    spread: float,
    low: float,
    high: float,
    truth: float,
    wanted: float = 0.8,
    level: float = stats.LEVEL,
    least: int = 2,
) -> int | None:
    """Return the least number of blocks that decide a claim with the wanted power.

    None where `MOST_BLOCKS` do not, as if the truth is on a bound. Parameters as `power`.

    >>> blocks_for(0.1, 1.0, math.inf, 1.2)
    5
    """
    blocks = range(least, MOST_BLOCKS + 1)

    def is_enough(n: int) -> bool:
        return power(spread, n, low, high, truth, level) >= wanted

    # More blocks never have less power.
    place = bisect.bisect_left(blocks, True, key=is_enough)
    return blocks[place] if place < len(blocks) else None
