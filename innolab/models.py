"""Transactions per second of a server whose data do not fit its buffer pool, as a model.

Three parts: which pages sysbench asks for, what share of them a pool of a given size misses, and
how fast a closed queueing network serves the transactions that these misses slow down.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq, least_squares
from scipy.stats import t as student

from innolab import stats

# sysbench's defaults, src/sb_rand.c: --rand-spec-iter, -spec-pct, -spec-res, --rand-pareto-h and,
# after 1.0.20 only, --rand-zipfian-exp.
_SPECIAL_ITER = 12
_SPECIAL_PCT = 1
_SPECIAL_RES = 75
_PARETO_H = 0.2
_ZIPF_EXPONENT = 0.8

# Beyond it exp(T) would overflow. Che's equation has no root below it where the pool is larger
# than the set of pages that are ever asked for.
_LOG_T_MAX = 700.0


def popularity(distribution: str, pages: int, rows: int) -> np.ndarray:
    """Return the probability that one access falls on each page of a table.

    Rows lie in the order of their ids, evenly over the pages: the numbers of rows of two pages
    differ by one at most.

    Parameters
    ----------
    distribution : {"uniform", "special", "pareto", "zipf"}
        sysbench's --rand-type, with its default parameters. `zipf` is its `zipfian`.
    pages, rows : int
        Size of the table; `rows` is sysbench's --table-size.

    Returns
    -------
    numpy.ndarray, shape (pages,)
        Probabilities in the order of ids; they sum to 1.

    Raises
    ------
    ValueError
        Where the distribution is unknown, or there is not at least one row for every page.

    References
    ----------
    sysbench 1.0.20, src/sb_rand.c: sb_rand_uniform, sb_rand_special, sb_rand_pareto. No release
    has `zipfian`; it is sb_rand_zipfian of the development branch (commit 3ceba0b).

    >>> popularity("uniform", 4, 100).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    if distribution not in _SHARES:
        raise ValueError(f"unknown distribution '{distribution}'; there are {', '.join(_SHARES)}")
    if not 1 <= pages <= rows:
        raise ValueError(f"{rows} rows cannot fill {pages} pages")
    first_rows = np.arange(pages + 1) * rows // pages
    return _SHARES[distribution](first_rows, rows)


def _uniform(edges: np.ndarray, rows: int) -> np.ndarray:
    return np.diff(edges) / rows


def _special(edges: np.ndarray, rows: int) -> np.ndarray:
    """Return the shares of sb_rand_special between row numbers `edges`, counted from 0.

    One draw u decides the branch and, above 1 - res, is used again as the place in the central
    part. It is then never small, so that only the upper `res` of the central `pct` is drawn: with
    the defaults ids from 49.75 % to 50.5 % of the range, 0.75 % of it and not 1 %.
    """
    span = rows - 1
    spread = 1 - _SPECIAL_RES / 100
    width = span * _SPECIAL_PCT / 100
    centre = (span - width) / 2
    low, high = centre + spread * (width + 1), centre + width + 1
    central = np.diff(np.clip((edges - low) / (high - low), 0, 1))
    places = np.minimum(edges / max(span, 1), 1) * _SPECIAL_ITER
    return spread * _irwin_hall(places) + (1 - spread) * central


def _irwin_hall(places: np.ndarray) -> np.ndarray:
    """Return the probabilities that a sum of uniform draws falls between neighbouring places.

    The closed form of Irwin (1927) and Hall (1927), Biometrika 19: the sum of n draws is below x
    with probability sum_k (-1)^k C(n, k) (x - k)^n / n! over k <= x. It is used below the middle
    and mirrored above, because near n its terms cancel and the outer pages, asked for once in
    1e40 accesses, would be lost. SciPy's `irwinhall` is as exact and takes half a minute for a
    million pages.
    """
    n = _SPECIAL_ITER
    upper = places > n / 2
    x = np.where(upper, n - places, places)
    below = sum(
        (-1) ** k * math.comb(n, k) * np.maximum(x - k, 0) ** n / math.factorial(n)
        for k in range(n // 2 + 1)
    )
    # Above the middle this is the probability less one, so only the step across it is off by one.
    return np.diff(np.where(upper, -below, below)) + np.diff(upper)


def _pareto(edges: np.ndarray, rows: int) -> np.ndarray:
    """Return the shares of sb_rand_pareto, which draws rows * u**p with p = ln h / ln(1 - h)."""
    power = math.log(_PARETO_H) / math.log(1 - _PARETO_H)
    return np.diff((edges / rows) ** (1 / power))


def _zipf(edges: np.ndarray, rows: int) -> np.ndarray:
    """Return the shares of sb_rand_zipfian, which draws the k-th row in proportion to k**-s."""
    sums = _power_sums(edges)
    return np.diff(sums) / sums[-1]


def _power_sums(counts: np.ndarray) -> np.ndarray:
    """Return sum_{k=1..n} k**-s for every n of `counts`, with an error below 1e-12.

    The first terms one by one, the others by the Euler-Maclaurin formula (DLMF 2.10.1).
    """
    s, direct = _ZIPF_EXPONENT, 100

    def smooth(n: np.ndarray) -> np.ndarray:
        return n ** (1 - s) / (1 - s) + n**-s / 2 - s * n ** (-s - 1) / 12

    first = np.concatenate([[0.0], np.cumsum(np.arange(1, direct + 1) ** -s)])
    beyond = np.maximum(counts, direct).astype(float)
    rest = smooth(beyond) - smooth(np.array(float(direct)))
    return first[np.minimum(counts, direct)] + rest


_SHARES: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "uniform": _uniform,
    "special": _special,
    "pareto": _pareto,
    "zipf": _zipf,
}


def miss_ratio(distribution: str, x_ratio: float, pages: int, rows: int) -> float:
    """Return the share of page accesses that a least-recently-used cache misses.

    For `uniform` it is 1 - x. For the others it is Che's approximation: a page stays for the same
    time T, counted in accesses, after each access to it; T is where the expected number of pages
    inside, sum_i (1 - exp(-p_i T)), equals the size of the cache, and page i is then missed with
    probability exp(-p_i T).

    Parameters
    ----------
    distribution : {"uniform", "special", "pareto", "zipf"}
    x_ratio : float
        Size of the cache over size of the data, 0 or more.
    pages, rows : int
        As for `popularity`. The result hardly depends on `pages`, so a large table may be given
        with fewer; `zipf` does depend on `rows`, by 4 % between 4e5 and 4e7.

    Returns
    -------
    float
        Between 0 and 1; 0 where the cache holds every page that is ever asked for.

    Raises
    ------
    ValueError
        As `popularity`, or where x_ratio is negative or not a number.

    References
    ----------
    Che, Tung, Wang (2002), "Hierarchical Web caching systems: modeling, design and experimental
    results", IEEE JSAC 20(7). Fricker, Robert, Roberts (2012), "A versatile and accurate
    approximation for LRU cache performance", arXiv:1202.3974, say why it is so close.

    Notes
    -----
    Accesses are taken as independent. InnoDB's list is not plain LRU: new pages enter it at 5/8;
    tests/test_models.py says by how much it differs.

    >>> miss_ratio("uniform", 0.25, 100, 1000)
    0.75
    """
    if not x_ratio >= 0:
        raise ValueError(f"a cache cannot be {x_ratio} of the data")
    chances = popularity(distribution, pages, rows)
    if x_ratio == 0 or x_ratio >= 1 or distribution == "uniform":
        return max(0.0, 1.0 - x_ratio)
    size = x_ratio * pages

    def excess(log_t: float) -> float:
        return float(-np.expm1(-chances * math.exp(log_t)).sum()) - size

    # 1 - exp(-p T) <= p T, so the pages inside are at most T and the root is not below the size.
    low = high = math.log(size)
    while excess(high) < 0:
        if high >= _LOG_T_MAX:
            return 0.0
        low, high = high, min(high + 5, _LOG_T_MAX)
    log_t = brentq(excess, low, high) if high > low else high
    return float((chances * np.exp(-chances * math.exp(log_t))).sum())


def throughput(demands_s: Sequence[float], threads: int) -> float:
    """Return the throughput of a closed queueing network by exact mean value analysis.

    Every station is a single server with a queue; there is no think time.

    Parameters
    ----------
    demands_s : sequence of float, shape (stations,)
        Seconds of service that one transaction needs at each station; 0 leaves a station out.
    threads : int
        Transactions in the network at any time, at least 1.

    Returns
    -------
    float
        Transactions per second.

    Raises
    ------
    ValueError
        Where a demand is negative or not finite, all are 0, or there is no thread.

    References
    ----------
    Reiser, Lavenberg (1980), "Mean-value analysis of closed multichain queuing networks",
    Journal of the ACM 27(2).

    >>> throughput([0.01, 0.01], 1)
    50.0
    """
    if threads < 1:
        raise ValueError(f"a closed network needs a thread, got {threads}")
    if not all(d >= 0 and math.isfinite(d) for d in demands_s) or not any(demands_s):
        raise ValueError(f"demands must be 0 or more and not all 0, got {list(demands_s)}")
    queues = [0.0] * len(demands_s)
    rate = 0.0
    for present in range(1, threads + 1):
        waits = [d * (1 + queue) for d, queue in zip(demands_s, queues, strict=True)]
        rate = present / math.fsum(waits)
        queues = [rate * wait for wait in waits]
    return rate


@dataclass(frozen=True)
class Device:
    """What a device can do: random reads and writes of 16 KB pages, each per second."""

    read_per_s: float
    write_per_s: float


@dataclass(frozen=True)
class Point:
    """One arm: its geometric mean of transactions per second, and where it was measured."""

    tps: float
    miss_ratio: float
    device: Device


@dataclass(frozen=True)
class Model:
    """A server under one workload as three stations: CPU, device reads, device writes.

    Reads and writes wait in separate queues because the block-io controller that makes a device
    slow counts and limits each direction by itself. A real disk has one queue for both.

    Attributes
    ----------
    cpu_tps : float
        Transactions per second where nothing is missed or written: the measured plateau.
    threads : int
        Threads of sysbench.
    reads : float
        Pages read per transaction if every access missed (R).
    miss_cpu_s : float
        CPU seconds that one page read costs.
    writes : float
        Pages written per transaction (W); 0 for a workload that only reads.
    """

    cpu_tps: float
    threads: int
    reads: float
    miss_cpu_s: float
    writes: float = 0.0

    def tps(self, miss_ratio: float, device: Device) -> float:
        """Return transactions per second where a share `miss_ratio` of accesses is missed.

        Demands with m the miss ratio: 1/cpu_tps + miss_cpu_s R m of CPU, R m / read_per_s of
        reads, W / write_per_s of writes, all in seconds per transaction.

        Raises
        ------
        ValueError
            As `throughput`, for a miss ratio below 0 or a device without speed.
        """
        if not (device.read_per_s > 0 and device.write_per_s > 0):
            raise ValueError(f"a device must read and write, got {device}")
        missed = self.reads * miss_ratio
        demands_s = [
            1 / self.cpu_tps + self.miss_cpu_s * missed,
            missed / device.read_per_s,
            self.writes / device.write_per_s,
        ]
        return throughput(demands_s, self.threads)


def fit_reads(points: Sequence[Point], cpu_tps: float, threads: int) -> Model:
    """Return the model of a workload that only reads: `reads` and `miss_cpu_s` are fitted.

    Least squares on log tps, every point with the same weight. Both constants are told apart only
    by points on either side: slow devices give `reads`, fast ones `miss_cpu_s`. Without the one
    or the other the fit says nothing of the missing constant, though it returns one; of equally
    good answers that with the least second constant. Neither gets exactly 0: one without effect
    ends at the bound of the search, where it changes tps by about 1e-6.

    Parameters
    ----------
    points : sequence of Point, shape (n,), n >= 2
    cpu_tps : float
        Transactions per second of the plateau, measured.
    threads : int
        Threads of sysbench.

    Raises
    ------
    ValueError
        Where there are fewer than two points, none of them misses, or a value is not positive
        and finite.
    """
    reads = _most_reads(points, cpu_tps)

    def model(logs: Sequence[float]) -> Model:
        # The second is the CPU of a transaction that misses always: fast devices show c R alone.
        pages, cpu_s = (math.exp(value) for value in logs)
        return Model(cpu_tps, threads, pages, cpu_s / pages)

    return _fit(
        points,
        model,
        _Search(reads, 1e-4, 100, (0.003, 0.01, 0.03, 0.1, 0.3, 0.9)),
        _Search(1 / cpu_tps, 1e-6, 1e4, (0.001, 0.01, 0.1, 1, 10, 100)),
    )


def fit_writes(points: Sequence[Point], cpu_tps: float, threads: int, miss_cpu_s: float) -> Model:
    """Return the model of a workload that also writes: `reads` and `writes` are fitted.

    As `fit_reads`; points where the device decides are needed for both, those with many misses
    for `reads` and those with few for `writes`.

    Parameters
    ----------
    points, cpu_tps, threads
        As for `fit_reads`, of this workload.
    miss_cpu_s : float
        CPU seconds of one page read, from `fit_reads`; 0 or more.

    Raises
    ------
    ValueError
        As `fit_reads`, or where miss_cpu_s is negative or not finite.
    """
    if not (miss_cpu_s >= 0 and math.isfinite(miss_cpu_s)):
        raise ValueError(f"the CPU seconds of a page read cannot be {miss_cpu_s}")
    reads = _most_reads(points, cpu_tps)
    writes = min(point.device.write_per_s / point.tps for point in points)

    def model(logs: Sequence[float]) -> Model:
        pages, written = (math.exp(value) for value in logs)
        return Model(cpu_tps, threads, pages, miss_cpu_s, written)

    factors = (0.003, 0.01, 0.03, 0.1, 0.3, 0.9)
    return _fit(
        points, model, _Search(reads, 1e-4, 100, factors), _Search(writes, 1e-6, 100, factors)
    )


@dataclass(frozen=True)
class _Search:
    """A constant's scale, and the bounds and starts of the search as multiples of it."""

    scale: float
    low: float
    high: float
    starts: tuple[float, ...]

    def logs(self, factors: Iterable[float]) -> list[float]:
        return [math.log(self.scale * factor) for factor in factors]


def _most_reads(points: Sequence[Point], cpu_tps: float) -> float:
    """Return the most pages per transaction, if every access missed, that the devices allow.

    No station serves faster than its device (Denning, Buzen 1978, "The operational analysis of
    queueing network models", ACM Computing Surveys 10(3)): tps R m <= read_per_s at every point.
    """
    if len(points) < 2:
        raise ValueError(f"two constants need at least two points, got {len(points)}")
    for point in points:
        device = point.device
        positive = (cpu_tps, point.tps, device.read_per_s, device.write_per_s)
        if not all(v > 0 and math.isfinite(v) for v in positive) or not 0 <= point.miss_ratio <= 1:
            raise ValueError(f"no measurement can give cpu_tps={cpu_tps} and {point}")
    if not any(point.miss_ratio for point in points):
        raise ValueError("no point misses, so none says how many pages a transaction reads")
    return min(p.device.read_per_s / (p.tps * p.miss_ratio) for p in points if p.miss_ratio)


def _fit(
    points: Sequence[Point], model: Callable[[Sequence[float]], Model], a: _Search, b: _Search
) -> Model:
    def residuals(logs: Sequence[float]) -> list[float]:
        return errors(model(logs), points)

    def cost(logs: Sequence[float]) -> float:
        return math.fsum(e**2 for e in residuals(logs))

    def rank(logs: Sequence[float]) -> tuple[float, float]:
        # What the points do not show must not slow down what is predicted from them.
        return round(cost(logs), 12), logs[1]

    bounds = tuple(zip(a.logs((a.low, a.high)), b.logs((b.low, b.high)), strict=True))
    # Where one station hides another the cost is flat, and a search that starts there stays.
    grid = [(u, v) for u in a.logs(a.starts) for v in b.logs(b.starts)]
    found = [
        least_squares(residuals, start, bounds=bounds, xtol=1e-12, ftol=1e-12, gtol=1e-12).x
        for start in sorted(grid, key=rank)[:3]
    ]
    return model(min(found, key=rank))


def errors(model: Model, points: Sequence[Point]) -> list[float]:
    """Return ln(predicted / measured) tps of every point, shape (n,).

    Raises
    ------
    ValueError
        As `Model.tps`, or where a measured tps is not positive.
    """
    return [math.log(model.tps(p.miss_ratio, p.device) / p.tps) for p in points]


def prediction(
    estimate: float, log_errors: Sequence[float], level: float = stats.LEVEL
) -> stats.Interval:
    """Return an estimate with the interval in which a measurement of it is expected.

    The estimate times and divided by exp(t rms): rms is the root mean square of the errors that
    the model made at points which it was not fitted to, t Student's quantile.

    Parameters
    ----------
    estimate : float, any positive unit
    log_errors : sequence of float, shape (n,)
        What `errors` gives for points that were held out.
    level : float
        Coverage of the interval.

    Returns
    -------
    stats.Interval
        Its ends are NaN with fewer than two errors. It covers one measured mean, not the mean of
        many: the noise of a measurement is in the errors.

    Raises
    ------
    ValueError
        Where the estimate is not positive and finite, or an error is not finite.

    Notes
    -----
    The mean square is taken about 0 and no constant was fitted to these points, so it has n
    degrees of freedom and not n - 1: for errors e ~ N(0, s) a new error over rms is Student's t
    with n (Student 1908, "The probable error of a mean", Biometrika 6). A bias of the model is
    part of the mean square; errors that share one make the interval hold more often than `level`.
    What was never held out, as a device of another kind, is not covered.

    >>> prediction(100.0, [0.1]).estimate
    100.0
    """
    if not (estimate > 0 and math.isfinite(estimate)):
        raise ValueError(f"a prediction must be positive and finite, got {estimate}")
    if not all(math.isfinite(e) for e in log_errors):
        raise ValueError(f"errors must be finite, got {list(log_errors)}")
    n = len(log_errors)
    if n < 2:
        return stats.Interval(estimate, math.nan, math.nan, n, level)
    rms = math.sqrt(math.fsum(e**2 for e in log_errors) / n)
    factor = math.exp(float(student.ppf((1 + level) / 2, n)) * rms)
    return stats.Interval(estimate, estimate / factor, estimate * factor, n, level)
