"""What the rest of a run's record says of its metrics."""

from collections.abc import Iterator, Sequence
from typing import Any

from innolab.analysis.bounds import Bound, Metric, Record, exactly, formula, metrics
from innolab.bench import passes
from innolab.bench.passes import PAGE_BYTES
from innolab.studies.multi_buffer_pool import in_turn
from innolab.studies.multi_buffer_pool.table import HOT, HOT_AGAIN

# The scan beside hot pages, in a record.
SCAN = "scan"


def pool_kept_ratio(pages_read: Sequence[float], pool_bytes: int) -> float:
    """Return how much of the pool the second pass need not read again.

    Where the table is larger than the pool, that is what the pool kept through a scan larger than
    itself.
    """
    first, second = pages_read
    return (first - second) / (pool_bytes // PAGE_BYTES)


def _kept(record: Record) -> Iterator[Bound]:
    pool = int(record.run.conditions["requested"]["innodb_buffer_pool_size"])
    read = {within["pass"]: row["pages_read"] for within, row in record.rows("pages_read")}
    if read:
        yield exactly({}, "pool_kept_ratio", pool_kept_ratio([read[1], read[2]], pool))


def _rows_per_s(record: Record) -> Iterator[Bound]:
    rows = record.run.conditions["dataset"]["rows"]
    for within, row in record.rows("rows_per_s", "seconds"):
        yield exactly(within, "rows_per_s", rows / row["seconds"])


def _instances(record: Record) -> Iterator[Bound]:
    """Yield the bounds of the pages of instances, and of all, by each other."""
    noted = {row["within"]["pass"]: row for row in record.noted("passes") if row["within"]}
    by_pass: dict[Any, dict[Any, float]] = {}
    for within, row in record.rows("instance_pages_read"):
        by_pass.setdefault(within["pass"], {})[within["instance"]] = row["instance_pages_read"]
    for number, instances in by_pass.items():
        within = {"pass": number}
        counted = sum(instances.values())
        yield passes.pages(within, "pages_read", counted)
        [total] = [row["pages_read"] for at, row in record.rows("pages_read") if at == within]
        for instance, read in instances.items():
            at = {**within, "instance": instance}
            low, high = (end - (counted - read) for end in passes.between(total))
            yield Bound(at, "instance_pages_read", low, high)
            if number in noted:
                yield exactly(at, "instance_pages_read", noted[number]["pages_read"][instance])


def _hot(record: Record) -> Iterator[Bound]:
    noted = {row["what"]: row for row in record.noted("passes")}
    if HOT not in noted:
        return
    [cpu_s] = [b for b in passes.costs(record, noted[SCAN]) if b.metric == "cpu_s"]
    yield cpu_s
    yield passes.pages({}, "hot_pages", sum(noted[HOT]["pages_read"]))
    [(_, row)] = record.rows("hot_pages")
    again = passes.pages({}, "hot_pages_read_again", sum(noted[HOT_AGAIN]["pages_read"]))
    # What was read again is counted once for each hot page.
    low, high = (min(end, row["hot_pages"]) for end in (again.low, again.high))
    yield again._replace(low=low, high=high)


METRICS = {
    **passes.METRICS,
    "rows_per_s": Metric("rows/s", [_rows_per_s]),
    "turn_seconds": Metric("s", [in_turn.evidence]),
    "cpu_s": Metric("s", [passes.evidence, _hot, in_turn.evidence]),
    "pages_read": Metric("pages", [passes.evidence, _instances]),
    "instance_pages_read": Metric("pages", [_instances]),
    "pool_kept_ratio": Metric("share of the pool", [_kept]),
    **metrics({"hot_pages": "pages", "hot_pages_read_again": "pages"}, _hot),
    "hot_kept_ratio": Metric("share of the pages in use", [
        formula("hot_kept_ratio", lambda row: 1 - row["hot_pages_read_again"] / row["hot_pages"],
                "hot_pages", "hot_pages_read_again"),
    ]),
}  # fmt: skip
