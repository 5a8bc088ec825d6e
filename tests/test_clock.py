"""Every second is counted once, those of earlier sessions too."""

import time

import pytest

from innolab.base.clock import Clock


@pytest.mark.alone
def test_stages_and_rest_add_up_to_the_total() -> None:
    clock = Clock()
    clock.add_earlier({"set-up": 20.0, "measured passes": 100.0})
    with clock.stage("measured passes"):
        time.sleep(0.05)
    time.sleep(0.02)
    account = clock.account()
    total = account.pop("total")
    assert total == pytest.approx(sum(account.values()), abs=0.03)
    assert account["measured passes"] == pytest.approx(100.05, abs=0.03)
    assert 120.06 <= total <= 121


def test_a_stage_that_fails_is_counted_and_an_unknown_one_refused() -> None:
    clock = Clock()
    with pytest.raises(RuntimeError), clock.stage("dataset"):
        time.sleep(0.01)
        raise RuntimeError
    assert clock.seconds["dataset"] >= 0.01
    with pytest.raises(ValueError, match="there are: set-up"), clock.stage("lunch"):
        pass
