"""What sysbench 1.0 prints, read into numbers. Pure functions of its text.

Latencies are service times: each thread of a closed loop sends its next transaction when the last
one has ended, so what waits for a slow one is not counted (coordinated omission).
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from innolab.base.errors import InnolabError

PERCENTILES = (50, 95, 99)
# `err/s` stands with and without a colon, by release.
_INTERVAL = re.compile(
    r"^\[ *(?P<t_s>\d+)s \] thds: (?P<threads>\d+) tps: (?P<tps>[\d.]+) qps: (?P<qps>[\d.]+) .*?"
    r"lat \(ms,\d+%\): (?P<latency_ms>[\d.]+) err/s:? (?P<errors_per_s>[\d.]+) "
    r"reconn/s:? (?P<reconnects_per_s>[\d.]+)",
    re.MULTILINE,
)
_BUCKET = re.compile(r"^ +([\d.]+) \|[* ]* +(\d+)$", re.MULTILINE)
_TOTALS = {
    "writes": r"^ +write: +(\d+)",
    "transactions": r"^ +transactions: +(\d+)",
    "queries": r"^ +queries: +(\d+)",
    "errors": r"^ +ignored errors: +(\d+)",
    "reconnects": r"^ +reconnects: +(\d+)",
}
_SECONDS = r"^ +total time: +([\d.]+)s"


class Second(NamedTuple):
    """One line of progress: what a second of the run gave."""

    t_s: float
    threads: int
    tps: float
    qps: float
    latency_ms: float
    errors_per_s: float
    reconnects_per_s: float


class SysbenchResult(NamedTuple):
    """A whole run. Percentiles are of service times, in milliseconds, by their number.

    `writes` are the statements that write among the queries; `histogram` has the upper end of each
    bucket in milliseconds, and how many transactions took as long.
    """

    writes: int
    transactions: int
    queries: int
    errors: int
    reconnects: int
    seconds: float
    percentiles_ms: dict[int, float]
    intervals: list[Second]
    histogram: list[tuple[float, int]]

    @property
    def tps(self) -> float:
        """Return transactions per second over the whole run."""
        return self.transactions / self.seconds


def parse(text: str) -> SysbenchResult:
    """Return the numbers of a finished run with `--histogram`.

    Raises
    ------
    InnolabError
        Where the text lacks any of them, as of a run that died; quotes its FATAL lines.
    """
    totals = {name: re.search(pattern, text, re.MULTILINE) for name, pattern in _TOTALS.items()}
    seconds = re.search(_SECONDS, text, re.MULTILINE)
    buckets = [(float(ms), int(count)) for ms, count in _BUCKET.findall(text)]
    if seconds is None or not all(totals.values()) or not buckets:
        raise InnolabError(f"sysbench did not finish its run. It said: {last_words(text)}")
    counts = {name: int(found[1]) for name, found in totals.items() if found}
    return SysbenchResult(
        **counts,
        seconds=float(seconds[1]),
        percentiles_ms={p: percentile(buckets, p) for p in PERCENTILES},
        intervals=intervals(text),
        histogram=buckets,
    )


def rates(text: str) -> dict[str, float]:
    """Return transactions and queries a second of a finished run, with or without a histogram.

    Raises
    ------
    InnolabError
        Where the run did not end; quotes its FATAL lines.

    >>> ended = "    transactions:  300 (x)\\n    queries:  6000 (x)\\n    total time:   60.0s\\n"
    >>> rates(ended)
    {'tps': 5.0, 'qps': 100.0}
    """
    seconds = re.search(_SECONDS, text, re.MULTILINE)
    counted = [re.search(_TOTALS[name], text, re.MULTILINE) for name in ("transactions", "queries")]
    if seconds is None or not all(counted) or float(seconds[1]) <= 0:
        raise InnolabError(f"sysbench did not finish its run. It said: {last_words(text)}")
    counts = [int(found[1]) for found in counted if found]
    return {name: n / float(seconds[1]) for name, n in zip(("tps", "qps"), counts, strict=True)}


def intervals(text: str) -> list[Second]:
    """Return the progress lines, one a second."""
    return [
        Second(
            float(line["t_s"]),
            int(line["threads"]),
            *(float(line[name]) for name in Second._fields[2:]),
        )
        for line in _INTERVAL.finditer(text)
    ]


def percentile(buckets: Sequence[tuple[float, int]], percent: float) -> float:
    """Return the smallest bucket that holds a percentile, as sysbench itself computes it.

    >>> percentile([(1.0, 90), (2.0, 9), (3.0, 1)], 95)
    2.0
    """
    needed = sum(count for _, count in buckets) * percent / 100
    seen = 0
    for value, count in buckets:
        seen += count
        if seen >= needed:
            return value
    raise AssertionError("unreachable")


def last_words(text: str) -> str:
    """Return sysbench's distinct FATAL lines, else its last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    fatal = dict.fromkeys(line for line in lines if "FATAL" in line)
    return " | ".join(list(fatal)[:3] or lines[-1:] or ["nothing"])[:600]
