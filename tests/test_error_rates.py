"""The simulation of `make evaluate`: it reads recorded runs, and fails where a bound is missed."""

import math

import numpy as np
import pytest

from benchmarks import error_rates


def _found(coverage: float, false_verdicts: float) -> dict[str, dict[str, object]]:
    return {
        "model": {"coverage": {"robust": [0.95, coverage]}, "false_verdicts": false_verdicts},
    }


@pytest.mark.parametrize(
    "coverage, false_verdicts, kept",
    [(0.95, 0.03, True), (0.929, 0.051, True), (0.90, 0.03, False), (0.95, 0.06, False)],
)
def test_a_bound_may_be_missed_by_chance_alone(
    coverage: float, false_verdicts: float, kept: bool
) -> None:
    assert error_rates.promises_kept(_found(coverage, false_verdicts)) is kept


def test_students_interval_would_miss_the_bound() -> None:
    samples = error_rates.slowed(0.3, 4)(np.random.default_rng(1), 10)
    low, high = error_rates.bounds(samples, 0.95, robust=False)
    held = float(np.mean((low <= 0) & (high >= 0)))
    assert not error_rates.promises_kept(_found(held, 0.0))


def test_residuals_are_those_of_recorded_runs() -> None:
    found = error_rates.residuals()
    assert len(found) > 1000
    assert abs(found.mean()) < 0.01
    assert 0.05 < found.std() < 0.5


def test_a_verdict_follows_its_interval() -> None:
    samples = np.array([[0.2, 0.21, 0.19], [-0.2, -0.21, -0.19], [0.2, -0.2, 0.0]])
    assert list(error_rates.verdicts(samples, 0.0, math.inf, 0.95)) == [1, -1, 0]
