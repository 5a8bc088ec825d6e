"""While a report is measured, a page of what is recorded stands where the final one will."""

from pathlib import Path

import pytest
from conftest import reference

from innolab import studies
from innolab.base.errors import InnolabError
from innolab.record.plan import Blocks, Plan
from innolab.report import folders, manifest, provisional, render, sealing
from innolab.studies import rules

_RECORDED = ("plan.json", "runs.jsonl", "rules.json", "series", "series.parquet", "variables")


class _Said:
    def __init__(self) -> None:
        self.marks: list[str] = []

    def say(self, text: str) -> None:
        """Take a line that nobody needs here."""

    def mark(self, text: str) -> None:
        """Keep a line."""
        self.marks.append(text)

    def trials(self, done: int, total: int, left_s: float | None, text: str) -> None:
        """Take a count that nobody needs here."""


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """Return an unfinished report that holds the first trials of a committed one."""
    source = reference("multi-buffer-pool")
    folder = tmp_path / "multi-buffer-pool" / f"{source.name}{folders.UNFINISHED}"
    folder.mkdir(parents=True)
    folders.copy_recorded(source, folder)
    lines = (folder / "runs.jsonl").read_text().splitlines(keepends=True)
    (folder / "runs.jsonl").write_text("".join(lines[:35]))
    return folder


def test_it_stands_at_the_final_address_and_says_what_it_is(begun: Path) -> None:
    study = studies.find("multi-buffer-pool")
    address = provisional.write(study, begun, 1)
    assert address.parent.name == folders.version_of(begun)
    page = address.read_text()
    first, last = Plan.read(begun).blocks or Blocks(0, 0)
    assert f"Provisional: 1 of at most {last} blocks are complete" in page
    assert f"claims are judged after block {first}" in page
    assert not any(f'class="{word}"' in page for word in ("reproduced", "contradicted"))
    assert {p.name for p in begun.iterdir()} <= {*_RECORDED, render.PAGE_FILE}


def test_sealing_puts_the_report_where_the_page_was(begun: Path) -> None:
    address = folders.linked(begun)
    assert address.is_symlink()
    study = studies.find("multi-buffer-pool")
    with sealing.apart(folders.version_of(begun), begun) as made:
        rules.keep(study, made)
        manifest.write(study, made, study.read(made).runs, {"total": 0.0})
        (begun / "kernel-ipc-1").touch()
        sealed = sealing.finish(made, begun, lambda _: None)
        assert manifest.faults(sealed, manifest.read(sealed)) == []
    assert sealed == address
    assert not sealed.is_symlink()
    assert (sealed / folders.MANIFEST_FILE).exists()


def test_it_comes_after_a_block_and_not_after_every_trial(
    begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []

    def write(_study: object, folder: Path, done: int) -> Path:
        written.append(done)
        return folder

    monkeypatch.setattr(provisional, "write", write)
    pages = provisional.Provisional(studies.find("multi-buffer-pool"), begun, _Said())
    pages.after_trial(0, False)
    assert written == []
    pages.after_trial(1, True)
    assert written == [1]


def test_what_cannot_be_shown_yet_is_said_and_measuring_goes_on(
    begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Path:
        raise InnolabError("too few runs")

    monkeypatch.setattr(provisional, "write", fail)
    said = _Said()
    provisional.Provisional(studies.find("multi-buffer-pool"), begun, said).after_trial(1, True)
    assert said.marks == ["no provisional page: too few runs"]
