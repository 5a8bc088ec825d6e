"""What a shell completes: verbs, studies, reports and claims, as soon as a key is pressed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BIN

from innolab import cli, studies

# Typer itself takes pydantic to read a line.
_HEAVY = {"pandas", "scipy", "numpy", "mysql", "papermill", "matplotlib", "yaml"}


def _asked(line: str, env: dict[str, str]) -> dict[str, str]:
    """Return the environment in which bash asks what the last word of a line may become."""
    words = line.split(" ")
    asks = {"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}
    return {**os.environ, "_INNOLAB_COMPLETE": "complete_bash", **asks, **env}


def _completed(line: str, **env: str) -> list[str]:
    done = subprocess.run(
        [BIN / "innolab"], env=_asked(line, env), capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    for name in ("replication/2026-01-31-1", "more-memory/2026-01-31-1", "more-memory/comparisons"):
        (tmp_path / name).mkdir(parents=True)
        if "2026" in name:
            (tmp_path / name / "manifest.json").touch()
    return tmp_path


def test_verbs_and_studies_are_completed() -> None:
    assert set(_completed("innolab ")) >= set(cli.VERBS)
    assert _completed("innolab do") == ["doctor"]
    assert _completed("innolab plan ") == studies.names()
    assert _completed("innolab run more") == ["more-memory"]
    assert _completed("innolab run more-memory --scale ") == ["smoke", "quick", "paper"]


def test_reports_are_completed(reports: Path) -> None:
    for verb in ("verify", "render", "sign"):
        found = _completed(f"innolab {verb} ", INNOLAB_REPORTS=str(reports))
        assert found == ["more-memory/2026-01-31-1", "replication/2026-01-31-1"]
    again = _completed("innolab compare x rep", INNOLAB_REPORTS=str(reports))
    assert again == ["replication/2026-01-31-1"]
    third = _completed("innolab compare x y more", INNOLAB_REPORTS=str(reports))
    assert third == ["more-memory/2026-01-31-1"]


def test_tables_here_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sweep.csv", "runs.json", "claims.yml", "notes.txt"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    assert _completed("innolab judge ") == ["runs.json", "sweep.csv"]
    assert _completed("innolab judge sweep.csv --claims ") == ["claims.yml"]


def test_claims_are_completed_where_one_is_named() -> None:
    code = (
        "import typer; from innolab.cli.options import ClaimName\n"
        "app = typer.Typer()\n"
        "@app.command()\n"
        "def main(claim: ClaimName): ...\n"
        "app(prog_name='innolab')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=_asked("innolab F1-disk-8v1", {}),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    wanted = {claim.id for claim in studies.find("multi-buffer-pool").claims()}
    assert done.stdout.split() == sorted(one for one in wanted if one.startswith("F1-disk-8v1"))
    assert done.stdout.split()


@pytest.mark.parametrize("line", ["innolab ", "innolab plan ", "innolab verify "])
def test_no_key_waits_for_a_heavy_library(line: str) -> None:
    code = (
        "import sys, innolab.cli\n"
        "sys.argv = ['innolab']\n"
        "try: innolab.cli.main()\n"
        "except SystemExit: print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=_asked(line, {}),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    *found, loaded = done.stdout.splitlines()
    assert found
    assert not _HEAVY & set(loaded.split())


def test_bash_takes_the_script_and_completes() -> None:
    script = (
        f"eval \"$(_INNOLAB_COMPLETE=source_bash '{BIN}/innolab')\"\n"
        "COMP_WORDS=(innolab plan device); COMP_CWORD=2\n"
        f"_innolab_completion '{BIN}/innolab'\n"
        'echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True)
    assert done.stdout.split() == ["device-io"], done.stderr
