"""Intervals on positive measurements and on their ratios. Pure numbers, no units.

Times and rates are positive and their noise is multiplicative, so every interval is made on
logarithms and taken back: it cannot reach below zero, and the interval of a/b is the inverse of
the interval of b/a.
"""

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

LEVEL = 0.95


class Interval(NamedTuple):
    """An estimate with its confidence interval.

    `low` and `high` are NaN where one value alone leaves no interval.
    """

    estimate: float
    low: float
    high: float
    n: int
    level: float = LEVEL


def geometric_mean(values: Sequence[float], level: float = LEVEL) -> Interval:
    """Return the geometric mean of independent values with its Student t interval.

    Parameters
    ----------
    values : sequence of float, shape (n,), any positive unit
        One value per restart of the server, never several from one start.
    level : float
        Coverage of the interval.

    Raises
    ------
    ValueError
        Where there is no value, or one that is not positive and finite.

    References
    ----------
    Student's interval on log values; see Limpert, Stahel, Abbt (2001), "Log-normal
    distributions across the sciences", BioScience 51(5).

    >>> geometric_mean([1.0, 4.0]).estimate
    2.0
    """
    if not values or not all(v > 0 and math.isfinite(v) for v in values):
        raise ValueError(f"an interval needs positive finite values, got {list(values)}")
    logs = [math.log(v) for v in values]
    mean, low, high, n, _ = arithmetic_mean(logs, level)
    return Interval(math.exp(mean), math.exp(low), math.exp(high), n, level)


def arithmetic_mean(values: Sequence[float], level: float = LEVEL) -> Interval:
    """Return the mean of independent values, which may be zero, with its Student t interval.

    Raises
    ------
    ValueError
        Where there is no value.

    >>> arithmetic_mean([0.0, 2.0]).estimate
    1.0
    """
    if not values:
        raise ValueError("a mean needs at least one value")
    n = len(values)
    mean = math.fsum(values) / n
    if n == 1:
        return Interval(mean, math.nan, math.nan, 1, level)
    half = student_quantile(level, n - 1) * math.sqrt(_variance(values) / n)
    return Interval(mean, mean - half, mean + half, n, level)


def paired_ratio(
    numerators: Sequence[float], denominators: Sequence[float], level: float = LEVEL
) -> Interval:
    """Return the ratio of two arms whose i-th values come from the same block.

    The ratio is taken inside each block first, so a drift of the machine between blocks cancels.

    Raises
    ------
    ValueError
        Where the two differ in length, or as `geometric_mean`.

    >>> paired_ratio([2.0, 4.0], [1.0, 2.0]).estimate
    2.0
    """
    if len(numerators) != len(denominators):
        raise ValueError(f"{len(numerators)} values cannot pair with {len(denominators)}")
    return geometric_mean([a / b for a, b in zip(numerators, denominators, strict=True)], level)


def independent_ratio(
    numerators: Sequence[float], denominators: Sequence[float], level: float = LEVEL
) -> Interval:
    """Return the ratio of the geometric means of two unpaired samples (Welch's interval on logs).

    For values that share no block, as those of two reports.

    Raises
    ------
    ValueError
        As `geometric_mean`.

    References
    ----------
    Welch (1947), "The generalization of Student's problem when several different population
    variances are involved", Biometrika 34.

    >>> round(independent_ratio([2.0, 2.1, 1.9], [1.0, 1.05, 0.95]).estimate, 3)
    2.0
    """
    top, bottom = geometric_mean(numerators, level), geometric_mean(denominators, level)
    ratio = top.estimate / bottom.estimate
    n = min(top.n, bottom.n)
    if n < 2:
        return Interval(ratio, math.nan, math.nan, n, level)
    variances = [
        _variance([math.log(v) for v in values]) / len(values)
        for values in (numerators, denominators)
    ]
    total = sum(variances)
    if total == 0:
        return Interval(ratio, ratio, ratio, n, level)
    freedom = total**2 / sum(
        v**2 / (len(values) - 1)
        for v, values in zip(variances, (numerators, denominators), strict=True)
    )
    half = student_quantile(level, freedom) * math.sqrt(total)
    return Interval(ratio, ratio * math.exp(-half), ratio * math.exp(half), n, level)


def _variance(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.fsum((x - mean) ** 2 for x in values) / (len(values) - 1)


@cache
def student_quantile(level: float, freedom: float) -> float:
    """Return the factor of a two-sided Student t interval."""
    # Imported here: SciPy takes longer to import than `innolab --help` may take to run.
    from scipy.stats import t

    return float(t.ppf((1 + level) / 2, freedom))
