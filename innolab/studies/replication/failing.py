"""A source that fails while clients write: what was acknowledged, and what of it is lost?

One fault per trial, since every fault needs servers that were sound before it.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from innolab.base.waiting import await_that
from innolab.bench.trial import Bench
from innolab.hosts.local import HERE
from innolab.hosts.network import VIRTUAL, Link, Network
from innolab.mysql import replication
from innolab.mysql.server import Server, Settings
from innolab.mysql.topology import Shape, Topology, star
from innolab.record.run import Observation
from innolab.storage.emulated import EmulatedDisk
from innolab.studies.parameters import ByEffort
from innolab.studies.replication import aftermath, witness
from innolab.studies.replication.failover import Failover, MovedBy
from innolab.studies.replication.witness import WRITERS, Witness
from innolab.studies.study import Arm

REPLICAS = 2
# The node that clients write from.
CLIENT = "clients"
BEFORE_S, AFTER_S = ByEffort(2, 4, 6), ByEffort(1, 2, 3)
# Until all have heard that the old source is back.
_SETTLED_S = 2.0
# Until replicas have what clients wrote before a fault, and wait for commits.
_FOLLOW_WITHIN_S = 60.0
# Holds back what is committed: eight connections write some ten times as much.
_SLOW, _SLOW_S = Link(bits_per_s=200_000), 4.0

Change = Callable[[Topology, Network], None]


def _kill(raised: Topology, _network: Network) -> None:
    raised.source.kill()


def _start(raised: Topology, _network: Network) -> None:
    raised.source.start()


def _signal(name: str) -> Change:
    return lambda raised, _network: raised.source.signal(name)


def _slow_and_kill(raised: Topology, network: Network) -> None:
    for name in raised.replicas:
        network.shape(name, _SLOW)
    time.sleep(_SLOW_S)
    raised.source.kill()


def _start_and_free(raised: Topology, network: Network) -> None:
    raised.source.start()
    for name in raised.replicas:
        network.shape(name, Link())


class Fault(NamedTuple):
    """What is done to the source of a topology, what undoes it, and whether its node is reached."""

    inject: Change
    undo: Change
    reaches_old: bool = True


FAULTS = {
    "kill": Fault(_kill, _start),
    "stop": Fault(_signal("STOP"), _signal("CONT")),
    "cut": Fault(
        lambda raised, network: network.cut(raised.source_name),
        lambda raised, network: network.reconnect(raised.source_name),
        reaches_old=False,
    ),
    # Links to the replicas that are slow for a while, before the source is killed.
    "slow": Fault(_slow_and_kill, _start_and_free),
}


def trial(bench: Bench, arm: Arm, asked: dict[str, Any]) -> Iterator[Observation]:
    """Break the source while clients write; when a replica has taken over, let it come back."""
    fault = FAULTS[arm.fault]
    with _guarded(bench, asked, arm.moved_by) as (raised, network, guard):
        with bench.clock.stage("measured passes"), _clients(bench, network) as seen:
            rate = seen.rate(BEFORE_S.of(bench.parameters))
            fault.inject(raised, network)
            broken_s = time.monotonic()
            new = guard.move(reaches_old=fault.reaches_old)
            time.sleep(AFTER_S.of(bench.parameters))
            fault.undo(raised, network)
            time.sleep(_SETTLED_S)
            left = guard.left(new)
        yield {"commits_per_s": rate, **aftermath.outcome(bench, raised, seen, left, broken_s)}


def power(bench: Bench, _arm: Arm, asked: dict[str, Any]) -> Iterator[Observation]:
    """Cut the power of a source without replicas, and count what is there when it is back."""
    disk, shape = bench.site.disk, star(0, [CLIENT])
    assert disk is not None, "the study has no such arm on the host's own disk"
    with bench.topology(shape, asked) as (raised, network):
        source, name = raised.source, raised.source_name
        bench.note_error_logs([source])
        with bench.clock.stage("warm-up"):
            _prepare(raised)
            # The copy of the data itself is no part of what may be lost.
            HERE.must(["sync", "--file-system", disk.data], what="Syncing the emulated disk")
        writing = _clients(bench, network, network.nodes[name].address)
        with bench.clock.stage("measured passes"), writing as seen:
            with bench.limited_nodes(shape):
                rate = seen.rate(BEFORE_S.of(bench.parameters))
                broken_s = _cut_power(source, disk)
            disk.mount_again()
            source.start()
            time.sleep(AFTER_S.of(bench.parameters))
        fates = aftermath.fates(bench, raised, seen, (name, name), broken_s)
        yield {"commits_per_s": rate, **fates}


def _cut_power(source: Server, disk: EmulatedDisk) -> float:
    """Cut the power of a server and its disk, and return when, by the clock of the witness."""
    # Or it would answer while its disk is gone.
    source.signal("STOP")
    disk.lose_power()
    moment_s = time.monotonic()
    source.kill()
    return moment_s


def schema_change(bench: Bench, _arm: Arm, asked: dict[str, Any]) -> Iterator[Observation]:
    """Change a table on the replicas while clients write, then make one of them the source."""
    with _guarded(bench, asked, "hand") as (raised, network, guard):
        with bench.clock.stage("measured passes"), _clients(bench, network) as seen:
            rate = seen.rate(BEFORE_S.of(bench.parameters))
            for replica in raised.replicas.values():
                witness.widen(replica)
            raised.source.query("SET GLOBAL read_only = ON")
            broken_s = time.monotonic()
            raised.require_equal(_FOLLOW_WITHIN_S)
            new = guard.move(reaches_old=True)
            time.sleep(AFTER_S.of(bench.parameters))
        fates = aftermath.fates(bench, raised, seen, (new, new), broken_s)
        yield {"commits_per_s": rate, **fates}


@contextlib.contextmanager
def _guarded(
    bench: Bench, asked: Settings, moved_by: MovedBy
) -> Iterator[tuple[Topology, Network, Failover]]:
    """Raise servers of which the source is found under an address that moves.

    What error logs say from then on is part of the trial: replicas change their source.
    """
    shape: Shape = star(REPLICAS, [CLIENT])
    with bench.topology(shape, asked) as (topology, network):
        bench.note_error_logs(list(topology.servers.values()))
        stack = contextlib.ExitStack()
        try:
            with bench.clock.stage("warm-up"):
                # Before the rest: MHA takes servers without any transaction for such without ids.
                _prepare(topology)
            with bench.clock.stage("start/stop"):
                guard = stack.enter_context(Failover(topology, bench.place, moved_by))
            with bench.clock.stage("warm-up"):
                topology.require_equal(_FOLLOW_WITHIN_S)
                _require_semi_sync(topology, asked)
            yield topology, network, guard
        finally:
            with bench.clock.stage("start/stop"):
                stack.close()


def _prepare(topology: Topology) -> None:
    witness.prepare(topology.source)
    topology.require_equal(_FOLLOW_WITHIN_S)


def _require_semi_sync(topology: Topology, asked: Settings) -> None:
    """Prevent commits that wait for nobody from passing for such that wait for replicas."""
    on = "ON" in (asked[f"loose_rpl_semi_sync_{source}_enabled"] for source in ("source", "master"))
    expected = len(topology.replicas) if on else 0
    await_that(
        lambda: replication.semi_sync_clients(topology.source) == expected,
        _FOLLOW_WITHIN_S,
        f"There were not {expected} replicas that the source's commits wait for",
    )


def _clients(bench: Bench, network: Network, address: str = VIRTUAL) -> Witness:
    """Return a witness, to be entered, that writes to the holder of an address."""
    log = bench.own_place() / "witness.log"
    return Witness(network.nodes[CLIENT], address, replication.PORT, log, WRITERS)
