"""A topology: servers of one build on the nodes of one network, and who follows whom."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from innolab.base.errors import InnolabError
from innolab.hosts.network import Node
from innolab.mysql import replication
from innolab.mysql.builds import Build
from innolab.mysql.server import Server, Settings

# What a data directory calls its server: two of one name cannot replicate.
_IDENTITY = "auto.cnf"


@dataclass(frozen=True)
class Shape:
    """Who is there, and who follows whom.

    Attributes
    ----------
    servers : the names of nodes with a server, the first of which is the source
    follows : the name of the source of each that follows one; they need not be writable
    clients : the names of nodes without a server
    writable : the names of servers that take writes, besides those that follow nobody
    own : what single servers have in their settings besides what all have, by name
    """

    servers: tuple[str, ...]
    follows: Mapping[str, str] = field(default_factory=dict)
    clients: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    own: Mapping[str, Settings] = field(default_factory=dict)

    def takes_writes(self, name: str) -> bool:
        """Return whether clients may write to a server from the beginning."""
        return name not in self.follows or name in self.writable

    def facts(self) -> dict[str, Any]:
        """Return what a report says of it, JSON."""
        return {
            "servers": list(self.servers),
            "follows": dict(self.follows),
            "writable": [name for name in self.servers if self.takes_writes(name)],
        }


def star(replicas: int, clients: Sequence[str] = ()) -> Shape:
    """Return a source and a number of servers that follow it.

    >>> star(2).follows
    {'replica1': 'source', 'replica2': 'source'}
    """
    followers = tuple(f"replica{number}" for number in range(1, replicas + 1))
    return Shape(("source", *followers), dict.fromkeys(followers, "source"), tuple(clients))


def pyramid(shared: str) -> Shape:
    """Return a source of one database that all share, and below it a service with data of its own.

    `web` applies the shared database alone and takes the writes of its service; `leaf` follows it.
    """
    return Shape(
        ("top", "web", "leaf"),
        {"web": "top", "leaf": "web"},
        writable=("web",),
        own={"web": {"replicate_do_db": shared}},
    )


class Topology:
    """Servers that follow one another; a context manager that starts them and ends them.

    All begin with the same data, so nothing has to be copied over the network; each has a data
    directory of its own.

    Parameters
    ----------
    nodes : where the servers run, by name
    data : the data directory of each, by name
    folder : of settings, sockets and error logs, below it one for each node
    base : the host's my.cnf
    settings : server variables of all
    cgroups : the control group of each server, by name, which may limit its device
    with_semi_sync : whether the build has the plugins; asked of it if None

    Attributes
    ----------
    servers : by name
    source_name : of the one that takes writes; a promotion changes it
    """

    def __init__(
        self,
        build: Build,
        shape: Shape,
        nodes: Mapping[str, Node],
        data: Mapping[str, Path],
        folder: Path,
        base: Path,
        settings: Settings,
        cgroups: Mapping[str, Path | None] | None = None,
        *,
        with_semi_sync: bool | None = None,
    ) -> None:
        if with_semi_sync is None:
            with_semi_sync = replication.has_semi_sync(build)
        self.shape, self.nodes = shape, nodes
        self.source_name = shape.servers[0]
        self.servers: dict[str, Server] = {}
        for number, name in enumerate(shape.servers, 1):
            node = nodes[name]
            node.remove(data[name] / _IDENTITY)
            own = {
                **replication.settings(build, number, with_semi_sync=with_semi_sync),
                **settings,
                "read_only": "OFF" if shape.takes_writes(name) else "ON",
                **shape.own.get(name, {}),
            }
            group = (cgroups or {}).get(name)
            self.servers[name] = Server(build, data[name], folder / name, base, own, group, node)

    @property
    def source(self) -> Server:
        """Return the server that takes writes."""
        return self.servers[self.source_name]

    def addresses(self, *names: str) -> list[str]:
        """Return the addresses of servers by name."""
        return [self.nodes[name].address for name in names]

    @property
    def others(self) -> list[Server]:
        """Return all servers but the source."""
        return [one for name, one in self.servers.items() if name != self.source_name]

    @property
    def replicas(self) -> dict[str, Server]:
        """Return those that follow a server, by name."""
        return {name: self.servers[name] for name in self.shape.follows}

    def __enter__(self) -> "Topology":
        try:
            self.start()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def start(self) -> None:
        """Start all servers, and let them follow as their shape says."""
        for server in self.servers.values():
            server.launch()
        for server in self.servers.values():
            server.wait_until_ready()
            replication.admit(server)
        for name, source in self.shape.follows.items():
            replication.follow(self.servers[name], self.nodes[source].address)

    def end(self) -> None:
        """End all servers at once: nothing of theirs is left to save."""
        for server in self.servers.values():
            server.kill()

    def wait_until_equal(self, limit_s: float) -> list[str]:
        """Wait until all replicas have what the source has now; return those that have not."""
        ids = replication.executed(self.source)
        return [
            name
            for name, replica in self.replicas.items()
            if not replication.wait_for(replica, ids, limit_s)
        ]

    def require_equal(self, limit_s: float) -> None:
        """Wait until all replicas have what the source has now.

        Raises
        ------
        InnolabError
            Names those that have not in time: what follows would be measured on their backlog.
        """
        if behind := self.wait_until_equal(limit_s):
            names = ", ".join(behind)
            raise InnolabError(f"{names} did not come to what the source has in {limit_s:g} s.")

    def transactions_behind(self) -> dict[str, int]:
        """Return how many of the source's transactions each replica has not applied."""
        ids = replication.executed(self.source)
        return {
            name: replication.count(
                replication.missing(self.source, ids, replication.executed(replica))
            )
            for name, replica in self.replicas.items()
        }
