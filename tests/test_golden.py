"""What must not change while rooms are rebuilt: verdicts of the four recorded reference reports."""

import json

import pytest
from conftest import ROOT

from innolab import studies
from innolab.record.plan import Plan

REFERENCES = sorted((ROOT / "tests" / "fixtures" / "verdicts").glob("*.json"))


@pytest.mark.parametrize("golden", REFERENCES, ids=lambda path: path.stem)
def test_verdicts_estimates_and_intervals_are_those_of_the_references(golden) -> None:
    report = ROOT / "reports" / golden.stem / "2026-11-22-1"
    plan = Plan.read(report)
    study = studies.find(golden.stem)
    found = study.verdicts(plan, study.read(report))
    judged = [
        [v.claim, v.server, v.verdict, v.published, v.estimate, v.low, v.high, v.n] for v in found
    ]
    assert judged == json.loads(golden.read_text())
