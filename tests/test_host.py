"""What the host says of itself, against another source; and the right to measure alone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from innolab import host
from innolab.errors import InputError


def test_one_process_measures_at_a_time_and_the_other_is_told_who() -> None:
    with host.measuring_alone():
        code = "from innolab import host\nwith host.measuring_alone(): pass"
        other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert other.returncode
        assert f"process {os.getpid()}" in other.stderr
        with pytest.raises(InputError), host.measuring_alone():
            pass
    with host.measuring_alone():
        pass


def test_the_right_ends_with_a_killed_process() -> None:
    code = (
        "import os, signal\nfrom innolab import host\n"
        "with host.measuring_alone(): os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == -9
    with host.measuring_alone():
        pass


def test_facts_of_the_disk_are_those_of_findmnt(folder: Path) -> None:
    told = subprocess.run(
        ["findmnt", "--noheadings", "--output", "FSTYPE", "--target", str(folder)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    facts = host.facts(folder)
    assert facts["disk"]["file_system"] == told.stdout.strip()
    assert facts["cores"] == os.cpu_count()
    assert facts["memory_bytes"] > 2**28


def test_process_usage_counts_cpu_and_real_writes(folder: Path) -> None:
    before = host.process_usage(os.getpid())
    total = sum(i * i for i in range(3_000_000))
    with (folder / "file").open("wb") as file:
        file.write(b"x" * 2**20)
        os.fsync(file.fileno())
    after = host.process_usage(os.getpid())
    assert total
    assert after.cpu_s > before.cpu_s
    assert after.written_bytes - before.written_bytes >= 2**20


def test_root_keeps_no_cache_in_its_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INNOLAB_CACHE", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert host.cache_folder() == Path("/var/cache/innolab")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert host.cache_folder() == Path("/somewhere/innolab")
    monkeypatch.setenv("INNOLAB_CACHE", "/elsewhere")
    assert host.cache_folder() == Path("/elsewhere")
