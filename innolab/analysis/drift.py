"""Drift: by how much values change from one block to the next, and whether they hold still.

One ruler for the machine and for what is measured on it.
"""

import math
from collections.abc import Mapping

from innolab.analysis import stats
from innolab.analysis.claims import Claim
from innolab.record.runs import RunSet

# A block, by the whole interval of a line's slope. Over three blocks it is a "tenth" that is due to
# the hour; less cancels where arms are compared inside each block.
MOST = 0.03
_LEAST_VALUES = 3


def slope(values: Mapping[float, float]) -> stats.Interval:
    """Return the share by which values change from one moment to the next, with its interval.

    The slope of a straight line by least squares: of logarithms, or where a value is not positive,
    of shares of the mean. Too few values have no interval.

    Parameters
    ----------
    values : by their moments, which count in blocks

    >>> round(slope({0.0: 100.0, 1.0: 105.1, 2.0: 110.5}).estimate, 2)
    0.05
    >>> slope({0.0: 0.0, 1.0: 0.0, 2.0: 0.0}).high
    0.0
    """
    # Not scipy.stats.linregress, whose import takes longer than all else that verify does at first.
    import numpy

    if len(values) < _LEAST_VALUES:
        return stats.Interval(math.nan, math.nan, math.nan, len(values))
    if len(set(values.values())) == 1:
        return stats.Interval(0.0, 0.0, 0.0, len(values))  # Or the error of its slope is 0 / 0.
    freedom = len(values) - 2
    x2, xy, _, y2 = numpy.cov(list(values), _scaled(list(values.values())), bias=True).flat
    correlation = xy / numpy.sqrt(x2 * y2)
    error = numpy.sqrt(max(0.0, 1 - correlation**2) * y2 / x2 / freedom)
    half = stats.student_quantile(stats.LEVEL, freedom) * float(error)
    estimate = float(xy / x2)
    return stats.Interval(estimate, estimate - half, estimate + half, len(values))


def _scaled(values: list[float]) -> list[float]:
    if min(values) > 0:
        return [math.log(value) for value in values]
    mean = math.fsum(map(abs, values)) / len(values)
    return [value / mean if mean else 0.0 for value in values]


def drifted(change: stats.Interval) -> bool:
    """Return whether a change from block to block is more than MOST, shown by its interval."""
    return change.low > MOST or change.high < -MOST


def held_still(claim: Claim, runs: RunSet) -> list[stats.Interval]:
    """Return by how much each arm of a claim changed, where all are shown to have held still.

    Empty where one may have changed by MOST or more: that nothing is seen in few blocks shows
    nothing. Each arm has to separately, since of two that change one may hide the other.

    Parameters
    ----------
    runs : the valid ones of one server
    """
    if claim.measure is None:
        return []
    arms = [runs.values(claim.measure.metric, **side) for side in claim.sides]
    changes = [slope({float(block): value for block, value in arm.items()}) for arm in arms]
    still = all(change.low > -MOST and change.high < MOST for change in changes)
    return changes if still else []
