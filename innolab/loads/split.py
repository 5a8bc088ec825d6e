"""A load whose reads go to replicas and whose writes go to their source."""

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from innolab.hosts import haproxy
from innolab.hosts.haproxy import Proxy
from innolab.loads import sysbench
from innolab.loads.sysbench import Load
from innolab.mysql.server import Server

_SCRIPT = Path(__file__).with_name("split.lua")
# Of a load that comes over the network, to which each server has to admit it.
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


def run(source: Server, replicas: Sequence[Server], load: Split, duration_s: int) -> Load:
    """Run a load for some seconds and return what it gave.

    Raises
    ------
    InnolabError
        Where sysbench or the source dies, or refuses a connection; quotes the one that did.
    """
    script = sysbench.copied(source, _SCRIPT)
    words = sysbench.command([source, *replicas], script, load.threads, load.seed)
    return sysbench.load(source, [*words, *_asked(load, len(replicas), duration_s)], duration_s)


def run_apart(sources: Collection[Server], load: Split, duration_s: int) -> list[Load]:
    """Run a load on each of some sources at once, and return what each gave; raises as `run`."""
    with ThreadPoolExecutor() as pool:
        runs = [pool.submit(run, source, [], load, duration_s) for source in sources]
        return [one.result() for one in runs]


def run_through(proxy: Proxy, source: Server, replicas: int, load: Split, duration_s: int) -> Load:
    """Run a load through a proxy, on the proxy's node; which replica reads go to is its choice.

    Raises
    ------
    InnolabError
        As `run`.
    """
    script, ports = sysbench.copied(source, _SCRIPT), [haproxy.WRITES, haproxy.READS]
    words = sysbench.command_to_ports(
        proxy.node, script, haproxy.ADDRESS, ports, USER, load.threads, load.seed
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
