"""Hosts of an inventory measure with what is brought to them over ssh, and keep nothing running."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from conftest import BIN, ROOT, Innolab
from ssh_hosts import Hosts, processes, ssh_hosts, until

from innolab.base.errors import InputError
from innolab.hosts import bundle
from innolab.hosts.bundle import FOLDER, Bundle
from innolab.hosts.inventory import named_hosts
from innolab.hosts.network import why_impossible
from innolab.record import runlog
from innolab.record.runlog import RunLog
from innolab.storage import emulated
from innolab.verify import times_and_hosts

_STUDY = ["multi-buffer-pool", "--scale", "smoke", "-p", "builds=mysql-5.6.24",
          "-p", "devices=host"]  # fmt: skip
needs_namespaces = pytest.mark.skipif(
    why_impossible() is not None, reason=f"hosts in namespaces: {why_impossible()}"
)


def _inventory(folder: Path, lines: str) -> Path:
    path = folder / "hosts.yml"
    path.write_text(lines)
    return path


def test_a_group_is_all_its_hosts_and_a_name_is_one(tmp_path: Path) -> None:
    path = _inventory(
        tmp_path,
        "database_hosts:\n  hosts:\n    db2: {ansible_host: 192.0.2.2}\n    db1:\n"
        "  children:\n    fast:\n      hosts:\n        db3: {ansible_port: 2222}\n",
    )

    def names(asked: str) -> list[str]:
        return [one.address.name for one in named_hosts(asked)]

    assert names(str(path)) == ["db1", "db2", "db3"]
    assert names(f"{path}:fast") == ["db3"]
    assert names(f"{path}:db2") == ["db2"]
    assert named_hosts(f"{path}:db3")[0].address.port == 2222


@pytest.mark.parametrize(
    ("group", "says"),
    [
        ("fsat", "says nothing of the host 'fsat', nor of a group"),
        ("fast,slow", "names neither a host nor a group"),
        ("web", "'w1' is not in the group database_hosts"),
    ],
)
def test_a_group_that_cannot_measure_is_refused_by_name(
    tmp_path: Path, group: str, says: str
) -> None:
    path = _inventory(tmp_path, "database_hosts: {hosts: {db1: }}\nweb: {hosts: {w1: }}\n")
    with pytest.raises(InputError, match=says):
        named_hosts(f"{path}:{group}")


def test_a_host_that_does_not_answer_is_refused_and_nothing_is_written(
    innolab: Innolab, tmp_path: Path
) -> None:
    path = _inventory(
        tmp_path, "database_hosts: {hosts: {db1: {ansible_host: 127.0.0.1, ansible_port: 1}}}\n"
    )
    env = {"INNOLAB_REPORTS": str(tmp_path / "reports")}
    done = innolab("run", *_STUDY, "--hosts", str(path), **env)
    assert done.returncode == 2
    assert "db1 (root@127.0.0.1, port 1) cannot be reached" in done.stderr
    assert not (tmp_path / "reports").exists()


def test_arrays_are_of_one_host_that_is_named_otherwise(innolab: Innolab) -> None:
    done = innolab(
        "run", "raid-comparison", "-p", "inventory=lab", "--scale", "smoke", "--hosts", "lab"
    )
    assert done.returncode == 2
    assert "-p inventory=INVENTORY -p host=HOST" in done.stderr


def test_a_scheduler_and_hosts_exclude_each_other(innolab: Innolab) -> None:
    done = innolab("run", *_STUDY, "--hosts", "lab", "--scheduler", "tcp://127.0.0.1:1")
    assert done.returncode == 2
    assert "--hosts or --scheduler, not both" in done.stderr


def test_a_bundle_is_known_by_what_is_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    first = Bundle(["mysql-5.6.24"])
    assert Bundle(["mysql-5.6.24"]).digest == first.digest
    assert Bundle(["mysql-5.6.24", "mysql-9.7"]).digest != first.digest
    monkeypatch.setattr(bundle, "own_facts", lambda: {"version": "0", "commit": "x"})
    assert Bundle(["mysql-5.6.24"]).digest != first.digest


@pytest.fixture
def hosts(folder: Path) -> Iterator[Hosts]:
    with ssh_hosts(folder, "db1", "db2") as made:
        yield made


def _run(
    hosts: Hosts, folder: Path, study: Sequence[str] = (*_STUDY, "-p", "replicates=2")
) -> "subprocess.Popen[str]":
    words = [*hosts.here, str(BIN / "innolab"), "run", *study]
    env = {**os.environ, "INNOLAB_REPORTS": str(folder / "reports")}
    return subprocess.Popen(
        [*words, "--hosts", str(hosts.inventory)], env=env, cwd=ROOT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


@pytest.mark.thorough
@pytest.mark.alone
@pytest.mark.integration
@needs_namespaces
def test_two_hosts_over_ssh_make_one_report_also_after_the_coordinator_was_killed(
    hosts: Hosts, innolab: Innolab, folder: Path
) -> None:
    first = _run(hosts, folder)
    # Both measure: each has a server of its own, started by what was brought there.
    until(lambda: len(processes(f"{FOLDER}.*mysqld")) >= 2 or first.poll() is not None, 300)
    assert first.poll() is None, first.communicate()[1]
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    until(lambda: not processes(str(FOLDER)), 30)

    second = _run(hosts, folder)
    said, complained = second.communicate(timeout=600)
    assert second.returncode == 0, complained
    assert not processes(str(FOLDER))
    report = Path(said.strip()).parent
    runs = RunLog(report / runlog.FILE).load()[0]
    assert {run.block for run in runs} == {0, 1}
    assert len({run.member for run in runs}) == 2
    assert times_and_hosts.members(runs) == []
    verified = innolab("verify", str(report), INNOLAB_REPORTS=str(folder / "reports"))
    assert verified.returncode == 0, verified.stdout + verified.stderr
    page = (report / "index.html").read_text()
    assert "a host like these" in page
    for name in hosts.inside:
        # Credentials and half of an innolab are not left for others to read.
        brought = folder / name / "brought"
        assert not list(brought.glob("*.innolab-half"))
        assert (brought / "run").stat().st_mode & 0o077 == 0


@pytest.mark.alone
@pytest.mark.integration
@needs_namespaces
def test_a_host_that_is_busy_or_full_is_refused_by_name_and_nothing_is_brought(
    folder: Path,
) -> None:
    with ssh_hosts(folder, "db1", "db2") as hosts:
        small = ["mount", "-t", "tmpfs", "-o", "size=64m", "none", str(FOLDER)]
        subprocess.run([*hosts.inside["db2"], *small], check=True)
        full = _run(hosts, folder)
        assert "db2 has 64 MiB free where" in full.communicate(timeout=120)[1]
        assert full.returncode == 2

        hold = [sys.executable, "-c", _HOLDER]
        holder = subprocess.Popen([*hosts.inside["db1"], *hold], stdout=subprocess.PIPE)
        assert holder.stdout
        assert holder.stdout.readline()
        busy = _run(hosts, folder)
        assert "Another innolab measures on db1 already" in busy.communicate(timeout=120)[1]
        assert busy.returncode == 2
        assert not list((folder / "db1" / "brought").iterdir())
        holder.kill()
        holder.communicate()
    assert not (folder / "reports").exists()


_HOLDER = """
import time
from innolab.hosts import machine
with machine.measuring_alone():
    print("held", flush=True)
    time.sleep(120)
"""


@pytest.mark.alone
@pytest.mark.integration
@pytest.mark.thorough
@needs_namespaces
def test_a_host_whose_sshd_forwards_no_ports_is_named_with_what_ssh_said(folder: Path) -> None:
    with ssh_hosts(folder, "db1", settings="AllowTcpForwarding no") as hosts:
        run = _run(hosts, folder)
        complained = run.communicate(timeout=300)[1]
    assert run.returncode == 1
    assert "innolab ended on db1 as soon as it was started. It said: " in complained
    assert "forwarding failed" in complained
    assert not (folder / "reports").exists()


@pytest.mark.alone
@pytest.mark.integration
@pytest.mark.thorough
@needs_namespaces
@pytest.mark.skipif((why := emulated.why_impossible()) is not None, reason=f"devices: {why}")
@pytest.mark.parametrize("device", ["x25-e", "raid10-8x15k-timed"])
def test_a_host_emulates_devices_by_what_was_brought(folder: Path, device: str) -> None:
    words = ["--scale", "smoke", "-p", "builds=mysql-5.6.24", "-p", f"devices={device}"]
    with ssh_hosts(folder, "db1") as hosts:
        said, complained = _run(hosts, folder, ["more-memory", *words]).communicate(timeout=600)
    assert said, complained
    runs = RunLog(Path(said.strip()).parent / runlog.FILE).load()[0]
    assert {run.factors["device"] for run in runs} == {device}
    assert [run.error for run in runs if run.status == "failed"] == []
