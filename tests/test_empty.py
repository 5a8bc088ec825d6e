"""A notebook without a valid run is a page that says so: nothing in it fails."""

import json
import shutil
from pathlib import Path

import pytest
from conftest import reference

from innolab import studies
from innolab.record.plan import PLAN_FILE
from innolab.record.run import CheckResult, Run
from innolab.record.runlog import FILE, RunLog, SessionStart
from innolab.report import execute
from innolab.studies import rules


def _failed(run: Run) -> Run:
    """Return a run whose trial ended before its server ran."""
    known = {name: run.conditions[name] for name in ("host", "innolab", "time_s")}
    changes = {"status": "failed", "error": "it was broken", "observations": [], "checks": [],
               "series": None, "conditions": known}  # fmt: skip
    return run.model_copy(update=changes)


def _invalid(run: Run) -> Run:
    """Return a run whose first check found it invalid."""
    first, *others = run.checks
    bad = CheckResult(check=first.check, result="invalid", says=first.says)
    return run.model_copy(update={"checks": [bad, *others]})


@pytest.mark.parametrize("name", studies.names())
@pytest.mark.parametrize("spoilt", [_failed, _invalid])
def test_a_notebook_says_that_no_run_is_valid(name: str, spoilt, folder: Path) -> None:  # type: ignore[no-untyped-def]
    study, kept = studies.find(name), reference(name)
    place = folder / kept.name
    place.mkdir()
    for file in (PLAN_FILE, rules.FILE, rules.CLAIMS_FILE, rules.PUBLISHED_FILE):
        shutil.copy(kept / file, place)
    shutil.copytree(kept / "variables", place / "variables")
    entries, _ = RunLog(kept / FILE, study.kind.upgrade).entries()
    is_bound = isinstance(entries[0].content, SessionStart)
    log = RunLog(place / FILE)
    for entry in entries:
        content = entry.content
        if isinstance(content, SessionStart):
            log.begin(content)
        elif is_bound:
            log.append(spoilt(content))
        else:  # An older innolab wrote no sessions, and did not bind its lines.
            with log.path.open("a") as file:
                file.write(json.dumps(spoilt(content).body()) + "\n")
    notebook = execute.execute(study, place)
    shown = " ".join(
        str(output.get("data", output.get("text")))
        for cell in notebook.cells
        for output in cell.get("outputs", [])
    )
    assert "no valid run" in shown.lower() or "No run is valid" in shown
    assert len(study.read(place).valid.runs) == 0
