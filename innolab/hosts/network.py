"""A network of namespaces: nodes on one switch, whose links can be slowed and cut.

The switch and each node have a namespace of their own, held by a process that ends with innolab.
Any address may be theirs, nothing of it is on a host's own network, and after `kill -9` the
kernel takes it all away. Needs root, iproute2 and util-linux.

Nodes may be on several hosts. Each has a switch then, and what passes between these is carried in
UDP (VXLAN, RFC 7348) over the way that ssh comes by. Nobody is authenticated there: it is for hosts
whose network can be trusted.
"""

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from innolab.base.errors import InnolabError, InputError
from innolab.hosts import machine
from innolab.hosts.base import Command, Done, Host, Input, Process
from innolab.hosts.daemon import Daemon
from innolab.hosts.local import HERE
from innolab.hosts.ssh import Remote

# Of a network that nobody else is on.
_PREFIX = "10.77.0."
_MOST_NODES = 200
# An address that moves from node to node.
VIRTUAL = f"{_PREFIX}250"
_PROGRAMS = ("ip", "tc", "nsenter", "unshare", "setpriv")
_ALL_THERE = 'for one in "$@"; do command -v "$one" >/dev/null || echo "$one"; done'
PORT = "eth0"
# The queues that slow a link.
_KINDS = ("tbf", "netem")
# What carries packets between hosts: its name, its identifier, and its port (IANA's for VXLAN).
_CARRIER, _CARRIER_ID, _CARRIER_PORT = "overlay", "7707", "4789"
# What is left of Ethernet's 1500 bytes when a packet is carried in another.
_CARRIED_BYTES = 1450
_HELD_WITHIN_S = 5.0
_LINES = 'printf "%s\\n" "$@" | ip -batch -'


@dataclass(frozen=True)
class Link:
    """What is between a node and the switch, the same in both directions.

    Attributes
    ----------
    delay_s : how long a packet takes one way
    bits_per_s : how many bits pass a second; None if nothing limits them
    """

    delay_s: float = 0.0
    bits_per_s: int | None = None


def why_impossible() -> str | None:
    """Return why this user cannot have networks of namespaces here, or None if it can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if missing := [name for name in _PROGRAMS if shutil.which(name) is None]:
        return f"{', '.join(missing)} of iproute2 or util-linux is missing"
    tried = subprocess.run(["unshare", "--net", "true"], capture_output=True, text=True)
    if tried.returncode:
        return f"this kernel gives no network namespaces ({tried.stderr.strip()})"
    return None


def require_able(host: Host) -> None:
    """Raise InputError if a host has no program by which nodes are made there."""
    words = ["sh", "-c", _ALL_THERE, "sh", *_PROGRAMS, "bridge"]
    if missing := host.must(words, what="Asking for programs").split():
        raise InputError(
            f"{host.name} has no {', '.join(missing)}, which networks of namespaces need: install "
            "iproute2 and util-linux there. Nothing was written."
        )


class _Namespaces:
    """Network namespaces of a host that last as long as this object, and no longer than we do.

    One process starts those that hold them: sshd lets ten programs at a time share a connection.

    Attributes
    ----------
    pids : the processes of the host that hold them
    """

    def __init__(self, host: Host, count: int) -> None:
        self._host, self._count = host, count
        held = shlex.join([*machine.TIED, "unshare", "--net", "sleep", "infinity"])
        words = ["sh", "-c", f"for _ in $(seq {count}); do {held} & done; wait"]
        name = f"What holds network namespaces on {host.name}"
        self._holder = Daemon(name, host, words, Path(os.devnull))
        self.pids: list[int] = []
        self._holder.await_ready(self._are_apart, _HELD_WITHIN_S)

    def _are_apart(self) -> bool:
        """Return whether all are there: at first a process is still in the host's own."""
        pid = self._holder.pid
        [children] = self._host.peek(f"/proc/{pid}/task/{pid}/children")
        self.pids = [int(child) for child in (children or "").split()]
        names = [f"/proc/{one}/ns/net" for one in ("self", *self.pids)]
        found = self._host.run(["readlink", *names]).stdout.split()
        return len(set(found)) == 1 + self._count

    def end(self) -> None:
        """End them, and with them all links that lead into them."""
        self._holder.kill()


class Node(Host):
    """A host as seen from one node: commands run there with that node's network and no other.

    Parameters
    ----------
    pid : a process of the host in that network, which lasts as long as it is asked
    port : the switch's end of its link
    host : where it is
    """

    def __init__(
        self, name: str, address: str, pid: int, port: str = "", host: Host = HERE
    ) -> None:
        self.name, self.address, self.pid, self.port, self._host = name, address, pid, port, host
        self.folder, self.emulator = host.folder, host.emulator

    @property
    def host(self) -> Host:
        """Return the host that it is on."""
        return self._host

    @property
    def server_user(self) -> str | None:
        """Return the host's own."""
        return self.host.server_user

    @property
    def inside(self) -> list[str]:
        """Return the words before a command that is to run in the node's network."""
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net", "--"]

    def run(
        self,
        command: Command,
        *,
        env: Mapping[str, str] | None = None,
        limit_s: float | None = None,
        stdin: Input = None,
    ) -> Done:
        """Run a command in the node's network."""
        return self.host.run([*self.inside, *command], env=env, limit_s=limit_s, stdin=stdin)

    def start(self, command: Command, *, env: Mapping[str, str], log: Path) -> Process:
        """Start a program in the node's network; its process id is that of the program itself."""
        return self.host.start([*self.inside, *command], env=env, log=log)

    def do(self, *commands: str) -> None:
        """Run lines of `ip` in the node's network.

        Raises
        ------
        InnolabError
            Quotes the first that the kernel refuses.
        """
        self.must(["sh", "-c", _LINES, "sh", *commands], what="Changing a network of namespaces")

    def holds(self, address: str) -> bool:
        """Return whether an address is this node's now."""
        [device] = self.asked("ip", "-json", "address", "show", "dev", PORT)
        return any(one["local"] == address for one in device["addr_info"])

    def reaches(self, address: str) -> bool:
        """Return whether the node that has an address answers, whatever runs there."""
        asks = [self.tool("arping"), "-f", "-w", "1", "-I", PORT, address]
        return self.run(asks).status == 0

    def take(self, address: str) -> None:
        """Make an address this node's, and announce it."""
        self.must(["ip", "address", "add", f"{address}/24", "dev", PORT], what="Taking an address")
        # Or they send to the node that had it, for as long as they remember that.
        announce = [self.tool("arping"), "-U", "-c", "2", "-w", "1", "-I", PORT, address]
        self.must(announce, what="Announcing an address")

    def give_up(self, address: str) -> None:
        """Give an address away."""
        self.must(["ip", "address", "del", f"{address}/24", "dev", PORT], what="Leaving an address")

    def asked(self, *words: str) -> list[dict[str, Any]]:
        """Return what iproute2 says of the node's network, as it says it to programs."""
        output = self.must(words, what=f"Asking {words[0]} about {self.name}")
        answer: list[dict[str, Any]] = json.loads(output)
        return answer

    def peek(self, *paths: str | Path) -> list[str | None]:
        """Return the texts of small files of the host."""
        return self.host.peek(*paths)

    def end_servers(self, folder: Path) -> None:
        """End servers of the host."""
        self.host.end_servers(folder)

    def evict(self, folder: Path) -> None:
        """Drop a folder from the host's page cache."""
        self.host.evict(folder)

    def hold(self, folder: Path) -> Path:
        """Return where the host has a dataset's folder."""
        return self.host.hold(folder)

    def reach(self, socket: Path) -> Path:
        """Return the path of a unix socket here that leads to one of the host's."""
        return self.host.reach(socket)

    def tool(self, name: str) -> str:
        """Return the command of a program of the host."""
        return self.host.tool(name)

    def module(self, name: str) -> list[str]:
        """Return the words that run a module of innolab's on the host."""
        return self.host.module(name)

    def own_cpu_s(self) -> float:
        """Return the host's own."""
        return self.host.own_cpu_s()


class Network:
    """Nodes on one switch; a context manager that makes them and takes them away.

    Parameters
    ----------
    names : of the nodes, in the order of their addresses
    hosts : where nodes are that are not on this machine, by name

    Raises
    ------
    InnolabError
        On entering, where a kernel refuses, or hosts do not reach one another.
    """

    def __init__(self, names: Sequence[str], hosts: Mapping[str, Host] | None = None) -> None:
        if not 1 <= len(names) <= _MOST_NODES or len(set(names)) < len(names):
            raise ValueError(f"a network has 1 to {_MOST_NODES} nodes of different names")
        self._hosts = {name: (hosts or {}).get(name, HERE) for name in names}
        self._held: list[_Namespaces] = []
        # By host, the process in the namespace of its switch.
        self._switches: dict[Host, int] = {}
        self.nodes: dict[str, Node] = {}

    def __enter__(self) -> "Network":
        try:
            for host in dict.fromkeys(self._hosts.values()):
                self._make(host, [name for name, on in self._hosts.items() if on is host])
            if len(self._switches) > 1:
                self._carry()
                self._require_whole()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _make(self, host: Host, names: Sequence[str]) -> None:
        """Make the switch of a host, and the nodes on it."""
        self._held.append(made := _Namespaces(host, 1 + len(names)))
        self._switches[host], *pids = made.pids
        at_switch = self._at_switch(host)
        at_switch.do("link add switch type bridge", "link set switch up", "link set lo up")
        places = list(self._hosts)
        for name, pid in zip(names, pids, strict=True):
            place = 1 + places.index(name)
            port, address = f"port{place}", f"{_PREFIX}{place}"
            at_switch.do(
                f"link add {port} type veth peer name {PORT} netns {pid}",
                f"link set {port} master switch up",
            )
            node = self.nodes[name] = Node(name, address, pid, port, host)
            node.do(f"addr add {address}/24 dev {PORT}", f"link set {PORT} up", "link set lo up")

    def _carry(self) -> None:
        """Connect the switches of all hosts, each to each."""
        at = _addresses(self._switches)
        for host, switch in self._switches.items():
            # Made in the host's own network, where it sends, and is in the switch's.
            words = ["ip", "link", "add", _CARRIER, "netns", str(switch), "type", "vxlan", "id"]
            words += [_CARRIER_ID, "dstport", _CARRIER_PORT, "local", at[host]]
            host.must(words, what="Connecting hosts")
            inside = self._at_switch(host)
            inside.do(f"link set {_CARRIER} master switch up")
            for other in self._switches:
                if other is not host:
                    all_else = ["bridge", "fdb", "append", "00:00:00:00:00:00", "dev", _CARRIER]
                    inside.must([*all_else, "dst", at[other]], what="Connecting hosts")
        for node in self.nodes.values():
            node.do(f"link set {PORT} mtu {_CARRIED_BYTES}")

    def _require_whole(self) -> None:
        """Prevent a network in pieces from passing for a slow one."""
        one_each = {node.host: node for node in self.nodes.values()}
        for near in one_each.values():
            for far in one_each.values():
                if near is not far and not near.reaches(far.address):
                    raise InnolabError(
                        f"{near.host.name} does not reach {far.host.name}. Hosts of one topology "
                        f"send to each other by UDP at port {_CARRIER_PORT}: open it between them."
                    )

    def _end(self) -> None:
        while self._held:
            self._held.pop().end()
        self.nodes.clear()
        self._switches.clear()

    def cut(self, name: str) -> None:
        """Take a node's link down: packets are lost, and neither side learns of it."""
        # At the switch: the node's own interface stays up, as when a cable is pulled elsewhere.
        self._connect(name, connected=False)

    def reconnect(self, name: str) -> None:
        """Connect a node again."""
        self._connect(name, connected=True)

    def _connect(self, name: str, *, connected: bool) -> None:
        node = self.nodes[name]
        port, at_switch = node.port, self._at_switch(node.host)
        at_switch.do(f"link set {port} {'master switch' if connected else 'nomaster'}")
        [link] = at_switch.asked("ip", "-json", "link", "show", "dev", port)
        if ("master" in link) is not connected:
            raise InnolabError(
                f"The kernel did not {'connect' if connected else 'cut'} {name}'s link."
            )

    def shape(self, name: str, link: Link) -> None:
        """Give a node a link of some delay and speed, in both directions.

        Raises
        ------
        InnolabError
            If the kernel cannot, or did not: not every one has netem, which a delay needs.
        """
        node = self.nodes[name]
        for host, device in [(node, PORT), (self._at_switch(node.host), node.port)]:
            # There is none at first, which is no error.
            host.run(["tc", "qdisc", "delete", "dev", device, "root"])
            wanted = _queue(link)
            if wanted:
                host.must(
                    ["tc", "qdisc", "add", "dev", device, "root", *wanted],
                    what=f"Shaping the link of {name}",
                )
            queues = host.asked("tc", "-json", "qdisc", "show", "dev", device)
            if [one["kind"] for one in queues if one["kind"] in _KINDS] != wanted[:1]:
                raise InnolabError(f"The kernel did not shape the link of {name} as was asked.")

    def _at_switch(self, host: Host) -> Node:
        return Node("switch", "", self._switches[host], host=host)


def _addresses(hosts: Iterable[Host]) -> dict[Host, str]:
    """Return the addresses by which hosts reach one another: those by which ssh goes."""
    ways = {host: host.way() for host in hosts if isinstance(host, Remote)}
    # As the others see us, which is how they answer.
    ours = next(way.here for way in ways.values())
    return {host: ways[host].there if host in ways else ours for host in hosts}


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
