"""What `innolab size` says: as text, as one JSON document, and as values for its page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from innolab.base.text_columns import aligned
from innolab.base.units import bytes_text, number

if TYPE_CHECKING:
    from innolab.analysis.stats import Interval
    from innolab.sizing.advice import PoolSizeRow, Sized
    from innolab.sizing.size_page import Place

NOTHING = "Nothing was written on the server."


class Range(BaseModel):
    """An estimate with its interval, whose ends are null where it has none."""

    estimate: float
    low: float | None
    high: float | None


class SizeRow(BaseModel):
    """A size of the pool; `known` is measured or modelled."""

    pool_bytes: int
    known: str
    reads_a_statement: Range
    statements_per_s: Range | None
    reads_per_s: float | None


class SizeOffer(BaseModel):
    """A way to spend money; `price` is of what is added, `gain` in times of what there is."""

    option: str
    price: float | None
    statements_per_s: Range | None
    gain: Range | None


class SizeDocument(BaseModel):
    """What `innolab size` says of a server."""

    version: str
    pool_bytes: int
    data_bytes: int
    asked_bytes: int
    seconds: float
    statements_per_s: float
    requests_per_s: float
    reads_per_s: float
    hit_share: float
    clients: float | None
    by_promotions: bool | None
    rows: list[SizeRow]
    offers: list[SizeOffer]
    not_known: list[str]


def document(found: Sized, offers: list[SizeOffer]) -> SizeDocument:
    """Return what was found, as a program reads it."""
    now = found.points[0]
    return SizeDocument(
        version=found.facts.version,
        pool_bytes=found.now_bytes,
        data_bytes=found.data_bytes,
        asked_bytes=found.asked_bytes,
        seconds=now.seconds,
        statements_per_s=now.statements / now.seconds,
        requests_per_s=now.requests / now.seconds,
        reads_per_s=now.reads / now.seconds,
        hit_share=found.hit_ratio,
        clients=found.pace.clients if found.pace else None,
        by_promotions=found.curve.by_promotions if found.curve else None,
        rows=[_row(row) for row in found.rows],
        offers=offers,
        not_known=found.unknown,
    )


def _row(row: PoolSizeRow) -> SizeRow:
    return SizeRow(
        pool_bytes=row.pool_bytes,
        known="measured" if row.is_measured else "modelled",
        reads_a_statement=range_of(row.reads),
        statements_per_s=range_of(row.per_s) if row.per_s else None,
        reads_per_s=row.reads_per_s,
    )


def range_of(interval: Interval) -> Range:
    """Return an interval as a program reads it."""
    return Range(estimate=interval.estimate, low=interval.low, high=interval.high)


def offers(
    found: Sized, price_memory_gb: float | None, price_devices: Mapping[str, float]
) -> list[SizeOffer]:
    """Return what can be bought: memory, and devices whose price was given."""
    from innolab.analysis import buying
    from innolab.analysis.stats import Interval
    from innolab.storage.profiles import profiles

    if found.curve is None or (price_memory_gb is None and not price_devices):
        return []
    now = found.points[0]
    whole_gb = found.curve.of.data_pages * now.pool_bytes / now.pages / 1e9
    have_gb = round(now.pool_bytes / 1e9, 3)
    # A device holds all tables, also those that nobody asked for.
    held_gb = max(found.data_bytes / 1e9, whole_gb)
    sold = [
        (buying.pieces(profiles()[name].capacity_bytes, held_gb), name) for name in price_devices
    ]
    ways = buying.offers(
        have_gb, round(whole_gb, 3), "the device that there is", sold, price_memory_gb,
        price_devices, named="another device",
    )  # fmt: skip
    listed = []
    per_s = now.statements / now.seconds
    for way in ways:
        rate: Interval | None = None
        modelled = found.at(way.memory_gb * 1e9)
        if modelled and found.pace:
            each = profiles()[way.device].pages_per_s("read") if way.pieces else 0.0
            rate = found.pace.at(modelled[0], way.pieces * each or None)
        gain = None
        if rate:
            gain = Interval(rate.estimate / per_s, rate.low / per_s, rate.high / per_s, rate.n)
        listed.append(
            SizeOffer(
                option=way.option,
                price=None if math.isnan(way.price) else way.price,
                statements_per_s=range_of(rate) if rate else None,
                gain=range_of(gain) if gain else None,
            )
        )
    return listed


def summary(found: Sized) -> list[str]:
    """Return what was measured, in sentences."""
    now = found.points[0]
    per_s = now.statements / now.seconds
    asked_per_s, read_per_s = now.requests / now.seconds, now.reads / now.seconds
    maker = "MariaDB" if found.facts.is_mariadb else "MySQL"
    clients = f" from {number(found.pace.clients)} clients" if found.pace else ""
    return [
        f"{maker} {found.facts.version}: a pool of {bytes_text(found.now_bytes)}, "
        f"{bytes_text(found.data_bytes)} of data, {bytes_text(found.asked_bytes)} of them in "
        "tables that were asked for.",
        f"Measured over {now.seconds:.0f} s: {number(per_s)} statements/s{clients}; "
        f"{number(asked_per_s)} pages asked for and {number(read_per_s)} read a second, "
        f"{found.hit_ratio:.2%} hits.",
    ]


def table(found: Sized) -> list[list[str]]:
    """Return the sizes as rows of words, the head first."""
    head = ["pool", "pages read a statement", "statements/s", "pages read/s", "known"]
    return [
        head,
        *(
            [
                bytes_text(row.pool_bytes) + " (now)" * (row.pool_bytes == found.now_bytes),
                _words(row.reads_a_statement),
                _words(row.statements_per_s),
                "" if row.reads_per_s is None else number(row.reads_per_s),
                row.known,
            ]
            for row in map(_row, found.rows)
        ),
    ]


def offered(listed: list[SizeOffer]) -> list[list[str]]:
    """Return offers as rows of words, the head first."""
    head = ["option, modelled", "statements/s", "gain", "price"]
    return [
        head,
        *(
            [one.option, _words(one.statements_per_s), _words(one.gain),
             "not known" if one.price is None else number(one.price)]
            for one in listed
        ),
    ]  # fmt: skip


def _words(of: Range | None) -> str:
    if of is None:
        return "not known"
    ends = [of.low, of.high]
    if any(end is None or math.isnan(end) for end in ends):
        return number(of.estimate)
    return f"{number(of.estimate)} ({number(ends[0] or 0)} to {number(ends[1] or 0)})"


def lines(found: Sized, listed: list[SizeOffer]) -> list[str]:
    """Return all as text for a terminal."""
    said = [*summary(found), "", *aligned(table(found))]
    if listed:
        said += ["", *aligned(offered(listed))]
    if found.unknown:
        said += ["", "What is not known:", *(f"- {one}" for one in found.unknown)]
    return [*said, "", closing(found)]


def closing(found: Sized) -> str:
    """Return what was done to the server."""
    if not found.rungs:
        return NOTHING
    return f"The pool is {bytes_text(found.now_bytes)} again. Nothing else was changed."


def places(found: Sized) -> tuple[list[Place], list[Place]]:
    """Return what the page draws: reads a statement, and statements a second where known."""
    from innolab.sizing.size_page import Place

    reads = [Place(row.pool_bytes, *row.reads[:3], row.is_measured) for row in found.rows]
    rates = [(row, row.per_s) for row in found.rows if row.per_s is not None]
    per_s = [Place(row.pool_bytes, *rate[:3], row.is_measured) for row, rate in rates]
    return reads, per_s


def values(found: Sized, listed: list[SizeOffer]) -> dict[str, Any]:
    """Return what the page shows."""
    return {
        "summary": summary(found),
        "table": table(found),
        "offers": offered(listed) if listed else [],
        "unknown": found.unknown,
        "closing": closing(found),
    }
