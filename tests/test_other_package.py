"""A study of another package: one file, its claims, its notebook; no file of innolab changes."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import BIN, ROOT

PACKAGE = ROOT / "tests" / "other_package"


def _innolab(package: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BIN / "innolab", *words],
        env={**os.environ, "PYTHONPATH": str(package), **env},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )


def test_it_is_small_and_no_core_file_knows_it() -> None:
    assert len((PACKAGE / "access_paths.py").read_text().splitlines()) <= 120
    for path in (ROOT / "innolab").rglob("*.py"):
        assert "access" + "_paths" not in path.read_text(), path


def test_it_is_listed_beside_the_others() -> None:
    assert _innolab(PACKAGE, "list", "--names").stdout.split()[-1] == "access-paths"
    assert "access-paths" not in _innolab(ROOT, "list", "--names").stdout


@pytest.mark.integration
def test_it_is_measured_rendered_and_verified_as_any_other(folder: Path) -> None:
    env = {"INNOLAB_REPORTS": str(folder)}
    words = ("run", "access-paths", "--scale", "smoke", "-p", "builds=mysql-9.7")
    done = _innolab(PACKAGE, *words, **env)
    assert done.returncode == 0, done.stderr
    report = Path(done.stdout.splitlines()[-1]).parent
    assert len((report / "runs.jsonl").read_text().splitlines()) == 1 + 12
    assert "times as long as a scan" in (report / "index.html").read_text()
    verified = _innolab(PACKAGE, "verify", str(report), **env)
    assert verified.returncode == 0, verified.stdout


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("access_paths.py", "title=", "titel=", "unexpected keyword argument 'titel'"),
        ("access_paths.py", '"cpu_s": "s"', '"cpu_s": ""', "the metric cpu_s has no unit"),
        ("access_paths.py", '"cold")', '"colder")', "there is no check 'colder'"),
        ("access_paths.py", '"share": (),', '"shares": (),', "'shares', which is no factor"),
        ("access_paths.py", "STUDY = Study(", "STUDY = (", "access_paths.py, line 5"),
        ("access-paths.yml", "{path: scan}", "{pth: scan}", "access-paths.yml, line 1"),
        ("access-paths.yml", "metric: seconds", "metric: tps", "the metrics are: cpu_s"),
    ],
)
def test_a_malformed_study_is_refused_on_load(
    folder: Path, file: str, old: str, new: str, said: str
) -> None:
    copy = folder / "package"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    text = (copy / file).read_text()
    assert old in text
    (copy / file).write_text(text.replace(old, new, 1))
    done = _innolab(copy, "plan", "access-paths", INNOLAB_REPORTS=str(folder / "reports"))
    assert done.returncode == 2, done.stdout
    assert said in done.stderr
    assert str(copy / file) in done.stderr
    assert "Traceback" not in done.stderr
    assert not (folder / "reports").exists()
