"""Windows of a load on a source and its replicas: what they gave, how far replicas fell back."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from innolab.analysis.bounds import Bound, Record, all_exactly, exactly, metrics
from innolab.base.waiting import await_that
from innolab.bench import oltp
from innolab.bench.sysbench import LoadResult
from innolab.bench.trial import Bench
from innolab.mysql.server import Server
from innolab.mysql.topology import Topology
from innolab.studies.replication import heartbeat, split_load
from innolab.studies.replication.heartbeat import Beat, Heartbeat
from innolab.studies.replication.split_load import Split

# Runs a load for some seconds.
Run = Callable[[Split, int], LoadResult]
# What replicas may take to apply what a window wrote, and servers to write it to their data files.
CATCH_UP_S, FLUSHED_WITHIN_S = 120.0, 60.0
# Of both times of a beat.
_ROUNDED_S = 2e-4
_MOST_DIRTY = "innodb_max_dirty_pages_pct"
# A server at rest goes on to note some things of its own.
_FEW_PAGES = 50


def warmed(bench: Bench, raised: Topology, schema: str = heartbeat.SCHEMA) -> Split:
    """Fill all pools, admit loads, make what the heartbeat writes to; return the reading load."""
    with bench.clock.stage("warm-up"):
        split_load.admit(raised.servers.values())
        heartbeat.prepare(raised.source, schema)
        raised.require_equal(CATCH_UP_S)
        for server in raised.servers.values():
            oltp.fill(server, "read_only")
    return Split(bench.dataset_facts["rows"], bench.parameters.threads, 0.0, bench.seed)


def rest(bench: Bench, raised: Topology) -> None:
    """Wait, without limits, until no server has anything left to apply, or to write.

    Prevents the backlog of one window from falling into the next, which it does with a source
    alone, while one that waits for its replicas writes meanwhile.
    """
    with bench.clock.stage("warm-up"):
        raised.require_equal(CATCH_UP_S)
        for server in raised.servers.values():
            flush(server, FLUSHED_WITHIN_S)


def flush(server: Server, within_s: float) -> None:
    """Have a server write its dirty pages, and return when next to none are left.

    Raises
    ------
    InnolabError
        If it takes longer.
    """
    [(usual,)] = server.query(f"SELECT @@GLOBAL.{_MOST_DIRTY}")
    server.query(f"SET GLOBAL {_MOST_DIRTY} = 0")
    try:
        await_that(
            lambda: dirty_pages(server) <= _FEW_PAGES,
            within_s,
            f"{server.build.id} did not write its dirty pages",
        )
    finally:
        server.query(f"SET GLOBAL {_MOST_DIRTY} = {usual}")


def dirty_pages(server: Server) -> int:
    """Return how many pages of its pool a server has still to write to its data files."""
    return int(server.status()["Innodb_buffer_pool_pages_dirty"])


def window(
    bench: Bench,
    raised: Topology,
    load: Split,
    window_s: int,
    followed: Mapping[str, Server],
    run: Run | None = None,
    schema: str = heartbeat.SCHEMA,
) -> dict[str, float]:
    """Load all servers for some seconds under their limits, from rest, and return METRICS.

    Parameters
    ----------
    followed : the replicas that are looked at, by name; with none there is no lag
    run : what reaches the servers; without it the source has reads and writes
    schema : of the heartbeat
    """
    rest(bench, raised)
    run = run or partial(split_load.run, raised.source, raised.addresses(raised.source_name))
    beating = Heartbeat(raised.source, followed, CATCH_UP_S, schema)
    limited = bench.limited_nodes(raised.shape)
    with limited, bench.clock.stage("measured passes"), beating:
        done = run(load, window_s)
        behind = raised.transactions_behind()
    note(bench, load, done)
    rates = rates_of(done)
    if not followed:
        return rates
    beats = {name: beating.beats(name) for name in followed}
    within = {"write_share": load.write_share}
    for name, shown in beats.items():
        noted = [beat._asdict() for beat in shown]
        bench.note_row("beats", {"replica": name, "within": within, "window_s": window_s,
                                 "stopped_s": beating.stopped_s, "behind": behind[name],
                                 "beats": noted})  # fmt: skip
    return {
        **rates,
        **_farthest([heartbeat.lag(shown, window_s) for shown in beats.values()]),
        "transactions_behind": max(behind.values()),
        "catch_up_s": max(beating.catch_up_s.values()),
    }


def _farthest(lags: Sequence[heartbeat.Lag]) -> dict[str, float]:
    return {
        "lag_s": max(lag.late_s for lag in lags),
        "lag_growth": max(lag.growth for lag in lags),
    }


def rates_of(done: LoadResult) -> dict[str, float]:
    """Return the statements a second of a run: of both kinds, and of each.

    An event is one statement; sysbench's own count of reads has those by which its threads ask
    servers for their names.
    """
    result = done.result
    return _rates(result.transactions, result.writes, result.seconds)


def _rates(statements: int, writes: int, seconds: float) -> dict[str, float]:
    return {
        "statements_per_s": statements / seconds,
        "reads_per_s": (statements - writes) / seconds,
        "writes_per_s": writes / seconds,
    }


def evidence(record: Record) -> Iterator[Bound]:
    """Yield the bounds of METRICS in all windows of a run, by sysbench's counts and the beats."""
    rates: dict[float, Counter[str]] = defaultdict(Counter)
    followed: dict[float, list[dict[str, Any]]] = defaultdict(list)
    for row in record.noted("loads"):
        of_source = _rates(row["statements"], row["writes"], row["seconds"])
        rates[row["within"]["write_share"]].update(of_source)
    for row in record.noted("beats"):
        followed[row["within"]["write_share"]].append(row)
    for share, whole in rates.items():
        within = {"write_share": share}
        yield from all_exactly(within, dict(whole))
        if share in followed:
            yield from _of_beats(within, followed[share])


def _of_beats(within: dict[str, float], replicas: list[dict[str, Any]]) -> Iterator[Bound]:
    beats = [[Beat(**beat) for beat in row["beats"]] for row in replicas]
    both = list(zip(beats, replicas, strict=True))
    lags = [heartbeat.lag(shown, row["window_s"]) for shown, row in both]
    yield from all_exactly(within, _farthest(lags))
    if all("stopped_s" in row for row in replicas):
        late_s = [
            max(0.0, shown[-1].at_s + shown[-1].lag_s - row["stopped_s"]) for shown, row in both
        ]
        # The last beat is sent before they stop, at most as long as it takes to commit one.
        slowest_s = max(shown[-1].lag_s for shown in beats)
        yield Bound(within, "catch_up_s", max(late_s) - _ROUNDED_S, max(late_s) + _ROUNDED_S)
        yield Bound(within, "catch_up_s", -math.inf, slowest_s + _ROUNDED_S)
        yield exactly(within, "transactions_behind", max(row["behind"] for row in replicas))


METRICS = metrics(
    {
        "statements_per_s": "1/s",
        "reads_per_s": "1/s",
        "writes_per_s": "1/s",
        "lag_s": "s",
        "lag_growth": "s per s",
        "transactions_behind": "transactions",
        "catch_up_s": "s",
    },
    evidence,
)


def note(bench: Bench, load: Split, done: LoadResult, where: str = "") -> None:
    """Record what sysbench itself said of a window."""
    bench.note_row(
        "loads",
        {
            "label": f"{load.write_share:.0%} writes{where}",
            "within": {"write_share": load.write_share},
            "connections": load.threads,
            "seconds": done.result.seconds,
            "statements": done.result.transactions,
            "writes": done.result.writes,
            "errors": done.result.errors,
            "reconnects": done.result.reconnects,
            "cpu_share": round(done.cpu_s / done.result.seconds / bench.site.host.cores, 4),
        },
    )
