"""How close a fleet of 200 simulated hosts comes to the ideal: `python -m benchmarks.scheduling`.

The hosts are workers of a real Dask cluster in this process. A host takes as long for a trial as
the newest report of a study did, made shorter, and returns nothing else. In the ideal each host
has its next block at once; the time of all blocks over the number of hosts is less than that, as a
block is not divided.
"""

import argparse
import heapq
import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial

import dask
from distributed import LocalCluster, Nanny, Worker

from innolab import studies
from innolab.fleet.admission import RESOURCE
from innolab.fleet.fleet import Fleet
from innolab.measure.block import Measured, Task
from innolab.record.plan import Blocks, Plan, Silent
from innolab.report import folders

STUDY = "multi-buffer-pool"
# A host has a processor to watch itself with; 200 of them in one process would do nothing else.
UNWATCHED = {
    "distributed.admin.system-monitor.interval": "1h",
    "distributed.worker.profile.enabled": False,
}


def recorded_s(speed: float) -> list[list[float]]:
    """Return how long each trial of each whole block of the newest report takes here."""
    runs = studies.find(STUDY).read(folders.finished(STUDY)[-1]).runs
    blocks: dict[int, list[float]] = {}
    for run in runs:
        blocks.setdefault(run.block, []).append(sum(run.conditions["time_s"].values()) / speed)
    most = max(map(len, blocks.values()))
    return [trials for trials in blocks.values() if len(trials) == most]


def replayed(recorded: list[list[float]], task: Task, heed: Callable[[int, int], None]) -> Measured:
    """Take as long as a block did, however slowly 200 threads of one process wake up."""
    trials = recorded[task.block % len(recorded)]
    end = time.monotonic()
    for done, seconds in enumerate(trials):
        heed(done, len(trials))
        end += seconds
        time.sleep(max(0.0, end - time.monotonic()))
    return Measured(task.block, "", [], {})


def ideal_s(blocks_s: list[float], hosts: int) -> float:
    """Return how long blocks take in their order where each host has its next one at once."""
    free_at = [0.0] * hosts
    for took_s in blocks_s:
        heapq.heapreplace(free_at, free_at[0] + took_s)
    return max(free_at)


def lose_hosts(cluster: LocalCluster, times: int, every_s: float, ended: threading.Event) -> None:
    """End a host without a word and start another, again and again."""
    dice = random.Random(1)
    for _ in range(times):
        if ended.wait(every_s):
            return
        name = dice.choice(sorted(cluster.workers, key=str))
        worker: Worker | Nanny = cluster.workers.pop(name)
        cluster.sync(worker.close, timeout=1, executor_wait=False, reason="lost")
        cluster.scale(len(cluster.worker_spec))


def main() -> None:
    """Print throughput over the ideal; exit status 1 where a block is missing or came twice."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--hosts", type=int, default=200)
    options.add_argument("--blocks", type=int, default=1000)
    options.add_argument("--losses", type=int, default=0)
    options.add_argument("--speed", type=float, default=10, help="recorded seconds in one of here")
    asked = options.parse_args()
    plan = Plan(STUDY, "", {}, [], {}, blocks=Blocks(asked.blocks, asked.blocks), wave=asked.hosts)
    tasks = [Task(plan, block, frozenset()) for block in range(asked.blocks)]
    recorded = recorded_s(asked.speed)
    blocks_s = [sum(recorded[block % len(recorded)]) for block in range(asked.blocks)]
    best_s = ideal_s(blocks_s, asked.hosts)
    # At the end the scheduler says of each late copy that nobody waits for it any more.
    logging.disable(logging.CRITICAL)
    ended = threading.Event()
    with (
        dask.config.set(UNWATCHED),
        LocalCluster(
            n_workers=asked.hosts,
            threads_per_worker=1,
            processes=False,
            resources={RESOURCE: 1},
            # All share one process, whose memory each would take for its own.
            memory_limit=0,
            dashboard_address=None,
        ) as cluster,
        Fleet(cluster.scheduler_address, Silent(), partial(replayed, recorded)) as fleet,
    ):
        every_s = best_s / max(asked.losses, 1)
        killer = threading.Thread(
            target=lose_hosts, args=(cluster, asked.losses, every_s, ended), daemon=True
        )
        killer.start()
        began = time.monotonic()
        arrived = Counter(found.block for found in fleet.blocks(tasks))
        took_s = time.monotonic() - began
        ended.set()
        killer.join()
    once = sum(arrived[block] == 1 for block in range(asked.blocks))
    print(
        f"{asked.hosts} hosts, {asked.blocks} blocks, {asked.losses} hosts lost: {took_s:.1f} s, "
        f"ideal {best_s:.1f} s (all blocks over the hosts: {sum(blocks_s) / asked.hosts:.1f} s), "
        f"{best_s / took_s:.1%} of the ideal; {once} blocks arrived once"
    )
    if once < asked.blocks:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
