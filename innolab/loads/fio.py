"""fio: how many pages a second a place on a disk really gives. Command line and reading apart."""

import json
import os
import subprocess
from pathlib import Path

from innolab import host, tools
from innolab.devices import MIXED_READ_SHARE, PAGE_BYTES, Calibration
from innolab.errors import InnolabError

# More in flight than any load keeps here, so that the device and not the waiting decides.
_DEPTH = 32
KINDS = {
    "read": ["--rw=randread", f"--iodepth={_DEPTH}"],
    "write": ["--rw=randwrite", f"--iodepth={_DEPTH}"],
    "mixed": [
        "--rw=randrw",
        f"--rwmixread={round(MIXED_READ_SHARE * 100)}",
        f"--iodepth={_DEPTH}",
    ],
    "synced_write": ["--rw=randwrite", "--iodepth=1", "--fsync=1"],
}


def argv(file: Path, size_bytes: int, duration_s: float) -> list[str]:
    """Return fio's words for all kinds of work, one after the other, past the page cache."""
    jobs = [[f"--name={kind}", "--stonewall", *words] for kind, words in KINDS.items()]
    return [
        tools.path("fio"),
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


def calibrate(folder: Path, cgroup: Path | None, duration_s: float) -> Calibration:
    """Return what a folder's disk gives to a process of a control group.

    Raises
    ------
    InnolabError
        Where fio fails.
    """
    file = folder / "fio"
    size = 64 * 1024**2
    with file.open("wb") as written:
        written.write(os.urandom(1024**2) * (size // 1024**2))
        # What is not yet on the disk would be written under the limit, beside fio's own.
        os.fsync(written.fileno())
    host.give_to_server(file)
    try:
        words = [*host.within(cgroup), *host.unprivileged(), *argv(file, size, duration_s)]
        done = subprocess.run(words, capture_output=True, text=True, cwd="/")
    finally:
        file.unlink()
    if done.returncode:
        raise InnolabError(f"fio ended with status {done.returncode}: {done.stderr.strip()[:300]}")
    return parse(done.stdout)
