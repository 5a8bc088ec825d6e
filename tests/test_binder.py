"""Binder: repo2docker knows the repository for what it is, and its last step gives a replay."""

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import standards_venv
import yaml
from conftest import ROOT, of_defaults
from elsewhere import clone, uv

from innolab.record.plan import Plan
from innolab.report import folders

pytestmark = pytest.mark.integration

STUDY = "replication"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What git tracks, with the reports of one study, as Binder clones it."""
    return clone(tmp_path_factory.mktemp("binder") / "innolab", f"reports/{STUDY}/")


def _apt() -> list[str]:
    lines = (ROOT / "apt.txt").read_text().splitlines()
    return [line for line in lines if not line.startswith("#")]


def test_repo2docker_makes_a_conda_image_with_our_packages_and_our_last_step(
    repository: Path,
) -> None:
    # As Binder's own user; without these, as the user who runs the test.
    as_user = ["--user-id", "1000", "--user-name", "jovyan"]
    done = subprocess.run(
        [standards_venv.bin_folder() / "jupyter-repo2docker", "--no-build", "--debug", *as_user,
         repository],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "Building conda environment for python=3.11" in said
    steps = [line.strip() for line in said.splitlines()]
    wanted = " ".join(_apt())
    order = [
        next(n for n, step in enumerate(steps) if part in step)
        for part in (
            f"apt-get install --yes --no-install-recommends {wanted}",
            'env update -p ${NB_PYTHON_PREFIX} --file "environment.yml"',
            "COPY --chown=1000:1000 src/ ${REPO_DIR}/",
            "RUN ./postBuild",
        )
    ]
    assert order == sorted(order), "libraries come before the code, whose changes leave them"


def test_what_apt_and_conda_are_asked_for_is_well_formed() -> None:
    assert _apt()
    assert all(name.replace("-", "").isalnum() for name in _apt())
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
    report = repository / "reports" / STUDY / of_defaults(STUDY).name
    assert f"  {STUDY}/{report.name} (reference)" in done.stdout.splitlines()
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
