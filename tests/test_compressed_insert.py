"""The study of compressed inserts: its sizes, its curves, its journal, and what may go wrong."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import BIN, ROOT, Innolab

from innolab import studies
from innolab.base.errors import InputError
from innolab.record import journal
from innolab.record.journal import Checkpoint, Journal
from innolab.record.run import Run
from innolab.record.runlog import RunLog
from innolab.studies.compressed_insert import filling, growth, study
from innolab.studies.compressed_insert.parameters import segments_of
from innolab.studies.study import Arm

_NAME = "compressed-insert"


def _parameters(**given: Any) -> Any:
    return studies.find(_NAME).check(given)


@pytest.mark.parametrize("scale", ["smoke", "quick", "paper"])
def test_a_scale_keeps_the_seeds_ratios(scale: str) -> None:
    parameters = _parameters(scale=scale)
    knee = parameters.knee_bytes
    assert knee == pytest.approx(parameters.rows_per_mrow * 70 * 5e9 / 70e6)
    for name, ratio in (("4G", 4 / 5), ("8G", 8 / 5)):
        asked = study.settings(parameters, Arm(pool=name), {})
        assert asked["innodb_buffer_pool_size"] / knee == pytest.approx(ratio, rel=0.01)
    assert _parameters(scale="paper").table_rows == 200_000_000


def test_segments_are_whole_statements_and_all_the_rows() -> None:
    parameters = _parameters(rows=100_003, rows_per_statement=7, segments=4)
    sizes = segments_of(parameters, "auto")
    assert len(sizes) == 4
    assert all(size % 7 == 0 for size in sizes)
    assert sum(sizes) == parameters.table_rows == 99_995 + 7
    assert segments_of(parameters, "shuffled") == [sum(sizes)]


def test_an_old_server_has_no_arms_with_compressed_pages() -> None:
    parameters = _parameters()
    formats = {
        build: {arm.format for arm in study.STUDY.arms(parameters, build)}
        for build in ("mysql-5.6.24", "mysql-9.7", "mysqld-5.7.44", "mysqld-8.0.36")
    }
    assert "page" not in formats["mysql-5.6.24"]
    assert all("page" in formats[name] for name in formats if name != "mysql-5.6.24")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"key_block_kib": 3}, "'key_block_kib' is 3 but should be 1, 2, 4, 8 or 16"),
        ({"page_kib": 32}, "'page_kib' is 32 but should be 4, 8 or 16"),
        ({"key_block_kib": 8, "page_kib": 4}, "KEY_BLOCK_SIZE 8 is larger than a page of 4 KiB"),
        ({"devices": ["floppy"]}, "names 'floppy'"),
        ({"random_share": 1.5}, "'random_share'"),
        ({"rows": 10}, "'rows'"),
    ],
)
def test_bad_input_is_named(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        _parameters(**given)


class _Build:
    def __init__(self, version: str) -> None:
        self.version = version
        self.id = version


def test_a_build_without_partitioning_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study.builds, "lacks", lambda _build, names: sorted(names))
    assert "without partitioning" in str(study.refuses(_Build("5.6.10")))  # type: ignore[arg-type]
    # Since 8.0 InnoDB itself partitions, and the server has no such part to name.
    assert study.refuses(_Build("9.7.4")) is None  # type: ignore[arg-type]


def _piece(rows: list[float], t0: float, rate: float) -> list[dict[str, float]]:
    return [
        {"t_s": t0 + (n - rows[0]) / rate, "rows": n, "mysqld_cpu_s": n * 2e-5, "dirty_pages": n}
        for n in rows
    ]


def test_a_pause_and_a_new_server_between_pieces_count_for_nothing() -> None:
    pieces = [_piece([0, 50, 100], 0, 10), _piece([0, 100], 500, 20)]
    joined = growth.joined(pieces)
    assert [row["rows"] for row in joined] == [0, 50, 100, 100, 200]
    assert [row["t_s"] for row in joined] == pytest.approx([0, 5, 10, 10, 15])
    found = growth.by_rows(joined, [0, 100, 200])
    assert found["t_s"] == pytest.approx([10, 5])
    assert found["rows"] == pytest.approx([100, 100])
    assert found["mysqld_cpu_s"] == pytest.approx([0.002, 0.002])
    assert found["dirty_pages"] == pytest.approx([50, 50])


def test_bins_between_samples_share_them_by_straight_lines() -> None:
    rows = [{"t_s": t, "rows": 10.0 * t, "dirty_pages": 0.0} for t in range(0, 31, 3)]
    found = growth.by_rows(rows, list(range(0, 301, 20)))
    assert found["t_s"] == pytest.approx([2.0] * 15)


def _grown(rates: list[float]) -> list[dict[str, Any]]:
    """Return the observations of a table whose 13 bins of 10 rows went in at these rates."""
    counters = dict.fromkeys(
        ("device_read_bytes", "device_written_bytes", "device_reads", "device_writes",
         "host_busy_s", "host_iowait_s", "mysqld_cpu_s", "redo_bytes", "host_total_s"), 0.0
    )  # fmt: skip
    t, rows = 0.0, 0
    samples = [
        {"t_s": t, "rows": rows, "dirty_pages": 1.0, "checkpoint_age_bytes": 2.0, **counters}
    ]
    for rate in rates:
        t, rows = t + 10 / rate, rows + 10
        counters = {name: value + 10 / rate for name, value in counters.items()}
        gauges = {"dirty_pages": 1.0, "checkpoint_age_bytes": 2.0}
        samples.append({"t_s": t, "rows": rows, **gauges, **counters})
    record = {"compressed": 4, "failed": 1, "cpu_s": 1.0, "redo_bytes": 10}
    done = Checkpoint(rows, 0, 0, [record], [samples])
    return growth.measured(done, range(0, 131, 10), 1.0)


def test_spans_and_knee_are_in_millions_of_the_originals_rows() -> None:
    rows = _grown([100.0] * 7 + [40.0, 40.0] + [20.0] * 4)
    spans = {row["span"]: row["per_s"] for row in rows if "span" in row}
    assert spans == pytest.approx({"memory": 100, "early": 100, "middle": 40, "late": 20})
    assert [row["mrows"] for row in rows if "mrows" in row] == list(range(10, 131, 10))
    found = rows[-1]
    assert found["fall_ratio"] == pytest.approx(0.2)
    assert found["knee_found"] == 1
    assert found["knee_mrows"] == pytest.approx(70, abs=6)
    assert found["compress_failed_ratio"] == 0.25
    flat = _grown([100.0] * 13)[-1]
    assert (flat["knee_found"], flat["knee_mrows"]) == (0, 130.0)


@pytest.mark.parametrize(("waits", "stalled"), [(0.05, False), (0.3, True)])
def test_a_stall_is_where_processors_waited_most(waits: float, stalled: bool) -> None:
    curve = {"iowait_share": [0.01, waits, 0.02], "busy_share": [0.9, 0.2, 0.8]}
    expected = {"stall_busy_share": 0.2, "stall_iowait_share": waits} if stalled else {}
    assert growth._stall(curve) == expected


def test_a_journal_outlives_a_session_where_its_data_do(folder: Path) -> None:
    report, cache = folder / "report", folder / "cache"
    report.mkdir()
    cache.mkdir()
    first = Journal(report, "a", cache, lasting=True)
    assert (first.why_again(), first.checkpoint()) == ("", None)
    first.begin()
    assert "before its first segment" in Journal(report, "a", cache, lasting=True).why_again()
    assert "a disk that ended" in Journal(report, "a", cache, lasting=False).why_again()
    first.data.mkdir()
    done = Checkpoint(10, 12, 99, [{"rows": 10}], [[{"t_s": 0.5}]])
    first.complete(done)
    first.data.rename(folder / "elsewhere")
    assert "are gone" in Journal(report, "a", cache, lasting=True).why_again()
    (folder / "elsewhere").rename(first.data)
    assert Journal(report, "a", cache, lasting=True).checkpoint() == done
    assert Journal(report, "b", cache, lasting=True).checkpoint() is None
    journal.clear_orphans(cache)
    assert first.data.exists(), "a journal names it"
    journal.settle(report, ["a"])
    journal.clear_orphans(cache)
    assert not first.place.exists(), "no journal names it any more"


def test_a_damaged_journal_is_explained(folder: Path) -> None:
    (folder / journal.FILE).write_text('{"trial": "a", "pl')
    with pytest.raises(InputError, match="Remove it, and its trial"):
        Journal(folder, "a", folder, lasting=True).checkpoint()


def test_data_that_were_asked_to_be_kept_are_never_cleared(folder: Path) -> None:
    begun = Journal(folder, "a", folder, lasting=True)
    begun.begin()
    kept = begun.keep_failed()
    begun.end()
    journal.clear_orphans(folder)
    assert kept.exists()


def test_the_pace_says_rows_rate_and_time_left() -> None:
    said: list[str] = []
    pace = filling.GrowthPace(1000, said.append)
    # Rows of another table, which runs the server in.
    for t in range(3):
        pace({"t_s": t - 9.0, "rows": 900.0 * t})
    assert said == []
    pace.begin(100)
    for t in range(4):
        pace({"t_s": float(t), "rows": 5000 + 100.0 * t})
    assert said[-1] == "400 of 1,000 rows, 100 rows/s, 6 s left"


# Real servers from here on.

_RUN = ["run", _NAME, "--scale", "smoke", "-p", "devices=host", "-p", "builds=mysql-9.7"]
_KILLED = [*_RUN, "-p", "segments=6"]


@pytest.fixture
def env(folder: Path) -> Iterator[dict[str, str]]:
    """A cache of its own that shares the host's builds and tools."""
    yield _environment(folder)


def _environment(folder: Path) -> dict[str, str]:
    from innolab.hosts import machine

    for name in ("builds", "etc", "tools"):
        (folder / name).symlink_to(machine.cache_folder() / name)
    return {"INNOLAB_CACHE": str(folder), "INNOLAB_REPORTS": str(folder / "reports")}


def _journal(env: dict[str, str]) -> dict[str, Any]:
    found = list(Path(env["INNOLAB_REPORTS"]).glob(f"{_NAME}/*.unfinished/{journal.FILE}"))
    return json.loads(found[0].read_text()) if found else {}


def _killed_after_a_segment(env: dict[str, str], words: list[str]) -> None:
    run = subprocess.Popen(
        [BIN / "innolab", *words], env={**os.environ, **env}, cwd=ROOT,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    end = time.monotonic() + 90
    while time.monotonic() < end and not (_journal(env).get("checkpoint") or {}).get("rows"):
        time.sleep(0.05)
    time.sleep(0.4)
    run.send_signal(signal.SIGKILL)
    run.wait()


def _runs(out: str) -> list[Run]:
    return RunLog(Path(out.splitlines()[-1]).parent / "runs.jsonl").load()[0]


@pytest.mark.alone
@pytest.mark.thorough
@pytest.mark.integration
def test_a_killed_run_resumes_at_its_last_segment(env: dict[str, str], innolab: Innolab) -> None:
    _killed_after_a_segment(env, _KILLED)
    reached = _journal(env)["checkpoint"]["rows"]
    done = innolab(*_KILLED, **env)
    assert done.returncode == 0, done.stderr
    first, *others = _runs(done.stdout)
    assert first.conditions["pieces"]["resumed_at_rows"] >= reached > 0
    assert first.valid
    assert [c.result for c in first.checks if c.check == "in one piece"] == ["warn"]
    assert (
        sum(one["rows"] for one in first.conditions["segments"])
        == _parameters(scale="smoke").table_rows
    )
    assert all(run.conditions["pieces"]["resumed_at_rows"] == 0 for run in others)
    report = Path(done.stdout.splitlines()[-1]).parent
    assert not (report / journal.FILE).exists()
    assert list(Path(env["INNOLAB_CACHE"], journal.KEPT).glob("*")) == []
    assert innolab("verify", str(report), **env).returncode == 0


@pytest.mark.alone
@pytest.mark.thorough
@pytest.mark.integration
def test_a_table_that_is_not_as_it_was_left_starts_again_and_says_so(
    env: dict[str, str], innolab: Innolab
) -> None:
    _killed_after_a_segment(env, _KILLED)
    [file] = Path(env["INNOLAB_REPORTS"]).glob(f"{_NAME}/*.unfinished/{journal.FILE}")
    body = json.loads(file.read_text())
    body["checkpoint"]["checksum"] ^= 1
    file.write_text(json.dumps(body))
    done = innolab(*_KILLED, **env)
    assert done.returncode == 0, done.stderr
    first = _runs(done.stdout)[0]
    assert first.conditions["pieces"]["resumed_at_rows"] == 0
    assert "not as it was left" in first.conditions["pieces"]["again"]
    assert first.valid


# The disk is filled while the first arm inserts, and freed when its failure has been recorded.
_FILLED = """
mount -o loop {folder}/image {folder}/disk && chmod 755 {folder}/disk
ln -s {cache}/builds {cache}/etc {cache}/tools {folder}/disk
export INNOLAB_CACHE={folder}/disk INNOLAB_REPORTS={folder}/reports
{run} > {folder}/out 2> {folder}/err &
while ! ls {folder}/disk/innolab-kept/*/data/innolab/test* > /dev/null 2>&1; do sleep 0.05; done
sleep 1
room=$(df --output=avail -B1 {folder}/disk | tail -1)
fallocate -l $((room - 1000000)) {folder}/disk/ballast
while ! grep -q failed {folder}/reports/*/*/runs.jsonl 2> /dev/null; do sleep 0.05; done
rm {folder}/disk/ballast
wait $!
"""


@pytest.mark.alone
@pytest.mark.thorough
@pytest.mark.integration
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount the small disk that this needs")
@pytest.mark.parametrize("option", [[], ["--keep-failed"]])
def test_a_full_disk_is_a_failed_run_and_the_rest_goes_on(folder: Path, option: list[str]) -> None:
    from innolab.hosts import machine

    with (folder / "image").open("wb") as image:
        image.truncate(1600 * 1024**2)
    subprocess.run(["mkfs.ext4", "-q", "-F", folder / "image"], check=True)
    (folder / "disk").mkdir()
    run = " ".join([f"{BIN}/innolab", *_RUN, *option])
    script = _FILLED.format(folder=folder, cache=machine.cache_folder(), run=run)
    after = f"ls {folder}/disk/innolab-kept > {folder}/kept; umount {folder}/disk"
    subprocess.run(["unshare", "--mount", "sh", "-c", script + after], timeout=300, cwd=ROOT)
    runs = _runs((folder / "out").read_text())
    failed = [run for run in runs if run.status == "failed"]
    assert len(failed) == 1
    assert "The disk of the data is full" in str(failed[0].error)
    # Two arms, and the control once more.
    assert len(runs) == 3
    assert sum(run.valid for run in runs) == 2
    kept = (folder / "kept").read_text().split()
    assert [name.endswith(journal.FAILED) for name in kept] == [True for _ in option]
    assert ("Its data are kept in innolab-kept" in str(failed[0].error)) == bool(option)


def test_plans_that_name_keep_failed_are_read_and_new_ones_are_refused() -> None:
    study = studies.find("compressed-insert")
    assert study.check({"keep_failed": False}) == study.check({})
    with pytest.raises(InputError, match="'keep_failed' is unknown"):
        study.check({"keep_failed": True})


def test_data_are_kept_on_this_host_alone(innolab: Innolab) -> None:
    done = innolab("run", "compressed-insert", "--keep-failed", "--scheduler", "tcp://127.0.0.1:1")
    assert done.returncode == 2
    assert "does not go with --hosts or --scheduler. Nothing was written." in done.stderr
