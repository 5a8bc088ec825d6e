"""How far `innolab size` is off at sizes that it has not seen, and what it costs the server.

`python -m benchmarks.sizing` takes some 25 minutes. For each server and each load the pool
stands at the same share of the data; what is predicted from there for other sizes is set beside
servers that were started with them. Today's server also climbs a ladder of two sizes.
"""

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.common import MIB
from innolab.analysis import stats
from innolab.base.errors import InnolabError
from innolab.bench import oltp, sysbench
from innolab.bench.sysbench import Workload
from innolab.hosts import machine
from innolab.hosts.local import HERE
from innolab.mysql import builds, datasets
from innolab.mysql.builds import Build
from innolab.mysql.server import Server, base_settings_file
from innolab.sizing import advice, stretches
from innolab.sizing.advice import SizingRequest
from innolab.sizing.server_status import Visit
from innolab.sizing.target import Target

RESULTS = Path(__file__).parent / "results"
BUILDS = ("mysql-5.6.24", "mysql-9.7")
LOADS = ("uniform", "zipf")
ROWS, THREADS = 400_000, 8
NOW = 0.4
HELD_OUT = (0.25, 0.3, 0.5, 0.65, 0.8)
# Upwards: with clients that are always at work a server may take minutes to give up its last pages.
LADDER = (0.48, 0.6)
LEARN_S, SECONDS = 10, 12
WITHIN = 1.15
PAIRS, WINDOW_S = 12, 5


def main() -> None:
    """Run all, alone on this host, and keep the raw values."""
    rows: list[dict[str, Any]] = []
    with (
        machine.measuring_alone(),
        tempfile.TemporaryDirectory(dir=machine.cache_folder()) as name,
    ):
        place = Path(name)
        place.chmod(0o755)
        for build_id in BUILDS:
            for load in LOADS:
                rows += predictions(place, _build(build_id), load)
        with_it, without = overhead(place, _build(BUILDS[-1]))
    for how in ("one size", "ladder"):
        for what in ("reads", "per_s"):
            print(_said(how, what, rows))
    ratio = stats.paired_ratio(with_it, without)
    print(f"tps: watched / not watched {ratio.estimate:.3f} ({ratio.low:.3f} to {ratio.high:.3f})")
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"sizing-{datetime.now(UTC):%Y-%m-%dT%H%M%S}.json"
    kept = {"points": rows, "watched": with_it, "not_watched": without}
    path.write_text(json.dumps(kept, indent=1) + "\n")
    print(f"Raw values: {path}")


def _said(how: str, what: str, rows: list[dict[str, Any]]) -> str:
    off = [abs(math.log(row[what] / row[f"true_{what}"])) for row in rows if row["how"] == how]
    held = [row[f"{what}_low"] <= row[f"true_{what}"] <= row[f"{what}_high"]
            for row in rows if row["how"] == how]  # fmt: skip
    near = sum(one <= math.log(WITHIN) for one in off)
    return (
        f"{what} from {how}: {near} of {len(off)} within {WITHIN - 1:.0%}, worst "
        f"{math.exp(max(off)) - 1:.0%}; {sum(held)} in their interval"
    )


def predictions(place: Path, build: Build, load: str) -> list[dict[str, Any]]:
    """Return a row a held-out size: what was predicted, and what a server of that size did."""
    documents = {}
    with _loaded(place, build, load, NOW) as server:
        target, facts = Target(str(server.socket), user="root"), _pool(server)
        sizes = {share: round(share / NOW * facts / MIB) * MIB for share in HELD_OUT}
        request = SizingRequest(SECONDS, list(sizes.values()))
        documents["one size"] = advice.size(target, request, _log)
        if build.id == BUILDS[-1]:
            rungs = [round(share / NOW * facts / MIB) * MIB for share in LADDER]
            request = replace(request, resize=rungs)
            documents["ladder"] = advice.size(target, request, _log)
    rows = []
    for share, size in sizes.items():
        with (
            _loaded(place, build, load, share) as server,
            Visit(Target(str(server.socket), user="root")) as visit,
        ):
            true = stretches.point(visit.stretch(SECONDS, 1.0), _pool(server))
        for how, document in documents.items():
            row = next(row for row in document.rows if row.pool_bytes == size)
            reads, per_s = row.reads_a_statement, row.statements_per_s
            assert per_s is not None, document.not_known
            rows.append(
                {
                    "server": build.id, "load": load, "share": share, "how": how,
                    "reads": reads.estimate, "reads_low": reads.low, "reads_high": reads.high,
                    "per_s": per_s.estimate, "per_s_low": per_s.low, "per_s_high": per_s.high,
                    "true_reads": true.reads_a_statement,
                    "true_per_s": true.statements / true.seconds,
                }
            )  # fmt: skip
            _log(json.dumps(rows[-1]))
    return rows


def overhead(place: Path, build: Build) -> tuple[list[float], list[float]]:
    """Return transactions a second of windows in which `innolab size` watches, and of others."""
    rates: tuple[list[float], list[float]] = ([], [])
    made = _dataset(build)
    with _server(place, build, NOW) as server:
        oltp.fill(server, "read_only")
        load = Workload("read_only", made.facts["rows"], THREADS, "zipf", 7)
        sysbench.run(server, load, LEARN_S)
        watch = [sys.executable, "-c", _WATCH, str(server.socket), str(PAIRS * 4 * WINDOW_S)]
        for pair in range(PAIRS):
            for watched in (True, False) if pair % 2 else (False, True):
                load = load.next()
                if watched:
                    with subprocess.Popen(watch, stdout=subprocess.PIPE) as beside:
                        assert beside.stdout is not None
                        beside.stdout.readline()
                        rates[0].append(sysbench.run(server, load, WINDOW_S).result.tps)
                        beside.kill()
                else:
                    rates[1].append(sysbench.run(server, load, WINDOW_S).result.tps)
    return rates


# Says when it has begun; a sample every 5 s, as with the default of 60 s and twelve parts.
_WATCH = """
import sys
from innolab.sizing.target import Target
from innolab.sizing.server_status import Visit
with Visit(Target(sys.argv[1], user="root")) as visit:
    visit.facts()
    print("watching", flush=True)
    visit.stretch(float(sys.argv[2]), 5.0)
"""


def _log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _build(name: str) -> Build:
    found = builds.find(machine.cache_folder(), name)
    if not isinstance(found, Build):
        raise InnolabError(f"The benchmark needs {name}: {found.reason}")
    return found


def _dataset(build: Build) -> datasets.Dataset:
    cache = machine.cache_folder()
    return datasets.obtain(oltp.dataset(ROWS), build, cache, base_settings_file(cache), _log)


def _pool(server: Server) -> int:
    return int(server.variables()["innodb_buffer_pool_size"])


@contextmanager
def _server(place: Path, build: Build, share: float) -> Iterator[Server]:
    made = _dataset(build)
    clone = datasets.Clone(HERE, made, place / "clone")
    settings = {
        **oltp.settings(share, "read_only", ROWS, made.facts), "performance_schema": "ON",
    }  # fmt: skip
    base = base_settings_file(machine.cache_folder())
    with Server(build, clone.data, place / "run", base, settings) as server:
        yield server
    clone.remove()


@contextmanager
def _loaded(place: Path, build: Build, load: str, share: float) -> Iterator[Server]:
    """Run the block with a server under load, once its pool has learnt it."""
    with _server(place, build, share) as server:
        oltp.fill(server, "read_only")
        work = Workload("read_only", ROWS, THREADS, load, 7)
        asked = sysbench.argv(work, server, "--time=600", "--events=0", "run")
        words = [*HERE.unprivileged(), *asked]
        env = {**os.environ, "LC_ALL": "C", "INNOLAB_OLTP": sysbench.SCRIPTS["read_only"]}
        with subprocess.Popen(
            words, env=env, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            time.sleep(LEARN_S)
            try:
                yield server
            finally:
                process.terminate()


if __name__ == "__main__":
    try:
        main()
    except InnolabError as error:
        raise SystemExit(str(error)) from None
