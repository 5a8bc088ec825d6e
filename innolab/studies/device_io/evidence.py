"""The metrics of patterns and of bursts, and what else in a run's record bounds them."""

import math
import statistics
from collections.abc import Iterator

from innolab.analysis.bounds import Bound, Record, all_exactly, exactly, metrics
from innolab.record.run import Observation
from innolab.storage import fio
from innolab.storage.profiles import DeviceLoad
from innolab.studies.device_io import bursts
from innolab.studies.device_io.parameters import BURST_S, PATTERNS
from innolab.studies.parameters import ByEffort

# Of the reports of 23 November 2026.
_EARLIER_S = ByEffort((3, 4), (6, 10), (15, 45))
# What fio counts in a window, and what its rate says of it.
_COUNTED_SHARE = 0.02
# Of the depth that was asked for: seen from 0.51, where submitting takes as long as a fast device,
# to 1.22; and in the median of a burst's half seconds: seen from 0.988 to 1.003.
_IN_FLIGHT, _TYPICALLY_IN_FLIGHT = (0.45, 1.25), (0.95, 1.05)
# Buckets of fio's histogram.
_BUCKET = 1.02


def of_pattern(job: fio.Job, load: DeviceLoad) -> dict[str, float]:
    """Return the metrics of a pattern, by what fio said of it."""
    outcome = fio.outcome(job)
    return {
        "per_s": outcome.per_s,
        "bytes_per_s": outcome.per_s * load.block_bytes,
        "mean_s": outcome.mean_s,
        "p50_s": outcome.p50_s,
        "p99_s": outcome.p99_s,
    }


def of_burst(line: bursts.Line) -> Iterator[Observation]:
    """Yield the observations of a burst: each half second of reads, then the whole."""
    for one in line.reads:
        yield {"at_s": one.at_s, "reads_per_s": one.per_s, "read_s": one.mean_s}
    yield dict(bursts.summary(line))


def _by_fio(record: Record) -> Iterator[Bound]:
    for row in record.noted("fio"):
        within, job = row["within"], {kind: row[kind] for kind in ("read", "write")}
        yield from all_exactly(within, of_pattern(job, PATTERNS[within["pattern"]]))
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
    if logs := record.run.conditions.get("fio_logs"):
        for row in of_burst(bursts.line_of(logs, _before_s(record))):
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
