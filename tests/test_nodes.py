"""Topologies whose nodes lie on several hosts over ssh: one network, one study, nothing left."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import BIN, ROOT, Innolab
from ssh_hosts import Hosts, ssh_hosts

from innolab.hosts.bundle import FOLDER
from innolab.hosts.network import why_impossible
from innolab.record import runlog
from innolab.record.runlog import RunLog

_STUDY = ["replication", "--scale", "smoke", "-p", "builds=mysql-5.6.24"]
needs_namespaces = pytest.mark.skipif(
    why_impossible() is not None, reason=f"hosts in namespaces: {why_impossible()}"
)
# One node on each host and one here: who reaches whom, as it is, cut and mended; then it waits.
_NETWORK = """
import itertools, json, sys, time
from innolab.base.errors import InnolabError
from innolab.hosts.network import Link, Network
from innolab.run import nodes
from innolab.run.equip import equip
with nodes.connected(sys.argv[1]) as hosts:
    equip(hosts, [], lambda said: None)
    try:
        with Network(["a", "b", "c"], dict(zip("ab", hosts))) as made:
            def reached():
                return [f"{one.name}{other.name}"
                        for one, other in itertools.permutations(made.nodes.values(), 2)
                        if one.reaches(other.address)]
            found = {"whole": reached()}
            made.cut("a")
            found["cut"] = reached()
            made.mend("a")
            made.shape("b", Link(bits_per_s=1_000_000))
            found["mended"] = reached()
            made.nodes["a"].take("10.77.0.250")
            found["holds"] = [name for name, one in made.nodes.items() if one.holds("10.77.0.250")]
            print(json.dumps(found), flush=True)
            time.sleep(120)
    except InnolabError as error:
        print(json.dumps({"error": str(error)}), flush=True)
"""


@pytest.fixture
def hosts(folder: Path) -> Iterator[Hosts]:
    with ssh_hosts(folder, "db1", "db2") as made:
        yield made


def _networked(hosts: Hosts) -> "tuple[subprocess.Popen[str], dict[str, Any]]":
    """Start the program of a network, and return it with what it found."""
    words = [*hosts.here, sys.executable, "-c", _NETWORK, str(hosts.inventory)]
    program = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert program.stdout
    return program, json.loads(program.stdout.readline() or "{}")


def _holders() -> list[str]:
    """Return the processes that hold namespaces."""
    found = subprocess.run(["pgrep", "-af", "^sleep infinity$"], capture_output=True, text=True)
    return found.stdout.splitlines()


def _until_none(left: Any, limit_s: float = 30) -> None:
    deadline = time.monotonic() + limit_s
    while found := left():
        if time.monotonic() > deadline:
            pytest.fail(f"left: {found}")
        time.sleep(0.2)


@pytest.mark.alone
@pytest.mark.integration
@needs_namespaces
def test_nodes_on_two_hosts_and_here_are_of_one_network_until_it_is_killed(hosts: Hosts) -> None:
    before = _holders()
    program, found = _networked(hosts)
    everyone = ["ab", "ac", "ba", "bc", "ca", "cb"]
    assert found == {"whole": everyone, "cut": ["bc", "cb"], "mended": everyone, "holds": ["a"]}
    own = subprocess.run([*hosts.inside["db1"], "ip", "addr"], capture_output=True, text=True)
    assert "10.77.0.250" not in own.stdout, "the host's own network has none of it"
    program.send_signal(signal.SIGKILL)
    program.communicate()
    _until_none(lambda: [one for one in _holders() if one not in before])


@pytest.mark.alone
@pytest.mark.integration
@pytest.mark.thorough
@needs_namespaces
@pytest.mark.parametrize(
    ("obstacle", "says"),
    [
        ("ip link add old type vxlan id 7707 dstport 4789 local {own}",
         "Connecting hosts failed on db1. It said: "),
        ("ip route add blackhole {other}", "does not reach"),
    ],
    ids=["another carrier", "no way"],
)  # fmt: skip
def test_hosts_that_cannot_be_connected_are_named(hosts: Hosts, obstacle: str, says: str) -> None:
    addresses = {}
    for name, inside in hosts.inside.items():
        asked = [*inside, "ip", "-json", "addr", "show", "dev", "eth0"]
        found = json.loads(subprocess.run(asked, capture_output=True, check=True).stdout)
        addresses[name] = found[0]["addr_info"][0]["local"]
    words = obstacle.format(own=addresses["db1"], other=addresses["db2"]).split()
    subprocess.run([*hosts.inside["db1"], *words], check=True)
    program, found = _networked(hosts)
    program.communicate()
    assert says in found["error"]


def _run(hosts: Hosts, folder: Path) -> "subprocess.Popen[str]":
    env = {**os.environ, "INNOLAB_REPORTS": str(folder / "reports")}
    words = [*hosts.here, str(BIN / "innolab"), "run", *_STUDY]
    words += ["-p", "devices=host", "-p", f"nodes={hosts.inventory}"]
    return subprocess.Popen(
        words, env=env, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip


def _running() -> list[str]:
    """Return what runs from a host's own folder."""
    found = subprocess.run(["pgrep", "-af", str(FOLDER)], capture_output=True, text=True)
    return [line for line in found.stdout.splitlines() if "pgrep" not in line]


@pytest.mark.alone
@pytest.mark.integration
@needs_namespaces
def test_a_study_spreads_its_servers_over_hosts_also_after_it_was_killed(
    hosts: Hosts, innolab: Innolab, folder: Path
) -> None:
    first = _run(hosts, folder)
    deadline = time.monotonic() + 300
    while sum("mysqld" in line for line in _running()) < 2:
        assert first.poll() is None, first.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.2)
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    _until_none(_running)

    said, complained = (second := _run(hosts, folder)).communicate(timeout=600)
    assert second.returncode == 0, complained
    assert not _running()
    report = Path(said.strip()).parent
    runs = RunLog(report / runlog.FILE).load()[0]
    assert [run.error for run in runs if run.status == "failed"] == []
    on = {run.factors["system"]: run.conditions["on_host"] for run in runs}
    assert on["spread"] == {"source": 1, "replica1": 2}
    assert on["pyramid"] == {"top": 1, "web": 2, "leaf": 1}
    [failed] = [run for run in runs if run.factors["system"] == "failover"]
    assert failed.conditions["moved"]["first_to"] in ("replica1", "replica2")
    page = (report / "index.html").read_text()
    assert "leaf, replica2, source, top (hosts A)" in page
    assert "replica1, web (hosts B)" in page
    verified = innolab("verify", str(report), INNOLAB_REPORTS=str(folder / "reports"))
    assert verified.returncode == 0, verified.stdout + verified.stderr
    for name in hosts.inside:
        assert not (folder / name / "brought" / "work").exists()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["-p", "nodes=lab", "-p", "devices=host", "--hosts", "lab"], "give one of them"),
        (["-p", "nodes=lab", "-p", "devices=15k"], "add -p devices=host"),
        (["-p", "nodes=no-such", "-p", "devices=host"], "There is no inventory"),
    ],
)
def test_what_does_not_go_with_several_hosts_is_refused(
    innolab: Innolab, given: list[str], says: str
) -> None:
    done = innolab("run", *_STUDY, *given)
    assert done.returncode == 2
    assert says in done.stderr
