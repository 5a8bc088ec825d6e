"""A source on a bench, found under an address that moves, and what clients of it come to know."""

import contextlib
import math
import time
from collections.abc import Iterator

from innolab.analysis import acknowledged
from innolab.analysis.bounds import Bound, Record, all_exactly, exactly, metrics
from innolab.base.waiting import await_that
from innolab.bench.trial import Bench
from innolab.hosts.network import VIRTUAL, Network
from innolab.mysql import replication
from innolab.mysql.server import Server, Settings
from innolab.mysql.topology import Shape, Topology
from innolab.storage.emulated import EmulatedDisk
from innolab.studies.replication import failover, witness
from innolab.studies.replication.failover import Failover, Left, MovedBy
from innolab.studies.replication.witness import Witness

# The node that clients write from.
CLIENT = "clients"
WRITERS = 8
# Until replicas have what clients wrote before a fault, and wait for commits.
FOLLOW_WITHIN_S = 60.0
Guarded = tuple[Topology, Network, Failover]


@contextlib.contextmanager
def raised(bench: Bench, shape: Shape, asked: Settings, moved_by: MovedBy) -> Iterator[Guarded]:
    """Raise servers of which the source is found under an address that moves.

    What error logs say from then on is part of the trial: replicas change their source.

    Parameters
    ----------
    shape : with a node named CLIENT
    asked : server variables of all; commits wait for replicas as these say, or it is an error
    """
    with bench.topology(shape, asked) as (topology, network):
        bench.note_error_logs(list(topology.servers.values()))
        stack = contextlib.ExitStack()
        try:
            with bench.clock.stage("warm-up"):
                # Before all else: MHA takes servers without any transaction for such without ids.
                prepare(topology)
            with bench.clock.stage("start/stop"):
                guard = stack.enter_context(Failover(topology, bench.place, moved_by))
            with bench.clock.stage("warm-up"):
                topology.require_equal(FOLLOW_WITHIN_S)
                _require_semi_sync(topology, asked)
            yield topology, network, guard
        finally:
            with bench.clock.stage("start/stop"):
                stack.close()


def prepare(topology: Topology) -> None:
    """Make what clients write to, on all servers."""
    witness.prepare(topology.source)
    topology.require_equal(FOLLOW_WITHIN_S)


def _require_semi_sync(topology: Topology, asked: Settings) -> None:
    """Prevent commits that wait for nobody from passing for such that wait for replicas."""
    on = "ON" in (asked[f"loose_rpl_semi_sync_{source}_enabled"] for source in ("source", "master"))
    expected = len(topology.replicas) if on else 0
    await_that(
        lambda: replication.semi_sync_clients(topology.source) == expected,
        FOLLOW_WITHIN_S,
        f"There were not {expected} replicas that the source's commits wait for",
    )


def clients(bench: Bench, network: Network, address: str = VIRTUAL) -> Witness:
    """Return a witness, to be entered, that writes to whoever has an address."""
    log = bench.own_place() / "witness.log"
    return Witness(network.nodes[CLIENT], address, replication.PORT, log, WRITERS)


def cut_power(source: Server, disk: EmulatedDisk) -> float:
    """Cut the power of a server and its disk, and return when, by the clock of the witness."""
    # Or it would answer while its disk is gone.
    source.signal("STOP")
    disk.lose_power()
    moment_s = time.monotonic()
    source.kill()
    return moment_s


def outcome(
    bench: Bench, topology: Topology, seen: Witness, left: Left, broken_s: float
) -> dict[str, float]:
    """Return what became of commits and servers, as METRICS; records what they follow from.

    Parameters
    ----------
    broken_s : when the source was broken, by the clock of the witness
    """
    with bench.clock.stage("warm-up"):
        found = fates(bench, topology, seen, (left.first, left.last), broken_s)
        moved = {**left.facts(), **failover.aftermath(topology, left)._asdict()}
    bench.note("moved", moved)
    return found | failover.outcome(moved, topology.source_name)


def fates(
    bench: Bench, topology: Topology, seen: Witness, sources: tuple[str, str], broken_s: float
) -> dict[str, float]:
    """Return what became of commits, as METRICS; records what they follow from.

    Parameters
    ----------
    sources : the names of who took over, and of who has the address in the end
    broken_s : when the source was broken, by the clock of the witness
    """
    first, last = (witness.present(topology.servers[name]) for name in sources)
    history = seen.history()
    found = acknowledged.parted(history, broken_s, first, last)
    bench.note("fate", found.facts())
    bench.note("witness", {"rate": seen.rated, **acknowledged.pace(history, broken_s)})
    return found.metrics()


def _of_witness(record: Record) -> Iterator[Bound]:
    """Yield the bounds of commits, by when the witness saw each acknowledged."""
    if (noted := record.run.conditions.get("witness")) is None:
        return
    rate = noted["rate"]
    yield exactly({}, "commits_per_s", rate["commits"] / rate["seconds"])
    from_s = rate["from_s"] - noted["broken_s"]
    within = acknowledged.between(noted["per_bin"], from_s, from_s + rate["seconds"])
    yield Bound({}, "commits_per_s", *(count / rate["seconds"] for count in within))
    before, _ = acknowledged.between(noted["per_bin"], -math.inf, 0.0)
    yield Bound({}, "acknowledged", before, before + WRITERS)
    yield exactly({}, "gap_s", noted["gap_to_s"] - noted["gap_from_s"])
    low, high = acknowledged.longest_gap(noted["per_bin"])
    yield Bound({}, "gap_s", low, high)


def _of_fate(record: Record) -> Iterator[Bound]:
    """Yield the bounds of lost commits, by those of each of the witness's writers."""
    fate = record.run.conditions.get("fate", {})
    for metric in acknowledged.COUNTED:
        if metric in fate:
            yield exactly({}, metric, sum(fate[metric].values()))


def _of_move(record: Record) -> Iterator[Bound]:
    """Yield the bounds of what a move came to, by what became of each server."""
    moved = record.run.conditions.get("moved")
    if moved is not None:
        yield exactly({}, "writable", len(moved["writable"]))
        yield exactly({}, "holders", len(moved["at_the_end"]))
    if moved is not None and "equal" in moved:
        source = record.run.conditions["topology"]["servers"][0]
        yield from all_exactly({}, failover.outcome(moved, source))


METRICS = {
    **metrics({"commits_per_s": "1/s", "acknowledged": "commits"}, _of_witness),
    **metrics(dict.fromkeys(acknowledged.COUNTED, "commits"), _of_fate),
    **metrics({"gap_s": "s"}, _of_witness),
    **metrics(
        {
            "writable": "servers",
            "holders": "servers",
            "errant": "transactions",
            "others_equal": "share of the faults after which the others are equal",
            "old_equal": "share of the faults after which the old source can follow",
        },
        _of_move,
    ),
}
