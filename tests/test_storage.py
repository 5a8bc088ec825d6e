"""Storage roles: what is planned, what is refused and why, without a disk that could be lost."""

import copy
import hashlib
import importlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import BIN, COLLECTION, HOSTS, PLAYBOOKS


def util(name: str) -> Any:
    return importlib.import_module(f"{HOSTS}.plugins.module_utils.storage_{name}")


geometry, disks, refusals, plan = map(util, ("geometry", "disks", "refusals", "plan"))
contents = util("contents")
barriers, compare, files, host = map(util, ("barriers", "compare", "files", "host"))
Error = geometry.StorageError

SIZE = 2**31
IMAGE_BYTES = 2**25
MACHINE = "m" * 32
NAMES = [f"d{i}" for i in range(1, 9)]


def named(*names: str) -> list[dict[str, Any]]:
    return [{"id": name, "serial": f"s-{name}", "size_bytes": SIZE} for name in names]


def wish(layout: str, count: int, **changes: Any) -> dict[str, Any]:
    given = {
        "layout": layout,
        "disks": named(*NAMES[:count]),
        "chunk_kib": 512,
        "bitmap": "none",
        "journal": None,
        "raid10_copies": "near",
        "size_mib": None,
    }
    return given | changes


def blank(name: str, **changes: Any) -> Any:
    facts = disks.Facts(
        node=f"/dev/{name}",
        serials=(f"s-{name}",),
        size_bytes=SIZE,
        zeroes_itself=True,
        contents=contents.Contents("zeros", places=2048, read_bytes=SIZE),
    )
    return facts._replace(**changes)


def filled(name: str, digest: str = "data", **changes: Any) -> Any:
    """Return the facts of a disk with data on which no probe finds a signature."""
    held = contents.Contents(digest, places=2048, read_bytes=SIZE, filled=3, first=4096)
    return blank(name, contents=held, **changes)


def a_host(record: dict[str, Any] | None = None, **changes: Any) -> Any:
    facts = {name: blank(name) for name in NAMES}
    given = {"machine_id": MACHINE, "record": record or {}, "facts": facts, "live": {}}
    return plan.Host(**{**given, "mounts": {}, **changes})


def planned(wanted: dict[str, Any] | None, on: Any, **options: Any) -> Any:
    chosen = {"replace_ours": False, "zero": True} | options
    return plan.make(wanted and geometry.geometry(wanted), on, **chosen)


def after(wanted: dict[str, Any]) -> Any:
    """Return a blank host after a plan was carried out on it."""
    record = copy.deepcopy(planned(wanted, a_host()).record)
    on = a_host(record)
    for entry in record["places"]:
        place, uuid = plan.recorded(entry), entry["md_uuid"]
        xfs = disks.Signature("xfs", entry["xfs_uuid"])
        node = place.members[0].id if uuid is None else f"md-{place.name}"
        on.mounts[node] = [f"/srv/innolab/{place.name}"]
        used = (host.Use(f"mounted at /srv/innolab/{place.name}", node),)
        for disk in place.disks:
            held = {"uses": used, "exclusive_error": "busy", "signatures": (xfs,), "contents": None}
            if uuid:
                member = disks.Signature("linux_raid_member", "x")
                held |= {"signatures": (member,), "md_uuid": uuid, "holders": (node,)}
            on.facts[disk.id] = blank(disk.id, **held)
        if uuid:
            on.live[uuid] = {
                "node": node,
                "name": f"any:innolab-{place.name}",
                "level": place.level,
                "chunk_kib": place.chunk_kib,
                "raid10_layout": place.copies,
                "bitmap": place.bitmap,
                "has_journal": place.journal is not None,
                "runs_on": [disk.id for disk in place.disks],
                "holders": [],
                "array_state": "clean",
                "sync_action": "idle",
                "degraded": 0,
                "signatures": (xfs,),
                "probe_errors": (),
            }
    return on


WHOLE = [
    wish("single", 1),
    wish("raid1", 2),
    wish("raid1", 5),
    wish("raid1-split", 4),
    wish("raid1-split", 8),
    wish("raid5", 3),
    wish("raid5", 7, journal=named("d8")[0]),
    wish("raid10", 2),
    wish("raid10", 8),
    wish("raid10", 3, raid10_copies="far"),
]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (wish("raid6", 4), "'raid6' is unknown; known are single"),
        (wish("single", 2), "exactly 1"),
        (wish("raid1", 1), "at least 2"),
        (wish("raid1-split", 2), "at least 4"),
        (wish("raid1-split", 5), "odd number"),
        (wish("raid5", 2), "at least 3"),
        (wish("raid10", 1), "at least 2"),
        (wish("raid10", 0), "at least 2"),
        (wish("raid10", 4, chunk_kib=48), "power of two"),
        (wish("raid1", 2, journal=named("d8")[0]), "serves raid5 only"),
        (wish("raid5", 3, journal=named("d8")[0], bitmap="internal"), "takes no bitmap"),
        (wish("raid5", 3, journal=named("d1")[0]), "'d1' is named twice"),
        (wish("raid1", 2, disks=named("d1", "d1")), "'d1' is named twice"),
        (wish("raid1", 2, disks=named("d1", "../sda")), "no name in /dev/disk/by-id"),
        (wish("raid1", 2, size_mib=2049), "lie in 320 to 2048"),
        (wish("raid1", 2, size_mib=100), "lie in 320 to 2048"),
        (wish("raid1", 0, disks=[*named("d1"), {**named("d2")[0], "size_bytes": 7}]), "one size"),
    ],
)
def test_a_wish_that_makes_no_sense_says_why(given: dict[str, Any], says: str) -> None:
    with pytest.raises(Error, match=says):
        geometry.geometry(given)


def test_what_a_layout_has_no_use_for_does_not_make_it_another_geometry() -> None:
    mirror = geometry.geometry(wish("raid1", 2))
    assert geometry.geometry(wish("raid1", 2, chunk_kib=64, raid10_copies="far")) == mirror
    assert geometry.geometry(wish("raid1", 2, bitmap="internal")) != mirror


def test_split_mirrors_halve_the_disks() -> None:
    data, log = geometry.places(geometry.geometry(wish("raid1-split", 6)))
    assert [disk.id for disk in data.members] == ["d1", "d2", "d3"]
    assert [disk.id for disk in log.members] == ["d4", "d5", "d6"]
    assert (data.device, log.device) == ("/dev/md/innolab-data", "/dev/md/innolab-log")


def created(made: Any) -> list[str]:
    return [line for line in made.lines() if line.startswith("mdadm --create")]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (wish("raid1", 3), "--level=1 --bitmap=none --assume-clean --raid-devices=3"),
        (wish("raid5", 3), "--level=5 --chunk=512 --bitmap=none --assume-clean --raid-devices=3"),
        (wish("raid10", 4), "--level=10 --chunk=512 --layout=n2 --bitmap=none"),
        (wish("raid10", 2, raid10_copies="far"), "--layout=f2 --bitmap=none"),
        (wish("raid1", 2, bitmap="internal"), "--bitmap=internal"),
        (wish("raid1", 2, size_mib=512), "--size=524288"),
        (
            wish("raid5", 3, journal=named("d8")[0]),
            "--chunk=512 --write-journal=/dev/disk/by-id/d8 --assume-clean",
        ),
    ],
)
def test_an_array_is_made_without_a_question_or_a_default(
    given: dict[str, Any], words: str
) -> None:
    made = planned(given, a_host())
    [command] = created(made)
    assert words in command
    assert "--run --metadata=1.2 --homehost=any --name=innolab-data" in command
    last = given["disks"][-1]["id"]
    assert command.endswith(f"/dev/disk/by-id/{last}")
    wait = next(i for i, step in enumerate(made.steps) if step.kind == "wait")
    assert command in made.steps[wait - 1].lines()


def test_assume_clean_only_where_every_member_was_zeroed() -> None:
    on = a_host()
    on.facts["d2"] = blank("d2", zeroes_itself=False)
    for made in (planned(wish("raid1", 2), on), planned(wish("raid1", 2), a_host(), zero=False)):
        assert "--assume-clean" not in created(made)[0]
        assert made.record["places"][0]["assume_clean"] is False
        assert not any(step.kind == "zeros" for step in made.steps)
    made = planned(wish("raid1", 2), a_host())
    kinds = [step.kind for step in made.steps]
    assert kinds.index("zeros") < kinds.index("wait")
    assert sum("fallocate --punch-hole" in line for line in made.lines()) == 2
    assert made.record["places"][0]["assume_clean"] is True


@pytest.mark.parametrize("given", WHOLE, ids=lambda x: f"{x['layout']}-{len(x['disks'])}")
def test_the_same_geometry_again_is_nothing_to_do(given: dict[str, Any]) -> None:
    on = after(given)
    assert planned(given, on).steps == []
    assert planned(given, on, replace_ours=True).steps == []


def test_the_hash_speaks_of_host_disks_geometry_and_steps() -> None:
    given = wish("raid10", 4)
    first = planned(given, a_host()).hash
    assert first == planned(given, a_host()).hash
    slow = a_host()
    slow.facts["d3"] = blank("d3", zeroes_itself=False)
    others = [
        planned(given, a_host(machine_id="n" * 32)),
        planned(given, slow),
        planned(given, a_host(updates_initramfs=True)),
        planned(wish("raid10", 4, chunk_kib=64), a_host()),
        planned(wish("raid10", 4, disks=named("d2", "d1", "d3", "d4")), a_host()),
        planned(given, a_host({"generation": 1, "is_complete": True, "geometry": None})),
    ]
    assert len({first, *(x.hash for x in others)}) == 7


def test_the_hash_speaks_of_what_disks_hold() -> None:
    given, lost = wish("raid10", 4), frozenset(["s-d3"])
    held = [a_host() for _ in range(3)]
    held[1].facts["d3"] = filled("d3", "one")
    held[2].facts["d3"] = filled("d3", "another")
    hashes = [planned(given, on, may_be_lost=lost).hash for on in held]
    assert len(set(hashes)) == 3
    assert hashes[1] == planned(given, held[1], may_be_lost=lost).hash


def test_uuids_are_known_before_anything_is_made_and_never_come_again() -> None:
    made = planned(wish("raid1", 2), a_host())
    begun = made.steps[0].given
    assert made.steps[0].kind == "record"
    assert begun["is_complete"] is False
    assert begun["places"][0]["md_uuid"] in created(made)[0]
    gone = planned(None, after(wish("raid1", 2)))
    again = planned(wish("raid1", 2), a_host(gone.record))
    assert again.record["places"][0]["md_uuid"] != made.record["places"][0]["md_uuid"]


NOT_FREE = [
    ({"node": ""}, "no such disk"),
    ({"is_whole": False}, "part of a disk"),
    ({"serials": ("other",)}, "serial number should be s-d1 but is other"),
    ({"serials": ()}, "none that can be read"),
    ({"size_bytes": SIZE + 512}, "should have 2147483648 bytes but has 2147484160"),
    ({"is_read_only": True}, "read-only"),
    ({"uses": (host.Use("mounted at /", "d1p1"),)}, "in use: mounted at /"),
    ({"uses": (host.Use("used as swap", "d1"),)}, "used as swap"),
    ({"holders": ("dm-0",)}, "part of dm-0"),
    ({"partitions": ("d1p1",)}, "partition table with d1p1"),
    ({"openers": ("dd (process 7)",)}, "held open by dd"),
    ({"exclusive_error": "Device or resource busy"}, "exclusive open fails"),
    ({"md_uuid": "1:2:3:4"}, "member of the md array 1:2:3:4, which is not ours"),
    ({"probe_errors": ("blkid failed with status 4",)}, "may hold data: blkid failed"),
    ({"contents": None}, "what it holds was not read"),
    *(
        ({"signatures": (disks.Signature(kind, "u"),)}, f"signature of {kind}")
        for kind in ("xfs", "ext4", "btrfs", "LVM2_member", "zfs_member", "gpt", "crypto_LUKS")
    ),
]


@pytest.mark.parametrize(("changes", "says"), NOT_FREE)
@pytest.mark.parametrize("options", [{}, {"replace_ours": True}])
def test_a_disk_that_is_not_free_is_refused(
    changes: dict[str, Any], says: str, options: dict[str, Any]
) -> None:
    on = a_host()
    on.facts["d1"] = blank("d1", **changes)
    with pytest.raises(Error, match=says):
        planned(wish("raid1", 2), on, **options)


@pytest.mark.parametrize(("changes", "says"), [x for x in NOT_FREE if "contents" not in x[0]])
def test_what_may_be_lost_is_data_without_a_signature_only(
    changes: dict[str, Any], says: str
) -> None:
    on = a_host()
    on.facts["d1"] = filled("d1", **changes)
    with pytest.raises(Error, match=says):
        planned(wish("raid1", 2), on, may_be_lost=frozenset(["s-d1"]), replace_ours=True)


@pytest.mark.parametrize("options", [{}, {"replace_ours": True}, {"may_be_lost": {"s-d2"}}])
def test_data_without_a_signature_are_refused(options: dict[str, Any]) -> None:
    on = a_host()
    on.facts["d1"] = filled("d1")
    says = r"d1: it is not blank: data from byte 4096 on \(in 3 of the 2048 places.*serial s-d1 "
    with pytest.raises(Error, match=says + "under contents_may_be_lost"):
        planned(wish("raid1", 2), on, **options)


@pytest.mark.parametrize("layout", ["single", "raid1"])
def test_data_that_may_be_lost_are_erased_before_anything_is_made(layout: str) -> None:
    on = a_host()
    on.facts["d1"] = filled("d1")
    wanted = wish(layout, 1 if layout == "single" else 2)
    made = planned(wanted, on, may_be_lost=frozenset(["s-d1"]))
    at = next(i for i, step in enumerate(made.steps) if step.kind == "erase")
    [says] = made.steps[at].lines()
    assert says.startswith("erase what may be lost: d1: data from byte 4096 on")
    [erasure] = made.steps[at].given
    assert (erasure.path, erasure.begin, erasure.end) == ("/dev/disk/by-id/d1", 0, SIZE)
    assert at < [step.kind for step in made.steps].index("conf")
    assert not any(step.kind == "erase" for step in planned(wanted, a_host()).steps)


def test_a_single_disk_that_was_used_for_something_else_since_is_made_again() -> None:
    on = after(wish("single", 1))
    on.facts["d1"] = filled("d1")
    with pytest.raises(Error, match="not blank"):
        planned(wish("single", 1), on)
    made = planned(wish("single", 1), on, may_be_lost=frozenset(["s-d1"]))
    assert any(step.kind == "erase" for step in made.steps), "mkfs would find the data"


def test_a_disk_that_is_not_asked_for_any_more_may_hold_what_it_likes() -> None:
    on = after(wish("raid1", 2))
    on.facts["d2"] = filled("d2")  # the owner took it back
    for wanted in (None, wish("single", 1)):
        made = planned(wanted, on, replace_ours=True)
        assert not any("by-id/d2" in line for line in made.lines())
        erased = {x.path for step in made.steps if step.kind == "erase" for x in step.given}
        assert erased == {"/dev/disk/by-id/d1"}


@pytest.mark.parametrize(
    ("wanted", "serials"),
    [
        (wish("raid1", 2), ["s-d3"]),
        (wish("raid1", 2), ["s-d1", "d2"]),
        (None, ["s-d1"]),
    ],
)
def test_a_serial_that_no_wished_disk_has_is_an_error(
    wanted: dict[str, Any] | None, serials: list[str]
) -> None:
    with pytest.raises(Error, match=f"contents_may_be_lost names {serials[-1]}, but should"):
        planned(wanted, after(wish("raid1", 2)), may_be_lost=frozenset(serials))


def test_one_disk_by_two_ids_is_refused() -> None:
    on = a_host()
    on.facts["d2"] = blank("d2", node="/dev/d1")
    with pytest.raises(Error, match=r"d1 and d2 are one disk \(/dev/d1\), named twice"):
        planned(wish("raid1", 2), on)


def test_another_geometry_of_ours_goes_only_where_the_user_says_so() -> None:
    on = after(wish("raid1", 2))
    with pytest.raises(Error, match=r"another geometry of ours, raid1 on d1, d2.*replace_ours"):
        planned(wish("raid5", 3), on)
    made = planned(wish("raid5", 3), on, replace_ours=True)
    uuid = on.record["places"][0]["md_uuid"]
    wanted_order = [
        "remove our lines",
        "umount /srv/innolab/data",
        f"wipefs --all --backup /dev/disk/by-id/md-uuid-{uuid}",
        f"mdadm --stop /dev/disk/by-id/md-uuid-{uuid}",
        f"check that d1, d2 carry the array's UUID {uuid}",
        "erase d1, d2 from 1 MiB on",
        "wipefs --all --no-act --backup /dev/disk/by-id/d1",
        "mdadm --zero-superblock /dev/disk/by-id/d1",
        "mdadm --zero-superblock /dev/disk/by-id/d2",
        "erase the first MiB of d1, d2",
        "mdadm --create",
    ]
    lines = made.lines()
    at = [next(i for i, x in enumerate(lines) if x.startswith(y)) for y in wanted_order]
    assert at == sorted(at)
    assert not any("zero-superblock /dev/disk/by-id/d3" in line for line in lines)
    # Their beginnings, which say whose they are, go last.
    erased = [x for step in made.steps if step.kind == "erase" for x in step.given]
    assert [(Path(x.path).name, x.begin, x.end) for x in erased] == [
        ("d1", 2**20, SIZE),
        ("d2", 2**20, SIZE),
        ("d1", 0, 2**20),
        ("d2", 0, 2**20),
    ]
    assert made.hash


def test_only_what_is_ours_by_uuid_is_torn_down() -> None:
    on = after(wish("raid1", 2))
    on.facts["d2"] = on.facts["d2"]._replace(md_uuid="9:9:9:9")
    with pytest.raises(Error, match=r"d2: .*md array 9:9:9:9, which is not ours"):
        planned(None, on)
    on.facts["d2"] = disks.Facts()  # pulled out
    lines = planned(None, on).lines()
    assert any("zero-superblock /dev/disk/by-id/d1" in line for line in lines)
    assert not any("by-id/d2" in line for line in lines)


def test_what_others_put_on_our_array_is_not_ours_to_lose() -> None:
    for changes, says in (
        ({"signatures": (disks.Signature("ext4", "u"),)}, "signature of ext4"),
        ({"signatures": (disks.Signature("xfs", "u"),)}, "signature of xfs"),
        ({"holders": ["dm-3"]}, "part of dm-3"),
        ({"probe_errors": ("wipefs failed",)}, "cannot be looked at"),
    ):
        on = after(wish("raid10", 4))
        next(iter(on.live.values())).update(changes)
        for wanted in (None, wish("raid5", 4)):
            with pytest.raises(Error, match=says):
                planned(wanted, on, replace_ours=True)


def test_an_array_with_our_name_but_no_record_is_a_strangers() -> None:
    on = a_host(live={"1:2:3:4": {"name": "any:innolab-data", "node": "md127"}})
    with pytest.raises(Error, match="no record of this host tells of"):
        planned(wish("single", 1), on)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"degraded": 1}, "degraded and nothing rebuilds it"),
        ({"runs_on": ["d1"]}, "runs_on should be"),
        ({"bitmap": "internal"}, "bitmap should be none but is internal"),
        ({"chunk_kib": 64}, "chunk_kib should be 512 but is 64"),
    ],
)
def test_ours_but_not_as_it_was_made_is_said_not_mended(changes: dict[str, Any], says: str) -> None:
    on = after(wish("raid10", 4))
    next(iter(on.live.values())).update(changes)
    with pytest.raises(Error, match=f"not as it was made.*{says}"):
        planned(wish("raid10", 4), on)
    assert created(planned(wish("raid10", 4), on, replace_ours=True))


def test_a_resync_is_waited_for_not_replaced() -> None:
    on = after(wish("raid5", 3))
    next(iter(on.live.values())).update(sync_action="recover", degraded=1)
    assert planned(wish("raid5", 3), on).steps == []


def test_what_an_interrupted_run_left_is_ours() -> None:
    made = planned(wish("raid1", 2), a_host())
    begun = made.steps[0].given
    assert created(planned(wish("raid1", 2), a_host(begun))), "nothing was made yet"
    uuid = begun["places"][0]["md_uuid"]
    on = a_host(begun)
    member = disks.Signature("linux_raid_member", "x")
    on.facts["d1"] = blank("d1", md_uuid=uuid, signatures=(member,))
    with pytest.raises(Error, match="interrupted run left parts of ours on d1"):
        planned(wish("raid1", 2), on)
    lines = planned(wish("raid1", 2), on, replace_ours=True).lines()
    assert "mdadm --zero-superblock /dev/disk/by-id/d1" in lines
    assert "mdadm --zero-superblock /dev/disk/by-id/d2" not in lines


def test_absent_takes_down_a_disk_as_it_is_and_sets_its_cache_back() -> None:
    on = after(wish("single", 1))
    on.record["places"][0]["write_cache_before"] = "write back"
    lines = planned(None, on).lines()
    at = [
        lines.index(x)
        for x in (
            "umount /srv/innolab/data",
            "set the write cache of d1 to 'write back', as it was",
            "erase d1 from 1 MiB on (where a disk cannot zero itself, only what a look reads)",
            "wipefs --all --backup /dev/disk/by-id/d1",
            "erase the first MiB of d1",
        )
    ]
    assert at == sorted(at)
    assert planned(None, a_host()).steps == []
    assert planned(None, a_host(planned(None, on).record)).steps == []


# As WSL with Docker Desktop has one: a blank in the last field. The others have a name with a form
# feed and one with an escaped blank, and no source at all.
_MOUNTS = r"""991 80 0:151 / /Docker/host rw,noatime - 9p C:\134Apps\040Dir rw,path=C:\Apps D
36 25 8:1 / /a\040b rw shared:1 - ext4 /dev/sda1 rw,data=ordered
37 25 0:9 / /x{}y rw,noexec - tmpfs  rw
"""


def test_any_line_of_mounts_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: _MOUNTS.format("\f"))
    docker, disk, memory = host.mounts()
    assert (docker.number, docker.kind, docker.source) == ("0:151", "9p", r"C:\Apps Dir")
    assert {"noatime", r"path=C:\Apps D"} <= set(docker.options)
    assert (disk.point, disk.source, disk.options) == ("/a b", "/dev/sda1", ("rw", "data=ordered"))
    assert (memory.point, memory.source, memory.kind) == ("/x\fy", "", "tmpfs")


def test_marked_lines_are_replaced_and_removed_alone() -> None:
    text = files.block("one\n", ["two", "three"])
    assert [line for line in text.splitlines() if not line.startswith("#")] == [
        "one",
        "two",
        "three",
    ]
    assert files.block(text + "four\n", ["five"]).splitlines()[:2] == ["one", "four"]
    assert files.block(text + "four\n", []) == "one\nfour\n"
    assert files.block("one\n", []) == "one\n"


BEGIN, END = "# innolab: what follows is rewritten", "# innolab: end"
UNSOUND = {
    "no end": [BEGIN, "ours", "/home"],
    "no begin": ["/home", END],
    "the end first": [END, "/home", BEGIN],
    "two begins": [BEGIN, "ours", BEGIN, "ours", END, "/home"],
    "two ends": [BEGIN, "ours", END, "/home", END],
    "two pairs": [BEGIN, "ours", END, "/home", BEGIN, "ours", END],
    "no end, as it was indented and then lost": [f"  {BEGIN}", "/home"],
}


@pytest.mark.parametrize("case", UNSOUND)
def test_marks_that_are_no_pair_are_refused(case: str, tmp_path: Path) -> None:
    path = tmp_path / "fstab"
    path.write_text("".join(f"{line}\n" for line in UNSOUND[case]))
    before = path.read_bytes()
    for lines in ([], ["new"]):
        with pytest.raises(Error, match=f"{path} should have one line .* Nothing was changed"):
            files.set_block(path, lines)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_xfs_mount_hears_of_unsound_marks_by_the_name_of_fstab() -> None:
    with pytest.raises(Error, match=r"^/etc/fstab should have one line .* but has line 2: # inn"):
        files.block(f"one\n{BEGIN}\n/home\n", ["ours"])


@pytest.mark.parametrize("of", ["fstab", "mdadm.conf"])
def test_unsound_marks_are_found_before_a_plan_is_made(
    of: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "FSTAB", tmp_path / "fstab")
    monkeypatch.setattr(files, "mdadm_conf", lambda: tmp_path / "mdadm.conf")
    files.require_marks()  # neither is there
    (tmp_path / of).write_text(f"{BEGIN}\n/home\n")
    with pytest.raises(Error, match=f"{of} should have"):
        files.require_marks()


def test_the_way_to_stop_flushes_follows_the_kernel() -> None:
    assert barriers.mount_options(["noatime"], False, "3.10.0") == ["noatime", "nobarrier"]
    # 4.10 to 4.18 take the option and ignore it, which would look like a success.
    for release in ("4.10.0", "4.18.0-amd64", "6.1.0-56-cloud-amd64"):
        assert barriers.way(release) == "write through"
        assert barriers.mount_options(["noatime"], False, release) == ["noatime"]
    assert barriers.mount_options(["noatime"], True, "3.10.0") == ["noatime"]


@pytest.mark.parametrize(
    ("place", "is_on", "how"),
    [
        ({}, True, "on"),
        ({"write_cache": "write through", "before": "write back"}, False, "write through"),
        ({"write_cache": "write through", "below": ["write back"]}, False, "write through"),
        ({"write_cache": "write through", "below": ["write through"]}, True, "on"),
        ({"options": ["rw", "nobarrier"]}, False, "mount option"),
        ({"before": "write back"}, True, "on"),
    ],
)
def test_barriers_are_what_the_live_system_says(
    place: dict[str, Any], is_on: bool, how: str
) -> None:
    live = {"write_cache": "write back", "before": None, "below": [], "options": ["rw"]}
    assert barriers.observed([live | place]) == {"observed": is_on, "how": how}


def request_and_sight() -> tuple[dict[str, Any], dict[str, Any]]:
    requested = {
        "storage": geometry.geometry(wish("raid10", 4)),
        "filesystem": {
            "data": "/data",
            "log": "/log",
            "barriers": True,
            "cache_is_nonvolatile": False,
            "mount_options": ["noatime"],
        },
        "kernel": {"swappiness": 1, "transparent_huge_pages": "never", "governor": "performance"}
        | {"scheduler": "none", "read_ahead_kib": 0, "stripe_cache_pages": None},
    }
    array = {
        "name": "data",
        "level": "raid10",
        "members": NAMES[:4],
        "chunk_kib": 512,
        "raid10_layout": "near",
        "bitmap": "none",
        "journal": None,
        "sync_action": "idle",
        "degraded": 0,
    }
    queue = {"scheduler": "none", "read_ahead_kib": 0, "stripe_cache_pages": None}
    device = "/dev/md/innolab-data"
    seen = {
        "arrays": [array],
        "mounts": [{"path": "/data", "source": device, "fstype": "xfs", "options": "rw,noatime"}],
        "barriers": {"observed": True, "how": "on"},
        "kernel": {"swappiness": 1, "transparent_huge_pages": "never", "governors": []}
        | {"queues": {device: queue | {"scheduler": None}, "d1": queue}},
    }
    return requested, seen


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        (("arrays", 0, "sync_action"), "check", "sync_action should be idle but is check"),
        (("arrays", 0, "degraded"), 1, "degraded should be 0 but is 1"),
        (("arrays", 0, "members"), ["d2"], "members should be"),
        (("arrays", 0, "name"), "other", "there is an array other that was not asked for"),
        (("arrays",), [], "/dev/md/innolab-data does not run"),
        (("mounts",), [], "should be mounted at /data but is not"),
        (("mounts", 0, "options"), "rw,relatime", "the option noatime is not in effect"),
        (("mounts", 0, "source"), "/dev/sda1", "source should be /dev/md/innolab-data"),
        (("barriers", "observed"), False, "barriers should be on but are off"),
        (("kernel", "swappiness"), 60, "swappiness should be 1 but is 60"),
        (("kernel", "governors"), ["powersave"], "governors should be performance"),
        (("kernel", "queues", "d1", "scheduler"), "bfq", "d1: scheduler should be none but is bfq"),
        (("kernel", "queues", "d1", "read_ahead_kib"), 4, "read_ahead_kib should be 0 but is 4"),
    ],
)
def test_every_mismatch_is_named(place: tuple[Any, ...], value: Any, says: str) -> None:
    requested, seen = request_and_sight()
    assert compare.mismatches(requested, seen) == []
    inner: Any = seen
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    assert any(says in line for line in compare.mismatches(requested, seen))


MDADM = """#!{python}
import sys
with open(sys.argv[-1], "rb") as file:
    file.seek(4096)
    magic = file.read(4)
if magic != bytes.fromhex("fc4e2ba9"):
    sys.exit(f"mdadm: No md superblock detected on {{sys.argv[-1]}}.")
print("MD_UUID=1:2:3:4")
"""


@pytest.fixture
def loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A loop device, named in a folder as udev would, on a host whose mdadm knows its own only."""
    if os.geteuid() != 0:
        pytest.skip("loop devices need root")
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(IMAGE_BYTES)
    for name, text in {
        "mdadm": MDADM.format(python=BIN / "python"),
        "udevadm": "#!/bin/sh\n",
    }.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}:/usr/sbin:/sbin")
    monkeypatch.setenv("LC_ALL", "C")
    node = run("losetup", "--find", "--show", image).strip()
    (tmp_path / "disk").symlink_to(node)
    yield tmp_path / "disk"
    run("losetup", "--detach", node)


def run(*words: str | Path) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def reasons(link: Path) -> list[str]:
    """Return why a disk is refused, after a look that must not change a byte of it."""
    image = link.parent / "image"
    os.sync()
    before = hashlib.sha256(image.read_bytes()).digest()
    disk = geometry.Disk(link.name, "", IMAGE_BYTES)
    facts = disks.look([disk], by_id=link.parent)
    seen = {disk.id: facts[disk.id]._replace(serials=("",))}  # loop devices have none
    os.sync()
    assert hashlib.sha256(image.read_bytes()).digest() == before
    return refusals.refusals([disk], seen, refusals.Ours())


def write(link: Path, *pieces: tuple[int, bytes]) -> None:
    with link.open("r+b") as file:
        for offset, content in pieces:
            file.seek(offset)
            file.write(content)


def test_a_blank_disk_is_free(loop: Path) -> None:
    assert reasons(loop) == []


@pytest.mark.parametrize(
    ("pieces", "says"),
    [
        ([(0, b"LUKS\xba\xbe\x00\x01")], "signature of crypto_LUKS"),
        ([(65600, b"_BHRfS_M")], "signature of btrfs"),
        ([(4086, b"SWAPSPACE2"), (1024, b"\1\0\0\0\xff")], "signature of swap"),
        (
            [(446, b"\0\0\0\0\x83\0\0\0\0\x08\0\0\0\x10\0\0"), (510, b"\x55\xaa")],
            "signature of dos",
        ),
        ([(512, b"LABELONE\1" + b"\0" * 11 + b"\x20\0\0\0LVM2 001")], "LVM2_member"),
        ([(4096, bytes.fromhex("fc4e2ba9"))], "member of the md array 1:2:3:4"),
    ],
)
def test_a_signature_is_found_and_refused(
    loop: Path, pieces: list[tuple[int, bytes]], says: str
) -> None:
    write(loop, *pieces)
    assert any(says in reason for reason in reasons(loop))


def test_a_mounted_disk_is_refused(loop: Path, tmp_path: Path) -> None:
    point = tmp_path / "a point"
    point.mkdir()
    run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", loop)
    assert reasons(loop) == ["disk: it holds a signature of ext4"]
    run("mount", "-o", "ro", loop, point)
    try:
        assert f"disk: it is in use: mounted at {point}" in reasons(loop)
    finally:
        run("umount", point)


def test_a_disk_held_open_is_refused(loop: Path) -> None:
    handle = os.open(loop, os.O_RDONLY | os.O_EXCL)
    try:
        assert any("an exclusive open fails" in reason for reason in reasons(loop))
    finally:
        os.close(handle)
    with loop.open("rb") as file, subprocess.Popen(["sleep", "60"], stdin=file) as process:
        try:
            assert reasons(loop) == [f"disk: it is held open by sleep (process {process.pid})"]
        finally:
            process.kill()


@pytest.mark.parametrize("program", ["wipefs", "blkid", "mdadm"])
def test_a_probe_that_fails_refuses(loop: Path, tmp_path: Path, program: str) -> None:
    (tmp_path / program).write_text("#!/bin/sh\nexit 4\n")
    (tmp_path / program).chmod(0o755)
    assert any("may hold data" in reason and program in reason for reason in reasons(loop))


def test_the_root_disk_is_in_use() -> None:
    [root] = [mount for mount in host.mounts() if mount.point == "/"]
    entry = Path("/sys/dev/block", root.number)
    if not entry.exists():  # a container's root is no disk
        assert not root.source.startswith("/dev/")
        return
    whole = entry.resolve()
    whole = whole.parent if (whole / "partition").exists() else whole
    assert any(use.what == "mounted at /" for use in host.uses()[whole.name])


def play(book: str, inventory: str | Path, **variables: Any) -> tuple[int, str]:
    done = subprocess.run(
        [BIN / "ansible-playbook", "-i", inventory, PLAYBOOKS / book, "-e", json.dumps(variables)],
        env={**os.environ, "ANSIBLE_CONFIG": str(PLAYBOOKS / "ansible.cfg")},
        capture_output=True,
        text=True,
    )
    return done.returncode, " ".join((done.stdout + done.stderr).split())


@pytest.mark.parametrize("book", ["site.yml", "verify.yml"])
def test_an_inventory_without_a_host_is_an_error(book: str) -> None:
    status, said = play(book, PLAYBOOKS / "inventories/workstation")
    assert status != 0
    assert "no host in the group database_hosts" in said


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"storage_changes": {"layuot": "raid5"}}, "layuot"),
        ({"storage_changes": {"layout": "raid6"}}, "raid6"),
        ({"kernel_changes": {"swapiness": 1}}, "swapiness"),
        ({"filesystem_changes": {"barriers": False}}, "cache_is_nonvolatile: true"),
        ({"filesystem_changes": {"mount_options": ["nobarrier"]}}, "Ask for barriers by"),
    ],
)
def test_a_bad_wish_is_refused_before_the_host_is_asked(
    variables: dict[str, Any], says: str
) -> None:
    # The example's host does not exist: a wish that came through would say 'unreachable'.
    status, said = play("site.yml", PLAYBOOKS / "inventories/example-r900", **variables)
    assert status != 0
    assert says in said
    assert "UNREACHABLE" not in said


def test_the_example_is_eight_disks_in_raid10() -> None:
    text = (PLAYBOOKS / "inventories/example-r900/hosts.yml").read_text()
    facts = yaml.safe_load(text)["database_hosts"]["hosts"]["r900"]
    defaults = yaml.safe_load((COLLECTION / "roles/storage/defaults/main.yml").read_text())
    given = defaults["storage_defaults"] | facts["storage_changes"]
    wanted = geometry.geometry(given | {"disks": facts["storage_disks"]})
    assert (wanted["layout"], len(wanted["disks"])) == ("raid10", 8)
    assert facts["filesystem_changes"] == {"barriers": False, "cache_is_nonvolatile": True}
