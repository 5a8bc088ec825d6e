"""Verdicts follow from intervals, and published values from the data file."""

import math
import random
import re
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, made_run, planned
from pydantic import ValidationError

from innolab import studies
from innolab.analysis import doubts, drift
from innolab.analysis.censored import median
from innolab.analysis.claim_files import claims_of
from innolab.analysis.claims import Claim, Holds
from innolab.analysis.doubts import Doubted
from innolab.analysis.outcomes import blocks_needed, decide, mean
from innolab.analysis.published import published_value
from innolab.analysis.stats import Interval, arithmetic_mean, geometric_mean, student_quantile
from innolab.analysis.verdicts import FailedControl, Verdict, verdicts
from innolab.base.errors import InputError
from innolab.base.language import Message
from innolab.record.run import Run
from innolab.record.runlog import SessionStart
from innolab.record.runs import RunSet
from innolab.report import display
from innolab.studies.experiment import Trial
from innolab.studies.study import Study

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
    assert decide(Interval((low + high) / 2, low, high, 5), *claim)[0] == verdict


def test_published_ratios_are_those_of_the_seed() -> None:
    values = _published("multi-buffer-pool")
    for device in ("host", "emulated"):
        assert values[f"F2-disk-8v128M-{device}"] == pytest.approx(1.95, abs=0.005)
        assert values[f"F2-disk-1v128M-{device}"] == pytest.approx(1.24, abs=0.005)
        assert values[f"F1-disk-8v1-{device}"] == pytest.approx(6.64 / 6.68)
    assert values["F5"] == pytest.approx(9.3, abs=0.05)


def test_published_pages_by_instance_add_up_to_the_pages_read() -> None:
    figures = studies.find("multi-buffer-pool").published()
    parts = [figures[f"instance-{i}-pages"].value for i in range(8)]
    assert sum(parts) == figures["debug-2G-8-pass1-pages"].value
    assert max(abs(p / (sum(parts) / 8) - 1) for p in parts) == pytest.approx(0.0193, abs=0.0001)


def test_every_claim_is_estimated_where_its_arms_ran(study: Study) -> None:
    runs = [made_run(study, t) for t in planned(study, ["x"], replicates=3, in_turn=True)]
    found = {v.claim: v for v in _verdicts(study, runs)}
    for claim in study.claims():
        if claim.measure is not None:
            assert found[claim.id].n == 3, claim.id


@pytest.mark.parametrize("name", ["more-memory", "compressed-insert", "raid-comparison"])
def test_every_claim_names_arms_that_quick_has(name: str) -> None:
    study = studies.find(name)
    arms = [vars(arm) for arm in study.arms(study.check({}), "mysql-9.7")]
    for claim in study.claims():
        for side in claim.sides:
            at = {k: v for k, v in side.items() if k not in study.kind.within}
            assert sum(at.items() <= arm.items() for arm in arms) == 1, claim.id


def test_claims_on_inserts_speak_of_metrics_that_the_reference_has() -> None:
    study = studies.find("compressed-insert")
    runs = study.read(ROOT / "reports" / "compressed-insert" / "2026-11-28-1").runs
    metrics = {name for run in runs for row in run.observations for name in row}
    assert {claim.measure.metric for claim in study.claims() if claim.measure} <= metrics
    heads = {claim.id.split("-")[0] for claim in study.claims()}
    assert heads == {"C1", "C2", "C3", "C4", "C5", "C6", "H5", "H6"}


@pytest.mark.parametrize("name", sorted(studies.names()))
def test_every_claim_names_the_levels_within_an_arm_that_its_metric_has(name: str) -> None:
    study = studies.find(name)
    for claim in study.claims():
        for side in claim.sides:
            named = study.kind.compared.get(claim.measure.metric, ())
            assert set(named) <= side.keys(), claim.id


@pytest.mark.parametrize("name", sorted(studies.names()))
def test_every_published_claim_has_what_its_original_states(name: str) -> None:
    for claim in studies.find(name).claims():
        assert bool(claim.source) is (claim.stands != "hypothesis"), claim.id
        assert claim.source is None or re.match(r"S[0-4]\b", claim.source), claim.id


def test_a_claim_says_itself_what_it_means_that_no_run_has_its_metric() -> None:
    study = studies.find("compressed-insert")
    trials = planned(study, ["mysql-5.6.24"], replicates=2)
    late = [{"span": "late", "per_s": 5.0}]
    runs = [made_run(study, t, observations=late) for t in trials]
    found = {v.claim: v for v in _verdicts(study, runs, "mysql-5.6.24")}
    assert "servers up to 5.6 have none" in str(found["H6-pages-host"].reason)
    assert found["H6-rows-host"].estimate == 1.0


@pytest.mark.parametrize(
    ("digits", "low", "high"),
    [("2", 1.5, 2.5), ("70", 65, 75), ("90", 85, 95), ("2.6", 2.6 / 1.05, 2.73), ("5", 4.5, 5.5),
     ("0.79", 0.79 / 1.05, 0.79 * 1.05), ("220", 220 / 1.05, 231)],
)  # fmt: skip
def test_a_number_is_true_within_its_digits_and_a_twentieth(
    digits: str, low: float, high: float
) -> None:
    assert Holds(about=digits).bounds(None) == pytest.approx((low, high))


@pytest.mark.parametrize("digits", ["0", "-2", "1e3", "2,5", "0.0", ""])
def test_what_is_no_printed_number_is_refused(digits: str) -> None:
    with pytest.raises(ValidationError):
        Holds(about=digits)


def test_published_values_on_memory_are_those_of_the_seeds() -> None:
    values = _published("more-memory")
    assert values["A2-ro"] == 2.6
    assert values["A3-fusionio-rw"] == 5
    assert values["B1-ro"] == pytest.approx(3.030, abs=0.0005)
    assert values["B1-rw"] == pytest.approx(2.996, abs=0.0005)
    heads = {claim.split("-")[0] for claim in values}
    assert heads == {*(f"A{n}" for n in range(1, 8)), "B1", "B2", "H1", "H2", "H3", "H4"}


@pytest.mark.parametrize(("pages", "verdict"), [(1.0, "inconclusive"), (0.02, "contradicted")])
def test_a_pool_that_has_not_settled_contradicts_nothing(pages: float, verdict: str) -> None:
    """Half of the data in memory at half of the throughput: H3 is wrong, if the pool was ready."""
    study = studies.find("more-memory")
    runs = []
    for trial in planned(study, ["x"], replicates=3):
        if trial.factors["load"] == "read_only":
            special = trial.factors["distribution"] == "special"
            slow = special and trial.factors["pool_ratio"] == 0.5
            row = {
                "tps": (500.0 if slow else 1000.0) + trial.block,
                "pages_read_per_tx": pages if special else 13.0,
            }
            runs.append(made_run(study, trial, observations=[row]))
    [h3] = [v for v in _verdicts(study, runs) if v.claim == "H3"]
    assert h3.verdict == verdict
    assert ("had not settled" in str(h3.reason)) == (verdict == "inconclusive")


def test_every_claim_of_the_study_is_there() -> None:
    heads = {claim.split("-")[0] for claim in _published("multi-buffer-pool")}
    assert heads == {"F1", "F2", "F3", "F4", "F5", "F6", "F7", "F8", "H8", "H9", "H10"}


def test_invalid_runs_support_no_verdict_and_the_reason_is_given(study: Study) -> None:
    wrong = [{"check": "debug build", "result": "invalid", "says": "this is a debug build"}]
    runs = [made_run(study, t, checks=wrong) for t in planned(study, ["x"], replicates=3)]
    found = _verdicts(study, runs)
    assert {v.verdict for v in found} == {"not-run"}
    assert any("this is a debug build" in str(v.reason) for v in found)
    said = display.warnings(RunSet(runs, VARIABLES), [], {})
    assert isinstance(said, display.Alert)
    counted = "Not valid: 33 of 33 runs of x (33 by the check 'debug build')"
    assert said.lines == [f"{counted}. No verdict rests on them."]
    assert len(said.details) == 33
    assert "this is a debug build" in said.details[0]


def test_arms_that_differ_in_more_than_their_factors_support_no_verdict(study: Study) -> None:
    def run(trial: Trial) -> Run:
        digest = 16 * ("b" if trial.factors["instances"] == 8 else "a")
        conditions = made_run(study, trial).conditions
        return made_run(study, trial, conditions={**conditions, "variables": digest})

    runs = [run(t) for t in planned(study, ["x"], replicates=3)]
    sets = {
        16 * "a": {"innodb_io_capacity": "2000"},
        16 * "b": {"innodb_io_capacity": "200"},
    }
    found = _verdicts(study, runs, variables=sets)
    assert {v.verdict for v in found} == {"not-run"}
    assert all("innodb_io_capacity" in str(v.reason) for v in found)


def test_a_cold_ratio_is_doubted_where_equal_runs_cost_the_kernel_unequally(study: Study) -> None:
    def run(trial: Trial, kernel_s: float) -> Run:
        first, *rest = made_run(study, trial).observations
        return made_run(study, trial, observations=[{**first, "kernel_cpu_s": kernel_s}, *rest])

    trials = planned(study, ["x"], replicates=3)
    even = _verdicts(study, [run(t, 0.5) for t in trials])
    uneven = _verdicts(study, [run(t, 0.2 + 0.6 * t.block) for t in trials])
    assert not any("in the kernel" in str(v.reason) for v in even)
    doubted = {v.claim for v in uneven if "in the kernel" in str(v.reason)}
    cold = ("F1-disk-8v1", "F1-disk-1v256M", "F1-disk-8v256M", "F2-disk-8v128M", "F2-disk-1v128M",
            "F2-disk-8v1", "H8-disk")  # fmt: skip
    assert doubted >= {f"{claim}-{device}" for claim in cold for device in ("host", "emulated")}
    assert not any("warm-8v" in claim or "warm-1v" in claim for claim in doubted)
    assert {v.verdict for v in uneven if v.claim in doubted} == {"inconclusive"}
    assert "on x runs that cost the kernel alike" in display.Verdicts(uneven)._repr_html_()


def test_a_doubt_that_bars_nothing_and_a_claims_own_reason_are_caveats(study: Study) -> None:
    runs = [made_run(study, t) for t in planned(study, ["x"], replicates=3)]
    [claim] = [c for c in study.claims() if c.id == "F1-warm-8v1"]
    with_care = claim.model_copy(update={"care": "one disk"})
    [v] = _verdicts(
        study, runs, claims=[with_care], doubts=[lambda _: Doubted(Message("two disks"))]
    )
    assert (v.verdict, str(v.caveat)) == ("reproduced", "two disks; one disk")
    assert "†" in display.Verdicts([v])._repr_html_()
    one_block = [run for run in runs if run.block == 0]
    [v] = _verdicts(study, one_block, claims=[with_care])
    assert (v.verdict, v.caveat) == ("inconclusive", None)


@pytest.mark.parametrize(
    ("metric", "steady", "says"),
    [("tps", (1, 0), "1 of 6"), ("kept_ratio", (1, 0), "3 of 12"), ("tps", (1, 1), "")],
)
def test_what_was_not_steady_decides_nothing(
    metric: str, steady: tuple[int, int], says: str
) -> None:
    """One window of one arm, or, of a metric of whole runs, one window in each of its runs."""
    study = studies.find("raid-comparison")
    runs = []
    for trial in planned(study, ["x"], replicates=3):
        one_arm = trial.factors["device"] == "raid10-4"
        drifts = one_arm and (metric == "kept_ratio" or trial.block == 0)
        rows: list[dict[str, Any]] = [
            {"threads": threads, "tps": 10.0 * (1 + one_arm), "steady": reached if drifts else 1}
            for threads, reached in zip((10, 100), steady[::-1], strict=True)
        ]
        rows.append({"kept_ratio": 0.5 * (1 + one_arm)})
        runs.append(made_run(study, trial, observations=rows))
    name = {"tps": "D3-raid10-raid5-ro", "kept_ratio": "D2-kept-raid1"}[metric]
    [v] = [v for v in _verdicts(study, runs) if v.claim == name]
    if not says:
        assert v.verdict == "reproduced"
        return
    assert v.verdict == "inconclusive"
    assert str(v.reason).startswith(
        f"not steady: {says} windows; otherwise: measured 2, wholly within"
    )
    assert (v.estimate, v.blocks_needed, str(v.needs)) == (2.0, None, "windows that are steady")


@pytest.mark.parametrize(("waits", "is_doubted"), [(0.5, False), (3.0, True)])
def test_a_server_that_flushed_single_pages_for_those_it_read_decides_nothing(
    waits: float, is_doubted: bool
) -> None:
    study = studies.find("more-memory")
    [claim] = [claim for claim in study.claims() if claim.id == "A1-rw"]
    row = {"tps": 50.0, "pages_read_per_tx": 20.0, "free_page_waits_per_tx": waits, "steady": 1}
    runs = [made_run(study, trial, observations=[row]) for trial in planned(study, ["x"])]
    doubted = doubts.single_flushes(doubts.Sample(claim, RunSet(runs, {}, study.kind.within)))
    assert (doubted is not None) is is_doubted


def test_no_slower_has_a_margin_and_says_so(study: Study) -> None:
    def judged(factor: float) -> Verdict:
        runs = []
        for trial in planned(study, ["x"], replicates=4):
            slower = factor * (1 + 0.001 * trial.block) if trial.factors["instances"] == 8 else 1.0
            rows = [{**row, "seconds": 1.0 if row.get("side") == "other" else slower}
                    for row in made_run(study, trial).observations[:2]]  # fmt: skip
            runs.append(made_run(study, trial, observations=rows))
        return next(v for v in _verdicts(study, runs) if v.claim == "F1-warm-8v1")

    assert [judged(f).verdict for f in (1.03, 1.05, 1.07)] == [
        "reproduced", "inconclusive", "contradicted",
    ]  # fmt: skip
    assert str(judged(1.03).reason).endswith("the claim's at most 1 with a margin of 5 %")


def test_means_lie_where_their_metric_can() -> None:
    ratio = mean([0.823, 2.977, 0.821], "data over pool")
    assert 0 < ratio.low < ratio.estimate < ratio.high
    assert ratio.estimate == pytest.approx(geometric_mean([0.823, 2.977, 0.821]).estimate)
    share = mean([0.99, 0.9, 1.0], "share of all processors")
    assert (share.estimate, share.high) == (pytest.approx(0.9633, abs=1e-4), 1.0)
    assert mean([0.0, 0.0, 3.0], "pages").low == 0
    assert mean([-1.0, 0.0, 3.0], "°C").low < -1


def test_a_largest_value_has_no_interval_and_one_above_refutes(study: Study) -> None:
    trials = planned(study, ["x"], replicates=3)

    def f3(pages: int) -> Verdict:
        runs = []
        for trial in trials:
            first, second, *rest = made_run(study, trial).observations
            rows = [first, {**second, "pages_read": pages * (trial.block == 2)}, *rest]
            runs.append(made_run(study, trial, observations=rows))
        return next(v for v in _verdicts(study, runs) if v.claim == "F3")

    none, some = f3(0), f3(7)
    assert (none.verdict, none.estimate, none.low, none.high) == ("reproduced", 0, None, None)
    assert "up to 63% of further runs" in str(none.reason)
    assert (some.verdict, some.estimate, some.low, some.high) == ("contradicted", 7, None, None)


def test_a_ratio_of_nothing_is_none(study: Study) -> None:
    rows: list[dict[str, Any]] = [{"pass": 2, "seconds": 0.0}]
    runs = [made_run(study, t, observations=rows) for t in planned(study, ["x"], replicates=3)]
    [v] = [v for v in _verdicts(study, runs) if v.claim == "F1-warm-8v1"]
    assert (v.verdict, v.estimate, v.n) == ("inconclusive", None, 3)
    assert str(v.reason) == "seconds is 0 in a run, which leaves no ratio"


@pytest.mark.parametrize(
    ("knees", "verdict", "estimate", "low", "high", "shown_as"),
    [
        ([None] * 3, "inconclusive", None, 130, None, "at least 130"),
        ([None] * 6, "contradicted", None, 130, None, "at least 130"),
        ([70, 71, None], "inconclusive", 71, None, None, "71"),
        ([70, 71, 71, 71, 72, None, None], "inconclusive", 71, 70, None, "71 (at least 70)"),
        ([70, 71, 71, 71, 71, 72, 72, 73, None], "reproduced", 71, 71, 73, "71 (71 to 73)"),
        ([100, 101, 102, 103, 104, 105, None, None, None], "contradicted", 104, 101, None,
         "104 (at least 101)"),
        ([70, 71, 72], "reproduced", 70.9953, 68.5541, 73.5234, "71 (68.6 to 73.5)"),
    ],
)  # fmt: skip
def test_a_knee_that_was_not_found_is_no_value(
    knees: list[float | None],
    verdict: str,
    estimate: float | None,
    low: float | None,
    high: float | None,
    shown_as: str,
) -> None:
    study = studies.find("compressed-insert")
    runs = []
    for trial in planned(study, ["x"], replicates=len(knees)):
        knee = knees[trial.block]
        row = {"knee_mrows": knee or 130.0, "knee_found": int(knee is not None)}
        runs.append(made_run(study, trial, observations=[row]))
    [v] = [v for v in _verdicts(study, runs) if v.claim == "C2-knee-host"]
    assert (v.verdict, v.estimate, v.low, v.high) == (verdict, estimate, low, high), str(v.reason)
    assert shown_as in display.Verdicts([v])._repr_html_()
    if knees == [None] * 3:
        assert "found in none of 3 runs: beyond 130" in str(v.reason)
        assert (v.blocks_needed, str(v.needs)) == (6, "6 blocks or more")


def test_the_interval_of_a_censored_median_holds_its_level() -> None:
    """True median 1, values above 1.2 are not found; for 6 to 12 runs."""
    draw = random.Random(1)
    for n in (6, 8, 9, 12):
        held = 0
        for _ in range(2000):
            values = [math.exp(draw.gauss(0, 0.5)) for _ in range(n)]
            found = median([min(v, 1.2) for v in values], [v < 1.2 for v in values])
            held += found.low <= 1 <= found.high
        assert held / 2000 >= 0.94


@pytest.mark.parametrize(
    ("control", "withheld"),
    [
        (FailedControl(Message("a load beside it")), {"x": True, "y": True}),
        (FailedControl(Message("a load beside it"), server="y"), {"x": False, "y": True}),
        (FailedControl(Message("a load beside it"), at={"instances": 8}), {"x": True, "y": True}),
        (FailedControl(Message("a load beside it"), at={"pass": 2}), {"x": True, "y": True}),
        (FailedControl(Message("a load beside it"), at={"pass": 1}), {"x": False, "y": False}),
        (FailedControl(Message("a load beside it"), at={"pool": "128M"}), {"x": False, "y": False}),
    ],
)
def test_a_failed_control_withholds_the_verdicts_that_it_concerns(
    study: Study, control: FailedControl, withheld: dict[str, bool]
) -> None:
    runs = [made_run(study, t) for t in planned(study, ["x", "y"], replicates=3)]
    for server, is_withheld in withheld.items():
        found = _verdicts(study, runs, server, failed_controls=[control])
        [v] = [v for v in found if v.claim == "F1-warm-8v1"]
        assert v.verdict == ("withheld" if is_withheld else "reproduced")
        assert (str(v.reason) == "a load beside it") is is_withheld
        assert (v.estimate, v.n) == (1.0, 3)
        [kept] = [v for v in found if v.claim == "F4-kept"]
        if control.at.get("pool") == "128M" or control.at.get("pass") == 1:
            assert kept.verdict == "withheld"
        page = display.Verdicts([v])._repr_html_()
        assert ("a load beside it" in page) is is_withheld


_DRIFT = FailedControl(Message("the machine drifted: it changed by -5.0% a block"), is_drift=True)


def _changing(study: Study, arm: str, a_block: float, blocks: int = 8) -> list[Run]:
    """Return runs of which those of one number of instances change from block to block."""
    chance = random.Random(3)
    return [
        made_run(study, trial, observations=[{"pass": 2, "seconds": seconds}])
        for trial in planned(study, ["x"], replicates=blocks)
        for slower in [1 + a_block if arm in ("all", str(trial.factors["instances"])) else 1.0]
        for seconds in [slower**trial.block * math.exp(chance.gauss(0, 0.01))]
    ]


@pytest.mark.parametrize(
    ("arm", "a_block", "blocks", "is_withheld"),
    [
        ("all", 0.0, 8, False),
        ("all", 0.05, 8, True),
        # Of a change by half of that, one cannot say that it is less than what a drift is.
        ("all", 0.025, 5, True),
        # The ratio follows it all, and the mean of both arms a half.
        ("8", 0.05, 8, True),
        # Nothing is seen in three blocks, which shows nothing.
        ("all", 0.0, 3, True),
    ],
)
def test_a_drift_withholds_but_where_each_arm_is_shown_to_hold_still(
    study: Study, arm: str, a_block: float, blocks: int, is_withheld: bool
) -> None:
    runs = _changing(study, arm, a_block, blocks)
    [v] = [v for v in _verdicts(study, runs, failed_controls=[_DRIFT]) if v.claim == "F1-warm-8v1"]
    assert v.verdict == ("withheld" if is_withheld else "reproduced")
    if not is_withheld:
        assert v.caveat is not None
        assert str(v.caveat).startswith(f"{_DRIFT.says}, these values by -")


def test_equal_values_held_still_however_few(study: Study) -> None:
    runs = [made_run(study, t) for t in planned(study, ["x"], replicates=3)]
    [v] = [v for v in _verdicts(study, runs, failed_controls=[_DRIFT]) if v.claim == "F1-warm-8v1"]
    assert (v.verdict, str(v.caveat)) == ("reproduced", f"{_DRIFT.says}, these values not at all")


def test_another_failed_control_withholds_what_held_still(study: Study) -> None:
    failed = [_DRIFT, FailedControl(Message("a load beside it"))]
    found = _verdicts(study, _changing(study, "none", 0.0), failed_controls=failed)
    [v] = [v for v in found if v.claim == "F1-warm-8v1"]
    assert (v.verdict, str(v.reason)) == ("withheld", "a load beside it")


def test_a_change_of_three_percent_is_seldom_taken_for_holding_still(study: Study) -> None:
    claim = next(one for one in study.claims() if one.id == "F1-warm-8v1")
    still = 0
    for seed in range(200):
        chance = random.Random(seed)
        runs = [
            made_run(study, t, observations=[{"pass": 2, "seconds": seconds}])
            for t in planned(study, ["x"], replicates=6)
            if t.factors["instances"] in (1, 8)
            for change in [-0.03 if t.factors["instances"] == 8 else 0.0]
            for seconds in [math.exp(change * t.block + chance.gauss(0, 0.01))]
        ]
        still += bool(drift.held_still(claim, RunSet(runs, {}, {"pass", "instance"})))
    assert still <= 10


def test_every_interval_is_of_the_level_that_is_asked_for(study: Study) -> None:
    trials = planned(study, ["x"], replicates=3)
    runs = [
        made_run(study, t, observations=[{"pass": 2, "seconds": 1.0 + 0.1 * (t.position % 3)}])
        for t in trials
    ]
    plain, strict = (
        {v.claim: v for v in _verdicts(study, runs, level=level, looks=looks)}
        for level, looks in ((0.95, 1), (0.99, 2))
    )
    one, other = plain["H8-warm"], strict["H8-warm"]
    assert one.low is not None and other.low is not None
    assert other.low < one.low
    assert one.power is not None and other.power is not None
    assert other.power < one.power
    assert (one.level, one.looks) == (0.95, 1)
    assert {(v.level, v.looks) for v in strict.values()} == {(0.99, 2)}


def test_a_page_has_what_the_originals_state(study: Study) -> None:
    runs = [made_run(study, t) for t in planned(study, ["x"], replicates=3)]
    page = display.Verdicts(_verdicts(study, runs))._repr_html_()
    assert (
        "<dt>F1-disk-8v1-host, F1-disk-8v1-emulated, F1-disk-1v256M-host, F1-disk-1v256M-emulated, "
        "F1-disk-8v256M-host, F1-disk-8v256M-emulated</dt><dd>S3, correction at the top"
    ) in page


def test_a_build_that_could_not_be_had_has_verdicts_that_say_so(study: Study) -> None:
    runs = [made_run(study, t) for t in planned(study, ["x"], replicates=2)]
    found = _verdicts(study, runs, unavailable={"gone": "no apt on this host"})
    of_gone = [v for v in found if v.server == "gone"]
    assert len(of_gone) == len(study.claims())
    assert {v.verdict for v in of_gone} == {"not-run"}
    assert all("no apt on this host" in str(v.reason) for v in of_gone)


def test_what_would_decide_is_the_number_of_blocks_at_the_same_spread() -> None:
    """With the needed blocks the half-width falls below the distance to the bound, not before."""
    values = [1.0, 1.3, 1.1]
    found = arithmetic_mean(values)
    needed = blocks_needed(found, 1.0, _INF)
    assert decide(found, 1.0, _INF)[0] == "inconclusive"
    assert needed is not None
    spread = (found.high - found.low) / 2 * math.sqrt(3) / student_quantile(0.95, 2)
    for n, decides in ((needed, True), (needed - 1, False)):
        half = spread * student_quantile(0.95, n - 1) / math.sqrt(n)
        assert (half < found.estimate - 1.0) is decides
    assert blocks_needed(Interval(1.0, 0.9, 1.1, 5), 1.0, _INF) is None
    assert blocks_needed(Interval(1.0, math.nan, math.nan, 1), 2.0, _INF) is None


_FACTORS = {"server": ["x"], "path": ["scan", "lookup"], "ratio": {"A": 1.0}, "pass": [1, 2]}
_ARMS = [{"server": "", "path": path, "ratio": 1.0} for path in ("scan", "lookup")]
_CLAIM = """
- id: G1
  says: "a ({each})"
  stands: published
  compare: {metric: seconds, of: {path: lookup}, to: {path: scan}}
  where: {ratio: A}
  each: {pass: [1, 2]}
  holds: {at_least: 3}
"""


def _read(folder: Path, text: str) -> list[Claim]:
    (folder / "claims.yml").write_text(text)
    return claims_of(folder / "claims.yml", _FACTORS, {"seconds"}, _ARMS)


def test_a_claim_is_repeated_for_each_level_and_names_are_resolved(tmp_path: Path) -> None:
    one, two = _read(tmp_path, _CLAIM)
    assert (one.id, one.says, two.id) == ("G1-1", "a (1)", "G1-2")
    assert one.sides[0] == {"ratio": 1.0, "pass": 1, "path": "lookup"}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("path: scan", "pth: scan", "'pth' is no factor of the study; the factors are: server"),
        ("path: scan", "path: walk", "path has no level 'walk'; its levels are: scan, lookup"),
        ("{ratio: A}", "{ratio: B}", "ratio has no level 'B'; its levels are: A"),
        ("metric: seconds", "metric: tps", "'tps' is no metric of the study; the metrics are:"),
        ("to: {path: scan}", "to: {}", "ratio 1.0 leaves 2 arms"),
        ("holds:", "hold:", "(a claim may have: id, says"),
        ("  holds: {at_least: 3}", "", "has to say when it holds"),
        ("compare:", "mean: {metric: seconds}\n  compare:", "one of compare, mean, largest"),
        ("stands: published", "stands: perhaps", "'published', 'corrected'"),
        ("{at_least: 3}", "{at_least: 0, margin: 0.1}", "needs a positive at_least or at_most"),
        ("{at_least: 3}", "{about_published: 0.1, margin: 0.1}", "needs a positive at_least"),
        (
            "compare: {metric: seconds, of: {path: lookup}, to: {path: scan}}",
            "largest: {metric: seconds, of: [{path: scan}]}",
            "of which only at_most can be judged",
        ),
        (
            "compare: {metric: seconds, of: {path: lookup}, to: {path: scan}}",
            "mean: {metric: seconds, of: {path: scan}, censored_by: seen}",
            "'seen' is no metric",
        ),
        ("[1, 2]", "7", "the claim cannot be used"),
        ("[1, 2]", f"{list(range(2001))}", "makes 2,001 claims of it, and 2,000 are the most"),
        ("a ({", f"{'x' * 2000} ({{", "characters with all levels filled in"),
    ],
)
def test_a_malformed_claim_is_refused_with_its_line(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    with pytest.raises(InputError) as caught:
        _read(tmp_path, "# A comment.\n" + _CLAIM.replace(old, new))
    assert f"{tmp_path / 'claims.yml'}, line 3" in str(caught.value)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (_CLAIM.replace("{ratio: A}", "{ratio: A, ratio: B}"), "the key 'ratio' appears twice"),
        ("- &a [x]\n- [*a, *a]\n", "an alias refers to line 1"),
        ("- " + "[" * 3000, "nested too deep"),
        ("#" * 300_000, "300,000 bytes, and 262,144 are the most"),
        ("x: 1\n", "no list of claims"),
    ],
)
def test_a_file_of_claims_that_could_grow_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError, match="cannot be read") as caught:
        _read(tmp_path, text)
    assert said in str(caught.value)


def test_claims_spread_over_thousands_cubed_are_counted_and_not_made(tmp_path: Path) -> None:
    each = ", ".join(f"{factor}: {list(range(4000))}" for factor in ("ratio", "pass", "path"))
    with pytest.raises(InputError, match=r"makes 64,000,000,000 claims of it, and 2,000 are"):
        _read(tmp_path, re.sub(r"each: .*", f"each: {{{each}}}", _CLAIM))


def _verdicts(
    study: Study,
    runs: list[Run],
    server: str = "x",
    variables: dict[str, dict[str, str]] = VARIABLES,
    claims: list[Claim] | None = None,
    **options: Any,
) -> list[Verdict]:
    return verdicts(
        study.claims() if claims is None else claims,
        study.published(),
        RunSet(runs, variables, study.kind.within),
        [server],
        declared=study.kind.variables,
        units=study.kind.units,
        **{"doubts": study.kind.doubts, **options},
    )


def _published(name: str) -> dict[str, float | None]:
    study = studies.find(name)
    return {claim.id: published_value(study.published(), claim) for claim in study.claims()}


def _session(claims_sha256: str) -> SessionStart:
    return SessionStart(
        began_at=datetime(2026, 3, 4, 5, 6, tzinfo=UTC),
        plan_sha256="1" * 64,
        claims_sha256=claims_sha256,
        trials=1,
        blocks=1,
        innolab={"version": "0", "commit": None, "dirty": None},
    )


def test_a_page_says_when_claims_were_registered(study: Study) -> None:
    found = display.registration([_session("2" * 64)], "2" * 64, study.claims())
    assert "on 2026-03-04 at 05:06 UTC; unchanged since" in found.says
    assert found.changed is None


def test_a_claim_changed_after_it_was_registered_is_named_with_its_day(study: Study) -> None:
    first, *others = study.claims()
    later = first.model_copy(update={"changed": date(2026, 3, 9)})
    earlier = others[0].model_copy(update={"changed": date(2026, 3, 1)})
    found = display.registration([_session("2" * 64)], "3" * 64, [later, earlier])
    assert found.changed is not None
    assert f"{first.id} on 2026-03-09" in found.changed
    assert earlier.id not in found.changed
    unnamed = display.registration([_session("2" * 64)], "3" * 64, [earlier])
    assert unnamed.changed is not None
    assert "on a day that they do not name" in unnamed.changed


def test_what_innolab_0_1_registered_is_nothing(study: Study) -> None:
    assert "registered no claims" in display.registration([], "2" * 64, study.claims()).says
