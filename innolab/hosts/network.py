"""A network of namespaces on this machine: nodes on one switch, whose links can be slowed and cut.

The switch and each node have a namespace of their own, held by a process that ends with innolab.
Any address may be theirs, nothing of it is on the host's own network, and after `kill -9` the
kernel takes it all away. Needs root, iproute2 and util-linux.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from innolab.base.errors import InnolabError
from innolab.hosts.base import Done, Process, Words
from innolab.hosts.local import Here

# Of a network that nobody else is on.
_PREFIX = "10.77.0."
_MOST_NODES = 200
# An address that moves from node to node.
VIRTUAL = f"{_PREFIX}250"
_PROGRAMS = ("ip", "tc", "nsenter", "unshare", "setpriv")
PORT = "eth0"
# The queues that slow a link.
_KINDS = ("tbf", "netem")


@dataclass(frozen=True)
class Link:
    """What lies between a node and the switch, the same in both directions.

    Attributes
    ----------
    delay_s : how long a packet takes one way
    bits_per_s : how many bits pass a second; None where nothing limits them
    """

    delay_s: float = 0.0
    bits_per_s: int | None = None


def why_impossible() -> str | None:
    """Return why this user cannot have networks of namespaces here, or None where it can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if missing := [name for name in _PROGRAMS if shutil.which(name) is None]:
        return f"{', '.join(missing)} of iproute2 or util-linux is missing"
    tried = subprocess.run(["unshare", "--net", "true"], capture_output=True, text=True)
    if tried.returncode:
        return f"this kernel gives no network namespaces ({tried.stderr.strip()})"
    return None


def _inside(pid: int) -> list[str]:
    """Return the words before a command that is to run in the network of a process."""
    return ["nsenter", f"--net=/proc/{pid}/ns/net", "--"]


class _Namespace:
    """A network namespace that lasts as long as this object's process, and no longer than ours."""

    def __init__(self) -> None:
        held = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "cat"]
        # It says that it is there by echoing: before that, its namespace is still ours.
        self._holder = subprocess.Popen(held, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._holder.stdin and self._holder.stdout
        self._holder.stdin.write(b"\n")
        self._holder.stdin.flush()
        if self._holder.stdout.read(1) != b"\n":
            raise InnolabError("The kernel gave no network namespace.")

    @property
    def pid(self) -> int:
        """Return the process that holds it."""
        return self._holder.pid

    def do(self, *commands: str) -> None:
        """Run lines of `ip` in it.

        Raises
        ------
        InnolabError
            Quotes the first that the kernel refuses.
        """
        words = [*_inside(self.pid), "ip", "-batch", "-"]
        done = subprocess.run(words, input="\n".join(commands), capture_output=True, text=True)
        if done.returncode:
            raise InnolabError(f"A network of namespaces failed: {done.stderr.strip()[-300:]}")

    def end(self) -> None:
        """End it, and with it all links that lead into it."""
        self._holder.kill()
        self._holder.wait()
        for pipe in (self._holder.stdin, self._holder.stdout):
            assert pipe
            pipe.close()


class Node(Here):
    """This machine as seen from one node: commands run with that node's network and no other.

    Parameters
    ----------
    pid : a process in that network, which lasts as long as it is asked
    port : the switch's end of its link
    """

    def __init__(self, name: str, address: str, pid: int, port: str = "") -> None:
        self.name, self.address, self.pid, self.port = name, address, pid, port

    @property
    def inside(self) -> list[str]:
        """Return the words before a command that is to run in the node's network."""
        return _inside(self.pid)

    def run(
        self, words: Words, *, env: Mapping[str, str] | None = None, limit_s: float | None = None
    ) -> Done:
        """Run a command in the node's network."""
        return super().run([*self.inside, *words], env=env, limit_s=limit_s)

    def holds(self, address: str) -> bool:
        """Return whether an address is this node's now."""
        [found] = self.asked("ip", "-json", "address", "show", "dev", PORT)
        return any(one["local"] == address for one in found["addr_info"])

    def reaches(self, address: str) -> bool:
        """Return whether the node that has an address answers, whatever runs there."""
        asks = [self.tool("arping"), "-f", "-w", "1", "-I", PORT, address]
        return self.run(asks).status == 0

    def take(self, address: str) -> None:
        """Make an address this node's, and tell all others."""
        self.must(["ip", "address", "add", f"{address}/24", "dev", PORT], what="Taking an address")
        # Or they send to the node that had it, for as long as they remember that.
        tell = [self.tool("arping"), "-U", "-c", "2", "-w", "1", "-I", PORT, address]
        self.must(tell, what="Announcing an address")

    def give_up(self, address: str) -> None:
        """Give an address away."""
        self.must(["ip", "address", "del", f"{address}/24", "dev", PORT], what="Leaving an address")

    def asked(self, *words: str) -> list[dict[str, Any]]:
        """Return what iproute2 says of the node's network, as it says it to programs."""
        said = self.must(words, what=f"Asking {words[0]} about {self.name}")
        answer: list[dict[str, Any]] = json.loads(said)
        return answer

    def start(self, words: Words, *, env: Mapping[str, str], log: Path) -> Process:
        """Start a program in the node's network; its process id is that of the program itself."""
        return super().start([*self.inside, *words], env=env, log=log)


class Network:
    """Nodes on one switch; a context manager that makes them and takes them away.

    Parameters
    ----------
    names : of the nodes, in the order of their addresses
    """

    def __init__(self, names: Sequence[str]) -> None:
        if not 1 <= len(names) <= _MOST_NODES or len(set(names)) < len(names):
            raise ValueError(f"a network has 1 to {_MOST_NODES} nodes of different names")
        self._names = list(names)
        self._namespaces: list[_Namespace] = []
        self.nodes: dict[str, Node] = {}

    def __enter__(self) -> "Network":
        try:
            self._make()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _make(self) -> None:
        switch = self._namespace()
        switch.do("link add switch type bridge", "link set switch up", "link set lo up")
        for place, name in enumerate(self._names, 1):
            namespace, port = self._namespace(), f"port{place}"
            address = f"{_PREFIX}{place}"
            switch.do(
                f"link add {port} type veth peer name {PORT} netns {namespace.pid}",
                f"link set {port} master switch up",
            )
            namespace.do(f"addr add {address}/24 dev {PORT}", f"link set {PORT} up",
                         "link set lo up")  # fmt: skip
            self.nodes[name] = Node(name, address, namespace.pid, port)
        self._switch = switch

    def _namespace(self) -> _Namespace:
        self._namespaces.append(made := _Namespace())
        return made

    def _end(self) -> None:
        while self._namespaces:
            self._namespaces.pop().end()
        self.nodes.clear()

    def cut(self, name: str) -> None:
        """Take a node's link down: packets are lost, and neither side is told."""
        # At the switch: the node's own interface stays up, as when a cable is pulled elsewhere.
        self._connect(name, connected=False)

    def mend(self, name: str) -> None:
        """Connect a node again."""
        self._connect(name, connected=True)

    def _connect(self, name: str, *, connected: bool) -> None:
        port = self.nodes[name].port
        self._switch.do(f"link set {port} {'master switch' if connected else 'nomaster'}")
        [found] = self._at_switch.asked("ip", "-json", "link", "show", "dev", port)
        if ("master" in found) is not connected:
            raise InnolabError(
                f"The kernel did not {'mend' if connected else 'cut'} {name}'s link."
            )

    def shape(self, name: str, link: Link) -> None:
        """Give a node a link of some delay and speed, in both directions.

        Raises
        ------
        InnolabError
            Where the kernel cannot, or did not: not every one has netem, which a delay needs.
        """
        node = self.nodes[name]
        for host, device in [(node, PORT), (self._at_switch, node.port)]:
            # There is none at first, which is no error.
            host.run(["tc", "qdisc", "delete", "dev", device, "root"])
            wanted = _queue(link)
            if wanted:
                host.must(
                    ["tc", "qdisc", "add", "dev", device, "root", *wanted],
                    what=f"Shaping the link of {name}",
                )
            found = host.asked("tc", "-json", "qdisc", "show", "dev", device)
            if [one["kind"] for one in found if one["kind"] in _KINDS] != wanted[:1]:
                raise InnolabError(f"The kernel did not shape the link of {name} as was asked.")

    @property
    def _at_switch(self) -> Node:
        return Node("switch", "", self._switch.pid)


def _queue(link: Link) -> list[str]:
    """Return the words of tc(8) for a link; none for one without properties."""
    rate = [] if link.bits_per_s is None else ["rate", f"{link.bits_per_s}bit"]
    if link.delay_s:
        # Packets that may wait: without a limit none would be lost.
        return ["netem", "delay", f"{link.delay_s * 1e3:g}ms", *rate, "limit", "10000"]
    if link.bits_per_s is None:
        return []
    # What may pass at once: a hundredth of a second, and two packets at least.
    burst = max(link.bits_per_s // 800, 3200)
    return ["tbf", *rate, "burst", str(burst), "latency", "1s"]
