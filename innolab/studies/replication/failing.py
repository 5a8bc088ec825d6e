"""A source that fails while clients write: what was acknowledged, and what of it is lost?

One fault a trial, since every fault needs servers that were sound before it.
"""

import time
from collections.abc import Iterator
from typing import Any

from innolab.bench.trial import Bench
from innolab.hosts.local import HERE
from innolab.mysql.topology import star
from innolab.record.run import Observation
from innolab.studies.parameters import ByEffort
from innolab.studies.replication import failover_bench, witness
from innolab.studies.replication.faults import FAULTS
from innolab.studies.study import Arm

REPLICAS = 2
BEFORE_S, AFTER_S = ByEffort(2, 4, 6), ByEffort(1, 2, 3)
# Until all have heard that the old source is back.
_SETTLED_S = 2.0


def trial(bench: Bench, arm: Arm, asked: dict[str, Any]) -> Iterator[Observation]:
    """Break the source while clients write; when a replica has taken over, let it come back."""
    fault, shape = FAULTS[arm.fault], star(REPLICAS, [failover_bench.CLIENT])
    with failover_bench.raised(bench, shape, asked, arm.moved_by) as (raised, network, guard):
        with bench.clock.stage("measured passes"), failover_bench.clients(bench, network) as seen:
            rate = seen.rate(BEFORE_S.of(bench.parameters))
            fault.break_(raised, network)
            broken_s = time.monotonic()
            new = guard.move(reaches_old=fault.reaches_old)
            time.sleep(AFTER_S.of(bench.parameters))
            fault.mend(raised, network)
            time.sleep(_SETTLED_S)
            left = guard.left(new)
        yield {"commits_per_s": rate, **failover_bench.outcome(bench, raised, seen, left, broken_s)}


def power(bench: Bench, _arm: Arm, asked: dict[str, Any]) -> Iterator[Observation]:
    """Cut the power of a source without replicas, and count what is there when it is back."""
    disk, shape = bench.site.disk, star(0, [failover_bench.CLIENT])
    assert disk is not None, "the study has no such arm on the host's own disk"
    with bench.topology(shape, asked) as (raised, network):
        source, name = raised.source, raised.source_name
        bench.note_error_logs([source])
        with bench.clock.stage("warm-up"):
            failover_bench.prepare(raised)
            # The copy of the data itself is no part of what may be lost.
            HERE.must(["sync", "--file-system", disk.data], what="Syncing the emulated disk")
        writing = failover_bench.clients(bench, network, network.nodes[name].address)
        with bench.clock.stage("measured passes"), writing as seen:
            with bench.limited_nodes(shape):
                rate = seen.rate(BEFORE_S.of(bench.parameters))
                broken_s = failover_bench.cut_power(source, disk)
            disk.mount_again()
            source.start()
            time.sleep(AFTER_S.of(bench.parameters))
        fates = failover_bench.fates(bench, raised, seen, (name, name), broken_s)
        yield {"commits_per_s": rate, **fates}


def schema_change(bench: Bench, _arm: Arm, asked: dict[str, Any]) -> Iterator[Observation]:
    """Change a table on the replicas while clients write, then make one of them the source."""
    shape = star(REPLICAS, [failover_bench.CLIENT])
    with failover_bench.raised(bench, shape, asked, "hand") as (raised, network, guard):
        with bench.clock.stage("measured passes"), failover_bench.clients(bench, network) as seen:
            rate = seen.rate(BEFORE_S.of(bench.parameters))
            for replica in raised.replicas.values():
                witness.widen(replica)
            raised.source.query("SET GLOBAL read_only = ON")
            broken_s = time.monotonic()
            raised.require_equal(failover_bench.FOLLOW_WITHIN_S)
            new = guard.move(reaches_old=True)
            time.sleep(AFTER_S.of(bench.parameters))
        fates = failover_bench.fates(bench, raised, seen, (new, new), broken_s)
        yield {"commits_per_s": rate, **fates}
