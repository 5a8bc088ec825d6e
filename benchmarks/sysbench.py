"""Transactions a second through innolab against sysbench by hand, and with our collectors on."""

import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.common import MIB, build
from innolab import studies
from innolab.bench import sysbench
from innolab.bench.sysbench import Workload
from innolab.bench.trial import LOADED_PERIOD_S
from innolab.hosts import machine
from innolab.hosts.local import HERE
from innolab.mysql import counters, datasets
from innolab.mysql.counters import Counters
from innolab.mysql.server import Server, base_settings_file
from innolab.record.series import Sampler

PAIRS = 20
WINDOW_S = 2
Pairs = tuple[list[float], list[float]]


def against_the_hand(place: Path) -> Pairs:
    """Return tps of windows measured by innolab and by the same command typed by hand."""
    with loaded_server(place) as (server, workload):
        return _pairs(lambda: _ours(server, workload), lambda: _by_hand(server, workload))


def with_collectors(place: Path) -> Pairs:
    """Return tps of windows with the trial's samplers running, and without."""
    with loaded_server(place) as (server, workload):

        def collected() -> float:
            with Counters(server) as ours, Sampler(HERE, server.pid, LOADED_PERIOD_S, ours.read):
                return _ours(server, workload)

        return _pairs(collected, lambda: _ours(server, workload))


@contextmanager
def loaded_server(place: Path) -> Iterator[tuple[Server, Workload]]:
    """Run the block with a server whose pool holds the whole table: the CPUs are the bound."""
    study = studies.find("more-memory")
    recipe = study.dataset(study.check({"scale": "smoke"}))
    cache = machine.cache_folder()
    prepared = datasets.obtain(recipe, build(), cache, base_settings_file(cache), lambda _: None)
    clone = datasets.Clone(HERE, prepared, place / "clone")
    settings: dict[str, str | int] = {
        "innodb_buffer_pool_size": 128 * MIB,
        "innodb_monitor_enable": counters.CHECKPOINT_AGE,
    }
    workload = Workload("read_only", prepared.facts["rows"], 16, "uniform", 7)
    base = base_settings_file(cache)
    with Server(build(), clone.data, place / "run", base, settings) as server:
        sysbench.run(server, workload, 3)
        yield server, workload
    subprocess.run(["rm", "-rf", str(clone.data), str(place / "run")], check=True)


def _pairs(first: Callable[[], float], second: Callable[[], float]) -> Pairs:
    values: Pairs = ([], [])
    for pair in range(PAIRS):
        turns = ((0, first), (1, second))
        for at, turn in turns if pair % 2 else turns[::-1]:
            values[at].append(turn())
    return values


def _ours(server: Server, workload: Workload) -> float:
    return sysbench.run(server, workload, WINDOW_S).result.tps


def _by_hand(server: Server, workload: Workload) -> float:
    words = sysbench.argv(workload, server, f"--time={WINDOW_S}", "--events=0", "run")
    output = subprocess.run(words, capture_output=True, text=True, check=True, cwd="/").stdout
    return float(re.search(r"transactions: +\d+ +\(([\d.]+) per sec", output)[1])  # type: ignore[index]
