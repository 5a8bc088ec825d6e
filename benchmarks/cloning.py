"""Bytes a second of cloning a dataset against fio writing as many, both to the disk."""

import json
import shutil
import subprocess
import time
from pathlib import Path

from benchmarks.common import build
from innolab import studies
from innolab.hosts import machine, pagecache
from innolab.hosts.local import HERE
from innolab.mysql import datasets
from innolab.mysql.server import base_settings_file

PAIRS = 9


def against_fio(place: Path) -> tuple[list[float], list[float]]:
    """Return bytes per second of ours, eviction included, and of fio with a final fsync."""
    study = studies.find("multi-buffer-pool")
    recipe = study.dataset(study.check({"scale": "smoke"}))
    cache = machine.cache_folder()
    prepared = datasets.obtain(recipe, build(), cache, base_settings_file(cache), lambda _: None)
    size = sum(file.stat().st_size for file in pagecache.files_under(prepared.data))
    rates: tuple[list[float], list[float]] = [], []
    for _ in range(PAIRS):
        # Both must come from the disk's point of view alone: the source is read from memory.
        subprocess.run(["cat", *map(str, pagecache.files_under(prepared.data))],
                       stdout=subprocess.DEVNULL, check=True)  # fmt: skip
        began = time.perf_counter()
        clone = datasets.Clone(HERE, prepared, place / "clone")
        rates[0].append(size / (time.perf_counter() - began))
        shutil.rmtree(clone.data)
        rates[1].append(_fio(place, size))
    return rates


def _fio(place: Path, size: int) -> float:
    words = [machine.tool("fio"), "--name=write", f"--filename={place}/fio", "--rw=write",
             "--bs=1M", f"--size={size}", "--end_fsync=1", "--output-format=json"]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    (place / "fio").unlink()
    job = json.loads(done.stdout)["jobs"][0]
    return float(job["write"]["io_bytes"]) / (float(job["job_runtime"]) / 1000)
