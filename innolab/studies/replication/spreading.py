"""Reads spread over replicas, and two sources instead of one: what does each node add?"""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from innolab.base.errors import InnolabError
from innolab.bench.sysbench import LoadResult
from innolab.bench.trial import Bench
from innolab.hosts.network import Network
from innolab.mysql import replication
from innolab.mysql.topology import Shape, Topology, star
from innolab.record.run import Observation
from innolab.studies.parameters import ByEffort
from innolab.studies.replication import daemons, split_load, windows
from innolab.studies.replication.daemons import Proxy
from innolab.studies.replication.split_load import Split
from innolab.studies.study import Arm

# Statements that write, of all: the seeds' sentences are about the two ends.
WRITE_SHARES = {"read-only": 0.0, "9:1": 0.1, "1:1": 0.5, "write-only": 1.0}
MEASURED = ByEffort([0.0, 1.0], [0.0, 0.5, 1.0], list(WRITE_SHARES.values()))
SETTLE_S, WINDOW_S = ByEffort(1, 1, 3), ByEffort(3, 3, 10)
PROXIED = "proxied"
# The node of the load and of its proxy.
_CLIENT = "clients"


def spread(bench: Bench, arm: Arm, asked: dict[str, Any]) -> Iterator[Observation]:
    """Measure each mix of reads and writes on a source with some replicas.

    The load knows all servers, or a proxy in front of them.
    """
    has_proxy = arm.system == PROXIED
    shape = star(arm.replicas, [_CLIENT] if has_proxy else [])
    with bench.topology(shape, asked) as (raised, network), contextlib.ExitStack() as stack:
        load = windows.warmed(bench, raised)
        run: windows.Run = partial(split_load.run, raised.source, raised.addresses(*shape.servers))
        if has_proxy:
            run = stack.enter_context(_proxied(bench, raised, network))
        for share in MEASURED.of(bench.parameters):
            mix = replace(load, write_share=share)
            with bench.clock.stage("warm-up"), bench.limited_nodes(shape):
                run(mix, SETTLE_S.of(bench.parameters))
            followed = raised.replicas if share else {}
            window_s = WINDOW_S.of(bench.parameters)
            window = windows.window(bench, raised, mix.next(), window_s, followed, run)
            yield {"write_share": share, **window}


@contextlib.contextmanager
def _proxied(bench: Bench, raised: Topology, network: Network) -> Iterator[windows.Run]:
    """Start a proxy in front of a topology that admits loads, and yield what runs them.

    The proxy chooses the replica of each reading connection. Every run records the connections and
    bytes that each server got, by the proxy's own count.
    """
    at = {name: network.nodes[name].address for name in raised.servers}
    writes = {raised.source_name: at.pop(raised.source_name)}
    place = bench.own_place() / "haproxy"
    with Proxy(network.nodes[_CLIENT], writes, at, replication.PORT, place) as proxy:
        yield partial(_run_through, bench, raised, proxy)


def _run_through(
    bench: Bench, raised: Topology, proxy: Proxy, load: Split, duration_s: int
) -> LoadResult:
    """Prevent a proxy that leaves a replica out from passing for one that spreads reads."""
    before = proxy.carried()
    done = split_load.run_through(proxy, raised.source, len(raised.replicas), load, duration_s)
    traffic = daemons.since(proxy.carried(), before)
    carried = {door: {name: one._asdict() for name, one in servers.items()}
               for door, servers in traffic.items()}  # fmt: skip
    within = {"write_share": load.write_share}
    bench.note_row("proxied", {"within": within, "seconds": done.result.seconds, **carried})
    idle = [name for name, one in traffic["reads"].items() if not one.connections]
    if idle and load.threads >= len(traffic["reads"]):
        raise InnolabError(f"HAProxy gave no connection to {', '.join(idle)}.")
    return done


def divided(bench: Bench, arm: Arm, asked: dict[str, Any]) -> Iterator[Observation]:
    """Let two services write at once, each to its own source."""
    shape = Shape(("shop", "forum"))
    with bench.topology(shape, asked) as (raised, _):
        whole = windows.warmed(bench, raised)
        load = replace(whole, threads=whole.threads // 2, write_share=1.0)
        sources = {raised.nodes[name].address: one for name, one in raised.servers.items()}
        with bench.clock.stage("warm-up"), bench.limited_nodes(shape):
            split_load.run_apart(sources, load, SETTLE_S.of(bench.parameters))
        windows.rest(bench, raised)
        with bench.limited_nodes(shape), bench.clock.stage("measured passes"):
            results = split_load.run_apart(sources, load.next(), WINDOW_S.of(bench.parameters))
        for name, done in zip(raised.servers, results, strict=True):
            windows.note(bench, load, done, f" on {name}")
        rates = [windows.rates_of(done) for done in results]
        yield {"write_share": 1.0, **{name: sum(one[name] for one in rates) for name in rates[0]}}
