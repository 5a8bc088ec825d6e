"""HAProxy on a node of a network: one port for writes, one for reads, on the node's own loopback.

It passes connections on and reads nothing of what they carry, so which port a statement goes to is
its sender's choice.
"""

import csv
import socket
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import jinja2

from innolab.base.errors import InnolabError
from innolab.base.waiting import await_that
from innolab.hosts.network import Node

ADDRESS = "127.0.0.1"
WRITES, READS = 3306, 3307
_TEMPLATE = Path(__file__).with_name("haproxy.cfg.j2")
_READY_WITHIN_S, _END_WITHIN_S, _ANSWER_WITHIN_S = 10.0, 5.0, 2.0
# Rows of its statistics that are none of a server.
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
            name: Carried(*(later - sooner for later, sooner in zip(of, before[door][name],
                                                                    strict=True)))
            for name, of in servers.items()
        }
        for door, servers in now.items()
    }  # fmt: skip


class Proxy:
    """A proxy on a node; a context manager that starts it and ends it. It ends with innolab too.

    Parameters
    ----------
    writes, reads : the addresses of the servers behind each port, by name
    port : of all servers
    folder : a new one, of its settings, its log and the socket of its statistics

    Attributes
    ----------
    node : where it runs, and whoever uses it
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
        self._servers = {
            name: {server: f"{address}:{port}" for server, address in of.items()}
            for name, of in (("writes", writes), ("reads", reads))
        }

    def __enter__(self) -> "Proxy":
        self.node.fresh_folder(self.folder)
        settings, log = self.folder / "haproxy.cfg", self.folder / "haproxy.log"
        template = jinja2.Template(_TEMPLATE.read_text(), undefined=jinja2.StrictUndefined)
        ports = {"writes": WRITES, "reads": READS}
        doors = [(name, ports[name], servers) for name, servers in self._servers.items()]
        text = template.render(socket=self._socket, address=ADDRESS, doors=doors)
        self.node.write(settings, text)
        # In the foreground: one that goes to the background would be nobody's child.
        words = [self.node.tool("haproxy"), "-db", "-f", str(settings)]
        self._process = self.node.start([*self.node.unprivileged(), *words], env={}, log=log)
        try:
            await_that(self._is_ready, _READY_WITHIN_S, "HAProxy did not reach all servers")
        except InnolabError as error:
            self._end()
            said = " ".join(log.read_text(errors="replace").split())[-300:]
            raise InnolabError(f"{error} It said: {said or 'nothing'}") from None
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(timeout=_END_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def _socket(self) -> Path:
        return self.folder / "stats.sock"

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
        found: Traffic = {name: {} for name in self._servers}
        for row in self._rows():
            found[row["# pxname"]][row["svname"]] = Carried(
                int(row["stot"]), int(row["bin"]), int(row["bout"])
            )
        return found

    def _rows(self) -> Iterator[dict[str, str]]:
        with socket.socket(socket.AF_UNIX) as asked:
            asked.settimeout(_ANSWER_WITHIN_S)
            asked.connect(str(self._socket))
            asked.sendall(b"show stat\n")
            with asked.makefile() as answer:
                rows = [line for line in answer if line.strip()]
        return (row for row in csv.DictReader(rows) if row["svname"] not in _TOTALS)
