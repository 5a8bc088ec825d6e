"""Device profiles, what faults a calibration shows, and the limits that the kernel is asked for."""

import json
from pathlib import Path

import pytest

from innolab.base.errors import InnolabError
from innolab.storage import emulated, fio, profiles
from innolab.storage.profiles import Calibration

_RAID = profiles.profiles()["raid10-8x15k"]


def test_bandwidth_caps_the_pages_of_a_profile() -> None:
    found = {name: p.pages_per_s("read") for name, p in profiles.limited().items()}
    assert found["raid10-8x15k"] == 1600
    assert found["x25-e"] == pytest.approx(250e6 / 16384)
    assert found["fusionio-320"] == pytest.approx(700e6 / 16384)
    assert profiles.profiles()["x25-e"].pages_per_s("write") == 3300


def test_a_calibration_within_a_twentieth_has_no_fault() -> None:
    assert profiles.faults(_RAID, Calibration(1640, 770, 2286, 400)) == []


@pytest.mark.parametrize(
    ("found", "word"),
    [
        (Calibration(1500, 800, 2286, 400), "reads"),
        (Calibration(1700, 800, 2286, 400), "reads"),
        (Calibration(1600, 700, 2286, 400), "writes"),
        (Calibration(1600, 800, 1231, 400), "mixed"),
    ],
)
def test_each_fault_is_named(found: Calibration, word: str) -> None:
    [said] = profiles.faults(_RAID, found)
    assert word in said


def test_what_a_report_keeps_of_a_device_makes_it_again() -> None:
    for profile in profiles.profiles().values():
        kept = profile.limits()
        assert profiles.of_limits(profile.name, kept).limits() == kept
        assert "parity" not in kept, "reports of before RAID5 have no such field"
    timed = profiles.profiles()["15k-timed"]._replace(has_log=True)
    assert timed.times
    raid5 = timed._replace(times=timed.times._replace(parity=1, cached_rows=256))
    assert profiles.of_limits("a", raid5.limits()).times == raid5.times
    assert profiles.of_limits("a", raid5.limits()).has_log


def test_fios_words_ask_for_pages_past_the_cache() -> None:
    words = fio.argv("/x/fio", Path("/x/file"), 64, profiles.calibrating(8), 1.0, 0.3)
    assert {"/x/fio", "--bs=16384", "--direct=1", "--filename=/x/file"} <= set(words)
    assert {"--rw=randread", "--rw=randwrite", "--rw=randrw", "--rwmixread=70"} <= set(words)


def test_fios_answer_is_read_and_nonsense_refused() -> None:
    percentiles = {"50.000000": 1000, "99.000000": 5000, "99.990000": 6000}
    latencies = {"mean": 2000.0, "min": 1, "max": 7000, "N": 9, "percentile": percentiles}
    loads = profiles.calibrating(8)
    jobs = [
        {
            "jobname": kind,
            "read": {"iops": float(i), "total_ios": i, "runtime": 1000, "clat_ns": latencies},
            "write": {"iops": 1.0, "total_ios": 1, "runtime": 1000, "clat_ns": latencies},
        }
        for i, kind in enumerate(loads)
    ]
    jobs = fio.kept(f"note: warming up\n{json.dumps({'jobs': jobs})}", loads)
    found = {name: fio.outcome(job) for name, job in jobs.items()}
    assert fio.calibration(found) == Calibration(1, 2, 3, 4)
    assert found["read"] == profiles.Outcome(1.0, 1, 2e-6, 1e-6, 5e-6)
    for text in ("", "fio: killed", '{"jobs": []}'):
        with pytest.raises(InnolabError, match="fio gave no result"):
            fio.kept(text, loads)


def _disk(cgroup: Path, controller: str) -> emulated.EmulatedDisk:
    return emulated.EmulatedDisk("7:3", cgroup / "data", cgroup, controller, {})


def test_limits_of_cgroup_v2_are_written_as_the_kernel_reads_them(tmp_path: Path) -> None:
    """The real part is the test of cgroup v1 beside the role; kernels with v2 are not at hand."""
    made = _disk(tmp_path, "v2")
    (tmp_path / "io.max").write_text("")
    made.set_limits(profiles.profiles()["x25-e"])
    wanted = "7:3 riops=35000 wiops=3300 rbps=250000000 wbps=170000000"
    assert (tmp_path / "io.max").read_text() == wanted
    made.set_limits(None)
    assert (tmp_path / "io.max").read_text() == "7:3 riops=max wiops=max rbps=max wbps=max"


def test_limits_that_the_kernel_does_not_take_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    (tmp_path / "gone").rmdir()
    with pytest.raises(InnolabError, match="did not take the limits"):
        _disk(tmp_path / "gone", "v1").set_limits(_RAID)
    # A file that forgets what is written to it, as a controller without throttling would.
    (tmp_path / "io.max").symlink_to("/dev/null")
    with pytest.raises(InnolabError, match="nothing can be measured"):
        _disk(tmp_path, "v2").set_limits(_RAID)
