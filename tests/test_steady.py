"""A window is steady where its end is as its beginning, in throughput and behind it."""

import pytest

from innolab.analysis import steady_state


def _samples(tps: list[float], **values: list[float]) -> list[dict[str, float]]:
    rows = [{"t_s": 0.0, "transactions": 0.0, "pages_read": 0.0, "pages_written": 0.0}]
    for rate in tps:
        last, done = rows[-1], rate / 2
        rows.append(
            {
                "t_s": last["t_s"] + 0.5,
                "transactions": last["transactions"] + done,
                "pages_read": last["pages_read"] + 10 * done,
                "pages_written": last["pages_written"] + 4 * done,
            }
        )
    for name, of in values.items():
        for row, value in zip(rows, of, strict=True):
            row[name] = value
    return rows


def test_an_even_window_is_steady() -> None:
    found = steady_state.drifts(_samples([100] * 4, dirty_pages=[50] * 5), {"dirty_pages": 1000})
    assert all(drift.steady for drift in found)


def test_a_fall_in_throughput_is_found() -> None:
    tps, *_ = steady_state.drifts(_samples([100, 100, 70, 70]), {})
    assert tps.share == pytest.approx(-30 / 85)
    assert not tps.steady


def test_even_throughput_over_a_filling_pool_of_dirty_pages_is_not_steady() -> None:
    rows = _samples([100] * 4, dirty_pages=[0, 100, 200, 300, 400])
    tps, *_, dirty = steady_state.drifts(rows, {"dirty_pages": 1000})
    assert tps.steady
    assert dirty.share == pytest.approx(0.2)
    assert not dirty.steady


def test_an_odd_number_of_samples_and_a_standstill_are_judged_too() -> None:
    assert steady_state.drifts(_samples([100] * 5), {})[0].steady
    assert steady_state.drifts(_samples([0, 0]), {})[0].share == 0


def test_two_samples_have_no_halves() -> None:
    with pytest.raises(ValueError, match="at least 3 samples"):
        steady_state.drifts(_samples([100]), {})


def test_even_throughput_that_writes_more_and_more_is_not_steady() -> None:
    rows = _samples([100] * 4)
    for row, written in zip(rows, [0, 100, 200, 500, 800], strict=True):
        row["pages_written"] = written
    tps, _, written = steady_state.drifts(rows, {})
    assert tps.steady
    assert not written.steady


def _steps(*written: float) -> list[dict[str, float]]:
    return [{"pages_read_per_tx": 9.0, "pages_written_per_tx": pages} for pages in written]


@pytest.mark.parametrize(
    ("written", "is_level"),
    [
        ((10, 10), False),  # Too few steps to tell.
        ((60, 40, 20), False),  # A backlog that is being written.
        ((60, 40, 20, 11, 10, 10), True),
        ((0.1, 0.05, 0.1), True),  # So few that throughput would not show it.
        ((0, 0, 0), True),
    ],
)
def test_a_warm_up_has_settled_where_a_transaction_costs_what_it_did(
    written: tuple[float, ...], is_level: bool
) -> None:
    assert steady_state.is_level(_steps(*written)) is is_level


@pytest.mark.parametrize(("ages", "is_level"), [((0.2, 0.21, 0.2), True), ((0.1, 0.2, 0.3), False)])
def test_a_warm_up_has_not_settled_while_the_server_puts_off_ever_more(
    ages: tuple[float, ...], is_level: bool
) -> None:
    steps = [{**step, "checkpoint_age_bytes": age, "dirty_pages": 0.4}
             for step, age in zip(_steps(10, 10, 10), ages, strict=True)]  # fmt: skip
    assert steady_state.is_level(steps) is is_level
