"""The original's points found on a measured curve, instead of set by definition.

Between measured levels a curve is taken as a straight line of the logarithm of throughput.
"""

import itertools
import math
from collections.abc import Mapping

import pandas as pd

from innolab.analysis import stats
from innolab.studies.more_memory.parameters import POOL_RATIOS

# "About" is a tenth everywhere in this project.
NEAR = 1.1
_C = POOL_RATIOS["C"]


def crossing(curve: Mapping[float, float], tps: float) -> float | None:
    """Return the least pool / data from which a curve stays at or above a throughput.

    None where it never is, or never is below: then its levels do not hold the point.

    >>> crossing({0.5: 100.0, 1.0: 400.0}, 200.0)
    0.75
    """
    points = sorted(curve.items())
    if not points or points[-1][1] < tps:
        return None
    for (high_x, high), (low_x, low) in itertools.pairwise(reversed(points)):
        if low < tps:
            return low_x + math.log(tps / low) / math.log(high / low) * (high_x - low_x)
    return None


def value(curve: Mapping[float, float], x_ratio: float) -> float | None:
    """Return a curve's throughput at a pool / data between its ends, or None outside them.

    >>> round(value({0.5: 100.0, 1.0: 400.0}, 0.75))
    200
    """
    for (low_x, low), (high_x, high) in itertools.pairwise(sorted(curve.items())):
        if low_x <= x_ratio <= high_x:
            return float(low * (high / low) ** ((x_ratio - low_x) / (high_x - low_x)))
    return None


def points(runs: pd.DataFrame, factor: float) -> pd.DataFrame:
    """Return where each curve has its points, block by block: a row a point that its levels hold.

    Columns: server, load, device, block, point, value. `A` is the least pool / data that gives the
    plateau's throughput but for a tenth, `fall` that where the plateau is divided by `factor`,
    `slowdown` the throughput at A over that at nine tenths of A, `C` the plateau over the
    throughput at a third of the data.
    """
    by = ["server", "load", "device", "block"]
    rows: list[tuple[object, ...]] = []
    for names, of in runs[runs.distribution == "uniform"].groupby(by, sort=False):
        curve = dict(zip(of.pool_ratio, of.tps, strict=True))
        if beyond := [tps for x_ratio, tps in curve.items() if x_ratio > 1]:
            plateau = stats.geometric_mean(beyond).estimate
            at = crossing(curve, plateau / NEAR)
            near = None if at is None else value(curve, 0.9 * at)
            found = {
                "A": at,
                "slowdown": None if near is None else plateau / NEAR / near,
                "fall": crossing(curve, plateau / factor),
                "C": plateau / curve[_C] if _C in curve else None,
            }
            rows += [(*names, point, x) for point, x in found.items() if x is not None]
    return pd.DataFrame(rows, columns=[*by, "point", "value"])
