"""Programs on the nodes of a network besides servers: HAProxy, keepalived, MHA's manager.

Each has settings made from a template and runs in the foreground.
"""

import csv
import json
import shlex
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jinja2

from innolab.base import children
from innolab.hosts.daemon import Daemon
from innolab.hosts.network import PORT, VIRTUAL, Node
from innolab.mysql import replication
from innolab.mysql.server import Server
from innolab.studies.replication import programs

_HERE = Path(__file__).parent
_READY_WITHIN_S, _WATCHES_WITHIN_S, _ANSWER_WITHIN_S = 10.0, 20.0, 2.0


def _written(node: Node, path: Path, template: str, **values: Any) -> Path:
    text = (_HERE / f"{template}.j2").read_text()
    node.write(path, jinja2.Template(text, undefined=jinja2.StrictUndefined).render(**values))
    return path


# HAProxy: one port for writes, one for reads, on the loopback of its own node. It passes
# connections on and reads nothing of what they carry, so the sender chooses the port.
LOOPBACK = "127.0.0.1"
WRITES, READS = 3306, 3307
# Rows of its statistics that are not of a server.
_TOTALS = ("FRONTEND", "BACKEND")


class Carried(NamedTuple):
    """What a proxy has passed on to one server and back since it was started."""

    connections: int
    sent_bytes: int
    received_bytes: int


# By the port's name, `writes` or `reads`, and the server's.
Traffic = dict[str, dict[str, Carried]]


def since(now: Traffic, before: Traffic) -> Traffic:
    """Return what was passed on between two moments.

    >>> since({"reads": {"a": Carried(5, 90, 900)}}, {"reads": {"a": Carried(2, 40, 400)}})
    {'reads': {'a': Carried(connections=3, sent_bytes=50, received_bytes=500)}}
    """
    return {
        door: {
            name: Carried(*(b - a for a, b in zip(before[door][name], later, strict=True)))
            for name, later in servers.items()
        }
        for door, servers in now.items()
    }


class Proxy:
    """HAProxy on a node; a context manager that starts it and ends it.

    Parameters
    ----------
    writes, reads : the addresses of the servers behind each port, by name
    port : of all servers
    folder : a new one, for its settings, its log and the socket of its statistics

    Attributes
    ----------
    node : where it runs, and what uses it
    folder : as given
    """

    def __init__(
        self,
        node: Node,
        writes: Mapping[str, str],
        reads: Mapping[str, str],
        port: int,
        folder: Path,
    ) -> None:
        self.node, self.folder = node, folder
        self._socket = folder / "stats.sock"
        self._doors = {
            name: (at, {server: f"{address}:{port}" for server, address in servers.items()})
            for name, at, servers in (("writes", WRITES, writes), ("reads", READS, reads))
        }

    def __enter__(self) -> "Proxy":
        self.node.fresh_folder(self.folder)
        doors = [(name, at, servers) for name, (at, servers) in self._doors.items()]
        values = {"socket": self._socket, "address": LOOPBACK, "doors": doors}
        settings = _written(self.node, self.folder / "haproxy.cfg", "haproxy.cfg", **values)
        # In the foreground: one that goes to the background would not be our child.
        words = [self.node.tool("haproxy"), "-db", "-f", str(settings)]
        log = self.folder / "haproxy.log"
        self._daemon = Daemon("HAProxy", self.node, words, log, unprivileged=True)
        self._daemon.await_ready(self._reaches_all, _READY_WITHIN_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._daemon.stop()

    def _reaches_all(self) -> bool:
        try:
            # One that was never looked at counts as up; an asterisk says that it is looked at now.
            return all(row["status"] == "UP" and row["check_status"].endswith("L4OK")
                       for row in self._rows())  # fmt: skip
        except OSError:
            return False

    def carried(self) -> Traffic:
        """Return what it has passed on, by its own statistics."""
        traffic: Traffic = {name: {} for name in self._doors}
        for row in self._rows():
            counts = Carried(int(row["stot"]), int(row["bin"]), int(row["bout"]))
            traffic[row["# pxname"]][row["svname"]] = counts
        return traffic

    def _rows(self) -> Iterator[dict[str, str]]:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_ANSWER_WITHIN_S)
            connection.connect(str(self._socket))
            connection.sendall(b"show stat\n")
            with connection.makefile() as answer:
                rows = [line for line in answer if line.strip()]
        return (row for row in csv.DictReader(rows) if row["svname"] not in _TOTALS)


def keepalived(node: Node, priority: int, server: Server, folder: Path) -> Daemon:
    """Start keepalived on a server's node: the address of the source moves by VRRP.

    A node whose server does not answer is no candidate. One that hears of no holder makes itself
    one, so two nodes that do not hear each other both hold the address; once they do, the one of
    higher priority keeps it, which may be the old source.

    Parameters
    ----------
    priority : the node with the highest is the next to hold the address; 1 to 254
    server : on the node
    folder : of its settings and log
    """

    def script(name: str, *arguments: str) -> Path:
        """Write a command as a script: keepalived follows links, and a venv's python is one.

        Followed, it is the python outside the venv, which has no innolab. What a script says is
        heard by nobody else, so it has a log.
        """
        path = folder / f"{name}-{node.name}"
        command = shlex.join([*node.module(programs.__name__), name, *arguments])
        node.write(path, f"#!/bin/sh\nexec {command} >>{path}.log 2>&1\n")
        node.must(["chmod", "0700", path], what="Making a script")
        return path

    settings = _written(
        node,
        folder / f"keepalived-{node.name}.conf",
        "keepalived.conf",
        name=node.name,
        interface=PORT,
        address=VIRTUAL,
        priority=priority,
        answers=script("alive", str(server.socket)),
        promote=script("promote", server.build.version, str(server.folder)),
    )
    words = [
        *(node.tool("keepalived"), "--dont-fork", "--log-console", "--log-detail", "--vrrp"),
        f"--use-file={settings}",
        f"--pid={settings.with_suffix('.pid')}",
        f"--vrrp_pid={settings.with_suffix('.vrrp.pid')}",
    ]
    return Daemon("keepalived", node, words, settings.with_suffix(".log"))


MHA = "masterha_manager"
# What its log says once all has been checked.
_WATCHES = "waiting until MySQL doesn't respond"
# What the manager starts ends with it.
WITH_CHILDREN = ("unshare", "--pid", "--fork", "--kill-child")


def mha(node: Node, servers: Sequence[Node], user: str, folder: Path) -> Daemon:
    """Start MHA's manager on a node and return it when it watches the source.

    It makes a replica the next source, and ends when it has done so once. It reaches servers over
    the network alone. If these have global transaction ids it needs ssh for nothing but to ask
    whether the failed host is reachable, and goes on if it is not.

    Parameters
    ----------
    servers : the nodes of all servers, the source among them
    user : an account without a password that may do everything
    folder : below which one is made for its settings, logs and work

    Raises
    ------
    InnolabError
        If it does not come to watch; quotes its log.
    """
    work = folder / "mha"
    node.fresh_folder(work)
    nodes, log = work / "nodes.json", work / "manager.log"
    pids = {"manager": node.pid, **{server.address: server.pid for server in servers}}
    node.write(nodes, json.dumps(pids))
    settings = _written(
        node,
        work / "mha.cnf",
        "mha.cnf",
        folder=work,
        log=log,
        user=user,
        replica_user=replication.USER,
        port=replication.PORT,
        move=" ".join(children.python(programs.__name__, "move", str(nodes))),
        addresses=[server.address for server in servers],
    )
    words = [*WITH_CHILDREN, node.tool(MHA), f"--conf={settings}"]
    manager = Daemon("MHA's manager", node, words, work / "said.log", own_log=log)
    manager.await_ready(lambda: _WATCHES in (node.peek(log)[0] or ""), _WATCHES_WITHIN_S)
    return manager
