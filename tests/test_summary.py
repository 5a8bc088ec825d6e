"""What a terminal says of a finished report."""

import json
import shutil
from pathlib import Path

import pytest
from conftest import reference

from innolab.base.errors import InnolabError
from innolab.report import summary


def test_it_says_question_answer_counts_and_what_is_not_valid() -> None:
    question, *said = summary.lines(reference("multi-buffer-pool"))
    assert (
        question
        == "Does a large buffer pool, or one split into instances, make a full scan slower?"
    )
    assert said[0].endswith(".")
    assert any(line.startswith("mysql-9.7: ") and "reproduced" in line for line in said)
    assert any(line.startswith("Not valid: ") for line in said)


def test_a_report_that_judges_nothing_is_an_error(tmp_path: Path) -> None:
    report = tmp_path / "report"
    shutil.copytree(reference("device-io"), report, ignore=shutil.ignore_patterns("figures"))
    summary.require_judged(report)
    path = report / "verdicts.json"
    verdicts = [{**one, "verdict": "not-run"} for one in json.loads(path.read_text())]
    path.write_text(json.dumps(verdicts))
    with pytest.raises(InnolabError, match="No claim could be judged"):
        summary.require_judged(report)
