"""Verdicts, intervals and plotted values of the shipped reports are what they were, to the digit.

Whatever moves or is written better changes none of them. A change that is meant to change them
says so by writing the golden files again: `python tests/golden/make.py`.
"""

import shutil
from pathlib import Path

import pytest
from conftest import ROOT
from golden import make

from innolab import studies
from innolab.report import render
from innolab.studies import judging, rules
from innolab.studies.experiment import Experiment

REPORTS = pytest.mark.parametrize(
    "report", make.sealed(), ids=lambda path: f"{path.parent.name}/{path.name}"
)


@REPORTS
def test_verdicts_and_intervals_are_what_they_were(report: Path) -> None:
    study = rules.with_papers(studies.find(report.parent.name), report)
    verdicts = judging.verdicts(Experiment.read(report, study), study.read(report))
    rows = make.verdict_rows(report, [verdict.model_dump() for verdict in verdicts])
    assert rows == make.read(make.VERDICTS, report)


@pytest.mark.thorough
@REPORTS
def test_plotted_values_are_what_they_were(report: Path, tmp_path: Path) -> None:
    copy = tmp_path / report.name
    shutil.copytree(report, copy, ignore=shutil.ignore_patterns("figures"))
    render.render(rules.with_papers(studies.find(report.parent.name), copy), copy)
    assert make.figure_rows(report, copy / "figures") == make.read(make.FIGURES, report)


def test_the_golden_files_are_of_shipped_reports_alone() -> None:
    shipped = {make.runs_of(report) for report in make.sealed()}
    assert make.sealed()[0].is_relative_to(ROOT)
    for path in (make.VERDICTS, make.FIGURES):
        assert {line.partition(",")[0] for line in path.read_text().splitlines()[1:]} == shipped
