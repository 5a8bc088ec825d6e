"""A probe of this machine: numbers of a plausible size, in time, and lower beside another load."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from innolab.hosts import probe
from innolab.hosts.held_memory import CHUNK_BYTES, Memory
from innolab.hosts.local import HERE

_SPIN = "while True: pass"


@pytest.mark.alone
def test_a_probe_takes_two_seconds_at_most_and_knows_this_machine(folder: Path) -> None:
    probe.probe(HERE, folder)  # Writes the disk's file.
    began = time.monotonic()
    found, absent = probe.probe(HERE, folder)
    assert time.monotonic() - began < 2
    assert found.keys() | absent.keys() == {
        "cpu_ops_per_s", "cpus_ops_per_s", "memory_bytes_per_s", "disk_reads_per_s"
    }  # fmt: skip
    assert 50 < found["cpu_ops_per_s"] < 100_000
    assert found["cpus_ops_per_s"] < 2 * HERE.cores * found["cpu_ops_per_s"]
    assert 10**8 < found["memory_bytes_per_s"] < 10**12
    assert found.get("disk_reads_per_s", 1000) > 10
    assert (folder / probe.DISK_FILE).stat().st_size == 32 * 1024**2


@pytest.mark.alone
def test_loads_on_all_processors_lower_what_all_of_them_do() -> None:
    cores = len(os.sched_getaffinity(0))
    before = probe.cpus_ops_per_s(cores)
    busy = [subprocess.Popen([sys.executable, "-c", _SPIN]) for _ in range(2 * cores)]
    try:
        time.sleep(0.3)
        beside = probe.cpus_ops_per_s(cores)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert beside < 0.75 * before


def test_a_disk_that_cannot_be_asked_is_absent_with_its_reason(folder: Path) -> None:
    found, absent = probe.probe(HERE, folder / "not-there")
    assert "disk_reads_per_s" not in found
    assert absent == {"disk_reads_per_s": "No such file or directory"}


def test_a_shell_alone_knows_its_processors(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(probe, "HERE", None)  # This machine, as one that is reached over ssh.
    found, absent = probe.probe(HERE, folder)
    assert found.keys() == {"cpu_ops_per_s", "cpus_ops_per_s"}
    assert found["cpu_ops_per_s"] > 1000
    assert absent.keys() == {"memory_bytes_per_s", "disk_reads_per_s"}


@pytest.mark.alone
def test_held_memory_is_ours_until_it_is_used() -> None:
    memory = Memory()
    before = _resident_bytes()
    try:
        assert memory.hold(20 * CHUNK_BYTES - 5) == 20 * CHUNK_BYTES
        assert _resident_bytes() - before > 19 * CHUNK_BYTES
        assert memory.hold(CHUNK_BYTES) == 20 * CHUNK_BYTES, "what is held stays"
        with memory.yielding():
            time.sleep(0.3)
            # Nobody uses the machine's memory but by chance, so most of it is still held.
            assert 8 * CHUNK_BYTES < memory.held_bytes < 20 * CHUNK_BYTES
            used = bytearray(b"\1") * (12 * CHUNK_BYTES)
            time.sleep(0.3)
            assert memory.held_bytes < 10 * CHUNK_BYTES
        assert used
    finally:
        memory.release()
    assert memory.held_bytes == 0


def test_more_memory_than_there_is_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    available = {"available": 10 * CHUNK_BYTES}
    monkeypatch.setattr("innolab.hosts.observe.memory_bytes", lambda _host: available)
    memory = Memory()
    assert memory.hold(2**60) == 7 * CHUNK_BYTES
    memory.release()


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
