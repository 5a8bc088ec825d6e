"""A host from raw disks to a measured array, in the lab: create, check, converge, reboot, refuse.

The tests of this file run in their order, on one guest that the first of them raises.
"""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import BIN, ROOT, Innolab

from innolab.hosts import machine
from innolab.record.run import Run
from innolab.record.runlog import RunLog

pytestmark = [pytest.mark.alone, pytest.mark.lab]

_SITE = ("-i", "playbooks/inventories/lab", "playbooks/site.yml")
_RECAP = re.compile(r"^(?:lab|localhost) .*changed=(\d+)", re.MULTILINE)
_LAYOUTS = ["single-1", "raid1-2", "raid1-split-4", "raid5-4", "raid10-4"]
_MOUNT = "/srv/innolab/data"


class Lab:
    """A lab in a cache of its own, and the words to reach it."""

    def __init__(self, cache: Path) -> None:
        self.cache = cache
        self.env = {"INNOLAB_CACHE": str(cache), "INNOLAB_REPORTS": str(cache / "reports")}

    @property
    def record(self) -> dict[str, Any]:
        record: dict[str, Any] = json.loads((self.cache / "lab/lab.json").read_text())
        return record

    def make(self, target: str) -> str:
        return _done(["make", target], self.env).stdout

    def ssh(self, script: str) -> str:
        words = ["ssh", "-F", str(self.cache / "lab/ssh_config"), "lab", script]
        return _done(words, {}).stdout

    def play(self, *words: str, **variables: Any) -> "subprocess.CompletedProcess[str]":
        given = ["-e", json.dumps(variables)] if variables else []
        return _ran([str(BIN / "ansible-playbook"), *_SITE, *words, *given], self.env)

    def converge(self, **variables: Any) -> int:
        """Plan, give the hash back, and return how many tasks changed something."""
        planned = self.play("--tags", "arrays", "--check", **variables)
        assert planned.returncode == 0, planned.stdout + planned.stderr
        found = re.search(r"storage_confirm=([0-9a-f]{64})", planned.stdout)
        confirm = {"storage_confirm": found[1]} if found else {}
        done = self.play("--tags", "arrays", **variables, **confirm)
        assert done.returncode == 0, done.stdout + done.stderr
        return _changed(done)

    def disks(self) -> list[str]:
        """Return a digest of all that was ever written to each disk, as its image has it."""
        return [_digest(path) for path in sorted((self.cache / "lab/disks").iterdir())]


def _ran(words: list[str], env: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        words,
        env={**os.environ, "ANSIBLE_CONFIG": "playbooks/ansible.cfg", **env},
        capture_output=True, text=True, cwd=ROOT, timeout=900,
    )  # fmt: skip


def _done(words: list[str], env: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    done = _ran(words, env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def _said(done: "subprocess.CompletedProcess[str]") -> str:
    """Return what a playbook said, its lines joined, which it breaks where it likes."""
    return " ".join(done.stdout.split())


def _changed(done: "subprocess.CompletedProcess[str]") -> int:
    return sum(int(number) for number in _RECAP.findall(done.stdout))


def _digest(path: Path) -> str:
    """Return a digest of a sparse file's data and where they lie; holes cost nothing."""
    digest = hashlib.sha256()
    size = path.stat().st_size
    with path.open("rb", buffering=0) as file:
        at = 0
        while at < size:
            try:
                begin = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError:
                break
            at = os.lseek(file.fileno(), begin, os.SEEK_HOLE)
            os.lseek(file.fileno(), begin, os.SEEK_SET)
            for start in range(begin, at, 2**20):
                block = file.read(min(2**20, at - start))
                # A block of zeros is no datum: punching a hole there changes nothing.
                if block.strip(b"\0"):
                    digest.update(f"{start}:".encode() + block)
    return digest.hexdigest()


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    cache = Path(tempfile.mkdtemp(prefix="innolab-lab-", dir="/var/tmp"))
    cache.chmod(0o755)
    for name in ("builds", "etc", "tools"):
        (cache / name).symlink_to(machine.cache_folder() / name)
    (cache / "reports").mkdir()
    one = Lab(cache)
    one.make("lab")
    yield one
    one.make("lab-down")
    shutil.rmtree(cache)


def _storage(layout: str, disks: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {"storage_changes": {"layout": layout, "disks": disks, **more}}


def test_the_lab_has_eight_named_disks_and_a_second_make_changes_nothing(lab: Lab) -> None:
    ids = lab.ssh("ls /dev/disk/by-id").split()
    assert {disk["id"] for disk in lab.record["disks"]} <= set(ids)
    assert len(lab.record["disks"]) == 8
    assert re.search(r"localhost .*changed=0 .*failed=0", lab.make("lab"))


def test_nothing_happens_without_the_hash_of_the_plan(lab: Lab) -> None:
    before = lab.disks()
    wanted = _storage("raid10", lab.record["disks"][:4])
    shown = lab.play("--check", **wanted)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "mdadm --create" in _said(shown)
    assert "mysql-5.6.24 would be copied" in _said(shown)
    assert lab.ssh("ls /var/cache") == lab.ssh("ls /var/cache | grep -v innolab")
    for confirm in ({}, {"storage_confirm": "0" * 64}):
        refused = lab.play("--tags", "arrays", **wanted, **confirm)
        assert refused.returncode
        assert "nothing was changed" in _said(refused)
    assert lab.disks() == before


@pytest.mark.thorough
def test_an_array_converges_once_and_outlives_a_reboot(lab: Lab) -> None:
    wanted = _storage("raid10", lab.record["disks"][:4])
    assert lab.converge(**wanted) > 0
    assert lab.converge(**wanted) == 0
    before = lab.ssh(f"findmnt -no SOURCE,TARGET {_MOUNT}; cat /proc/sys/kernel/random/boot_id")
    _done([str(BIN / "ansible"), "-i", "playbooks/inventories/lab", "lab", "-m",
           "ansible.builtin.reboot"], lab.env)  # fmt: skip
    after = lab.ssh(f"findmnt -no SOURCE,TARGET {_MOUNT}; cat /proc/sys/kernel/random/boot_id")
    assert after.splitlines()[-1] != before.splitlines()[-1], "it was not started again"
    assert _MOUNT in after
    assert lab.ssh("readlink -f /dev/md/innolab-data").startswith("/dev/md")
    assert lab.converge(**wanted) == 0
    verified = _ran([str(BIN / "ansible-playbook"), "-i", "playbooks/inventories/lab",
                     "playbooks/verify.yml", "-e", json.dumps(wanted)], lab.env)  # fmt: skip
    assert verified.returncode == 0, verified.stdout + verified.stderr


def _flushes(lab: Lab) -> int:
    """Return how many flushes the members' disks got from a hundred synced writes."""
    fio = (
        f"fio --name=x --filename={_MOUNT}/flushes --size=4m --bs=4k --rw=randwrite --fsync=1 "
        "--number_ios=100 --ioengine=psync --output=/dev/null"
    )
    count = "awk '{n += $16} END {print n}' /sys/block/vd[a-z]/stat"
    # The system disk is one of them, but sees none of these writes.
    before, after = lab.ssh(f"sync; {count}; {fio}; {count}").split()
    return int(after) - int(before)


@pytest.mark.thorough
def test_without_barriers_no_flush_reaches_a_disk_and_it_can_be_undone(lab: Lab) -> None:
    wanted = _storage("raid10", lab.record["disks"][:4])
    assert _flushes(lab) >= 100
    off = {"barriers": False}
    refused = lab.play("--tags", "arrays", **wanted, filesystem_changes=off)
    assert refused.returncode
    assert "cache_is_nonvolatile" in _said(refused)
    assert _flushes(lab) >= 100
    lab.converge(**wanted, filesystem_changes={**off, "cache_is_nonvolatile": True})
    # md has a few of its own, when it marks the array as written to.
    assert _flushes(lab) < 40
    record = json.loads(lab.ssh("cat /etc/innolab/host.json"))["observed"]["barriers"]
    assert (record["requested"], record["observed"]) == (False, False)
    lab.converge(**wanted)
    assert _flushes(lab) >= 100


@pytest.mark.thorough
def test_another_geometry_is_refused_unless_ours_may_go(lab: Lab) -> None:
    lab.ssh(f"echo kept > {_MOUNT}/file; sync")
    before = lab.ssh("grep ^UUID /etc/fstab; mdadm --detail --scan")
    refused = lab.play("--tags", "arrays", **_storage("raid5", lab.record["disks"][:4]))
    assert refused.returncode
    assert "replace_ours" in _said(refused)
    # A mounted file system writes by itself, so disks are not compared here.
    assert lab.ssh("grep ^UUID /etc/fstab; mdadm --detail --scan") == before
    assert lab.ssh(f"cat {_MOUNT}/file") == "kept\n"
    assert lab.converge(**_storage("raid5", lab.record["disks"][:4], replace_ours=True)) > 0
    assert "raid5" in lab.ssh("cat /proc/mdstat")


@pytest.mark.thorough
def test_a_teardown_leaves_disks_without_a_signature(lab: Lab) -> None:
    assert lab.converge(storage_changes={"state": "absent"}) > 0
    for disk in lab.record["disks"]:
        assert lab.ssh(f"wipefs --no-act /dev/disk/by-id/{disk['id']}") == ""
    # Else the next plan would refuse what was left as data of somebody else's.
    assert set(lab.disks()) == {hashlib.sha256().hexdigest()}
    assert "md" not in lab.ssh("grep ^md /proc/mdstat || true")


_D = "/dev/disk/by-id/virtio-innolab-8"
# One Linux partition from sector 2048 on, and the mark of a table's end.
_PARTITION = (
    rf"printf '\000\000\000\000\203\000\000\000\000\010\000\000\000\020\000\000' | "
    f"dd of={_D} bs=1 seek=446 conv=notrunc status=none && "
    rf"printf '\125\252' | dd of={_D} bs=1 seek=510 conv=notrunc status=none && "
    f"blockdev --rereadpt {_D}"
)
_MEMBER = (
    f"mdadm --create /dev/md/foreign --run --level=1 --raid-devices=2 {_D} missing 2>/dev/null"
)
_SYSTEM = {"id": "virtio-innolab-system", "serial": "innolab-system", "size_bytes": 8 * 2**30}
# What is done to disk 8, how it is named then, and a word of the refusal.
_REFUSALS: dict[str, tuple[str, dict[str, Any], str]] = {
    "data without a signature": (
        f"printf data | dd of={_D} bs=1M seek=789 conv=notrunc status=none",
        {},
        f"not blank: data from byte {789 * 2**20} on",
    ),
    "a foreign file system": (f"mkfs.xfs -q -f {_D}", {}, "signature of xfs"),
    "a partition table": (_PARTITION, {}, "partition table|signature of"),
    "swap": (f"mkswap {_D} >/dev/null && swapon {_D}", {}, "swap"),
    "a mounted file system": (
        f"mkfs.xfs -q -f {_D} && mount -o ro,norecovery {_D} /mnt",
        {},
        "in use",
    ),
    "a member of a foreign array": (_MEMBER, {}, "part of|md array"),
    "a disk held open": (f"setsid sleep 60 <{_D} >/dev/null 2>&1 &", {}, "held open"),
    "the root disk": ("true", _SYSTEM, "in use"),
    "a wrong serial": ("true", {"serial": "other"}, "serial number should be other"),
    "a wrong size": ("true", {"size_bytes": 2**31}, "should have 2147483648 bytes"),
    "a disk that is not there": ("true", {"id": "virtio-innolab-9"}, "no such disk"),
}
# The refusals that are tried whenever the lab is raised.
_FIRST = ("a foreign file system", "a wrong serial")
_UNDO = (
    f"umount /mnt 2>/dev/null; swapoff {_D} 2>/dev/null; mdadm --stop --scan 2>/dev/null; "
    f"pkill -f 'slee[p] 60'; fallocate -p -o 0 -l {2**30} {_D}; true"
)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[] if case in _FIRST else pytest.mark.thorough)
        for case in _REFUSALS
    ],
)
def test_a_disk_in_doubt_is_refused_and_not_one_byte_changes(lab: Lab, case: str) -> None:
    prepare, change, word = _REFUSALS[case]
    lab.ssh(prepare)
    try:
        lab.ssh("sync")
        before = lab.disks()
        asked = _storage("single", [{**lab.record["disks"][7], **change}])
        refused = lab.play("--tags", "arrays", **asked, storage_confirm="0" * 64)
        assert refused.returncode
        assert re.search(word, _said(refused)), _said(refused)
        assert lab.disks() == before
    finally:
        lab.ssh(_UNDO)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("layout", "disks", "word"),
    [("raid5", "12", "at least 3"), ("raid6", "1234", "raid6"), ("raid1", "11", "twice")],
)
def test_a_layout_that_cannot_be_is_refused(lab: Lab, layout: str, disks: str, word: str) -> None:
    named = [lab.record["disks"][int(number) - 1] for number in disks]
    before = lab.disks()
    refused = lab.play("--tags", "arrays", **_storage(layout, named))
    assert refused.returncode
    assert word in _said(refused)
    assert lab.disks() == before


def _runs(lab: Lab) -> list[Run]:
    [folder] = (lab.cache / "reports/raid-comparison").iterdir()
    return RunLog(folder / "runs.jsonl").load()[0]


@pytest.mark.thorough
def test_a_trial_on_every_layout_though_the_power_is_cut_in_one(lab: Lab, innolab: Innolab) -> None:
    words = ["run", "raid-comparison", "--scale", "smoke", "-p", "inventory=lab",
             "-p", "builds=mysql-5.6.24", "-p", f"arrays={json.dumps(_LAYOUTS)}"]  # fmt: skip
    with subprocess.Popen(
        [BIN / "innolab", *words], env={**os.environ, **lab.env}, cwd=ROOT,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as run:  # fmt: skip
        end = time.monotonic() + 300
        while time.monotonic() < end and not (
            list((lab.cache / "reports").glob("*/*/runs.jsonl")) and len(_runs(lab)) == 1
        ):
            time.sleep(0.2)
        finished = _runs(lab)
        _wait_for_a_server(lab)
        os.kill(lab.record["pid"], signal.SIGKILL)
        assert run.stdout is not None
        said = run.stdout.read()
    assert run.returncode == 1, said
    assert "connection to lab was lost" in " ".join(said.split())
    lab.make("lab")
    again = innolab(*words, **lab.env)
    assert again.returncode == 0, again.stdout + again.stderr
    runs = _runs(lab)
    assert runs[: len(finished)] == finished, "a finished run was lost"
    assert {run.factors["device"] for run in runs} == set(_LAYOUTS)
    assert [run.status for run in runs].count("failed") == 1
    for one in runs:
        checks = {check.check: check for check in one.checks}
        assert one.status == "failed" or checks["array as asked"].result == "ok"
    software = lab.play("--tags", "software", mysql_host_builds=["mysql-5.6.24"])
    assert (software.returncode, _changed(software)) == (0, 0), software.stdout
    [folder] = (lab.cache / "reports/raid-comparison").iterdir()
    verified = innolab("verify", str(folder), **lab.env)
    assert verified.returncode == 0, verified.stdout + verified.stderr


def _wait_for_a_server(lab: Lab) -> None:
    """Return once the next trial's server is at work on its array."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        if lab.ssh("pgrep -f 'defaults-fil[e]=/' || true").strip():
            return
        time.sleep(0.5)
    pytest.fail("no server started on the next array")


def test_lab_down_leaves_nothing_but_the_image(lab: Lab) -> None:
    pid = lab.record["pid"]
    lab.make("lab-down")
    # Of an ended process whose parent has not asked for it yet there is a line left.
    stat = Path(f"/proc/{pid}/stat")
    assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"
    assert [path.name for path in (lab.cache / "lab").iterdir()] == ["image"]
