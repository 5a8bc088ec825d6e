"""How likely a claim holds by its interval, against SciPy's t and simulated posteriors."""

import math

import numpy as np
import pytest
from scipy.stats import t

from innolab.analysis import stats
from innolab.analysis.claims import Holds
from innolab.analysis.likelihood import NOT_KNOWN, likelihood
from innolab.analysis.outcomes import judged
from innolab.analysis.stats import Interval

_RATIOS = [1.02, 1.11, 0.97, 1.15, 1.08]


@pytest.mark.parametrize("level", [0.95, 0.995])
@pytest.mark.parametrize("bounds", [(1.0, math.inf), (0.0, 1.05), (0.95, 1.1), (1.2, 1.3)])
def test_it_is_students_t_on_logarithms_at_whatever_level(
    level: float, bounds: tuple[float, float]
) -> None:
    logs = np.log(_RATIOS)
    known = t(4, logs.mean(), logs.std(ddof=1) / math.sqrt(5))
    low, high = (math.log(bound) if bound else -math.inf for bound in bounds)
    found = stats.probability(stats.geometric_mean(_RATIOS, level), *bounds, on_logs=True)
    assert found == pytest.approx(known.cdf(high) - known.cdf(low))


def test_it_never_disagrees_with_a_verdict_by_a_wider_interval() -> None:
    values = [1.2, 1.21, 1.19, 1.22, 1.18, 1.2, 0.6]
    wide = stats.robust_ratio(values, [1.0] * 7)
    assert wide.low < stats.geometric_mean(values).low
    found = stats.probability(wide, wide.low, math.inf, on_logs=True)
    assert found == pytest.approx(0.975)


def test_values_without_noise_are_certain_on_either_side_of_a_bound_and_on_it() -> None:
    exact = Interval(1.0, 1.0, 1.0, 3)
    bounds = [(1.0, math.inf), (0.0, 1.0), (1.1, math.inf), (0.0, 0.9)]
    found = [stats.probability(exact, *ends, on_logs=True) for ends in bounds]
    assert found == [1.0, 1.0, 0.0, 0.0]


def test_one_value_has_no_probability() -> None:
    one = Interval(1.3, math.nan, math.nan, 1)
    found = likelihood(one, 1.0, math.inf, 0.05, on_logs=True, is_open=True)
    assert found == NOT_KNOWN


@pytest.mark.parametrize(
    "interval, leaning",
    [
        (Interval(1.1, 0.9, 1.34, 5), "leans yes"),
        (Interval(0.9, 0.75, 1.08, 5), "leans no"),
        (Interval(1.01, 0.97, 1.0517, 5), "at the edge"),
        (Interval(1.06, 0.999, 1.125, 5), "leans yes"),
        (Interval(1.2, 1.1, 1.31, 5), None),
    ],
)
def test_an_open_claim_leans_or_is_at_the_edge(interval: Interval, leaning: str | None) -> None:
    assert judged(interval, Holds(at_least=1.0), None, on_logs=True).likelihood.leaning == leaning


def test_the_margin_of_a_share_is_a_part_of_the_bound_and_zero_has_none() -> None:
    near = Interval(0.9, 0.86, 0.94, 5)
    assert (
        judged(near, Holds(at_least=0.9), None, on_logs=False).likelihood.leaning == "at the edge"
    )
    zero = Interval(0.001, -0.001, 0.003, 5)
    assert judged(zero, Holds(at_most=0.0), None, on_logs=False).likelihood.leaning == "leans no"


def test_a_claim_of_a_margin_is_at_the_edge_by_that_margin() -> None:
    holds = Holds(at_most=1.0, margin=0.2)
    wide = Interval(1.2, 1.2 / 1.15, 1.2 * 1.15, 5)
    assert judged(wide, holds, None, on_logs=True).likelihood.leaning == "at the edge"
    assert judged(wide, Holds(at_most=1.2), None, on_logs=True).likelihood.leaning != "at the edge"
