"""The model of a disk against queueing theory, and the disk that it serves, with real mounts."""

import errno
import hashlib
import json
import math
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from innolab.base.clock import Clock
from innolab.base.errors import InnolabError, InputError
from innolab.hosts import machine
from innolab.hosts.local import HERE
from innolab.storage import emulated, fio, model_disk, profiles, sites
from innolab.storage.emulated import EmulatedDisk
from innolab.storage.profiles import DeviceLoad, Outcome, ServiceTimes
from innolab.storage.raid import Array

pytestmark = pytest.mark.integration

_GB = 10**9
_SERVICE_S = 0.001
_ALONE = DeviceLoad(1)


def _channels(units: int = 1, copies: int = 1, read_s: float = _SERVICE_S) -> ServiceTimes:
    """Return flash whose every operation takes the same time, on as wide a bus as there can be."""
    return ServiceTimes(units, copies, 16384, 1, 0, 0, 0, read_s, read_s, read_s, 1e15, 0, 1e15,
                        0, 0, 0, 0)  # fmt: skip


def _of(name: str) -> ServiceTimes:
    times = profiles.profiles()[name].times
    assert times is not None
    return times


def _simulated(times: ServiceTimes, load: DeviceLoad, **asked: float) -> Outcome:
    sizes = {"size_bytes": 4 * _GB, "span_bytes": 4 * _GB, "operations": 100_000}
    return model_disk.simulated(times, load, **{**sizes, **asked})  # type: ignore[arg-type]


def _lindley(arrivals_s: np.ndarray, service_s: np.ndarray) -> np.ndarray:
    """Return what each customer of one server takes: W' = max(0, W + S - A), Lindley 1952."""
    waits = np.empty(len(service_s))
    wait = 0.0
    for i, (gap, service) in enumerate(zip(arrivals_s, service_s, strict=True)):
        waits[i] = wait
        wait = max(0.0, wait + service - gap)
    return waits + service_s


@pytest.mark.parametrize("busy", [0.2, 0.5, 0.8])
def test_one_channel_is_an_m_d_1_queue(busy: float) -> None:
    found = _simulated(_channels(), _ALONE, rate_per_s=busy / _SERVICE_S, operations=400_000)
    # Pollaczek and Khinchine, for a service that does not vary.
    assert found.mean_s == pytest.approx(_SERVICE_S * (1 + busy / (2 * (1 - busy))), rel=0.05)
    gaps = np.random.default_rng(1).exponential(_SERVICE_S / busy, 400_000)
    lindley = _lindley(gaps, np.full(400_000, _SERVICE_S))
    assert found.p99_s == pytest.approx(np.quantile(lindley, 0.99), rel=0.15)


@pytest.mark.parametrize("busy", [0.5, 0.8])
def test_an_arm_is_an_m_g_1_queue(busy: float) -> None:
    """Without a choice among those that wait: its times have the moments of one alone."""
    times = _of("15k-timed")._replace(queue=1)
    # Alone, a service: mean and quantiles at regular places give its distribution.
    words = [f"{name}={value}" for name, value in times._asdict().items()]
    program = [machine.tool(model_disk.PROGRAM), "simulate", *words, "size_bytes=4e9"]
    said = subprocess.run(
        [*program, "span_bytes=4e9", "operations=200000"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    alone = {name: float(value) for name, value in (x.split("=") for x in said.split())}
    mean, square = alone["mean_s"], alone["mean_square_s2"]
    found = _simulated(times, _ALONE, rate_per_s=busy / mean, operations=200_000)
    wanted = mean + busy / mean * square / (2 * (1 - busy))
    assert found.mean_s == pytest.approx(wanted, rel=0.05)


def test_channels_share_what_arrives() -> None:
    """Each of ten gets a tenth of it: ten queues beside each other."""
    found = _simulated(_channels(10), _ALONE, rate_per_s=5000, operations=400_000)
    assert found.mean_s == pytest.approx(1.5 * _SERVICE_S, rel=0.05)


@pytest.mark.parametrize("depth", [1, 4, 16])
def test_what_is_in_flight_is_rate_times_latency(depth: int) -> None:
    for name in ("raid10-8x15k-timed", "x25-e-timed"):
        found = _simulated(_of(name), DeviceLoad(depth, read_share=0.7))
        assert found.per_s * found.mean_s == pytest.approx(depth, rel=0.02), name


def test_a_mirror_reads_twice_and_writes_once() -> None:
    single, mirror = _channels(), _channels(2, 2)
    for share, ratio in ((1.0, 2.0), (0.0, 1.0)):
        load = DeviceLoad(32, read_share=share)
        got, alone = (_simulated(times, load).per_s for times in (mirror, single))
        assert got / alone == pytest.approx(ratio, rel=0.02)


_ARM = _channels(read_s=0.005)


def _array(layout: str, disks: int, chunk_bytes: int = 2**19) -> ServiceTimes:
    """Return an array of disks of which each does 200 operations a second, of any size."""
    return Array(layout, disks).of_disks(_ARM, chunk_bytes)


@pytest.mark.parametrize(
    ("layout", "disks"),
    [("single", 1), ("raid1", 2), ("raid1", 4), ("raid10", 4), ("raid10", 8), ("raid5", 4),
     ("raid5", 8)],
)  # fmt: skip
@pytest.mark.parametrize("read_share", [1.0, 0.7, 0.0])
def test_an_array_of_equal_disks_follows_the_formula(
    layout: str, disks: int, read_share: float
) -> None:
    found = _simulated(_array(layout, disks), DeviceLoad(16 * disks, read_share=read_share))
    assert found.per_s == pytest.approx(Array(layout, disks).iops(200, read_share), rel=0.06)


def test_raid5_of_three_reads_the_one_other_disk_of_a_row() -> None:
    """Reading the rest of the row is less than what is overwritten with its parity: 3 for 4."""
    found = _simulated(_array("raid5", 3), DeviceLoad(48, read_share=0))
    assert found.per_s == pytest.approx(3 * 200 / 3, rel=0.03)


@pytest.mark.parametrize(
    ("layout", "disks", "of_md"),
    [("raid5", 4, (750, 195, 402)), ("raid10", 4, (773, 374, 560)), ("raid1", 2, (390, 195, 299))],
)
def test_an_array_gives_what_md_gave_on_such_disks(
    layout: str, disks: int, of_md: tuple[int, int, int]
) -> None:
    """Measured in the lab, with 32 in flight: reads, writes, and 7 of ten reads."""
    for share, measured in zip((1.0, 0.0, 0.7), of_md, strict=True):
        found = _simulated(_array(layout, disks), DeviceLoad(32, read_share=share))
        assert found.per_s == pytest.approx(measured, rel=0.10), share


def test_raid5_writes_whole_rows_without_reading() -> None:
    chunk = 2**16
    for bytes_, services in ((3 * chunk, 1), (chunk, 4 / 3), (6 * chunk, 2)):
        load = DeviceLoad(1, bytes_, read_share=0, in_order=True)
        found = _simulated(_array("raid5", 4, chunk), load, operations=3000)
        # Of the single chunks of a row the first reads the others, which are known from then on.
        assert found.mean_s == pytest.approx(services * 0.005, rel=0.01), bytes_


def test_raid5_does_not_read_again_what_it_remembers() -> None:
    again = {"operations": 1000, "span_bytes": 4 * 16384}
    times, load = _array("raid5", 4, 16384), DeviceLoad(1, read_share=0)
    assert _simulated(times, load, **again).mean_s == pytest.approx(0.005, rel=0.02)
    forgetful = times._replace(cached_rows=0)
    assert _simulated(forgetful, load, **again).mean_s == pytest.approx(0.010, rel=0.02)


def test_writes_to_one_row_wait_for_each_other() -> None:
    """Three at a time on one row: without the lock their reads and writes would overlap."""
    times = _array("raid5", 4, 16384)._replace(cached_rows=0)
    load = DeviceLoad(3, read_share=0, in_order=True)
    one_row, rows = (
        _simulated(times, load, operations=3000, span_bytes=n * 3 * 16384) for n in (1, 1000)
    )
    assert one_row.per_s == pytest.approx(100, rel=0.01)
    assert rows.per_s > 130


def test_a_faster_disk_does_the_same_in_less_time() -> None:
    for name in ("15k-timed", "x25-e-timed"):
        load = DeviceLoad(8, read_share=0.7)
        own, faster = (_simulated(of, load) for of in (_of(name), _of(name).faster(4)))
        assert faster.per_s == pytest.approx(4 * own.per_s, rel=1e-3)
        assert faster.p99_s == pytest.approx(own.p99_s / 4, rel=1e-3)


def test_arrays_that_cannot_be_are_refused() -> None:
    raid5 = _array("raid5", 4)
    for changes in ({"units": 2}, {"copies": 2}, {"parity": 2}, {"stripe_bytes": 6000},
                    {"cache_bytes": 2**20}, {"cached_rows": 1e6}):  # fmt: skip
        with pytest.raises(InnolabError, match="contradict themselves"):
            _simulated(raid5._replace(**changes), _ALONE)


def test_a_disk_of_15000_turns_is_what_its_data_sheet_and_s4_say() -> None:
    times = _of("15k-timed")
    alone, queued, in_order = (
        _simulated(times, load, operations=20_000)
        for load in (_ALONE, DeviceLoad(16), DeviceLoad(8, in_order=True))
    )
    assert 0.0035 + 0.002 <= alone.mean_s <= 0.006, "a seek on average, half a turn, the transfer"
    assert 300 <= queued.per_s <= 400, "S4's operations a second of a disk with a queue"
    assert 30 <= in_order.per_s / alone.per_s <= 100


@pytest.mark.parametrize(
    ("name", "load", "published"),
    [
        ("x25-e-timed", DeviceLoad(32, 4096), 35_000),
        ("x25-e-timed", DeviceLoad(32, 4096, 0), 3_300),
        ("x25-e-timed", DeviceLoad(8, 1024**2, 1, True), 250e6 / 1024**2),
        ("x25-e-timed", DeviceLoad(8, 1024**2, 0, True), 170e6 / 1024**2),
        ("vertex", DeviceLoad(8, 8192, 0), 1_600),
        ("slc-2008", DeviceLoad(8, 8192), 6_800),
        ("slc-2008", DeviceLoad(8, 8192, 0), 57),
        ("slc-2008", DeviceLoad(8, 1024**2, 1, True), 100),
    ],
)
def test_flash_does_what_was_published_of_it(name: str, load: DeviceLoad, published: float) -> None:
    assert _simulated(_of(name), load, operations=20_000).per_s == pytest.approx(
        published, rel=0.06
    )


def test_a_cache_answers_until_it_is_full() -> None:
    times = _of("15k-timed")._replace(cache_bytes=2**26, cache_s=0.0002)
    pages = 2**26 // 16384
    load = DeviceLoad(1, read_share=0)
    assert _simulated(times, load, operations=pages // 2).mean_s < 0.0003
    after, bare = (
        _simulated(of, DeviceLoad(16, read_share=0), operations=10 * pages)
        for of in (times, times._replace(cache_bytes=0))
    )
    # Nine tenths were written while it was full, at the speed of the arm behind it.
    assert after.per_s == pytest.approx(bare.per_s, rel=0.25)


def test_profiles_that_contradict_themselves_are_refused() -> None:
    row = {"name": "x", "source": "", "note": "", **_of("15k-timed")._asdict()}
    for changes, why in [
        ({"copies": 2}, "1 units cannot be 2 copies"),
        ({"seek_full_s": 0.0001}, "a seek over the whole disk takes less"),
        ({"turn_s": 0}, "it seeks but does not turn"),
        ({"read_s": 0.001}, "it turns as a disk, and has"),
    ]:
        with pytest.raises(InputError, match=f"x contradicts itself: {why}"):
            profiles.timed({k: str(v) for k, v in {**row, **changes}.items()})
    with pytest.raises(InnolabError, match="contradict themselves"):
        _simulated(_channels()._replace(units=99), _ALONE)


@pytest.fixture(scope="module")
def disk() -> Iterator[EmulatedDisk]:
    if os.geteuid() != 0:
        pytest.skip("loop devices and mounts need root")
    folder = Path("/var/tmp") / f"innolab-model-{os.getpid()}"
    folder.mkdir()
    try:
        yield emulated.raise_disk(folder / "disk", _GB, timed=True)
    finally:
        emulated.lower_disk(folder / "disk", timed=True)
        folder.rmdir()
        assert not _left(folder)


def _left(folder: Path) -> list[str]:
    """Return mounts, loop devices and programs of a folder."""
    mounts = [x for x in Path("/proc/self/mounts").read_text().splitlines() if str(folder) in x]
    loops = subprocess.run(["losetup", "--list", "--json"], capture_output=True, text=True).stdout
    devices = json.loads(loops or '{"loopdevices": []}')["loopdevices"]
    words = [(pid / "cmdline").read_text() for pid in Path("/proc").glob("[0-9]*") if pid.exists()]
    return [*mounts, *(x["name"] for x in devices if str(folder) in x["back-file"]),
            *(x for x in words if str(folder) in x and "serve" in x)]  # fmt: skip


@pytest.mark.alone
def test_the_program_takes_the_fields_of_our_profiles(disk: EmulatedDisk) -> None:
    assert disk.model is not None
    text = (disk.model.folder / "profile").read_text()
    assert {line.split("=")[0] for line in text.split()} == {*ServiceTimes._fields, "path_s"}
    assert disk.path_s < 0.002


@pytest.mark.alone
def test_fio_sees_the_device_of_the_profile(disk: EmulatedDisk) -> None:
    rows = sites.compare(disk, profiles.profiles()["15k-timed"], 1.0)
    # A wait of 0.2 ms is as long as a busy host takes to wake: that is for the check to find.
    assert not profiles.timed_faults([row for row in rows if row["load"] != "read_in_order"])
    by = {row["load"]: row for row in rows}
    assert by["read_in_order"]["found_per_s"] > 5 * by["read_alone"]["found_per_s"]
    assert by["read_alone"]["found_p50_s"] == pytest.approx(
        by["read_alone"]["modelled_p50_s"], rel=0.15
    )


@pytest.mark.alone
@pytest.mark.parametrize("speedup", [1, 4])
def test_fio_sees_raid5_as_it_is_simulated(disk: EmulatedDisk, speedup: float) -> None:
    times = Array("raid5", 4).of_disks(_of("15k-timed"), 2**19)
    profile = profiles.of_limits("raid5-4", times.limits()).faster(speedup)
    rows = sites.compare(disk, profile, 1.0)
    assert not profiles.timed_faults([row for row in rows if row["load"] != "read_in_order"])


@pytest.mark.alone
def test_reads_that_arrive_at_random_wait_as_theory_says(disk: EmulatedDisk) -> None:
    service_s, busy = 0.004, 0.5
    profile = profiles.Profile(*[None] * 8, times=_channels(read_s=service_s))._replace(name="x")  # type: ignore[arg-type]
    with fio.filled_file(HERE, disk.data) as file, disk.limited(profile):
        words = fio.argv(machine.tool("fio"), file, fio.FILE_BYTES, {"x": DeviceLoad(64)}, 8, 0)
        rate = [f"--rate_iops={round(busy / service_s)}", "--rate_process=poisson"]
        done = subprocess.run([*words, *rate], capture_output=True, text=True, check=True)
    mean_s = fio.outcome(fio.kept(done.stdout, {"x": DeviceLoad(64)})["x"]).mean_s
    # A thousand arrivals know the mean wait of this queue within some 10 %.
    assert mean_s == pytest.approx(service_s * (1 + busy / (2 * (1 - busy))), rel=0.2)


@pytest.mark.alone
def test_what_was_written_is_read_again(disk: EmulatedDisk) -> None:
    file, data = disk.data / "kept", os.urandom(3 * 2**20 + 17)
    with disk.limited(profiles.profiles()["x25-e-timed"]):
        file.write_bytes(data)
        subprocess.run(["sync", str(file)], check=True)
    Path("/proc/sys/vm/drop_caches").write_text("1")
    assert hashlib.sha256(file.read_bytes()).digest() == hashlib.sha256(data).digest()
    file.unlink()


@pytest.mark.alone
def test_a_flush_waits_for_a_cache_that_loses_power_and_for_no_other(disk: EmulatedDisk) -> None:
    slow = _channels(read_s=0.05)._replace(cache_bytes=2**24, cache_s=0.0001)
    took = {}
    for kept in (0, 1):
        profile = profiles.profiles()["vertex"]._replace(times=slow._replace(cache_kept=kept))
        with (disk.data / "log").open("wb", buffering=0) as file, disk.limited(profile):
            file.write(b"x" * 16384)
            began = time.monotonic()
            os.fdatasync(file.fileno())
            took[kept] = time.monotonic() - began
        (disk.data / "log").unlink()
    assert took[0] > 0.05 > 3 * took[1]


@pytest.mark.alone
def test_a_full_disk_says_so(disk: EmulatedDisk) -> None:
    file = disk.data / "large"
    with pytest.raises(OSError, match="No space left") as caught, file.open("wb") as opened:
        while True:
            opened.write(b"x" * 2**24)
            os.fsync(opened.fileno())
    assert caught.value.errno == errno.ENOSPC
    file.unlink()


@pytest.mark.alone
def test_a_profile_that_changes_meanwhile_is_found(disk: EmulatedDisk) -> None:
    assert disk.model is not None
    with (
        pytest.raises(InnolabError, match="nothing can be measured"),
        disk.limited(profiles.profiles()["15k-timed"]),
    ):
        (disk.model.folder / "profile").write_text("units=1 copies=1 stripe_bytes=4096 queue=1\n")
    with pytest.raises(InnolabError, match="did not take"):
        disk.model.become(_channels()._replace(units=99))
    assert disk.model.is_served()


@pytest.mark.alone
def test_a_program_that_ends_fails_what_waits_and_is_started_again(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("loop devices and mounts need root")
    folder = Path("/var/tmp") / f"innolab-sites-{os.getpid()}"
    folder.mkdir()
    known = profiles.profiles()
    made = sites.Sites(folder, known, _GB, 0.3, None, lambda _: None, Clock())
    try:
        disk = made._emulated(sites._TIMED)
        profile = profiles.profiles()["15k-timed"]
        [pid] = [
            int(p.name) for p in Path("/proc").glob("[0-9]*")
            if f"serve\0{folder}" in (p / "cmdline").read_text()
        ]  # fmt: skip
        with (
            fio.filled_file(HERE, disk.data) as file,
            pytest.raises(InnolabError, match=r"has ended|fio ended"),
            disk.limited(profile),
        ):
            words = fio.argv(
                machine.tool("fio"), file, fio.FILE_BYTES, {"x": DeviceLoad(16)}, 20, 0
            )
            running = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(0.5)
            os.kill(pid, 9)
            assert running.wait(timeout=10) != 0
        assert not disk.is_there()
        again = made._emulated(sites._TIMED)
        assert again.is_there()
        assert math.isfinite(again.path_s)
    finally:
        sites.lower_disks(folder)
        folder.rmdir()
        assert not _left(folder)
