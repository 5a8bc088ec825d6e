"""Intervals against a direct computation, and how often they hold the truth."""

import math
import random
from collections.abc import Callable
from statistics import NormalDist

import numpy as np
import pytest
from scipy import stats as reference

from benchmarks import error_rates
from innolab.analysis import stats

STALLED = [1.0, 1.02, 0.97, 1.01, 0.99, 1.03, 0.25, 0.24]


def test_geometric_mean_is_students_interval_on_logs() -> None:
    values = [1.1, 0.9, 1.3, 1.0, 1.05]
    logs = [math.log(v) for v in values]
    low, high = reference.t.interval(0.95, 4, sum(logs) / 5, reference.sem(logs))
    found = stats.geometric_mean(values)
    assert found.low == pytest.approx(math.exp(low))
    assert found.high == pytest.approx(math.exp(high))


def test_independent_ratio_is_welchs_interval_on_logs() -> None:
    a, b = [2.0, 2.2, 1.9, 2.1], [1.0, 1.1, 0.8]
    interval = reference.ttest_ind(
        [math.log(x) for x in a], [math.log(x) for x in b], equal_var=False
    ).confidence_interval(0.95)
    found = stats.independent_ratio(a, b)
    assert found.low == pytest.approx(math.exp(interval.low))
    assert found.high == pytest.approx(math.exp(interval.high))


def test_ratio_and_its_inverse_agree() -> None:
    a, b = [2.0, 2.4, 1.9], [1.0, 1.1, 0.8]
    there, back = stats.paired_ratio(a, b), stats.paired_ratio(b, a)
    assert there.estimate == pytest.approx(1 / back.estimate)
    assert there.low == pytest.approx(1 / back.high)


def test_interval_holds_the_truth_as_often_as_it_says() -> None:
    draw = random.Random(7)
    held = 0
    for _ in range(2000):
        block = [draw.gauss(0, 0.3) for _ in range(5)]
        top = [2.0 * math.exp(drift + draw.gauss(0, 0.05)) for drift in block]
        bottom = [math.exp(drift + draw.gauss(0, 0.05)) for drift in block]
        found = stats.paired_ratio(top, bottom)
        held += found.low <= 2.0 <= found.high
    assert 0.935 <= held / 2000 <= 0.965


def test_a_robust_interval_of_undisturbed_blocks_is_students() -> None:
    scores = [NormalDist().inv_cdf((i - 0.5) / 9) for i in range(1, 10)]
    values = [math.exp(0.1 * score) for score in scores]
    assert stats.robust_ratio(values, [1.0] * 9) == stats.paired_ratio(values, [1.0] * 9)
    assert stats.robust_mean(values) == stats.arithmetic_mean(values)


def test_a_robust_interval_reaches_the_undisturbed_blocks() -> None:
    assert stats.looks_disturbed(np.log(STALLED))
    found = stats.robust_ratio(STALLED, [1.0] * 8)
    plain = stats.paired_ratio(STALLED, [1.0] * 8)
    assert found.estimate == plain.estimate
    assert found.high == pytest.approx(max(plain.high, 1.03))
    assert found.low <= plain.low


def test_a_robust_ratio_and_its_inverse_agree() -> None:
    ones = [1.0] * len(STALLED)
    there, back = stats.robust_ratio(STALLED, ones), stats.robust_ratio(ones, STALLED)
    assert there.estimate == pytest.approx(1 / back.estimate)
    assert there.low == pytest.approx(1 / back.high)
    assert there.high == pytest.approx(1 / back.low)


@pytest.mark.parametrize("n", [2, 3, 5, 8, 15, 30])
@pytest.mark.parametrize("stalls", [0, 0.3])
def test_a_higher_level_never_gives_a_narrower_interval(n: int, stalls: float) -> None:
    draw = np.random.default_rng(n)
    for _ in range(50):
        values = draw.normal(0, 0.1, n) - (draw.random(n) < stalls)
        found = [stats.robust_mean(list(values), level) for level in (0.5, 0.8, 0.95, 0.995, 0.999)]
        assert [one.low for one in found] == sorted((one.low for one in found), reverse=True)
        assert [one.high for one in found] == sorted(one.high for one in found)
        assert all(one.low <= one.estimate <= one.high for one in found)


def test_equal_values_leave_a_robust_interval_of_no_width() -> None:
    found = stats.robust_ratio([2.0] * 6, [1.0] * 6)
    assert found.low == pytest.approx(2.0)
    assert found.high == pytest.approx(2.0)


def test_disturbance_is_seen_in_a_tenth_of_undisturbed_samples() -> None:
    draw = np.random.default_rng(3)
    for n in (5, 8, 15, 30):
        assert 0.08 <= stats.looks_disturbed(draw.normal(0, 1, (5000, n))).mean() <= 0.13
    assert not stats.looks_disturbed([0.0, 0.0, 0.0, 5.0])


def test_the_disturbance_test_is_a_probability_plots_correlation() -> None:
    scores = reference.norm.ppf((np.arange(1, 8) - 0.375) / 7.25)
    values = [0.1, 0.9, 0.3, 0.2, 1.4, 0.25, 0.15]
    share = 1 - np.corrcoef(np.sort(values), scores)[0, 1] ** 2
    u, v = math.log(7), math.log(math.log(7))
    score = (math.log(share) + 1.2725 - 1.0521 * (v - u)) / (1.0308 - 0.26758 * (v + 2 / u))
    assert bool(stats.looks_disturbed(values)) == (reference.norm.sf(score) < stats.FALSE_ALARMS)


@pytest.mark.parametrize("n", [3, 5, 8, 10, 12, 15])
@pytest.mark.parametrize("share, factor", [(0.2, 2), (0.3, 4)])
def test_a_robust_interval_holds_the_undisturbed_ratio(n: int, share: float, factor: float) -> None:
    samples = error_rates.slowed(share, factor)(np.random.default_rng(n), n)[:4000]
    low, high = error_rates.bounds(samples, 0.95)
    assert np.mean((low <= 0) & (high >= 0)) >= 0.93


@pytest.mark.parametrize("n", [2, 4, 5, 8, 12])
@pytest.mark.parametrize("level", [0.95, 0.995])
def test_what_the_simulation_evaluates_is_the_interval_of_verdicts(n: int, level: float) -> None:
    samples = error_rates.slowed(0.3, 4)(np.random.default_rng(n), n)[:200]
    low, high = error_rates.bounds(samples, level)
    found = [stats.robust_mean(list(sample), level) for sample in samples]
    assert low == pytest.approx([one.low for one in found])
    assert high == pytest.approx([one.high for one in found])


@pytest.mark.parametrize("interval", [stats.geometric_mean, stats.robust_mean])
def test_one_value_leaves_no_interval(interval: Callable[..., stats.Interval]) -> None:
    found = interval([3.0])
    assert found.estimate == pytest.approx(3.0)
    assert math.isnan(found.low)
    assert math.isnan(found.high)


@pytest.mark.parametrize("values", [[], [0.0], [-1.0], [math.nan], [math.inf]])
def test_what_is_no_measurement_is_refused(values: list[float]) -> None:
    with pytest.raises(ValueError):
        stats.geometric_mean(values)


def test_values_that_do_not_pair_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot pair"):
        stats.robust_ratio([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="positive finite"):
        stats.robust_ratio([1.0, 0.0], [1.0, 1.0])
