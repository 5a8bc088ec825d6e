"""Disks with data on which no probe finds a signature: real images on loop devices."""

import contextlib
import hashlib
import importlib
import os
import random
import re
import shutil
import sqlite3
import struct
import subprocess
import tarfile
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import HOSTS, ROOT
from test_storage import Error, contents, disks, geometry, host, plan, refusals

from innolab.hosts import machine
from innolab.mysql import builds, server
from innolab.mysql.builds import Build
from innolab.mysql.server import base_settings_file

MIB, GIB = 2**20, 2**30
SMALL, LARGE = 32 * MIB, 64 * GIB
SERIAL, MACHINE = "s-1", "m" * 32
HAS_LOOP = os.geteuid() == 0 and shutil.which("losetup", path="/usr/sbin:/sbin") is not None
loops = pytest.mark.skipif(not HAS_LOOP, reason="loop devices need root and util-linux's losetup")

# It knows a superblock by its magic number, as the real one does.
MDADM = """#!/bin/sh
for path; do :; done
[ "$(dd if="$path" bs=4 skip=1024 count=1 2>/dev/null | od -An -tx4 | tr -d ' ')" = a92b4efc ] ||
    { echo "mdadm: No md superblock detected on $path." >&2; exit 1; }
echo MD_UUID=1:2:3:4
"""


def run(*words: str | Path) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


class Disk:
    """An image of some size behind a loop device, named in a folder as udev would."""

    def __init__(self, folder: Path, make: Callable[[Path], None], size: int) -> None:
        self.folder, self.image, self.link = folder, folder / "image", folder / "disk"
        make(self.image)
        os.truncate(self.image, size)
        self.node = run("losetup", "--find", "--show", "--direct-io=on", self.image).strip()
        self.link.symlink_to(self.node)
        self.disk = geometry.Disk("disk", SERIAL, size)

    def facts(self) -> Any:
        """Return what a look finds; loop devices have no serial number."""
        return disks.look([self.disk], by_id=self.folder)["disk"]._replace(serials=(SERIAL,))

    def reasons(self, **more: Any) -> list[str]:
        """Return why it is refused, after a look that must not change a byte of it."""
        before = digest(self.image)
        found = refusals.refusals([self.disk], {"disk": self.facts()}, refusals.Ours(), **more)
        assert digest(self.image) == before, "a look wrote to the disk"
        return found

    def host(self) -> Any:
        """Return a host with nothing but this disk."""
        return plan.Host(MACHINE, {}, {"disk": self.facts()}, {}, {})

    def erasure(self, begin: int, end: int, zeroes_itself: bool) -> Any:
        size = self.disk.size_bytes
        seed = contents.seed(host.machine_id(), SERIAL, size)
        return contents.Erasure(self.node, size, seed, begin, end, zeroes_itself)


def digest(image: Path) -> str:
    """Return a digest of a sparse file; its holes cost nothing, nor does zeroing them."""
    os.sync()
    found, at = hashlib.sha256(), 0
    with image.open("rb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            at = os.lseek(file.fileno(), at, os.SEEK_DATA)
            end = os.lseek(file.fileno(), at, os.SEEK_HOLE)
            file.seek(at)
            if (piece := file.read(min(end - at, MIB - at % MIB))) != bytes(len(piece)):
                found.update(b"%d " % at + piece)
            at += len(piece)
    return found.hexdigest()


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Disk]]:
    """Return what makes a disk of an image."""
    for name, text in {"mdadm": MDADM, "udevadm": "#!/bin/sh\n"}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}:/usr/sbin:/sbin")
    monkeypatch.setenv("LC_ALL", "C")
    made = []

    def make(fill: Callable[[Path], None], size: int = SMALL) -> Disk:
        made.append(Disk(tmp_path, fill, size))
        return made[-1]

    yield make
    for one in made:
        run("losetup", "--detach", one.node)


def pieces(*given: tuple[int, bytes]) -> Callable[[Path], None]:
    """Return what makes an image with these bytes at these places."""

    def make(image: Path) -> None:
        with image.open("wb") as file:
            for at, content in given:
                file.seek(at)
                file.write(content)

    return make


def noise(length: int) -> bytes:
    return random.Random(1).randbytes(length)


def tar(mode: str) -> Callable[[Path], None]:
    def make(image: Path) -> None:
        with tarfile.open(image, mode) as archive:
            archive.add(ROOT / "playbooks", "playbooks")

    return make


def tablespace(image: Path) -> None:
    """Copy a system tablespace that this project's own server made."""
    build = builds.find(machine.cache_folder(), "mysql-5.6.24")
    assert isinstance(build, Build), f"make setup could not bring it: {build}"
    settings = {"innodb_data_file_path": "ibdata1:12M", "innodb_log_file_size": "1M"}
    # The server is no root, and may not enter pytest's own folder.
    with tempfile.TemporaryDirectory(prefix="innolab-test-", dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        data = Path(folder) / "data"
        server.initialize(build, data, base_settings_file(machine.cache_folder()), settings)
        shutil.copy(data / "ibdata1", image)


def formatted(*words: str, size: int = SMALL) -> Callable[[Path], None]:
    """Return what makes an image with a file system by mkfs."""

    def make(image: Path) -> None:
        pieces()(image)
        os.truncate(image, size)
        run(*words, image)

    return make


def wiped(make: Callable[[Path], None], length: int) -> Callable[[Path], None]:
    """Return what makes an image and then loses its first bytes."""

    def both(image: Path) -> None:
        make(image)
        with image.open("r+b") as file:
            file.write(bytes(length))

    return both


def sqlite(image: Path) -> None:
    with contextlib.closing(sqlite3.connect(image)) as database:
        database.execute("CREATE TABLE t AS SELECT 'a row' AS a")
        database.commit()


def lmdb_like(image: Path) -> None:
    """Write two meta pages as LMDB does: a page header, its magic number and version."""
    page = struct.pack("<QHHI", 0, 0, 8, 0) + struct.pack("<II", 0xBEEFC0DE, 1)
    pieces((0, page), (4096, page))(image)


def kafka_like(image: Path) -> None:
    """Write one batch of records as Kafka's format 2 has it: offset, length, epoch, magic, CRC."""
    body = struct.pack(">HIQQQHII", 0, 0, 1_700_000_000, 1_700_000_000, 2**64 - 1, 65535, 0, 1)
    body += b"\x1a\x00\x00\x00\x01\x0ea record\x00"
    head = struct.pack(">QII", 0, len(body) + 9, 0) + b"\2" + struct.pack(">I", zlib.crc32(body))
    pieces((0, head + body))(image)


def qcow2(image: Path) -> None:
    """Write the header of a qcow2 image of version 3, its tables of clusters and one cluster."""
    head = struct.pack(">4sIQIIQIIQQIIQQQQII", b"QFI\xfb", 3, 0, 0, 16, GIB, 0, 2, 3 << 16,
                       1 << 16, 1, 0, 0, 0, 0, 0, 4, 104)  # fmt: skip
    entry = struct.pack(">Q", (1 << 63) | (4 << 16))
    pieces((0, head), (1 << 16, struct.pack(">Q", 2 << 16)), (3 << 16, entry))(image)


UNSIGNED: dict[str, tuple[Callable[[Path], None], int]] = {
    "random, as plain dm-crypt or LUKS with its header elsewhere": (
        pieces((0, noise(SMALL))),
        0,
    ),
    "tar": (tar("w"), 0),
    "gzip": (tar("w:gz"), 0),
    "a raw InnoDB tablespace": (tablespace, 0),
    "ext4 without its first superblock": (wiped(formatted("mkfs.ext4", "-qF"), 4096), 4096),
    "SQLite": (sqlite, 0),
    "LMDB": (lmdb_like, 0),
    "Kafka": (kafka_like, 0),
    "qcow2": (qcow2, 0),
    "data in the middle only": (pieces((SMALL // 2 + 512, noise(4096))), SMALL // 2 + 512),
    "one byte in the last sector": (pieces((SMALL - 1, b"x")), SMALL - 512),
    "one bit in the first": (pieces((511, b"\1")), 0),
    "zeros and 0xFF in one sector": (pieces((8192, b"\xff" * 100)), 8192),
}


@loops
@pytest.mark.parametrize("case", UNSIGNED)
def test_data_without_a_signature_are_refused_and_stay(
    case: str, disk: Callable[..., Disk]
) -> None:
    fill, at_least = UNSIGNED[case]
    one = disk(fill)
    assert one.facts().signatures == (), "this image proves nothing: a probe knows it"
    [reason] = one.reasons()
    found = re.fullmatch(
        r"disk: it is not blank: data from byte (\d+) on \(in \d+ of the 32 places that were read\)"
        r", though no signature says whose; if they may be lost, name its serial s-1 under "
        r"contents_may_be_lost",
        reason,
    )
    assert found, reason
    assert at_least <= int(found[1]) < at_least + MIB
    assert one.reasons(may_hold=frozenset(["disk"])) == []


@loops
@pytest.mark.parametrize(
    "fill",
    [
        pieces(),
        pieces((0, b"\xff" * SMALL)),
        pieces((MIB // 2, b"\xff" * (SMALL // 2))),
    ],
    ids=["zeros", "0xFF", "both, sector by sector"],
)
def test_a_blank_disk_is_free(fill: Callable[[Path], None], disk: Callable[..., Disk]) -> None:
    one = disk(fill)
    assert one.reasons() == []
    assert one.facts().contents.read_bytes == SMALL


def xfs() -> str:
    return str(machine.cache_folder() / "tools/bin/mkfs.xfs")


def gpt() -> Callable[[Path], None]:
    """Return what writes a partition table without a partition, and its copy at the end."""

    def header(own: int, other: int, table: int) -> bytes:
        fields = (0, 0, own, other, 34, SMALL // 512 - 34, bytes(range(16)), table, 128, 128)
        table_crc = zlib.crc32(bytes(128 * 128))

        def packed(crc: int) -> bytes:
            return struct.pack("<8sIIIIQQQQ16sQIII", b"EFI PART", 0x10000, 92, crc, *fields[1:],
                               table_crc)  # fmt: skip

        return packed(zlib.crc32(packed(0)))

    last = SMALL // 512 - 1
    protective = struct.pack("<B3sB3sII", 0, bytes(3), 0xEE, bytes(3), 1, last)
    return pieces(
        (446, protective), (510, b"\x55\xaa"),
        (512, header(1, last, 2)), (last * 512, header(last, 1, last - 32)),
    )  # fmt: skip


SIGNED: dict[str, Callable[[Path], None]] = {
    "ext4": formatted("mkfs.ext4", "-qF"),
    "ext2": formatted("mkfs.ext4", "-qFO", "^has_journal,^extent,^64bit,^flex_bg"),
    "xfs": lambda image: formatted(xfs(), "-qf", size=320 * MIB)(image),
    "swap": formatted("mkswap"),
    "gpt": gpt(),
    "dos": pieces((446, b"\0\0\0\0\x83\0\0\0\0\x08\0\0\0\x10\0\0"), (510, b"\x55\xaa")),
    "crypto_LUKS": pieces((0, b"LUKS\xba\xbe\0\1")),
    "LVM2_member": pieces((512, b"LABELONE\1" + b"\0" * 11 + b"\x20\0\0\0LVM2 001")),
    "btrfs": pieces((65600, b"_BHRfS_M")),
    "squashfs": pieces(
        (0, struct.pack("<4sIIIIHHHHHH", b"hsqs", 1, 0, 4096, 0, 1, 12, 0, 1, 4, 0))
    ),
    "ubifs": pieces((0, b"\x31\x18\x10\x06")),
    "iso9660": pieces((32768, b"\1CD001\1")),
    "LUKS2's second header": pieces((0x4000, b"SKUL\xba\xbe\0\2")),
    "romfs": pieces((0, b"-rom1fs-")),
    "VMFS": pieces((MIB, b"\x0d\xd0\x01\xc0")),
}


@loops
@pytest.mark.parametrize("kind", SIGNED)
def test_a_signature_is_refused_even_where_contents_may_be_lost(
    kind: str, disk: Callable[..., Disk]
) -> None:
    one = disk(SIGNED[kind], 320 * MIB if kind == "xfs" else SMALL)
    assert any("signature of" in x or "partition" in x for x in one.reasons()), one.reasons()
    assert one.reasons() == one.reasons(may_hold=frozenset(["disk"]))
    assert one.facts().contents is None, "what is refused anyway was read all the same"


@pytest.mark.alone
@loops
def test_a_superblock_that_a_large_disk_has_left_is_found(
    disk: Callable[..., Disk], tmp_path: Path
) -> None:
    whole = tmp_path / "ext4"
    formatted("mkfs.ext4", "-qF", "-E", "lazy_itable_init=1,nodiscard", size=LARGE)(whole)
    group = 25 * 128 * MIB
    with whole.open("rb") as file:
        file.seek(group)
        superblock = file.read(1024)
    assert superblock[56:58] == b"\x53\xef", "mkfs put no backup there"
    whole.unlink()
    one = disk(pieces((group, superblock)), LARGE)
    begin = time.monotonic()
    [reason] = one.reasons()
    assert f"data from byte {group} on (in 1 of the " in reason
    assert time.monotonic() - begin < 30
    assert one.facts().contents.read_bytes < GIB // 2


@pytest.mark.alone
@loops
def test_a_small_sparse_disk_is_read_whole_and_quickly(disk: Callable[..., Disk]) -> None:
    one = disk(pieces((GIB + 5 * MIB, b"x")), 2 * GIB)
    begin = time.monotonic()
    assert f"data from byte {GIB + 5 * MIB} on (in 1 of the 2048 places" in one.reasons()[0]
    assert time.monotonic() - begin < 60


@loops
def test_what_cannot_be_read_is_refused(
    disk: Callable[..., Disk], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(handle: int, buffers: list[Any], at: int) -> int:
        if at == 20 * MIB:
            raise OSError(5, "Input/output error")
        return real(handle, buffers, at)

    one, real = disk(pieces()), os.preadv
    monkeypatch.setattr(os, "preadv", broken)
    [reason] = one.reasons(may_hold=frozenset(["disk"]))
    assert "may hold data: reading failed (Input/output error)" in reason


@loops
def test_what_lies_in_the_page_cache_only_is_seen(disk: Callable[..., Disk]) -> None:
    one = disk(pieces())
    with Path(one.node).open("r+b", buffering=0) as file:
        file.seek(5 * MIB)
        file.write(b"not yet on the disk")
        held = contents.contents(one.node, SMALL, "seed")
    assert held.first == 5 * MIB


@loops
def test_what_lies_on_the_disk_only_is_seen(disk: Callable[..., Disk]) -> None:
    one = disk(pieces())
    with Path(one.node).open("rb", buffering=0) as held:  # it keeps the cache of zeros
        assert not any(held.read(SMALL))
        with one.image.open("r+b") as file:
            file.seek(5 * MIB)
            file.write(b"x")
            file.flush()
            os.fsync(file.fileno())
        assert contents.contents(one.node, SMALL, "seed").first == 5 * MIB


def wish(size: int) -> dict[str, Any]:
    given = {"layout": "single", "disks": [{"id": "disk", "serial": SERIAL, "size_bytes": size}]}
    more = ("chunk_kib", "bitmap", "journal", "raid10_copies", "size_mib")
    return given | dict.fromkeys(more)


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the module md_storage, which on this host has nothing of its own."""
    found = importlib.import_module(f"{HOSTS}.plugins.modules.md_storage")
    monkeypatch.setattr(found, "record", dict)
    monkeypatch.setattr(found, "arrays", dict)
    monkeypatch.setattr(found, "require_marks", lambda: None)

    def no_step(made: Any, nodes: list[str]) -> None:
        pytest.fail("a plan that should be refused was carried out")

    monkeypatch.setattr(found, "carry_out", no_step)
    return found


def asked(module: Any, one: Disk, **more: Any) -> dict[str, Any]:
    """Return what the module says of a disk."""
    given = {**wish(one.disk.size_bytes), "state": "present", "action": "plan", "confirm": "",
             "zero": True, "replace_ours": False, "contents_may_be_lost": []}  # fmt: skip
    module.look = lambda wanted: {"disk": one.facts()}
    found: dict[str, Any] = module._ensure(SimpleNamespace(params=given | more, check_mode=False))
    return found


def write(one: Disk, at: int, content: bytes) -> None:
    with Path(one.node).open("r+b") as file:
        file.seek(at)
        file.write(content)


@loops
def test_data_written_between_plan_and_apply_are_refused(
    module: Any, disk: Callable[..., Disk]
) -> None:
    one = disk(pieces(), 320 * MIB)
    first = asked(module, one)["hash"]
    assert asked(module, one)["hash"] == first
    write(one, 7 * MIB, b"a customer's")
    before = digest(one.image)
    with pytest.raises(Error, match=f"not blank: data from byte {7 * MIB} on"):
        asked(module, one, action="apply", confirm=first)
    lost = {"contents_may_be_lost": [SERIAL]}
    with pytest.raises(Error, match="confirm is not its hash"):
        asked(module, one, action="apply", confirm=first, **lost)
    second = asked(module, one, **lost)["hash"]
    write(one, 7 * MIB, b"another's")
    with pytest.raises(Error, match="confirm is not its hash"):
        asked(module, one, action="apply", confirm=second, **lost)
    write(one, 7 * MIB, b"a customer's")
    assert asked(module, one, **lost)["hash"] == second
    assert digest(one.image) == before


@loops
def test_a_confirmed_plan_is_carried_out(
    module: Any, disk: Callable[..., Disk], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, done = disk(pieces((0, noise(MIB))), 320 * MIB), []
    monkeypatch.setattr(module, "carry_out", lambda made, nodes: done.append(made))
    lost = {"contents_may_be_lost": [SERIAL]}
    planned = asked(module, one, **lost)
    assert "data from byte 0 on (in 1 of the 320 places" in " ".join(planned["plan"])
    asked(module, one, action="apply", confirm=planned["hash"], **lost)
    [made] = done
    [erasure] = [x for step in made.steps if step.kind == "erase" for x in step.given]
    contents.erase(erasure._replace(path=one.node))
    assert one.reasons() == [], "mkfs would refuse it"


@loops
@pytest.mark.parametrize("zeroes_itself", [True, False], ids=["by the disk", "by writing"])
@pytest.mark.parametrize("size", [SMALL, 5 * GIB], ids=["small", "large"])
def test_a_released_disk_is_free_and_an_interrupted_release_can_go_on(
    size: int, zeroes_itself: bool, disk: Callable[..., Disk]
) -> None:
    mark = bytes.fromhex("fc4e2ba9")
    read = [at for at, _ in contents.places(size, contents.seed(host.machine_id(), SERIAL, size))]
    remains = [(at + 512, b"a page of ours") for at in read[:: max(1, len(read) // 40)]]
    one = disk(pieces((4096, mark), *remains, (size - 100, b"the end")), size)
    assert "member of the md array 1:2:3:4" in one.reasons()[0]
    contents.erase(one.erasure(MIB, size, zeroes_itself))
    assert "member of the md array 1:2:3:4" in one.reasons()[0], "what is left is known as ours"
    write(one, 4096, bytes(4))
    assert "it is not blank" in one.reasons()[0]
    contents.erase(one.erasure(0, MIB, zeroes_itself))
    assert one.reasons() == []


@loops
@pytest.mark.parametrize("zeroes_itself", [True, False])
def test_a_disk_in_use_is_not_erased(zeroes_itself: bool, disk: Callable[..., Disk]) -> None:
    one = disk(pieces((5 * MIB, b"held")))
    before = digest(one.image)
    handle = os.open(one.node, os.O_RDONLY | os.O_EXCL)
    try:
        with pytest.raises(OSError, match="busy"):
            contents.erase(one.erasure(0, SMALL, zeroes_itself))
    finally:
        os.close(handle)
    assert digest(one.image) == before


def covers(size: int, at: int) -> bool:
    return any(begin <= at < begin + length for begin, length in contents.places(size, "seed"))


@pytest.mark.parametrize("block_bytes", [1024, 2048, 4096])
def test_every_backup_that_ext4_makes_is_read(block_bytes: int, tmp_path: Path) -> None:
    image = tmp_path / "image"
    pieces()(image)
    os.truncate(image, LARGE)
    program = shutil.which("mkfs.ext4", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    assert program, "this test needs mkfs.ext4: install Debian's e2fsprogs"
    said = run(program, "-nF", "-b", str(block_bytes), image).partition("stored on blocks:")[2]
    blocks = [int(x) for x in re.findall(r"\d+", said)]
    assert len(blocks) > 10
    assert [x for x in blocks if not covers(LARGE, x * block_bytes)] == []
    # The file system may have lain in a partition whose table is gone.
    assert [x for x in blocks[:-1] if not covers(LARGE, MIB + x * block_bytes)] == []


@pytest.mark.parametrize("size", [LARGE, LARGE + 4096 * 5, 5 * 1024 * GIB])
def test_every_group_that_xfs_makes_is_read(size: int, tmp_path: Path) -> None:
    image = tmp_path / "image"
    pieces()(image)
    os.truncate(image, size)
    said = run(xfs(), "-N", image)
    [(count, blocks)] = re.findall(r"agcount=(\d+), agsize=(\d+) blks", said)
    starts = [group * int(blocks) * 4096 for group in range(1, int(count))]
    assert len(starts) >= 3
    assert [at for at in starts if not covers(size, at)] == []


def test_places_are_in_order_the_same_for_one_disk_and_others_for_another() -> None:
    found = contents.places(LARGE, contents.seed(MACHINE, SERIAL, LARGE))
    assert found == contents.places(LARGE, contents.seed(MACHINE, SERIAL, LARGE))
    ends = [at + length for at, length in found]
    assert [at for at, _ in found] == sorted({at for at, _ in found})
    assert found[0][0] == 0
    assert ends[-1] == LARGE
    assert max(ends) == LARGE
    for edge in (0, LARGE - 64 * MIB):
        assert {edge + i * MIB for i in range(64)} <= {at for at, n in found if n == MIB}
    for other in (("n" * 32, SERIAL), (MACHINE, "s-2")):
        more = contents.places(LARGE, contents.seed(*other, LARGE))
        # What is left are the known places.
        assert len(set(found) & set(more)) < 400
        assert len(set(found) - set(more)) > 3900
    for size in (4 * GIB, 4 * GIB - 512, 512):
        assert sum(length for _, length in contents.places(size, "seed")) == size
    assert covers(LARGE, 64 * MIB), "btrfs has its second superblock there"
    assert covers(GIB * 1024, 256 * GIB), "btrfs has its third superblock there"


@pytest.mark.parametrize("size", [4 * GIB + 512, 10**12 + 512 * 3])
def test_no_place_reaches_over_the_end(size: int) -> None:
    found = contents.places(size, "seed")
    assert found[-1][0] + found[-1][1] == size
    assert all(at % 4096 == 0 and length > 0 for at, length in found)
    assert all(a + n <= b for (a, n), (b, _) in zip(found[-65:], found[-64:], strict=False))


@loops
def test_a_digest_tells_apart_what_was_read(disk: Callable[..., Disk]) -> None:
    one, found = disk(pieces()), set()
    for at, content in (
        (0, b""),
        (0, b"\1"),
        (0, b"\2"),
        (1, b"\2"),
        (MIB, b"\2"),
        (0, b"\xff" * MIB),
    ):
        write(one, 0, bytes(2 * MIB))
        write(one, at, content)
        found.add(one.facts().contents.sha256)
    assert len(found) == 6
