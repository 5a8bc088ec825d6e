"""The playbook makes a disk that can be limited, and takes it down: real mounts, real limits."""

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from test_tools import bring
from test_workstation import PLAYBOOKS, TOOLS, new_folder

from innolab.hosts import machine

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(os.geteuid() != 0, reason="loop devices, mounts and cgroups need root"),
]

GROUP = "innolab-test"  # not the one of a study that may run meanwhile
SIZE = 400_000_000  # mkfs.xfs makes none below 300 MB
ABSENT = {"state": "absent"}
UNCHANGED, CHANGED = " changed=0 ", " changed=1 "


class Place:
    """A folder for one disk, the programs to make and use it, and what the host has of it."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.disk = folder / "a disk"
        self.programs = programs

    def ask(self, *options: str, before: Sequence[str] = (), **wanted: Any) -> str:
        """Run the playbook and return all that it said, as one line."""
        own = {"folder": str(self.disk), "cgroup": GROUP, "mkfs": str(self.programs / "mkfs.xfs")}
        variables = {"emulated_disk_wanted": {**own, "size_bytes": SIZE, **wanted}}
        words = [*before, TOOLS / "ansible-playbook", PLAYBOOKS / "emulated_disk.yml", *options]
        done = subprocess.run(
            [*words, f"--extra-vars={json.dumps(variables)}"],
            env={**os.environ, "ANSIBLE_CONFIG": str(PLAYBOOKS / "ansible.cfg")},
            capture_output=True,
            text=True,
        )
        said = done.stdout + done.stderr
        assert ("fatal: " in said) == (done.returncode != 0), said
        return " ".join(said.split())

    def seen(self) -> dict[str, Any]:
        """Return what this host has of the disk, asked in other ways than the module does."""
        loops = json.loads(printed("losetup", "--list", "--json") or '{"loopdevices": []}')
        below = str(self.disk)
        tree = [(x, x.stat().st_ino, x.stat().st_mtime_ns) for x in self.disk.rglob("*")]
        return {
            "mounts": [
                x
                for x in printed("findmnt", "-rno", "TARGET,FSTYPE").splitlines()
                if x.startswith(below.replace(" ", "\\x20"))
            ],
            "loops": [x for x in loops["loopdevices"] if x["back-file"].startswith(below)],
            "cgroups": [str(x) for x in Path("/sys/fs/cgroup").glob(f"**/{GROUP}")],
            "files": sorted(tree) if self.disk.exists() else None,
        }


NOTHING = {"mounts": [], "loops": [], "cgroups": [], "files": None}


def printed(*words: str | Path) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def programs() -> Iterator[Path]:
    with new_folder() as cache:
        yield bring(cache, ["fio", "xfsprogs"])


@pytest.fixture
def place(programs: Path) -> Iterator[Place]:
    with new_folder() as folder:
        one = Place(folder, programs)
        try:
            yield one
        finally:
            one.ask(**ABSENT)
            assert one.seen() == NOTHING


def record(place: Place) -> dict[str, Any]:
    return json.loads((place.disk / "disk.json").read_text())


@pytest.mark.parametrize("backing", ["memory", pytest.param("disk", marks=pytest.mark.thorough)])
def test_disk_is_made_as_its_record_says_and_taken_down(place: Place, backing: str) -> None:
    wanted = {"backing": backing, "user": machine.SERVER_USER}
    before = place.seen()
    assert CHANGED in place.ask("--check", **wanted)
    assert place.seen() == before == NOTHING

    assert CHANGED in place.ask(**wanted)
    said, image, data = record(place), place.disk / "backing/image", place.disk / "data"
    assert (said["backing"], said["size_bytes"], said["data"]) == (backing, SIZE, str(data))
    mounted = json.loads(printed("findmnt", "-J", "-o", "SOURCE,FSTYPE,MAJ:MIN,OPTIONS", data))
    assert mounted["filesystems"] == [
        {
            "source": said["node"],
            "fstype": "xfs",
            "maj:min": said["device"],
            "options": said["mount_options"],
        }
    ]
    [loop] = json.loads(printed("losetup", "--list", "--json", said["node"]))["loopdevices"]
    assert (loop["back-file"], loop["dio"]) == (str(image), backing == "disk")
    assert image.stat().st_size == SIZE
    assert f"meta-data={said['node']}" in said["xfs_info"]
    assert (Path(said["cgroup"]) / "cgroup.procs").read_text() == ""
    assert (data.owner(), data.stat().st_mode & 0o777) == (machine.SERVER_USER, 0o755)

    (data / "kept").touch()
    before = place.seen()
    assert UNCHANGED in place.ask(**wanted)
    assert CHANGED in place.ask("--check", **ABSENT)
    assert CHANGED in place.ask("--check", **wanted | {"size_bytes": SIZE + 2**20})
    assert place.seen() == before

    assert CHANGED in place.ask(**ABSENT)
    assert place.seen() == NOTHING
    assert UNCHANGED in place.ask(**ABSENT)


@pytest.mark.thorough
def test_torn_disk_is_made_again(place: Place) -> None:
    place.ask()
    for tear in (
        "rm disk.json",
        "umount data",
        "umount data; losetup --detach $node",
        "umount data; rm backing/image",
        "rmdir $cgroup",
        "mount -t tmpfs none data",
        "losetup --find backing/image",
    ):
        facts = {name: str(value) for name, value in record(place).items()}
        subprocess.run(["sh", "-ec", tear], cwd=place.disk, env=os.environ | facts, check=True)
        assert CHANGED in place.ask(), tear
        assert (len(place.seen()["mounts"]), len(place.seen()["loops"])) == (2, 1), tear
    assert UNCHANGED in place.ask()


def program(place: Place, script: str) -> dict[str, str]:
    """Return what makes the module run a script in the place of mkfs.xfs."""
    file = place.disk.parent / "mkfs"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return {"mkfs": str(file)}


@pytest.mark.thorough
def test_run_that_was_killed_is_made_again(place: Place) -> None:
    place.ask(**program(place, "kill -9 $PPID"))
    left = place.seen()
    assert (len(left["mounts"]), len(left["loops"])) == (1, 1)
    assert CHANGED in place.ask()
    assert record(place)["size_bytes"] == SIZE


@pytest.mark.thorough
def test_run_that_fails_takes_down_what_it_made(place: Place) -> None:
    said = place.ask(**program(place, "echo no such luck >&2; exit 1"))
    assert "failed: no such luck" in said
    assert place.seen() == NOTHING


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("state", "make"),
    [
        ("present", "mkdir disk; touch disk/letter"),
        ("absent", "mkdir disk; touch disk/letter"),
        ("absent", "mkdir -p disk/backing; touch disk/backing/image disk/backing/letter"),
        ("absent", "mkdir -p disk/data; touch disk/data/letter"),
        ("absent", "mkdir disk other; touch other/image; ln -s ../other disk/backing"),
        ("present", "mkdir other; ln -s other disk"),
        ("absent", "touch disk"),
    ],
)
def test_foreign_folder_is_refused_untouched(
    programs: Path, folder: Path, state: str, make: str
) -> None:
    def files() -> list[Any]:
        return [(x, x.lstat().st_ino, x.lstat().st_mtime_ns) for x in folder.rglob("*")]

    subprocess.run(["sh", "-ec", make], cwd=folder, check=True)
    before = files()
    said = Place(folder, programs).ask(state=state, folder=str(folder / "disk"))
    assert "nothing was touched" in said
    assert files() == before


@pytest.mark.thorough
def test_disk_in_use_is_not_taken_down(place: Place) -> None:
    place.ask()
    before = place.seen()
    with subprocess.Popen([*machine.within(Path(record(place)["cgroup"])), "sleep", "600"]) as user:
        while not (Path(record(place)["cgroup"]) / "cgroup.procs").read_text():
            pass
        said = [place.ask(**ABSENT), place.ask(size_bytes=SIZE + 2**20)]
        user.kill()
    assert all(f"still holds processes ({user.pid})" in one for one in said), said
    assert place.seen() == before


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ({"folder": "relative"}, "relative should be an absolute path"),
        ({"mkfs": "mkfs.nothing"}, "this host has no program mkfs.nothing, which makes XFS"),
        ({"user": "nobody-at-all"}, "no such user"),
        ({"size_bytes": 2**50}, f"bytes of memory are free for a disk of {2**50}"),
        ({"size_bytes": 2**50, "backing": "disk"}, "bytes of disk are free for a disk"),
    ],
)
def test_what_cannot_be_made_is_said(place: Place, wanted: dict[str, Any], reason: str) -> None:
    assert reason in place.ask(**wanted)
    assert place.seen() == NOTHING


@pytest.mark.thorough
def test_caller_without_root_is_explained(place: Place) -> None:
    """As nobody: in a namespace where our own user has no name, but may still read our files."""
    said = place.ask(before=["unshare", "--user"])
    assert "loop devices, mounts and control groups need root; run this as root" in said


@pytest.mark.alone
def test_limit_set_in_the_control_group_holds(place: Place) -> None:
    place.ask()
    said = record(place)
    group, device = Path(said["cgroup"]), said["device"]
    name, limit = {
        "v1": ("blkio.throttle.read_iops_device", f"{device} 500"),
        "v2": ("io.max", f"{device} riops=500"),
    }[said["controller"]]
    (group / name).write_text(limit)

    reads = ["--name=reads", f"--filename={said['data']}/file", "--size=64M", "--rw=randread"]
    reads += ["--direct=1", "--bs=4k", "--output-format=json"]
    subprocess.run([place.programs / "fio", *reads, "--create_only=1"], check=True)
    fio = [str(place.programs / "fio"), *reads, "--time_based", "--runtime=4"]
    done = json.loads(printed(*machine.within(group), *fio))
    assert done["jobs"][0]["read"]["iops"] == pytest.approx(500, rel=0.05)
