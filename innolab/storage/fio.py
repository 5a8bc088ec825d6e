"""fio: what loads really get from a place on a disk. Command line and reading apart."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from innolab.base.errors import InnolabError
from innolab.hosts import machine
from innolab.hosts.base import Host
from innolab.storage.profiles import (
    DEPTH,
    PAGE_READS,
    Calibration,
    DeviceLoad,
    Outcome,
    calibrating,
)

FILE_BYTES = 64 * 1024**2
# A limit lets a first burst through; it would flatter a short run.
LIMIT_RAMP_S = 0.3


def argv(
    fio: str,
    file: Path,
    size_bytes: int,
    loads: Mapping[str, DeviceLoad],
    duration_s: float,
    ramp_s: float,
) -> list[str]:
    """Return fio's words for loads, one after the other, past the page cache."""
    return [
        fio,
        f"--filename={file}",
        f"--size={size_bytes}",
        "--direct=1",
        # A process of its own for each job would outlive a killed fio.
        "--thread",
        "--ioengine=libaio",
        "--time_based",
        f"--ramp_time={round(ramp_s * 1000)}ms",
        f"--runtime={round(duration_s * 1000)}ms",
        "--randrepeat=1",
        "--output-format=json",
        *(word for name, load in loads.items() for word in _job(name, load)),
    ]


def _job(name: str, load: DeviceLoad) -> list[str]:
    kind = {1.0: "read", 0.0: "write"}.get(load.read_share, "rw")
    words = [
        f"--name={name}",
        "--stonewall",
        f"--bs={load.block_bytes}",
        f"--iodepth={load.depth}",
        f"--rw={kind if load.in_order else f'rand{kind}'}",
    ]
    mix = [f"--rwmixread={round(load.read_share * 100)}"] if kind == "rw" else []
    return [*words, *mix, *(["--fsync=1"] if load.synced else [])]


Job = dict[str, dict[str, Any]]
# What is kept of fio's answer: all that outcomes are made of, and what these follow from.
_KEPT = ("iops", "total_ios", "runtime")
_KEPT_OF_LATENCIES = ("min", "max", "mean", "N")
_PERCENTILES = ("50.000000", "90.000000", "99.000000", "99.900000")


def kept(text: str, loads: Mapping[str, DeviceLoad]) -> dict[str, Job]:
    """Return of fio's JSON what a record keeps of each load, by direction.

    Raises
    ------
    InnolabError
        If it is none, or a load is missing.
    """
    try:
        jobs = {job["jobname"]: job for job in json.loads(text[text.index("{") :])["jobs"]}
        return {name: _kept(jobs[name]) for name in loads}
    except (ValueError, KeyError):
        raise InnolabError(f"fio gave no result. It said: {text.strip()[:300]}") from None


def _kept(job: Mapping[str, Any]) -> Job:
    return {
        name: {
            **{key: job[name][key] for key in _KEPT},
            "clat_ns": {
                **{key: job[name]["clat_ns"][key] for key in _KEPT_OF_LATENCIES},
                "percentile": {
                    percent: ns
                    for percent, ns in job[name]["clat_ns"].get("percentile", {}).items()
                    if percent in _PERCENTILES
                },
            },
        }
        for name in ("read", "write")
    }


def outcome(job: Job) -> Outcome:
    """Return what a load got, both directions together, from what is kept of fio's answer.

    Latencies are those of reads, where there are any.
    """
    reads, writes = job["read"], job["write"]
    latencies = (reads if reads["iops"] else writes)["clat_ns"]
    percentiles = latencies["percentile"]
    return Outcome(
        per_s=float(reads["iops"] + writes["iops"]),
        operations=int(reads["total_ios"] + writes["total_ios"]),
        mean_s=latencies["mean"] / 1e9,
        p50_s=percentiles.get("50.000000", 0) / 1e9,
        p99_s=percentiles.get("99.000000", 0) / 1e9,
    )


@contextlib.contextmanager
def filled_file(host: Host, folder: Path, size_bytes: int = FILE_BYTES) -> Iterator[Path]:
    """Have a file for fio in a folder while the block runs, all of it on the disk."""
    file = folder / "fio"
    megabytes = size_bytes // 1024**2
    # What is not yet on the disk would be written under the limit, with fio's own; so would what
    # the file system has still to note of it.
    fill = ["if=/dev/urandom", f"of={file}", "bs=1M", f"count={megabytes}", "conv=fsync"]
    host.must(["dd", *fill], what="Filling a file for fio")
    host.must(["chmod", "0666", file], what="Filling a file for fio")
    host.must(["sync", "--file-system", file], what="Filling a file for fio")
    try:
        yield file
    finally:
        host.remove(file)


def measure(
    host: Host,
    file: Path,
    cgroup: Path | None,
    loads: Mapping[str, DeviceLoad],
    duration_s: float,
    ramp_s: float = 0.0,
    size_bytes: int = FILE_BYTES,
) -> dict[str, Outcome]:
    """Return what loads get on a file, in a process of a control group on a host.

    Raises
    ------
    InnolabError
        If fio fails.
    """
    jobs = run(host, file, cgroup, loads, duration_s, ramp_s, size_bytes)
    return {name: outcome(job) for name, job in jobs.items()}


def run(
    host: Host,
    file: Path,
    cgroup: Path | None,
    loads: Mapping[str, DeviceLoad],
    duration_s: float,
    ramp_s: float = 0.0,
    size_bytes: int = FILE_BYTES,
) -> dict[str, Job]:
    """Return what is kept of fio's answer for each load; parameters and errors as of `measure`."""
    words = argv(host.tool("fio"), file, size_bytes, loads, duration_s, ramp_s)
    done = host.run([*machine.within(cgroup), *host.unprivileged(), *words])
    if done.status:
        raise InnolabError(f"fio ended with status {done.status}: {done.stderr.strip()[:300]}")
    return kept(done.stdout, loads)


def calibrate(
    host: Host, folder: Path, cgroup: Path | None, duration_s: float, depth: int = DEPTH
) -> Calibration:
    """Return what a folder's disk gives to a process of a control group on a host.

    Raises
    ------
    InnolabError
        If fio fails.
    """
    loads = calibrating(depth)
    with filled_file(host, folder) as file:
        return calibration(measure(host, file, cgroup, loads, duration_s, LIMIT_RAMP_S))


def page_reads(
    host: Host, folder: Path, cgroup: Path | None, duration_s: float
) -> dict[str, float]:
    """Return how many pages of 16 KiB a second PAGE_READS get from a folder's disk, by name.

    Raises
    ------
    InnolabError
        If fio fails.
    """
    with filled_file(host, folder) as file:
        found = measure(host, file, cgroup, PAGE_READS, duration_s, LIMIT_RAMP_S)
    return {name: outcome.per_s for name, outcome in found.items()}


def calibration(found: Mapping[str, Outcome]) -> Calibration:
    """Return operations a second by kind of work."""
    return Calibration(
        **{name: found[name.removesuffix("_per_s")].per_s for name in Calibration._fields}
    )
