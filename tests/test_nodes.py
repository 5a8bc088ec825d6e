"""Topologies whose nodes lie on several hosts over ssh: one network, one study, nothing left."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import BIN, ROOT, Innolab
from ssh_hosts import Hosts, processes, ssh_hosts, until

from innolab.hosts.bundle import FOLDER
from innolab.hosts.network import why_impossible
from innolab.record import runlog
from innolab.record.runlog import RunLog

_STUDY = ["replication", "--scale", "smoke", "-p", "builds=mysql-5.6.24"]
needs_namespaces = pytest.mark.skipif(
    why_impossible() is not None, reason=f"hosts in namespaces: {why_impossible()}"
)
# What holds a namespace.
_HOLDER = "^sleep infinity$"
# One node on each host and one here: who reaches whom, as it is, cut and mended; then it waits.
_NETWORK = """
import itertools, json, sys, time
from innolab.base.errors import InnolabError
from innolab.hosts.network import Link, Network
from innolab.measure import nodes
from innolab.measure.nodes import equip
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
            made.reconnect("a")
            made.shape("b", Link(bits_per_s=1_000_000))
            found["mended"] = reached()
            made.nodes["a"].take("10.77.0.250")
            found["holds"] = [name for name, one in made.nodes.items() if one.holds("10.77.0.250")]
            print(json.dumps(found), flush=True)
            time.sleep(120)
    except InnolabError as error:
        print(json.dumps({"error": str(error)}), flush=True)
"""


# One arm of a study whose servers are spread, measured; prints what its run recorded.
_ONE_ARM = """
import json, sys, tempfile
from pathlib import Path
from innolab import studies
from innolab.base.clock import Clock
from innolab.hosts import machine
from innolab.record.plan import Silent
from innolab.measure import prepare
from innolab.measure.session import opened
from innolab.studies.experiment import Experiment
study = studies.find("replication")
asked = Experiment.fresh(study, {"scale": "smoke", "effort": "quick", "builds": ["mysql-9.7"],
                     "devices": ["host"], "nodes": sys.argv[1]})
with machine.measuring_alone(), tempfile.TemporaryDirectory() as place:
    ready = prepare.prepare(asked).with_plan(twins=[])
    [arm] = [vars(one) for one in ready.arms if one.commit == "semi-sync"]
    ready = ready.with_plan(arms=[arm])
    with opened(ready, Path(place), Silent(), Clock()) as session:
        run = session.run(ready.trials[0])
print(json.dumps({"status": run.status, "error": run.error, "on_host": run.conditions["on_host"],
                  "metrics": {k: v for row in run.observations for k, v in row.items()}}))
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


@pytest.mark.alone
@pytest.mark.integration
@needs_namespaces
def test_nodes_on_two_hosts_and_here_are_of_one_network_until_it_is_killed(hosts: Hosts) -> None:
    before = processes(_HOLDER)
    program, found = _networked(hosts)
    everyone = ["ab", "ac", "ba", "bc", "ca", "cb"]
    assert found == {"whole": everyone, "cut": ["bc", "cb"], "mended": everyone, "holds": ["a"]}
    own = subprocess.run([*hosts.inside["db1"], "ip", "addr"], capture_output=True, text=True)
    assert "10.77.0.250" not in own.stdout, "the host's own network has none of it"
    program.send_signal(signal.SIGKILL)
    program.communicate()
    until(lambda: set(processes(_HOLDER)) <= set(before), 30)


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


@pytest.mark.alone
@pytest.mark.integration
@pytest.mark.thorough
@needs_namespaces
def test_a_study_spreads_its_servers_over_hosts_also_after_it_was_killed(
    hosts: Hosts, innolab: Innolab, folder: Path
) -> None:
    first = _run(hosts, folder)
    # Each has a server of its own, started by what was brought there.
    until(lambda: len(processes(f"{FOLDER}.*mysqld")) >= 2 or first.poll() is not None, 300)
    assert first.poll() is None, first.communicate()[1]
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    until(lambda: not processes(str(FOLDER)), 30)

    said, complained = (second := _run(hosts, folder)).communicate(timeout=600)
    assert second.returncode == 0, complained
    assert not processes(str(FOLDER))
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


@pytest.mark.alone
@pytest.mark.integration
@pytest.mark.thorough
@needs_namespaces
def test_commits_wait_for_replicas_on_other_hosts(hosts: Hosts) -> None:
    words = [*hosts.here, sys.executable, "-c", _ONE_ARM, str(hosts.inventory)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=600)
    found = json.loads(done.stdout or json.dumps({"error": done.stderr}))
    # Where the source does not wait for both replicas, that is an error of the run.
    assert found["error"] is None
    assert found["on_host"] == {"source": 1, "replica1": 2, "replica2": 1}
    assert found["metrics"]["acknowledged"] > 0


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
