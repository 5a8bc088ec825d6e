"""Parameters are checked before anything runs, and a plan follows from them alone."""

from typing import Any

import pytest
from conftest import planned

from innolab.base.errors import InputError
from innolab.record.study import Study, check_parameters


def test_every_block_holds_every_arm_once_in_an_order_of_its_own(study: Study) -> None:
    trials = planned(study, ["x", "y"], replicates=6)
    blocks = [[t.key for t in trials if t.block == b] for b in range(6)]
    arms = [sorted(str(t.factors) for t in trials if t.block == b) for b in range(6)]
    assert all(len(block) == 10 for block in blocks)
    assert all(arm == arms[0] for arm in arms)
    orders = {tuple(str(t.factors) for t in trials if t.block == b) for b in range(6)}
    assert len(orders) == 6


def test_the_order_depends_on_the_seed_alone(study: Study) -> None:
    assert planned(study, ["x"], seed=5) == planned(study, ["x"], seed=5)
    assert planned(study, ["x"], seed=5) != planned(study, ["x"], seed=6)


@pytest.mark.parametrize("scale", ["smoke", "quick", "paper"])
def test_a_scale_changes_sizes_and_no_ratio(study: Study, scale: str) -> None:
    parameters = check_parameters(study, {"scale": scale})
    rows = study.spec(parameters)["rows"]
    original = check_parameters(study, {"scale": "paper"})
    for arm, paper in zip(study.arms(parameters, "x"), study.arms(original, "x"), strict=True):
        ratio = int(arm["buffer_pool_bytes"]) / rows
        assert ratio == int(paper["buffer_pool_bytes"]) / study.spec(original)["rows"]
        if arm["buffer_pool_instances"] == 8:
            assert int(arm["buffer_pool_bytes"]) >= 2**30, "below it servers use one instance"


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"threads": 3}, "'threads' is unknown (the study takes: scale, seed"),
        ({"scale": "huge"}, "'smoke', 'quick' or 'paper'"),
        ({"replicates": -1}, "'replicates' is -1"),
        ({"replicates": "3"}, "'replicates' is '3'"),
        ({"seed": 1.5}, "'seed' is 1.5"),
        ({"builds": []}, "'builds' is []"),
        ({"builds": ["a", "a"]}, "each build once"),
        ({"rows": 7}, "'rows' is 7"),
        ({"rows": 10**15}, "'rows' is 1000000000000000"),
        ({"rows": 6_000_000}, "multiple of 5,000,000"),
    ],
)
def test_a_wrong_parameter_is_named(study: Study, given: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError) as caught:
        check_parameters(study, given)
    assert named in str(caught.value)
