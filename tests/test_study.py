"""Parameters are checked before anything runs, and a plan follows from them alone."""

import itertools
from collections import Counter
from typing import Any

import pytest
from conftest import planned

from innolab import studies
from innolab.base.errors import InnolabError, InputError
from innolab.studies.experiment import Experiment
from innolab.studies.study import Arm, Study


def test_every_block_holds_every_arm_once_in_an_order_of_its_own(study: Study) -> None:
    trials = planned(study, ["x", "y"], replicates=6)
    blocks = [[t.key for t in trials if t.block == b] for b in range(6)]
    arms = [sorted(str(t.factors) for t in trials if t.block == b) for b in range(6)]
    assert all(len(block) == 22 for block in blocks)
    assert all(arm == arms[0] for arm in arms)
    orders = {tuple(str(t.factors) for t in trials if t.block == b) for b in range(6)}
    assert len(orders) == 6


def test_the_order_depends_on_the_seed_alone(study: Study) -> None:
    assert planned(study, ["x"], seed=5) == planned(study, ["x"], seed=5)
    assert planned(study, ["x"], seed=5) != planned(study, ["x"], seed=6)


def test_an_arm_on_every_server_is_measured_twice_in_each_block(study: Study) -> None:
    whole = Experiment.fresh(study, {"replicates": 4, "builds": ["x", "y"]})
    twins = [vars(whole.control(whole.arms_on(build))) for build in ("x", "y")]
    trials = whole.with_plan(twins=twins).trials
    for block in range(4):
        of_block = [t for t in trials if t.block == block]
        assert sorted(str(t.factors) for t in of_block if t.twin) == sorted(map(str, twins))
        assert len({t.key for t in of_block}) == 24


def test_no_arm_mostly_follows_the_same_one(study: Study) -> None:
    trials = planned(study, ["x"], replicates=15)
    pairs = Counter(
        (str(a.factors), str(b.factors))
        for a, b in itertools.pairwise(trials)
        if a.block == b.block
    )
    # 150 pairs over the 110 that there are.
    assert max(pairs.values()) <= 3


@pytest.mark.parametrize(
    ("given", "name", "budget_s"),
    [
        ({}, "quick", None),
        ({"scale": "smoke"}, "smoke", None),
        ({"scale": "paper"}, "reference", None),
        ({"effort": "reference"}, "reference", None),
        ({"effort": "90min"}, "reference", 5400),
        ({"scale": "paper", "effort": "smoke"}, "smoke", None),
    ],
)
def test_effort_is_apart_from_scale(
    study: Study, given: dict[str, Any], name: str, budget_s: float | None
) -> None:
    checked = study.check(given)
    assert (checked.effort_name, checked.budget_s) == (name, budget_s)


@pytest.mark.parametrize("scale", ["smoke", "quick", "paper"])
def test_a_scale_changes_sizes_and_no_ratio(study: Study, scale: str) -> None:
    parameters, original = (study.check({"scale": name}) for name in (scale, "paper"))

    def pool_bytes(of: Any, arm: Arm) -> int:
        return int(study.settings(of, arm, {})["innodb_buffer_pool_size"])

    for arm in study.arms(parameters, "x"):
        ratio = pool_bytes(parameters, arm) / parameters.table_rows
        assert ratio == pool_bytes(original, arm) / original.table_rows
        if arm.instances == 8:
            assert pool_bytes(parameters, arm) >= 2**30, "below it servers use one instance"


def test_the_digest_of_a_plan_follows_from_what_is_measured() -> None:
    study = studies.find("more-memory")

    def digest(**given: Any) -> str:
        return Experiment.fresh(study, given).spec_sha256

    same: list[dict[str, Any]] = [
        {"seed": 1}, {"replicates": 9}, {"builds": ["x"]}, {"buy_data_gb": 5.0},
        {"rows": 2_000_000}, {"effort": "quick"},
    ]  # fmt: skip
    other: list[dict[str, Any]] = [
        {"scale": "smoke"}, {"threads": 3}, {"rows": 300_000}, {"devices": ["host"]},
        {"flush_log_at_trx_commit": 1}, {"effort": "reference"},
    ]  # fmt: skip
    assert {digest(**given) for given in same} == {digest()}
    assert len({digest(), *(digest(**given) for given in other)}) == 1 + len(other)


def test_what_a_trial_gives_must_be_declared_and_finite(study: Study) -> None:
    assert study.observation({"pass": 1, "seconds": 2.0}) == {"pass": 1, "seconds": 2.0}
    with pytest.raises(InnolabError, match="'minutes' is no within-factor and no metric"):
        study.observation({"pass": 1, "minutes": 2.0})
    with pytest.raises(InnolabError, match="seconds is nan"):
        study.observation({"pass": 1, "seconds": float("nan")})


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"threads": 3}, "'threads' is unknown (the study takes: scale, effort"),
        ({"scale": "huge"}, "'smoke', 'quick' or 'paper'"),
        ({"replicates": -1}, "'replicates' is -1"),
        ({"effort": "90"}, "'effort' is '90'"),
        ({"effort": "0min"}, "a time such as 90min"),
        ({"replicates": "3"}, "'replicates' is '3'"),
        ({"seed": 1.5}, "'seed' is 1.5"),
        ({"builds": []}, "'builds' is []"),
        ({"builds": ["a", "a"]}, "each one once"),
        ({"rows": 7}, "'rows' is 7"),
        ({"rows": 10**15}, "'rows' is 1000000000000000"),
        ({"rows": 6_000_000}, "multiple of 5,000,000"),
    ],
)
def test_a_wrong_parameter_is_named(study: Study, given: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError) as caught:
        study.check(given)
    assert named in str(caught.value)
