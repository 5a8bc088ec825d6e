"""Timed passes of one statement: what they cost the server, how that is kept, what bounds it."""

from collections.abc import Iterator, Mapping
from math import inf
from typing import Any, NamedTuple

from innolab.analysis.bounds import Bound, Metric, Record, exactly, metrics
from innolab.bench.trial import Bench
from innolab.mysql.server import Server, ServerError
from innolab.record.run import Level
from innolab.record.series import PERIOD_S, Sampler

PAGE_BYTES = 16 * 1024
# Two samples around a statement take about a millisecond each; a busy host takes longer.
_AROUND_S, _AROUND_RATIO = 0.1, 0.05
# Connecting and reading counters belong to the stage of the passes: some hundredths of a second,
# and more where all takes longer.
_AROUND_PASSES_S = 0.5
# CPU time is counted in hundredths of a second, and each reading may be off by some of them.
_TICKS_S = 0.1
# The server counts pages in all and by instance at two moments, and background threads read some:
# seen up to 54 of 36,893.
_PAGES_BETWEEN, _PAGES_BETWEEN_RATIO = 8, 0.005
# The kernel's count of bytes has other files too, and pages that a thread reads while all are
# counted: seen up to 41 pages of 16 KiB.
_PAGES_APART, _PAGES_APART_RATIO = 64, 0.01
# Of a difference of seconds.
_BITS = 1e-9
STAGE = "measured passes"
# What a study's metrics are of, where it times other statements too.
STATEMENT = "statement"


class Cost(NamedTuple):
    """What one statement took. Seconds are the client's wall time from send to last row."""

    seconds: float
    cpu_s: float
    kernel_cpu_s: float
    read_bytes: int
    pages_read: int
    pages_read_by_instance: list[int]

    def metrics(self) -> dict[str, float]:
        """Return the cost but for the pages of each instance."""
        return {
            name: value for name, value in self._asdict().items() if not isinstance(value, list)
        }


class Timed(NamedTuple):
    """The rows of a statement, its cost, and when it ran.

    `at` is on the clock of the samples: the sample before it, its beginning and end, the sample
    after it.
    """

    rows: list[tuple[Any, ...]]
    cost: Cost
    at: dict[str, float]


def run_timed(server: Server, sql: str, sampler: Sampler | None = None) -> Timed:
    """Run a statement and return its rows and its cost.

    The connection is open before the clock starts; counters are read on it before and after.

    Parameters
    ----------
    sampler : takes the samples around the statement, whose differences its cost is

    Raises
    ------
    ServerError
        If the statement fails or the server dies.
    """
    sampler = sampler or Sampler(server.host, server.pid)
    with server.cursor() as cursor:
        pages, instances = _pages_read(cursor)
        try:
            before = sampler.take()
            from_s = sampler.now_s()
            cursor.execute(sql)
            rows = list(cursor.fetchall())
            to_s = sampler.now_s()
            after = sampler.take()
        except OSError as error:  # Its process is gone.
            raise server.failure(error) from None
        pages_after, instances_after = _pages_read(cursor)
    if len(instances) != len(instances_after):
        raise ServerError(
            f"The server reported {len(instances)} buffer pool instances before a statement and of "
            f"{len(instances_after)} after it, so what it read is not known."
        )
    cost = Cost(
        seconds=to_s - from_s,
        cpu_s=after["mysqld_cpu_s"] - before["mysqld_cpu_s"],
        kernel_cpu_s=after["mysqld_kernel_cpu_s"] - before["mysqld_kernel_cpu_s"],
        read_bytes=int(after["mysqld_read_bytes"] - before["mysqld_read_bytes"]),
        pages_read=pages_after - pages,
        pages_read_by_instance=[b - a for a, b in zip(instances, instances_after, strict=True)],
    )
    at = {"before_s": before["t_s"], "from_s": from_s, "to_s": to_s, "after_s": after["t_s"]}
    return Timed(rows, cost, at)


def _pages_read(cursor: Any) -> tuple[int, list[int]]:
    """Return the pages read into the pool since the start: in all, and by pool instance."""
    cursor.execute("SHOW GLOBAL STATUS LIKE 'Innodb_pages_read'")
    total = int(cursor.fetchall()[0][1])
    cursor.execute(
        "SELECT NUMBER_PAGES_READ FROM information_schema.INNODB_BUFFER_POOL_STATS ORDER BY POOL_ID"
    )
    return total, [int(row[0]) for row in cursor.fetchall()]


def timed(
    bench: Bench,
    server: Server,
    statement: str,
    what: str = STATEMENT,
    within: Mapping[str, Level] | None = None,
) -> tuple[list[tuple[Any, ...]], Cost]:
    """Run a statement and return its rows and its cost; records what the cost follows from.

    Parameters
    ----------
    what : names the statement; METRICS are of STATEMENT
    within : the levels of the within-factors of this pass
    """
    found = run_timed(server, statement, bench.sampler)
    by_instance = found.cost.pages_read_by_instance
    row = {"what": what, "within": dict(within or {}), **found.at, "pages_read": by_instance}
    bench.note_row("passes", row)
    return found.rows, found.cost


def evidence(record: Record) -> Iterator[Bound]:
    """Yield the bounds of METRICS."""
    for row in record.noted("passes"):
        if row["what"] == STATEMENT:
            yield from costs(record, row)
    yield from _by_stage(record)
    if record.run.conditions["requested"].get("innodb_flush_method") == "O_DIRECT":
        yield from _by_bytes(record)


def costs(record: Record, noted: Mapping[str, Any]) -> Iterator[Bound]:
    """Yield the bounds of a pass by the samples around it and the server's counts."""
    within = noted["within"]
    before, after = (record.samples[noted[end]] for end in ("before_s", "after_s"))
    span_s = after["t_s"] - before["t_s"]
    least_s = span_s * (1 - _AROUND_RATIO) - _AROUND_S
    yield exactly(within, "seconds", noted["to_s"] - noted["from_s"])
    yield Bound(within, "seconds", least_s, span_s)
    for metric, counter in _COUNTERS.items():
        yield exactly(within, metric, after[counter] - before[counter])
    yield pages(within, "pages_read", sum(noted["pages_read"]))


def pages(within: Mapping[str, Level], metric: str, counted: float) -> Bound:
    """Return the bound of the pages that a pass read, by another count of them."""
    return Bound(within, metric, *between(counted))


def between(counted: float) -> tuple[float, float]:
    """Return between which numbers another count of the pages of a pass can be."""
    apart = _PAGES_BETWEEN + _PAGES_BETWEEN_RATIO * counted
    return counted - apart, counted + apart


def _by_stage(record: Record) -> Iterator[Bound]:
    """Yield the bounds of passes by those of the others, and what all of them took.

    The series ends before the last pass where none of its samples are of the ends of passes.
    """
    rows = list(record.rows("seconds", "cpu_s", "kernel_cpu_s", "read_bytes"))
    if record.series is None or not rows:
        return
    stage_s = record.run.conditions["time_s"][STAGE]
    around_s = _AROUND_PASSES_S + _AROUND_RATIO * stage_s
    # The last sample is taken a period before the end, or earlier where the host is busy.
    missed_s = record.run.conditions["host"]["cores"] * (
        PERIOD_S + max(0.0, stage_s - float(record.series["t_s"].iloc[-1]))
    )
    last = record.series.iloc[-1]
    total = {name: sum(row[name] for _, row in rows) for name in ("seconds", *_COUNTERS)}
    for within, row in rows:
        others = {name: total[name] - row[name] for name in total}
        alone_s = stage_s - others["seconds"]
        cpu_s = float(last["mysqld_cpu_s"]) - others["cpu_s"]
        # Reads before and between passes are in the series too.
        margin = _PAGES_APART * PAGE_BYTES + _PAGES_APART_RATIO * float(last["mysqld_read_bytes"])
        read_bytes = float(last["mysqld_read_bytes"]) - margin - others["read_bytes"]
        # Stages are rounded.
        yield Bound(within, "seconds", alone_s - around_s, alone_s + 1e-4)
        yield Bound(within, "kernel_cpu_s", -inf, row["cpu_s"] + _BITS)
        yield Bound(within, "cpu_s", cpu_s - _TICKS_S, cpu_s + missed_s + _TICKS_S)
        yield Bound(within, "read_bytes", read_bytes, inf)


def _by_bytes(record: Record) -> Iterator[Bound]:
    """Yield the bounds of pages and bytes by each other, where no page comes from a cache."""
    for within, row in record.rows("pages_read", "read_bytes"):
        read = row["read_bytes"] / PAGE_BYTES
        apart = _PAGES_APART + _PAGES_APART_RATIO * read
        yield Bound(within, "pages_read", read - apart, read + apart)
        low, high = row["pages_read"] - apart, row["pages_read"] + apart
        yield Bound(within, "read_bytes", low * PAGE_BYTES, high * PAGE_BYTES)


_COUNTERS = {
    "cpu_s": "mysqld_cpu_s",
    "kernel_cpu_s": "mysqld_kernel_cpu_s",
    "read_bytes": "mysqld_read_bytes",
}
METRICS: dict[str, Metric] = metrics(
    {"seconds": "s", "cpu_s": "s", "kernel_cpu_s": "s", "read_bytes": "bytes",
     "pages_read": "pages"},
    evidence,
)  # fmt: skip
