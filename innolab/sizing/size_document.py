"""What `innolab size` says: one document, as JSON and as text."""

import math

from pydantic import BaseModel

from innolab.analysis.stats import Interval
from innolab.base.text_columns import aligned
from innolab.base.units import bytes_text, number


class Range(BaseModel):
    """An estimate with its interval, whose ends are null if it has none."""

    estimate: float
    low: float | None
    high: float | None

    @classmethod
    def of(cls, interval: Interval) -> "Range":
        """Return an interval as a program reads it."""
        low, high = (None if math.isnan(end) else end for end in interval[1:3])
        return cls(estimate=interval.estimate, low=low, high=high)


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
    """What `innolab size` says of a server; `resized` is true if its pool had other sizes."""

    maker: str
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
    resized: bool
    rows: list[SizeRow]
    offers: list[SizeOffer]
    not_known: list[str]


def summary(document: SizeDocument) -> list[str]:
    """Return what was measured, in sentences."""
    clients = ""
    if document.clients is not None:
        clients = f" from {number(document.clients)} client{'s' * (document.clients != 1)}"
    return [
        f"{document.maker} {document.version}: a pool of {bytes_text(document.pool_bytes)}, "
        f"{bytes_text(document.data_bytes)} of data, {bytes_text(document.asked_bytes)} of them in "
        "tables that were asked for.",
        f"Measured over {document.seconds:.0f} s: {number(document.statements_per_s)} "
        f"statements/s{clients}; {number(document.requests_per_s)} pages asked for and "
        f"{number(document.reads_per_s)} read a second, {document.hit_share:.2%} hits.",
    ]


def table(document: SizeDocument) -> list[list[str]]:
    """Return the sizes as rows of text, the head first."""
    return [
        ["pool", "pages read a statement", "statements/s", "pages read/s", "known"],
        *(
            [
                bytes_text(row.pool_bytes) + " (now)" * (row.pool_bytes == document.pool_bytes),
                _text(row.reads_a_statement),
                _text(row.statements_per_s),
                "" if row.reads_per_s is None else number(row.reads_per_s),
                row.known,
            ]
            for row in document.rows
        ),
    ]


def offered(document: SizeDocument) -> list[list[str]]:
    """Return offers as rows of text, the head first; nothing if there are none."""
    rows = [
        [offer.option, _text(offer.statements_per_s), _text(offer.gain),
         "not known" if offer.price is None else number(offer.price)]
        for offer in document.offers
    ]  # fmt: skip
    return [["option, modelled", "statements/s", "gain", "price"], *rows] if rows else []


def _text(value: Range | None) -> str:
    if value is None:
        return "not known"
    if value.low is None or value.high is None:
        return number(value.estimate)
    return f"{number(value.estimate)} ({number(value.low)} to {number(value.high)})"


def lines(document: SizeDocument) -> list[str]:
    """Return all as text for a terminal."""
    text = [*summary(document), "", *aligned(table(document)), ""]
    if document.offers:
        text += [*aligned(offered(document)), ""]
    if document.not_known:
        text += ["What is not known:", *(f"- {one}" for one in document.not_known), ""]
    return [*text, closing(document)]


def closing(document: SizeDocument) -> str:
    """Return what was done to the server."""
    if not document.resized:
        return "Nothing was written on the server."
    return f"The pool is {bytes_text(document.pool_bytes)} again. Nothing else was changed."
