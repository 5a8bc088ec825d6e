"""How many statements a second a server would answer if each of them read more or fewer pages.

A closed network: so many clients, each with one statement at a time, which waits for processors,
for reads, and for all else. How a device answers under another load is not known from one load
alone, so there are two answers: each read takes as long as it does now, or reads queue for one
another at a device that serves one at a time. The truth lies between them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from innolab.analysis import queueing
from innolab.analysis.stats import Interval

# Seconds of a processor that reading a page costs. What it is on a server is not known, so the
# interval goes from none to twice as much. The model of more-memory found 34 us on MySQL 9.7 and
# 44 us on 5.6.24, on a cloud host of 2026.
MISS_CPU_S = 40e-6
_BUSY_LEAST = 0.1
# The standard deviation of a rate between two starts of a server, over it: 3 to 10 % are seen.
_BETWEEN = 0.05
_STEPS = 60


@dataclass(frozen=True)
class ServerPace:
    """What clients and server do now; a server's constants, but for the reads of a statement.

    Attributes
    ----------
    clients : connections that have work, on average
    statements_per_s : that they are answered
    reads : pages a statement reads
    read_s : seconds that a statement waits for them
    cpus : processors of the server's host; None where it is not known
    cpu_s : seconds of a processor that a statement takes, its client's included where that is on
        the same host; None where it is not known
    spread : the standard deviation of `statements_per_s` over parts of the stretch, over its mean
    """

    clients: float
    statements_per_s: float
    reads: float
    read_s: float
    cpus: int | None = None
    cpu_s: float | None = None
    spread: float = 0.0

    @property
    def threads(self) -> int:
        """Return the clients as a whole number, not fewer than statements in progress need."""
        return max(1, round(self.clients))

    def at(self, reads: Interval, read_per_s: float | None = None) -> Interval | None:
        """Return the statements a second if each read so many pages; None where nothing bounds it.

        That is so where reads are all that a statement is known to wait for. The interval spans
        both answers, what processors a read may cost, and that of `reads`.

        Parameters
        ----------
        read_per_s : of another device that the data lie on, one that serves one read at a time;
            None for the one that there is
        """
        try:
            return self._spanned(reads, read_per_s)
        except ValueError:
            return None

    def _spanned(self, reads: Interval, read_per_s: float | None) -> Interval:
        many = [value for value in (reads.low, reads.high) if math.isfinite(value)]
        ends = [
            self._at(pages, queued, miss_cpu_s, read_per_s)
            for pages in (*many, reads.estimate)
            for queued in (False, True)
            for miss_cpu_s in (0.0, 2 * MISS_CPU_S)
        ]
        middle = [
            self._at(reads.estimate, queued, MISS_CPU_S, read_per_s) for queued in (False, True)
        ]
        estimate = math.sqrt(middle[0] * middle[1])
        noise = math.exp(2 * math.hypot(_BETWEEN, self.spread))
        return Interval(estimate, min(ends) / noise, max(ends) * noise, reads.n, reads.level)

    def _at(self, reads: float, queued: bool, miss_cpu_s: float, read_per_s: float | None) -> float:
        cpu_s = None
        if self.cpu_s is not None:
            more = miss_cpu_s * (reads - self.reads)
            cpu_s = max(self.cpu_s + more, _BUSY_LEAST * self.cpu_s)
        station_s = self._station_s if queued else 0.0
        waits_s = 0.0 if queued else self.read_s
        now = self._rate(self.cpu_s, station_s, waits_s)
        each = reads / self.reads if self.reads else 0.0
        then = (each * station_s, each * waits_s) if read_per_s is None else (reads / read_per_s, 0)
        # What the network does not hold (its numbers are of one moment) is the same now and then.
        return self.statements_per_s * self._rate(cpu_s, *then) / now

    def _rate(self, cpu_s: float | None, station_s: float, waits_s: float) -> float:
        queue_s, alone_s = self._processors(cpu_s)
        return queueing.throughput(
            [queue_s, station_s], self.threads, alone_s + waits_s + self._rest_s
        )

    def _processors(self, cpu_s: float | None) -> tuple[float, float]:
        """Return the demand at a queue and the time beside it that stand for several processors.

        Seidmann, Schweitzer, Shalev-Oren (1987), "Computerized closed queueing network models of
        flexible manufacturing systems", Large Scale Systems 12: c servers of demand d are one of
        d / c and a delay of d (c - 1) / c.
        """
        if cpu_s is None or self.cpus is None:
            return 0.0, 0.0
        return cpu_s / self.cpus, cpu_s * (self.cpus - 1) / self.cpus

    @cached_property
    def _rest_s(self) -> float:
        """Return the seconds of a statement that are neither reads nor processors, at least 0."""
        whole_s = self.threads / self.statements_per_s
        queue_s, alone_s = self._processors(self.cpu_s)

        def excess(rest_s: float) -> float:
            think_s = alone_s + self.read_s + rest_s
            return queueing.throughput([queue_s], self.threads, think_s) - self.statements_per_s

        return _root(excess, whole_s)

    @cached_property
    def _station_s(self) -> float:
        """Return the demand at a device that serves one read at a time, which gives what is now."""
        queue_s, alone_s = self._processors(self.cpu_s)
        think_s = alone_s + self._rest_s

        def excess(station_s: float) -> float:
            rate = queueing.throughput([queue_s, station_s], self.threads, think_s)
            return rate - self.statements_per_s

        return _root(excess, self.read_s)


def _root(falling: Callable[[float], float], high: float) -> float:
    """Return where a falling function passes 0 between 0 and `high`; the nearer end elsewhere."""
    low, found = 0.0, high
    if _safe(falling, low) <= 0:
        return 0.0
    for _ in range(_STEPS):
        found = (low + high) / 2
        low, high = (found, high) if _safe(falling, found) > 0 else (low, found)
    return found


def _safe(function: Callable[[float], float], value: float) -> float:
    """Return a function's value; a network without any demand is as fast as can be."""
    try:
        return function(value)
    except ValueError:
        return math.inf
