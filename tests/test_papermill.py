"""papermill executes a notebook without `innolab run`, and a wrong parameter ends it at once."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import nbformat
import pytest
import yaml
from conftest import BIN, ROOT, reference

from innolab import open_study
from innolab.base.errors import InputError
from innolab.record.plan import Plan
from innolab.report import folders
from innolab.studies import notebook_parameters

STUDY = "replication"
NOTEBOOK = ROOT / "notebooks" / f"{STUDY}.ipynb"


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A folder that has plan and runs of a report, and nothing that was made from them."""
    place = tmp_path / "recorded"
    place.mkdir()
    folders.copy_recorded(reference(STUDY), place)
    return place


def _papermill(place: Path, out: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "INNOLAB_REPORTS": str(out.parent / "reports")}
    return subprocess.run(
        [BIN / "papermill", NOTEBOOK, out, "--cwd", place, "--no-progress-bar", *words],
        env=env, capture_output=True, text=True, timeout=600,
    )  # fmt: skip


def _contents(place: Path) -> dict[str, bytes]:
    return {str(p.relative_to(place)): p.read_bytes() for p in place.rglob("*") if p.is_file()}


@pytest.mark.integration
def test_it_replays_recorded_runs(recorded: Path, tmp_path: Path) -> None:
    parameters = yaml.safe_dump(Plan.read(recorded).parameters)
    done = _papermill(recorded, tmp_path / "out.ipynb", "--parameters_yaml", parameters)
    assert done.returncode == 0, done.stderr
    assert json.loads((recorded / "verdicts.json").read_text())
    assert list((recorded / "figures").glob("*.svg"))
    assert not (tmp_path / "reports").exists()


@pytest.mark.integration
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("-p", "sede", "7", "-p", "limit", "nan", "-y", "{scale: smoke, disks: [a, b]}"),
            [
                "'sede' is unknown (the study takes: scale, effort, seed",
                "'limit' is unknown",
                "'disks' is unknown",
            ],
        ),
        (
            ("-r", "seed", "7", "-p", "replicates", "many", "-p", "scale", "tiny"),
            [
                "'seed' is '7' but should be a valid integer",
                "'replicates' is 'many' but should be a valid integer",
                "'scale' is 'tiny' but should be 'smoke', 'quick' or 'paper'",
            ],
        ),
    ],
    ids=["unknown", "wrong"],
)
def test_it_refuses_wrong_parameters_and_writes_its_own_notebook_alone(
    words: tuple[str, ...], said: list[str], recorded: Path, tmp_path: Path
) -> None:
    before = _contents(tmp_path)
    done = _papermill(recorded, tmp_path / "out.ipynb", *words)
    assert done.returncode == 1
    after = _contents(tmp_path)
    out = nbformat.reads(after.pop("out.ipynb").decode(), 4)
    assert after == before
    [error] = [o.evalue for c in out.cells for o in c.get("outputs", []) if "evalue" in o]
    for one in said:
        assert one in error
        assert one in done.stderr


def _globals(*sources: str) -> dict[str, Any]:
    """Return a notebook's globals after these cells were run."""
    names: dict[str, Any] = {"__name__": "__main__", "In": ["", *sources]}
    for source in sources:
        exec(source, names)
    return names


_KNOWN = ("scale", "seed", "builds")
_DEFAULTS = 'scale = "quick"\nseed = 1\nbuilds = ["a"]'


def test_a_name_that_is_misspelt_in_the_notebooks_own_cell_is_found() -> None:
    names = _globals(_DEFAULTS + "\nsede = 2", "import json")
    assert notebook_parameters.given(names, _KNOWN) == {
        "scale": "quick",
        "seed": 1,
        "builds": ["a"],
        "sede": 2,
    }


def test_once_corrected_it_is_forgotten() -> None:
    names = _globals(_DEFAULTS + "\nsede = 2", _DEFAULTS + "\nseed = 2")
    assert notebook_parameters.given(names, _KNOWN) == {
        "scale": "quick",
        "seed": 2,
        "builds": ["a"],
    }


@pytest.mark.parametrize(
    "own",
    ["n = 3", "title = 'mine'; limits = {'a': 1}", "import json", "x = seed", "%%x\n?"],
)
def test_variables_of_a_reader_are_no_parameters(own: str) -> None:
    names = {**_globals(_DEFAULTS), "n": 3, "title": "mine", "limits": {"a": 1}}
    names["In"] = ["", own, _DEFAULTS, own]
    assert set(notebook_parameters.given(names, _KNOWN)) == set(_KNOWN)


def test_what_papermill_adds_counts_with_the_defaults_before_it() -> None:
    names = _globals(_DEFAULTS, "# Parameters\nseed = 2\nother = float('nan')\n")
    assert set(notebook_parameters.given(names, _KNOWN)) == {*_KNOWN, "other"}
    assert notebook_parameters.given(names, _KNOWN)["seed"] == 2


def test_parameters_alone_are_taken_as_they_are() -> None:
    with pytest.raises(InputError, match="'sede' is unknown"):
        open_study("multi-buffer-pool", {"scale": "smoke", "sede": 2})
