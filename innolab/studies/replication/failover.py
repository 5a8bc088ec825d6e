"""The address under which the source is found, and how it moves to a replica when that fails."""

import time
from pathlib import Path
from typing import Any, Literal, NamedTuple

from innolab.base.waiting import await_that
from innolab.hosts import machine
from innolab.hosts.daemon import Daemon
from innolab.hosts.network import VIRTUAL, Node
from innolab.mysql import replication
from innolab.mysql.builds import Build
from innolab.mysql.server import Server
from innolab.mysql.topology import Topology
from innolab.studies.replication import daemons

_GIVEN_WITHIN_S, _MOVED_WITHIN_S, _DONE_WITHIN_S = 20.0, 30.0, 60.0
# Of VRRP: the source's, and ten less for each node after it.
_HIGHEST = 200
# By hand: until somebody acts.
NOTICED_S = 1.0
# Who gives the address to another server: a daemon on each server's node, a manager next to the
# clients, or an operator.
MovedBy = Literal["keepalived", "mha", "hand"]
_MANAGER = "innolab_manager"


def why_no_mha(build: Build) -> str | None:
    """Return why MHA cannot manage servers of a build here, or None if it can."""
    if not replication.knows_old_words(build):
        return f"MHA 0.58 asks by SHOW SLAVE STATUS, which {build.id} does not know any more"
    # Not every Debian has it, and the rest of a study goes without.
    return None if machine.has_tool(daemons.MHA) else "MHA is not installed on this host"


class Left(NamedTuple):
    """What a move left behind, once all have heard of each other again.

    Attributes
    ----------
    first : the server that took over
    writable, holders : the servers that take writes, and those whose nodes have the address
    last : the one that clients end with
    """

    first: str
    writable: list[str]
    holders: list[str]
    last: str

    def facts(self) -> dict[str, Any]:
        """Return what a record says of it."""
        return {"first_to": self.first, "at_the_end": self.holders, "writable": self.writable}


class Failover:
    """A topology whose source is found under a virtual address; a context manager.

    Entering gives the source the address, and lets all replicas follow the holder of it, but for
    those that MHA manages: it lets them follow the next source itself.

    Parameters
    ----------
    folder : of the daemons' settings and logs
    """

    def __init__(self, raised: Topology, folder: Path, moved_by: MovedBy) -> None:
        self._raised, self._folder, self._moved_by = raised, folder, moved_by
        self._daemons: list[Daemon] = []
        self.first = raised.source_name

    def __enter__(self) -> "Failover":
        try:
            if self._moved_by == "keepalived":
                self._start_keepalived()
            else:
                self._node(self.first).take(VIRTUAL)
            if self._moved_by == "mha":
                self._start_mha()
            else:
                for replica in self._raised.replicas.values():
                    replication.follow_instead(replica, VIRTUAL)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _start_keepalived(self) -> None:
        for place, (name, server) in enumerate(self._raised.servers.items()):
            priority = _HIGHEST - 10 * place
            node = self._node(name)
            self._daemons.append(daemons.keepalived(node, priority, server, self._folder))
            # Else the first to wake up would have it, which may be any of them.
            await_that(
                lambda: self.holders() == [self.first],
                _GIVEN_WITHIN_S,
                "keepalived did not give the source its address",
            )

    def _start_mha(self) -> None:
        for server in self._raised.servers.values():
            replication.admit(server, _MANAGER, "ALL PRIVILEGES")
        servers = [self._node(name) for name in self._raised.servers]
        node = self._node(self._raised.shape.clients[0])
        self._daemons.append(daemons.mha(node, servers, _MANAGER, self._folder))

    def _end(self) -> None:
        for daemon in self._daemons:
            daemon.terminate()
        while self._daemons:
            self._daemons.pop().stop()

    def _node(self, name: str) -> Node:
        return self._raised.nodes[name]

    def holders(self) -> list[str]:
        """Return the servers whose nodes have the address."""
        return [name for name in self._raised.servers if self._node(name).holds(VIRTUAL)]

    def writable(self) -> list[str]:
        """Return the servers that take writes."""
        return [name for name, server in self._raised.servers.items() if _takes_writes(server)]

    def left(self, new: str) -> Left:
        """Return what is so when a move to a server is done; of two holders that is the last."""
        if self._moved_by == "mha":
            # It ends when the other replicas have come to follow the new source.
            [manager] = self._daemons
            await_that(
                lambda: manager.poll() is not None, _DONE_WITHIN_S, "MHA's manager did not end"
            )
        holders = self.holders()
        last = holders[0] if len(holders) == 1 else new
        return Left(new, self.writable(), holders, last)

    def move(self, *, reaches_old: bool) -> str:
        """Return the replica that has become the source, after it has.

        Parameters
        ----------
        reaches_old : whether an operator can take the address from the node that had it

        Raises
        ------
        InnolabError
            If none has within half a minute.
        """
        replicas = self._raised.replicas
        if self._moved_by == "hand":
            time.sleep(NOTICED_S)
            best = max(replicas, key=lambda name: _received(replicas[name]))
            if reaches_old:
                self._node(self.first).give_up(VIRTUAL)
            replication.promote(replicas[best], _MOVED_WITHIN_S)
            self._node(best).take(VIRTUAL)

        def taken() -> list[str]:
            holders = self.holders()
            return [n for n in replicas if n in holders and _takes_writes(replicas[n])]

        await_that(lambda: bool(taken()), _MOVED_WITHIN_S, "No replica became the source")
        return taken()[0]


def _received(replica: Server) -> int:
    status = replication.status(replica)
    return max(replication.count(status.received), replication.count(status.applied))


def _takes_writes(server: Server) -> bool:
    return not server.query("SELECT @@GLOBAL.read_only")[0][0]
