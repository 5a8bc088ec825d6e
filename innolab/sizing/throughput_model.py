"""How many statements a second a server would answer if each of them read more or fewer pages.

A closed network: so many clients, each with one statement at a time, which waits for processors,
for reads, and for all else. How a device answers under another load is not known from one load
alone, so there are two answers: each read takes as long as it does now, or reads queue for one
another at a device that serves one at a time. The truth is between them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from scipy.optimize import brentq

from innolab.analysis import queueing
from innolab.analysis.stats import Interval

# Seconds of a processor that reading a page costs. What it is on a server is not known, so the
# interval goes from none to twice as much. The model of more-memory found 34 us on MySQL 9.7 and
# 44 us on 5.6.24, on a cloud host of 2026.
MISS_CPU_S = 40e-6
_BUSY_LEAST = 0.1
# The standard deviation of a rate between two starts of a server, over it: 3 to 10 % are seen.
_BETWEEN = 0.05


@dataclass(frozen=True)
class ServerPace:
    """What clients and server do now; a server's constants, but for the reads of a statement.

    Attributes
    ----------
    clients : connections that have work, on average
    statements_per_s : that they are answered
    reads : pages a statement reads
    read_s : seconds that a statement waits for them
    cpus : processors of the server's host; None if it is not known
    cpu_s : seconds of a processor that a statement takes, its client's included if that is on the
        same host; None if it is not known
    spread : the standard deviation of `statements_per_s` over parts of the stretch, over its mean
    """

    clients: float
    statements_per_s: float
    reads: float
    read_s: float
    cpus: int | None = None
    cpu_s: float | None = None
    spread: float = 0.0

    def at(self, reads: Interval, read_per_s: float | None = None) -> Interval | None:
        """Return the statements a second if each read so many pages; None if nothing bounds it.

        That is so if reads are all that a statement is known to wait for. The interval spans both
        answers, what processors a read may cost, and that of `reads`.

        Parameters
        ----------
        read_per_s : of another device for the data, one that serves one read at a time; None for
            the present one
        """
        ends = [value for value in (reads.low, reads.high) if math.isfinite(value)]
        try:
            rates = [
                self._at(pages, queued, miss_cpu_s, read_per_s)
                for pages in (*ends, reads.estimate)
                for queued in (False, True)
                for miss_cpu_s in (0.0, 2 * MISS_CPU_S)
            ]
            middle = [
                self._at(reads.estimate, queued, MISS_CPU_S, read_per_s) for queued in (False, True)
            ]
        except ValueError:
            return None
        noise = math.exp(2 * math.hypot(_BETWEEN, self.spread))
        return Interval(
            math.sqrt(middle[0] * middle[1]), min(rates) / noise, max(rates) * noise, reads.n,
            reads.level,
        )  # fmt: skip

    def _at(self, reads: float, queued: bool, miss_cpu_s: float, read_per_s: float | None) -> float:
        cpu_s = self.cpu_s
        if cpu_s is not None:
            cpu_s = max(cpu_s + miss_cpu_s * (reads - self.reads), _BUSY_LEAST * cpu_s)
        station_s, waits_s = (self._station_s, 0.0) if queued else (0.0, self.read_s)
        now = self._rate(self.cpu_s, station_s, waits_s + self._rest_s)
        if read_per_s is not None:
            station_s, waits_s = reads / read_per_s, 0.0
        else:
            each = reads / self.reads if self.reads else 0.0
            station_s, waits_s = each * station_s, each * waits_s
        # What the network does not hold (its numbers are of one moment) is the same now and then.
        return self.statements_per_s * self._rate(cpu_s, station_s, waits_s + self._rest_s) / now

    def _rate(self, cpu_s: float | None, station_s: float, delay_s: float) -> float:
        """Return the rate of a network of processors, one station and a delay.

        Seidmann, Schweitzer, Shalev-Oren (1987), "Computerized closed queueing network models of
        flexible manufacturing systems", Large Scale Systems 12: c servers of demand d are one of
        d / c and a delay of d (c - 1) / c.
        """
        cpu_s, cpus = (0.0, 1) if cpu_s is None or self.cpus is None else (cpu_s, self.cpus)
        delay_s += cpu_s * (cpus - 1) / cpus
        return queueing.throughput([cpu_s / cpus, station_s], self._threads, delay_s)

    @property
    def _threads(self) -> int:
        return max(1, round(self.clients))

    @cached_property
    def _rest_s(self) -> float:
        """Return the seconds of a statement that are neither reads nor processors, at least 0."""
        return self._solved(
            lambda rest_s: self._rate(self.cpu_s, 0.0, self.read_s + rest_s),
            self._threads / self.statements_per_s,
        )

    @cached_property
    def _station_s(self) -> float:
        """Return the demand at a device that serves one read at a time, which gives what is now."""
        return self._solved(
            lambda station_s: self._rate(self.cpu_s, station_s, self._rest_s), self.read_s
        )

    def _solved(self, rate: Callable[[float], float], most_s: float) -> float:
        """Return the time up to `most_s` that gives the present rate, or the nearer end."""
        # Not from 0: a network without any demand has no rate.
        least_s = 1e-9 * most_s
        if rate(least_s) <= self.statements_per_s:
            return 0.0
        if rate(most_s) >= self.statements_per_s:
            return most_s
        return float(brentq(lambda seconds: rate(seconds) - self.statements_per_s, least_s, most_s))
