"""A topology: servers of one build on the nodes of one network, one of them the source."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

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
    copied : returns a fresh copy of the data for a node, of the name given
    folder : of settings, sockets and error logs, below it one for each node
    base : the host's my.cnf
    settings : server variables of all
    cgroup : returns the control group of a node's server, which may limit its device
    binlog_format : how changes are written down
    """

    def __init__(
        self,
        build: Build,
        nodes: Mapping[str, Node],
        copied: Callable[[str], Path],
        folder: Path,
        base: Path,
        settings: Settings,
        cgroup: Callable[[str], Path | None] = lambda _name: None,
        binlog_format: Format = "ROW",
    ) -> None:
        self._build, self._base, self._folder = build, base, folder
        self._nodes, self._copied, self._cgroup = dict(nodes), copied, cgroup
        self._settings, self._binlog_format = settings, binlog_format
        self.servers: dict[str, Server] = {}
        self.source_name = next(iter(self._nodes))

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
        for number, name in enumerate(self._nodes, 1):
            self.servers[name] = self._server(number, name)
        for server in self.servers.values():
            server.launch()
        for server in self.servers.values():
            server.wait_until_ready()
            replication.admit(server)
        self.source.query("SET GLOBAL read_only = OFF")
        for server in self.replicas.values():
            replication.follow(server, self._nodes[self.source_name].address)

    def _server(self, number: int, name: str) -> Server:
        node, data = self._nodes[name], self._copied(name)
        node.remove(data / _IDENTITY)
        own = replication.settings(self._build, number, node.address, self._binlog_format)
        settings = {**own, **self._settings, "read_only": "ON"}
        place = self._folder / name
        return Server(self._build, data, place, self._base, settings, self._cgroup(name), node)

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
