"""A notebook measures where that is asked for, and `innolab run` makes a report of it."""

import re
from pathlib import Path

import papermill
import pytest
from conftest import ROOT, Innolab

from innolab.record.runlog import RunLog
from innolab.report import folders

pytestmark = [pytest.mark.alone, pytest.mark.integration, pytest.mark.smoke]


def test_a_notebook_measures_and_the_command_finishes_its_report(
    innolab: Innolab, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INNOLAB_REPORTS", str(folder))
    monkeypatch.setenv("INNOLAB_MEASURE", "1")
    parameters = {"scale": "smoke", "replicates": 1, "builds": ["mysql-9.7"], "devices": ["host"]}
    papermill.execute_notebook(
        str(ROOT / "notebooks" / "multi-buffer-pool.ipynb"),
        str(folder / "live.ipynb"),
        parameters=parameters,
        kernel_name="python3",
        cwd=str(ROOT / "notebooks"),
        progress_bar=False,
    )
    [begun] = folders.unfinished("multi-buffer-pool")
    measured, _ = RunLog(begun / "runs.jsonl").load()
    assert len(measured) == 8
    assert not list((ROOT / "notebooks").glob("*.jsonl"))
    # On a slow machine the page of the first minutes is the last: each may cost little time.
    page = (begun / "index.html").read_text()
    assert re.search(r"Provisional: [01] of at most 1 blocks", page)
    words = [
        "--scale",
        "smoke",
        "-p",
        "replicates=1",
        "-p",
        "builds=mysql-9.7",
        "-p",
        "devices=host",
    ]
    done = innolab("run", "multi-buffer-pool", *words, INNOLAB_REPORTS=str(folder))
    assert done.returncode == 0, done.stderr
    assert "(8 runs recorded)" in done.stderr
    [report] = folders.finished("multi-buffer-pool")
    assert RunLog(report / "runs.jsonl").load()[0] == measured
    assert innolab("verify", str(report)).returncode == 0
