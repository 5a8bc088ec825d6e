"""Power against the noncentral t distribution and against simulated blocks."""

import math

import numpy as np
import pytest
from scipy.stats import nct, t

from benchmarks import error_rates
from innolab.analysis import power, stats


@pytest.mark.parametrize("n", [2, 3, 6, 20])
@pytest.mark.parametrize("truth", [1.0, 1.1, 1.2])
@pytest.mark.parametrize("level", [0.95, 0.995])
def test_power_of_one_bound_is_the_noncentral_t(n: int, truth: float, level: float) -> None:
    quantile = t.ppf((1 + level) / 2, n - 1)
    away = math.log(truth) * math.sqrt(n) / 0.1
    exact = nct.sf(quantile, n - 1, away) + nct.cdf(-quantile, n - 1, away)
    for low, high in ((1.0, math.inf), (-math.inf, 1.0)):
        assert power.power(0.1, n, low, high, truth, level) == pytest.approx(exact, abs=1e-3)


def test_power_between_two_bounds_is_what_simulated_blocks_show() -> None:
    low, high, spread = math.log(1.02), math.log(1.38), error_rates.NOISE * math.sqrt(2)
    for n in (4, 8):
        samples = error_rates.normal(np.random.default_rng(n), n) + math.log(1.2)
        found = error_rates.verdicts(samples, low, high, 0.95, robust=False) != 0
        assert power.power(spread, n, 1.02, 1.38, 1.2) == pytest.approx(found.mean(), abs=0.015)


def test_power_is_the_same_for_the_inverse_ratio() -> None:
    there = power.power(0.2, 5, 1.1, 1.5, 1.3)
    assert power.power(0.2, 5, 1 / 1.5, 1 / 1.1, 1 / 1.3) == pytest.approx(there)


def test_power_without_noise_or_without_an_interval() -> None:
    assert power.power(0.0, 3, 1.0, math.inf, 1.2) == 1
    assert power.power(0.0, 3, 1.0, math.inf, 1.0) == 0
    assert power.power(0.1, 1, 1.0, math.inf, 1.2) == 0


def test_half_width_is_that_of_the_interval() -> None:
    values = [1.0, 1.2, 0.9, 1.1]
    found = stats.paired_ratio(values, [1.0] * 4)
    spread = power.spread(values, [1.0] * 4)
    assert math.exp(power.half_width(spread, 4)) == pytest.approx(found.high / found.estimate)
    assert math.isnan(power.spread([1.0], [2.0]))
    assert math.isinf(power.half_width(0.1, 1))


def test_blocks_for_is_the_least_number_with_the_power() -> None:
    n = power.blocks_for(0.2, 1.0, math.inf, 1.2, wanted=0.9)
    assert n is not None
    assert power.power(0.2, n, 1.0, math.inf, 1.2) >= 0.9
    assert power.power(0.2, n - 1, 1.0, math.inf, 1.2) < 0.9
    assert power.blocks_for(0.1, 1.0, math.inf, 1.2, least=9) == 9
    assert power.blocks_for(0.1, 1.0, math.inf, 1.0) is None
