"""The log survives a crash, and a set of runs refuses to mix."""

import random
from pathlib import Path

import pytest
from conftest import made_run, planned

from innolab.errors import InnolabError
from innolab.runs import Run, RunLog, RunSet, behaviour, finite, store_variables
from innolab.study import Study


def test_a_run_survives_its_line(study: Study) -> None:
    run = made_run(study, planned(study, ["x"])[0])
    assert Run.from_line(run.line()) == run


def test_a_line_torn_anywhere_costs_that_run_alone(study: Study, tmp_path: Path) -> None:
    first, second = (made_run(study, trial) for trial in planned(study, ["x"])[:2])
    whole = second.line().encode()
    for cut in random.Random(3).sample(range(1, len(whole)), 40):
        log = RunLog(tmp_path / "runs.jsonl")
        log.path.write_bytes(first.line().encode() + whole[:cut])
        runs, torn = log.load()
        assert runs == [first]
        assert torn == whole[:cut].decode()
        assert log.repair() == torn
        log.append(second)
        assert log.load() == ([first, second], None)


def test_a_damaged_line_before_the_last_is_an_error_that_names_it(
    study: Study, tmp_path: Path
) -> None:
    run = made_run(study, planned(study, ["x"])[0])
    path = tmp_path / "runs.jsonl"
    path.write_text(run.line() + run.line().replace('"block"', '"blok"') + run.line())
    with pytest.raises(InnolabError, match=r"Line 2 of .*runs\.jsonl is damaged"):
        RunLog(path).load()


@pytest.mark.parametrize("change", [{"spec_sha256": "1" * 64}, {"scale": "smoke"}])
def test_runs_of_another_spec_or_scale_are_refused(study: Study, change: dict[str, str]) -> None:
    one, two = planned(study, ["x"])[:2]
    with pytest.raises(InnolabError, match="cannot be compared"):
        RunSet(study, [made_run(study, one), made_run(study, two, **change)], {})


def test_a_trial_twice_is_refused(study: Study) -> None:
    run = made_run(study, planned(study, ["x"])[0])
    with pytest.raises(InnolabError, match="twice"):
        RunSet(study, [run, run], {})


def test_pairs_keep_to_blocks_that_have_both(study: Study) -> None:
    trials = planned(study, ["x"], replicates=3)
    runs = [
        made_run(study, t, metrics={"pass1_s": 10.0 * (t.block + 1)})
        for t in trials
        if not (t.block == 1 and t.factors["case"] == "2G-8")
    ]
    top, bottom = RunSet(study, runs, {}).pairs("pass1_s", {"case": "2G-8"}, {"case": "2G-1"})
    assert top == bottom == [10.0, 30.0]


def test_a_variable_that_differs_beside_the_factors_is_found(study: Study) -> None:
    one, two = (
        t for t in planned(study, ["x"], replicates=1) if t.factors["case"].startswith("2G")
    )
    conditions = made_run(study, one).conditions
    runs = [
        made_run(study, one, conditions={**conditions, "variables": "a"}),
        made_run(study, two, conditions={**conditions, "variables": "b"}),
    ]
    same = {"innodb_buffer_pool_instances": "1", "innodb_page_cleaners": "1"}
    other = {"innodb_buffer_pool_instances": "8", "innodb_page_cleaners": "4"}
    assert RunSet(study, runs, {"a": same, "b": other}).undeclared_differences() == [
        "innodb_page_cleaners"
    ]


def test_no_place_of_the_host_is_kept_among_the_variables(tmp_path: Path) -> None:
    kept = behaviour({"datadir": "/home/somebody/x", "hostname": "secret", "sort_buffer_size": "1"})
    assert kept == {"sort_buffer_size": "1"}
    digest = store_variables(tmp_path, kept)
    assert store_variables(tmp_path, kept) == digest
    assert [p.stem for p in (tmp_path / "variables").iterdir()] == [digest]


def test_a_metric_that_is_no_number_is_refused() -> None:
    with pytest.raises(InnolabError, match="pass1_s"):
        finite({"pass1_s": float("nan")})
