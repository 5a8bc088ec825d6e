"""Cold data: evict files from the page cache, and prove that none of their pages is left.

Both work without root on files that the caller owns. A proof is needed because eviction is only
advice to the kernel: dirty, locked or mapped pages stay, and a scan of them would pass for a fast
disk.
"""

import ctypes
import ctypes.util
import mmap
import os
from collections.abc import Iterable
from pathlib import Path

_libc = ctypes.CDLL(ctypes.util.find_library("c"), use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
_MAP_FAILED = ctypes.c_void_p(-1).value


def files_under(folder: Path) -> list[Path]:
    """Return all regular files below a folder, sorted."""
    return sorted(p for p in folder.rglob("*") if p.is_file() and not p.is_symlink())


def evict(files: Iterable[Path]) -> None:
    """Write the files' dirty pages and ask the kernel to drop all their pages."""
    for file in files:
        descriptor = os.open(file, os.O_RDONLY)
        try:
            # Dirty pages cannot be dropped; they must reach the disk first.
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def resident_pages(files: Iterable[Path]) -> int:
    """Return how many pages of the files the page cache holds.

    Raises
    ------
    OSError
        If the kernel refuses to say.

    References
    ----------
    mincore(2). Of a file that the caller neither owns nor may write, the kernel says that all
    pages are resident: the proof can fail without the rights, never succeed by it.
    """
    return sum(_resident_pages(file) for file in files)


def _resident_pages(file: Path) -> int:
    size = file.stat().st_size
    if size == 0:
        return 0
    descriptor = os.open(file, os.O_RDONLY)
    try:
        address = _libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
        if address == _MAP_FAILED:
            raise OSError(ctypes.get_errno(), "mmap failed", str(file))
        try:
            flags = ctypes.create_string_buffer(-(-size // mmap.PAGESIZE))
            if _libc.mincore(address, size, flags):
                raise OSError(ctypes.get_errno(), "mincore failed", str(file))
            return sum(byte & 1 for byte in flags.raw)
        finally:
            _libc.munmap(address, size)
    finally:
        os.close(descriptor)
