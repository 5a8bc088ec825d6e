"""A source that fails while clients write: what was acknowledged, and what of it is lost?

One fault a trial, since every fault needs servers that were sound before it.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from innolab.analysis import acknowledged
from innolab.hosts.local import HERE
from innolab.hosts.network import VIRTUAL, Network
from innolab.loads import witness
from innolab.loads.trial import Bench
from innolab.mysql import failover, replication
from innolab.mysql.failover import Failover
from innolab.mysql.faults import FAULTS
from innolab.mysql.topology import Topology, star
from innolab.record.run import Observation
from innolab.studies.parameters import ByEffort
from innolab.studies.study import Arm

REPLICAS, WRITERS, CLIENT = 2, 8, "clients"
BEFORE_S, AFTER_S = ByEffort(2, 4, 6), ByEffort(1, 2, 3)
# Until all have heard that the old source is back.
_SETTLED_S, _FOLLOW_WITHIN_S = 2.0, 60.0


def trial(bench: Bench, arm: Arm, asked: dict[str, Any]) -> Iterator[Observation]:
    """Break the source while clients write; when a replica has taken over, let it come back."""
    log, fault = bench.place / "witness.log", FAULTS[arm.fault]
    with _guarded(bench, asked, by_hand=arm.moved_by == "hand") as (raised, network, guarded):
        with bench.clock.stage("measured passes"), _clients(network, VIRTUAL, log):
            rate = _rate(log, BEFORE_S.of(bench.parameters))
            fault.break_(raised, network)
            broken_s = time.monotonic()
            new = guarded.move(reaches_old=fault.reaches_old)
            time.sleep(AFTER_S.of(bench.parameters))
            fault.mend(raised, network)
            time.sleep(_SETTLED_S)
            writable, holders = guarded.writable(), guarded.holders()
        last = holders[0] if len(holders) == 1 else new
        bench.note("moved", {"first_to": new, "at_the_end": holders, "writable": writable})
        with bench.clock.stage("warm-up"):
            fates = _fates(bench, raised, (new, last), log, broken_s)
            equal = failover.equal(raised, last)
        others = [equal.same[name] for name in raised.replicas if name != last]
        found: Observation = {
            "commits_per_s": rate,
            "writable": len(writable),
            "holders": len(holders),
            **fates,
            "errant": max(equal.errant.values()),
            "others_equal": int(all(others)),
        }
        if last != raised.source_name:
            found["old_equal"] = int(equal.same[raised.source_name])
        yield found


def power(bench: Bench, _arm: Arm, asked: dict[str, Any]) -> Iterator[Observation]:
    """Cut the power of a source without replicas, and count what is there when it is back."""
    disk, log, shape = bench.site.disk, bench.place / "witness.log", star(0, [CLIENT])
    assert disk is not None, "the study has no such arm on the host's own disk"
    with bench.topology(shape, asked) as (raised, network):
        source, address = raised.source, network.nodes[raised.source_name].address
        bench.note_error_logs([source])
        with bench.clock.stage("warm-up"):
            _prepare(raised)
            # The copy of the data itself is no part of what may be lost.
            HERE.must(["sync", "--file-system", disk.data], what="Syncing the emulated disk")
        with bench.clock.stage("measured passes"), _clients(network, address, log):
            with bench.limited_nodes(shape):
                rate = _rate(log, BEFORE_S.of(bench.parameters))
                # Or it would answer while its disk is gone.
                os.kill(source.pid, signal.SIGSTOP)
                disk.lose_power()
                broken_s = time.monotonic()
                source.kill()
            disk.mount_again()
            source.start()
            time.sleep(AFTER_S.of(bench.parameters))
        fates = _fates(bench, raised, (raised.source_name,) * 2, log, broken_s)
        yield {"commits_per_s": rate, **fates}


def schema_change(bench: Bench, _arm: Arm, asked: dict[str, Any]) -> Iterator[Observation]:
    """Change a table on the replicas while clients write, then make one of them the source."""
    log = bench.place / "witness.log"
    with _guarded(bench, asked, by_hand=True) as (raised, network, guarded):
        with bench.clock.stage("measured passes"), _clients(network, VIRTUAL, log):
            rate = _rate(log, BEFORE_S.of(bench.parameters))
            for replica in raised.replicas.values():
                witness.widen(replica)
            raised.source.query("SET GLOBAL read_only = ON")
            broken_s = time.monotonic()
            raised.require_equal(_FOLLOW_WITHIN_S)
            new = guarded.move(reaches_old=True)
            time.sleep(AFTER_S.of(bench.parameters))
        fates = _fates(bench, raised, (new, new), log, broken_s)
        yield {"commits_per_s": rate, **fates}


@contextlib.contextmanager
def _guarded(
    bench: Bench, asked: dict[str, Any], *, by_hand: bool
) -> Iterator[tuple[Topology, Network, Failover]]:
    """Raise a source with replicas, found under an address that moves, and what clients write to.

    What error logs say from then on is part of the trial: replicas change their source.
    """
    with bench.topology(star(REPLICAS, [CLIENT]), asked) as (raised, network):
        bench.note_error_logs(list(raised.servers.values()))
        stack = contextlib.ExitStack()
        try:
            with bench.clock.stage("start/stop"):
                guarded = stack.enter_context(Failover(raised, bench.place, by_hand=by_hand))
            with bench.clock.stage("warm-up"):
                _prepare(raised)
                _require_semi_sync(raised, asked)
            yield raised, network, guarded
        finally:
            with bench.clock.stage("start/stop"):
                stack.close()


def _prepare(raised: Topology) -> None:
    witness.prepare(raised.source)
    raised.require_equal(_FOLLOW_WITHIN_S)


def _require_semi_sync(raised: Topology, asked: dict[str, Any]) -> None:
    """Prevent commits that wait for nobody from passing for such that wait for replicas."""
    on = "ON" in (asked[f"loose_rpl_semi_sync_{source}_enabled"] for source in ("source", "master"))
    expected = len(raised.replicas) if on else 0
    failover.await_that(
        lambda: replication.semi_sync_clients(raised.source) == expected,
        _FOLLOW_WITHIN_S,
        f"There were not {expected} replicas that the source's commits wait for",
    )


def _clients(network: Network, address: str, log: Path) -> witness.Witness:
    """Return a witness, to be entered, that writes to whoever has an address."""
    return witness.Witness(network.nodes[CLIENT], address, replication.PORT, log, WRITERS)


def _rate(log: Path, seconds: float) -> float:
    """Return the commits a second that clients get while nothing is broken."""
    failover.await_that(lambda: _acknowledged(log) > WRITERS, 20, "No client could write")
    began, before = time.monotonic(), _acknowledged(log)
    time.sleep(seconds)
    return (_acknowledged(log) - before) / (time.monotonic() - began)


def _acknowledged(log: Path) -> int:
    return sum(one.end == "ok" for one in acknowledged.read(log)) if log.exists() else 0


def _fates(
    bench: Bench, raised: Topology, sources: tuple[str, str], log: Path, broken_s: float
) -> dict[str, float]:
    """Return what became of commits: of those before the fault at the server that took over.

    And of those after it at the one that clients end with: where two took writes, the work of one
    is gone.

    Parameters
    ----------
    sources : who took over, and who has the address in the end
    broken_s : when the source was broken, by the clock of the witness
    """
    history = acknowledged.read(log)
    before, after = acknowledged.split(history, broken_s)
    first, last = (witness.present(raised.servers[name]) for name in sources)
    whole = acknowledged.fate(history, last)
    lost, later = acknowledged.fate(before, first).lost, acknowledged.fate(after, last).lost
    unknown = sum(one.end == "unknown" for one in history)
    bench.note("fate", {"first_lost": lost[:5], "first_lost_after": later[:5], "unknown": unknown})
    return {
        "acknowledged": sum(one.end == "ok" for one in before),
        "lost": len(lost),
        "lost_after": len(later),
        "unknown_present": whole.unknown_present,
        "refused_present": len(whole.failed_present),
        "gap_s": whole.gap_s,
    }
