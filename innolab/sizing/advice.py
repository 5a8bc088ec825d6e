"""Sizing a server that runs: watch it, perhaps at a few sizes, and say what others would give."""

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from innolab.analysis import stats
from innolab.analysis.stats import Interval
from innolab.base.errors import InputError
from innolab.base.units import bytes_text
from innolab.hosts import observe
from innolab.hosts.local import HERE
from innolab.sizing import ladder, pool_sizes, stretches
from innolab.sizing.ladder import Rung
from innolab.sizing.pool_sizes import Curve, List, PoolSizePoint
from innolab.sizing.server_status import Facts, Stretch, Visit
from innolab.sizing.target import Target
from innolab.sizing.throughput_model import ServerPace

# A stretch with fewer logical reads shows a server that does nothing.
_LEAST_REQUESTS = 10_000
_LEAST_STATEMENTS = 100
# Sizes that are shown beside those asked for, as multiples of the present one.
_MULTIPLES = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0)
_BEYOND = 1.15
# Of all processors: what else runs on the host takes part in the throughput from here on.
_BUSY = 0.85
Say = Callable[[str], None]


class PoolSizeRow(NamedTuple):
    """One size of the pool: reads a statement, statements a second, and how both are known."""

    pool_bytes: int
    reads: Interval
    per_s: Interval | None
    is_measured: bool

    @property
    def reads_per_s(self) -> float | None:
        """Return the pages read in a second."""
        return None if self.per_s is None else self.reads.estimate * self.per_s.estimate


@dataclass(frozen=True)
class SizingRequest:
    """What a user wants to know.

    Attributes
    ----------
    seconds : how long to watch at each size
    sizes : of the pool in bytes, beside those that are shown anyway
    resize : sizes that the pool may have for a while
    """

    seconds: float = 60.0
    sizes: Sequence[int] = ()
    resize: Sequence[int] = ()


@dataclass(frozen=True)
class Sized:
    """What is known of a server, and what other sizes of its pool would give.

    Attributes
    ----------
    data_bytes : of all tables; `asked_bytes` of those that were asked for in the stretch
    points : what was measured, the present size first
    pace : of clients and server; None where it is not known
    curve : None where the counters say nothing of other sizes
    rows : by size, ascending
    unknown : what is not known, and what was not as wanted, in sentences
    """

    facts: Facts
    data_bytes: int
    asked_bytes: int
    points: list[PoolSizePoint]
    hit_ratio: float
    pace: ServerPace | None
    curve: Curve | None
    rows: list[PoolSizeRow]
    rungs: list[Rung] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    @property
    def now_bytes(self) -> int:
        """Return the pool's size."""
        return self.points[0].pool_bytes

    def at(self, pool_bytes: float) -> tuple[Interval, Interval | None] | None:
        """Return reads a statement and statements a second at a size; None where not known."""
        if self.curve is None:
            return None
        now = self.points[0]
        reads = self.curve.reads(now.pages * pool_bytes / now.pool_bytes)
        return reads, self.pace.at(reads) if self.pace else None


def size(target: Target, asked: SizingRequest, say: Say) -> Sized:
    """Watch a server and return what its pool does and would do.

    Raises
    ------
    InputError
        Where it cannot be asked, is too old or too idle, or a size is not for it.
    InnolabError
        Where it goes away meanwhile.
    """
    target.check()
    with Visit(target) as visit:
        is_local = visit.connection.unix_socket is not None
        facts = visit.facts()
        now_bytes = int(facts.number("innodb_buffer_pool_size"))
        sizes = ladder.planned(facts, asked.resize, is_local=is_local)
        say(f"watching for {asked.seconds:.0f} s")
        before = observe.usage(HERE) if is_local else None
        stretch = visit.stretch(asked.seconds, stretches.period_s(asked.seconds))
        busy_s = observe.usage(HERE).busy_s - before.busy_s if before else None
        now = stretches.point(stretch, now_bytes)
        _require_work(now)
        rungs = []
        if sizes:
            per_s = now.statements / now.seconds
            rungs = ladder.climb(visit, now_bytes, sizes, asked.seconds, per_s, say)
    return _sized(facts, asked, stretch, now, rungs, busy_s)


def _require_work(now: PoolSizePoint) -> None:
    if now.requests < _LEAST_REQUESTS or now.statements < _LEAST_STATEMENTS:
        raise InputError(
            f"The server is too idle to say anything: {now.statements:,.0f} statements asked for "
            f"{now.requests:,.0f} pages in {now.seconds:.0f} s, and it takes {_LEAST_STATEMENTS} "
            f"and {_LEAST_REQUESTS:,}. Ask while it works, or longer with --seconds. Nothing was "
            "changed."
        )


def _sized(
    facts: Facts, asked: SizingRequest, stretch: Stretch, now: PoolSizePoint, rungs: list[Rung],
    busy_s: float | None,
) -> Sized:  # fmt: skip
    unknown = stretches.doubts(facts, stretch, now, rungs)
    asked_bytes = stretches.asked_bytes(facts, stretch)
    of = List(
        asked_bytes / facts.number("innodb_page_size", 16384),
        facts.number("innodb_old_blocks_pct", 37) / 100,
        facts.number("innodb_old_blocks_time") / 1000,
    )
    points = [now, *filter(None, map(stretches.point_of, rungs))]
    pace = _pace(now, stretch, busy_s, unknown)
    curve = None if stretches.is_filling(stretch) else _curve(points, of, unknown)
    data = sum(table.data_bytes + table.index_bytes for table in facts.tables)
    hits = 1 - now.reads / now.requests
    found = Sized(facts, data, asked_bytes, points, hits, pace, curve, [], rungs, unknown)
    return replace(found, rows=_rows(found, asked))


def _curve(points: list[PoolSizePoint], of: List, unknown: list[str]) -> Curve | None:
    now, *others = points
    if now.reads < pool_sizes.LEAST_EVENTS:
        unknown.append(
            f"Only {now.reads:.0f} pages were read in {now.seconds:.0f} s: what is asked for lies "
            "in the pool. A larger pool gives nothing; how much smaller it may be is not known."
        )
        return None
    try:
        curve = pool_sizes.fitted(points, of)
    except ValueError as error:
        unknown.append(f"There is no curve: {error}.")
        return None
    if left := [point for point in others if not pool_sizes.is_usable(point, of)]:
        unknown.append(
            f"The curve does not follow {', '.join(bytes_text(one.pool_bytes) for one in left)}: "
            "there a pool reads too little, or holds all data that are asked for."
        )
    if not curve.by_promotions:
        unknown.append(
            "How steeply reads change with the pool is not known, as hits on the older part of "
            "InnoDB's list say nothing here (too few, or innodb_old_blocks_time is 0 or longer "
            "than pages stay there). The intervals span all that the hit ratio leaves open."
        )
    return curve


def _pace(
    now: PoolSizePoint, stretch: Stretch, busy_s: float | None, unknown: list[str]
) -> ServerPace | None:
    clients = stats.arithmetic_mean([sample["clients"] for sample in stretch.samples]).estimate
    if math.isnan(stretch.waited_s) or stretch.waited_s <= 0 or not clients > 0:
        unknown.append(
            "Throughput at other sizes is not known: performance_schema counts neither waits for "
            "reads nor clients here (it is off, or its instruments of files and threads are)."
        )
        return None
    if busy_s is None:
        unknown.append(
            "The processors of the server's host were not seen, as it was not asked by its socket. "
            "Throughput at larger sizes may end earlier, where processors become the bound."
        )
    elif (share := min(busy_s / now.seconds / (os.cpu_count() or 1), 1.0)) > _BUSY:
        unknown.append(
            f"The host's processors were {share:.0%} busy, with all that runs there. Where that is "
            "not the server and its clients alone, throughput follows the others too."
        )
    return ServerPace(
        clients,
        now.statements / now.seconds,
        now.reads_a_statement,
        stretch.waited_s / now.statements,
        os.cpu_count() if busy_s is not None else None,
        busy_s / now.statements if busy_s is not None else None,
        stretches.rate_spread(stretch),
    )


def _rows(found: Sized, asked: SizingRequest) -> list[PoolSizeRow]:
    now = found.points[0]
    measured = {point.pool_bytes: point for point in found.points}
    wanted = {*measured, *asked.sizes}
    if found.curve is not None:
        most = max(_BEYOND * found.asked_bytes * now.pool_bytes / (now.pages * _page_bytes(found)),
                   1.0)  # fmt: skip
        wanted |= {
            round(times * now.pool_bytes) for times in _MULTIPLES
            if times <= 1 or times * now.pool_bytes <= most
        }  # fmt: skip
    rows = []
    for pool_bytes in sorted(wanted):
        if pool_bytes in measured:
            rows.append(_measured(measured[pool_bytes]))
        elif modelled := found.at(pool_bytes):
            rows.append(PoolSizeRow(pool_bytes, *modelled, is_measured=False))
    return rows


def _page_bytes(found: Sized) -> float:
    return found.facts.number("innodb_page_size", 16384)


def _measured(one: PoolSizePoint) -> PoolSizeRow:
    reads, per_s = one.reads_a_statement, one.statements / one.seconds
    factor = math.exp(2 * one.spread)
    return PoolSizeRow(
        one.pool_bytes,
        Interval(reads, reads / factor, reads * factor, 1),
        Interval(per_s, math.nan, math.nan, 1),
        is_measured=True,
    )
