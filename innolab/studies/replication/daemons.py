"""Programs on the nodes of a network besides servers: HAProxy, keepalived, MHA's manager.

Each has settings made from a template, runs in the foreground, and ends with innolab.
"""

import csv
import json
import shlex
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jinja2

from innolab.base import children
from innolab.base.errors import InnolabError
from innolab.base.waiting import await_that
from innolab.hosts.base import Process
from innolab.hosts.network import PORT, VIRTUAL, Node
from innolab.mysql import replication
from innolab.mysql.server import Server
from innolab.studies.replication import programs

_HERE = Path(__file__).parent
_READY_WITHIN_S, _WATCHES_WITHIN_S = 10.0, 20.0
_END_WITHIN_S, _ANSWER_WITHIN_S = 5.0, 2.0


def ended(process: Process) -> None:
    """End a program by asking it, so that it ends its own children; kill it if it does not."""
    process.terminate()
    try:
        process.wait(timeout=_END_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _written(node: Node, path: Path, template: str, **values: Any) -> Path:
    """Write the settings of a program on a node, and return where they are."""
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
        log = self.folder / "haproxy.log"
        # In the foreground: one that goes to the background would not be our child.
        words = [self.node.tool("haproxy"), "-db", "-f", str(settings)]
        self._process = self.node.start([*self.node.unprivileged(), *words], env={}, log=log)
        try:
            await_that(self._is_ready, _READY_WITHIN_S, "HAProxy did not reach all servers")
        except InnolabError as error:
            ended(self._process)
            last = " ".join(log.read_text(errors="replace").split())[-300:]
            raise InnolabError(f"{error} It said: {last or 'nothing'}") from None
        except BaseException:
            ended(self._process)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        ended(self._process)

    def _is_ready(self) -> bool:
        if self._process.poll() is not None:
            raise InnolabError("HAProxy ended as soon as it was started.")
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


def keepalived(node: Node, priority: int, server: Server, folder: Path) -> Process:
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
    return node.start(
        [
            *("setpriv", "--pdeathsig", "KILL", node.tool("keepalived")),
            *("--dont-fork", "--log-console", "--log-detail", "--vrrp"),
            f"--use-file={settings}",
            f"--pid={settings.with_suffix('.pid')}",
            f"--vrrp_pid={settings.with_suffix('.vrrp.pid')}",
        ],
        env={},
        log=settings.with_suffix(".log"),
    )


MHA = "masterha_manager"
# What its log says once all has been checked, and where it complains.
_WATCHES, _ERROR = "waiting until MySQL doesn't respond", "[error]"
# The manager, and all that it starts, end when innolab does.
TIED = ("setpriv", "--pdeathsig", "KILL", "unshare", "--pid", "--fork", "--kill-child")


def mha(node: Node, servers: Sequence[Node], user: str, folder: Path) -> Process:
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
    words = [*TIED, node.tool(MHA), f"--conf={settings}"]
    manager = node.start(words, env={}, log=work / "said.log")

    def watches() -> bool:
        if manager.poll() is not None:
            raise InnolabError("MHA's manager ended before it watched the source.")
        [text] = node.peek(log)
        return _WATCHES in (text or "")

    try:
        await_that(watches, _WATCHES_WITHIN_S, "MHA's manager did not come to watch the source")
    except InnolabError as error:
        manager.kill()
        manager.wait()
        raise InnolabError(f"{error} It said: {_complaints(node, work)}") from None
    return manager


def _complaints(node: Node, work: Path) -> str:
    """Return the last errors that a manager has logged, else the last lines."""
    texts = node.peek(work / "said.log", work / "manager.log")
    lines = [line for text in texts for line in (text or "").splitlines() if line.strip()]
    return " ".join(([line for line in lines if _ERROR in line] or lines)[-3:])[-600:] or "nothing"
