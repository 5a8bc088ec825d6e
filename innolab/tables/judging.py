"""What a published table says: its rankings, and the claims made about it, beyond the noise.

The same predicates, outcomes and words as for a study's own runs. What differs is where the noise
comes from: a table's arms share no blocks, so their spread is that of replicates, or borrowed.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from innolab.analysis import outcomes, stats
from innolab.analysis.claims import Claim, Comparison, Holds, Largest, Proportion, Quantity, Where
from innolab.analysis.outcomes import DECIDED, ClaimFinding
from innolab.analysis.published import published_value
from innolab.analysis.verdicts import Verdict, verdict_of
from innolab.base.errors import InputError
from innolab.base.language import Message
from innolab.record.run import Level
from innolab.tables import posted, rankings
from innolab.tables.rankings import Ranking, Spread
from innolab.tables.table import PublishedTable

# The largest published table here makes 200. Each pair is an entry of rankings.json and, if it is
# decided, of the page.
_MOST_PAIRS = 20_000
# Standard deviation of logarithms: replicates that differ twentyfold are no replicates.
WIDEST = 3.0


class Placed(NamedTuple):
    """A ranking and where it holds.

    Attributes
    ----------
    metric : what it ranks by
    at : the levels of all other factors
    ranking : the levels of the ranked factor, best first
    """

    metric: str
    at: Where
    ranking: Ranking


@dataclass(frozen=True)
class Judged:
    """A table with what it says.

    Attributes
    ----------
    name : of the report, in the place of a study's
    spreads : of each metric, between runs of one arm
    rankings : by each metric, at each combination of the factors that are not ranked
    claims, verdicts : what is claimed, and what the table says of it
    """

    name: str
    table: PublishedTable
    spreads: dict[str, Spread]
    rankings: list[Placed]
    claims: list[Claim]
    verdicts: list[Verdict]

    @property
    def title(self) -> str:
        """Return the title of its page."""
        return self.table.about.title or f"The table {self.name}"


def spreads_of(table: PublishedTable, lent: Mapping[str, Spread]) -> dict[str, Spread]:
    """Return for each metric the spread between runs of one arm: the table's own, or one borrowed.

    Else it is the floor that the seconds of its runs give, which may be nothing.

    Parameters
    ----------
    lent : by metric, taken if no arm has two values

    Raises
    ------
    InputError
        If replicates are the same to the last digit, or differ beyond belief.
    """
    spreads = {}
    for name in table.about.metrics:
        arms = [values for arm in table.arms if (values := table.values(name, arm))]
        own = rankings.replicate_spread(arms)
        spread = own or lent.get(name) or posted.spread(list(table.courses(name).values()))
        if own and own.sd <= 0:
            raise InputError(
                f"All replicates of {name} are the same to the last digit: they are copied, or "
                "rounded to less than they differ. Keep one of each if they are copied; else list "
                "the column under notes of a description (--about). Nothing was written."
            )
        if spread.sd > WIDEST:
            raise InputError(
                f"Replicates of {name} differ by a factor of {math.exp(spread.sd):,.0f} and more, "
                "as where one is in another unit or has a digit too many. Correct them. Nothing "
                "was written."
            )
        spreads[name] = spread
    return spreads


def _ranked(table: PublishedTable, spreads: Mapping[str, Spread]) -> list[Placed]:
    """Return the rankings of a table: by each metric, at each combination of the other factors."""
    name, others = table.about.ranked, [f for f in table.about.factors if f != table.about.ranked]
    assert name is not None
    places: dict[tuple[tuple[str, Level], ...], list[Where]] = {}
    for arm in table.arms:
        places.setdefault(tuple((factor, arm[factor]) for factor in others), []).append(arm)
    pairs = len(spreads) * sum(len(arms) * (len(arms) - 1) // 2 for arms in places.values())
    if pairs > _MOST_PAIRS:
        raise InputError(
            f"The levels of {name} make {pairs:,} pairs to compare, and {_MOST_PAIRS:,} are the "
            "most. Rank a factor of fewer levels with --ranked, or judge a part of the table. "
            "Nothing was written."
        )
    ranked = []
    for metric, spread in spreads.items():
        is_higher_better = table.about.metrics[metric].direction == "higher"
        for place, at_place in places.items():
            arms = {arm[name]: values for arm in at_place if (values := table.values(metric, arm))}
            if len(arms) > 1:
                waves = {arm[name]: table.one_wave(metric, arm) for arm in at_place}
                ranking = rankings.ranked(arms, spread, waves, is_higher_better=is_higher_better)
                ranked.append(Placed(metric, dict(place), ranking))
    if not ranked:
        raise InputError(
            f"No two levels of {name} were measured at the same levels of "
            f"{', '.join(others) or 'nothing else'}, so there is nothing to rank. If one of these "
            "is no factor, list it under notes of a description (--about). Nothing was written."
        )
    return ranked


def judged(
    name: str, table: PublishedTable, spreads: dict[str, Spread], claims: Sequence[Claim]
) -> Judged:
    """Return what a table says.

    Parameters
    ----------
    name : of its report, in the place of a server's in verdicts
    spreads : of each metric
    claims : checked against the table's factors, metrics and arms

    Raises
    ------
    InputError
        If a claim needs what no table has, or there is nothing to rank.
    """
    _require_judgeable(claims)
    verdicts = [_verdict(claim, table, spreads, name) for claim in claims]
    return Judged(name, table, spreads, _ranked(table, spreads), list(claims), verdicts)


def _require_judgeable(claims: Sequence[Claim]) -> None:
    """Raise InputError if claims need what a table does not have, or two have one id."""
    ids = [claim.id for claim in claims]
    for claim in claims:
        why = None
        if ids.count(claim.id) > 1:
            why = "stands twice"
        elif claim.published and "value" not in claim.published:
            why = "names published figures by ids, which a table has none of; write {value: ...}"
        elif claim.holds and claim.holds.about_published is not None and not claim.published:
            why = "is about a published value and names none"
        elif claim.mean and claim.mean.censored_by:
            why = "is about a censored mean, which a table has no word for"
        if why:
            raise InputError(f"The claim {claim.id} {why}. Nothing was written.")


def _verdict(
    claim: Claim, table: PublishedTable, spreads: Mapping[str, Spread], name: str
) -> Verdict:
    measure = claim.measure
    finding = None
    if claim.holds is not None and measure is not None:
        sides = [_values(table, measure.metric, side) for side in claim.sides]
        if all(sides):
            finding = _finding(claim, claim.holds, sides, spreads[measure.metric])
    if finding is None:
        reason = claim.not_measured or claim.absent or "the table has no value of these arms"
        return verdict_of(claim, name, Message(reason), {}, level=stats.LEVEL)
    assert measure is not None
    cares = [Message(claim.care)] if claim.care else []
    spread = spreads[measure.metric]
    if (spread.borrowed or spread.is_floor) and isinstance(measure, Comparison | Quantity):
        cares.append(Message(f"the spread is {spread.says}"))
    return verdict_of(claim, name, finding, {}, level=stats.LEVEL, cares=cares)


def _values(table: PublishedTable, metric: str, side: Where) -> list[float]:
    [arm] = [arm for arm in table.arms if side.items() <= arm.items()]
    return table.values(metric, arm)


def _finding(claim: Claim, holds: Holds, sides: list[list[float]], spread: Spread) -> ClaimFinding:
    published = published_value({}, claim)
    low, high = holds.bounds(published)
    claimed = outcomes.claimed_text(holds, published)
    if isinstance(claim.measure, Largest):
        return outcomes.by_largest(sides, high, stats.LEVEL)
    if isinstance(claim.measure, Proportion):
        return outcomes.by_proportion(sides[0], low, high, claimed, stats.LEVEL)
    if isinstance(claim.measure, Comparison):
        interval = rankings.ratio(sides[0], sides[1], spread)
    else:
        interval = rankings.mean(sides[0], spread)
    finding = outcomes.judged(interval, holds, published, on_logs=True)
    if spread.is_floor:
        return _by_floor(interval, finding.outcome, low, high)
    if finding.outcome in DECIDED:
        return finding
    ends = [bound for bound in (low, high) if 0 < bound < math.inf]
    distance = min((abs(math.log(interval.estimate / bound)) for bound in ends), default=0.0)
    n = rankings.replicates_for(distance, spread, interval.n, arms=len(sides))
    needs = (
        f"about {n} replicates of each arm"
        if n
        else "more replicates than anybody would wait for, or a claim further from what was found"
    )
    return finding._replace(blocks_needed=n, needs=Message(needs))


def _by_floor(
    interval: stats.Interval, outcome: outcomes.Outcome, low: float, high: float
) -> ClaimFinding:
    """Return what single runs say of a claim where nothing says how far runs differ."""
    within = "within" if low <= interval.estimate <= high else "outside"
    beyond = " by more than the seconds of the runs vary" if outcome in DECIDED else ""
    reason = Message(
        f"{interval.estimate:.3g} is {within} the claim's bounds{beyond}, and with one run of each "
        "arm nothing says how far runs differ"
    )
    needs = Message("replicates of each arm, or a spread that is borrowed by name (--spread)")
    return ClaimFinding(interval, "inconclusive", reason, None, needs)
