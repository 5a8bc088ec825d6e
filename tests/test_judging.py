"""Verdicts over looks: decided once, at that look's level; withheld where a control fails."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from conftest import made_run, plan_of

from innolab.analysis import group_sequential
from innolab.analysis.verdicts import Verdict
from innolab.base.language import Message
from innolab.record.plan import Blocks, Plan
from innolab.record.runs import RunSet
from innolab.studies import judging
from innolab.studies.experiment import Experiment
from innolab.studies.study import Study

_LOOKS = Blocks(3, 8)
_CLAIM = "F1-warm-1v256M"


@pytest.fixture
def plan(study: Study) -> Plan:
    """Return a plan that is judged after three to eight blocks, without twins."""
    return replace(plan_of(study, ["x"]), blocks=_LOOKS)


def _verdict(study: Study, plan: Plan, blocks: int, large_s: Callable[[int], float]) -> Verdict:
    """Return the verdict on one claim after some blocks, the small pool taking about a second."""
    runs = []
    for trial in (
        trial for trial in Experiment.from_plan(plan, study).trials if trial.block < blocks
    ):
        run = made_run(study, trial)
        for row in run.observations:
            if "seconds" in row:
                noise = 1 + 0.01 * (trial.block % 3)
                is_large = trial.factors["pool"] == "2G"
                row["seconds"] = large_s(trial.block) if is_large else noise
        runs.append(run)
    found = judging.verdicts(
        Experiment.from_plan(plan, study), RunSet(runs, {"0123456789abcdef": {}}, study.kind.within)
    )
    [verdict] = [one for one in found if one.claim == _CLAIM]
    return verdict


def test_a_claim_that_is_decided_stays_so_with_its_first_interval(study: Study, plan: Plan) -> None:
    # From the fifth block on the other way round: whoever looked again would decide otherwise.
    found = _verdict(study, plan, 8, lambda block: 0.72 if block < 4 else 5.0)
    assert (found.verdict, found.n, found.looks) == ("reproduced", 3, 1)


def test_an_open_claim_is_judged_again_at_the_level_of_each_look(study: Study, plan: Plan) -> None:
    found = _verdict(study, plan, 8, lambda block: [0.7, 1.6][block % 2])
    assert (found.verdict, found.n, found.looks) == ("inconclusive", 8, 6)
    assert found.level == group_sequential.level_at(8, *_LOOKS)


@pytest.mark.parametrize("blocks", [1, 2])
def test_before_the_first_look_nothing_is_decided(study: Study, plan: Plan, blocks: int) -> None:
    found = _verdict(study, plan, blocks, lambda _: 0.5)
    assert found.verdict == "inconclusive"
    assert found.estimate == pytest.approx(0.5, rel=0.02)


def test_one_look_spends_the_whole_level(study: Study, plan: Plan) -> None:
    found = _verdict(study, replace(plan, blocks=Blocks(4, 4)), 4, lambda _: 0.5)
    assert found.level == 0.95


def test_a_failed_control_withholds_what_was_decided(
    study: Study, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = judging.controls.Found([judging.FailedControl(Message("the machine changed"))], [])
    monkeypatch.setattr(judging.controls, "controls", lambda *_: failed)
    found = _verdict(study, plan, 4, lambda _: 0.5)
    assert (found.verdict, str(found.reason)) == ("withheld", "the machine changed")
    assert found.estimate is not None


@pytest.mark.parametrize(("failures", "verdict"), [(2, "reproduced"), (3, "withheld")])
def test_a_claim_of_an_arm_that_mostly_failed_is_withheld_and_says_so(
    study: Study, plan: Plan, failures: int, verdict: str
) -> None:
    """Of six blocks, up to two may be marked failed with their data removed."""
    runs = []
    for trial in (trial for trial in Experiment.from_plan(plan, study).trials if trial.block < 6):
        run = made_run(study, trial)
        for row in run.observations:
            if "seconds" in row:
                row["seconds"] = 0.72 if trial.factors["pool"] == "2G" else 1 + trial.block / 1000
        if trial.factors["pool"] == "2G" and trial.block < failures:
            run = made_run(study, trial, status="failed", error="killed", observations=[])
        runs.append(run)
    judged = judging.verdicts(
        Experiment.from_plan(plan, study), RunSet(runs, {"0123456789abcdef": {}}, study.kind.within)
    )
    [found] = [one for one in judged if one.claim == _CLAIM]
    assert found.verdict == verdict
    assert ("3 of 6 runs of " in str(found.reason)) == (verdict == "withheld")
    assert ("needs two thirds of them complete" in str(found.reason)) == (verdict == "withheld")
    # An arm without failures keeps its verdicts.
    assert "withheld" not in {
        one.verdict for one in judged if "of 6 runs of" not in str(one.reason)
    }
