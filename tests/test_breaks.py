"""Where a curve begins to fall: planted knees and steps are found, and nothing where none is."""

import math
import random
import statistics
from collections.abc import Sequence

import pytest

from innolab.studies.compressed_insert import changepoint


def _noisy(rates: Sequence[float], noise: float, draw: random.Random) -> list[float]:
    return [rate * math.exp(draw.gauss(0, noise)) for rate in rates]


def _grid(n: int) -> list[float]:
    return [float(i) for i in range(1, n + 1)]


def _decline(x: Sequence[float], knee: float, power: float = 1.0) -> list[float]:
    """Return rates of 500 up to the knee, then falling as a power of x."""
    return [500.0 * min(1.0, (knee / v) ** power) for v in x]


def _step(x: Sequence[float], after: float, to: float) -> list[float]:
    return [500.0 * (to if v > after else 1.0) for v in x]


@pytest.mark.parametrize("n", [12, 20])
@pytest.mark.parametrize("share", [0.3, 0.5, 0.7])
def test_a_planted_knee_is_found(n: int, share: float) -> None:
    draw, x, knee = random.Random(n), _grid(n), share * n + 0.3
    found = [changepoint.find(x, _noisy(_decline(x, knee), 0.05, draw)) for _ in range(10)]
    hits = [at for at in found if at]
    assert len(hits) >= 9
    assert statistics.median(hit.at for hit in hits) == pytest.approx(knee, abs=1)
    # A late, short fall may be taken for a step at its middle, so not all.
    assert sum(abs(hit.at - knee) < 0.15 * n for hit in hits) >= 8
    assert statistics.median(hit.plateau for hit in hits) == pytest.approx(500, rel=0.02)
    assert statistics.median(hit.end_ratio for hit in hits) == pytest.approx(knee / n, rel=0.05)


@pytest.mark.parametrize("cost", [3, 30])
@pytest.mark.parametrize("knee", [4.0, 7.3, 9.0])
def test_an_outgrown_memory_is_found_where_it_is_outgrown(cost: float, knee: float) -> None:
    """Its steep beginning and flat end would pass for a decline without a knee."""
    draw, x = random.Random(7), _grid(13)
    rates = [500 / (1 + cost * max(0, 1 - knee / v)) for v in x]
    found = [changepoint.find(x, _noisy(rates, 0.05, draw)) for _ in range(8)]
    hits = [hit.at for hit in found if hit]
    assert len(hits) >= 7
    assert statistics.median(hits) == pytest.approx(knee, abs=0.5)


def test_a_knee_without_noise_is_exact_to_the_grid() -> None:
    x = [2.0**i for i in range(12)]
    found = changepoint.find(x, _decline(x, 2**5.5, 0.4))
    assert found is not None
    assert found.at == pytest.approx(2**5.5)
    assert found.plateau == pytest.approx(500)
    assert found.end_ratio == pytest.approx((2**-5.5) ** 0.4)


@pytest.mark.parametrize("n", [12, 20])
@pytest.mark.parametrize("share", [0.25, 0.5, 0.75])
def test_a_step_down_is_found_between_its_points(n: int, share: float) -> None:
    draw, x, after = random.Random(n), _grid(n), share * n
    for _ in range(5):
        found = changepoint.find(x, _noisy(_step(x, after, 0.5), 0.05, draw))
        assert found is not None
        assert after < found.at < after + 1
        assert found.end_ratio == pytest.approx(0.5, rel=0.15)


@pytest.mark.parametrize(("n", "noise"), [(12, 0.03), (12, 0.1)])
def test_noise_about_a_constant_rarely_has_a_knee(n: int, noise: float) -> None:
    """Measured: 0.7 % at most. The plain BIC would give 7 to 9 of 100 at 10 % of noise."""
    draw, x = random.Random(5), _grid(n)
    false = sum(
        changepoint.find(x, _noisy([500.0] * n, noise, draw)) is not None for _ in range(100)
    )
    assert false <= 3


@pytest.mark.parametrize("power", [-0.3, 0.3, 1.0])
def test_a_steady_decline_or_rise_has_no_knee(power: float) -> None:
    draw = random.Random(3)
    for n in (12, 20):
        x = _grid(n)
        rates = [500.0 * v**-power for v in x]
        assert changepoint.find(x, rates) is None
        assert not any(changepoint.find(x, _noisy(rates, 0.05, draw)) for _ in range(6))


def test_a_constant_without_noise_has_no_knee() -> None:
    assert changepoint.find(_grid(12), [500.0] * 12) is None


def test_a_fall_of_less_than_a_tenth_is_none() -> None:
    x = _grid(20)
    assert changepoint.find(x, _step(x, 10, 1 / 1.09)) is None
    assert changepoint.find(x, _step(x, 10, 1 / 1.11)) is not None
    assert changepoint.find(x, _decline(x, 10, math.log(1.09) / math.log(2))) is None
    assert changepoint.find(x, _decline(x, 10, math.log(1.11) / math.log(2))) is not None


def test_a_rise_at_the_end_is_no_fall() -> None:
    x = _grid(12)
    assert changepoint.find(x, _step(x, 6, 2.0)) is None
    assert changepoint.find(x, [1e6 / rate for rate in _decline(x, 6)]) is None


@pytest.mark.parametrize("factor", [0.5, 0.8, 2.0])
def test_one_odd_point_is_never_a_knee(factor: float) -> None:
    n = 12
    draw, x = random.Random(9), _grid(n)
    for place in (0, 1, 2, n // 2, n - 3, n - 2, n - 1):
        rates = [500.0 * (factor if i == place else 1.0) for i in range(n)]
        for _ in range(2):
            assert changepoint.find(x, _noisy(rates, 0.03, draw)) is None, place


def test_a_perfect_fit_is_no_error() -> None:
    """Its squared residuals are exactly 0, of which there is no logarithm."""
    found = changepoint.find(_grid(12), [1.0] * 6 + [0.5] * 6)
    assert found == pytest.approx((math.sqrt(42), 1.0, 0.5))


def test_units_of_rate_and_of_x_change_nothing_else() -> None:
    x = _grid(20)
    for shape in (_decline(x, 8.3), _step(x, 8, 0.6)):
        rates = _noisy(shape, 0.05, random.Random(2))
        plain = changepoint.find(x, rates)
        faster = changepoint.find(x, [1000 * rate for rate in rates])
        longer = changepoint.find([7 * v for v in x], rates)
        assert plain and faster and longer
        assert faster == pytest.approx((plain.at, 1000 * plain.plateau, plain.end_ratio))
        assert longer == pytest.approx((7 * plain.at, plain.plateau, plain.end_ratio))


@pytest.mark.parametrize(
    ("x", "rates", "words"),
    [
        ([1, 2, 3, 4, 5, 6], [1] * 5, "cannot pair"),
        ([1, 2, 3, 4, 5], [1] * 5, "at least 6"),
        ([1, 2, 3, 3, 5, 6], [1] * 6, "ascend"),
        ([1, 2, 4, 3, 5, 6], [1] * 6, "ascend"),
        ([0, 2, 3, 4, 5, 6], [1] * 6, "positive"),
        ([1, 2, 3, 4, 5, 6], [1, 1, 1, 1, 1, 0], "positive"),
        ([1, 2, 3, 4, 5, 6], [1, 1, 1, 1, 1, math.nan], "finite"),
        ([1, 2, 3, 4, 5, math.inf], [1] * 6, "finite"),
    ],
)
def test_what_is_no_curve_is_refused(x: list[float], rates: list[float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        changepoint.find(x, rates)
