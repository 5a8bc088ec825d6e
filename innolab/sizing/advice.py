"""Sizing a server that runs: watch it, perhaps at a few sizes, and say what others would give."""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from innolab.analysis import buying, stats
from innolab.analysis.stats import Interval
from innolab.base.errors import InputError
from innolab.base.units import bytes_text
from innolab.hosts import observe
from innolab.hosts.local import HERE
from innolab.sizing import ladder, pool_sizes, stretches
from innolab.sizing.pool_sizes import Curve, PoolList, PoolSizePoint
from innolab.sizing.server_status import Facts, Stretch, Visit
from innolab.sizing.size_document import Range, SizeDocument, SizeOffer, SizeRow
from innolab.sizing.target import Target
from innolab.sizing.throughput_model import ServerPace
from innolab.storage.profiles import profiles

# A stretch with fewer logical reads shows a server that does nothing.
_LEAST_REQUESTS = 10_000
_LEAST_STATEMENTS = 100
# Sizes that are shown besides those asked for, as multiples of the present one.
_MULTIPLES = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0)
_BEYOND = 1.15
# Of all processors: what else runs on the host takes part in the throughput from here on.
_BUSY = 0.85
Say = Callable[[str], None]


@dataclass(frozen=True)
class SizingRequest:
    """What a user wants to know.

    Attributes
    ----------
    seconds : how long to watch at each size
    sizes : of the pool in bytes, besides those that are shown anyway
    resize : sizes that the pool may have for a while
    price_memory_gb : of 1e9 bytes; None if it is not known
    price_devices : by name, of one each
    """

    seconds: float = 60.0
    sizes: Sequence[int] = ()
    resize: Sequence[int] = ()
    price_memory_gb: float | None = None
    price_devices: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class ServerModel:
    """What the present size says of other sizes.

    Attributes
    ----------
    points : what was measured, the present size first
    curve : None if the counters say nothing of other sizes
    pace : of clients and server; None if it is not known
    """

    points: Sequence[PoolSizePoint]
    curve: Curve | None
    pace: ServerPace | None

    def reads(self, pool_bytes: float) -> Interval | None:
        """Return the pages that a statement would read with a pool of some size."""
        now = self.points[0]
        return self.curve.reads(now.pages * pool_bytes / now.pool_bytes) if self.curve else None

    def per_s(self, reads: Interval, read_per_s: float | None = None) -> Interval | None:
        """Return statements a second if each read so many pages; as `ServerPace.at`."""
        return self.pace.at(reads, read_per_s) if self.pace else None


def size(target: Target, request: SizingRequest, say: Say) -> SizeDocument:
    """Watch a server and return what its pool does and would do.

    Raises
    ------
    InputError
        If it cannot be asked, is too old or too idle, or a size is not for it.
    InnolabError
        If it goes away while it is watched.
    """
    target.check()
    with Visit(target) as visit:
        is_local = visit.connection.unix_socket is not None
        facts = visit.facts()
        now_bytes = facts.innodb_buffer_pool_size
        sizes = ladder.planned(facts, request.resize, is_local=is_local)
        say(f"watching for {request.seconds:.0f} s")
        before = observe.usage(HERE) if is_local else None
        stretch = visit.stretch(request.seconds, stretches.period_s(request.seconds))
        busy_s = observe.usage(HERE).busy_s - before.busy_s if before else None
        now = stretches.point(stretch, now_bytes)
        if now.requests < _LEAST_REQUESTS or now.statements < _LEAST_STATEMENTS:
            raise InputError(
                f"The server is too idle to say anything: {now.statements:,.0f} statements asked "
                f"for {now.requests:,.0f} pages in {now.seconds:.0f} s, and it takes "
                f"{_LEAST_STATEMENTS} and {_LEAST_REQUESTS:,}. Ask while it works, or longer with "
                "--seconds. Nothing was changed."
            )
        per_s = now.statements / now.seconds
        rungs = ladder.climb(visit, now_bytes, sizes, request.seconds, per_s, say) if sizes else []
    unknown = stretches.doubts(facts, stretch, now, rungs)
    points = [now, *filter(None, map(stretches.point_of, rungs))]
    pace = _pace(now, stretch, busy_s, unknown)
    asked_bytes = stretches.asked_bytes(facts, stretch)
    is_filling = stretches.is_filling(stretch)
    curve = None if is_filling else _curve(points, facts, asked_bytes, unknown)
    model = ServerModel(points, curve, pace)
    return SizeDocument(
        maker="MariaDB" if facts.is_mariadb else "MySQL",
        version=facts.version,
        pool_bytes=now_bytes,
        data_bytes=facts.data_bytes,
        asked_bytes=asked_bytes,
        seconds=now.seconds,
        statements_per_s=per_s,
        requests_per_s=now.requests / now.seconds,
        reads_per_s=now.reads / now.seconds,
        hit_share=1 - now.reads / now.requests,
        clients=pace.clients if pace else None,
        by_promotions=curve.by_promotions if curve else None,
        resized=bool(rungs),
        rows=_rows(model, request.sizes),
        offers=offers(model, facts.data_bytes, request.price_memory_gb, request.price_devices),
        not_known=unknown,
    )


def _curve(
    points: list[PoolSizePoint], facts: Facts, asked_bytes: int, unknown: list[str]
) -> Curve | None:
    now, *others = points
    if now.reads < pool_sizes.LEAST_EVENTS:
        unknown.append(
            f"Only {now.reads:.0f} pages were read in {now.seconds:.0f} s: what is asked for is in "
            "the pool. A larger pool gives nothing; how much smaller it may be is not known."
        )
        return None
    pool_list = PoolList(
        asked_bytes / facts.innodb_page_size,
        facts.innodb_old_blocks_pct / 100,
        facts.innodb_old_blocks_time / 1000,
    )
    try:
        curve = pool_sizes.fitted(points, pool_list)
    except ValueError as error:
        unknown.append(f"There is no curve: {error}.")
        return None
    if left := [one for one in others if not pool_sizes.is_usable(one, pool_list)]:
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
            f"The host's processors were {share:.0%} busy, with all that runs there. If that is "
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


def _rows(model: ServerModel, asked_sizes: Sequence[int]) -> list[SizeRow]:
    now = model.points[0]
    measured = {point.pool_bytes: point for point in model.points}
    sizes = {*measured, *asked_sizes}
    if model.curve is not None:
        most = max(_BEYOND * model.curve.pool_list.data_pages / now.pages, 1.0)
        sizes |= {round(times * now.pool_bytes) for times in _MULTIPLES if times <= most}
    rows = []
    for pool_bytes in sorted(sizes):
        if point := measured.get(pool_bytes):
            factor = math.exp(2 * point.spread)
            reads: Interval | None = Interval(
                point.reads_a_statement, point.reads_a_statement / factor,
                point.reads_a_statement * factor, 1,
            )  # fmt: skip
            per_s: Interval | None = Interval(
                point.statements / point.seconds, math.nan, math.nan, 1
            )
        elif reads := model.reads(pool_bytes):
            per_s = model.per_s(reads)
        if reads is None:
            continue
        rows.append(
            SizeRow(
                pool_bytes=pool_bytes,
                known="measured" if point else "modelled",
                reads_a_statement=Range.of(reads),
                statements_per_s=Range.of(per_s) if per_s else None,
                reads_per_s=reads.estimate * per_s.estimate if per_s else None,
            )
        )
    return rows


def offers(
    model: ServerModel,
    data_bytes: int,
    price_memory_gb: float | None,
    price_devices: Mapping[str, float],
) -> list[SizeOffer]:
    """Return what can be bought: memory, and devices whose price was given."""
    if model.curve is None or (price_memory_gb is None and not price_devices):
        return []
    now = model.points[0]
    asked_gb = model.curve.pool_list.data_pages * now.pool_bytes / now.pages / 1e9
    # A device holds all tables, also those that nobody asked for.
    held_gb = max(data_bytes / 1e9, asked_gb)
    devices = profiles()
    faster = [
        (buying.pieces(devices[name].capacity_bytes, held_gb), name) for name in price_devices
    ]
    ways = buying.offers(
        round(now.pool_bytes / 1e9, 3), round(asked_gb, 3), "the device that there is", faster,
        price_memory_gb, price_devices, named="another device",
    )  # fmt: skip
    per_s = now.statements / now.seconds
    listed = []
    for way in ways:
        reads = model.reads(way.memory_gb * 1e9)
        each = devices[way.device].pages_per_s("read") if way.pieces else 0.0
        rate = reads and model.per_s(reads, way.pieces * each or None)
        gain = rate and Interval(rate.estimate / per_s, rate.low / per_s, rate.high / per_s, rate.n)
        listed.append(
            SizeOffer(
                option=way.option,
                price=None if math.isnan(way.price) else way.price,
                statements_per_s=Range.of(rate) if rate else None,
                gain=Range.of(gain) if gain else None,
            )
        )
    return listed
