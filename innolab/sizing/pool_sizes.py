"""How many pages a server would read with a pool of another size, from what it reads now.

One size shows three numbers: how large the pool is next to the data, how many pages are read, and
how often a hit moves a page from the old part of InnoDB's list to the young one. A pool without its
old part would have missed most of those hits, so they say how steeply misses grow as a pool shrinks
(Mattson et al. 1970, "Evaluation techniques for storage hierarchies", IBM Systems Journal 9(2): a
hit's depth in the list says which sizes would have missed it). Together they leave one question
open, what kind of skew the access has. Several laws are fitted, each law's curve counts as much as
it fits, and the interval spans them. A second measured size narrows it.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from innolab.analysis.stats import LEVEL, Interval
from innolab.sizing import lru_model
from innolab.sizing.lru_model import OLD_RATIO, Law, Steady

# How far the model of the list is off, as standard deviations of logarithms: of the pages that a
# second size reads, and of promotions, which also carry that real access is not independent.
_READS_OFF, _PROMOTED_OFF = 0.03, 0.1
# A table's size is known to a few in a hundred: pages are seldom full, and some are free.
_DATA = ((0.95, 0.25), (1.0, 0.5), (1.05, 0.25))
_STEPS = 40
# Fewer events of a kind say too little: the least has a standard error of a tenth.
LEAST_EVENTS = 100
# Guesses below this share of the best one's weight change no interval.
_NEGLIGIBLE = 0.002
# The list has an old part from this length on: BUF_LRU_OLD_MIN_LEN in buf0lru.h, for 16 KiB pages.
_LEAST_PAGES = 512


@dataclass(frozen=True)
class PoolSizePoint:
    """What a stretch of time at one size of the pool showed.

    Attributes
    ----------
    pool_bytes : innodb_buffer_pool_size
    pages : pages of data in the pool, and free ones
    seconds : how long it was
    statements : sent by clients
    requests : of pages, hits among them
    reads : pages read
    promoted : old pages that became young; None where the server does not say
    spread : the standard error of reads a statement over their mean, from parts of the stretch
    """

    pool_bytes: int
    pages: float
    seconds: float
    statements: float
    requests: float
    reads: float
    promoted: float | None = None
    spread: float = 0.0

    @property
    def reads_a_statement(self) -> float:
        """Return pages read over statements."""
        return self.reads / self.statements


@dataclass(frozen=True)
class List:
    """What of a server and its data shapes the list of its pool.

    Attributes
    ----------
    data_pages : pages of the data that are asked for
    old_ratio : the share of the list that is old
    old_blocks_s : innodb_old_blocks_time
    """

    data_pages: float
    old_ratio: float = OLD_RATIO
    old_blocks_s: float = 1.0


class Guess(NamedTuple):
    """A law of access that may be the server's; `accesses` a statement, `weight` relative."""

    name: str
    law: Law
    data_pages: float
    accesses: float
    blocked: float
    weight: float


@dataclass(frozen=True)
class Curve:
    """The pages that a statement would read, as a function of the pool's size.

    Attributes
    ----------
    points : what was measured, the present size first
    guesses : the laws that may be behind it
    by_promotions : whether the hits on old pages took part in the fit
    """

    points: Sequence[PoolSizePoint]
    of: List
    guesses: Sequence[Guess]
    by_promotions: bool

    def reads(self, pages: float, level: float = LEVEL) -> Interval:
        """Return the pages read a statement by a pool that holds so many pages of data.

        The interval spans what the laws say that fit, and the noise of what was measured; `n` is
        the number of measured sizes.
        """
        values = np.array([self._reads(guess, pages) for guess in self.guesses])
        weights = np.array([guess.weight for guess in self.guesses])
        tail = (1 - level) / 2
        low, middle, high = (_quantile(values, weights, p) for p in (tail, 0.5, 1 - tail))
        noise = math.exp(2 * math.hypot(self.points[0].spread, _READS_OFF))
        if any(math.isclose(pages, point.pages, rel_tol=1e-3) for point in self.points):
            noise = math.exp(2 * self.points[0].spread)
        return Interval(middle, low / noise, high * noise, len(self.points), level)

    def _reads(self, guess: Guess, pages: float) -> float:
        x_ratio = pages / guess.data_pages
        try:
            found = _settled(guess.law, x_ratio, self.of, self.by_promotions, blocked=guess.blocked)
        except ValueError:
            # A pool so small that its list would not settle: as a plain one.
            found = _settled(guess.law, x_ratio, self.of, by_promotions=False)
        return guess.accesses * found.misses


def families(pages: float) -> dict[str, Callable[[float], Law]]:
    """Return laws of access by name, each by a skew from 0, which is uniform, to 1."""
    return {
        "Zipf": lambda skew: lru_model.zipf(1.6 * skew, round(pages)),
        "lognormal": lambda skew: lru_model.lognormal(3.5 * skew),
        "gamma": lambda skew: lru_model.gamma(4.0 * skew),
        "hot set": lambda skew: lru_model.hot_set(0.98 * skew) if skew else lru_model.uniform(),
    }


def fitted(points: Sequence[PoolSizePoint], of: List) -> Curve:
    """Return the curve that the measured sizes leave open.

    Parameters
    ----------
    points : the present size first; others narrow the curve where they are usable

    Raises
    ------
    ValueError
        Where too little was read, the pool holds all data, or no law can be behind the numbers.
    """
    now = points[0]
    if now.reads < LEAST_EVENTS or now.statements <= 0:
        raise ValueError(f"{now.reads:.0f} pages read are too few to say anything")
    if now.pages >= of.data_pages:
        raise ValueError("the pool is larger than the data that are asked for")
    points = [now, *(point for point in points[1:] if is_usable(point, of))]
    by_promotions = all(_promotes(point, of) for point in points)
    guesses = list(_guesses(points, of, by_promotions))
    most = max((guess.weight for guess in guesses), default=0.0)
    kept = [guess for guess in guesses if guess.weight > _NEGLIGIBLE * most]
    if not kept:
        raise ValueError("no law of access that is known here gives these numbers")
    return Curve(points, of, kept, by_promotions)


def is_usable(point: PoolSizePoint, of: List) -> bool:
    """Return whether a measured size says something of others: no law is behind one of no reads."""
    return point.reads >= LEAST_EVENTS and 0 < point.pages < of.data_pages


def _promotes(point: PoolSizePoint, of: List) -> bool:
    """Return whether hits on old pages tell something.

    A page must stay in the old part for clearly longer than the time in which no hit counts; with
    innodb_old_blocks_time=0 InnoDB has another rule.
    """
    if point.promoted is None or point.promoted < LEAST_EVENTS or point.pages < _LEAST_PAGES:
        return False
    stay_s = of.old_ratio * point.pages * point.seconds / point.reads
    return 0 < of.old_blocks_s < stay_s / 2


def _guesses(points: Sequence[PoolSizePoint], of: List, by_promotions: bool) -> Iterator[Guess]:
    found = []
    for share, prior in _DATA:
        pages = share * of.data_pages
        for name, law in families(pages).items():
            for skew in np.linspace(0, 1, _STEPS):
                fit = _fit(law(float(skew)), pages, points, of, by_promotions)
                if fit is not None:
                    log_weight = math.log(prior) - fit.error / 2
                    found.append((log_weight, name, pages, fit))
    most = max((one[0] for one in found), default=0.0)
    for log_weight, name, pages, fit in found:
        yield Guess(name, fit.law, pages, fit.accesses, fit.blocked, math.exp(log_weight - most))


class _Fit(NamedTuple):
    """A law with the accesses a statement that fit best, and its squared error in deviations."""

    law: Law
    accesses: float
    blocked: float
    error: float


def _fit(
    law: Law, pages: float, points: Sequence[PoolSizePoint], of: List, by_promotions: bool
) -> _Fit | None:
    """Return how a law fits what was measured, or None where it cannot be behind it."""
    now = points[0]
    logs, offs, error = [], [], 0.0
    for point in points:
        if point.pages >= pages:
            return None
        missed = of.old_blocks_s * point.reads / point.seconds / pages
        try:
            found = _settled(law, point.pages / pages, of, by_promotions, blocked_misses=missed)
        except ValueError:
            return None
        if found.misses <= 0:
            return None
        logs.append(math.log(point.reads_a_statement / found.misses))
        offs.append(math.hypot(point.spread, _READS_OFF))
        if by_promotions:
            if found.promoted <= 0:
                return None
            said = math.log((point.promoted or 0) / point.reads)
            error += ((said - math.log(found.promoted / found.misses)) / _PROMOTED_OFF) ** 2
    accesses = math.exp(float(np.average(logs, weights=[off**-2 for off in offs])))
    if accesses > now.requests / now.statements:
        return None
    mean = math.log(accesses)
    error += sum(((one - mean) / off) ** 2 for one, off in zip(logs, offs, strict=True))
    blocked = of.old_blocks_s * accesses * now.statements / now.seconds / pages
    return _Fit(law, accesses, blocked, error)


def _settled(
    law: Law,
    x_ratio: float,
    of: List,
    by_promotions: bool,
    blocked: float = 0.0,
    blocked_misses: float = 0.0,
) -> Steady:
    """Return what a pool does; as a plain LRU list where promotions tell nothing."""
    if x_ratio >= 1:
        return Steady(0.0, 0.0)
    if by_promotions:
        found = partial(lru_model.steady, law, x_ratio, of.old_ratio)
        return found(blocked=blocked, blocked_misses=blocked_misses)
    return Steady(lru_model.least_recently_used(law, x_ratio)[1], math.nan)


def _quantile(values: np.ndarray, weights: np.ndarray, share: float) -> float:
    """Return the weighted quantile: the least value up to which the weights reach a share."""
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) / weights.sum()
    at = min(int(np.searchsorted(reached, share)), len(values) - 1)
    return float(values[order][at])
