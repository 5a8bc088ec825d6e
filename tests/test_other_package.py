"""A study of another package: one file, its claims, its notebook; no file of innolab changes."""

import os
import re
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
    assert len((PACKAGE / "scan_or_range.py").read_text().splitlines()) <= 120
    for path in (ROOT / "innolab").rglob("*.py"):
        assert "scan_or" + "_range" not in path.read_text(), path


def test_it_is_listed_beside_the_others() -> None:
    assert _innolab(PACKAGE, "list", "--names").stdout.split()[-1] == "scan-or-range"
    assert "scan-or-range" not in _innolab(ROOT, "list", "--names").stdout


@pytest.mark.alone
@pytest.mark.integration
def test_it_is_measured_rendered_and_verified_as_any_other(folder: Path) -> None:
    env = {"INNOLAB_REPORTS": str(folder)}
    words = ("run", "scan-or-range", "--scale", "smoke", "-p", "builds=mysql-9.7")
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
        ("scan_or_range.py", "title=", "titel=", "unexpected keyword argument 'titel'"),
        (
            "scan_or_range.py",
            "cold={",
            'metrics={"seconds": "s"}, cold={',
            "the metric seconds does not say what else in a run's record bounds it",
        ),
        (
            "scan_or_range.py",
            "cold={",
            'checks=kind.named("colder"), cold={',
            "there is no check 'colder'; there are: debug build",
        ),
        ("scan_or_range.py", 'variables={"', 'variables={"the_', "'the_pool_ratio', which is no"),
        ("scan_or_range.py", "STUDY = Study(", "STUDY = (", "scan_or_range.py, line 5"),
        ("scan-or-range.yml", "{path: scan}", "{pth: scan}", "scan-or-range.yml, line 1"),
        ("scan-or-range.yml", "metric: seconds", "metric: tps", "the metrics are: cpu_s"),
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
    done = _innolab(copy, "plan", "scan-or-range", INNOLAB_REPORTS=str(folder / "reports"))
    assert done.returncode == 2, done.stdout
    assert said in done.stderr
    assert str(copy / file) in done.stderr
    assert "Traceback" not in done.stderr
    assert not (folder / "reports").exists()


@pytest.mark.parametrize("begins", ["STUDY = ", "def trial("])
def test_the_how_to_shows_the_example_as_it_is(begins: str) -> None:
    page = (ROOT / "docs" / "how-to" / "add-a-study.md").read_text()
    [block] = [one for one in re.findall(r"```python\n(.*?)```", page, re.DOTALL)
               if one.startswith(begins)]  # fmt: skip
    assert block in (PACKAGE / "scan_or_range.py").read_text()
