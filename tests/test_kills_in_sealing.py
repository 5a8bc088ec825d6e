"""Rendering and sealing of recorded runs, killed on the way again and again."""

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from conftest import BIN, ROOT, reference

from innolab import studies
from innolab.record import series_store
from innolab.report import folders, manifest, sealing

_SEAL = """
import sys
from collections.abc import Iterator
from pathlib import Path
from innolab.base.clock import Clock
from innolab.measure import workflow
from innolab.record.plan import Silent
from innolab.studies.experiment import Experiment
from innolab.verify import verify
folder = Path(sys.argv[1])
print(workflow.make_report(Experiment.read(folder), folder, Silent(), Clock(), verify.require))
"""


_KEPT = reference("multi-buffer-pool")


def _begun(place: Path) -> Path:
    """Return an unfinished report in which every run is recorded, as measuring leaves it."""
    begun = place / _KEPT.parent.name / f"{_KEPT.name}{folders.UNFINISHED}"
    begun.mkdir(parents=True)
    folders.copy_recorded(_KEPT, begun)
    (begun / "rules.json").unlink(missing_ok=True)
    series = _series(begun)
    (begun / series_store.FILE).unlink()
    (begun / series_store.FOLDER).mkdir()
    for name, frame in series.items():
        frame.to_parquet(begun / name, index=False)
    return begun


def _series(report: Path) -> dict[str, pd.DataFrame]:
    """Return the series of every run, by the name that it has in the run."""
    store = series_store.SeriesStore(report)
    runs = studies.find("multi-buffer-pool").read(report).runs
    read = {str(run.series): store.read(run) for run in runs}
    return {name: frame for name, frame in read.items() if frame is not None}


def _sealing(begun: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _SEAL, str(begun)], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("seed", "kills"),
    [(0, 2), *(pytest.param(n, 10, marks=pytest.mark.thorough) for n in range(1, 35))],
)
def test_a_report_that_was_killed_while_it_was_sealed_is_sealed_by_the_next_start(
    tmp_path: Path, seed: int, kills: int
) -> None:
    """It proves itself as it is sealed, so that no other check of it is needed here."""
    drawn = random.Random(seed)
    begun = _begun(tmp_path)
    for _ in range(kills):
        if not begun.exists():  # It was done before the kill.
            shutil.rmtree(begun.parent)
            begun = _begun(tmp_path)
        process = _sealing(begun)
        time.sleep(drawn.uniform(0.2, 15.0))
        process.kill()
        process.communicate()
        assert _names(begun.parent) <= {begun.name, begun.name.removesuffix(".unfinished")}
    if begun.exists():
        printed, said = (process := _sealing(begun)).communicate()
        assert process.returncode == 0, said
        assert Path(printed.strip()).is_file()
    [sealed] = begun.parent.iterdir()
    kept = _series(_KEPT)
    assert all(frame.equals(kept[name]) for name, frame in _series(sealed).items())
    assert _series(sealed).keys() == kept.keys()


def test_whatever_was_left_in_the_folder_is_no_part_of_the_report(tmp_path: Path) -> None:
    begun = _begun(tmp_path)
    for name in ("kernel-ipc-1", "part.notebook.ipynb", "figures/old.svg"):
        (begun / name).parent.mkdir(exist_ok=True)
        (begun / name).touch()
    with sealing.apart(folders.version_of(begun), begun) as made:
        (made / "verdicts.json").write_text("[]")
        (made / folders.MANIFEST_FILE).write_text("{}")
        sealed = sealing.finish(made, begun, lambda _: None)
    assert folders.foreign(sealed) == []
    assert not (sealed / "figures").exists()


def test_a_report_that_does_not_hold_is_not_sealed(tmp_path: Path) -> None:
    begun = _begun(tmp_path)

    def refuse(_: Path) -> None:
        raise ZeroDivisionError

    with (
        pytest.raises(ZeroDivisionError),
        sealing.apart(folders.version_of(begun), begun) as made,
    ):
        sealing.finish(made, begun, refuse)
    assert _names(begun.parent) == {begun.name}


_VERBS = {
    "render": ["render", "REPORT"],
    "judge": ["judge", "data/judged/percona-buffer-pool-2026.csv",
              "--about", "data/judged/percona-buffer-pool-2026.yml"],
}  # fmt: skip


@pytest.mark.parametrize("verb", _VERBS)
def test_a_verb_that_is_killed_leaves_nothing_or_a_whole_report(folder: Path, verb: str) -> None:
    """On a fast machine the last kill may come when the report is sealed, which is then whole."""
    for number, after_s in enumerate((0.5, 1.5, 2.5, 4)):
        reports = folder / str(number)
        process = _start(verb, reports)
        time.sleep(after_s)
        process.kill()
        process.wait()
        if sealed := _sealed(reports):
            assert [folders.foreign(report) for report in sealed] == [[]]
            assert [manifest.faults(report, manifest.read(report)) for report in sealed] == [[]]
        else:
            assert [path for path in reports.rglob("*") if path.is_file()] == []
    assert _sealed(folder / "0") == [], "it was done before the first kill"


def _start(verb: str, reports: Path) -> subprocess.Popen[bytes]:
    report = str(reference("multi-buffer-pool"))
    words = [report if word == "REPORT" else word for word in _VERBS[verb]]
    return subprocess.Popen(
        [BIN / "innolab", *words], cwd=ROOT, env={**os.environ, "INNOLAB_REPORTS": str(reports)},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def _sealed(reports: Path) -> list[Path]:
    return [path.parent for path in reports.rglob(folders.MANIFEST_FILE)]


@pytest.mark.parametrize("verb", _VERBS)
def test_a_verb_without_space_leaves_nothing(folder: Path, verb: str, full_disk: Path) -> None:
    """The disk of the reports is full; the temporary folder is not."""
    report = str(reference("multi-buffer-pool"))
    words = [report if word == "REPORT" else word for word in _VERBS[verb]]
    done = subprocess.run(
        [BIN / "innolab", *words], cwd=ROOT, capture_output=True, text=True,
        env={**os.environ, "INNOLAB_REPORTS": str(full_disk), "TMPDIR": str(folder)},
    )  # fmt: skip
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(full_disk.iterdir()) == []


@pytest.fixture
def full_disk(folder: Path) -> Iterator[Path]:
    """A file system in memory of 64 KiB; making one needs root."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system to be filled")
    place = folder / "full"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", place], check=True)
    yield place
    subprocess.run(["umount", place], check=True)
