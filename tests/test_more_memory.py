"""The study more-memory as a user runs it: with root on emulated devices, without on the host's."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from conftest import BIN, ROOT, Innolab

from innolab import studies
from innolab.base.errors import InnolabError
from innolab.base.units import bytes_text
from innolab.hosts import machine
from innolab.hosts.local import HERE
from innolab.measure import prepare
from innolab.mysql import datasets
from innolab.record.runlog import RunLog
from innolab.storage import emulated, fio, profiles
from innolab.studies.experiment import Experiment
from innolab.studies.more_memory.parameters import TIMED
from innolab.studies.study import Arm

pytestmark = pytest.mark.integration
needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="loop devices, mounts and the block-io controller need root"
)
STUDY = studies.find("more-memory")
_WORDS = ["run", "more-memory", "--scale", "smoke", "-p", "builds=mysql-9.7"]


@pytest.fixture(scope="module")
def env() -> Iterator[dict[str, str]]:
    """A cache of its own that shares the host's builds and tools, and a folder for reports."""
    place = Path(tempfile.mkdtemp(prefix="innolab-memory-", dir="/var/tmp"))
    place.chmod(0o755)
    for name in ("builds", "etc", "tools"):
        (place / name).symlink_to(machine.cache_folder() / name)
    (place / "reports").mkdir()
    yield {"INNOLAB_CACHE": str(place), "INNOLAB_REPORTS": str(place / "reports")}
    shutil.rmtree(place)


def _left(env: dict[str, str]) -> list[str]:
    """Return what a session left: mounts, loop devices, a control group, processes, folders."""
    cache = env["INNOLAB_CACHE"]
    mounts = [line for line in Path("/proc/self/mounts").read_text().splitlines() if cache in line]
    loops = [
        str(path)
        for path in Path("/sys/block").glob("loop*/loop/backing_file")
        if cache in path.read_text()
    ]
    groups = [str(p) for p in Path("/sys/fs/cgroup").glob("*/innolab*")]
    work = [str(p) for p in Path(cache).glob("innolab-work")]
    return [*mounts, *loops, *groups, *work, *map(str, _processes(cache))]


def _processes(words: str) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if words.encode() in entry.read_bytes() and int(entry.parent.name) != os.getpid():
                found.append(int(entry.parent.name))
    return found


def _report(done: "subprocess.CompletedProcess[str]") -> Path:
    assert done.returncode == 0, done.stdout + done.stderr
    return Path(done.stdout.splitlines()[-1]).parent


def test_the_sweep_has_every_level_that_the_claims_need() -> None:
    arms = STUDY.arms(STUDY.check({}), "b")
    ratios = {arm.pool_ratio for arm in arms if arm.device == "raid10-8x15k"}
    c, a = 6 / 18, 20 / 18
    wanted = [2 / 18, c, 1.6 * c, 2 * c, 2.5 * c, 3.5 * c, 0.9 * a, a, 22 / 18]
    assert {round(x, 6) for x in wanted} <= ratios
    assert {arm.distribution for arm in arms} == {"uniform", "special", "pareto", "zipf"}
    # 15k is a member of arrays, not what a database lies on; the rest are other studies'.
    others = {"15k", "cap-write-20mb", "s3-disk", "iodrive-80"}
    limited = {*profiles.limited(), "host"} - others
    assert {arm.device for arm in arms} == limited | set(TIMED.values())
    assert {arm.pool_ratio for arm in arms if arm.device in TIMED.values()} == {round(c, 6)}


@pytest.mark.parametrize("scale", ["smoke", "quick", "paper"])
def test_a_scale_changes_sizes_and_no_ratio(scale: str) -> None:
    parameters = STUDY.check({"scale": scale})
    table = parameters.table_rows * 247
    arm = Arm(load="read_only", pool_ratio=1 / 3)
    asked = STUDY.settings(parameters, arm, {"data_bytes": table})
    assert asked["innodb_buffer_pool_size"] / table == pytest.approx(1 / 3, rel=0.03)


@pytest.mark.parametrize("device", [*profiles.profiles(), "host"])
def test_every_device_can_be_tried_alone_at_smoke(device: str) -> None:
    parameters = STUDY.check({"scale": "smoke", "devices": [device]})
    loads = {arm.load for arm in STUDY.arms(parameters, "b")}
    assert loads == {"read_only", "read_write"} or device == "fusionio-320"


def test_the_plan_that_is_printed_is_the_one_that_runs(
    env: dict[str, str], innolab: Innolab
) -> None:
    words = ("plan", "more-memory", "--scale", "smoke", "-p", "devices=host,x25-e", "--trials")
    done = innolab(*words, **env)
    assert done.returncode == 0, done.stderr
    assert "device=host  load=read_only  distribution=uniform" in done.stdout
    assert "x25-e" not in done.stdout


@pytest.mark.alone
@needs_root
def test_a_smoke_run_is_valid_verified_and_leaves_nothing(
    env: dict[str, str], innolab: Innolab
) -> None:
    folder = _report(innolab(*_WORDS, **env))
    runs, _ = RunLog(folder / "runs.jsonl").load()
    assert {run.factors["device"] for run in runs} == {"raid10-8x15k", "fusionio-320"}
    assert all(run.status == "complete" for run in runs), [run.error for run in runs]
    invalid = {c.check for run in runs for c in run.checks if c.result == "invalid"}
    # Other work may load this machine, while a server runs, fio asks a disk for its speed, or the
    # last transactions of a window of one second end.
    assert invalid <= {"other load", "steal", "device as its profile", "overrun"}
    assert _left(env) == []
    verified = innolab("verify", str(folder), **env)
    assert verified.returncode == 0, verified.stdout
    text = (folder / "index.html").read_text()
    assert "emulated, on memory" in text
    shown = pd.read_csv(folder / "figures" / "sweep-read-only.csv")
    valid = {
        run.factors["device"] for run in runs if run.factors["load"] == "read_only" and run.valid
    }
    assert set(shown[shown["kind"] == "run"]["device"]) == valid


@pytest.mark.alone
@pytest.mark.thorough
@needs_root
def test_what_is_asked_of_the_runs_may_be_asked_again(
    env: dict[str, str], innolab: Innolab
) -> None:
    folder = sorted((Path(env["INNOLAB_REPORTS"]) / "more-memory").glob("*/manifest.json"))[
        0
    ].parent
    again = _report(innolab("render", str(folder), "-p", "buy_data_gb=500", **env))
    assert json.loads((again / "plan.json").read_text())["parameters"]["buy_data_gb"] == 500
    assert innolab("verify", str(again), **env).returncode == 0
    refused = innolab("render", str(folder), "-p", "threads=8", **env)
    assert refused.returncode == 2
    assert "changes what is measured" in refused.stderr


@pytest.mark.alone
@pytest.mark.thorough
@needs_root
def test_killed_at_any_moment_the_next_start_cleans_up_and_completes(
    env: dict[str, str], innolab: Innolab
) -> None:
    words = [*_WORDS, "-p", "seed=5", "-p", "replicates=1"]
    for seconds in (3.0, 6.0, 9.0):
        run = subprocess.Popen(
            [BIN / "innolab", *words], env={**os.environ, **env}, cwd=ROOT,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        time.sleep(seconds)
        run.kill()
        run.wait()
        time.sleep(1)
        assert not _processes(f"--defaults-file={env['INNOLAB_CACHE']}")
    folder = _report(innolab(*words, **env))
    runs, _ = RunLog(folder / "runs.jsonl").load()
    # Four arms, and the control's twin.
    assert len(runs) == len({run.key for run in runs}) == 5
    assert _left(env) == []


@pytest.mark.alone
@pytest.mark.thorough
def test_a_killed_sysbench_is_a_failed_run_and_the_rest_goes_on(env: dict[str, str]) -> None:
    words = [*_WORDS, "-p", "seed=6", "-p", "replicates=2", "-p", "devices=host"]
    run = subprocess.Popen(
        [BIN / "innolab", *words], env={**os.environ, **env}, cwd=ROOT,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    end = time.monotonic() + 90
    loads: list[int] = []
    while time.monotonic() < end and not loads:
        loads = [p for p in _processes("--histogram=on") if p != run.pid]
        time.sleep(0.02)
    for pid in loads:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    out, _ = run.communicate(timeout=300)
    assert run.returncode == 0
    runs, _ = RunLog(Path(out.splitlines()[-1]).parent / "runs.jsonl").load()
    failed = [run.error for run in runs if run.status == "failed"]
    # Three arms and the control's twin, twice.
    assert len(runs) == 8
    assert len(failed) == 1
    assert "sysbench ended with status" in str(failed[0])


@pytest.mark.alone
@pytest.mark.thorough
def test_without_root_it_runs_on_the_host_alone_and_says_why(folder: Path) -> None:
    """A user namespace takes root's rights away; such a user has a cache of its own."""
    for name in ("builds", "etc", "tools"):
        (folder / name).symlink_to(machine.cache_folder() / name)
    env = {"INNOLAB_CACHE": str(folder), "INNOLAB_REPORTS": str(folder / "reports")}
    drop = [] if os.geteuid() else ["unshare", "--user"]
    words = [*_WORDS, "-p", "replicates=1"]
    done = subprocess.run(
        [*drop, BIN / "innolab", *words], env={**os.environ, **env}, cwd=ROOT,
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    made = _report(done)
    runs, _ = RunLog(made / "runs.jsonl").load()
    assert {run.factors["device"] for run in runs} == {"host"}
    assert "need root" in (made / "index.html").read_text()


@pytest.mark.alone
@pytest.mark.thorough
def test_more_threads_than_connections_fail_with_the_servers_words(
    env: dict[str, str], innolab: Innolab
) -> None:
    done = innolab(*_WORDS, "-p", "threads=300", "-p", "devices=host", "-p", "replicates=1", **env)
    assert done.returncode == 1
    assert "Too many connections" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("devices=floppy", "the devices are raid10-8x15k"),
        ("devices=host,host", "name each one once"),
        ("rows=5", "greater than or equal to 100000"),
        ("threads=0", "greater than or equal to 1"),
        ("buy_device=host", "the devices are raid10-8x15k"),
        ("rows=900000000", "of memory"),
    ],
)
def test_bad_input_is_explained_before_anything_runs(
    env: dict[str, str], innolab: Innolab, given: str, says: str
) -> None:
    before = sorted(Path(env["INNOLAB_REPORTS"]).rglob("*"))
    done = innolab(*_WORDS, "-p", given, **env)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(Path(env["INNOLAB_REPORTS"]).rglob("*")) == before


def test_a_missing_tool_is_explained_before_anything_runs(
    env: dict[str, str], innolab: Innolab, folder: Path
) -> None:
    for name in ("builds", "etc"):
        (folder / name).symlink_to(machine.cache_folder() / name)
    done = innolab(*_WORDS, **{**env, "INNOLAB_CACHE": str(folder)})
    assert done.returncode == 2
    assert "There is no sysbench" in done.stderr
    assert "make setup" in done.stderr


@pytest.mark.alone
@needs_root
def test_a_device_is_held_to_its_profile_and_a_faster_one_is_found_out(folder: Path) -> None:
    """A real disk under real limits: the profile's pages a second, and one that no disk has."""
    with machine.measuring_alone():
        made = emulated.raise_disk(folder / "disk", 400 * 1024**2)
        try:
            assert bytes_text(made.facts["size_bytes"]) == "400 MiB"
            profile = profiles.profiles()["cap-2000"]
            with made.limited(profile):
                # Shorter, one stall of this machine shows as a faster device.
                limited = fio.calibrate(HERE, made.data, made.cgroup, 2.0)
            fast = profile._replace(name="fast", read_iops=10**7, write_iops=10**7)
            with made.limited(fast):
                free = fio.calibrate(HERE, made.data, made.cgroup, 0.5)
            assert profiles.faults(profile, limited) == []
            assert any("reads a second" in said for said in profiles.faults(fast, free))
        finally:
            emulated.lower_disk(folder / "disk")
    assert not (folder / "disk").exists()


@pytest.mark.alone
@needs_root
def test_a_copy_that_finds_no_room_fails_alone_and_in_words(folder: Path) -> None:
    source = folder / "source"
    (source / "data" / "innolab").mkdir(parents=True)
    (source / "data" / "innolab" / "t.ibd").write_bytes(bytes(100))
    big = source / "data" / "big"
    with machine.measuring_alone():
        made = emulated.raise_disk(folder / "disk", 400 * 1024**2)
        try:
            with big.open("wb") as file:
                file.write(os.urandom(2**20) * 500)
            kept = datasets.Dataset(source, {})
            with pytest.raises(InnolabError, match="No space left"):
                datasets.Clone(HERE, kept, made.data / "clone")
            big.unlink()
            assert datasets.Clone(HERE, kept, made.data / "clone").data.is_dir()
        finally:
            emulated.lower_disk(folder / "disk")


@pytest.mark.alone
@needs_root
def test_a_disk_that_cannot_be_made_is_explained_in_words(folder: Path) -> None:
    (folder / "disk").mkdir()
    (folder / "disk" / "mine.txt").write_text("not to be lost")
    with machine.measuring_alone(), pytest.raises(InnolabError, match="could not be made present"):
        emulated.raise_disk(folder / "disk", 400 * 1024**2)
    assert (folder / "disk" / "mine.txt").read_text() == "not to be lost"


def test_devices_that_need_root_are_left_out_of_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulated, "why_impossible", lambda: "no root")
    ready, missing = prepare._with_usable_devices(Experiment.fresh(STUDY, {}))
    assert ready.parameters.devices == ["host"]
    assert set(missing.values()) == {"no root"}
