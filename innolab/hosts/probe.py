"""How fast a machine is now: a second's work of a known kind, before each trial.

What differs between two probes differs between the trials that follow them, whatever their arms
are. None of the numbers is the machine's speed for MySQL: they are compared with each other alone.
"""

import contextlib
import mmap
import os
import random
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from innolab.hosts.base import Host
from innolab.hosts.local import HERE

PAGE_BYTES = 16 * 1024
# Of one processor the best try counts: its work fits between two disturbances. On all of them the
# whole span counts, or a load that comes and goes would hide in its pauses.
_TRIES, _TRY_S, _ALL_S = 5, 0.05, 0.35
_MEMORY_BYTES, _MEMORY_TRIES = 32 * 1024**2, 5
_DISK_BYTES, _DISK_S = 32 * 1024**2, 0.3
DISK_FILE = "probe"
# A shell's loop stands for a processor where there is no Python. /proc/uptime has hundredths.
_SHELL_CS = 40
_SHELL = f"""
spin() {{
  n=0; read a rest < /proc/uptime; a=${{a%.*}}${{a#*.}}
  while :; do
    i=0; while [ $i -lt 500 ]; do i=$((i+1)); done; n=$((n+500))
    read b rest < /proc/uptime; b=${{b%.*}}${{b#*.}}
    [ $((b-a)) -ge {_SHELL_CS} ] && break
  done
  echo $((n*100/(b-a)))
}}
spin; echo; for cpu in $(seq "$1"); do spin & done; wait
"""


class Probe(NamedTuple):
    """What was found, by names that end in units, and why the rest was not asked."""

    found: dict[str, float]
    absent: dict[str, str]


def probe(host: Host, folder: Path) -> Probe:
    """Return the speed of a host's processors and memory, and of a folder's disk.

    `cpu_ops_per_s`, `cpus_ops_per_s` : pages of 16 KiB compressed a second by one processor and by
    all together; on a host over ssh, rounds of a shell's loop.
    `memory_bytes_per_s` : copied from memory to memory.
    `disk_reads_per_s` : pages read at random places, one at a time, past the page cache.

    Takes 1.5 s, and some tenths more where the disk's file has to be written first.
    """
    if host is not HERE:
        says = "a host over ssh has a shell alone"
        return Probe(_by_shell(host), {"memory_bytes_per_s": says, "disk_reads_per_s": says})
    found = {
        "cpu_ops_per_s": cpu_ops_per_s(),
        "cpus_ops_per_s": cpus_ops_per_s(host.cores),
        "memory_bytes_per_s": memory_bytes_per_s(),
    }
    try:
        found["disk_reads_per_s"] = disk_reads_per_s(folder / DISK_FILE)
    except OSError as error:
        return Probe(found, {"disk_reads_per_s": str(error.strerror)})
    return Probe(found, {})


def cpu_ops_per_s() -> float:
    """Return the pages that one processor compresses a second, in the best of some short tries."""
    page = _page()
    return round(max(_compressed_per_s(page, _TRY_S) for _ in range(_TRIES)), 1)


def cpus_ops_per_s(cores: int) -> float:
    """Return the pages that all processors compress a second, each with a thread of its own."""
    page = _page()
    with ThreadPoolExecutor(cores) as threads:  # zlib works without the interpreter's lock.
        rates = threads.map(lambda _: _compressed_per_s(page, _ALL_S), range(cores))
    return round(sum(rates), 1)


def memory_bytes_per_s() -> float:
    """Return the bytes copied a second between two places that were touched before.

    A first touch is left out: what it costs depends on what a hypervisor took back before, and
    memory is held for the trials that it would disturb.
    """
    source, target = bytearray(b"\1") * _MEMORY_BYTES, bytearray(_MEMORY_BYTES)

    def copy() -> None:
        target[:] = source

    copy()
    return round(_MEMORY_BYTES / min(_took_s(copy) for _ in range(_MEMORY_TRIES)))


def disk_reads_per_s(file: Path) -> float:
    """Return the pages read a second at random places of a file, which is made where it is not.

    Raises
    ------
    OSError
        If the file cannot be made, or its file system knows no O_DIRECT.
    """
    if not file.exists() or file.stat().st_size != _DISK_BYTES:
        _fill(file)
    pages = _DISK_BYTES // PAGE_BYTES
    descriptor = os.open(file, os.O_RDONLY | os.O_DIRECT)
    try:
        with mmap.mmap(-1, PAGE_BYTES) as aligned:
            places, reads, began = random.Random(0), 0, time.perf_counter()
            while (took_s := time.perf_counter() - began) < _DISK_S:
                os.preadv(descriptor, [aligned], places.randrange(pages) * PAGE_BYTES)
                reads += 1
    finally:
        os.close(descriptor)
    return round(reads / took_s, 1)


def _fill(file: Path) -> None:
    """Write a file that no disk can guess, and drop it from the page cache."""
    try:
        with file.open("wb") as opened:
            opened.write(random.Random(0).randbytes(_DISK_BYTES))
            opened.flush()
            os.fsync(opened.fileno())
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    except OSError:
        with contextlib.suppress(OSError):
            file.unlink()
        raise


def _page() -> bytes:
    """Return a page that compresses by half, as a table's does."""
    return bytes(random.Random(0).choices(range(16), k=PAGE_BYTES))


def _compressed_per_s(page: bytes, least_s: float) -> float:
    done, began = 0, time.perf_counter()
    while (took_s := time.perf_counter() - began) < least_s:
        zlib.compress(page, 1)
        done += 1
    return done / took_s


def _took_s(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _by_shell(host: Host) -> dict[str, float]:
    output = host.must(["sh", "-c", _SHELL, "probe", str(host.cores)], what="Probing")
    one, all_of_them = output.split("\n\n")
    return {
        "cpu_ops_per_s": float(one),
        "cpus_ops_per_s": float(sum(map(int, all_of_them.split()))),
    }
