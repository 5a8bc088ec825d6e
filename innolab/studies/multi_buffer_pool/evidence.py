"""What the rest of a run's record says of its metrics."""

import math
from typing import Any

from innolab.analysis.consistency import Bound, exactly
from innolab.record.series import PERIOD_S

PAGE_BYTES = 16 * 1024
# CPU time is counted in hundredths of a second, and each reading may be off by some of them.
_TICKS_S = 0.1
# Connecting and reading counters belong to the stage of the passes: some hundredths of a second,
# and more where all takes longer.
_AROUND_PASSES_S, _AROUND_PASSES_RATIO = 0.5, 0.05
# The server counts pages in all and by instance at two moments, and background threads read some.
_PAGES_BETWEEN, _PAGES_BETWEEN_RATIO = 64, 0.01


def pool_kept_ratio(pages_read: list[int], pool_bytes: int) -> float:
    """Return how much of the pool the second pass need not read again.

    Where the table is larger than the pool, that is what the pool kept through a scan larger than
    itself.
    """
    first, second = pages_read
    return (first - second) / (pool_bytes // PAGE_BYTES)


def evidence(run: Any, series: Any) -> list[Bound]:
    """Return the metrics that follow from others, and those that the series bounds."""
    if hot := next((row for row in run.observations if "hot_pages" in row), None):
        kept = 1 - hot["hot_pages_read_again"] / hot["hot_pages"]
        return [exactly({}, "hot_kept_ratio", kept)]
    rows = [r for r in run.observations if "pass" in r and "instance" not in r]
    first, second = sorted(rows, key=lambda row: row["pass"])
    pool = int(run.conditions["requested"]["innodb_buffer_pool_size"])
    kept = pool_kept_ratio([first["pages_read"], second["pages_read"]], pool)
    found = [exactly({}, "pool_kept_ratio", kept)]
    passes_s = run.conditions["time_s"]["measured passes"]
    around_s = _AROUND_PASSES_S + _AROUND_PASSES_RATIO * passes_s
    # The last sample is taken a period before the end, or earlier where the host is busy.
    missed_s = run.conditions["host"]["cores"] * (
        PERIOD_S + max(0.0, passes_s - float(series["t_s"].iloc[-1]))
    )
    sampled = {name: float(series[name].iloc[-1]) for name in ("mysqld_cpu_s", "mysqld_read_bytes")}
    for row, other in ((first, second), (second, first)):
        within = {"pass": row["pass"]}
        by_instance = sum(
            one["instance_pages_read"]
            for one in run.observations
            if "instance" in one and one["pass"] == row["pass"]
        )
        between = _PAGES_BETWEEN + _PAGES_BETWEEN_RATIO * by_instance
        alone_s = passes_s - other["seconds"]
        cpu_s = sampled["mysqld_cpu_s"] - other["cpu_s"]
        read_bytes = sampled["mysqld_read_bytes"] * 0.99 - other["read_bytes"]
        dataset_rows = run.conditions["dataset"]["rows"]
        found += [
            Bound(within, "seconds", alone_s - around_s, alone_s),
            exactly(within, "rows_per_s", dataset_rows / row["seconds"]),
            Bound(within, "pages_read", by_instance - between, by_instance + between),
            Bound(within, "kernel_cpu_s", 0, row["cpu_s"]),
            Bound(within, "cpu_s", cpu_s - _TICKS_S, cpu_s + missed_s + _TICKS_S),
            Bound(within, "read_bytes", read_bytes, math.inf),
        ]
    return found
