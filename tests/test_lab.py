"""The lab without a guest: QEMU's words, whose process it is, refusals, and the inventory."""

import fcntl
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import BIN, PLAYBOOKS, ROOT

from innolab.hosts.lab import machine, qemu
from innolab.hosts.lab.image import ImageRecipe
from innolab.hosts.lab.machine import LabError
from innolab.hosts.lab.program import alone, main
from innolab.hosts.lab.qemu import Guest, GuestShape

DEVICES = ROOT / "data/devices.csv"
SHAPE = GuestShape(2, 2**31, 8, 2**31, "15k", {"iops-total": 200})
RECORD: dict[str, Any] = {
    "port": 22022,
    "user": "root",
    "key": "/a lab/image/id_ed25519",
    "known_hosts": "/a lab/known_hosts",
    "cpus": 2,
    "memory_bytes": 2**31,
    "disks": [{"id": "virtio-innolab-1", "serial": "innolab-1", "size_bytes": 2**31}],
    "device": "15k",
    "limits": {"iops-total": 200},
    "image": "another",
}

Program = Callable[[str, str], None]


@pytest.fixture
def guest(tmp_path: Path) -> Guest:
    one = Guest(tmp_path / "lab")
    one.image.folder.mkdir(parents=True)
    one.image.host_key.write_text("ssh-ed25519 AAAA lab\n")
    return one


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Put a script of a name before all other programs."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")

    def write(name: str, script: str) -> None:
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)

    return write


def play(cache: Path, *options: str, before: tuple[str, ...] = (), **variables: Any) -> str:
    """Run the playbook and return all that it said, as one line."""
    words = [*before, BIN / "ansible-playbook", PLAYBOOKS / "lab.yml", *options]
    done = subprocess.run(
        [*words, f"--extra-vars={json.dumps(variables)}"],
        env={
            **os.environ,
            "ANSIBLE_CONFIG": str(PLAYBOOKS / "ansible.cfg"),
            "INNOLAB_CACHE": str(cache),
        },
        capture_output=True,
        text=True,
    )
    said = done.stdout + done.stderr
    assert ("fatal: " in said) == (done.returncode != 0), said
    return " ".join(said.split())


@pytest.mark.parametrize(
    ("device", "found"),
    [
        ("15k", {"iops-total": 200}),
        ("x25-e", {"iops-read": 35000, "iops-write": 3300,
                   "bps-read": 250_000_000, "bps-write": 170_000_000}),
        ("fusionio-320", {"bps-read": 700_000_000, "bps-write": 500_000_000}),
    ],
)  # fmt: skip
def test_one_arm_has_one_limit_and_flash_two(device: str, found: dict[str, int]) -> None:
    assert qemu.limits(DEVICES, device) == found


def test_unknown_device_is_said_with_those_that_are_known() -> None:
    with pytest.raises(LabError, match=r"no device floppy; name one of 15k, .*x25-e"):
        qemu.limits(DEVICES, "floppy")


def test_every_data_disk_is_limited_and_flushes_and_the_system_disk_is_not(guest: Guest) -> None:
    words = guest.argv(SHAPE, "tcg", 2222)
    drives = [word for word in words if word.startswith("if=none,")]
    limited = [drive for drive in drives if "throttling.iops-total=200" in drive]
    assert (len(drives), len(limited)) == (9, 8)
    assert all("cache=none" in drive and "burst" not in drive for drive in limited)
    devices = [word for word in words if word.startswith("virtio-blk-pci,")]
    assert all(device.endswith(",write-cache=on") for device in devices)
    serials = [f"serial=innolab-{n}" for n in ("system", *range(1, 9))]
    assert [device.split(",")[2] for device in devices] == serials


def test_guest_is_reached_from_this_machine_only_and_reaches_nothing(guest: Guest) -> None:
    words = guest.argv(SHAPE, "tcg", 2222)
    [net] = [word for word in words if word.startswith("user,")]
    assert {"restrict=on", "hostfwd=tcp:127.0.0.1:2222-:22"} <= set(net.split(","))
    assert words.count("-netdev") == 1
    assert "-no-reboot" not in words, "a reboot of the guest would end it"
    assert "tcg,thread=multi" in words


def test_process_is_known_by_its_lock_and_never_by_its_number(guest: Guest) -> None:
    assert guest.pid() is None
    with subprocess.Popen(["sleep", "600"]) as other:
        guest.pid_file.write_text(f"{other.pid}\n")
        assert guest.pid() is None
        guest.stop(gently=True)
        assert other.poll() is None, "a process that is not ours was ended"
        other.kill()

    # Locks its pid file and waits, as QEMU does.
    holds = "import fcntl, sys; f = open(sys.argv[1], 'r+'); fcntl.lockf(f, fcntl.LOCK_EX)"
    script = f"{holds}; print(flush=True); sys.stdin.read()"
    words = [sys.executable, "-c", script, guest.pid_file]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as ours:
        assert ours.stdout
        ours.stdout.readline()
        assert guest.pid() == ours.pid
        guest.stop(gently=False)
        assert ours.wait(5) < 0
    assert guest.pid() is None


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("echo innolab: probed", "kvm"),
        ("sleep 600", "tcg"),  # its guests hang
        ("echo innolab: probed; exit 134", "tcg"),  # QEMU gives up
        ("echo some other words", "tcg"),
    ],
)
def test_kvm_is_used_only_where_a_guest_ran_on_it(
    guest: Guest, program: Program, monkeypatch: pytest.MonkeyPatch, script: str, found: str
) -> None:
    monkeypatch.setattr(qemu, "_PROBE_LIMIT_S", 1)
    monkeypatch.setattr(os, "access", lambda path, mode: path == "/dev/kvm")
    version = "[ $1 = --version ] && { echo QEMU 7.2; exit; }\n"
    program(qemu.QEMU, f"{version}exec 2>&1; {script}")
    assert guest.probe() == found

    program(qemu.QEMU, f"{version}exit 1")
    assert guest.probe() == found, "the answer was not kept"
    program(qemu.QEMU, "[ $1 = --version ] && { echo QEMU 9.9; exit; }\nexit 1")
    assert guest.probe() == "tcg", "the answer of another QEMU was taken"


def test_port_of_last_time_is_taken_again_if_it_is_free(guest: Guest, program: Program) -> None:
    program(qemu.QEMU, "exit 0")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        guest.record.write_text(json.dumps({"port": port}))
        other = guest.start(SHAPE, "tcg")
    assert other != port
    assert f"[127.0.0.1]:{other} ssh-ed25519 AAAA" in guest.known_hosts.read_text()
    assert guest.start(SHAPE, "tcg") == port


def test_port_that_is_lost_to_another_is_no_error_but_all_else_is(
    guest: Guest, program: Program
) -> None:
    lost = "echo Could not set up host forwarding rule >&2; exit 1"
    program(qemu.QEMU, f"[ -e lost ] && exit; touch lost; {lost}")
    assert guest.start(SHAPE, "tcg")
    program(qemu.QEMU, "echo cannot set up guest memory >&2; exit 1")
    with pytest.raises(LabError, match="cannot set up guest memory"):
        guest.start(SHAPE, "tcg")


def test_sources_are_this_machines_debian_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        "Packages|main|bookworm|http://mirror.test/debian/",
        "Packages|main|bookworm-security|http://mirror.test/debian-security/",
        "Packages|main|bookworm|http://vendor.test/repository/",
        "Packages|contrib|bookworm|http://mirror.test/debian/",
        "DEP-11|main|bookworm|http://mirror.test/debian/",
        "Packages|main|sid|http://mirror.test/debian/",
    ]
    monkeypatch.setattr(machine, "run", lambda *words: "\n".join(lines))
    monkeypatch.setattr(machine, "_KEYRING", Path("/nowhere"))
    assert machine.archive("bookworm") == [
        "deb http://mirror.test/debian-security/ bookworm-security main",
        "deb http://mirror.test/debian/ bookworm main",
    ]
    with pytest.raises(LabError, match="name no Debian archive of trixie"):
        machine.archive("trixie")


def test_another_recipe_is_another_image(tmp_path: Path) -> None:
    (tmp_path / "guest").mkdir()
    (tmp_path / "guest/hostname").write_text("lab")
    before = ImageRecipe(tmp_path, ["fio", "mdadm"], 2**33)
    first = before.digest()
    assert before._replace(packages=["mdadm", "fio"]).digest() == first
    others = {before._replace(packages=["fio"]).digest(), before._replace(system_bytes=1).digest()}
    (tmp_path / "guest/hostname").write_text("other")
    assert len({first, *others, before.digest()}) == 4


def test_missing_programs_are_named_to_who_cannot_install_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    packages = machine.missing_packages()
    assert {"qemu-system-x86", "mmdebstrap", "uidmap"} <= set(packages)
    with pytest.raises(LabError, match=r"has no .*install with: sudo apt-get install .*mmdebstrap"):
        machine.require_installable(packages)


def test_another_kind_of_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.platform, "machine", lambda: "aarch64")
    with pytest.raises(LabError, match="needs Linux on x86_64, this is Linux on aarch64"):
        machine.require_kind()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"memory_bytes": 2**50}, "the guest would take 1125899906842624 bytes of memory"),
        ({"memory_bytes": 2**20}, "would run out of memory while it starts"),
        ({"disk_bytes": 2**50}, "may grow to"),
        ({"disks": 0}, "disks should be 1 to 24"),
        ({"device": "floppy"}, "has no device floppy"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_made(
    folder: Path, changes: dict[str, Any], reason: str
) -> None:
    for options in ([], ["--check"]):
        assert reason in play(folder / "cache", *options, lab_changes=changes)
    assert not (folder / "cache").exists()


def test_taking_down_no_lab_changes_nothing(folder: Path) -> None:
    assert " changed=0 " in play(folder / "cache", lab_state="absent", lab_image="absent")
    assert not (folder / "cache").exists()


def test_check_mode_says_what_would_be_made_and_makes_nothing(folder: Path) -> None:
    said = play(folder / "cache", "--check", "--diff")
    assert " changed=1 " in said
    assert "+8 data disks of 1073741824 bytes" in said
    assert not (folder / "cache").exists()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("record", "reason"),
    [(RECORD, "a lab already, but another (image: another, not"), ({}, "not what this version")],
)
def test_lab_of_another_make_is_left_until_it_is_taken_down(
    folder: Path, record: dict[str, Any], reason: str
) -> None:
    lab = folder / "lab"
    (lab / "disks").mkdir(parents=True)
    (lab / "disks/innolab-1.img").write_text("data")
    (lab / "lab.json").write_text(json.dumps(record))
    assert reason in play(folder)
    assert (lab / "disks/innolab-1.img").read_text() == "data"

    assert " changed=1 " in play(folder, "--check", lab_state="absent")
    assert (lab / "lab.json").exists()
    assert " changed=1 " in play(folder, lab_state="absent")
    assert not lab.exists()


def test_program_answers_with_one_line_of_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = {"state": "absent", "folder": str(tmp_path / "lab")}
    assert main([json.dumps(asked), "--check"]) == 0
    [line] = capsys.readouterr().out.splitlines()
    nothing = {"before": "", "after": ""}
    assert json.loads(line) == {"changed": False, "diff": nothing, "lab": None}


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("no JSON", "the JSON object is not as the lab takes it: Invalid JSON"),
        ("{}", "folder is not as the lab takes it: Field required"),
        ('{"folder": "/x"}', "files is not as the lab takes it: Field required"),
        ('{"folder": "/x", "state": "up"}', "state is not as the lab takes it: Input should be"),
        ('{"folder": "lab", "state": "absent"}', "folder should be an absolute path, but lab"),
    ],
)
def test_options_that_the_lab_does_not_take_are_refused_in_one_sentence(
    capsys: pytest.CaptureFixture[str], asked: str, says: str
) -> None:
    assert main([asked]) == 1
    answer = capsys.readouterr()
    assert answer.out == ""
    assert answer.err.startswith(says)
    assert len(answer.err.splitlines()) == 1


def test_second_run_waits_for_the_first(tmp_path: Path) -> None:
    with alone(tmp_path):
        handle = os.open(tmp_path, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(handle)


def seen_by_ansible(cache: Path) -> "subprocess.CompletedProcess[str]":
    asked = "{{ [ansible_port, ansible_user, ansible_ssh_common_args, storage_disks] }}"
    words = ["lab", "--inventory", PLAYBOOKS / "inventories/lab", "--module-name", "debug"]
    return subprocess.run(
        [BIN / "ansible", *words, "--args", f"msg={asked}"],
        env={
            **os.environ,
            "INNOLAB_CACHE": str(cache),
            "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
            "ANSIBLE_CONFIG": str(PLAYBOOKS / "ansible.cfg"),
        },
        capture_output=True,
        text=True,
    )


def test_inventory_reads_what_the_lab_left(folder: Path) -> None:
    (folder / "lab").mkdir()
    (folder / "lab/lab.json").write_text(json.dumps(RECORD))
    done = seen_by_ansible(folder)
    assert done.returncode == 0, done.stderr
    port, user, ssh, disks = json.loads(done.stdout.split("=>", 1)[1])["msg"]
    assert (int(port), user, disks) == (22022, "root", RECORD["disks"])
    assert "-o 'UserKnownHostsFile=\"/a lab/known_hosts\"' -o StrictHostKeyChecking=yes" in ssh


def test_inventory_without_a_lab_has_the_host_and_says_what_to_do(folder: Path) -> None:
    words = [BIN / "ansible-inventory", "--inventory", PLAYBOOKS / "inventories/lab", "--list"]
    listed = subprocess.run(words, capture_output=True, text=True, check=True)
    assert json.loads(listed.stdout)["database_hosts"]["hosts"] == ["lab"]
    done = seen_by_ansible(folder)
    assert done.returncode != 0
    assert "there is no lab" in done.stdout + done.stderr
    assert "make lab" in done.stdout + done.stderr
