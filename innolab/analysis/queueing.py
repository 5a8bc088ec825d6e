"""Transactions per second of a server whose data do not fit its buffer pool, as a model.

How fast a closed queueing network serves transactions that misses slow down, with constants fitted
on measured arms, and how far its predictions can be trusted.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from innolab.analysis import stats


def throughput(demands_s: Sequence[float], threads: int, think_s: float = 0.0) -> float:
    """Return the throughput of a closed queueing network by exact mean value analysis.

    Every station is a single server with a queue.

    Parameters
    ----------
    demands_s : sequence of float, shape (stations,)
        Seconds of service that one transaction needs at each station; 0 leaves a station out.
    threads : int
        Transactions in the network at any time, at least 1.
    think_s : float
        Seconds that a transaction spends where none waits for another.

    Returns
    -------
    float
        Transactions per second.

    Raises
    ------
    ValueError
        Where a time is negative or not finite, all are 0, or there is no thread.

    References
    ----------
    Reiser, Lavenberg (1980), "Mean-value analysis of closed multichain queuing networks",
    Journal of the ACM 27(2).

    >>> throughput([0.01, 0.01], 1)
    50.0
    """
    if threads < 1:
        raise ValueError(f"a closed network needs a thread, got {threads}")
    times_s = [*demands_s, think_s]
    if not all(d >= 0 and math.isfinite(d) for d in times_s) or not any(times_s):
        raise ValueError(f"demands must be 0 or more and not all 0, got {times_s}")
    queues = [0.0] * len(demands_s)
    rate = 0.0
    for present in range(1, threads + 1):
        waits = [d * (1 + queue) for d, queue in zip(demands_s, queues, strict=True)]
        rate = present / (think_s + math.fsum(waits))
        queues = [rate * wait for wait in waits]
    return rate


@dataclass(frozen=True)
class Device:
    """What a device can do: random reads and writes of 16 KB pages, each per second."""

    read_per_s: float
    write_per_s: float


@dataclass(frozen=True)
class ArmPoint:
    """One arm: its geometric mean of transactions per second, and where it was measured."""

    tps: float
    miss_ratio: float
    device: Device


@dataclass(frozen=True)
class Model:
    """A server under one workload as three stations: CPU, device reads, device writes.

    Reads and writes wait in separate queues because the block-io controller that makes a device
    slow counts and limits each direction on its own. A real disk has one queue for both.

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


def fit_reads(points: Sequence[ArmPoint], cpu_tps: float, threads: int) -> Model:
    """Return the model of a workload that only reads: `reads` and `miss_cpu_s` are fitted.

    Least squares on log tps, every point with the same weight. It takes points on either side to
    know both constants: slow devices give `reads`, fast ones `miss_cpu_s`. Without the one
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


def fit_writes(
    points: Sequence[ArmPoint], cpu_tps: float, threads: int, miss_cpu_s: float
) -> Model:
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


def _most_reads(points: Sequence[ArmPoint], cpu_tps: float) -> float:
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
    points: Sequence[ArmPoint], model: Callable[[Sequence[float]], Model], a: _Search, b: _Search
) -> Model:
    from scipy.optimize import least_squares

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


def errors(model: Model, points: Sequence[ArmPoint]) -> list[float]:
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
    factor = math.exp(stats.student_quantile(level, n) * rms)
    return stats.Interval(estimate, estimate / factor, estimate * factor, n, level)
