"""Estimates of several reports as one: random effects, by intervals that hold for few reports.

Hosts differ, so that each report has its own truth, drawn around that of all hosts like them.
Pure numbers, no units. Arrays have the reports as their last axis, so that a simulation can pool
thousands of made collections at once by the very code that a page is computed by.

What is taken, and what else there was, is in docs/decisions/0031-pooling.md.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from innolab.analysis.stats import LEVEL, Interval, student_quantile

Array = NDArray[np.float64]

LEAST = 2
# Two reports say next to nothing of how far hosts differ, so nothing of a third host.
LEAST_PREDICTED = 3
# The degrees of freedom that the noise of all reports together has in that of each. A variance of
# three blocks alone, which has two, is near zero at times, and its report would outweigh all.
PRIOR_FREEDOM = 4
# Halvings of the range in which the variance between hosts is.
_STEPS = 60
# Of which there still is an exponential: twelve standard errors, as of two reports, can be more.
_MOST_LOG = 700.0


class RandomEffects(NamedTuple):
    """What a random-effects model makes of estimates; arrays of shape (...), weights (..., k).

    Attributes
    ----------
    mean : over hosts like these
    half : half the width of its interval
    predicted_half : half the width of the interval of a further report's estimate
    tau2 : the variance between hosts
    i2 : the share of the estimates' variance that is due to hosts, 0 to 1
    weights : of the estimates; they add up to 1
    """

    mean: Array
    half: Array
    predicted_half: Array
    tau2: Array
    i2: Array
    weights: Array


class Pooled(NamedTuple):
    """Several reports' intervals as one.

    Attributes
    ----------
    interval : of the mean over hosts like these; `n` counts reports
    predicted : where a further report of such a host puts its estimate; None for two reports
    tau : the standard deviation between hosts, on the scale of the pooling
    i2 : the share of the estimates' variance that is due to hosts, 0 to 1
    weights : of each report; they add up to 1
    """

    interval: Interval
    predicted: Interval | None
    tau: float
    i2: float
    weights: tuple[float, ...]


def pooled(
    intervals: Sequence[Interval],
    *,
    on_logs: bool,
    is_students: Sequence[bool] = (),
    limits: tuple[float, float] = (-math.inf, math.inf),
    level: float = LEVEL,
) -> Pooled:
    """Return several reports' intervals as one.

    Parameters
    ----------
    intervals : each report's, finite and of two blocks or more
    on_logs : whether noise is multiplicative: pooled are logarithms, as of ratios
    is_students : of each interval, whether it is Student's, as all are by default; of others a
        normal one's width is taken
    limits : the least and the greatest value that can be

    Raises
    ------
    ValueError
        Where there are fewer than `LEAST`.

    >>> one = Interval(1.2, 1.1, 1.309, 5)
    >>> both = pooled([one, one], on_logs=True)
    >>> round(both.interval.estimate, 3), both.tau, both.predicted
    (1.2, 0.0, None)
    """
    estimates = [math.log(one.estimate) if on_logs else one.estimate for one in intervals]
    kinds = is_students or [True] * len(intervals)
    errors = [_variance(one, on_logs, kind) for one, kind in zip(intervals, kinds, strict=True)]
    blocks = [one.n for one in intervals]
    found = random_effects(estimates, moderated(errors, blocks), level)
    k, mean = len(intervals), float(found.mean)

    def around(half: float) -> Interval:
        values = (_value(x, on_logs) for x in (mean, mean - half, mean + half))
        estimate, low, high = (min(max(x, limits[0]), limits[1]) for x in values)
        return Interval(estimate, low, high, k, level)

    return Pooled(
        interval=around(float(found.half)),
        predicted=around(float(found.predicted_half)) if k >= LEAST_PREDICTED else None,
        tau=math.sqrt(float(found.tau2)),
        i2=float(found.i2),
        weights=tuple(float(weight) for weight in found.weights),
    )


def _value(pooled_as: float, on_logs: bool) -> float:
    return math.exp(min(pooled_as, _MOST_LOG)) if on_logs else pooled_as


def _variance(interval: Interval, on_logs: bool, is_students: bool) -> float:
    """Return the squared standard error that an interval comes from.

    By its longer side: one that ends where a share does was cut there, and one that reaches to a
    disturbed block is wider on one side.
    """
    middle, low, high = (math.log(x) if on_logs else x for x in interval[:3])
    half = max(middle - low, high - middle)
    if is_students:
        factor = student_quantile(interval.level, interval.n - 1)
    else:
        factor = NormalDist().inv_cdf((1 + interval.level) / 2)
    return (half / factor) ** 2


def moderated(variances: ArrayLike, blocks: ArrayLike) -> Array:
    """Return the variances of estimates, each drawn towards the noise of all reports' blocks.

    That of one block is taken as the mean of the report's own, with its degrees of freedom, and of
    that of all reports, with `PRIOR_FREEDOM`.

    Parameters
    ----------
    variances : array_like, shape (..., k); of the estimates, squared standard errors
    blocks : array_like, shape (..., k); of each report, 2 or more

    References
    ----------
    The mean is that of Smyth (2004), "Linear models and empirical Bayes methods for assessing
    differential expression in microarray experiments", Statistical Applications in Genetics and
    Molecular Biology 3(1), who estimates the prior's degrees of freedom from thousands of genes.

    >>> [round(float(x), 2) for x in moderated([0.0, 2.0], [3, 3])]
    [0.67, 1.33]
    """
    n = np.asarray(blocks, dtype=float)
    freedom = n - 1
    own = np.asarray(variances, dtype=float) * n
    of_all = (freedom * own).sum(-1, keepdims=True) / freedom.sum(-1, keepdims=True)
    kept: Array = (PRIOR_FREEDOM * of_all + freedom * own) / (PRIOR_FREEDOM + freedom) / n
    return kept


def random_effects(
    estimates: ArrayLike, variances: ArrayLike, level: float = LEVEL
) -> RandomEffects:
    """Return the mean of estimates over hosts like theirs, its interval, and how hosts differ.

    The interval is Student's with k - 1 degrees of freedom around the weighted mean, its variance
    by Knapp and Hartung, and never below that of a model in which the weights are known (modified
    Knapp-Hartung). That of a further report adds the variance between hosts, and the mean variance
    of an estimate, since a report's own estimate is what its reader will see.

    Parameters
    ----------
    estimates, variances : array_like, shape (..., k); the variances as if known

    Raises
    ------
    ValueError
        Where k is below `LEAST`.

    References
    ----------
    Knapp, Hartung (2003), "Improved tests for a random effects meta-regression with a single
    covariate", Statistics in Medicine 22. IntHout, Ioannidis, Borm (2014), "The
    Hartung-Knapp-Sidik-Jonkman method for random effects meta-analysis is straightforward and
    considerably outperforms the standard DerSimonian-Laird method", BMC Medical Research
    Methodology 14. The floor: Röver, Knapp, Friede (2015), "Hartung-Knapp-Sidik-Jonkman approach
    and its modification for random-effects meta-analysis with few studies", the same journal 15.
    Prediction: Higgins, Thompson, Spiegelhalter (2009), "A re-evaluation of random-effects
    meta-analysis", Journal of the Royal Statistical Society A 172; of an estimate, and not of a
    truth: Patil, Peng, Leek (2016), "What should researchers expect when they replicate studies?",
    Perspectives on Psychological Science 11.
    """
    y, v = np.asarray(estimates, dtype=float), np.asarray(variances, dtype=float)
    k = y.shape[-1]
    if k < LEAST:
        raise ValueError(f"pooling needs {LEAST} estimates, got {k}")
    tau2 = paule_mandel(y, v)
    weights = _weights(v + tau2[..., None])
    whole = weights.sum(-1)
    mean, squares = _around_mean(y, weights)
    error2 = np.maximum(squares / (k - 1), 1) / whole
    # Estimates that are known exactly and agree are no less certain together.
    error2 = np.where((v + tau2[..., None]).any(-1), error2, 0.0)
    quantile = student_quantile(level, k - 1)
    return RandomEffects(
        mean=mean,
        half=quantile * np.sqrt(error2),
        predicted_half=quantile * np.sqrt(tau2 + v.mean(-1) + error2),
        tau2=tau2,
        i2=_i2(v, tau2),
        weights=weights / whole[..., None],
    )


def paule_mandel(estimates: Array, variances: Array) -> Array:
    """Return the variance between hosts at which the weighted sum of squares is what it should be.

    That is k - 1; the sum falls as the variance rises, so there is one such value, or none above 0.

    Parameters
    ----------
    estimates, variances : array, shape (..., k)

    References
    ----------
    Paule, Mandel (1982), "Consensus values and weighting factors", Journal of Research of the
    National Bureau of Standards 87. Recommended for few studies by Veroniki et al. (2016), "Methods
    to estimate the between-study variance and its uncertainty in meta-analysis", Research Synthesis
    Methods 7.

    >>> round(float(paule_mandel(np.array([0.0, 1.0]), np.array([0.1, 0.1]))), 6)
    0.4
    """
    freedom = estimates.shape[-1] - 1
    # The sum around any other value is larger than around the weighted mean, and without variances
    # of their own the estimates differ by this much: the value that is sought is no larger.
    low, high = np.zeros(estimates.shape[:-1]), estimates.var(-1, ddof=1)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        _, squares = _around_mean(estimates, _weights(variances + middle[..., None]))
        above = squares > freedom
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    # So that it is 0, and not next to it, where the sum is too small even there.
    return low


def _around_mean(estimates: Array, weights: Array) -> tuple[Array, Array]:
    """Return the weighted mean of estimates, and their weighted sum of squares around it."""
    mean = (weights * estimates).sum(-1) / weights.sum(-1)
    return mean, (weights * (estimates - mean[..., None]) ** 2).sum(-1)


def _weights(variances: Array) -> Array:
    """Return the inverse of variances; equal weights where they are all zero.

    Moderated ones are all zero, or none is.
    """
    weights: Array = 1 / np.where(variances > 0, variances, 1.0)
    return weights


def _i2(variances: Array, tau2: Array) -> Array:
    """Return the share of the estimates' variance that is due to hosts.

    References
    ----------
    Higgins, Thompson (2002), "Quantifying heterogeneity in a meta-analysis", Statistics in Medicine
    21, with the typical variance of their equation 9.
    """
    k = variances.shape[-1]
    weights = _weights(variances)
    whole = weights.sum(-1)
    typical = (k - 1) * whole / (whole**2 - (weights**2).sum(-1))
    typical = np.where(variances.any(-1), typical, 0.0)
    both = tau2 + typical
    share: Array = tau2 / np.where(both > 0, both, 1.0)
    return share
