"""A topology: servers of one build on the nodes of one network, one of them the source."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from innolab.hosts.network import Node
from innolab.mysql import replication
from innolab.mysql.builds import Build
from innolab.mysql.replication import Format
from innolab.mysql.server import Server, Settings

# What a data directory calls its server: two of one name cannot replicate.
_IDENTITY = "auto.cnf"


class Topology:
    """A source and its replicas; a context manager that starts them and ends them.

    The first node has the source. All begin with the same data, so nothing has to be copied over
    the network; each has a data directory of its own.

    Parameters
    ----------
    nodes : where the servers run, by name
    copied : returns a fresh copy of the data for a node
    folder : of settings, sockets and error logs, below it one for each node
    base : the host's my.cnf
    settings : server variables of all
    binlog_format : how changes are written down
    """

    def __init__(
        self,
        build: Build,
        nodes: Mapping[str, Node],
        copied: Callable[[Node], Path],
        folder: Path,
        base: Path,
        settings: Settings,
        binlog_format: Format = "ROW",
    ) -> None:
        self._nodes = dict(nodes)
        self.servers: dict[str, Server] = {}
        for number, (name, node) in enumerate(self._nodes.items(), 1):
            own = replication.settings(build, number, node.address, binlog_format)
            data = copied(node)
            node.remove(data / _IDENTITY)
            all_of_it: dict[str, Any] = {**own, **settings, "read_only": "ON"}
            server = Server(build, data, folder / name, base, all_of_it, host=node)
            self.servers[name] = server
        self.source_name = next(iter(self.servers))

    @property
    def source(self) -> Server:
        """Return the server that takes writes."""
        return self.servers[self.source_name]

    @property
    def replicas(self) -> dict[str, Server]:
        """Return the others, by name."""
        return {name: one for name, one in self.servers.items() if name != self.source_name}

    def __enter__(self) -> "Topology":
        try:
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def _start(self) -> None:
        for server in self.servers.values():
            server.launch()
        for server in self.servers.values():
            server.wait_until_ready()
            replication.admit(server)
        self.source.query("SET GLOBAL read_only = OFF")
        for server in self.replicas.values():
            replication.follow(server, self._nodes[self.source_name].address)

    def _end(self) -> None:
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
