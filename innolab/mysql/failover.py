"""The address under which the source is found, and how it moves to a replica when that fails."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from innolab.base.errors import InnolabError
from innolab.hosts import keepalived
from innolab.hosts.base import Process
from innolab.hosts.network import VIRTUAL, Node
from innolab.mysql import answers, promote, replication
from innolab.mysql.server import Server, ServerError
from innolab.mysql.topology import Topology

_GIVEN_WITHIN_S, _MOVED_WITHIN_S, _EQUAL_WITHIN_S = 20.0, 30.0, 20.0
_END_WITHIN_S = 5.0
# Of VRRP: the source's, and ten less for each node after it.
_HIGHEST = 200
# By hand: until somebody acts.
NOTICED_S = 1.0


class Failover:
    """A topology whose source is found under a virtual address; a context manager.

    Entering gives the source the address, and lets all replicas follow whoever has it. keepalived
    then moves it by itself, or `move` does what an operator would.

    Parameters
    ----------
    folder : of the daemons' settings and logs
    by_hand : whether nothing moves by itself
    """

    def __init__(self, raised: Topology, folder: Path, *, by_hand: bool) -> None:
        self._raised, self._folder, self._by_hand = raised, folder, by_hand
        self._daemons: list[Process] = []
        self.first = raised.source_name

    def __enter__(self) -> "Failover":
        if self._by_hand:
            self._raised.nodes[self.first].take(VIRTUAL)
        try:
            for place, name in enumerate(self._raised.servers if not self._by_hand else ()):
                self._daemons.append(self._daemon(name, _HIGHEST - 10 * place))
                # Else the first to wake up would have it, which may be any of them.
                self._await_first()
            for replica in self._raised.replicas.values():
                replication.follow_instead(replica, VIRTUAL)
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

    def _daemon(self, name: str, priority: int) -> Process:
        server, python = self._raised.servers[name], Path(sys.executable)
        return keepalived.started(
            self._raised.nodes[name],
            priority,
            f"{python} -I {answers.__file__} {server.socket}",
            f"{python} -m {promote.__name__} {server.build.version} {server.folder}",
            self._folder,
        )

    def _await_first(self) -> None:
        await_that(
            lambda: self.holders() == [self.first],
            _GIVEN_WITHIN_S,
            "keepalived did not give the source its address",
        )

    def _end(self) -> None:
        # Asked, and not killed: each ends its own children, whose time then counts as ours.
        for daemon in self._daemons:
            daemon.terminate()
        while self._daemons:
            daemon = self._daemons.pop()
            try:
                daemon.wait(timeout=_END_WITHIN_S)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def _node(self, name: str) -> Node:
        return self._raised.nodes[name]

    def holders(self) -> list[str]:
        """Return the servers whose nodes have the address."""
        return [name for name in self._raised.servers if self._node(name).holds(VIRTUAL)]

    def writable(self) -> list[str]:
        """Return the servers that take writes."""
        return [name for name, server in self._raised.servers.items() if _takes_writes(server)]

    def move(self, *, reaches_old: bool) -> str:
        """Return the replica that has become the source, after it has.

        Parameters
        ----------
        reaches_old : whether an operator can take the address from the node that had it

        Raises
        ------
        InnolabError
            Where none has within half a minute.
        """
        replicas = self._raised.replicas
        if self._by_hand:
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


class Equal(NamedTuple):
    """What servers have beside the source that is left, by their names.

    Attributes
    ----------
    errant : how many transactions each has that the source has not
    same : whether each comes to have the source's rows; one with transactions of its own does not,
        and has to be made anew
    """

    errant: dict[str, int]
    same: dict[str, bool]


def equal(raised: Topology, last: str) -> Equal:
    """Let all servers follow whoever has the address, and return what came of it.

    Parameters
    ----------
    last : the name of the source that is left
    """
    source, ids = raised.servers[last], replication.executed(raised.servers[last])
    errant = {
        name: replication.count(replication.missing(source, replication.executed(one), ids))
        for name, one in raised.servers.items()
    }
    same = {
        name: not errant[name] and rejoined(source, server)
        for name, server in raised.servers.items()
        if name != last
    }
    return Equal(errant, same)


def rejoined(source: Server, other: Server) -> bool:
    """Let a server follow whoever has the address; return whether it comes to the source's rows."""
    other.query("SET GLOBAL read_only = ON")
    replication.follow_instead(other, VIRTUAL)
    return follows(source, other)


def follows(source: Server, other: Server) -> bool:
    """Return whether a server comes to have the same rows as the source."""
    try:
        has_all = replication.wait_for(other, replication.executed(source), _EQUAL_WITHIN_S)
    except ServerError:
        return False
    return has_all and replication.checksums(other) == replication.checksums(source)


def await_that(is_so: Callable[[], bool], limit_s: float, what: str) -> None:
    """Wait until something is so; raise InnolabError, which begins with `what`, where it is not."""
    deadline = time.monotonic() + limit_s
    while not is_so():
        if time.monotonic() > deadline:
            raise InnolabError(f"{what} within {limit_s:g} s.")
        time.sleep(0.05)


def _received(replica: Server) -> int:
    found = replication.status(replica)
    return max(replication.count(found.received), replication.count(found.applied))


def _takes_writes(server: Server) -> bool:
    return not server.query("SELECT @@GLOBAL.read_only")[0][0]
