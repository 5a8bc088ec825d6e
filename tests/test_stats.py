"""Intervals against a direct computation, and how often they hold the truth."""

import math
import random

import pytest
from scipy import stats as reference

from innolab.analysis import stats


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


def test_one_value_leaves_no_interval() -> None:
    found = stats.geometric_mean([3.0])
    assert found.estimate == pytest.approx(3.0)
    assert math.isnan(found.low)


@pytest.mark.parametrize("values", [[], [0.0], [-1.0], [math.nan], [math.inf]])
def test_what_is_no_measurement_is_refused(values: list[float]) -> None:
    with pytest.raises(ValueError):
        stats.geometric_mean(values)
