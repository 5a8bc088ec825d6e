"""Rankings of arms by single runs or few replicates: which are decided, and which are noise.

All is on logarithms: measured rates and times are positive and their noise is multiplicative. The
arms of a published table share no blocks, so their means are compared as unpaired ones.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Literal, NamedTuple

from innolab.analysis import stats
from innolab.analysis.stats import Interval
from innolab.record.run import Level

# A lead is open if it is beyond the noise of the seconds, and nothing says how far runs differ.
LeadOutcome = Literal["decided", "open", "noise"]
# Degrees of freedom of a spread that is known.
_OF_A_KNOWN = 1_000_000
# From so many replicates on, either side's own spread is used; below, that of all arms together.
MANY = 5


class Spread(NamedTuple):
    """By how much restarts of one arm differ.

    Attributes
    ----------
    sd : standard deviation of the logarithms: 0.05 is about 5 %
    freedom : its degrees of freedom
    arms : of how many arms it was found
    says : where it is from
    borrowed : whether it is another collection's, since the table has no replicates
    is_floor : whether runs differ by more than it says, as it is of the seconds within each, or 0
        where nothing is known
    """

    sd: float
    freedom: int
    arms: int
    says: str
    borrowed: bool = False
    is_floor: bool = False

    @property
    def is_known(self) -> bool:
        """Return whether it says anything."""
        return self.sd > 0


class Standing(NamedTuple):
    """An arm in its ranking: the level, its mean over replicates, and the interval of that."""

    level: Level
    mean: Interval


class Lead(NamedTuple):
    """How many times as good one arm is as another: more of a rate, or less of a time.

    `spread_most` is the largest spread between restarts, alike in all arms, at which it would still
    be decided; `one_wave` by how much, on the logarithm, one wave more or less in a run would move
    it; `is_floor` whether its interval is too narrow, as runs differ by more than is known.
    """

    of: Level
    to: Level
    ratio: Interval
    spread_most: float
    one_wave: float = 0.0
    is_floor: bool = False

    @property
    def outcome(self) -> LeadOutcome:
        """Return whether the lead is beyond what is known of the noise, and whether that is all."""
        if self.ratio.low <= 1 <= self.ratio.high:
            return "noise"
        if abs(math.log(self.ratio.estimate)) <= self.one_wave:
            return "noise"
        return "open" if self.is_floor else "decided"

    @property
    def is_decided(self) -> bool:
        """Return whether the interval leaves out 1, and is one of the differences between runs."""
        return self.outcome == "decided"


class Ranking(NamedTuple):
    """The levels of a factor, best first, and the distance of each pair of them."""

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
        return [one.to for one in self.leads if one.of == best and one.outcome == "noise"]


def replicate_spread(arms: Sequence[Sequence[float]]) -> Spread | None:
    """Return the spread between replicates, over all arms together; None if no arm has two.

    Parameters
    ----------
    arms : for each arm its replicates, positive

    >>> spread = replicate_spread([[100.0, 102.0], [50.0, 49.0], [75.0]])
    >>> round(spread.sd, 4), spread.freedom, spread.arms
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


def mean(values: Sequence[float], spread: Spread) -> Interval:
    """Return the geometric mean of an arm, its interval from the spread of all arms.

    From `MANY` replicates on, the interval is their own.
    """
    if len(values) >= MANY:
        return stats.geometric_mean(values)
    sd = spread.sd if spread.is_known else math.nan
    half = quantile(stats.LEVEL, 2, spread.freedom) * sd / math.sqrt(len(values))
    return _around(_mean_log(values), half, len(values), spread.freedom)


def ratio(
    top: Sequence[float], bottom: Sequence[float], spread: Spread, among: int = 2
) -> Interval:
    """Return the ratio of the geometric means of two arms with its interval.

    Parameters
    ----------
    top, bottom : the replicates of either arm
    among : of how many arms these two were picked after looking; 2 if they were named before

    Notes
    -----
    Student's interval with the spread of all arms, or Welch's if both arms have `MANY` replicates.
    For two of several arms, Tukey's and Kramer's, or Games's and Howell's: all pairs of one ranking
    hold the truth together at the level.

    References
    ----------
    Kramer (1956), "Extension of multiple range tests to group means with unequal numbers of
    replications", Biometrics 12. Games, Howell (1976), "Pairwise multiple comparison procedures
    with unequal N's and/or variances", Journal of Educational Statistics 1.

    >>> spread = Spread(0.01, 4, 4, "by hand")
    >>> interval = ratio([102.0], [100.0], spread)
    >>> round(interval.low, 3), round(interval.high, 3)
    (0.981, 1.061)
    """
    variance, freedom = _variance(top, bottom, spread)
    half = quantile(stats.LEVEL, among, freedom) * math.sqrt(variance)
    n = min(len(top), len(bottom))
    return _around(_mean_log(top) - _mean_log(bottom), half, n, freedom)


def _around(middle: float, half: float, n: int, freedom: float) -> Interval:
    ends = math.exp(middle - half), math.exp(middle + half)
    return Interval(math.exp(middle), *ends, n, stats.LEVEL, freedom)


def ranked(
    arms: Mapping[Level, Sequence[float]],
    spread: Spread,
    waves: Mapping[Level, float] | None = None,
    *,
    is_higher_better: bool,
) -> Ranking:
    """Return arms best first, with the lead of each over each that stands below it.

    Parameters
    ----------
    arms : two or more, each with its replicates
    waves : by how much, on the logarithm, one wave moves the mean of an arm
    """
    of_waves = waves or {}
    standings = sorted(
        (Standing(name, mean(values, spread)) for name, values in arms.items()),
        key=lambda one: one.mean.estimate,
        reverse=is_higher_better,
    )
    leads = []
    for better, worse in itertools.combinations((one.level for one in standings), 2):
        pair = arms[better], arms[worse]
        interval = ratio(*(pair if is_higher_better else pair[::-1]), spread, len(arms))
        most = _spread_most(*pair, spread, len(arms))
        one_wave = max(of_waves.get(better, 0.0), of_waves.get(worse, 0.0))
        leads.append(Lead(better, worse, interval, most, one_wave, spread.is_floor))
    return Ranking(standings, leads)


def _spread_most(
    better: Sequence[float], worse: Sequence[float], spread: Spread, among: int
) -> float:
    """Return the spread at which an interval of two means would just reach 1.

    Where the table does not say how far runs differ, that spread is a known one.
    """
    distance = abs(_mean_log(better) - _mean_log(worse))
    freedom = _OF_A_KNOWN if spread.is_floor else spread.freedom
    width = quantile(stats.LEVEL, among, freedom) * math.sqrt(1 / len(better) + 1 / len(worse))
    return distance / width


def replicates_for(
    distance: float, spread: Spread, now: int, most: int = 50, arms: int = 2
) -> int | None:
    """Return how many replicates an arm would decide at this distance; None above `most`.

    Parameters
    ----------
    distance : from the nearest bound, on the logarithm
    now : how many there are
    arms : 2 for a ratio, 1 for a mean
    """
    for n in range(now + 1, most + 1):
        # A borrowed spread would give way to the arms' own; the table's has those of now in it.
        freedom = arms * (n - 1) if spread.borrowed else spread.freedom + arms * (n - now)
        half = stats.student_quantile(stats.LEVEL, freedom) * spread.sd * math.sqrt(arms / n)
        if half < distance:
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


def _variance(top: Sequence[float], bottom: Sequence[float], spread: Spread) -> tuple[float, float]:
    """Return the variance of a difference of two mean logarithms, and its degrees of freedom."""
    parts = []
    if min(len(top), len(bottom)) >= MANY:
        for values in (top, bottom):
            middle, n = _mean_log(values), len(values)
            squares = math.fsum((math.log(value) - middle) ** 2 for value in values)
            parts.append((squares / (n - 1) / n, n - 1))
    total = math.fsum(part for part, _ in parts)
    if total == 0:  # Few values, or copied ones: no real replicates are the same to the last digit.
        sd = spread.sd if spread.is_known else math.nan
        return sd**2 * (1 / len(top) + 1 / len(bottom)), spread.freedom
    # Welch's, rounded down, so that few quantiles are to be computed.
    return total, math.floor(total**2 / math.fsum(part**2 / n for part, n in parts))


def _mean_log(values: Sequence[float]) -> float:
    return math.fsum(math.log(value) for value in values) / len(values)
