"""What runs side by side disturbs no measurement, and `make test` runs the rest too."""

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from beside import DOORS
from conftest import ROOT

_FILES = sorted((ROOT / "tests").rglob("test_*.py"))
_CLOCKS = ("monotonic", "perf_counter")


def _is_marked(marks: list[ast.expr]) -> bool:
    return any("pytest.mark.alone" in ast.unparse(mark) for mark in marks)


def _asserts_a_time(test: ast.FunctionDef) -> bool:
    asserted = [node.test for node in ast.walk(test) if isinstance(node, ast.Assert)]
    called = [node for one in asserted for node in ast.walk(one) if isinstance(node, ast.Call)]
    return any(isinstance(c.func, ast.Attribute) and c.func.attr in _CLOCKS for c in called)


@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.stem)
def test_what_judges_a_time_is_marked_alone(path: Path) -> None:
    tree = ast.parse(path.read_text())
    marks = [
        node.value for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    ]  # fmt: skip
    if _is_marked(marks):
        return
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and _asserts_a_time(node):
            assert _is_marked(node.decorator_list), f"{node.name} should be marked alone"


@pytest.mark.parametrize(("place", "name"), DOORS, ids=[name for _, name in DOORS])
def test_a_test_without_the_mark_finds_the_doors_closed(place: Any, name: str) -> None:
    with pytest.raises(pytest.fail.Exception, match="Mark the test"):
        getattr(place, name)()


@pytest.mark.skipif("PYTEST_XDIST_WORKER" not in os.environ, reason="nothing runs beside it")
def test_what_a_test_starts_measures_nothing_beside_others() -> None:
    code = "from innolab.hosts import machine\nwith machine.measuring_alone(): pass"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "Another innolab measures on this host already" in done.stderr


_PYTHON = """#!/bin/sh
echo "$@" >> '{said}'
case "$*" in *'{fails}'*) exit 1;; esac
"""


@pytest.mark.parametrize(
    ("fails", "status"), [("nothing", 0), ("-m not alone", 2), ("-m alone", 2)]
)
@pytest.mark.parametrize("target", ["test", "test-all"])
def test_make_runs_both_parts_whichever_fails(
    tmp_path: Path, target: str, fails: str, status: int
) -> None:
    """With programs that only note what they are asked for, in place of the environment's."""
    venv, said = tmp_path / "venv", tmp_path / "said"
    (venv / "bin").mkdir(parents=True)
    for name in ("innolab", "ruff", "mypy", "python"):
        text = _PYTHON.format(said=said, fails=fails) if name == "python" else "#!/bin/sh\n"
        (venv / "bin" / name).write_text(text)
        (venv / "bin" / name).chmod(0o755)
    (venv / ".ready").touch()
    own = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(
        ["make", "-C", ROOT, target, f"VENV={venv}", "WORKERS=3"],
        env=own, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == status, done.stdout + done.stderr
    first, second = said.read_text().splitlines()
    assert "-n 3 --dist loadfile" in first
    assert "-m not alone" in first
    assert "-m alone" in second
    assert "-n " not in second
