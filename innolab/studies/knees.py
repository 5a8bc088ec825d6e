"""The original's points found on a measured curve, instead of set by definition.

A is the least memory that gives the plateau's throughput but for a tenth; the fall is the memory at
which the plateau's throughput is divided by a factor. Between measured levels the curve is taken as
a straight line of the logarithm of throughput.
"""

import itertools
import math
from collections.abc import Mapping

from innolab.analysis import stats
from innolab.record.runs import RunSet
from innolab.studies.more_memory import LEVELS

# "About" is a tenth everywhere in this project.
NEAR = 1.1


def crossing(curve: Mapping[float, float], tps: float) -> float | None:
    """Return the least pool / data from which a curve stays at or above a throughput.

    None where it never is, or never is below: then its levels do not hold the point.

    Parameters
    ----------
    curve : throughput by pool / data, any order

    >>> crossing({0.5: 100.0, 1.0: 400.0}, 200.0)
    0.75
    >>> crossing({0.5: 100.0, 1.0: 400.0}, 500.0) is None
    True
    """
    points = sorted(curve.items())
    if not points or points[-1][1] < tps:
        return None
    for (high_x, high), (low_x, low) in itertools.pairwise(reversed(points)):
        if low < tps:
            share = math.log(tps / low) / math.log(high / low)
            return low_x + share * (high_x - low_x)
    return None


def value(curve: Mapping[float, float], x_ratio: float) -> float | None:
    """Return a curve's throughput at a pool / data between its ends, or None outside them.

    >>> round(value({0.5: 100.0, 1.0: 400.0}, 0.75))
    200
    """
    points = sorted(curve.items())
    for (low_x, low), (high_x, high) in itertools.pairwise(points):
        if low_x <= x_ratio <= high_x:
            share = (x_ratio - low_x) / (high_x - low_x)
            return math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
    return None


def found(
    runs: RunSet, server: str, device: str, load: str, factor: float
) -> dict[str, stats.Interval]:
    """Return where a device's curve has its points, each found block by block, with intervals.

    `A`: pool / data at the plateau; `fall`: pool / data where the plateau is divided by `factor`;
    `slowdown`: throughput at A over that at nine tenths of A; `C`: the plateau over throughput at
    a third of the data. An entry is missing where no block has the levels for it.
    """
    values: dict[str, list[float]] = {"A": [], "fall": [], "slowdown": [], "C": []}
    for curve in _curves(runs, server, device, load).values():
        beyond = [tps for x, tps in curve.items() if x > 1]
        if not beyond:
            continue
        plateau = stats.geometric_mean(beyond).estimate
        at = crossing(curve, plateau / NEAR)
        near = None if at is None else value(curve, 0.9 * at)
        points = {
            "A": at,
            "fall": crossing(curve, plateau / factor),
            "slowdown": None if near is None else plateau / NEAR / near,
            "C": plateau / curve[LEVELS["C"]] if LEVELS["C"] in curve else None,
        }
        for name, point in points.items():
            values[name] += [] if point is None else [point]
    return {name: stats.geometric_mean(of) for name, of in values.items() if of}


def _curves(runs: RunSet, server: str, device: str, load: str) -> dict[int, dict[float, float]]:
    """Return throughput by pool / data of each block, uniform access, valid runs."""
    curves: dict[int, dict[float, float]] = {}
    for level, ratio in LEVELS.items():
        case = f"{device}/uniform/{level}"
        for block, tps in runs.valid.values(f"{load}_tps", server=server, case=case).items():
            curves.setdefault(block, {})[ratio] = tps
    return curves
