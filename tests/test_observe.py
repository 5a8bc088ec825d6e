"""What a host says of itself, against another source."""

import os
import subprocess
from pathlib import Path

from innolab.hosts import observe
from innolab.hosts.local import HERE


def test_facts_of_the_disk_are_those_of_df(folder: Path) -> None:
    done = subprocess.run(
        ["df", "--output=fstype", str(folder)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    facts = observe.facts(HERE, folder)
    assert facts["disk"]["file_system"] == done.stdout.split()[-1]
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


_DISKSTATS = """\
 254       0 vda 100 7 800 1 30 2 160 4 0 5 6 0 0 0 0 0 0
   7       0 loop0 1 0 8 0 2 0 16 0 0 0 0 0 0 0 0 0 0
"""


def test_a_devices_operations_and_bytes_are_its_own() -> None:
    assert observe._device_usage(_DISKSTATS, "254:0") == (100, 800 * 512, 30, 160 * 512)
    assert observe._device_usage(_DISKSTATS, "7:0") == (1, 8 * 512, 2, 16 * 512)
    # As of btrfs, which lies on devices that its number does not name.
    assert observe._device_usage(_DISKSTATS, "0:38") is None
    assert observe._device_usage(_DISKSTATS, None) is None


def test_a_synced_write_is_counted_by_its_device(folder: Path) -> None:
    numbers = observe.device_numbers(HERE, folder)
    before = observe.together(HERE, os.getpid(), numbers)[2]
    assert before is not None, f"the device {numbers} below {folder} has no counters"
    with (folder / "file").open("wb") as file:
        file.write(b"x" * 2**20)
        os.fsync(file.fileno())
    after = observe.together(HERE, os.getpid(), numbers)[2]
    assert after is not None
    assert after.written_bytes - before.written_bytes >= 2**20
    assert after.writes > before.writes
