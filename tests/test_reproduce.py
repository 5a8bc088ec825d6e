"""One claim measured again: its arms alone, what that takes, and both verdicts side by side."""

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from conftest import BIN, ROOT, Innolab, made_run, made_variables, plan_of, planned

from innolab import studies
from innolab.analysis.claims import Claim
from innolab.analysis.verdicts import Verdict
from innolab.base.errors import InputError
from innolab.hosts import machine, observe
from innolab.hosts.local import HERE
from innolab.measure import prepare as planning
from innolab.measure import reproduction, reproduction_answer, resources
from innolab.measure.estimate import Earlier
from innolab.record.plan import Blocks, Plan
from innolab.record.run import Run, trial_key
from innolab.record.runlog import RunLog, SessionStart
from innolab.record.runs import RunSet
from innolab.report import display, manifest
from innolab.storage import emulated
from innolab.studies import judging, schedule
from innolab.studies.experiment import Experiment
from innolab.studies.parameters import Parameters
from innolab.studies.study import Arm, Study

PACKAGE = ROOT / "tests" / "other_package"
_REPORTS = sorted(path.parent for path in (ROOT / "reports").glob("*/*/manifest.json"))
_IDS = [f"{path.parent.name}/{path.name}" for path in _REPORTS]


_ARMS: dict[tuple[str, str, str], list[Arm]] = {}
_CLAIMS: dict[str, list[Claim]] = {}
_LISTED, _READ = Study.arms, Study.claims


def _arms(study: Study, parameters: Parameters, build: str) -> list[Arm]:
    key = study.name, parameters.model_dump_json(), build
    if key not in _ARMS:
        _ARMS[key] = _LISTED(study, parameters, build)
    return _ARMS[key]


def _claims_once(study: Study) -> list[Claim]:
    if study.name not in _CLAIMS:
        _CLAIMS[study.name] = _READ(study)
    return _CLAIMS[study.name]


@pytest.fixture(autouse=True)
def listed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """List arms and claims once: one study combines 46,656 arms, and each claim asks many times."""
    monkeypatch.setattr(Study, "arms", _arms)
    monkeypatch.setattr(Study, "claims", _claims_once)


@cache
def _earlier(folder: Path) -> Earlier:
    return Earlier.read(folder, studies.find(Plan.read(folder).study))


def _claims(reference: Earlier) -> list[Claim]:
    """Return the claims whose arms a reference has."""
    whole = reference.experiment
    arms = [vars(arm) for arm in whole.arms]
    return [claim for claim in whole.study.claims() if claim.measure and claim.arms_among(arms)]


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that has every dataset, whatever this one has."""
    monkeypatch.setattr(resources, "_datasets", lambda *_: ([], 0.0))


# What is restricted.


@pytest.mark.parametrize("folder", _REPORTS, ids=_IDS)
def test_every_claim_of_a_reference_gets_its_arms_and_no_other(folder: Path) -> None:
    reference = _earlier(folder)
    whole = reference.experiment
    claims = _claims(reference)
    assert claims
    within = set(whole.study.kind.within)
    for claim in claims:
        restricted = planning.only(whole, claim)
        chosen = restricted.plan
        sides = [{k: v for k, v in side.items() if k not in within} for side in claim.sides]
        for build in reference.plan.builds:
            arms = [vars(arm) for arm in restricted.arms_on(build)]
            fitting = [
                arm
                for arm in map(vars, whole.arms_on(build))
                if any(side.items() <= arm.items() for side in sides)
            ]
            every_side = all(any(side.items() <= a.items() for a in fitting) for side in sides)
            assert arms == (fitting if every_side else [])
            # The control is one of them, once on each server.
            twins = [twin for twin in chosen.twins if twin["server"] == build]
            assert len(twins) == bool(arms)
            assert all(twin in arms for twin in twins)
        trials = restricted.trials
        assert len(trials) < len(whole.trials)
        assert {trial_key(0, t.factors) for t in trials} == {
            trial_key(0, arm) for arm in chosen.arms
        }


@pytest.mark.parametrize("folder", _REPORTS, ids=_IDS)
def test_a_restricted_plan_has_a_digest_of_its_own_and_a_whole_one_keeps_its(folder: Path) -> None:
    reference = _earlier(folder)
    whole = reference.experiment
    chosen = [planning.only(whole, claim) for claim in _claims(reference)]
    digests = {experiment.plan_sha256 for experiment in [whole, *chosen]}
    assert len(digests) == 1 + len(chosen)
    entries, _ = RunLog(folder / "runs.jsonl", whole.study.kind.upgrade).entries()
    sessions = [e.content for e in entries if isinstance(e.content, SessionStart)]
    if sessions:  # Runs of schema 1 have none.
        assert {s.plan_sha256 for s in sessions} == {whole.plan_sha256}


def test_a_restricted_plan_is_written_and_read(study: Study, tmp_path: Path) -> None:
    [claim] = [one for one in study.claims() if one.id == "F1-warm-8v1"]
    whole = Experiment.from_plan(plan_of(study, ["x", "y"]), study)
    chosen = planning.only(whole, claim).plan
    chosen.write(tmp_path)
    assert Plan.read(tmp_path) == chosen
    assert chosen.claims == ["F1-warm-8v1"]
    assert {(arm["server"], arm["instances"]) for arm in chosen.arms} == {
        ("x", 1), ("x", 8), ("y", 1), ("y", 8)
    }  # fmt: skip


def _runs(experiment: Experiment, blocks: int, **seconds: float) -> RunSet:
    """Return runs of a plan in which arms of eight instances take so many seconds, others 2."""
    study = experiment.study
    made = []
    for trial in experiment.trials:
        if trial.block < blocks:
            run = made_run(study, trial, twin=trial.twin)
            for row in run.observations:
                if "seconds" in row and trial.factors["instances"] == 8:
                    row["seconds"] = seconds[str(trial.factors["server"])]
            made.append(run)
    return RunSet(made, {"0123456789abcdef": {}}, study.kind.within)


def test_only_its_own_claim_is_judged_and_keeps_its_arms(study: Study) -> None:
    [claim] = [one for one in study.claims() if one.id == "F1-warm-8v1"]
    whole = Experiment.from_plan(replace(plan_of(study, ["x", "y"]), blocks=Blocks(3, 9)), study)
    restricted = planning.only(whole, claim)
    runs = _runs(restricted, 3, x=1.0, y=4.0)
    found = judging.verdicts(restricted, runs)
    assert [(v.claim, v.server, v.verdict) for v in found] == [
        ("F1-warm-8v1", "x", "reproduced"),
        ("F1-warm-8v1", "y", "contradicted"),
    ]
    # Others share its arms and are open; nothing is left to do for this one.
    due = schedule.due(restricted, runs)
    assert {trial.block for trial in due} == {0, 1, 2}
    others = judging.verdicts(restricted.with_plan(claims=[]), runs)
    assert len(others) > 2


def test_a_plan_for_a_claim_refuses_a_device_that_is_not_possible(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emulated, "why_impossible", lambda: "no root here")
    whole = Experiment.fresh(study, {"builds": ["x"], "devices": ["host", "s3-disk"]})
    claims = {claim.id: claim for claim in study.claims()}
    for name, possible in (("F1-disk-8v1-host", True), ("F1-disk-8v1-emulated", False)):
        restricted = planning.only(whole, claims[name])
        if possible:
            planning._require_devices(restricted)
            continue
        with pytest.raises(InputError, match="s3-disk cannot be emulated here: no root here"):
            planning._require_devices(restricted)


# Which claim, and which reference.


def test_every_claim_is_found_in_its_study() -> None:
    for name in studies.names():
        for claim in studies.find(name).claims():
            if claim.not_measured:
                with pytest.raises(InputError, match=f"{claim.id} of {name} is never measured"):
                    reproduction.find(claim.id)
            else:
                study, found = reproduction.find(claim.id)
                assert (study.name, found) == (name, claim)


@pytest.mark.parametrize(
    ("given", "close"),
    [
        ("F1-warm-8v2", "F1-warm-8v1"),
        ("f1-warm-8v1", "F1-warm-8v1"),
        ("F1-disk", "F1-disk-8v1-host"),
        ("g-p4-dsk", "G-P4-disk"),
    ],
)
def test_an_unknown_claim_names_close_ones(given: str, close: str) -> None:
    with pytest.raises(InputError, match=rf"Close ones: .*{close}"):
        reproduction.find(given)


@pytest.mark.parametrize("given", ["", "nothing of the kind", "../../etc", "a\x1b[2Jb" * 1000])
def test_a_strange_claim_is_refused_in_one_paragraph(given: str) -> None:
    with pytest.raises(InputError, match="innolab plan STUDY") as refused:
        reproduction.find(given)
    assert "Close ones" not in str(refused.value)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 600


def test_a_reference_without_the_arms_is_refused(study: Study) -> None:
    experiment = Experiment.fresh(study, {"builds": ["x"], "devices": ["host"]})
    reference = Earlier("multi-buffer-pool/1", experiment, RunSet([], {}, study.kind.within), {})
    claims = {claim.id: claim for claim in study.claims()}
    with pytest.raises(InputError, match="Name another report of multi-buffer-pool with --report"):
        reproduction.servers_of(reference, claims["F1-disk-8v1-emulated"])
    assert reproduction.servers_of(reference, claims["F1-warm-8v1"]) == ["x"]
    missing = experiment.with_plan(missing_devices={"s3-disk": "it needs root"})
    lost = reference._replace(experiment=missing)
    with pytest.raises(InputError, match=r"did not measure .*: it needs root"):
        reproduction.servers_of(lost, claims["F1-disk-8v1-emulated"])


def _verdict(outcome: str, **changes: Any) -> Verdict:
    body = {
        "claim": "C", "server": "x", "says": "s", "stands": "published", "verdict": outcome,
        "published": None, "estimate": 1.0, "low": 0.9, "high": 1.1, "level": 0.95, "n": 3,
        "reason": "r",
    }  # fmt: skip
    return Verdict.model_validate({**body, **changes})


@pytest.mark.parametrize(
    ("one", "other", "agree"),
    [
        ("reproduced", "reproduced", True),
        ("contradicted", "contradicted", True),
        ("reproduced", "contradicted", False),
        ("inconclusive", "reproduced", None),
        ("withheld", "withheld", None),
        ("contradicted", "not-run", None),
    ],
)
def test_verdicts_agree_only_where_both_decide(one: str, other: str, agree: bool | None) -> None:
    assert reproduction_answer.agrees(_verdict(one), _verdict(other)) is agree
    assert reproduction_answer.agrees(_verdict(other), _verdict(one)) is agree


# What it takes.


def _wall_s(run: Run) -> float:
    return resources._between(run.started_at, run.ended_at)


@pytest.mark.parametrize("folder", _REPORTS, ids=_IDS)
def test_the_time_of_each_claim_is_that_of_its_arms_in_the_record(
    folder: Path, prepared: None
) -> None:
    reference = _earlier(folder)
    study = studies.find(reference.plan.study)
    whole_s = reference.time_s["total"]
    # Making an array is no part of a trial's own time.
    change_s = resources.TrialTimes(study, reference.runs.runs, "").change_s
    ratios = []
    for claim in _claims(reference):
        chosen = planning.only(reference.experiment, claim).plan
        of = [r for r in reference.runs.runs if r.factors in chosen.arms and not r.twin]
        of = [run for run in of if run.status == "complete"]
        blocks = min(sum(run.factors == arm for run in of) for arm in chosen.arms)
        of = [run for run in of if run.block < blocks]
        if not blocks or len(of) != blocks * len(chosen.arms):
            continue  # A run of an arm failed, which has no time of its own.
        chosen = replace(chosen, twins=[], blocks=Blocks(blocks, blocks))
        found = resources.estimate(Experiment.from_plan(chosen, study), reference, {})
        assert found.expected_s == found.least_s == found.most_s < whole_s
        assert found.memory.bytes > 0
        # An older innolab did not record what its runs took, and fio alone has no server.
        assert found.memory.measured == all("peak_memory_bytes" in run.conditions for run in of)
        assert found.disk.measured == all("disk_bytes" in run.conditions for run in of)
        if study.name == "device-io" and {run.factors["device"] for run in of} == {"host"}:
            assert found.disk.bytes >= of[0].conditions["file_bytes"] > 2**29
        plots = {arm.get(study.design.whole_plot or "") for arm in chosen.arms}
        trials_s = found.expected_s - found.before_s - blocks * len(plots) * change_s
        # Not all of a trial's time has a stage: some made copies of the table, which had none.
        stages_s = sum(sum(run.conditions["time_s"].values()) for run in of)
        assert 0.8 < trials_s / stages_s < 1.5, claim.id
        ratios.append(trials_s / sum(map(_wall_s, of)))
    assert statistics.median(ratios) == pytest.approx(1, abs=0.05), ratios
    assert all(0.85 < ratio < 1.15 for ratio in ratios), ratios


def test_making_arrays_counts_once_a_block() -> None:
    [folder] = [path for path in _REPORTS if path.parent.name == "raid-comparison"]
    reference = _earlier(folder)
    study = studies.find("raid-comparison")
    runs = sorted(reference.runs.runs, key=lambda run: run.started_at)
    pace = resources.TrialTimes(study, runs, "")
    assert pace.change_s > 10
    whole = replace(reference.plan, blocks=reproduction.blocks_of(reference))
    block = [trial for trial in Experiment.from_plan(whole, study).trials if trial.block == 0]
    assert whole.blocks
    # What came before the first array is not on the record.
    took_s = resources._between(runs[0].started_at, runs[-1].ended_at) + pace.change_s
    assert pace.block_s(block) * whole.blocks.last == pytest.approx(took_s, rel=0.05)


def test_one_report_foretells_another_within_a_quarter(prepared: None) -> None:
    """Two sessions of one study on hosts of one speed: the goal of an estimate."""
    one, other = [_earlier(f) for f in _REPORTS if f.parent.name == "access-paths"]
    study = studies.find("access-paths")
    for claim in _claims(one):
        chosen = planning.only(one.experiment, claim).plan
        arms = [arm for arm in chosen.arms if any(r.factors == arm for r in other.runs.runs)]
        chosen = replace(chosen, arms=arms, twins=[], blocks=Blocks(1, 1))
        found = resources.estimate(Experiment.from_plan(chosen, study), one, {})
        took = sum(
            statistics.fmean(
                _wall_s(r) for r in other.runs.runs if r.factors == arm and r.status == "complete"
            )
            for arm in arms
        )
        assert found.expected_s - found.before_s == pytest.approx(took, rel=0.25), claim.id


def _made_reference(study: Study, **conditions: Any) -> Earlier:
    """Return a reference whose trials took 10 s, on two devices, with a second in between."""
    plan = replace(plan_of(study, ["x", "y"], devices=["host", "s3-disk"]), blocks=Blocks(3, 6))
    runs = []
    for trial in Experiment.from_plan(plan, study).trials:
        began = 1_770_000_000 + 11 * trial.position
        moments = (
            time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(began + s)) for s in (0, 10)
        )
        run = made_run(study, trial, **dict(zip(("started_at", "ended_at"), moments, strict=True)))
        device = {"name": trial.factors["device"], "calibration": {"read_per_s": 1.0}}
        run.conditions.update({"device": {**device, "emulated": None}, **conditions})
        runs.append(run)
    kept = RunSet(runs, {"0123456789abcdef": made_variables()}, study.kind.within)
    time_s = {"calibration": 8.0, "set-up": 600.0, "dataset": 40.0}
    return Earlier("multi-buffer-pool/1", Experiment.from_plan(plan, study), kept, time_s)


def _estimate(study: Study, name: str, reference: Earlier, **judged: Verdict) -> Any:
    [claim] = [one for one in study.claims() if one.id == name]
    chosen = planning.only(reference.experiment, claim)
    return resources.estimate(chosen, reference, judged)


def test_devices_of_other_arms_are_not_counted(study: Study, prepared: None) -> None:
    reference = _made_reference(study)
    host = _estimate(study, "F1-disk-8v1-host", reference)
    assert host.before_s == pytest.approx(8.0 / 2)
    emulated_one = _estimate(study, "F1-disk-8v1-emulated", reference)
    # Not the ten minutes in which `make` installed everything.
    assert emulated_one.before_s == pytest.approx(8.0 / 2 + 20)


def test_blocks_are_those_that_the_reference_needed(study: Study, prepared: None) -> None:
    reference = _made_reference(study)
    trial_s, of_server = 11.0, 3  # Two arms, one of them twice.
    early, never = _verdict("reproduced", looks=2), _verdict("inconclusive", looks=4)
    found = _estimate(study, "F1-disk-8v1-host", reference, x=early, y=never)
    assert found.blocks == {"x": 4, "y": 6}
    assert found.left_open == ["y"]
    assert found.expected_s - found.before_s == pytest.approx((4 + 6) * of_server * trial_s)
    assert found.least_s - found.before_s == pytest.approx(2 * 3 * of_server * trial_s)
    assert found.most_s - found.before_s == pytest.approx(2 * 6 * of_server * trial_s)


def test_a_time_that_was_given_cuts_the_last_block(study: Study, prepared: None) -> None:
    reference = _made_reference(study)
    parameters = {**reference.plan.parameters, "effort": "5min"}
    short = reference._replace(
        experiment=Experiment.from_plan(replace(reference.plan, parameters=parameters))
    )
    assert _estimate(study, "F1-disk-8v1-host", short).last == int(300 / (2 * 3 * 11.0))


def test_what_waits_for_processors_counts_by_their_speed(
    study: Study, prepared: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    probed = {"cpu_ops_per_s": 100.0, "memory_bytes_per_s": 1.0}
    stages = {"memory": 3.0, "start/stop": 1.0, "measured passes": 5.0, "probing": 1.0}
    reference = _made_reference(study, probe=probed, time_s=stages)
    monkeypatch.setattr(resources.probe, "cpu_ops_per_s", lambda: 200.0)
    assert resources.speed(reference) == 2
    assert resources.speed(_made_reference(study, probe={"cpu_ops_per_s": 9.0})) == 1, "of a shell"
    [claim] = [one for one in study.claims() if one.id == "F1-disk-8v1-host"]
    chosen = planning.only(reference.experiment, claim)
    same, twice = (resources.estimate(chosen, reference, {}, faster) for faster in (1.0, 2.0))
    trials = 6 * 3 * 2
    # Half of four seconds: passes and probes take what they took.
    assert same.expected_s - twice.expected_s == pytest.approx(trials * 2.0)


def test_data_that_are_not_here_are_counted_or_said(
    study: Study, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    reference = _made_reference(study)
    found = resources.builds.Build("x", "9", ("x",), {}, None, "", "", "0" * 64)
    monkeypatch.setattr(resources.builds, "find", lambda *_: found)
    monkeypatch.setattr(machine, "cache_folder", lambda: tmp_path)
    [claim] = [one for one in study.claims() if one.id == "F1-warm-8v1"]
    chosen = planning.only(reference.experiment, claim).plan
    one = Experiment.from_plan(
        replace(chosen, parameters={**chosen.parameters, "builds": ["x"]}), study
    )
    # Both builds took 40 s together.
    assert resources._datasets(one, reference) == (["x"], 20.0)
    ready = reference._replace(time_s={**reference.time_s, "dataset": 0.0})
    assert resources._datasets(one, ready) == (["x"], None)
    record = study.dataset(one.parameters).folder(tmp_path, found) / "dataset.json"
    record.parent.mkdir(parents=True)
    record.write_text("{}")
    assert resources._datasets(one, ready)[0] == []


def test_memory_and_disk_are_measured_where_the_record_has_them(
    study: Study, prepared: None
) -> None:
    bound = _estimate(study, "F1-warm-8v1", _made_reference(study))
    assert not bound.memory.measured
    assert not bound.disk.measured
    parts = {"dataset": 1000, "shared": 900, "own": 70}
    taken = {"peak_memory_bytes": 5000, "disk_bytes": parts}
    found = _estimate(study, "F1-warm-8v1", _made_reference(study, **taken))
    assert found.memory == (5000, True)
    # Two servers; what is a trial's own ends with it.
    assert found.disk == (2 * (1000 + 900) + 70, True)
    # The pool in force, and what a server takes beside it.
    assert bound.memory.bytes == (128 + 512) * 2**20


def test_an_image_counts_where_it_lies(study: Study) -> None:
    [trial, *_] = planned(study, ["x"])
    run = made_run(study, trial)
    parts = {"dataset": 1000, "shared": 900, "own": 70, "image": 4000}
    run.conditions.update({"peak_memory_bytes": 50, "disk_bytes": parts})
    for backing, memory, disk in (("memory", 4050, 1000), ("disk", 50, 5000)):
        run.conditions["device"] = {"name": "d", "emulated": {"backing": backing}}
        assert (resources.memory_bytes([run]), resources.disk_bytes([run])) == (memory, disk)
    # The reference's disk held a copy for each build; one that is left out leaves its own away.
    run.conditions["device"] = {"name": "d", "emulated": {"backing": "memory"}}
    other = run.model_copy(update={"factors": {**run.factors, "server": "another"}})
    assert resources.memory_bytes([run], [other]) == 50 + 4000 - 900
    assert resources.memory_bytes([run], [other, other]) == 50 + 4000 - 900, "shared by its trials"
    del run.conditions["disk_bytes"]
    assert resources.disk_bytes([run]) is None
    del run.conditions["peak_memory_bytes"]
    assert resources.memory_bytes([run]) is None


def test_what_processes_and_files_take_is_seen(tmp_path: Path) -> None:
    one = observe.peak_memory_bytes(HERE, [os.getpid()])
    assert 10**7 < one < 10**11
    assert observe.peak_memory_bytes(HERE, [os.getpid(), os.getpid()]) >= 2 * one * 0.99
    assert observe.peak_memory_bytes(HERE, [2**22 + 1]) == 0
    before = observe.held_bytes(HERE, [tmp_path])
    (tmp_path / "file").write_bytes(b"x" * 2**20)
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(2**30)
    assert 2**20 <= observe.held_bytes(HERE, [tmp_path]) - before < 2**21
    assert observe.held_bytes(HERE, [tmp_path / "gone"]) == 0
    assert observe.held_bytes(HERE, []) == 0


def test_a_page_has_the_command_of_each_claim_that_ran() -> None:
    page = display.Verdicts(
        [_verdict("reproduced"), _verdict("not-run", claim="D", estimate=None, low=None, high=None)]
    )._repr_html_()
    assert "<code>innolab reproduce C</code>" in page
    assert "innolab reproduce D" not in page


# The command.

_KEPT = _REPORTS[_IDS.index("multi-buffer-pool/2026-11-28-1")]


@pytest.fixture
def kept(folder: Path) -> Path:
    """A reports' folder with one reference."""
    place = folder / "reports" / "multi-buffer-pool" / _KEPT.name
    shutil.copytree(_KEPT, place)
    return folder / "reports"


def _names(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*")}


@pytest.mark.integration
def test_the_plan_says_what_runs_and_what_it_takes(innolab: Innolab, kept: Path) -> None:
    before = _names(kept)
    words = ("reproduce", "F1-warm-8v1", "--plan")
    done = innolab(*words, INNOLAB_REPORTS=str(kept))
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert "The reference is multi-buffer-pool/2026-11-28-1: scale quick, effort 30min" in text
    assert "it runs 4 arms, 3 to 12 blocks of 6 trials" in text
    assert done.stdout.count("(twice, as a control)") == 2
    assert "of memory (upper bound)" in text
    as_json = innolab(*words, "--json", "--server", "mysql-9.7", INNOLAB_REPORTS=str(kept))
    body = json.loads(as_json.stdout)
    assert [one["server"] for one in body["servers"]] == ["mysql-9.7"]
    assert body["runs"]["servers"] == ["mysql-9.7"]
    assert body["expected"]["least_s"] <= body["expected"]["time_s"] <= body["expected"]["most_s"]
    assert body["expected"]["memory_is"] == "upper bound"
    assert _names(kept) == before


_BAD = {
    "an unknown claim": (["F1-warm-8v2"], "There is no claim 'F1-warm-8v2'. Close ones: F1-warm"),
    "a claim that is never measured": (["A1"], "is never measured"),
    "an unknown server": (["F1-warm-8v1", "--server", "mariadb"], "on 'mariadb'. It has them on"),
    "no such report": (["F1-warm-8v1", "--report", "nothing/1"], "There is no report 'nothing/1'"),
    "a report of another study": (
        ["F1-warm-8v1", "--report", str(_REPORTS[_IDS.index("replication/2026-11-28-1")])],
        "is a report of replication, not of multi-buffer-pool",
    ),
    "nothing to judge again": (["F1-warm-8v1", "--judge"], "There is no finished reproduction"),
}


def _not_measured() -> str:
    return next(c.id for name in studies.names() for c in studies.find(name).claims()
                if c.not_measured)  # fmt: skip


@pytest.mark.integration
@pytest.mark.parametrize("name", _BAD)
def test_bad_input_is_explained_and_writes_nothing(name: str, innolab: Innolab, kept: Path) -> None:
    words, said = _BAD[name]
    words = [_not_measured() if word == "A1" else word for word in words]
    before = _names(kept)
    done = innolab("reproduce", *words, INNOLAB_REPORTS=str(kept))
    assert done.returncode == 2, done.stdout
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert _names(kept) == before


@pytest.mark.integration
def test_a_reference_that_was_changed_is_none(innolab: Innolab, kept: Path) -> None:
    log = kept / "multi-buffer-pool" / _KEPT.name / "runs.jsonl"
    log.write_text(log.read_text().replace('"seconds": 1.', '"seconds": 2.', 1))
    done = innolab("reproduce", "F1-warm-8v1", "--plan", INNOLAB_REPORTS=str(kept))
    assert done.returncode == 2
    assert "was changed after the report was sealed" in done.stderr


@pytest.mark.alone
@pytest.mark.integration
def test_no_report_and_a_host_that_cannot_are_refused(
    innolab: Innolab, kept: Path, folder: Path
) -> None:
    empty = folder / "none"
    done = innolab("reproduce", "F1-warm-8v1", INNOLAB_REPORTS=str(empty))
    assert (done.returncode, done.stdout) == (2, "")
    assert "innolab run multi-buffer-pool" in done.stderr
    bare = {"INNOLAB_REPORTS": str(kept), "INNOLAB_CACHE": str(folder / "cache")}
    done = innolab("reproduce", "F1-warm-8v1", **bare)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Run: make setup" in done.stderr
    with machine.measuring_alone():
        done = innolab("reproduce", "F1-warm-8v1", INNOLAB_REPORTS=str(kept))
    assert done.returncode == 2
    assert f"process {os.getpid()}" in done.stderr
    assert not (kept / "multi-buffer-pool" / "reproductions").exists()


# On real servers: a study of another package, small enough for a test. Its reference has no page,
# which a busy machine, all of whose runs are invalid, could not draw.
_MEASURE = """
from innolab import studies
from innolab.base.clock import Clock
from innolab.measure import workflow
from innolab.measure.prepare import prepare
from innolab.measure.progress import Shown
from innolab.studies.experiment import Experiment

given = {"scale": "smoke", "builds": ["mysql-9.7"]}
ready = prepare(Experiment.fresh(studies.find("scan-or-range"), given))
with Shown() as progress, workflow.begun(ready, progress) as (_, folder):
    workflow.make_report(ready, folder, progress, Clock(), lambda _: None)
"""


def _toy(*words: str | Path, reports: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        words,
        env={**os.environ, "PYTHONPATH": str(PACKAGE), "INNOLAB_REPORTS": str(reports)},
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def _done(*words: str | Path, reports: Path) -> tuple[int, str, str]:
    process = _toy(*words, reports=reports)
    said, errors = process.communicate(timeout=600)
    return process.returncode, said, errors


def _killed_after_a_run(words: tuple[str | Path, ...], place: Path, reports: Path) -> None:
    process = _toy(*words, reports=reports)
    end = time.monotonic() + 120
    while time.monotonic() < end and process.poll() is None:
        logs = list(place.glob("*.unfinished/runs.jsonl"))
        if logs and len(logs[0].read_text().splitlines()) >= 2:
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert len(list(place.glob("*.unfinished"))) == 1


def _valid_blocks(report: Path) -> int:
    """Return in how many blocks both arms of the claim have a valid run."""
    runs = [Run.from_body({k: v for k, v in json.loads(line).items() if k != "before"})
            for line in (report / "runs.jsonl").read_text().splitlines()
            if "session" not in json.loads(line)]  # fmt: skip
    of = [
        {r.block for r in runs if r.valid and not r.twin
         and (r.factors["path"], r.factors["share"]) == (path, 0.9)}
        for path in ("lookup", "scan")
    ]  # fmt: skip
    return len(of[0] & of[1])


@pytest.mark.alone
@pytest.mark.integration
def test_a_claim_is_measured_again_resumed_and_judged_again(folder: Path) -> None:
    status, _, errors = _done(sys.executable, "-c", _MEASURE, reports=folder)
    assert status == 0, errors
    [reference] = (folder / "scan-or-range").iterdir()
    place = folder / "scan-or-range" / "reproductions" / "G-P4-cold"
    words = (BIN / "innolab", "reproduce", "G-P4-cold", "--json")
    _killed_after_a_run(words, place, folder)
    status, said, errors = _done(*words, reports=folder)
    assert "Resuming" in errors
    body = json.loads(said)
    is_judged = body["servers"][0]["here"]["verdict"] != "not-run"
    assert status == (0 if is_judged else 1), errors
    [made] = place.iterdir()
    assert body["folder"] == str(made)
    # Two arms and a twin in two blocks, of the five arms that the study has; two sessions.
    assert len((made / "runs.jsonl").read_text().splitlines()) == 2 + 6
    [server] = body["servers"]
    assert server["reference"]["n"] == _valid_blocks(reference)
    assert server["here"]["n"] == _valid_blocks(made)
    assert body["expected"]["memory_is"] == body["expected"]["disk_is"] == "measured"
    for what in ("memory_bytes", "disk_bytes"):
        assert body["taken"][what] == pytest.approx(body["expected"][what], rel=0.25), what
    assert body["taken"]["disk_bytes"] > 10**8
    assert body["differences"] == []
    _require_judged_again(made, folder)


def _require_judged_again(made: Path, folder: Path) -> None:
    words = (BIN / "innolab", "reproduce", "G-P4-cold", "--judge")
    status, said, errors = _done(*words, reports=folder)
    assert status == 0, errors
    assert "the answer follows from its runs" in said
    log, answer = made / "runs.jsonl", made / reproduction.ANSWER_FILE
    untouched = log.read_text(), answer.read_text()
    body = json.loads(untouched[1])
    body["servers"][0]["here"] |= {"verdict": "reproduced", "estimate": 9.0}
    answer.write_text(json.dumps(body))
    status, _, errors = _done(*words, reports=folder)
    assert (status, "do not follow from the runs" in errors) == (1, True)
    # Whoever drops the last run and seals anew is found too.
    log.write_text("".join(untouched[0].splitlines(keepends=True)[:-1]))
    body = json.loads(untouched[1])
    body["files"]["runs.jsonl"] = manifest.digest(log)
    answer.write_text(json.dumps(body))
    status, _, errors = _done(*words, reports=folder)
    assert (status, "not those of the plan" in errors) == (1, True)
    log.write_text(untouched[0])
    answer.write_text("{")
    status, _, errors = _done(*words, reports=folder)
    assert (status, "damaged" in errors) == (2, True)
