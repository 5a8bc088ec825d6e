"""Verdicts follow from intervals, and published values from the data file."""

import math

import pytest
from conftest import made_run, planned

from innolab import studies, tables
from innolab.analysis import claims
from innolab.analysis.stats import Interval
from innolab.record.run import Run
from innolab.record.runlog import RunLog
from innolab.record.runs import RunSet
from innolab.record.study import Study, Trial, check_parameters

_INF = math.inf
VARIABLES: dict[str, dict[str, str]] = {"0123456789abcdef": {}}


@pytest.mark.parametrize(
    ("low", "high", "claim", "verdict"),
    [
        (0.8, 0.9, (-_INF, 1.0), "reproduced"),
        (1.1, 1.2, (-_INF, 1.0), "contradicted"),
        (0.9, 1.1, (-_INF, 1.0), "inconclusive"),
        (0.99, 1.01, (0.98, 1.02), "reproduced"),
        (0.5, 2.0, (0.98, 1.02), "inconclusive"),
        (1.03, 1.04, (0.98, 1.02), "contradicted"),
        (0.0, 0.0, (-_INF, 0.0), "reproduced"),
        (math.nan, math.nan, (-_INF, 1.0), "inconclusive"),
    ],
)
def test_a_verdict_follows_from_the_interval(
    low: float, high: float, claim: tuple[float, float], verdict: str
) -> None:
    assert claims.decide(Interval((low + high) / 2, low, high, 5), *claim)[0] == verdict


def test_published_ratios_are_those_of_the_seed() -> None:
    values = {c.id: claims.published_value("multi-buffer-pool", c) for c in _claims()}
    assert values["F2-disk-8v128M"] == pytest.approx(1.95, abs=0.005)
    assert values["F2-disk-1v128M"] == pytest.approx(1.24, abs=0.005)
    assert values["F5"] == pytest.approx(9.3, abs=0.05)
    assert values["F1-disk-8v1"] == pytest.approx(6.64 / 6.68)


def test_published_pages_by_instance_add_up_to_the_pages_read() -> None:
    figures = claims.published("multi-buffer-pool")
    parts = [figures[f"instance-{i}-pages"].value for i in range(8)]
    assert sum(parts) == figures["debug-2G-8-pass1-pages"].value
    assert max(abs(p / (sum(parts) / 8) - 1) for p in parts) == pytest.approx(0.0193, abs=0.0001)


def test_every_claim_names_cases_and_metrics_that_the_study_has(study: Study) -> None:
    runs = [made_run(study, t) for t in planned(study, ["x"], replicates=3)]
    for claim in _claims():
        if claim.measure is not None:
            found = claims.verdicts(RunSet(study, runs, VARIABLES), ["x"], {})
            assert next(v for v in found if v.claim == claim.id).n == 3, claim.id


def test_every_claim_on_memory_names_arms_that_quick_has_and_metrics_that_they_give() -> None:
    study = studies.find("more-memory")
    arms = study.arms(check_parameters(study, {}), "x")
    measured = {(arm["case"], f"{arm['load']}_tps") for arm in arms}
    for claim in claims.claims("more-memory"):
        assert claim.measure is not None
        for case in (claim.measure["of"], claim.measure["to"]):
            assert (case, claim.measure["ratio"]) in measured, f"{claim.id}: {case}"


def test_claims_on_inserts_speak_of_arms_and_metrics_that_there_are() -> None:
    name = "compressed-insert"
    study = studies.find(name)
    arms = {arm["case"] for arm in study.arms(check_parameters(study, {}), "mysql-9.7")}
    [kept] = (claims.DATA.parent / "reports" / name).glob("*/runs.jsonl")
    metrics = {metric for run in RunLog(kept).load()[0] for metric in run.metrics}
    for claim in claims.claims(name):
        measure = claim.measure or {}
        assert {measure["of"], measure.get("to", measure["of"])} <= arms, claim.id
        named = {measure.get(key) for key in ("ratio", "mean", "to_metric")} - {None}
        assert named <= metrics, claim.id
    heads = {claim.id.split("-")[0] for claim in claims.claims(name)}
    assert heads == {"C1", "C2", "C3", "C4", "C5", "H5", "H6"}


def test_a_claim_says_itself_what_it_means_that_no_run_has_its_metric() -> None:
    study = studies.find("compressed-insert")
    trials = planned(study, ["mysql-5.6.24"], replicates=2)
    runs = RunSet(
        study, [made_run(study, t, metrics={"late_per_s": 5.0}) for t in trials], VARIABLES
    )
    found = {v.claim: v for v in claims.verdicts(runs, ["mysql-5.6.24"], {})}
    assert "the disk never surged" in found["C4-host"].reason
    assert "servers up to 5.6 have none" in found["H6-pages-host"].reason
    assert found["H6-rows-host"].estimate == 1.0


def test_published_values_on_memory_are_those_of_the_seeds() -> None:
    study = "more-memory"
    values = {c.id: claims.published_value(study, c) for c in claims.claims(study)}
    assert values["A2-ro"] == 2.6
    assert values["A3-fusionio-rw"] == 5
    assert values["B1-ro"] == pytest.approx(3.030, abs=0.0005)
    assert values["B1-rw"] == pytest.approx(2.996, abs=0.0005)
    heads = {c.id.split("-")[0] for c in claims.claims(study)}
    assert heads == {"A1", "A2", "A3", "A4", "A5", "A6", "B1", "B2", "H1", "H2", "H3", "H4"}


@pytest.mark.parametrize(("pages", "verdict"), [(1.0, "inconclusive"), (0.02, "contradicted")])
def test_a_pool_that_has_not_settled_contradicts_nothing(pages: float, verdict: str) -> None:
    """Half of the data in memory at half of the throughput: H3 is wrong, if the pool was ready."""
    study = studies.find("more-memory")
    runs = []
    for trial in planned(study, ["x"], replicates=3):
        if trial.factors["load"] == "read_only":
            case = str(trial.factors["case"])
            slow = case == "raid10-8x15k/special/0.5A"
            metrics = {
                "read_only_tps": (500.0 if slow else 1000.0) + trial.block,
                "read_only_pages_read_per_tx": pages if "/special/" in case else 13.0,
            }
            runs.append(made_run(study, trial, metrics=metrics))
    [h3] = [
        v for v in claims.verdicts(RunSet(study, runs, VARIABLES), ["x"], {}) if v.claim == "H3"
    ]
    assert h3.verdict == verdict
    assert ("had not settled" in h3.reason) == (verdict == "inconclusive")


def test_every_claim_of_the_study_is_there() -> None:
    heads = {claim.id.split("-")[0] for claim in _claims()}
    assert heads == {"F1", "F2", "F3", "F4", "F5", "H8", "H10"}


def test_invalid_runs_support_no_verdict_and_the_reason_is_given(study: Study) -> None:
    wrong = [{"check": "debug build", "result": "invalid", "says": "this is a debug build"}]
    runs = [made_run(study, t, checks=wrong) for t in planned(study, ["x"], replicates=3)]
    found = claims.verdicts(RunSet(study, runs, VARIABLES), ["x"], {})
    assert {v.verdict for v in found} == {"not-run"}
    assert any("this is a debug build" in v.reason for v in found)
    assert "INVALID" in repr(tables.doubts(RunSet(study, runs, VARIABLES)))


def test_arms_that_differ_in_more_than_their_factors_support_no_verdict(study: Study) -> None:
    def run(trial: Trial) -> Run:
        digest = 16 * ("b" if trial.factors["case"] == "2G-8" else "a")
        conditions = made_run(study, trial).conditions
        return made_run(study, trial, conditions={**conditions, "variables": digest})

    runs = [run(t) for t in planned(study, ["x"], replicates=3)]
    sets = {
        16 * "a": {"innodb_io_capacity": "2000"},
        16 * "b": {"innodb_io_capacity": "200"},
    }
    found = claims.verdicts(RunSet(study, runs, sets), ["x"], {})
    assert {v.verdict for v in found} == {"not-run"}
    assert all("innodb_io_capacity" in v.reason for v in found)


def test_a_cold_ratio_is_doubted_where_equal_runs_cost_the_kernel_unequally(study: Study) -> None:
    def run(trial: Trial, kernel_s: float) -> Run:
        metrics = made_run(study, trial).metrics
        return made_run(study, trial, metrics={**metrics, "pass1_kernel_cpu_s": kernel_s})

    trials = planned(study, ["x"], replicates=3)
    even = RunSet(study, [run(t, 0.5) for t in trials], VARIABLES)
    uneven = RunSet(study, [run(t, 0.2 + 0.6 * t.block) for t in trials], VARIABLES)
    assert not any(v.caveat for v in claims.verdicts(even, ["x"], {}))
    doubted = {v.claim for v in claims.verdicts(uneven, ["x"], {}) if v.caveat}
    assert doubted == {
        "F1-disk-8v1", "F1-disk-1v256M", "F2-disk-8v128M", "F2-disk-1v128M", "H8-disk",
    }  # fmt: skip
    assert "Read with care" in repr(tables.answer(claims.verdicts(uneven, ["x"], {})))


def test_a_build_that_could_not_be_had_has_verdicts_that_say_so(study: Study) -> None:
    runs = [made_run(study, t) for t in planned(study, ["x"], replicates=2)]
    found = claims.verdicts(RunSet(study, runs, VARIABLES), ["x"], {"gone": "no apt on this host"})
    of_gone = [v for v in found if v.server == "gone"]
    assert len(of_gone) == len(_claims())
    assert {v.verdict for v in of_gone} == {"not-run"}
    assert all("no apt on this host" in v.reason for v in of_gone)


def _claims() -> list[claims.Claim]:
    return claims.claims("multi-buffer-pool")
