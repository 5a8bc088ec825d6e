"""A load whose reads go to replicas and whose writes go to their source."""

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from innolab.bench import sysbench
from innolab.bench.sysbench import LoadResult
from innolab.mysql import replication
from innolab.mysql.server import Server
from innolab.studies.replication import daemons
from innolab.studies.replication.daemons import Proxy

_SCRIPT = Path(__file__).with_name("split.lua")
# Of a load, which comes over the network.
USER = "innolab_load"


@dataclass(frozen=True)
class Split:
    """What is asked of a source and its replicas.

    Attributes
    ----------
    rows : the size of the one table
    threads : of the load; each waits for the end of its statement before it sends the next
    write_share : the share of the statements that write
    """

    rows: int
    threads: int
    write_share: float
    seed: int

    def next(self) -> "Split":
        """Return the same load with the seed of its next run, which draws other ids."""
        return replace(self, seed=self.seed + 1)


def admit(servers: Collection[Server]) -> None:
    """Let loads come to servers."""
    for server in servers:
        replication.admit(server, USER, "SELECT, UPDATE")


def run(source: Server, addresses: Sequence[str], load: Split, duration_s: int) -> LoadResult:
    """Run a load for some seconds on the source's node and return what it gave.

    Parameters
    ----------
    addresses : of the source and of the servers that read besides it, which all admit USER

    Raises
    ------
    InnolabError
        If sysbench or the source dies, or refuses a connection; quotes the one that did.
    """
    host = source.host
    script = sysbench.copied(host, source.folder, _SCRIPT)
    words = sysbench.command_to_ports(
        host, script, addresses, [replication.PORT], USER, load.threads, load.seed
    )
    return sysbench.load(
        source, [*words, *_asked(load, len(addresses) - 1, duration_s)], duration_s
    )


def run_apart(sources: Mapping[str, Server], load: Split, duration_s: int) -> list[LoadResult]:
    """Run a load on each of some sources at once, by address; return what each gave, as `run`."""
    with ThreadPoolExecutor() as pool:
        runs = [
            pool.submit(run, source, [address], load, duration_s)
            for address, source in sources.items()
        ]
        return [one.result() for one in runs]


def run_through(
    proxy: Proxy, source: Server, replicas: int, load: Split, duration_s: int
) -> LoadResult:
    """Run a load through a proxy, on the proxy's node; which replica reads go to is its choice.

    Raises
    ------
    InnolabError
        As `run`.
    """
    script = sysbench.copied(proxy.node, proxy.folder, _SCRIPT)
    ports = [daemons.WRITES, daemons.READS]
    words = sysbench.command_to_ports(
        proxy.node, script, [daemons.LOOPBACK], ports, USER, load.threads, load.seed
    )
    asked = ["--any_replica=on", *_asked(load, replicas, duration_s)]
    return sysbench.load(source, [*words, *asked], duration_s, proxy.node)


def _asked(load: Split, replicas: int, duration_s: int) -> list[str]:
    return [
        f"--table_size={load.rows}",
        f"--replicas={replicas}",
        f"--write_share={load.write_share}",
        *sysbench.timed(duration_s),
    ]
