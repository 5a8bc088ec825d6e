"""Versions are never overwritten, and a plan finds its own unfinished report and no other's."""

from pathlib import Path

import pytest

from innolab.base.errors import InputError
from innolab.record.plan import Plan
from innolab.report import folders


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INNOLAB_REPORTS", str(tmp_path))


def _plan(seed: int) -> Plan:
    return Plan("multi-buffer-pool", "0" * 64, {"scale": "quick", "seed": seed}, ["x"], {})


def test_the_same_plan_is_resumed_and_another_gets_the_next_version() -> None:
    first = folders.begin(_plan(1))
    assert folders.begin(_plan(1)) == first
    second = folders.begin(_plan(2))
    assert second != first
    assert folders.version_of(first).endswith("-1")
    assert folders.version_of(second).endswith("-2")


def test_versions_are_ordered_by_number_not_by_letter(tmp_path: Path) -> None:
    for number in (2, 10, 1, 9):
        place = tmp_path / "multi-buffer-pool" / f"2026-01-31-{number}"
        place.mkdir(parents=True)
        (place / folders.MANIFEST_FILE).touch()
    found = [p.name.split("-")[-1] for p in folders.finished("multi-buffer-pool")]
    assert found == ["1", "2", "9", "10"]


def test_a_damaged_plan_is_explained_with_its_file() -> None:
    folder = folders.begin(_plan(1))
    for text in ("{", '{"study": 1}', '["x"]'):
        (folder / "plan.json").write_text(text)
        with pytest.raises(InputError, match=r"plan\.json is damaged"):
            folders.begin(_plan(1))


def test_a_version_that_was_not_used_stays_free() -> None:
    with pytest.raises(ZeroDivisionError), folders.next_version("a-table") as final:
        assert final.name.endswith("-1")
        raise ZeroDivisionError
    assert not final.parent.exists()
    with folders.next_version("a-table") as again:
        assert again == final


def test_what_a_kill_left_half_copied_is_removed_and_uses_up_no_version(tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.mkdir()
    (made / folders.MANIFEST_FILE).touch()
    with folders.next_version("a-table") as final:
        (final.parent / f".{final.name}.part").mkdir()
    with folders.next_version("a-table") as again:
        assert again == final
        folders.put(made, again)
    assert [path.name for path in final.parent.iterdir()] == [final.name]


def test_a_folder_that_is_no_report_is_explained(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no innolab report"):
        Plan.read(tmp_path)
