"""Read what a disk holds where no signature says whose it is, and erase what may go.

A disk is blank where every sector that is read is all zeros or all 0xFF, as disks come and as they
erase themselves. A small disk is read whole. Of a large one the first and last 64 MiB are read,
every place where a known file system keeps a second superblock, and 4,096 places besides.
"""

from __future__ import annotations

import errno
import hashlib
import mmap
import os
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from .storage_host import run

MIB, GIB = 2**20, 2**30
# A disk of this size is read whole by about as many requests as the places of a larger one take.
WHOLE_BYTES = 4 * GIB
EDGE_BYTES = 64 * MIB
RANDOM_PLACES = 4096
_PIECE, _SPOT, _ALIGN, _SECTOR = MIB, 2**14, 4096, 512
_BLANK = (0x00, 0xFF)
# File systems begin with the disk, or with its first partition, whose table may be gone.
_STARTS = (0, MIB)


class Contents(NamedTuple):
    """What a read of a disk found: its digest, how many places hold data, and where they begin."""

    sha256: str
    places: int
    read_bytes: int
    filled: int = 0
    first: int | None = None

    @property
    def is_blank(self) -> bool:
        """Return whether nothing but zeros or 0xFF was read."""
        return self.first is None

    def words(self) -> str:
        """Return what was found, for people. It shows no content: that may be secret."""
        found = f"in {self.filled} of the {self.places} places that were read"
        return f"data from byte {self.first} on ({found})"


class Erasure(NamedTuple):
    """A disk that is to be blank from one byte to another; whether it can zero itself."""

    path: str
    size_bytes: int
    seed: str
    begin: int
    end: int
    zeroes_itself: bool


def seed(machine_id: str, serial: str, size_bytes: int) -> str:
    """Return what chooses the random places of a disk.

    The same for every look of one host at one disk: else the digest at apply could not be that of
    the plan. No secret is needed, as nobody hides data from the look. The places only must not
    follow a pattern that data may follow too, and hosts and disks must not all miss the same ones.
    """
    return f"{machine_id} {serial} {size_bytes}"


def places(size_bytes: int, seed: str) -> list[tuple[int, int]]:
    """Return offset and length of all that is read of a disk, in ascending order for slow arms.

    >>> places(2**20 + 512, "any")
    [(0, 1048576), (1048576, 512)]
    """
    if size_bytes <= WHOLE_BYTES:
        return _pieces(0, size_bytes)
    last = (size_bytes - EDGE_BYTES) // _ALIGN * _ALIGN
    spots = {*_backups(size_bytes), *_scattered(EDGE_BYTES, last - _SPOT, seed)}
    middle = [(at, _SPOT) for at in sorted(spots) if EDGE_BYTES <= at <= last - _SPOT]
    return [*_pieces(0, EDGE_BYTES), *middle, *_pieces(last, size_bytes)]


def _pieces(begin: int, end: int) -> list[tuple[int, int]]:
    return [(at, min(_PIECE, end - at)) for at in range(begin, end, _PIECE)]


def _scattered(begin: int, end: int, seed: str) -> Iterator[int]:
    """Return random offsets; by a digest, as Python promises none of its own for its versions."""
    words = hashlib.shake_256(seed.encode()).digest(RANDOM_PLACES * 8)
    for at in range(0, len(words), 8):
        offset = int.from_bytes(words[at : at + 8], "big") % (end - begin)
        yield (begin + offset) // _ALIGN * _ALIGN


def _backups(size_bytes: int) -> Iterator[int]:
    """Return where file systems keep second superblocks beyond the edges of a disk.

    Those of GPT, LUKS2, md, LVM and ZFS lie within the edges.
    """
    yield from (64 * MIB, 256 * GIB)  # btrfs
    for start in _STARTS:
        yield start + (size_bytes - start) // 2 // _ALIGN * _ALIGN  # NTFS of old
        for at in (*_ext_groups(size_bytes), *_xfs_groups(size_bytes - start)):
            yield start + at


def _ext_groups(size_bytes: int) -> Iterator[int]:
    """Return where ext2, 3 and 4 have backups: in group 1 and in powers of 3, 5 and 7."""
    for block_bytes in (1024, 2048, 4096, 65536):
        group_bytes = 8 * block_bytes * block_bytes
        for base in (3, 5, 7):
            group = 1
            while group * group_bytes < size_bytes:
                yield group * group_bytes
                group *= base


def _xfs_groups(size_bytes: int) -> Iterator[int]:
    """Return where the groups of XFS begin that mkfs makes: 4 to 32, or of 1 TiB; no stripes."""
    blocks = size_bytes // 4096
    for count in (4, 8, 16, 32):
        yield from (group * -(-blocks // count) * 4096 for group in range(1, count))
    largest = 1024 * GIB - 4096
    yield from range(largest, size_bytes, largest)


def contents(node: str, size_bytes: int, seed: str) -> Contents:
    """Return what a disk holds, past the page cache, which would tell of what was.

    Raises
    ------
    OSError
        Where a place cannot be read. What lies there is unknown then.
    """
    wanted = places(size_bytes, seed)
    digest, filled, first = hashlib.sha256(), 0, None
    handle = os.open(node, os.O_RDONLY | os.O_DIRECT)
    try:
        # Reads past the page cache want an aligned buffer, which bytes are not.
        with mmap.mmap(-1, _PIECE) as buffer, memoryview(buffer) as page:
            for at, length in wanted:
                with page[:length] as piece:
                    _fill_from(handle, at, piece)
                    if (found := _data(piece)) is not None:
                        filled += 1
                        first = at + found if first is None else first
                    digest.update(f"{at} {length} ".encode())
                    # Digests are slow on an emulated processor, and most disks are all zero.
                    digest.update(piece if (blank := _uniform(piece)) is None else bytes([blank]))
    finally:
        os.close(handle)
    read_bytes = sum(length for _, length in wanted)
    return Contents(digest.hexdigest(), len(wanted), read_bytes, filled, first)


def _fill_from(handle: int, at: int, piece: memoryview) -> None:
    """Read a place; raise where all of it does not come."""
    got = os.preadv(handle, [piece], at)
    if got != len(piece):
        raise OSError(errno.EIO, f"only {got} of {len(piece)} bytes came at byte {at}")


@lru_cache(8)
def _run_of(byte: int, length: int) -> bytearray:
    return bytearray([byte]) * length


def _uniform(piece: memoryview) -> int | None:
    """Return the byte that a piece is made of, if it is one of those of a blank disk."""
    # A bytearray compares with a view by memcmp; two views would do it item by item.
    return next((byte for byte in _BLANK if _run_of(byte, len(piece)) == piece), None)


def _data(piece: memoryview) -> int | None:
    """Return where the first sector with data begins; None where there is none.

    A sector that mixes zeros and 0xFF is data: disks erase whole sectors.
    """
    if _uniform(piece) is not None:
        return None
    sectors = range(0, len(piece), _SECTOR)
    return next((at for at in sectors if _uniform(piece[at : at + _SECTOR]) is None), None)


def erase(erasure: Erasure) -> None:
    """Make a disk blank to a later look: all of it where it zeroes itself, else what is read.

    Raises
    ------
    OSError, StorageError
        Where the disk is in use, or a write fails.
    """
    path, begin, end = erasure.path, erasure.begin, erasure.end
    handle = os.open(path, os.O_WRONLY | os.O_EXCL)  # fallocate alone spares no mounted disk
    try:
        if erasure.zeroes_itself:
            length = f"--length={end - begin}"
            run(["fallocate", "--punch-hole", f"--offset={begin}", length, path])
            return
        for at, length in places(erasure.size_bytes, erasure.seed):
            if begin <= at < end and os.pwrite(handle, bytes(length), at) != length:
                raise OSError(errno.EIO, f"{path}: a write at byte {at} was cut short")
        os.fsync(handle)
    finally:
        os.close(handle)
