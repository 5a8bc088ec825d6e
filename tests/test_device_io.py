"""The study device-io: patterns and bursts by fio, on a disk with service times and a real one."""

import os
from pathlib import Path

import pytest
from conftest import Innolab

from innolab.base.errors import InnolabError, InputError
from innolab.mysql import builds
from innolab.record.runlog import RunLog
from innolab.studies.device_io import bursts
from innolab.studies.device_io.bursts import Bin, Line
from innolab.studies.device_io.parameters import DEPTHS, PATTERNS
from innolab.studies.device_io.study import STUDY

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="loop devices and mounts need root")


def test_no_server_may_be_named() -> None:
    with pytest.raises(InputError, match="no server runs in this study"):
        STUDY.check({"builds": ["mysql-9.7"]})


def test_a_burst_is_compared_with_what_was_before_it() -> None:
    reads = [Bin(0.5 * (i + 1), 900 if i == 0 else 1000, 0.001) for i in range(12)]
    reads = [
        one._replace(per_s=500, mean_s=0.002) if 6.5 <= one.at_s <= 8 else one for one in reads
    ]
    reads += [Bin(6.0 + 0.5 * (i + 1), 500 if i < 4 else 1000, 0.002) for i in range(8)]
    found = bursts.summary(Line(reads, 6.0, 0.0005))
    assert (found["reads_before_per_s"], found["reads_in_burst_per_s"]) == (1000, 500)
    assert found["fall_ratio"] == 0.5
    assert found["read_rise_ratio"] == pytest.approx(2)
    assert found["write_in_burst_s"] == 0.0005
    with pytest.raises(InnolabError, match="no half second before"):
        bursts.summary(Line(reads[13:], 6.0, 0.0005))


def test_fios_logs_are_read_by_job_and_bin() -> None:
    texts = {
        "of_iops.1.log": "500, 100, 0, 8192, 0\n1000, 120, 0, 8192, 0\n",
        "of_clat.1.log": "500, 2000000, 0, 8192, 0\n1001, 4000000, 0, 8192, 0\n",
    }
    with pytest.raises(InnolabError, match="no write of the burst"):
        bursts.line_of(texts, 3.0)
    # Over before its first half second was counted: its rates have no row, or one far from it.
    texts |= {
        "of_iops.2.log": "780, 9000, 1, 8192, 0\n",
        "of_clat.2.log": "480, 500000, 1, 8192, 0\n",
    }
    assert bursts.line_of(texts, 3.0) == Line(
        [Bin(0.5, 100, 0.002), Bin(1.0, 120, 0.004)], 3.0, 0.0005
    )


@pytest.mark.integration
def test_fio_is_recorded_as_what_runs(tmp_path: Path) -> None:
    found = builds.find(tmp_path, "fio")
    assert isinstance(found, builds.Build)
    assert found.facts()["version"][0].isdigit()


@pytest.mark.alone
@pytest.mark.integration
@needs_root
def test_patterns_and_bursts_are_measured_and_verify(folder: Path, innolab: Innolab) -> None:
    env = {"INNOLAB_REPORTS": str(folder)}
    words = ("--scale", "smoke", "-p", "devices=raid10-10x15k,host")
    done = innolab("run", "device-io", *words, **env)
    assert done.returncode == 0, done.stderr
    report = Path(done.stdout.splitlines()[-1]).parent
    runs, _ = RunLog(report / "runs.jsonl").load()
    assert [run.error for run in runs if run.error] == []
    assert len(runs) == 5
    array = [run for run in runs if run.factors["device"] == "raid10-10x15k"]
    [burst] = [run for run in array if run.factors["work"] == "bursts"]
    [summary] = [row for row in burst.observations if "fall_ratio" in row]
    assert summary["fall_ratio"] < 0.9, "reads share their arms with what is destaged"
    [patterns, *_] = [run for run in array if run.factors["work"] == "patterns"]
    rows = {(row["pattern"], row["depth"]): row for row in patterns.observations}
    assert len(rows) == len(PATTERNS) - 1 + len(DEPTHS.smoke)
    alone, many = (rows["8K random read", depth] for depth in (1, 32))
    assert many["per_s"] > 4 * alone["per_s"]
    assert many["mean_s"] > alone["mean_s"]
    verified = innolab("verify", str(report), **env)
    assert verified.returncode == 0, verified.stdout
