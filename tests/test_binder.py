"""Binder: repo2docker knows the repository for what it is, and its last step gives a replay."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import yaml
from conftest import ROOT
from elsewhere import clone, uv

from innolab.hosts import machine
from innolab.record.plan import Plan
from innolab.report import folders

pytestmark = pytest.mark.integration

STUDY = "replication"
_LOCK = ROOT / "tests" / "standards.lock"


@pytest.fixture(scope="session")
def standards() -> Path:
    """The programs of standards.lock, whose versions clash with ours, kept in the cache folder."""
    digest = hashlib.sha256(_LOCK.read_bytes()).hexdigest()
    venv = machine.cache_folder() / "tests" / f"standards-{digest[:16]}"
    if not venv.exists():
        half = venv.with_name(venv.name + ".part")
        uv("venv", "--quiet", "--clear", "--relocatable", "--python", sys.executable, half)
        uv("pip", "install", "--quiet", "--python", half / "bin" / "python",
           "--require-hashes", "--requirements", _LOCK)  # fmt: skip
        half.rename(venv)
    return venv / "bin"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What git tracks, with the reports of one study, as Binder clones it."""
    return clone(tmp_path_factory.mktemp("binder") / "innolab", f"reports/{STUDY}/")


def test_repo2docker_makes_a_conda_image_with_our_packages_and_our_last_step(
    standards: Path, repository: Path
) -> None:
    done = subprocess.run(
        [standards / "jupyter-repo2docker", "--no-build", "--debug", repository],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "CondaBuildPack" in said
    steps = [line.strip() for line in said.splitlines()]
    named = (ROOT / "apt.txt").read_text().splitlines()
    packages = [line for line in named if not line.startswith("#")]
    assert any("apt-get" in step and all(p in step for p in packages) for step in steps) or all(
        any(p in step.split() for step in steps) for p in packages
    )
    assert any("postBuild" in step for step in steps)
    assert any("environment.yml" in step for step in steps)


def test_what_apt_and_conda_are_asked_for_is_well_formed() -> None:
    names = [n for n in (ROOT / "apt.txt").read_text().splitlines() if not n.startswith("#")]
    assert names
    assert all(name.replace("-", "").isalnum() for name in names)
    asked = yaml.safe_load((ROOT / "environment.yml").read_text())
    assert asked["dependencies"][0] == "python=3.11"
    assert os.access(ROOT / "postBuild", os.X_OK)


def test_after_the_last_step_a_notebook_replays_a_report(repository: Path, tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    uv("pip", "install", "--quiet", "--python", venv / "bin" / "python", "--require-hashes",
       "--requirements", ROOT / "requirements.lock")  # fmt: skip
    env = {
        "PATH": f"{venv / 'bin'}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        **{name: value for name, value in os.environ.items() if name.startswith(("PIP_", "LC_"))},
    }
    done = subprocess.run(
        ["./postBuild"], cwd=repository, env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    [report] = (repository / "reports" / STUDY).iterdir()
    assert f"  {STUDY}/{report.name}" in done.stdout.splitlines()
    recorded = tmp_path / "recorded"
    recorded.mkdir()
    folders.copy_recorded(report, recorded)
    (tmp_path / "parameters.yml").write_text(yaml.safe_dump(Plan.read(recorded).parameters))
    words = ["--cwd", recorded, "--no-progress-bar", "-f", tmp_path / "parameters.yml"]
    done = subprocess.run(
        ["papermill", f"notebooks/{STUDY}.ipynb", tmp_path / "out.ipynb", *words],
        cwd=repository, env=env, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    cells = nbformat.read(tmp_path / "out.ipynb", 4).cells
    assert any("image/png" in o.get("data", {}) or "text/html" in o.get("data", {})
               for c in cells for o in c.get("outputs", []))  # fmt: skip
