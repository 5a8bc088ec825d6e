"""Networks of namespaces: nodes reach one another, links are slowed and cut, nothing is left."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from innolab.base.errors import InnolabError
from innolab.hosts import network
from innolab.hosts.network import Link, Network, Node
from innolab.studies.replication.daemons import Proxy

pytestmark = [
    pytest.mark.alone,
    pytest.mark.integration,
    pytest.mark.skipif(
        network.why_impossible() is not None, reason=f"needs more: {network.why_impossible()}"
    ),
]
# Connects, and says how long an answer took.
_ASK = """
import socket, sys, time
with socket.create_connection((sys.argv[1], 7), timeout=float(sys.argv[2])) as asked:
    began = time.monotonic()
    left = int(sys.argv[3])
    asked.sendall(b"x" * left)
    while left:
        left -= len(asked.recv(left))
    print(time.monotonic() - began)
"""
_ANSWER = """
import socket, sys
with socket.create_server((sys.argv[1], 7)) as served:
    while True:
        one, _ = served.accept()
        with one:
            while got := one.recv(65536):
                one.sendall(got)
"""


@pytest.fixture
def pair(folder: Path) -> Iterator[Network]:
    with Network(["a", "b"]) as made:
        b = made.nodes["b"]
        served = b.start([sys.executable, "-c", _ANSWER, b.address], env={}, log=folder / "log")
        deadline = time.monotonic() + 10
        while _asked(made.nodes["a"], b) is None and time.monotonic() < deadline:
            time.sleep(0.05)
        yield made
        served.kill()
        served.wait()


def _asked(of: Node, to: Node, limit_s: float = 1.0, size: int = 1) -> float | None:
    """Return how long an answer of some bytes took, or None where none came."""
    done = of.run([sys.executable, "-c", _ASK, to.address, str(limit_s), str(size)])
    return float(done.stdout) if done.status == 0 else None


def test_nodes_reach_one_another_and_the_host_reaches_none(pair: Network) -> None:
    a, b = pair.nodes["a"], pair.nodes["b"]
    took_s = _asked(a, b)
    assert took_s is not None and took_s < 0.5
    here = subprocess.run([sys.executable, "-c", _ASK, b.address, "0.5", "1"], capture_output=True)
    assert here.returncode != 0
    assert "10.77" not in subprocess.run(["ip", "addr"], capture_output=True, text=True).stdout


def test_a_link_of_few_bits_is_slow_in_both_directions(pair: Network) -> None:
    a, b = pair.nodes["a"], pair.nodes["b"]
    pair.shape("a", Link(bits_per_s=80_000))
    took_s = _asked(a, b, 20, size=20_000)
    # 20,000 bytes there and back again at 10,000 a second.
    assert took_s is not None and 2 < took_s < 10
    pair.shape("a", Link())
    took_s = _asked(a, b, 5, size=20_000)
    assert took_s is not None and took_s < 1


def test_a_delay_is_had_or_refused_in_words(pair: Network) -> None:
    a, b = pair.nodes["a"], pair.nodes["b"]
    try:
        pair.shape("a", Link(delay_s=0.1))
    except InnolabError as refused:
        # Of a kernel without netem alone.
        assert "Specified qdisc kind is unknown" in str(refused)
        return
    took_s = _asked(a, b, 5)
    assert took_s is not None and 0.2 <= took_s < 0.6


def test_a_link_that_is_cut_answers_nobody_until_it_is_connected_again(pair: Network) -> None:
    a, b = pair.nodes["a"], pair.nodes["b"]
    pair.cut("b")
    assert _asked(a, b) is None
    pair.reconnect("b")
    assert _asked(a, b, 5) is not None


def test_after_kill_nine_nothing_is_left(folder: Path) -> None:
    script = (
        "import sys, time\n"
        "from innolab.hosts.network import Network\n"
        "with Network(['a', 'b', 'c']) as made:\n"
        "    print(*(pid for held in made._held for pid in held.pids), flush=True)\n"
        "    time.sleep(60)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert child.stdout
    holders = [int(word) for word in child.stdout.readline().split()]
    assert len(holders) == 4
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    deadline = time.monotonic() + 5
    while any(Path(f"/proc/{pid}").exists() for pid in holders) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [pid for pid in holders if Path(f"/proc/{pid}").exists()] == []


def _asleep(seconds: int) -> int:
    """Return how many processes sleep for so long, a number that names them."""
    words = ["pgrep", "--full", "--count", f"^sleep {seconds}$"]
    return int(subprocess.run(words, capture_output=True, text=True).stdout)


def _await_asleep(seconds: int, wanted: int) -> None:
    deadline = time.monotonic() + 10
    while _asleep(seconds) != wanted:
        assert time.monotonic() < deadline, f"{_asleep(seconds)} processes, not {wanted}"
        time.sleep(0.05)


def test_after_kill_nine_a_manager_and_what_it_started_are_gone(folder: Path) -> None:
    seconds = 10_000_000 + os.getpid()
    script = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from innolab.hosts import machine\n"
        "from innolab.studies.replication import daemons\n"
        "from innolab.hosts.network import Network\n"
        "with Network(['a']) as made:\n"
        "    words = [*machine.TIED, *daemons.WITH_CHILDREN, 'sh', '-c',\n"
        f"             'sleep {seconds} & sleep {seconds}; true']\n"
        "    made.nodes['a'].start(words, env={}, log=Path(sys.argv[1]))\n"
        "    time.sleep(60)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", script, folder / "log"])
    try:
        _await_asleep(seconds, 2)
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    _await_asleep(seconds, 0)


def test_a_node_is_reached_whatever_runs_on_it_until_its_link_is_cut(pair: Network) -> None:
    a, b = pair.nodes["a"], pair.nodes["b"]
    assert a.reaches(b.address)
    pair.cut("b")
    assert not a.reaches(b.address)


def test_a_proxy_says_which_servers_it_does_not_reach(pair: Network, folder: Path) -> None:
    b = pair.nodes["b"].address
    with (
        pytest.raises(InnolabError, match=r"was not ready within 10 s\. .*replica"),
        Proxy(pair.nodes["a"], {"source": b}, {"replica": b}, 9, folder / "haproxy"),
    ):
        pass
    assert pair.nodes["a"].run(["ss", "-Hltn"]).stdout == "", "it has ended"


@pytest.mark.parametrize("names", [[], ["a", "a"], [str(n) for n in range(201)]])
def test_a_network_of_no_or_doubled_or_too_many_nodes_is_refused(names: list[str]) -> None:
    with pytest.raises(ValueError, match="1 to 200 nodes of different names"):
        Network(names)
