"""`innolab --version`, and `innolab open`, which starts a browser."""

from pathlib import Path

import pytest
from conftest import ROOT
from typer.testing import CliRunner

import innolab
from innolab import cli
from innolab.base.errors import InputError


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the addresses that a browser is asked to open."""
    addresses: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda address: not addresses.append(address))
    return addresses


def _run(*words: str) -> str:
    return CliRunner().invoke(cli.app, list(words), catch_exceptions=False).stdout


def test_the_version_is_the_packages() -> None:
    assert _run("--version") == f"innolab {innolab.__version__}\n"


@pytest.mark.parametrize("name", ["multi-buffer-pool", "multi-buffer-pool/VERSION", "FOLDER"])
def test_a_report_opens_in_the_browser_and_its_path_is_printed(
    opened: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    """Of a study the newest: versions of one day are in order of their numbers."""
    monkeypatch.setenv("INNOLAB_REPORTS", str(tmp_path))
    for version in ("2026-01-31-9", "2026-01-31-10", "2026-01-30-11", "2026-02-01-1.unfinished"):
        folder = tmp_path / "multi-buffer-pool" / version
        folder.mkdir(parents=True)
        (folder / "manifest.json").touch()
    newest = tmp_path / "multi-buffer-pool" / "2026-01-31-10"
    printed = _run("open", name.replace("VERSION", newest.name).replace("FOLDER", str(newest)))
    assert printed == f"{newest}/index.html\n"
    assert opened == [f"file://{newest}/index.html"]


def test_a_host_without_a_browser_has_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INNOLAB_REPORTS", str(ROOT / "reports"))
    monkeypatch.setattr("webbrowser.open", lambda _: False)
    done = CliRunner().invoke(cli.app, ["open", "device-io"])
    assert (done.exit_code, "No browser" in done.stderr) == (0, True)
    assert Path(done.stdout.strip()).is_file()


@pytest.mark.parametrize(
    ("name", "message"),
    [("replication", "innolab run replication"), ("nosuch", "There is no report 'nosuch'")],
)
def test_what_has_no_report_says_what_to_do(
    opened: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, message: str
) -> None:
    monkeypatch.setenv("INNOLAB_REPORTS", str(tmp_path))
    with pytest.raises(InputError, match=message):
        _run("open", name)
    assert not opened
