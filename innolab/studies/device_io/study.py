"""What a device does under the patterns of SQLIO and IOMeter? Studies G, H and I of the seeds."""

import contextlib
import math
import statistics
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator

from innolab.analysis.bounds import Bound, Record, all_exactly, exactly, metrics
from innolab.bench.trial import Bench
from innolab.hosts.local import HERE
from innolab.mysql import datasets
from innolab.record.plan import Blocks
from innolab.record.run import Observation
from innolab.storage import fio
from innolab.storage.load import DeviceLoad
from innolab.storage.profiles import HOST
from innolab.studies.device_io import bursts
from innolab.studies.parameters import Builds, ByEffort, ByScale, Devices, Parameters, repeats
from innolab.studies.study import Arm, Study

MIB = 1024**2
# SQLIO's patterns in S4, with two threads of four each in flight.
IN_FLIGHT = 8
PATTERNS = {
    "8K random read": DeviceLoad(IN_FLIGHT, 8192),
    "8K random write": DeviceLoad(IN_FLIGHT, 8192, 0.0),
    "256K read in order": DeviceLoad(IN_FLIGHT, 256 * 1024, 1.0, in_order=True),
    "256K write in order": DeviceLoad(IN_FLIGHT, 256 * 1024, 0.0, in_order=True),
    "1024K read in order": DeviceLoad(IN_FLIGHT, MIB, 1.0, in_order=True),
    "1024K write in order": DeviceLoad(IN_FLIGHT, MIB, 0.0, in_order=True),
}
SWEPT = "8K random read"
_ALL_DEPTHS = (1, 2, 4, 8, 16, 32, 64)
DEPTHS = ByEffort((1, 8, 32), (1, 4, 8, 32, 64), _ALL_DEPTHS)
# Five blocks of `reference` took 70 minutes so (docs/decisions/0021).
WINDOW_S = ByEffort(1, 1, 5)
# Seconds before a burst, and from its beginning on.
BURST_S = ByEffort((3, 4), (4, 6), (10, 20))
# Of the reports of 23 November 2026.
_EARLIER_S = ByEffort((3, 4), (6, 10), (15, 45))
# What fio counts in a window, and what its rate says of it.
_COUNTED_SHARE = 0.02
# Of the depth that was asked for: seen from 0.51, where submitting takes as long as a fast device,
# to 1.22; and in the median of a burst's half seconds: seen from 0.988 to 1.003.
_IN_FLIGHT, _TYPICALLY_IN_FLIGHT = (0.45, 1.25), (0.95, 1.05)
# Buckets of fio's histogram.
_BUCKET = 1.02
FILE_BYTES = ByScale(256 * MIB, 1024 * MIB, 16 * 1024 * MIB)


def _fio_alone(builds: list[str]) -> list[str]:
    if builds != ["fio"]:
        raise ValueError("should be fio alone: no server runs in this study")
    return builds


class DeviceParameters(Parameters):
    """The common parameters; no server runs, so the only build is the program that asks.

    Attributes
    ----------
    builds : fio, and nothing else
    rows : without a meaning here
    devices : devices, or host; at smoke the first and the last of them
    """

    ROWS: ClassVar = ByScale(100_000, 100_000, 100_000)
    builds: Annotated[Builds, AfterValidator(_fio_alone)] = repeats(["fio"])
    devices: Devices = ["15k-timed", "raid10-10x15k", "x25-e-timed", "vertex", "slc-2008",
                        "iodrive-80", HOST]  # fmt: skip


def trial(bench: Bench, arm: Arm) -> Iterator[Observation]:
    """Fill a file and ask its device for all patterns, or for reads with a burst of writes."""
    size_bytes, depths = FILE_BYTES.of(bench.parameters), DEPTHS.of(bench.parameters)
    with bench.without_server(), contextlib.ExitStack() as stack:
        with bench.clock.stage("cloning"):
            filled = fio.filled_file(HERE, bench.site.data, size_bytes)
            file = stack.enter_context(filled)
        bench.note("file_bytes", size_bytes)
        if arm.work == "bursts":
            yield from _burst(bench, file, size_bytes)
            return
        for pattern, load in PATTERNS.items():
            for depth in depths if pattern == SWEPT else (IN_FLIGHT,):
                asked = load._replace(depth=depth)
                within: Observation = {"pattern": pattern, "depth": depth}
                job = _measured(bench, file, asked, size_bytes)
                bench.note_row("fio", {"within": within, **job})
                yield {**within, **_metrics(job, load)}


def _measured(bench: Bench, file: Any, load: DeviceLoad, size_bytes: int) -> fio.Job:
    window_s = WINDOW_S.of(bench.parameters)
    # The limit is set anew for each: no load finds what an earlier one left in a cache.
    with bench.clock.stage("measured passes"), bench.site.limited():
        return fio.run(
            HERE, file, bench.site.cgroup, {"load": load}, window_s, fio.LIMIT_RAMP_S, size_bytes
        )["load"]


def _metrics(job: fio.Job, load: DeviceLoad) -> dict[str, float]:
    found = fio.outcome(job)
    return {
        "per_s": found.per_s,
        "bytes_per_s": found.per_s * load.block_bytes,
        "mean_s": found.mean_s,
        "p50_s": found.p50_s,
        "p99_s": found.p99_s,
    }


def _burst(bench: Bench, file: Any, size_bytes: int) -> Iterator[Observation]:
    logs = bench.place / "logs"
    HERE.fresh_folder(logs)
    times = BURST_S.of(bench.parameters)
    with bench.clock.stage("measured passes"), bench.site.limited():
        said = bursts.measure(file, bench.site.cgroup, size_bytes, logs, times)
    HERE.remove(logs)
    bench.note("fio_logs", said)
    line = bursts.line_of(said, float(times[0]))
    yield from _rows(line)


def _rows(line: bursts.Line) -> Iterator[Observation]:
    for one in line.reads:
        yield {"at_s": one.at_s, "reads_per_s": one.per_s, "read_s": one.mean_s}
    yield dict(bursts.summary(line))


def _by_fio(record: Record) -> Iterator[Bound]:
    """Yield the bounds of patterns, by what fio itself said of each."""
    for row in record.noted("fio"):
        within, job = row["within"], {kind: row[kind] for kind in ("read", "write")}
        yield from all_exactly(within, _metrics(job, PATTERNS[within["pattern"]]))
        # Operations in flight at either end of the window are counted in one and not in the other.
        counted = sum(one["total_ios"] for one in job.values())
        seconds = max(one["runtime"] for one in job.values()) / 1000
        apart = _COUNTED_SHARE * counted + 2 * within["depth"]
        yield Bound(within, "per_s", (counted - apart) / seconds, (counted + apart) / seconds)


def _by_each_other(record: Record) -> Iterator[Bound]:
    """Yield the bounds of a pattern's rates and latencies by each other, and by Little's law."""
    for within, row in record.rows("per_s", "bytes_per_s", "mean_s", "p50_s", "p99_s"):
        block = PATTERNS[str(within["pattern"])].block_bytes
        yield exactly(within, "bytes_per_s", row["per_s"] * block)
        low, high = (share * float(within["depth"]) for share in _IN_FLIGHT)
        yield Bound(within, "per_s", low / row["mean_s"], high / row["mean_s"])
        yield Bound(within, "mean_s", low / row["per_s"], high / row["per_s"])
        # Of values that are never negative, half are at most twice their mean (Markov).
        yield Bound(within, "p50_s", -math.inf, 2 * _BUCKET * row["mean_s"])
        yield Bound(within, "p99_s", row["p50_s"], 100 * _BUCKET * row["mean_s"])


def _by_logs(record: Record) -> Iterator[Bound]:
    """Yield the bounds of a burst by fio's logs."""
    if logs := record.run.conditions.get("fio_logs"):
        for row in _rows(bursts.line_of(logs, _before_s(record))):
            within = record.levels(row)
            values = {name: float(v) for name, v in row.items() if name not in within}
            yield from all_exactly(within, values)


def _by_bins(record: Record) -> Iterator[Bound]:
    """Yield the bounds of a burst's half seconds by Little's law, and of the whole by these."""
    bins = [
        bursts.Bin(float(within["at_s"]), row["reads_per_s"], row["read_s"])
        for within, row in record.rows("reads_per_s", "read_s")
    ]
    if not bins:
        return
    # Single bins are off, as fio's two logs have clocks of their own.
    in_flight = statistics.median(one.per_s * one.mean_s for one in bins) / bursts.READS_DEPTH
    low, high = (share / in_flight for share in _TYPICALLY_IN_FLIGHT)
    for one in bins:
        for metric, value in (("reads_per_s", one.per_s), ("read_s", one.mean_s)):
            yield Bound({"at_s": one.at_s}, metric, low * value, high * value)
    found = bursts.summary(bursts.Line(bins, _before_s(record), 0.0))
    del found["write_in_burst_s"]
    yield from all_exactly({}, found)


def _before_s(record: Record) -> float:
    """Return when a burst began, by the effort and by how long its reads were measured."""
    last_s = max(float(within["at_s"]) for within, _ in record.rows("reads_per_s"))
    # An effort that is a budget measures as a reference does.
    known = [getattr(of, str(record.run.effort), of.reference) for of in (BURST_S, _EARLIER_S)]
    return float(next(times for times in known if last_s <= sum(times))[0])


METRICS = {
    **metrics(
        {"per_s": "1/s", "bytes_per_s": "bytes/s", "mean_s": "s", "p50_s": "s", "p99_s": "s"},
        _by_fio, _by_each_other,
    ),
    **metrics(
        {"reads_per_s": "1/s", "read_s": "s", "reads_before_per_s": "1/s",
         "reads_in_burst_per_s": "1/s", "fall_ratio": "share", "read_before_s": "s",
         "read_in_burst_s": "s", "read_rise_ratio": "share", "write_in_burst_s": "s"},
        _by_logs, _by_bins,
    ),
}  # fmt: skip


STUDY = Study(
    title="What a device does under a database's patterns",
    question="How do disks and flash answer random and ordered operations, and bursts of writes?",
    parameters=DeviceParameters,
    factors=lambda parameters: {
        "device": parameters.measured_of(parameters.devices),
        "work": ["patterns", "bursts"],
    },
    control={"work": "patterns"},
    within={
        "pattern": list(PATTERNS),
        "depth": list(_ALL_DEPTHS),
        "at_s": [bursts.BIN_S * (i + 1) for i in range(200)],
    },
    main=("pattern", "depth"),
    metrics=METRICS,
    compared={"per_s": ("pattern", "depth")},
    blocks=ByEffort(Blocks(1, 1), Blocks(3, 3), Blocks(5, 9)),
    dataset=lambda _: datasets.NONE,
    settings=lambda *_: {},
    trial=trial,
    checks=("swap", "steal", "other load", "device as its profile"),
    variables={"device": (), "work": ()},
    tools=("fio", "mkfs.xfs"),
    calibration_s=ByScale(0.3, 1.0, 10.0),
    window_s=WINDOW_S,
    copies=1,
    grows_bytes=FILE_BYTES.of,
)  # fmt: skip
