"""Do our intervals say what they promise? `make evaluate`: real servers, smoke scale.

Each repetition has three blocks of three restarts: the same arm under two names, and that arm on a
device a tenth slower. At the 95 % level the first two should differ in about one repetition of
twenty, the third in most. As in a study, a block's order is drawn and ratios are taken within it.
"""

import json
import random
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from scipy.stats import binomtest

from benchmarks.common import build
from innolab import studies
from innolab.analysis import stats
from innolab.base.errors import InnolabError
from innolab.bench import sysbench
from innolab.bench.sysbench import Workload
from innolab.hosts import machine
from innolab.hosts.local import HERE
from innolab.mysql import datasets
from innolab.mysql.server import Server, base_settings_file
from innolab.storage import emulated
from innolab.storage.profiles import Profile

REPETITIONS = 30
BLOCKS = 3
WINDOW_S = 1
MIB = 1024**2
IOPS = 2000
SLOWER = 0.9
RESULTS = Path(__file__).parent / "results"
ARMS = {"a": IOPS, "b": IOPS, "slower": round(IOPS * SLOWER)}


@dataclass
class Place:
    """A table on an emulated disk, and what a server on it is started with."""

    made: emulated.EmulatedDisk
    clone: datasets.Clone
    rows: int
    folder: Path

    def tps(self, iops: int, seed: int) -> float:
        """Return transactions per second of a fresh server, its device limited to some IOPS."""
        settings: dict[str, str | int] = {
            "innodb_buffer_pool_size": 24 * MIB,
            "loose_innodb_buffer_pool_chunk_size": MIB,
            "innodb_flush_method": "O_DIRECT",
        }
        workload = Workload("read_only", self.rows, 16, "uniform", seed)
        base = base_settings_file(machine.cache_folder())
        profile = Profile("limited", iops, iops, None, None, None, "", "")
        server = Server(build(), self.clone.data, self.folder, base, settings, self.made.cgroup)
        with server:
            sysbench.warm_up(server, workload, 500, 1)
            workload = workload.next()
            with self.made.limited(profile):
                return sysbench.run(server, workload, WINDOW_S).result.tps


def measure(place: Place) -> list[dict[str, list[float]]]:
    """Return the throughputs of every repetition by arm, in the order of its blocks."""
    draw = random.Random(2017)
    repetitions = []
    trial = 0
    for number in range(REPETITIONS):
        found: dict[str, list[float]] = {arm: [] for arm in ARMS}
        for _block in range(BLOCKS):
            for arm in draw.sample(list(ARMS), len(ARMS)):
                trial += 1
                found[arm].append(place.tps(ARMS[arm], 1000 * trial))
        repetitions.append(found)
        print(f"{number + 1} of {REPETITIONS}", flush=True)
    return repetitions


def described(repetitions: list[dict[str, list[float]]], arm: str) -> str:
    """Return in how many repetitions an arm differed from `a`, and its ratio over all."""
    found = [stats.paired_ratio(r[arm], r["a"]) for r in repetitions]
    differ = sum(not one.low <= 1 <= one.high for one in found)
    interval = binomtest(differ, len(found)).proportion_ci(0.95)
    pooled = stats.paired_ratio(
        [v for r in repetitions for v in r[arm]], [v for r in repetitions for v in r["a"]]
    )
    return (
        f"{arm}: differs in {differ} of {len(found)} repetitions ({differ / len(found):.0%}; "
        f"95 % interval {interval.low:.0%} to {interval.high:.0%}); "
        f"ratio over all {pooled.estimate:.3f} "
        f"({pooled.low:.3f} to {pooled.high:.3f})"
    )


def main() -> None:
    """Measure, alone on this host, keep the raw values and print the rates."""
    study = studies.find("more-memory")
    recipe = study.dataset(study.check({"scale": "smoke"}))
    cache = machine.cache_folder()
    # The sessions' own folder: what a killed evaluation leaves there, the next session removes.
    folder = cache / datasets.WORK
    with machine.measuring_alone():
        base = base_settings_file(cache)
        prepared = datasets.obtain(recipe, build(), cache, base, lambda _: None)
        made = emulated.raise_disk(folder / "disk", 900 * MIB)
        try:
            clone = datasets.Clone(HERE, prepared, made.data / "clone")
            place = Place(made, clone, prepared.facts["rows"], folder / "run")
            repetitions = measure(place)
        finally:
            emulated.lower_disk(folder / "disk")
            shutil.rmtree(folder, ignore_errors=True)
    for arm in ("b", "slower"):
        print(described(repetitions, arm))
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"evaluation-{datetime.now(UTC):%Y-%m-%dT%H%M%S}.json"
    path.write_text(json.dumps(repetitions, indent=1) + "\n")
    print(f"Raw values: {path}")


if __name__ == "__main__":
    try:
        main()
    except InnolabError as error:
        raise SystemExit(str(error)) from None
