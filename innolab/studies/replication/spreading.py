"""Reads spread over replicas, and two sources instead of one: what does each node add?"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from innolab.loads import heartbeat, oltp, replicated, split
from innolab.loads.split import Split
from innolab.loads.sysbench import Load
from innolab.loads.trial import Bench
from innolab.mysql.topology import Shape, Topology, star
from innolab.record.run import Observation
from innolab.studies.parameters import ByEffort
from innolab.studies.study import Arm

# Statements that write, of all: the seeds' sentences are about the two ends.
WRITE_SHARES = {"read-only": 0.0, "9:1": 0.1, "1:1": 0.5, "write-only": 1.0}
MEASURED = ByEffort([0.0, 1.0], [0.0, 0.5, 1.0], list(WRITE_SHARES.values()))
SETTLE_S, WINDOW_S = ByEffort(1, 1, 3), ByEffort(3, 3, 10)


def spread(bench: Bench, arm: Arm, asked: dict[str, Any]) -> Iterator[Observation]:
    """Measure each mix of reads and writes on a source with some replicas."""
    shape = star(arm.replicas)
    with bench.topology(shape, asked) as (raised, _):
        load = warmed(bench, raised)
        replicas = list(raised.replicas.values())
        with bench.limited_nodes(shape):
            for share in MEASURED.of(bench.parameters):
                mix = replace(load, write_share=share)
                with bench.clock.stage("warm-up"):
                    split.run(raised.source, replicas, mix, SETTLE_S.of(bench.parameters))
                followed = raised.replicas if share else {}
                window_s = WINDOW_S.of(bench.parameters)
                found = replicated.window(bench, raised, mix.next(), window_s, followed, replicas)
                yield {"write_share": share, **found}


def divided(bench: Bench, arm: Arm, asked: dict[str, Any]) -> Iterator[Observation]:
    """Let two services write at once, each to a source of its own."""
    shape = Shape(("shop", "forum"))
    with bench.topology(shape, asked) as (raised, _):
        whole = warmed(bench, raised)
        load = replace(whole, threads=whole.threads // 2, write_share=1.0)
        with bench.limited_nodes(shape), bench.clock.stage("measured passes"):
            _both(raised, load, SETTLE_S.of(bench.parameters))
            found = _both(raised, load.next(), WINDOW_S.of(bench.parameters))
        for name, done in zip(raised.servers, found, strict=True):
            replicated.note(bench, load, done, f" on {name}")
        rates = [replicated.rates_of(done) for done in found]
        yield {"write_share": 1.0, **{name: sum(one[name] for one in rates) for name in rates[0]}}


def _both(raised: Topology, load: Split, duration_s: int) -> list[Load]:
    with ThreadPoolExecutor() as pool:
        runs = [pool.submit(split.run, server, [], load, duration_s)
                for server in raised.servers.values()]  # fmt: skip
        return [run.result() for run in runs]


def warmed(bench: Bench, raised: Topology, schema: str = heartbeat.SCHEMA) -> Split:
    """Fill all pools, make what the heartbeat writes to, and return the load without writes."""
    with bench.clock.stage("warm-up"):
        heartbeat.prepare(raised.source, schema)
        raised.require_equal(replicated.CATCH_UP_S)
        for server in raised.servers.values():
            oltp.fill(server, "read_only")
    return Split(bench.dataset_facts["rows"], bench.parameters.threads, 0.0, bench.seed)
