"""fio: how many pages a second a place on a disk really gives. Command line and reading apart."""

import json
from pathlib import Path

from innolab.base.errors import InnolabError
from innolab.hosts import machine
from innolab.hosts.base import Host
from innolab.storage.profiles import MIXED_READ_SHARE, PAGE_BYTES, Calibration

# More in flight than any load keeps here, so that the device and not the waiting decides.
DEPTH = 32
_FILE_BYTES = 64 * 1024**2
KINDS = {
    "read": ["--rw=randread"],
    "write": ["--rw=randwrite"],
    "mixed": ["--rw=randrw", f"--rwmixread={round(MIXED_READ_SHARE * 100)}"],
    "synced_write": ["--rw=randwrite", "--iodepth=1", "--fsync=1"],
}


def argv(fio: str, file: Path, size_bytes: int, duration_s: float, depth: int) -> list[str]:
    """Return fio's words for all kinds of work, one after the other, past the page cache.

    A kind that names no depth of its own has `depth` operations in flight.
    """
    jobs = [
        [f"--name={kind}", "--stonewall", f"--iodepth={depth}", *words]
        for kind, words in KINDS.items()
    ]
    return [
        fio,
        f"--filename={file}",
        f"--size={size_bytes}",
        f"--bs={PAGE_BYTES}",
        "--direct=1",
        # A process of its own for each job would outlive a killed fio.
        "--thread",
        "--ioengine=libaio",
        "--time_based",
        # The limit lets a first burst through; it would flatter a short run.
        "--ramp_time=300ms",
        f"--runtime={round(duration_s * 1000)}ms",
        "--randrepeat=1",
        "--output-format=json",
        *(word for job in jobs for word in job),
    ]


def parse(text: str) -> Calibration:
    """Return operations a second of each kind, both directions together, from fio's JSON.

    Raises
    ------
    InnolabError
        Where it is none, or lacks a kind.
    """
    try:
        jobs = {job["jobname"]: job for job in json.loads(text[text.index("{") :])["jobs"]}
        return Calibration(
            **{
                f"{kind}_per_s": float(jobs[kind]["read"]["iops"] + jobs[kind]["write"]["iops"])
                for kind in KINDS
            }
        )
    except (ValueError, KeyError):
        raise InnolabError(f"fio gave no result. It said: {text.strip()[:300]}") from None


def calibrate(
    host: Host, folder: Path, cgroup: Path | None, duration_s: float, depth: int = DEPTH
) -> Calibration:
    """Return what a folder's disk gives to a process of a control group on a host.

    Raises
    ------
    InnolabError
        Where fio fails.
    """
    file = folder / "fio"
    megabytes = _FILE_BYTES // 1024**2
    # What is not yet on the disk would be written under the limit, beside fio's own.
    fill = ["if=/dev/urandom", f"of={file}", "bs=1M", f"count={megabytes}", "conv=fsync"]
    host.must(["dd", *fill], what="Filling a file for fio")
    host.must(["chmod", "0666", file], what="Filling a file for fio")
    try:
        words = argv(host.tool("fio"), file, _FILE_BYTES, duration_s, depth)
        done = host.run([*machine.within(cgroup), *host.unprivileged(), *words])
    finally:
        host.remove(file)
    if done.status:
        raise InnolabError(f"fio ended with status {done.status}: {done.stderr.strip()[:300]}")
    return parse(done.stdout)
