"""InnoDB's list of pages in its steady state: what misses, and how often its older part is hit.

A mean-field model in the way of Che: the list is so long that a page which enters a part of it and
is not asked for leaves that part after a time that is the same for all pages. The times follow from
the sizes of both parts. Pages are asked for independently of each other.

Rules, as in MySQL 5.6 to 9.7 (buf_page_peek_if_too_old, buf_page_peek_if_young,
buf_LRU_make_block_young): a page that is read enters at the head of the old part, and is evicted at
its tail. A hit on an old page moves it to the head of the young part if its first access is at
least innodb_old_blocks_time ago, and counts as PAGES_MADE_YOUNG. A hit on a young page moves it to
the head if a quarter of the young part has been evicted since it was last put there. A page at the
young part's end becomes old.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import root
from scipy.special import boxcox, gammainc, gammaincinv, ndtr

from innolab.analysis import cache_misses

# innodb_old_blocks_pct is 37, which InnoDB makes 3/8 of.
OLD_RATIO = 3 / 8
# Logarithms of times: exp must not overflow.
_LOG_MOST = 40.0
_TOLERANCE = 1e-6
# Where a search begins: the times in both parts over the time in a plain list.
_STARTS = ((0.5, 0.6), (0.2, 1.5), (1.5, 0.2), (0.05, 3.0), (3.0, 0.05))


class Law(NamedTuple):
    """How often pages are asked for: classes of pages.

    Attributes
    ----------
    pages : array of float, shape (n,), the share of the pages that each class holds
    rates : array of float, shape (n,), > 0, accesses of one page in a unit of time; the unit is
        such that the mean over all pages is 1
    """

    pages: np.ndarray
    rates: np.ndarray


class Steady(NamedTuple):
    """What a pool does in its steady state, as shares of all accesses.

    Attributes
    ----------
    misses : accesses that read the page
    promoted : accesses that move an old page to the young part
    """

    misses: float
    promoted: float


def least_recently_used(law: Law, x_ratio: float) -> tuple[float, float]:
    """Return how long an unused page stays in a plain LRU list, and the share of misses.

    By Che's approximation, as `cache_misses.miss_ratio`; `x_ratio` is the size of the cache over
    that of the data, above 0 and below 1.

    >>> uniform = Law(np.array([1.0]), np.array([1.0]))
    >>> round(least_recently_used(uniform, 0.25)[1], 6)
    0.75
    """
    stay = cache_misses.stay(law.rates, law.pages, x_ratio)
    return stay, float((law.pages * law.rates * np.exp(-law.rates * stay)).sum())


def steady(
    law: Law,
    x_ratio: float,
    old_ratio: float = OLD_RATIO,
    blocked: float = 0.0,
    blocked_misses: float = 0.0,
) -> Steady:
    """Return what a pool of some size does once it has settled.

    Parameters
    ----------
    x_ratio : pages in the pool over pages of data; nothing misses from 1 on
    old_ratio : the share of the list that is old
    blocked : innodb_old_blocks_time in the law's unit of time, in which each page is asked for once
        on average
    blocked_misses : the same as the misses during it, over the pages of data; it adds to `blocked`

    Raises
    ------
    ValueError
        Where x_ratio is not above 0, or the list has no steady state: if pages leave the old part
        before a hit may move them, the young part never changes, and what it holds is chance.
    """
    if not x_ratio > 0:
        raise ValueError(f"a pool cannot be {x_ratio} of the data")
    if x_ratio >= 1:
        return Steady(0.0, 0.0)
    stay, lru_misses = least_recently_used(law, x_ratio)
    young_ratio = (1 - old_ratio) * x_ratio
    wanted = np.log([old_ratio * x_ratio, young_ratio])

    def flows(logs: np.ndarray) -> tuple[float, float, float, float]:
        old_s, young_s, misses = np.exp(np.clip(logs, -_LOG_MOST, _LOG_MOST))
        held_s = min(blocked + blocked_misses / misses, old_s)
        return _flows(law, old_s, young_s, young_ratio / 4 / misses, held_s)

    def residuals(logs: np.ndarray) -> np.ndarray:
        old, young, misses = np.log(np.maximum(flows(logs)[:3], 1e-300))
        return np.array([old - wanted[0], young - wanted[1], misses - logs[2]])

    # A search may pass through times at which no page stays anywhere; it does not end there.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for old_part, young_part in _STARTS:
            start = np.log([old_part * stay, young_part * stay, max(lru_misses, 1e-12)])
            logs = root(residuals, start, method="hybr").x
            if np.abs(residuals(logs)).max() < _TOLERANCE:
                return Steady(*flows(logs)[2:])
    raise ValueError(f"the list has no steady state at {x_ratio:g} of the data")


def _flows(
    law: Law, old_s: float, young_s: float, quarter_s: float, held_s: float
) -> tuple[float, float, float, float]:
    """Return the old and the young pages over all pages, and misses and promotions an access.

    Each class is a renewal process over the states out, entered, young and demoted. All weights
    are multiplied by the chances to leave, so that nothing is divided by one that vanishes.
    """
    rates = law.rates
    wait_s = min(quarter_s, young_s)
    # The chances that a page leaves its part unasked: entered, young, and old for the second time.
    entered = np.exp(-rates * (old_s - held_s))
    aged = np.exp(-rates * (young_s - wait_s))
    demoted = np.exp(-rates * old_s)
    leaves = aged * demoted
    out = leaves / rates
    first = leaves * (held_s - np.expm1(-rates * (old_s - held_s)) / rates)
    young = (1 - entered) * (wait_s - np.expm1(-rates * (young_s - wait_s)) / rates)
    second = -(1 - entered) * aged * np.expm1(-rates * old_s) / rates
    each = law.pages / (out + first + young + second)
    return (
        float((each * (first + second)).sum()),
        float((each * young).sum()),
        float((each * leaves).sum()),
        float((each * (1 - entered) * aged).sum()),
    )


def uniform() -> Law:
    """Return the law by which every page is asked for alike."""
    return Law(np.array([1.0]), np.array([1.0]))


def zipf(exponent: float, pages: int, classes: int = 120) -> Law:
    """Return Zipf's law: the k-th page is asked for in proportion to k**-exponent.

    >>> law = zipf(0.8, 10_000)
    >>> round(float((law.pages * law.rates).sum()), 6)
    1.0
    """
    edges = np.unique(np.round(np.geomspace(1, pages + 1, classes)))
    # The sum over a class as an integral between half ranks.
    accesses = np.diff(boxcox(edges - 0.5, 1 - exponent))
    return _scaled(np.diff(edges), accesses)


def lognormal(sigma: float, classes: int = 120) -> Law:
    """Return rates whose logarithms are normal with a standard deviation.

    >>> law = lognormal(1.5)
    >>> round(float((law.pages * law.rates).sum()), 6)
    1.0
    """
    edges = np.linspace(-6, sigma + 6, classes + 1)
    return _scaled(np.diff(ndtr(edges)), np.diff(ndtr(edges - sigma)))


def gamma(variation: float, classes: int = 120) -> Law:
    """Return rates with a gamma distribution, by their standard deviation over their mean.

    It has many more pages that are hardly ever asked for than the other laws.
    """
    if variation == 0:
        return uniform()
    shape = variation**-2
    low, high = gammaincinv(shape, 1e-3), gammaincinv(shape + 1, 1 - 1e-9)
    edges = np.append(0.0, np.geomspace(max(low, 1e-9), high, classes))
    return _scaled(np.diff(gammainc(shape, edges)), np.diff(gammainc(shape + 1, edges)))


def hot_set(share: float, times: float = 100.0) -> Law:
    """Return two classes: a share of the pages is asked for so many times as often as the others.

    >>> hot_set(0.5, 3.0).rates.tolist()
    [1.5, 0.5]
    """
    pages = np.array([share, 1 - share])
    return _scaled(pages, pages * [times, 1.0])


def _scaled(pages: np.ndarray, accesses: np.ndarray) -> Law:
    """Return classes of pages with so many accesses each, without those that do not matter."""
    kept = (pages > 1e-15) & (accesses > 1e-18)
    shares = pages[kept] / pages[kept].sum()
    return Law(shares, accesses[kept] / accesses[kept].sum() / shares)
