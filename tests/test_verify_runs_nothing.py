"""`verify` runs the installed innolab alone: no file of a report is code or configuration to it."""

import ast
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import BIN, ROOT, todays

from innolab.report import folders, manifest
from innolab.verify import verify
from innolab.verify.verify import Findings

_MARK = "innolab-test-ran"
_TOUCH = "import pathlib; pathlib.Path({mark!r}).touch()\n"
# Programs read these from the folder that they work in.
_READ_FROM_THERE = {
    "multiprocessing.py": _TOUCH,
    "json.py": _TOUCH,
    "sitecustomize.py": _TOUCH,
    "ipython_config.py": _TOUCH,
    "matplotlibrc": "backend: module://multiprocessing\n",
    "ansible.cfg": "[defaults]\nlibrary = .\n",
    ".git/config": "[core]\n\tfsmonitor = touch {mark}\n",
    "papermill.yml": "a: 1\n",
}


@pytest.fixture
def report(tmp_path: Path) -> Path:
    kept = todays("multi-buffer-pool")
    shutil.copytree(kept, tmp_path / kept.name)
    return tmp_path / kept.name


def _verified_from(folder: Path, report: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BIN / "innolab", "verify", str(report)], cwd=folder, capture_output=True, text=True,
        env={name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"},
    )  # fmt: skip


def _plant(folder: Path, name: str, mark: Path) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(_READ_FROM_THERE[name].replace("{mark!r}", repr(str(mark))).replace(
        "{mark}", str(mark)))  # fmt: skip


@pytest.mark.parametrize("name", _READ_FROM_THERE)
def test_a_file_that_belongs_to_no_report_is_refused_and_not_read(
    report: Path, tmp_path: Path, name: str
) -> None:
    mark = tmp_path / _MARK
    _plant(report, name, mark)
    done = _verified_from(report, Path())
    assert done.returncode == 1
    assert f"'{name.partition('/')[0]}': no report has a" in done.stdout
    assert not mark.exists()


def test_what_is_in_the_reader_s_folder_is_neither_run_nor_read(
    report: Path, tmp_path: Path
) -> None:
    folder, mark = tmp_path / "work", tmp_path / _MARK
    folder.mkdir()
    for name in _READ_FROM_THERE:
        _plant(folder, name, mark)
    done = _verified_from(folder, report)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not mark.exists()


def test_a_parameter_named_as_code_in_a_report_of_another_commit_runs_nothing(
    report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / _MARK
    plan = json.loads((report / "plan.json").read_text())
    plan["parameters"][f"x=1\nopen({str(mark)!r}, 'w')\ny"] = 1
    (report / "plan.json").write_text(json.dumps(plan))
    body = manifest.read(report)
    body["rendered_by"]["commit"] = "7417050" + "0" * 33
    body["parameters"] = plan["parameters"]
    body["files"] = manifest.digests(report)
    body["seal"] = manifest.seal_of(body)
    (report / folders.MANIFEST_FILE).write_text(json.dumps(body))
    found, started = _watched(monkeypatch, lambda: verify.verify(report))
    assert found.faults
    assert not mark.exists()
    assert not any("render" in word for command in started for word in command)


def test_all_that_verify_starts_is_known(report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, started = _watched(monkeypatch, lambda: verify.verify(report))
    assert found.faults == []
    for command in started:
        is_worker = command[1:4] == ["-P", "-m", "innolab.verify.worker"]
        assert is_worker or command[0] in ("git", "ssh-keygen"), command


def _watched(
    monkeypatch: pytest.MonkeyPatch, do: Callable[[], Findings]
) -> tuple[Findings, list[list[str]]]:
    started: list[list[str]] = []
    begin = subprocess.Popen.__init__

    def watched(self: object, command: list[str], *rest: object, **more: object) -> None:
        started.append([str(word) for word in command])
        begin(self, command, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(subprocess.Popen, "__init__", watched)
    return do(), started


def test_every_python_that_we_start_has_a_safe_path() -> None:
    """One module knows how: elsewhere the interpreter is named to find files next to it alone."""
    allowed = {"innolab/base/children.py", "innolab/hosts/playbooks.py", "innolab/hosts/bundle.py"}
    found = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "innolab").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if (isinstance(node, ast.Attribute) and node.attr == "executable"
        and isinstance(node.value, ast.Name) and node.value.id == "sys")
        or (isinstance(node, ast.ImportFrom) and (node.module or "").startswith("multiprocessing"))
    }  # fmt: skip
    assert found <= allowed
