"""Reads spread over replicas, and two sources instead of one: what does each node add?"""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from innolab.bench.trial import Bench
from innolab.mysql.topology import Shape, star
from innolab.record.run import Observation
from innolab.studies.parameters import ByEffort
from innolab.studies.replication import proxied, replicated_windows, split_load
from innolab.studies.study import Arm

# Statements that write, of all: the seeds' sentences are about the two ends.
WRITE_SHARES = {"read-only": 0.0, "9:1": 0.1, "1:1": 0.5, "write-only": 1.0}
MEASURED = ByEffort([0.0, 1.0], [0.0, 0.5, 1.0], list(WRITE_SHARES.values()))
SETTLE_S, WINDOW_S = ByEffort(1, 1, 3), ByEffort(3, 3, 10)
PROXIED = "proxied"


def spread(bench: Bench, arm: Arm, asked: dict[str, Any]) -> Iterator[Observation]:
    """Measure each mix of reads and writes on a source with some replicas.

    The load knows all servers, or a proxy in front of them.
    """
    has_proxy = arm.system == PROXIED
    shape = star(arm.replicas, [proxied.CLIENT] if has_proxy else [])
    with bench.topology(shape, asked) as (raised, network), contextlib.ExitStack() as stack:
        load = replicated_windows.warmed(bench, raised)
        run: replicated_windows.Run = partial(
            split_load.run, raised.source, raised.addresses(*shape.servers)
        )
        if has_proxy:
            run = stack.enter_context(proxied.entrance(bench, raised, network))
        for share in MEASURED.of(bench.parameters):
            mix = replace(load, write_share=share)
            with bench.clock.stage("warm-up"), bench.limited_nodes(shape):
                run(mix, SETTLE_S.of(bench.parameters))
            followed = raised.replicas if share else {}
            window_s = WINDOW_S.of(bench.parameters)
            found = replicated_windows.window(bench, raised, mix.next(), window_s, followed, run)
            yield {"write_share": share, **found}


def divided(bench: Bench, arm: Arm, asked: dict[str, Any]) -> Iterator[Observation]:
    """Let two services write at once, each to a source of its own."""
    shape = Shape(("shop", "forum"))
    with bench.topology(shape, asked) as (raised, _):
        whole = replicated_windows.warmed(bench, raised)
        load = replace(whole, threads=whole.threads // 2, write_share=1.0)
        apart = {raised.nodes[name].address: one for name, one in raised.servers.items()}
        with bench.clock.stage("warm-up"), bench.limited_nodes(shape):
            split_load.run_apart(apart, load, SETTLE_S.of(bench.parameters))
        replicated_windows.rest(bench, raised)
        with bench.limited_nodes(shape), bench.clock.stage("measured passes"):
            found = split_load.run_apart(apart, load.next(), WINDOW_S.of(bench.parameters))
        for name, done in zip(raised.servers, found, strict=True):
            replicated_windows.note(bench, load, done, f" on {name}")
        rates = [replicated_windows.rates_of(done) for done in found]
        yield {"write_share": 1.0, **{name: sum(one[name] for one in rates) for name in rates[0]}}
