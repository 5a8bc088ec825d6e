"""Faults planted on this machine, each found by the check that it is there for."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import made_conditions, made_usage

from innolab.analysis import checks
from innolab.bench.usage import Meter
from innolab.hosts import observe, pagecache
from innolab.hosts.local import HERE
from innolab.storage.profiles import PAGE_BYTES

# Has 40 % of a processor, however many want it.
AT_40_PERCENT = """
import time
began = time.monotonic()
while True:
    while time.process_time() < 0.4 * (time.monotonic() - began): pass
    time.sleep(0.02)
"""


def _judged(name: str, rows: list[dict[str, Any]], check: checks.Check, **changes: Any) -> str:
    evidence = checks.Evidence(rows, {**made_conditions(), **changes}, {})
    return checks.judge(evidence, {name: check})[0].result


@pytest.mark.alone
def test_another_process_at_forty_percent_of_a_core_makes_a_run_invalid() -> None:
    meter = Meter(HERE, HERE.own_cpu_s)
    burner = subprocess.Popen([sys.executable, "-c", AT_40_PERCENT])
    try:
        time.sleep(3)
        usage = made_usage(**meter.read())
    finally:
        burner.kill()
        burner.wait()
    assert usage["others_cpus"] > 0.3
    host = {**made_conditions()["host"], "cores": 2}
    check = checks.CHECKS["other load"]
    assert _judged("other load", [], check, usage=usage, host=host) == "invalid"


def test_a_scan_of_a_warm_page_cache_is_invalid_and_of_a_cold_one_is_not(folder: Path) -> None:
    file, pages = folder / "table", 512
    file.write_bytes(os.urandom(pages * PAGE_BYTES))
    check = checks.read_from_disk(cache="cold")
    results = []
    for evicts in (True, False):
        if evicts:
            pagecache.evict([file])
        before = observe.process_usage(HERE, os.getpid()).read_bytes
        assert len(file.read_bytes()) == pages * PAGE_BYTES
        read = observe.process_usage(HERE, os.getpid()).read_bytes - before
        row = {"cache": "cold", "pages_read": pages, "read_bytes": read}
        results.append(_judged("bytes really read", [row], check))
    assert results == ["ok", "invalid"]
