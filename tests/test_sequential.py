"""Looks after every block: what each may spend, and how often the verdicts are false."""

import math

import numpy as np
import pytest

from benchmarks import error_rates
from innolab.analysis.group_sequential import level_at


@pytest.mark.parametrize("first, last", [(2, 2), (3, 10), (3, 12), (5, 30)])
@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_the_looks_spend_the_whole_error_and_no_more(first: int, last: int, level: float) -> None:
    levels = [level_at(n, first, last, level) for n in range(first, last + 1)]
    assert sum(1 - one for one in levels if one is not None) == pytest.approx(1 - level)


def test_a_plan_of_one_look_is_a_fixed_plan() -> None:
    assert level_at(7, first=7, last=7) == pytest.approx(0.95)


def test_no_look_before_the_first_or_after_the_last() -> None:
    assert level_at(2, first=3, last=10) is None
    assert level_at(11, first=3, last=10) is None


@pytest.mark.parametrize("first, last", [(1, 5), (0, 5), (6, 5)])
def test_a_plan_that_is_none_is_refused(first: int, last: int) -> None:
    with pytest.raises(ValueError, match="looks run from"):
        level_at(5, first, last)


@pytest.mark.parametrize(
    "noise",
    [
        error_rates.normal,
        error_rates.drifting,
        error_rates.outliers,
        error_rates.slowed(0.2, 2),
        error_rates.slowed(0.3, 4),
    ],
)
def test_verdicts_on_a_truth_at_the_bound_are_rare(noise: error_rates.Noise) -> None:
    samples = noise(np.random.default_rng(1), error_rates.LAST)[:4000]
    _, verdict = error_rates.stops(samples, 0.0, math.inf)
    assert np.mean(verdict != 0) <= 0.05


def test_a_clear_difference_ends_the_looks_early() -> None:
    samples = error_rates.normal(np.random.default_rng(1), error_rates.LAST)[:4000]
    blocks, verdict = error_rates.stops(samples + math.log(1.2), 0.0, math.inf)
    assert np.mean(verdict == 1) >= 0.97
    assert 6 <= np.mean(blocks) <= 7
