"""A source with replicas behind a proxy, which chooses the replica of each reading connection."""

import contextlib
from collections.abc import Iterator

from innolab.base.errors import InnolabError
from innolab.bench.sysbench import LoadResult
from innolab.bench.trial import Bench
from innolab.hosts.network import Network
from innolab.mysql import replication
from innolab.mysql.topology import Topology
from innolab.studies.replication import haproxy, split_load
from innolab.studies.replication.haproxy import Proxy
from innolab.studies.replication.replicated_windows import Run
from innolab.studies.replication.split_load import Split

# The node of the load and of its proxy.
CLIENT = "clients"


@contextlib.contextmanager
def entrance(bench: Bench, raised: Topology, network: Network) -> Iterator[Run]:
    """Start a proxy in front of a topology that admits loads, and yield what runs them.

    Every run records the connections and bytes that each server got, by the proxy's own count.
    """
    at = {name: network.nodes[name].address for name in raised.servers}
    writes = {raised.source_name: at.pop(raised.source_name)}
    place = bench.own_place() / "haproxy"
    with Proxy(network.nodes[CLIENT], writes, at, replication.PORT, place) as proxy:
        yield lambda load, duration_s: _run(bench, raised, proxy, load, duration_s)


def _run(bench: Bench, raised: Topology, proxy: Proxy, load: Split, duration_s: int) -> LoadResult:
    """Run a load for some seconds.

    Raises
    ------
    InnolabError
        Prevents a proxy that leaves a replica out from passing for one that spreads reads.
    """
    before = proxy.carried()
    done = split_load.run_through(proxy, raised.source, len(raised.replicas), load, duration_s)
    found = haproxy.since(proxy.carried(), before)
    carried = {door: {name: of._asdict() for name, of in servers.items()}
               for door, servers in found.items()}  # fmt: skip
    within = {"write_share": load.write_share}
    bench.note_row("proxied", {"within": within, "seconds": done.result.seconds, **carried})
    idle = [name for name, of in found["reads"].items() if not of.connections]
    if idle and load.threads >= len(found["reads"]):
        raise InnolabError(f"HAProxy gave no connection to {', '.join(idle)}.")
    return done
