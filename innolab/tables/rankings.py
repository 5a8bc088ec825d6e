"""Rankings of arms by single runs or few replicates: which are decided, and which are noise.

All is on logarithms: measured rates and times are positive and their noise is multiplicative. The
arms of a published table share no blocks, so their means are compared as unpaired ones.
"""

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

from innolab.analysis import stats
from innolab.analysis.stats import Interval
from innolab.record.run import Level

# From so many replicates on, either side's own spread is used; below, that of all arms together.
MANY = 5


class Spread(NamedTuple):
    """By how much restarts of one arm differ.

    Attributes
    ----------
    sd : standard deviation of the logarithms: 0.05 is about 5 %
    freedom : its degrees of freedom
    arms : of how many arms it was found
    says : where it is from, in words
    borrowed : whether it is another collection's, since the table has no replicates
    """

    sd: float
    freedom: int
    arms: int
    says: str
    borrowed: bool = False


class Standing(NamedTuple):
    """An arm in its ranking: the level, its mean over replicates, and the interval of that."""

    level: Level
    found: Interval


class Lead(NamedTuple):
    """How many times as good one arm is as another: more of a rate, or less of a time.

    `spread_most` is the largest spread between restarts, alike in all arms, at which it would still
    be decided.
    """

    of: Level
    to: Level
    ratio: Interval
    spread_most: float

    @property
    def is_decided(self) -> bool:
        """Return whether the interval leaves out 1."""
        return self.ratio.low > 1 or self.ratio.high < 1


class Ranking(NamedTuple):
    """The levels of a factor, best first, and how far each pair of them lies apart."""

    standings: list[Standing]
    leads: list[Lead]

    @property
    def first(self) -> Lead:
        """Return the lead of the best over the next."""
        return self.leads[0]

    @property
    def level_with_best(self) -> list[Level]:
        """Return the levels that cannot be told from the best."""
        best = self.standings[0].level
        return [one.to for one in self.leads if one.of == best and not one.is_decided]


def pooled(arms: Sequence[Sequence[float]]) -> Spread | None:
    """Return the spread between replicates, pooled over arms; None where no arm has two.

    Parameters
    ----------
    arms : for each arm its replicates, positive

    >>> found = pooled([[100.0, 102.0], [50.0, 49.0], [75.0]])
    >>> round(found.sd, 4), found.freedom, found.arms
    (0.0141, 2, 2)
    """
    repeated = [[math.log(value) for value in arm] for arm in arms if len(arm) > 1]
    freedom = sum(len(arm) - 1 for arm in repeated)
    if not freedom:
        return None
    squares = math.fsum((x - math.fsum(arm) / len(arm)) ** 2 for arm in repeated for x in arm)
    says = (
        f"found in the table's own replicates of {len(repeated)} of {len(arms)} arms, with "
        f"{freedom} degrees of freedom"
    )
    return Spread(math.sqrt(squares / freedom), freedom, len(repeated), says)


def mean(values: Sequence[float], spread: Spread, level: float = stats.LEVEL) -> Interval:
    """Return the geometric mean of an arm, its interval from the spread of all arms.

    From `MANY` replicates on, the interval is their own.
    """
    if len(values) >= MANY:
        return stats.geometric_mean(values, level)
    middle = math.fsum(math.log(value) for value in values) / len(values)
    half = stats.student_quantile(level, spread.freedom) * spread.sd / math.sqrt(len(values))
    ends = (math.exp(middle - half), math.exp(middle + half))
    return Interval(math.exp(middle), *ends, len(values), level)


def ratio(
    of: Sequence[float],
    to: Sequence[float],
    spread: Spread,
    level: float = stats.LEVEL,
    among: int = 2,
) -> Interval:
    """Return the ratio of the geometric means of two arms with its interval.

    Parameters
    ----------
    of, to : the replicates of either arm
    among : of how many arms these two were picked after looking; 2 where they were named before

    Notes
    -----
    Student's interval with the pooled variance, or Welch's where both arms have `MANY` replicates.
    For two of several arms, Tukey's and Kramer's, or Games's and Howell's: all pairs of one ranking
    hold the truth together at the level.

    References
    ----------
    Kramer (1956), "Extension of multiple range tests to group means with unequal numbers of
    replications", Biometrics 12. Games, Howell (1976), "Pairwise multiple comparison procedures
    with unequal N's and/or variances", Journal of Educational Statistics 1.

    >>> spread = Spread(0.01, 4, 4, "by hand")
    >>> found = ratio([102.0], [100.0], spread)
    >>> round(found.low, 3), round(found.high, 3)
    (0.981, 1.061)
    """
    variance, freedom = _variance(of, to, spread)
    half = quantile(level, among, freedom) * math.sqrt(variance)
    middle = _mean_log(of) - _mean_log(to)
    ends = (math.exp(middle - half), math.exp(middle + half))
    return Interval(math.exp(middle), *ends, min(len(of), len(to)), level)


def ranked(
    arms: Mapping[Level, Sequence[float]],
    spread: Spread,
    *,
    is_higher_better: bool,
    level: float = stats.LEVEL,
) -> Ranking:
    """Return arms best first, with the lead of each over each that stands below it.

    Parameters
    ----------
    arms : two or more, each with its replicates
    """
    standings = sorted(
        (Standing(name, mean(values, spread, level)) for name, values in arms.items()),
        key=lambda one: one.found.estimate,
        reverse=is_higher_better,
    )
    leads = []
    for place, best in enumerate(standings):
        for next_ in standings[place + 1 :]:
            pair = arms[best.level], arms[next_.level]
            top, bottom = pair if is_higher_better else pair[::-1]
            found = ratio(top, bottom, spread, level, len(arms))
            leads.append(
                Lead(best.level, next_.level, found, _spread_most(pair, spread, level, len(arms)))
            )
    return Ranking(standings, leads)


def _spread_most(
    pair: tuple[Sequence[float], Sequence[float]], spread: Spread, level: float, among: int
) -> float:
    """Return the spread at which an interval of two means would just reach 1."""
    of, to = pair
    apart = abs(_mean_log(of) - _mean_log(to))
    width = quantile(level, among, spread.freedom) * math.sqrt(1 / len(of) + 1 / len(to))
    return apart / width


def replicates_for(
    apart: float,
    spread: Spread,
    now: int,
    level: float = stats.LEVEL,
    most: int = 50,
    arms: int = 2,
) -> int | None:
    """Return how many replicates an arm would decide at this distance; None above `most`.

    Parameters
    ----------
    apart : the distance from the nearest bound, on the logarithm
    now : how many there are
    arms : 2 for a ratio, 1 for a mean
    """
    for n in range(now + 1, most + 1):
        # A borrowed spread would give way to the arms' own; the table's has those of now in it.
        freedom = arms * (n - 1) if spread.borrowed else spread.freedom + arms * (n - now)
        if stats.student_quantile(level, freedom) * spread.sd * math.sqrt(arms / n) < apart:
            return n
    return None


@cache
def quantile(level: float, among: int, freedom: float) -> float:
    """Return the factor of the standard error of a difference of two of several means.

    >>> round(quantile(0.95, 2, 4), 3), round(quantile(0.95, 4, 4), 3)
    (2.776, 4.071)
    """
    if among <= 2:
        return stats.student_quantile(level, freedom)
    # Imported here: it takes longer than `innolab --help` may take to run.
    from scipy.stats import studentized_range

    return float(studentized_range.ppf(level, among, freedom)) / math.sqrt(2)


def _variance(of: Sequence[float], to: Sequence[float], spread: Spread) -> tuple[float, float]:
    """Return the variance of a difference of two mean logarithms, and its degrees of freedom."""
    if min(len(of), len(to)) < MANY:
        return spread.sd**2 * (1 / len(of) + 1 / len(to)), spread.freedom
    parts = []
    for values in (of, to):
        middle, n = _mean_log(values), len(values)
        squares = math.fsum((math.log(value) - middle) ** 2 for value in values)
        parts.append((squares / (n - 1) / n, n - 1))
    total = math.fsum(part for part, _ in parts)
    if total == 0:  # Copied values: no real replicates are the same to the last digit.
        return spread.sd**2 * (1 / len(of) + 1 / len(to)), spread.freedom
    # Welch's, rounded down, so that few quantiles are to be computed.
    return total, math.floor(total**2 / math.fsum(part**2 / n for part, n in parts))


def _mean_log(values: Sequence[float]) -> float:
    return math.fsum(math.log(value) for value in values) / len(values)
