"""The log survives a crash, and a set of runs refuses to mix."""

import datetime
import json
import random
from pathlib import Path

import pytest
from conftest import made_run, planned

from innolab.base.errors import InnolabError
from innolab.record import runlog
from innolab.record.run import Run
from innolab.record.runlog import RunLog, SessionStart
from innolab.record.runs import RunSet, behaviour, store_variables
from innolab.studies.study import Study


def _session() -> SessionStart:
    return SessionStart(
        began_at=datetime.datetime(2026, 1, 31, tzinfo=datetime.UTC),
        plan_sha256="1" * 64,
        claims_sha256="2" * 64,
        trials=5,
        blocks=1,
        innolab={"version": "0", "commit": None, "dirty": None},
    )


@pytest.fixture
def log(study: Study, tmp_path: Path) -> RunLog:
    """A log of two sessions with five runs."""
    made = RunLog(tmp_path / "runs.jsonl")
    made.begin(_session())
    for trial in planned(study, ["x"])[:5]:
        if trial.position == 3:
            made.begin(_session())
        made.append(made_run(study, trial))
    return made


def test_a_run_survives_its_line(study: Study) -> None:
    run = made_run(study, planned(study, ["x"])[0])
    assert Run.from_body(json.loads(json.dumps(run.body()))) == run


def test_a_line_torn_anywhere_costs_that_run_alone(log: RunLog, study: Study) -> None:
    lines = log.path.read_bytes().splitlines(keepends=True)
    whole, last = b"".join(lines[:-1]), lines[-1]
    *before, torn_run = log.load()[0]
    for cut in random.Random(3).sample(range(1, len(last)), 40):
        log.path.write_bytes(whole + last[:cut])
        runs, torn = log.load()
        assert runs == before
        assert torn == last[:cut].decode()
        assert log.repair() == torn
        log.append(torn_run)
        assert log.path.read_bytes() == whole + last


def test_a_damaged_line_before_the_last_is_an_error_that_names_it(log: RunLog) -> None:
    lines = log.path.read_text().splitlines(keepends=True)
    lines[1] = lines[1].replace('"block"', '"blok"')
    log.path.write_text("".join(lines))
    with pytest.raises(InnolabError, match=r"Line 2 of .*runs\.jsonl is damaged"):
        log.load()


def test_lines_that_were_dropped_moved_added_or_changed_are_found(log: RunLog) -> None:
    lines = log.path.read_text().splitlines(keepends=True)
    assert runlog.faults(log.entries()[0]) == []
    others = [
        *(lines[:n] + lines[n + 1 :] for n in range(len(lines) - 1)),
        *([*lines[:n], lines[n + 1], lines[n], *lines[n + 2 :]] for n in range(len(lines) - 1)),
        *([*lines[:n], lines[n], *lines[n:]] for n in range(len(lines))),
        *([*lines[:n], lines[n].replace("2026", "2027", 1), *lines[n + 1 :]] for n in (0, 2, 4)),
    ]
    for changed in others:
        log.path.write_text("".join(changed))
        assert runlog.faults(log.entries()[0]), changed


def test_sessions_have_their_runs_and_those_of_an_older_innolab_stand_alone(log: RunLog) -> None:
    entries = log.entries()[0]
    assert [len(runs) for _, runs in runlog.by_session(entries)] == [3, 2]
    older = [e._replace(before=None) for e in entries if isinstance(e.content, Run)]
    assert [(s, len(runs)) for s, runs in runlog.by_session(older)] == [(None, 5)]
    assert runlog.faults(older) == []


@pytest.mark.parametrize("change", [{"spec_sha256": "1" * 64}, {"scale": "smoke"}])
def test_runs_of_another_spec_or_scale_are_refused(study: Study, change: dict[str, str]) -> None:
    one, two = planned(study, ["x"])[:2]
    with pytest.raises(InnolabError, match="cannot be compared"):
        RunSet([made_run(study, one), made_run(study, two, **change)], {})


def test_a_trial_twice_is_refused(study: Study) -> None:
    run = made_run(study, planned(study, ["x"])[0])
    with pytest.raises(InnolabError, match="twice"):
        RunSet([run, run], {})


def test_pairs_keep_to_blocks_that_have_both(study: Study) -> None:
    trials = planned(study, ["x"], replicates=3)
    runs = [
        made_run(study, t, observations=[{"pass": 1, "seconds": 10.0 * (t.block + 1)}])
        for t in trials
        if not (t.block == 1 and t.factors["instances"] == 8)
    ]
    cold = {"device": "host", "pool": "2G", "pass": 1}
    top, bottom = RunSet(runs, {}, study.kind.within).pairs(
        "seconds", {**cold, "instances": 8}, {**cold, "instances": 1}
    )
    assert top == bottom == [10.0, 30.0]


def test_observations_of_other_within_factors_are_other_quantities(study: Study) -> None:
    trials = [t for t in planned(study, ["x"]) if t.factors["beside"] == "nothing"]
    runs = RunSet([made_run(study, t) for t in trials], {}, study.kind.within)
    assert len(runs.frame("pass")) == 2 * len(runs.runs)
    assert set(runs.frame("pass").columns) >= {"pool", "pass", "seconds"}
    assert "instance" not in runs.frame("pass")
    assert len(runs.frame()) == len(runs.runs)
    assert set(runs.frame("pass", "instance").instance) == set(range(8))
    with pytest.raises(InnolabError, match="several arms"):
        runs.values("seconds", **{"pool": "2G", "pass": 1})


def test_a_variable_that_differs_beside_the_factors_is_found(study: Study) -> None:
    large = {"device": "host", "pool": "2G"}.items()
    one, two = (t for t in planned(study, ["x"], replicates=1) if large <= t.factors.items())
    conditions = made_run(study, one).conditions
    runs = [
        made_run(study, one, conditions={**conditions, "variables": "a" * 16}),
        made_run(study, two, conditions={**conditions, "variables": "b" * 16}),
    ]
    same = {"innodb_buffer_pool_instances": "1", "innodb_page_cleaners": "1"}
    other = {"innodb_buffer_pool_instances": "8", "innodb_page_cleaners": "4"}
    found = RunSet(runs, {"a" * 16: same, "b" * 16: other})
    assert found.undeclared_differences(study.kind.variables) == ["innodb_page_cleaners"]


def test_no_place_of_the_host_is_kept_among_the_variables(tmp_path: Path) -> None:
    kept = behaviour({"datadir": "/home/somebody/x", "hostname": "secret", "sort_buffer_size": "1"})
    assert kept == {"sort_buffer_size": "1"}
    digest = store_variables(tmp_path, kept)
    assert store_variables(tmp_path, kept) == digest
    assert [p.stem for p in (tmp_path / "variables").iterdir()] == [digest]
