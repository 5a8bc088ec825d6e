"""A window is steady where its end is as its beginning, in throughput and behind it."""

import pytest

from innolab.analysis import steady_state


def _samples(tps: list[float], **values: list[float]) -> list[dict[str, float]]:
    rows = [{"t_s": 0.0, "transactions": 0.0}]
    for rate in tps:
        last = rows[-1]
        rows.append({"t_s": last["t_s"] + 0.5, "transactions": last["transactions"] + rate / 2})
    for name, of in values.items():
        for row, value in zip(rows, of, strict=True):
            row[name] = value
    return rows


def test_an_even_window_is_steady() -> None:
    found = steady_state.drifts(_samples([100] * 4, dirty_pages=[50] * 5), {"dirty_pages": 1000})
    assert all(drift.steady for drift in found)


def test_a_fall_in_throughput_is_found() -> None:
    [tps] = steady_state.drifts(_samples([100, 100, 70, 70]), {})
    assert tps.share == pytest.approx(-30 / 85)
    assert not tps.steady


def test_even_throughput_over_a_filling_pool_of_dirty_pages_is_not_steady() -> None:
    rows = _samples([100] * 4, dirty_pages=[0, 100, 200, 300, 400])
    tps, dirty = steady_state.drifts(rows, {"dirty_pages": 1000})
    assert tps.steady
    assert dirty.share == pytest.approx(0.2)
    assert not dirty.steady


def test_an_odd_number_of_samples_and_a_standstill_are_judged_too() -> None:
    assert steady_state.drifts(_samples([100] * 5), {})[0].steady
    assert steady_state.drifts(_samples([0, 0]), {})[0].share == 0


def test_two_samples_have_no_halves() -> None:
    with pytest.raises(ValueError, match="at least 3 samples"):
        steady_state.drifts(_samples([100]), {})
