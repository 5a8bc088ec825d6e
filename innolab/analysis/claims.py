"""What a published statement is, as data: its arms, what is estimated, and when it holds."""

import datetime
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from innolab.base.errors import InnolabError
from innolab.record.text_types import PlainText

Where = dict[PlainText, PlainText | int | float | bool]

Stands = Literal["published", "corrected", "retracted", "hypothesis"]


Digits = Annotated[
    PlainText, Field(pattern=r"^([1-9][0-9]{0,14}(\.[0-9]{1,6})?|0\.[0-9]{0,5}[1-9])$")
]
# A number in a text was read off a graph, by eye.
_READ_OFF = Decimal("1.05")
# How near to its bound a claim without a margin is as good as at it: no more than a graph tells.
_EDGE = 0.05


def interval_of_digits(digits: str) -> tuple[float, float]:
    """Return the values that a printed number may be rounded from, a twentieth either way at least.

    Zeros at the end of a whole number are no digits.

    >>> [interval_of_digits(digits) for digits in ("2", "70", "1.5")]
    [(1.5, 2.5), (65.0, 75.0), (1.4285714285714286, 1.575)]
    """
    number = Decimal(digits)
    last = number if "." in digits else number.normalize()
    half = Decimal((0, (5,), int(last.as_tuple().exponent) - 1))
    low, high = min(number - half, number / _READ_OFF), max(number + half, number * _READ_OFF)
    return float(low), float(high)


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Holds(_Part):
    """The values of the estimate for which a claim is true.

    A `margin` is for "no slower": the claim is true up to a bound that it widens by this share, as
    no measurement shows that two equal arms do not differ at all.

    Attributes
    ----------
    at_least, at_most : the bounds
    about : a number as its source prints it, whose digits give the bounds
    about_published : how far from the published value, as a share of it, in both directions
    margin : how much wider the bounds are, as a share
    """

    at_least: float | None = None
    at_most: float | None = None
    about: Digits | None = None
    about_published: float | None = Field(default=None, gt=0)
    margin: float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _margin_of_bounds(self) -> "Holds":
        ends = [end for end in (self.at_least, self.at_most) if end is not None]
        if self.margin is not None and (not ends or min(ends) <= 0):
            raise ValueError("has a margin, which needs a positive at_least or at_most")
        return self

    def stated(self, published: float | None) -> tuple[float, float]:
        """Return the lowest and the highest value for which the claim is true by its own words."""
        if self.about_published is not None:
            if published is None:
                raise InnolabError("A claim about a published value names none.")
            width = 1 + self.about_published
            return published / width, published * width
        if self.about is not None:
            return interval_of_digits(self.about)
        low = -math.inf if self.at_least is None else self.at_least
        return low, math.inf if self.at_most is None else self.at_most

    def bounds(self, published: float | None) -> tuple[float, float]:
        """Return the lowest and the highest value for which the claim is true, margin included.

        >>> Holds(at_most=1.0, margin=0.05).bounds(None)
        (-inf, 1.05)
        """
        low, high = self.stated(published)
        width = 1 + (self.margin or 0.0)
        return low / width, high * width

    @property
    def edge(self) -> float:
        """Return how near to a bound a value is at the edge, as a share of the bound."""
        return self.margin or _EDGE


class Comparison(_Part):
    """A metric of one arm over that of another, paired by block.

    Attributes
    ----------
    metric : a metric of the study
    of, to : the levels of either arm
    """

    metric: PlainText
    of: Where = Field(default_factory=dict)
    to: Where = Field(default_factory=dict)


class Quantity(_Part):
    """A metric of one arm.

    `censored_by` names another metric: if that is 0, the value is only the least that the
    true one can be, as the last row of a curve is for a knee that it does not show.

    Attributes
    ----------
    metric : a metric of the study
    of : the levels of the arm
    censored_by : a metric that is 0 where the value is only the least that the true one can be
    """

    metric: PlainText
    of: Where = Field(default_factory=dict)
    censored_by: PlainText | None = None


class Proportion(_Part):
    """The share of the runs of one arm in which a metric is above 0.

    Attributes
    ----------
    metric : a metric of the study
    of : the levels of the arm
    """

    metric: PlainText
    of: Where = Field(default_factory=dict)


class Largest(_Part):
    """The largest value of a metric over all runs of some arms.

    Attributes
    ----------
    metric : a metric of the study
    of : the levels of each arm
    """

    metric: PlainText
    of: list[Where]


class Claim(_Part):
    """One published statement. See the head of data/claims/multi-buffer-pool.yml.

    Attributes
    ----------
    id : a short name, which starts with that of the published statement
    says : the statement as a sentence; {each} and {FACTOR} in it are filled
    stands : how its source stands by it; a hypothesis is ours
    source : what the original states, in our words, and where
    published : the published value: a number, or a figure by its id, or one to another
    compare, mean, largest, proportion : what is estimated; a claim has one of them
    where : levels that all its arms share
    holds : the values of the estimate for which it is true
    not_measured : why nothing is measured
    care : why an estimate is to be read with care, whatever the runs say
    changed : the day of the last change of what is judged, after a report had been measured
    absent : what it means where the arms ran, or could not, and no run has the metric
    """

    id: PlainText = Field(min_length=1, max_length=200)
    says: PlainText
    stands: Stands
    source: PlainText | None = None
    published: dict[PlainText, PlainText | float] | None = None
    compare: Comparison | None = None
    mean: Quantity | None = None
    largest: Largest | None = None
    proportion: Proportion | None = None
    where: Where = Field(default_factory=dict)
    holds: Holds | None = None
    not_measured: PlainText | None = None
    care: PlainText | None = None
    changed: datetime.date | None = None
    absent: PlainText | None = None

    @model_validator(mode="after")
    def _one_measure(self) -> "Claim":
        measures = [*self._measures, self.not_measured]
        if sum(one is not None for one in measures) != 1:
            names = "compare, mean, largest, proportion and not_measured"
            raise ValueError(f"has to have one of {names}")
        if (self.holds is None) == (self.not_measured is None):
            raise ValueError("has to say when it holds, unless it is not_measured")
        if self.largest and self.holds and self.holds.model_fields_set != {"at_most"}:
            raise ValueError("is about a largest value, of which only at_most can be judged")
        return self

    @model_validator(mode="after")
    def _published_is_a_number(self) -> "Claim":
        value = (self.published or {}).get("value", 1.0)
        if isinstance(value, str) or not math.isfinite(value):
            raise ValueError(f"has {value!r} as its published value, which is no number")
        if self.holds and self.holds.about_published and (not self.published or value <= 0):
            raise ValueError("holds about a published value, and names no positive one")
        return self

    @property
    def _measures(self) -> tuple[Comparison | Quantity | Largest | Proportion | None, ...]:
        return self.compare, self.mean, self.largest, self.proportion

    @property
    def measure(self) -> Comparison | Quantity | Largest | Proportion | None:
        """Return what is estimated, or None where nothing is measured."""
        return next((one for one in self._measures if one is not None), None)

    @property
    def sides(self) -> list[Where]:
        """Return the levels of each arm that it is about, those of `where` included."""
        if self.compare:
            parts = [self.compare.of, self.compare.to]
        elif self.largest:
            parts = self.largest.of
        else:
            one = self.mean or self.proportion
            parts = [one.of] if one else []
        return [{**self.where, **part} for part in parts]

    def arms_among(self, arms: Sequence[Where]) -> list[Where]:
        """Return those of some arms that it is about; none where one of its sides is not there.

        Levels of within-factors are no part of an arm.
        """
        of_sides = [[arm for arm in arms if _fits(side, arm)] for side in self.sides]
        if not all(of_sides):
            return []
        return [arm for arm in arms if any(arm in of for of in of_sides)]


def _fits(side: Where, arm: Where) -> bool:
    return all(arm.get(name, level) == level for name, level in side.items())
