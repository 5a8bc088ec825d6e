"""What the seconds of one run say of its average: trend, waves, and by how much it is uncertain.

A server that flushes in waves gives an average that depends on how many of them the run holds, and
one that is still filling its pool gives one that depends on when it was measured. Both are seen in
the run itself, and need no other.
"""

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from innolab.analysis import steady_state

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Fewer moments say nothing of a course.
LEAST = 12
# A day's seconds. Where most moments are missing, what is between them is not known.
_MOST, _MOST_GAPS = 100_000, 2
# Of fewer waves nobody can say that they come back.
LEAST_WAVES = 4
# The probability that noise without a period passes for waves: of neighbouring seconds that
# resemble each other, too.
_FALSE_WAVES = 0.001
# A series resembles itself a period later at least by this share of what it does after the multiple
# of the period at which it does most.
_AS_GOOD = 0.5
_LEAST_AGAIN = 0.2
_OVERSAMPLED = 8
_BATCHES = 10


class Wave(NamedTuple):
    """What comes back in a run.

    Attributes
    ----------
    period_s : from crest to crest
    swing : from the mean trough to the mean crest, as a share of the average
    whole : how many whole waves the run holds
    """

    period_s: float
    swing: float
    whole: int


class Course(NamedTuple):
    """What the seconds of a run say.

    Attributes
    ----------
    n : moments
    length_s : of the run
    drift : of the second half from the first, each of whole waves
    wave : None if nothing comes back
    error : standard deviation of the average's logarithm, by the differences between batches of
        seconds, each a whole wave or longer: a lower bound of that between runs
    freedom : degrees of freedom of `error`
    one_wave : by how much, on the logarithm, the average changes if up to one wave at either end
        is left out; 0 without waves
    """

    n: int
    length_s: float
    drift: steady_state.Drift
    wave: Wave | None
    error: float
    freedom: int
    one_wave: float


def course(seconds: Sequence[tuple[float, float]]) -> Course | None:
    """Return what the seconds of a run say; None if they are too few, too far apart or all 0.

    Parameters
    ----------
    seconds : moments in seconds, ascending, each with the rate since the one before it

    >>> wavy = [(t, 100 + 20 * math.sin(math.tau * t / 10)) for t in range(1, 61)]
    >>> found = course(wavy)
    >>> round(found.wave.period_s, 1), found.wave.whole, found.drift.steady
    (10.0, 6, True)
    """
    import numpy

    if not LEAST <= len(seconds) <= _MOST:
        return None
    moments, rates = numpy.asarray(seconds, dtype=float).T
    steps = numpy.diff(moments)
    if rates.min() < 0 or rates.mean() <= 0 or steps.min() <= 0:
        return None
    step = float(numpy.median(steps))
    if (moments[-1] - moments[0]) / step > _MOST_GAPS * len(seconds):
        return None
    evenly = numpy.arange(moments[0], moments[-1] + step / 2, step)
    rates = numpy.interp(evenly, moments, rates)
    period = _period(rates)
    wave = _wave(rates, period, step) if period else None
    batches = _batches(rates, period)
    means = numpy.log(numpy.maximum(batches.mean(axis=1), rates.mean() / 1e6))
    return Course(
        n=len(seconds),
        length_s=len(rates) * step,
        drift=_drift(rates, period, step),
        wave=wave,
        error=float(means.std(ddof=1) / math.sqrt(len(means))),
        freedom=len(means) - 1,
        one_wave=_one_wave(rates, period) if period else 0.0,
    )


def _drift(rates: "NDArray", period: float, step: float) -> steady_state.Drift:
    """Return the drift over the last even number of waves, so that no half has more of one."""
    if period:
        rates = rates[-round(2 * (len(rates) / period // 2) * period) :]
    done = [0.0, *(rates.cumsum() * step)]
    samples = [{"t_s": place * step, "transactions": float(n)} for place, n in enumerate(done)]
    return steady_state.throughput(samples)


def _batches(rates: "NDArray", period: float) -> "NDArray":
    """Return rates in batches of equal length, as rows: of whole waves, or a tenth of the run."""
    if period:
        waves = int(len(rates) / period)
        ends = [round(period * n) for n in range(waves + 1)]
        length = min(after - before for before, after in itertools.pairwise(ends))
        return rates[[range(end, end + length) for end in ends[:-1]]]
    n = min(_BATCHES, len(rates) // 3)
    length = len(rates) // n
    return rates[-n * length :].reshape(n, length)


def _one_wave(rates: "NDArray", period: float) -> float:
    import numpy

    whole = math.log(rates.mean())
    cuts = range(1, math.ceil(period) + 1)
    means = [part.mean() for cut in cuts for part in (rates[cut:], rates[:-cut])]
    return max(abs(math.log(mean) - whole) for mean in numpy.maximum(means, rates.mean() / 1e6))


def _wave(rates: "NDArray", period: float, step: float) -> Wave:
    import numpy

    phases = (numpy.arange(len(rates)) % period).astype(int)
    by_phase = [rates[phases == phase].mean() for phase in range(math.floor(period))]
    swing = (max(by_phase) - min(by_phase)) / rates.mean()
    # A period is known to some hundredths: 60 s of 10.01 s are six waves.
    whole = math.floor(len(rates) / period + 0.05)
    return Wave(period * step, float(swing), whole)


def _period(rates: "NDArray") -> float:
    """Return the period of waves in steps, 0 if nothing comes back.

    The highest peak of the spectrum has to stand out from that of noise in which each second
    resembles the one before it. The wave itself may be a multiple of that peak's period, as where
    a server stalls for one second of ten.
    """
    import numpy

    n = len(rates)
    rest = _without_trend(rates)
    if rest.std() <= 1e-9 * rates.mean():
        return 0.0
    power = numpy.abs(numpy.fft.rfft(rest, _OVERSAMPLED * n)) ** 2 / (n * rest.var())
    frequencies = numpy.fft.rfftfreq(_OVERSAMPLED * n)
    height = power / _red_noise(rest, frequencies)
    known = (frequencies >= LEAST_WAVES / n) & (frequencies <= 1 / 3)
    if not known.any():
        return 0.0
    best = int(numpy.argmax(numpy.where(known, height, 0)))
    independent = n * (1 / 3 - LEAST_WAVES / n)
    if height[best] < math.log(max(independent, 1) / _FALSE_WAVES):
        return 0.0
    return _fundamental(rest, 1 / frequencies[best])


def _without_trend(rates: "NDArray") -> "NDArray":
    import numpy

    at = numpy.arange(len(rates))
    return rates - numpy.polynomial.Polynomial.fit(at, rates, 1)(at)


def _red_noise(rest: "NDArray", frequencies: "NDArray") -> "NDArray":
    """Return the spectrum of first-order noise with the correlation of neighbouring seconds."""
    import numpy

    phi = _correlation(rest, 1)
    phi = min(max(phi + (1 + 4 * phi) / len(rest), 0.0), 0.95)
    return (1 - phi**2) / (1 + phi**2 - 2 * phi * numpy.cos(math.tau * frequencies))


def _correlation(rest: "NDArray", lag: float) -> float:
    """Return the correlation of a series with itself some steps later, between two if need be."""
    import numpy

    low = math.floor(lag)
    both = [float(numpy.dot(rest[:-at], rest[at:]) / (len(rest) - at)) for at in (low, low + 1)]
    return (both[0] + (lag - low) * (both[1] - both[0])) / float(rest.var())


def _fundamental(rest: "NDArray", period: float) -> float:
    """Return the least multiple of a period after which a series resembles itself, or 0."""
    most = len(rest) / LEAST_WAVES
    again = {period * times: _correlation(rest, period * times)
             for times in range(1, 9) if times == 1 or period * times <= most}  # fmt: skip
    best = max(again.values())
    if best < _LEAST_AGAIN:
        return 0.0
    return next(one for one, like in again.items() if like >= _AS_GOOD * best)
