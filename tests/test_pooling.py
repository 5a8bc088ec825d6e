"""Several estimates as one: by published figures, by what must hold, and on simulated hosts."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import norm
from scipy.stats import t as student

from benchmarks import pooling_rates
from innolab.analysis import meta_analysis, stats
from innolab.analysis.stats import Interval

SAMPLES, COVERAGE = 4000, 0.93
# Thirteen trials of the BCG vaccine, in the order of Colditz et al. (1994): with tuberculosis and
# without, vaccinated and not.
_BCG = np.array([
    (4, 119, 11, 128), (6, 300, 29, 274), (3, 228, 11, 209), (62, 13536, 248, 12619),
    (33, 5036, 47, 5761), (180, 1361, 372, 1079), (8, 2537, 10, 619), (505, 87886, 499, 87892),
    (29, 7470, 45, 7232), (17, 1699, 65, 1600), (186, 50448, 141, 27197), (5, 2493, 3, 2338),
    (27, 16886, 29, 17825),
])  # fmt: skip


def _risks() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The log risk ratios of the BCG trials, and their variances."""
    with_, without, control, control_without = _BCG.T.astype(float)
    ratios = np.log(with_ / (with_ + without)) - np.log(control / (control + control_without))
    ends = 1 / with_ - 1 / (with_ + without) + 1 / control - 1 / (control + control_without)
    return ratios, ends


def test_the_vaccine_trials_come_out_as_published() -> None:
    """As R's metafor has them (Viechtbauer 2010, Journal of Statistical Software 36(3))."""
    found = meta_analysis.random_effects(*_risks())
    # By REML metafor has tau² 0.3132, mean -0.7145, Knapp-Hartung from -1.1084 to -0.3206.
    assert float(found.tau2) == pytest.approx(0.3181, abs=2e-4)
    assert float(found.mean) == pytest.approx(-0.715, abs=1e-3)
    assert float(found.half) == pytest.approx((1.1084 - 0.3206) / 2, abs=2e-3)
    assert float(found.i2) == pytest.approx(0.922, abs=3e-3)


def test_it_is_what_statsmodels_computes() -> None:
    """As `combine_effects` of statsmodels 0.15.0 has them, method "pm" with the HKSJ variance."""
    found = meta_analysis.random_effects(
        [-0.2, 0.1, 0.5, 0.05, 0.9], [0.01, 0.02, 0.005, 0.03, 0.015]
    )
    assert float(found.tau2) == pytest.approx(0.173147994, rel=1e-6)
    assert float(found.mean) == pytest.approx(0.274158459, rel=1e-6)
    assert float(found.mean - found.half) == pytest.approx(-0.26530567, rel=1e-6)
    assert float(found.mean + found.half) == pytest.approx(0.81362259, rel=1e-6)
    vaccine = meta_analysis.random_effects(*_risks())
    assert float(vaccine.tau2) == pytest.approx(0.318068452, rel=1e-6)
    assert float(vaccine.mean - vaccine.half) == pytest.approx(-1.10909838, rel=1e-6)
    assert float(vaccine.mean + vaccine.half) == pytest.approx(-0.32083793, rel=1e-6)


def test_the_variance_between_hosts_solves_its_equation() -> None:
    estimates, variances = _risks()
    weights = 1 / (variances + float(meta_analysis.paule_mandel(estimates, variances)))
    mean = np.average(estimates, weights=weights)
    assert (weights * (estimates - mean) ** 2).sum() == pytest.approx(12)


def test_equal_variances_give_students_interval_of_the_estimates() -> None:
    """Where hosts differ by more than noise, mKH is the t interval of the estimates alone."""
    estimates = [0.0, 0.5, 1.5, 0.9]
    found = meta_analysis.random_effects(estimates, [0.01] * 4)
    plain = stats.arithmetic_mean(estimates)
    assert float(found.mean) == pytest.approx(plain.estimate)
    assert float(found.half) == pytest.approx(plain.high - plain.estimate)
    assert float(found.tau2) == pytest.approx(np.var(estimates, ddof=1) - 0.01)


_ESTIMATES = st.lists(
    st.tuples(st.floats(-3, 3), st.floats(1e-4, 4)), min_size=2, max_size=8
)  # fmt: skip


@settings(max_examples=200, derandomize=True, deadline=None)
@given(_ESTIMATES)
def test_what_must_hold_of_any_estimates(given: list[tuple[float, float]]) -> None:
    estimates, variances = np.array(given).T
    found = meta_analysis.random_effects(estimates, variances)
    k, known = len(given), math.sqrt(1 / (1 / variances).sum())
    # Never narrower than a model in which hosts do not differ, not even by Student's quantile.
    assert float(found.half) >= student.ppf(0.975, k - 1) * known * (1 - 1e-9)
    assert float(found.half) > norm.ppf(0.975) * known
    assert float(found.predicted_half) > float(found.half)
    assert min(estimates) - 1e-9 <= float(found.mean) <= max(estimates) + 1e-9
    assert 0 <= float(found.i2) < 1
    assert (float(found.tau2) == 0) == (float(found.i2) == 0)
    assert found.weights.sum() == pytest.approx(1)
    # The order of reports says nothing, nor do units.
    turned = meta_analysis.random_effects(3 * estimates[::-1], 9 * variances[::-1])
    for ours, theirs in zip(found[:3], turned[:3], strict=True):
        assert float(theirs) == pytest.approx(3 * float(ours), rel=1e-6, abs=1e-9)
    # A report of little noise never counts less than one of much.
    assert (np.argsort(found.weights[np.argsort(-variances)], kind="stable") == np.arange(k)).all()


def test_equal_estimates_leave_no_variance_between_hosts() -> None:
    found = meta_analysis.random_effects([0.3] * 5, [0.04] * 5)
    assert float(found.tau2) == float(found.i2) == 0
    assert float(found.mean) == pytest.approx(0.3)
    assert float(found.half) == pytest.approx(student.ppf(0.975, 4) * math.sqrt(0.04 / 5))


def test_one_estimate_is_not_pooled() -> None:
    with pytest.raises(ValueError, match="needs 2 estimates, got 1"):
        meta_analysis.random_effects([1.0], [1.0])


def test_estimates_that_are_known_exactly() -> None:
    same = meta_analysis.pooled([Interval(1.0, 1.0, 1.0, 3)] * 3, on_logs=False)
    assert same.interval[:3] == (1.0, 1.0, 1.0)
    assert same.weights == pytest.approx((1 / 3,) * 3)
    assert same.i2 == 0
    apart = meta_analysis.pooled([Interval(x, x, x, 3) for x in (1.0, 2.0, 3.0)], on_logs=False)
    assert apart.interval[:3] == pytest.approx(stats.arithmetic_mean([1.0, 2.0, 3.0])[:3])
    assert apart.i2 == 1


def test_a_few_blocks_own_variance_is_moderated() -> None:
    # One report whose three blocks agree by chance: alone it would have nearly all the weight.
    own, blocks = np.array([1e-8, 0.01, 0.01]), np.array([3, 3, 3])
    kept = meta_analysis.moderated(own, blocks)
    assert kept[0] > 0.3 * kept[1]
    assert kept.sum() == pytest.approx(own.sum())
    # With many blocks each report's own counts.
    many = meta_analysis.moderated(np.array([0.001, 0.01]), np.array([400, 400]))
    assert many == pytest.approx([0.001, 0.01], rel=0.05)
    assert meta_analysis.moderated(own[1:], blocks[1:]) == pytest.approx(own[1:])


def _ratio(values: list[float]) -> Interval:
    return stats.robust_ratio(values, [1.0] * len(values))


def test_a_ratio_and_its_inverse_agree() -> None:
    blocks = [[1.2, 1.3, 1.1], [1.5, 1.6, 1.7, 1.5], [1.0, 1.05, 0.9]]
    ours = meta_analysis.pooled([_ratio(values) for values in blocks], on_logs=True)
    theirs = meta_analysis.pooled(
        [_ratio([1 / v for v in values]) for values in blocks], on_logs=True
    )
    assert ours.interval.estimate == pytest.approx(1 / theirs.interval.estimate)
    assert ours.interval.low == pytest.approx(1 / theirs.interval.high)
    assert ours.tau == pytest.approx(theirs.tau)
    assert ours.predicted
    assert ours.predicted.low < ours.interval.low < ours.interval.high < ours.predicted.high


def test_an_interval_gives_its_blocks_variance_back() -> None:
    """So that two reports with equal noise and 3 blocks each have the moderated one of blocks."""
    values = [[0.1, 0.3, 0.2], [0.9, 0.5, 0.7]]
    found = meta_analysis.pooled([stats.arithmetic_mean(v) for v in values], on_logs=False)
    variances = meta_analysis.moderated([np.var(v, ddof=1) / 3 for v in values], [3, 3])
    wanted = meta_analysis.random_effects([0.2, 0.7], variances)
    assert found.interval.estimate == pytest.approx(float(wanted.mean))
    assert found.interval.high - found.interval.estimate == pytest.approx(float(wanted.half))
    assert found.interval.n == 2
    assert found.predicted is None


def test_an_interval_that_ends_where_a_share_does_is_not_taken_for_precise() -> None:
    cut = meta_analysis.pooled([Interval(0.96, 0.86, 1.0, 2), Interval(0.95, 0.85, 1.0, 2)],
                         on_logs=False, limits=(0.0, 1.0))  # fmt: skip
    whole = meta_analysis.pooled([Interval(0.96, 0.86, 1.06, 2), Interval(0.95, 0.85, 1.05, 2)],
                           on_logs=False)  # fmt: skip
    assert cut.interval.low == pytest.approx(whole.interval.low)
    assert cut.interval.high == min(1.0, whole.interval.high)


def test_an_interval_of_counts_is_not_students() -> None:
    few = Interval(0.5, 0.2, 0.8, 3)
    students, counts = (
        meta_analysis.pooled([few, few], on_logs=False, is_students=[flag, flag])
        for flag in (True, False)
    )
    ratio = (counts.interval.high - 0.5) / (students.interval.high - 0.5)
    assert ratio == pytest.approx(student.ppf(0.975, 2) / norm.ppf(0.975))


def test_an_interval_beyond_all_numbers_is_still_one() -> None:
    wild = [Interval(1.0, 1e-300, 1e300, 2), Interval(1e200, 1e-100, 1e308, 2)]
    assert math.isfinite(meta_analysis.pooled(wild, on_logs=True).interval.high)


_SPREADS = pytest.mark.parametrize("spread", pooling_rates.SPREADS)
_BLOCKS = pytest.mark.parametrize("blocks", pooling_rates.BLOCKS)
_NOISE = pytest.mark.parametrize("tenfold", [False, True], ids=["equal noise", "tenfold"])


@_SPREADS
@_BLOCKS
@_NOISE
def test_of_five_hosts_the_interval_holds_the_mean(
    spread: float, blocks: tuple[int, int], tenfold: bool
) -> None:
    made = pooling_rates.hosts(5, blocks, spread, tenfold, SAMPLES)
    found = pooling_rates.ours(made)
    assert (abs(found.mean) <= found.half).mean() >= COVERAGE
    # A further report's own estimate, and the truth of its host.
    for further in (made.further_estimate, made.further_truth):
        assert (abs(further - found.mean) <= found.predicted).mean() >= COVERAGE


@pytest.mark.parametrize("k", [2, 3, 10])
def test_of_fewer_and_more_hosts_too(k: int) -> None:
    found = pooling_rates.rates(pooling_rates.ours, k, SAMPLES)
    assert found["mean"] >= COVERAGE
    if k >= meta_analysis.LEAST_PREDICTED:
        assert min(found["truth"], found["estimate"]) >= COVERAGE


def test_what_others_take_would_not_hold_the_mean() -> None:
    assert pooling_rates.rates(pooling_rates.normal, 3, SAMPLES)["mean"] < 0.85
    assert pooling_rates.rates(pooling_rates.own_variances, 10, SAMPLES)["mean"] < 0.92


@pytest.mark.parametrize(("held", "kept"), [(0.94, True), (0.929, True), (0.91, False)])
def test_a_rate_that_is_too_low_is_found(held: float, kept: bool) -> None:
    good = {"mean": 0.95, "truth": 0.95, "estimate": 0.95, "log_width": 0.0}
    for name in ("mean", "truth", "estimate"):
        assert pooling_rates.promises_kept({5: {"ours": {**good, name: held}}}) is kept
    assert pooling_rates.promises_kept({2: {"ours": {**good, "truth": 0.5}}})
    assert "0.950" in pooling_rates.tables({5: {"ours": good}})
