"""kill -9 of the run, of mysqld and of both, at random moments: nothing finished is ever lost."""

import contextlib
import os
import random
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import BIN, ROOT, Innolab
from left_behind import left

from innolab.base import waiting
from innolab.hosts import machine
from innolab.mysql import datasets
from innolab.record.runlog import RunLog
from innolab.report import folders
from innolab.storage import emulated, model_disk

pytestmark = [pytest.mark.alone, pytest.mark.integration]

_WORDS = [
    "run",
    "multi-buffer-pool",
    "--scale",
    "smoke",
    "-p",
    "builds=mysql-9.7",
    "-p",
    "devices=host",
]
_NEEDS = emulated.why_impossible() or model_disk.why_impossible()
_KILLS = ["run", "both", "mysqld", "run", "both", "mysqld", "both", "run", "mysqld"]


@pytest.fixture(scope="module")
def env() -> Iterator[dict[str, str]]:
    """An empty cache that shares the host's builds, so that the dataset is built here too."""
    import shutil
    import tempfile

    place = Path(tempfile.mkdtemp(prefix="innolab-crash-", dir="/var/tmp"))
    place.chmod(0o755)
    for name in ("builds", "etc", "tools"):
        (place / name).symlink_to(machine.cache_folder() / name)
    (place / "reports").mkdir()
    yield {"INNOLAB_CACHE": str(place), "INNOLAB_REPORTS": str(place / "reports")}
    shutil.rmtree(place)


def _servers(cache: str) -> list[int]:
    ours = f"--defaults-file={cache}/".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if ours in entry.read_bytes():
                found.append(int(entry.parent.name))
    return found


def _kill(pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _gone(cache: str) -> bool:
    end = time.monotonic() + 5
    while time.monotonic() < end and _servers(cache):
        time.sleep(0.05)
    return not _servers(cache)


def _records(env: dict[str, str]) -> bytes:
    found = list(Path(env["INNOLAB_REPORTS"]).glob("multi-buffer-pool/*.unfinished/runs.jsonl"))
    assert len(found) <= 1, "a resumed run goes on in the folder of the first"
    return found[0].read_bytes() if found else b""


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(7))
def test_killed_at_random_moments_nothing_is_lost_and_the_run_completes(
    env: dict[str, str], innolab: Innolab, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Sixty-three kills in seven runs, each of which ends as a report that verified itself."""
    cache = env["INNOLAB_CACHE"]
    env = {**env, "INNOLAB_REPORTS": f"{cache}/reports-{seed}"}
    draw = random.Random(20170901 + seed)
    finished = b""
    for what in _KILLS:
        run = subprocess.Popen(
            [BIN / "innolab", *_WORDS], env={**os.environ, **env}, cwd=ROOT,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        time.sleep(draw.uniform(1.0, 9.0))
        if what in ("mysqld", "both"):
            _kill(_servers(cache))
        if what == "mysqld":
            time.sleep(draw.uniform(0.5, 3.0))  # the run goes on; it is ended further on
        run.kill()
        run.wait()
        assert _gone(cache), "a mysqld outlived its run"
        with machine.measuring_alone():
            pass  # no lock was left
        now = _records(env)
        assert now.startswith(finished[: finished.rfind(b"\n") + 1]), "a finished run was lost"
        finished = now
    done = innolab(*_WORDS, **env)
    assert done.returncode == 0, done.stderr
    assert _servers(cache) == []
    assert not (Path(cache) / datasets.WORK).exists()
    assert list((Path(cache) / "datasets").glob("*" + datasets.HALF)) == []
    _check_report(Path(done.stdout.splitlines()[-1]).parent, finished, monkeypatch, env)


def _check_report(
    folder: Path, finished: bytes, monkeypatch: pytest.MonkeyPatch, env: dict[str, str]
) -> None:
    monkeypatch.setenv("INNOLAB_REPORTS", env["INNOLAB_REPORTS"])
    runs, torn = RunLog(folder / "runs.jsonl").load()
    assert torn is None
    whole = finished[: finished.rfind(b"\n") + 1]
    assert (folder / "runs.jsonl").read_bytes().startswith(whole)
    assert max(Counter(run.key for run in runs).values()) == 1, "a trial ran twice"
    assert len(runs) == 8
    assert all(run.error and "died" in run.error for run in runs if run.status == "failed")
    assert folders.finished("multi-buffer-pool") == [folder]
    assert folders.unfinished("multi-buffer-pool") == []


@pytest.mark.thorough
def test_a_killed_mysqld_is_a_failed_run_and_the_rest_goes_on(
    env: dict[str, str], innolab: Innolab
) -> None:
    cache = env["INNOLAB_CACHE"]
    words = [*_WORDS, "-p", "replicates=1", "-p", "seed=9"]
    run = subprocess.Popen(
        [BIN / "innolab", *words], env={**os.environ, **env}, cwd=ROOT,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    end = time.monotonic() + 60
    while time.monotonic() < end and not _servers(cache):
        time.sleep(0.05)
    time.sleep(0.3)
    _kill(_servers(cache))
    out, _ = run.communicate(timeout=300)
    assert run.returncode == 0
    folder = Path(out.splitlines()[-1]).parent
    runs, _ = RunLog(folder / "runs.jsonl").load()
    assert [r.status for r in runs].count("failed") == 1
    assert len(runs) == 8
    page = (folder / "index.html").read_text()
    # On a busy machine a check may refuse others of them.
    assert re.search(r"Not valid: \d of 8 runs of [^(]*\([^)]*1 by a failure", page)
    assert innolab("verify", str(folder), **env).returncode == 0


def test_asked_to_end_it_leaves_nothing_behind(env: dict[str, str]) -> None:
    cache = env["INNOLAB_CACHE"]
    run = subprocess.Popen(
        [BIN / "innolab", *_WORDS, "-p", "seed=10"], env={**os.environ, **env}, cwd=ROOT,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    end = time.monotonic() + 60
    while time.monotonic() < end and not _servers(cache):
        time.sleep(0.05)
    run.terminate()
    _, said = run.communicate(timeout=60)
    assert run.returncode == 1
    assert "run the same command to resume" in said
    assert "Traceback" not in said
    assert _servers(cache) == []
    assert not (Path(cache) / datasets.WORK).exists()


@pytest.mark.skipif(_NEEDS is not None, reason=f"needs more: {_NEEDS}")
def test_killed_it_leaves_no_disk_and_may_be_started_again_at_once(env: dict[str, str]) -> None:
    cache = env["INNOLAB_CACHE"]
    disks = [f"{cache}/{datasets.WORK}/{disk}/data" for disk in ("disk", "timed-disk")]
    for waits in (True, False):
        run = _measuring_disks(env)
        waiting.await_that(lambda: _mounted(disks), 90, "the disks were not there")
        run.kill()
        run.wait()
        if waits:
            waiting.await_that(lambda: _is_clean(cache), 30, "what it left was not gone")
    # While what was left is being removed: it waits for that, and is not refused.
    reports = Path(env["INNOLAB_REPORTS"]) / "device-io"
    logs = "*.unfinished/runs.jsonl"
    assert not list(reports.glob(logs)), "the killed ones had not come that far"
    run = _measuring_disks(env)
    waiting.await_that(lambda: any(reports.glob(logs)), 120, "nothing was begun")
    run.terminate()
    assert run.wait(60)
    assert left(cache) == []


def _measuring_disks(env: dict[str, str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [BIN / "innolab", "run", "device-io", "--scale", "smoke",
         "-p", "devices=15k-timed,fusionio-320"],
        env={**os.environ, **env}, cwd=ROOT,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def _is_clean(cache: str) -> bool:
    return left(cache) == [] and not (Path(cache) / datasets.WORK).exists()


def _mounted(places: list[str]) -> bool:
    mounts = Path("/proc/self/mounts").read_text()
    return all(f" {place} " in mounts for place in places)
