"""After each block arms whose claims are decided stop; the same records give the same trials."""

from dataclasses import replace

import pytest
from conftest import made_run, plan_of

from innolab.record.plan import Blocks, Plan
from innolab.record.run import Run
from innolab.record.runs import RunSet
from innolab.studies import schedule
from innolab.studies.experiment import Experiment, Trial
from innolab.studies.study import Study

_SERVERS = ["x", "y"]


@pytest.fixture
def plan(study: Study) -> Plan:
    """Return a plan that is judged after two to six blocks."""
    whole = Experiment.from_plan(plan_of(study, _SERVERS), study)
    twins = [vars(whole.control(whole.arms_on(build))) for build in _SERVERS]
    return replace(whole.plan, blocks=Blocks(2, 6), twins=twins)


def _ran(study: Study, trial: Trial, seconds: float) -> Run:
    run = made_run(study, trial, twin=trial.twin)
    for row in run.observations:
        if "seconds" in row:
            row["seconds"] = seconds
    return run


def _measured(study: Study, plan: Plan, most: int = 100) -> RunSet:
    """Return the runs of a plan in which claims are decided on server x, and never on y."""
    runs = RunSet([], {}, study.kind.within)
    while True:
        recorded = {run.key for run in runs.runs}
        missing = [
            t
            for t in schedule.due(Experiment.from_plan(plan, study), runs)
            if t.key not in recorded
        ]
        if not missing or missing[0].block >= most:
            return runs
        made = [_ran(study, trial, _seconds(trial)) for trial in missing]
        runs = RunSet([*runs.runs, *made], {}, study.kind.within)


def _seconds(trial: Trial) -> float:
    fast = 1 + 0.001 * trial.block
    if trial.factors["server"] == "x":
        return fast if trial.factors["pool"] == "2G" else 9 * fast
    return [0.2, 7.0][(trial.block + trial.position) % 2]


def test_nothing_stops_before_the_first_look(study: Study, plan: Plan) -> None:
    runs = _measured(study, plan, most=2)
    assert len(runs.runs) == 2 * (11 + 1) * len(_SERVERS)


def test_a_server_whose_claims_are_decided_stops_and_the_other_goes_on(
    study: Study, plan: Plan
) -> None:
    later = [run for run in _measured(study, plan).runs if run.block >= 4]
    assert {run.factors["server"] for run in later} == {"y"}
    assert any(run.twin for run in later), "the control stays as long as an arm does"


def test_what_is_due_follows_from_the_runs_alone(study: Study, plan: Plan) -> None:
    runs = _measured(study, plan)
    due = schedule.due(Experiment.from_plan(plan, study), runs)
    assert [trial.key for trial in due] == [run.key for run in runs.runs]
    # Killed within a block: the rest of that block is due, and no later one.
    cut = RunSet(runs.runs[:28], {}, study.kind.within)
    assert {t.block for t in schedule.due(Experiment.from_plan(plan, study), cut)} == {0, 1}


def test_a_time_budget_ends_before_the_block_that_would_exceed_it(study: Study, plan: Plan) -> None:
    given = study.check({"effort": "1min"}).model_dump()
    runs = _measured(study, replace(plan, parameters=given))
    spent_s = sum(sum(run.conditions["time_s"].values()) for run in runs.runs)
    assert max(run.block for run in runs.runs) < 5
    assert spent_s <= 60 or max(run.block for run in runs.runs) == 1


def test_a_plan_of_an_older_innolab_has_all_its_trials(study: Study, plan: Plan) -> None:
    old = replace(plan, blocks=None, twins=[])
    assert (
        len(schedule.due(Experiment.from_plan(old, study), RunSet([], {}, study.kind.within))) == 22
    )
    assert len(Experiment.from_plan(old, study).trials) == 5 * 22


def test_every_claim_of_the_study_has_arms_that_can_go_on(study: Study) -> None:
    arms = [vars(arm) for arm in study.arms(study.check({"in_turn": True}), "x")]
    for claim in study.claims():
        for side in claim.sides:
            factors = {k: v for k, v in side.items() if k not in study.kind.within}
            assert any(factors.items() <= arm.items() for arm in arms), claim.id


def test_claims_that_changed_since_do_not_make_a_report_incomplete(
    study: Study, plan: Plan
) -> None:
    runs = _measured(study, plan)
    stopped = RunSet([run for run in runs.runs if run.block < 3], {}, study.kind.within)
    experiment = Experiment.from_plan(plan, study)
    due = schedule.due(experiment, stopped, {"0" * 64})
    assert schedule.due(experiment, stopped) != due
    assert {trial.key for trial in due} == {run.key for run in stopped.runs}
    # All trials before the first look are due, whatever was claimed.
    few = RunSet(stopped.runs[:5], {}, study.kind.within)
    first = [trial for trial in Experiment.from_plan(plan, study).trials if trial.block < 2]
    assert schedule.due(Experiment.from_plan(plan, study), few, {"0" * 64}) == first


def test_runs_that_are_missing_are_counted_by_arm_and_one_that_failed_is_not_missing(
    study: Study, plan: Plan
) -> None:
    runs = _measured(study, plan, most=2)
    due = schedule.due(Experiment.from_plan(plan, study), runs)
    arm = due[0].factors
    failed = RunSet(
        [
            made_run(study, trial, twin=trial.twin, status="failed", error="x", observations=[])
            if trial.factors == arm
            else _ran(study, trial, _seconds(trial))
            for trial in due
        ],
        {},
        study.kind.within,
    )
    assert schedule.missing(due, failed) is None
    without = failed.where(lambda run: run.factors != arm)
    missing = sum(trial.factors == arm for trial in due)
    assert f"{missing} of the {len(due)} runs that are due are missing" in str(
        schedule.missing(due, without)
    )
    assert f"{missing} of {', '.join(map(str, arm.values()))}" in str(
        schedule.missing(due, without)
    )
