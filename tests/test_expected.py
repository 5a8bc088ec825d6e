"""What a plan says of itself beforehand: intervals, power and time, by earlier reports."""

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import ROOT, Innolab, made_run, plan_of, reference

from innolab import studies
from innolab.analysis import power
from innolab.analysis.claims import Claim
from innolab.analysis.stats import student_quantile
from innolab.measure import estimate, plan_text
from innolab.measure.estimate import Earlier, Expected
from innolab.record.plan import Blocks, Plan
from innolab.record.runs import RunSet
from innolab.report import manifest
from innolab.studies.experiment import Experiment, Trial
from innolab.studies.parameters import ByEffort
from innolab.studies.study import Study

_SERVERS = ["x", "y"]
# Of a log that takes two values in turn: 1 / sqrt(1 - 1/n) wider than half their distance.
_LOG = 0.1
_TRIAL_S = 10.0
# Eleven arms on each server.
_TRIALS = 22


def _seconds(trial: Trial) -> float:
    """Scans with 8 instances are 5 times faster, but for a tenth up and down with each block."""
    swing = _LOG if trial.block % 2 else -_LOG
    return math.exp(swing) if trial.factors["instances"] == 8 else 5.0


def _report(study: Study, blocks: int = 4, **parameters: object) -> Earlier:
    plan = plan_of(study, _SERVERS, replicates=blocks, **parameters)
    runs = []
    for trial in Experiment.from_plan(plan, study).trials:
        run = made_run(study, trial)
        for row in run.observations:
            if "seconds" in row:
                row["seconds"] = _seconds(trial)
        run.conditions["time_s"] = {"measured passes": _TRIAL_S - 1, "dataset": 1.0}
        runs.append(run)
    stages = {"set-up": 5.0, "dataset": len(runs) + 20.0, "rendering": 7.0}
    kept = RunSet(runs, {}, study.kind.within)
    return Earlier("made/1", Experiment.from_plan(plan, study), kept, stages)


def _expected(study: Study, plan: Plan, *earlier: Earlier) -> Expected:
    return estimate.expected(Experiment.from_plan(plan, study), earlier)


@pytest.fixture
def plan(study: Study) -> Plan:
    """Return a plan that is judged after three to nine blocks."""
    return replace(plan_of(study, _SERVERS), blocks=Blocks(3, 9))


def _row(found: Expected, claim: str = "F1-warm-8v1", server: str = "x") -> estimate.ExpectedClaim:
    [row] = [row for row in found.rows if (row.claim, row.server) == (claim, server)]
    return row


def test_a_known_spread_gives_the_half_width_of_each_look(study: Study, plan: Plan) -> None:
    found = _expected(study, plan, _report(study))
    level = 1 - 0.05 / 7
    assert [tuple(found.first), tuple(found.last)] == [
        (3, pytest.approx(level)),
        (9, pytest.approx(level)),
    ]
    row, spread = _row(found), _LOG * math.sqrt(4 / 3)
    assert row.report == "made/1"
    assert row.factors is not None
    for factor, n in zip(row.factors, (3, 9), strict=True):
        half = student_quantile(level, n - 1) * spread / math.sqrt(n)
        assert math.log(factor) == pytest.approx(half, rel=1e-6)


def test_power_is_that_of_the_last_look_and_grows_with_the_blocks(study: Study, plan: Plan) -> None:
    earlier = _report(study)
    found = [
        _row(_expected(study, replace(plan, blocks=Blocks(3, last)), earlier)).power
        for last in (4, 8, 16, 40)
    ]
    assert all(chance is not None and 0 < chance < 1 for chance in found), found
    assert found == sorted(found)  # type: ignore[type-var]
    one_look = _row(_expected(study, replace(plan, blocks=Blocks(6, 6)), earlier))
    claim = next(c for c in study.claims() if c.id == one_look.claim)
    assert claim.holds
    assert one_look.truth
    bounds = claim.holds.bounds(one_look.truth)
    exact = power.power(_LOG * math.sqrt(4 / 3), 6, *bounds, one_look.truth)
    assert one_look.power == pytest.approx(exact)


def test_time_is_that_of_the_trials_and_of_what_came_before_them(study: Study, plan: Plan) -> None:
    found = _expected(study, plan, _report(study)).duration
    assert found
    assert found.block_s == pytest.approx(_TRIALS * _TRIAL_S)
    # The manifest counts the trials' own second of "dataset" too.
    assert found.before_s == pytest.approx(25)
    assert found.until(3) == pytest.approx(25 + 3 * _TRIALS * _TRIAL_S)
    assert found.strange_arms == 0


def test_longer_windows_than_those_of_the_report_take_longer(study: Study, plan: Plan) -> None:
    kind = replace(study.kind, window_s=ByEffort(1.0, 3.0, 12.0))
    windowed = replace(study, kind=kind)
    longer = replace(plan, parameters={**plan.parameters, "effort": "reference"})
    found = _expected(windowed, longer, _report(study, effort="quick")).duration
    assert found
    assert found.block_s == pytest.approx(_TRIALS * (1.0 + 4 * (_TRIAL_S - 1)))
    same = _expected(windowed, plan, _report(study, effort="quick")).duration
    assert same
    assert same.block_s == pytest.approx(_TRIALS * _TRIAL_S)


def test_an_arm_that_no_report_has_takes_the_mean_of_the_others(study: Study, plan: Plan) -> None:
    report = _report(study)
    known = report._replace(runs=report.runs.where(lambda run: run.factors["server"] == "x"))
    found = _expected(study, plan, known)
    assert found.duration
    assert found.duration.block_s == pytest.approx(_TRIALS * _TRIAL_S)
    assert found.duration.strange_arms == _TRIALS / 2
    assert _row(found).factors
    assert _row(found, server="y").factors is None
    assert _row(found, server="y").reason == "no earlier report has its arms in two blocks"


def test_a_time_budget_cuts_the_last_look_and_keeps_its_level(study: Study, plan: Plan) -> None:
    given = study.check({"effort": "22min"}).model_dump()
    found = _expected(study, replace(plan, parameters=given), _report(study))
    assert (found.first.blocks, found.last.blocks, found.declared) == (3, 6, 9)
    assert found.last.level == pytest.approx(1 - 0.05 / 7)
    short = study.check({"effort": "1min"}).model_dump()
    assert _expected(study, replace(plan, parameters=short), _report(study)).last.blocks == 3


def test_one_block_and_no_report_are_said(study: Study, plan: Plan) -> None:
    single = _expected(study, replace(plan, blocks=Blocks(1, 1)), _report(study))
    assert {row.reason for row in single.rows} == {"one block leaves no interval"}
    nothing = _expected(study, plan)
    assert nothing.duration is None
    assert not any(row.factors for row in nothing.rows)
    text = "\n".join(plan_text.summary(Experiment.from_plan(plan, study), nothing, {}))
    assert "How long it takes is unknown" in text
    assert "no earlier report has its arms" in text


def test_reports_of_the_same_scale_and_effort_come_first(study: Study) -> None:
    chosen = plan_of(study, _SERVERS, scale="quick", effort="reference")
    old = replace(chosen, parameters={"scale": "quick"})
    plans = {
        "old": old,
        "same": chosen,
        "budget": plan_of(study, _SERVERS, scale="quick", effort="90min"),
        "quick": plan_of(study, _SERVERS, scale="quick"),
        "smoke": plan_of(study, _SERVERS, scale="smoke", effort="reference"),
    }
    assert estimate.nearest_first(plans, chosen) == ["budget", "same", "quick", "old", "smoke"]
    assert estimate.effort_of(old) is None


def test_a_spread_is_of_the_first_report_that_has_it(study: Study, plan: Plan) -> None:
    one_block = _report(study, blocks=1)._replace(name="made/2")
    found = _expected(study, plan, one_block, _report(study))
    assert found.duration
    assert found.duration.report == "made/2"
    assert _row(found).report == "made/1"
    plans = {"made/1": plan, "made/2": plan}
    text = "\n".join(plan_text.summary(Experiment.from_plan(plan, study), found, plans))
    assert re.search(r"F1-warm-8v1 +x +\d.* by made/1$", text, re.MULTILINE)


def _has_factor(study: Study, claim: Claim) -> bool:
    is_share = claim.mean and study.kind.units[claim.mean.metric].startswith("share")
    return bool(claim.compare or (claim.mean and not is_share))


@pytest.mark.parametrize(
    "name", [name for name in studies.names() if (ROOT / "reports" / name).is_dir()]
)
def test_every_claim_of_every_study_is_in_a_plan_that_a_reference_report_made(name: str) -> None:
    study = studies.find(name)
    folder = reference(name)
    made = Plan.read(folder)
    runs, time_s = study.read(folder), manifest.read(folder)["time_s"]
    blocks = 1 + max(run.block for run in runs.runs)
    chosen = replace(made, blocks=Blocks(blocks, blocks))
    found = _expected(study, chosen, Earlier(name, Experiment.from_plan(made, study), runs, time_s))
    rows = {row.claim for row in found.rows}
    assert rows | {*found.not_measured, *found.not_planned} == {c.id for c in study.claims()}
    # Of ratios and means: largest values, proportions and shares have no factor.
    by_id = {claim.id: claim for claim in study.claims()}
    able = [row for row in found.rows if _has_factor(study, by_id[row.claim])]
    assert sum(row.factors is not None for row in able) > len(able) / 2
    for row in found.rows:
        assert row.factors or row.reason, row
        assert row.power is None or 0 <= row.power <= 1
    assert found.duration
    # What no stage claims is left out.
    whole_s = found.duration.until(blocks) + found.duration.after_s
    # What failed took its own time, which a plan does not foresee.
    failed = [run.conditions["time_s"] for run in runs.runs if run.status != "complete"]
    failed_s = sum(sum(stages.values()) for stages in failed)
    assert time_s["total"] <= 1.05 * (whole_s + time_s["rest"]) + failed_s
    # Arms stop where their claims are decided.
    share = len(runs.runs) / len(Experiment.from_plan(chosen, study).trials)
    assert share * whole_s < 1.2 * time_s["total"]


@pytest.mark.integration
def test_plan_prints_the_summary_and_every_trial_only_where_asked(
    innolab: Innolab, folder: Path
) -> None:
    (folder / "multi-buffer-pool").symlink_to(ROOT / "reports" / "multi-buffer-pool")
    words = ("plan", "multi-buffer-pool", "-p", "replicates=3")
    done = innolab(*words, INNOLAB_REPORTS=str(folder))
    assert done.returncode == 0, done.stderr
    assert "It takes about " in done.stdout
    assert "by the times in multi-buffer-pool/" in " ".join(done.stdout.split())
    assert "Measured twice in each block, as a control: device=host, pool=2G" in done.stdout
    assert re.search(r"^F1-warm-8v1 +mysql-9\.7 +\d\.\d\d +\S+ +\d+%$", done.stdout, re.MULTILINE)
    assert done.stdout.count("block 1  server=") == 12
    assert "block 2  server=" not in done.stdout
    everything = innolab(*words, "--trials", INNOLAB_REPORTS=str(folder))
    assert len(everything.stdout.splitlines()) == 3 * (_TRIALS + 2)
    assert everything.stdout.startswith("   0  block 1  server=")


@pytest.mark.integration
def test_a_damaged_report_is_no_reason_not_to_plan(innolab: Innolab, folder: Path) -> None:
    for number, text in enumerate(("{", '{"scale": 3}', "")):
        report = folder / "multi-buffer-pool" / f"2026-01-31-{number}"
        report.mkdir(parents=True)
        (report / "manifest.json").write_text("{}")
        (report / "plan.json").write_text(text)
    done = innolab("plan", "multi-buffer-pool", INNOLAB_REPORTS=str(folder))
    assert done.returncode == 0, done.stderr
    assert "How long it takes is unknown" in done.stdout
