"""The seconds of a run: known trend, period and length come back, and noise is no wave."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from innolab.analysis import seconds, steady_state

_SHAPES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "sine": lambda phase: 0.15 * np.sin(math.tau * phase),
    "saw": lambda phase: 0.3 * (phase - 0.5),
    "stall": lambda phase: np.where(phase < 0.15, -0.5, 0.0),
}


def _run(
    length: int,
    period: float = 0.0,
    shape: str = "sine",
    trend: float = 0.0,
    noise: float = 0.03,
    seed: int = 1,
    step: float = 1.0,
) -> list[tuple[float, float]]:
    """Return a run; `trend` is the share by which its end is above its beginning."""
    generator = np.random.default_rng(seed)
    t = np.arange(1, length + 1) * step
    wave = _SHAPES[shape]((t + generator.uniform(0, 100)) % period / period) if period else 0.0
    rates = 1000 * (1 + wave + trend * t / t[-1]) * np.exp(generator.normal(0, noise, length))
    return list(zip(t.tolist(), rates.tolist(), strict=True))


def _course(*of: object, **given: object) -> seconds.Course:
    found = seconds.course(_run(*of, **given))  # type: ignore[arg-type]
    assert found
    return found


@pytest.mark.parametrize("shape", _SHAPES)
@pytest.mark.parametrize("period", [8, 10.3, 11, 13.5])
@pytest.mark.parametrize("length", [150, 600])
def test_waves_have_the_period_and_number_that_they_were_made_with(
    length: int, period: float, shape: str
) -> None:
    for seed in range(5):
        wave = _course(length, period, shape, seed=seed).wave
        assert wave, seed
        assert wave.period_s == pytest.approx(period, rel=0.03)
        assert abs(wave.whole - length / period) <= 1
        assert wave.swing == pytest.approx({"stall": 0.54}.get(shape, 0.3), abs=0.1)


def test_moments_ten_seconds_apart_give_periods_in_seconds() -> None:
    found = _course(120, 110.0, step=10.0)
    assert found.wave
    assert found.wave.period_s == pytest.approx(110, rel=0.03)
    assert (found.wave.whole, found.length_s) == (10, 1200.0)


@pytest.mark.parametrize("memory", [0.0, 0.5, 0.9])
def test_noise_is_no_wave_even_where_seconds_resemble_each_other(memory: float) -> None:
    waves = 0
    for seed in range(100):
        steps = np.random.default_rng(seed).normal(0, 0.1 * math.sqrt(1 - memory**2), 300)
        noise = [steps[0]]
        for step in steps[1:]:
            noise.append(memory * noise[-1] + step)
        found = seconds.course([(t, 1000 * math.exp(x)) for t, x in enumerate(noise)])
        assert found
        waves += found.wave is not None
    assert waves <= 5


def test_three_waves_are_too_few_to_say_that_they_come_back() -> None:
    assert _course(60, 20.0).wave is None


@pytest.mark.parametrize("period", [0, 11])
@pytest.mark.parametrize(("trend", "share"), [(0.0, 0.0), (0.5, 0.2), (-0.4, -0.25), (0.1, 0.05)])
def test_a_trend_is_that_of_whole_waves_by_the_rule_of_windows(
    period: float, trend: float, share: float
) -> None:
    for length in (121, 300):  # 121 s hold eleven waves, and each half one more than the other.
        drift = _course(length, period, trend=trend).drift
        assert drift.share == pytest.approx(share, abs=0.03)
        assert drift.tolerance == steady_state.TOLERANCES["tps"]
        assert drift.steady is (abs(share) <= 0.1)


def test_a_half_wave_too_many_is_no_trend() -> None:
    """Five waves and a half of a square: halves of the whole run would differ by a tenth."""
    rates = [1300.0 if t % 22 < 11 else 700.0 for t in range(121)]
    found = seconds.course(list(enumerate(rates)))
    assert found and found.wave
    assert found.wave.period_s == pytest.approx(22, rel=0.03)
    assert abs(found.drift.share) < 0.02


def test_one_wave_moves_the_average_by_what_leaving_it_out_does() -> None:
    """A sine of 10 in 40 s: its half waves are 2 / pi of its height above and below the mean."""
    rates = [(t, 1000 + 300 * math.sin(math.tau * (t - 0.5) / 10)) for t in range(1, 41)]
    found = seconds.course(rates)
    assert found and found.wave
    crest = 5 * 300 * 2 / math.pi / 35 / 1000
    assert found.one_wave == pytest.approx(math.log(1 + crest), rel=0.05)


def test_what_the_seconds_leave_open_is_what_repeated_runs_differ_by() -> None:
    """Where seconds do not resemble each other, batches say it all; with waves each is one."""
    for period in (0, 11):
        runs = [_course(220, period, noise=0.1, seed=seed) for seed in range(40)]
        said = math.sqrt(sum(one.error**2 for one in runs) / len(runs))
        assert said == pytest.approx(0.1 / math.sqrt(220), rel=0.2)
        assert {one.freedom for one in runs} <= ({9} if not period else {18, 19})


@pytest.mark.parametrize(
    "given",
    [
        [],
        [(1.0, 5.0)] * 11,
        [(float(t), 0.0) for t in range(30)],
        [(float(t % 7), 5.0) for t in range(30)],
        [(float(t), -1.0) for t in range(30)],
        [*((float(t), 1.0) for t in range(30)), (1e12, 1.0)],
    ],
)
def test_too_few_seconds_or_none_in_order_say_nothing(given: list[tuple[float, float]]) -> None:
    assert seconds.course(given) is None


def test_a_run_that_never_changes_is_steady_without_waves() -> None:
    found = seconds.course([(float(t), 5.0) for t in range(30)])
    assert found
    assert (found.wave, found.error, found.one_wave, found.drift.share) == (None, 0.0, 0.0, 0.0)


def test_a_standstill_of_some_seconds_does_no_harm() -> None:
    rates = [0.0 if 10 <= t < 13 else 1000.0 for t in range(60)]
    found = seconds.course(list(enumerate(rates)))
    assert found
    assert math.isfinite(found.error)
