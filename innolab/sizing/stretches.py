"""What a stretch of time at a running server shows, and what makes it say less than it seems to."""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import mean, stdev

from innolab.base.units import bytes_text
from innolab.sizing.ladder import Rung
from innolab.sizing.pool_sizes import LEAST_EVENTS, PoolSizePoint
from innolab.sizing.server_status import Facts, Stretch, Values

PARTS = 12
_PERIODS_S = (0.5, 5.0)
# A pool with more free pages than this has not filled, so nothing was evicted.
_FREE = 0.05
_TREND, _SCANS = 0.2, 0.1


def period_s(seconds: float) -> float:
    """Return the time between two samples of a stretch; a server may close what is idle longer.

    >>> period_s(5), period_s(24), period_s(3600)
    (0.5, 2.0, 5.0)
    """
    least, most = _PERIODS_S
    return min(most, max(least, seconds / PARTS))


def point_of(rung: Rung) -> PoolSizePoint | None:
    """Return a size of a ladder as what the analysis takes; None if it was not as wanted."""
    if rung.stretch is None or rung.says or is_filling(rung.stretch):
        return None
    return point(rung.stretch, rung.size_bytes)


def point(stretch: Stretch, pool_bytes: int) -> PoolSizePoint:
    """Return a stretch as what the analysis takes."""
    first, last = stretch.samples[0], stretch.samples[-1]
    reads = _ratios(stretch.samples, "Innodb_pages_read", "Questions")
    return PoolSizePoint(
        pool_bytes=pool_bytes,
        pages=last["Innodb_buffer_pool_pages_data"] + last["Innodb_buffer_pool_pages_free"],
        seconds=last["t_s"] - first["t_s"],
        statements=last["Questions"] - first["Questions"],
        requests=_grown("Innodb_buffer_pool_read_requests", first, last),
        reads=_grown("Innodb_pages_read", first, last),
        promoted=None if math.isnan(stretch.promoted) else stretch.promoted,
        spread=_variation(reads) / math.sqrt(max(len(reads), 1)),
    )


def rate_spread(stretch: Stretch) -> float:
    """Return the standard deviation of statements a second over parts of a stretch, over its mean.

    Not that of the mean: what made one part slower than another may last longer than the stretch.
    """
    return _variation(_ratios(stretch.samples, "Questions", "t_s"))


def _grown(name: str, first: Values, last: Values) -> float:
    return last[name] - first[name]


def _ratios(samples: Sequence[Values], counter: str, over: str) -> list[float]:
    """Return by how much a counter grew over another, in about equal parts of a stretch."""
    step = max(1, len(samples) // PARTS)
    return [
        _grown(counter, first, last) / _grown(over, first, last)
        for first, last in pairwise(samples[::step])
        if _grown(over, first, last) > 0
    ]


def _variation(values: Sequence[float]) -> float:
    return stdev(values) / mean(values) if len(values) > 2 and mean(values) > 0 else 0.0


def asked_bytes(facts: Facts, stretch: Stretch) -> int:
    """Return the bytes of what was asked for: rows, and indexes of tables whose indexes were.

    Writing changes every index of a table, though only the one that finds the row is counted.
    """
    asked = {table for table, _ in stretch.used}
    indexed = {
        table for (table, index), (_, written) in stretch.used.items()
        if index not in (None, "PRIMARY") or written > 0
    }  # fmt: skip
    size_bytes = sum(
        table.data_bytes + (table.index_bytes if table.name in indexed else 0)
        for table in facts.tables
        if table.name in asked
    )
    return size_bytes or facts.data_bytes


def is_filling(stretch: Stretch) -> bool:
    """Return whether a pool has room left."""
    return _free_share(stretch) > _FREE


def _free_share(stretch: Stretch) -> float:
    last = stretch.samples[-1]
    return last["Innodb_buffer_pool_pages_free"] / last["Innodb_buffer_pool_pages_total"]


def doubts(facts: Facts, stretch: Stretch, now: PoolSizePoint, rungs: list[Rung]) -> list[str]:
    """Return what makes the numbers say less than they seem to, in sentences."""
    return [*_of_server(facts), *_of_data(facts, stretch), *_of_load(stretch, now),
            *filter(None, map(_of_rung, rungs))]  # fmt: skip


def _of_server(facts: Facts) -> Iterator[str]:
    if facts.is_mariadb:
        yield "This is MariaDB, on which innolab's sizing was not tested."
    method = facts.innodb_flush_method or "unset"
    if "O_DIRECT" not in method:
        yield (
            f"innodb_flush_method is {method}: reads may come from the operating system's cache, "
            "which a larger pool takes memory from."
        )


def _of_data(facts: Facts, stretch: Stretch) -> Iterator[str]:
    if not stretch.used:
        yield "Which tables were asked for is not known, so all of them count as data."
    seen = {table.name for table in facts.tables}
    if hidden := sorted({table for table, _ in stretch.used} - seen):
        yield (
            f"Sizes of tables that were asked for are not seen ({len(hidden)}, such as "
            f"{hidden[0]}): this user has no right on them, or they are not InnoDB's. They do not "
            "count as data."
        )


def _of_load(stretch: Stretch, now: PoolSizePoint) -> Iterator[str]:
    if is_filling(stretch):
        yield (
            f"{_free_share(stretch):.0%} of the pool is free: it has not filled, or holds all "
            "data. A larger one gives nothing now; what a smaller one would do is not known."
        )
    ahead = _grown("Innodb_buffer_pool_read_ahead", stretch.samples[0], stretch.samples[-1])
    if now.reads and ahead > _SCANS * now.reads:
        yield (
            f"{ahead / now.reads:.0%} of the pages were read ahead, so tables are scanned. The "
            "model takes access as independent, and says less of a server that scans."
        )
    if now.reads >= LEAST_EVENTS and (trend := _trend(stretch)) > _TREND:
        changed = f"changed by {trend:.0%}" if math.isfinite(trend) else "went from or to none"
        yield (
            f"Reads a statement {changed} within the stretch: the load was not steady, or the pool "
            "was still learning it. Ask again, or longer with --seconds."
        )


def _of_rung(rung: Rung) -> str | None:
    pool = f"The pool of {bytes_text(rung.size_bytes)}"
    if rung.stretch is None and not rung.says:
        return f"{pool} was not tried, as the ladder had ended."
    if rung.stretch is None:
        return (
            f"{pool} was left at once: {rung.says}. It was set back, and nothing of it was taken."
        )
    if is_filling(rung.stretch):
        return f"{pool} had not filled, so it is not taken."
    return f"{pool} {rung.says}, so it is not taken." if rung.says else None


def _trend(stretch: Stretch) -> float:
    """Return by how much reads a statement differ between the halves, as a share of the fewer."""
    first, middle, last = (stretch.samples[i] for i in (0, len(stretch.samples) // 2, -1))
    halves = [
        _grown("Innodb_pages_read", a, b) / max(_grown("Questions", a, b), 1)
        for a, b in ((first, middle), (middle, last))
    ]
    return abs(halves[1] - halves[0]) / min(halves) if min(halves) > 0 else math.inf
