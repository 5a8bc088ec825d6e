"""A burst of writes into a stream of reads, as a checkpoint makes it: fio, and its time line."""

import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from innolab.base.errors import InnolabError
from innolab.hosts import machine
from innolab.hosts.local import HERE

PAGE_BYTES = 8192
# S4: a burst of ten thousand pages.
PAGES = 10_000
READS_DEPTH, WRITES_DEPTH = 64, 32
BIN_S = 0.5
# How long from its first write what a burst does to reads is judged. Fixed before any run.
JUDGED_S = 2.0
# Of fio: reads a second, and their latencies; the latencies of writes. A line for each BIN_S.
LOGS = ("of_iops.1.log", "of_clat.1.log", "of_clat.2.log")


class Bin(NamedTuple):
    """Half a second of reads: when it ended, how many a second, how long each."""

    at_s: float
    per_s: float
    mean_s: float


class Line(NamedTuple):
    """The time line of reads, when the burst began, and its writes' mean first half second."""

    reads: list[Bin]
    burst_at_s: float
    write_s: float

    def before(self) -> list[Bin]:
        """Return the reads before the burst, without the half second in which the load begins."""
        return [one for one in self.reads if BIN_S < one.at_s <= self.burst_at_s]

    def during(self) -> list[Bin]:
        """Return the reads of the burst's first seconds."""
        end = self.burst_at_s + JUDGED_S
        return [one for one in self.reads if self.burst_at_s + BIN_S <= one.at_s <= end + BIN_S / 2]


def argv(
    fio: str, file: Path, size_bytes: int, logs: Path, before_s: int, after_s: int
) -> list[str]:
    """Return fio's arguments for a stream of reads, and a burst of writes some seconds into it."""
    return [
        fio, f"--filename={file}", f"--size={size_bytes}", f"--bs={PAGE_BYTES}", "--direct=1",
        "--thread", "--ioengine=libaio", "--output-format=json", "--norandommap",
        f"--log_avg_msec={round(BIN_S * 1000)}", f"--write_iops_log={logs / 'of'}",
        f"--write_lat_log={logs / 'of'}",
        "--name=reads", "--rw=randread", f"--iodepth={READS_DEPTH}", "--time_based",
        f"--runtime={before_s + after_s}",
        "--name=burst", "--rw=randwrite", f"--iodepth={WRITES_DEPTH}", f"--number_ios={PAGES}",
        f"--startdelay={before_s}", f"--runtime={after_s}",
    ]  # fmt: skip


def measure(
    file: Path, cgroup: Path | None, size_bytes: int, logs: Path, times: tuple[int, int]
) -> dict[str, str]:
    """Return the logs of reads with a burst of writes in them, as `line_of` takes them.

    Parameters
    ----------
    logs : a folder that the servers' user may write to
    times : seconds before the burst, and from its beginning on

    Raises
    ------
    InnolabError
        If fio fails.
    """
    command = argv(HERE.tool("fio"), file, size_bytes, logs, *times)
    done = HERE.run([*machine.within(cgroup), *HERE.unprivileged(), *command])
    if done.status:
        raise InnolabError(f"fio ended with status {done.status}: {done.stderr.strip()[:300]}")
    return {name: (logs / name).read_text() for name in LOGS if (logs / name).exists()}


def line_of(logs: Mapping[str, str], burst_at_s: float) -> Line:
    """Return the time line that the texts of fio's logs tell, by their file names.

    Raises
    ------
    InnolabError
        If they hold no write of the burst.
    """
    latencies = dict(_rows(logs.get("of_clat.1.log", "")))
    rates = _rows(logs.get("of_iops.1.log", ""))
    reads = [
        Bin(at_s, per_s, latencies[at_s] / 1e9) for at_s, per_s in rates if latencies.get(at_s)
    ]
    # By latencies alone: fio's rates have a clock of their own, which lags by a fifth of a second,
    # so those of a burst that is over in half a second may fall on another.
    writes = [value for _, value in _rows(logs.get("of_clat.2.log", ""))]
    if not writes:
        raise InnolabError("fio's logs have no write of the burst.")
    return Line(reads, burst_at_s, writes[0] / 1e9)


def _rows(text: str) -> Iterator[tuple[float, float]]:
    """Yield seconds, in whole bins, and values of one of fio's logs: milliseconds, value, ..."""
    for line in text.splitlines():
        at_ms, value, *_ = line.split(",")
        yield round(float(at_ms) / 1000 / BIN_S) * BIN_S, float(value)


def summary(line: Line) -> dict[str, float]:
    """Return what the burst did to reads: medians over half seconds before it and in it."""
    before, during = line.before(), line.during()
    if not before or not during:
        raise InnolabError("fio's logs have no half second before the burst, or none in it.")
    rates = [statistics.median(one.per_s for one in of) for of in (before, during)]
    waits = [statistics.median(one.mean_s for one in of) for of in (before, during)]
    return {
        "reads_before_per_s": rates[0],
        "reads_in_burst_per_s": rates[1],
        "fall_ratio": rates[1] / rates[0],
        "read_before_s": waits[0],
        "read_in_burst_s": waits[1],
        "read_rise_ratio": waits[1] / waits[0],
        "write_in_burst_s": line.write_s,
    }
