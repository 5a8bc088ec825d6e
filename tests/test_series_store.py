"""Series in one file say what they said in a file each."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from innolab.record import series_store
from innolab.record.series_store import SeriesStore

_SERIES = {
    0: pd.DataFrame({"t_s": [0.0, 1.0], "transactions": [0, 4]}),
    2: pd.DataFrame({"t_s": [0.5], "transactions": [1.5], "pages_read": [7]}),
    11: pd.DataFrame({"t_s": [0.0, 1.0, 2.0], "pages_read": [0, 3, 9]}),
}


def _run(trial: int) -> Any:
    return SimpleNamespace(trial=trial, series=series_store.path_of(trial))


@pytest.fixture
def report(tmp_path: Path) -> Path:
    for trial, frame in _SERIES.items():
        path = tmp_path / series_store.path_of(trial)
        path.parent.mkdir(exist_ok=True)
        frame.to_parquet(path, index=False)
    return tmp_path


def _says_the_same(report: Path) -> None:
    store = SeriesStore(report)
    assert store.faults() == []
    assert store.names == {series_store.path_of(trial) for trial in _SERIES}
    for trial, frame in _SERIES.items():
        read = store.read(_run(trial))
        assert read is not None
        assert read.astype(float).equals(frame.astype(float))
        assert list(read) == list(frame)
    assert store.read(_run(1)) is None
    assert store.read(SimpleNamespace(trial=0, series=None)) is None  # type: ignore[arg-type]


def test_each_trial_reads_as_it_was_written(report: Path) -> None:
    _says_the_same(report)
    series_store.merge(report)
    assert [path.name for path in report.iterdir()] == [series_store.FILE]
    _says_the_same(report)


def test_a_report_without_series_has_none(tmp_path: Path) -> None:
    series_store.merge(tmp_path)
    assert SeriesStore(tmp_path).names == set()
    assert SeriesStore(tmp_path).faults() == []
    assert list(tmp_path.iterdir()) == []


def test_a_merge_that_was_killed_is_taken_up(report: Path, tmp_path: Path) -> None:
    """What is left of the single files is no reason to write the whole one again."""
    kept = report / "kept"
    shutil.copytree(report / series_store.FOLDER, kept)
    series_store.merge(report)
    (report / series_store.FOLDER).mkdir()
    shutil.copy(kept / "0002.parquet", report / series_store.path_of(2))
    assert "not both" in SeriesStore(report).faults()[0]
    shutil.rmtree(kept)
    series_store.merge(report)
    _says_the_same(report)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ({"t_s": [1.0]}, "no column of numbers 'trial'"),
        ({"trial": [1.5], "t_s": [1.0]}, "no column of numbers 'trial'"),
        ({"trial": pd.array([1, None], dtype="Int64"), "t_s": [1.0, 2.0]}, "of no trial"),
        ({"trial": [1, 0, 1], "t_s": [1.0, 2.0, 3.0]}, "not in their order"),
    ],
)
def test_rows_of_unclear_trials_are_a_fault(
    tmp_path: Path, rows: dict[str, Any], says: str
) -> None:
    pd.DataFrame(rows).to_parquet(tmp_path / series_store.FILE, index=False)
    [fault] = SeriesStore(tmp_path).faults()
    assert says in fault
