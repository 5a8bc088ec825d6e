"""How many pages a server would read with a pool of another size, from what it reads now.

One size shows three numbers: how large the pool is next to the data, how many pages are read, and
how often a hit moves a page from the old part of InnoDB's list to the young one. A pool without its
old part would have missed most of those hits, so they say how steeply misses grow as a pool shrinks
(Mattson et al. 1970, "Evaluation techniques for storage hierarchies", IBM Systems Journal 9(2): a
hit's depth in the list says which sizes would have missed it). Together they leave one question
open, what kind of skew the access has. Several laws are fitted, each law's curve counts as much as
it fits, and the interval spans them. A second measured size narrows it.
"""

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from innolab.analysis.stats import LEVEL, Interval
from innolab.sizing import lru_model
from innolab.sizing.lru_model import OLD_RATIO, Law

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
class PoolList:
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
    """A law of access that may be the server's.

    Attributes
    ----------
    data_pages : pages of the data
    accesses : of pages a statement, not counting repeated ones
    blocked : innodb_old_blocks_time in the law's unit of time
    log_weight : how well it fits
    """

    law: Law
    data_pages: float
    accesses: float
    blocked: float
    log_weight: float


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
    pool_list: PoolList
    guesses: Sequence[Guess]
    by_promotions: bool

    def reads(self, pages: float, level: float = LEVEL) -> Interval:
        """Return the pages read a statement by a pool that holds so many pages of data.

        The interval spans what the laws say that fit, and the noise of what was measured; `n` is
        the number of measured sizes.
        """
        tail = (1 - level) / 2
        logs = np.array([guess.log_weight for guess in self.guesses])
        low, middle, high = np.quantile(
            [self._reads(guess, pages) for guess in self.guesses],
            [tail, 0.5, 1 - tail],
            weights=np.exp(logs - logs.max()),
            method="inverted_cdf",
        )
        is_measured = any(math.isclose(pages, one.pages, rel_tol=1e-3) for one in self.points)
        off = 0.0 if is_measured else _READS_OFF
        noise = math.exp(2 * math.hypot(self.points[0].spread, off))
        return Interval(float(middle), low / noise, high * noise, len(self.points), level)

    def _reads(self, guess: Guess, pages: float) -> float:
        x_ratio, old_ratio = pages / guess.data_pages, self.pool_list.old_ratio
        if x_ratio >= 1:
            return 0.0
        if self.by_promotions:
            # Not of a pool so small that its list would not settle: that is taken as a plain one.
            with contextlib.suppress(ValueError):
                settled = lru_model.steady(guess.law, x_ratio, old_ratio, guess.blocked)
                return guess.accesses * settled.misses
        return guess.accesses * lru_model.least_recently_used(guess.law, x_ratio)[1]


def families(pages: float) -> dict[str, Callable[[float], Law]]:
    """Return laws of access by name, each by a skew from 0, which is uniform, to 1."""
    return {
        "Zipf": lambda skew: lru_model.zipf(1.6 * skew, round(pages)),
        "lognormal": lambda skew: lru_model.lognormal(3.5 * skew),
        "gamma": lambda skew: lru_model.gamma(4.0 * skew),
        "hot set": lambda skew: lru_model.hot_set(0.98 * skew),
    }


def fitted(points: Sequence[PoolSizePoint], pool_list: PoolList) -> Curve:
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
    if now.pages >= pool_list.data_pages:
        raise ValueError("the pool is larger than the data that are asked for")
    points = [now, *(point for point in points[1:] if is_usable(point, pool_list))]
    by_promotions = all(_promotes(point, pool_list) for point in points)
    guesses = [
        guess
        for share, prior in _DATA
        for family in families(share * pool_list.data_pages).values()
        for skew in np.linspace(0, 1, _STEPS)
        if (guess := _guess(family(float(skew)), share, prior, points, pool_list, by_promotions))
    ]
    if not guesses:
        raise ValueError("no law of access that is known here gives these numbers")
    least = max(guess.log_weight for guess in guesses) + math.log(_NEGLIGIBLE)
    kept = [guess for guess in guesses if guess.log_weight > least]
    return Curve(points, pool_list, kept, by_promotions)


def is_usable(point: PoolSizePoint, pool_list: PoolList) -> bool:
    """Return whether a measured size says something of others: no law is behind one of no reads."""
    return point.reads >= LEAST_EVENTS and 0 < point.pages < pool_list.data_pages


def _promotes(point: PoolSizePoint, pool_list: PoolList) -> bool:
    """Return whether hits on old pages tell something.

    A page must stay in the old part for clearly longer than the time in which no hit counts; with
    innodb_old_blocks_time=0 InnoDB has another rule.
    """
    if point.promoted is None or point.promoted < LEAST_EVENTS or point.pages < _LEAST_PAGES:
        return False
    stay_s = pool_list.old_ratio * point.pages * point.seconds / point.reads
    return 0 < pool_list.old_blocks_s < stay_s / 2


def _guess(
    law: Law, share: float, prior: float, points: Sequence[PoolSizePoint], pool_list: PoolList,
    by_promotions: bool,
) -> Guess | None:  # fmt: skip
    """Return how a law fits what was measured, or None if it cannot be behind it."""
    now = points[0]
    data_pages, old_s = share * pool_list.data_pages, pool_list.old_blocks_s
    logs, offs, error = [], [], 0.0
    for point in points:
        x_ratio = point.pages / data_pages
        if x_ratio >= 1:
            return None
        if by_promotions:
            missed = old_s * point.reads / point.seconds / data_pages
            try:
                misses, promoted = lru_model.steady(
                    law, x_ratio, pool_list.old_ratio, blocked_misses=missed
                )
            except ValueError:
                return None
            if min(misses, promoted) <= 0:
                return None
            measured = (point.promoted or 0) / point.reads
            error += (math.log(measured * misses / promoted) / _PROMOTED_OFF) ** 2
        else:
            misses = lru_model.least_recently_used(law, x_ratio)[1]
        logs.append(math.log(point.reads_a_statement / misses))
        offs.append(math.hypot(point.spread, _READS_OFF))
    mean = float(np.average(logs, weights=[off**-2 for off in offs]))
    accesses = math.exp(mean)
    if accesses > now.requests / now.statements:
        return None
    error += sum(((one - mean) / off) ** 2 for one, off in zip(logs, offs, strict=True))
    blocked = old_s * accesses * now.statements / now.seconds / data_pages
    return Guess(law, data_pages, accesses, blocked, math.log(prior) - error / 2)
