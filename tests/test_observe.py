"""What a host says of itself, against another source."""

import os
import subprocess
from pathlib import Path

from innolab import observe
from innolab.hosts.here import HERE


def test_facts_of_the_disk_are_those_of_df(folder: Path) -> None:
    told = subprocess.run(
        ["df", "--output=fstype", str(folder)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    facts = observe.facts(HERE, folder)
    assert facts["disk"]["file_system"] == told.stdout.split()[-1]
    assert facts["cores"] == os.cpu_count()
    assert facts["memory_bytes"] > 2**28


def test_process_usage_counts_cpu_and_real_writes(folder: Path) -> None:
    before = observe.process_usage(HERE, os.getpid())
    total = sum(i * i for i in range(3_000_000))
    with (folder / "file").open("wb") as file:
        file.write(b"x" * 2**20)
        os.fsync(file.fileno())
    after = observe.process_usage(HERE, os.getpid())
    assert total
    assert after.cpu_s > before.cpu_s
    assert after.written_bytes - before.written_bytes >= 2**20
