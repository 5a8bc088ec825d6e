"""The metrics of a table that grows, and what else in a run's record bounds them."""

import math
from collections.abc import Iterator, Mapping

from innolab.analysis.bounds import Bound, Metric, Record, Unbounded, all_exactly, exactly, metrics
from innolab.record.journal import Checkpoint
from innolab.studies.compressed_insert import filling, growth
from innolab.studies.compressed_insert.parameters import KNEE_MROWS, POOLS, ROW_BYTES


def _of_table(record: Record) -> Iterator[Bound]:
    table, rows = record.run.conditions["table"], _rows(record)
    for metric, value in filling.sizes(table, rows).items():
        yield exactly({}, metric, value)
    files = sum(one["file_bytes"] for one in table["partitions"])
    yield Bound({}, "leaf_bytes_per_row", -math.inf, files / rows)


def _of_segments(record: Record) -> Iterator[Bound | Unbounded]:
    if record.run.conditions["pieces"]["resumed_at_rows"]:
        yield Unbounded("A trial was resumed, and has the series of its last session alone")
        return
    if record.run.is_older:
        return
    segments = record.run.conditions["segments"]
    samples = [
        [one for at_s, one in record.samples.items() if row["from_s"] <= at_s <= row["to_s"]]
        for row in segments
    ]
    bins = sum("mrows" in row for row in record.run.observations)
    edges = range(0, growth.BIN_MROWS * bins + 1, growth.BIN_MROWS)
    done = Checkpoint(rows=_rows(record), segments=segments, samples=samples)
    for row in growth.measured(done, edges, done.rows / edges[-1]):
        within = record.levels(row)
        yield from all_exactly(within, {k: v for k, v in row.items() if k not in within})


def _knee_data(record: Record) -> Iterator[Bound]:
    bins = sum("mrows" in row for row in record.run.observations)
    of_original = _rows(record) / (growth.BIN_MROWS * bins)
    for within, row in record.rows("knee_data_ratio", "knee_mrows", "leaf_bytes_per_row"):
        at = knee_data_ratio(row, of_original, str(record.run.factors["pool"]))
        yield exactly(within, "knee_data_ratio", at)


def knee_data_ratio(whole: Mapping[str, float], rows_per_mrow: float, pool: str) -> float:
    """Return the data over the pool where the curve falls, by the bytes of a row in the end."""
    knee_data = whole["knee_mrows"] * rows_per_mrow * whole["leaf_bytes_per_row"]
    return knee_data / (POOLS[pool] * KNEE_MROWS * rows_per_mrow * ROW_BYTES)


def _rows(record: Record) -> int:
    return sum(one["rows"] for one in record.run.conditions["segments"])


_SIZES = ("leaf_bytes_per_row", "file_bytes_per_row", "allocated_bytes_per_row", "zlib_ratio")
METRICS = {
    **metrics({name: unit for name, unit in growth.UNITS.items() if name not in _SIZES},
              _of_segments),
    **metrics({name: growth.UNITS[name] for name in _SIZES}, _of_table),
    "knee_data_ratio": Metric(growth.UNITS["knee_data_ratio"], [_knee_data]),
}  # fmt: skip
