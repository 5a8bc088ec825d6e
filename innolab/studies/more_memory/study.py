"""More memory, or a faster disk? (seeds S0 and S2, studies A and B)."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from innolab.bench import oltp, windows
from innolab.bench.sysbench import Workload
from innolab.bench.trial import Bench
from innolab.bench.windows import Times
from innolab.record.plan import Blocks
from innolab.record.run import Observation
from innolab.studies.kind import load_windows
from innolab.studies.more_memory.parameters import (
    LOADS,
    PLATEAU,
    POOL_RATIOS,
    SKEWED,
    MemoryParameters,
    keep,
)
from innolab.studies.more_memory.settling import unsettled
from innolab.studies.parameters import ByEffort, ByScale
from innolab.studies.study import Arm, Demands, Design, Facts, Study

# Whole seconds, which is what sysbench counts in. A server flushes in waves of 10 to 20 s where the
# device binds its writes, and needs a minute or two under the limit until these are alike: 5.6.24
# had half of its later rate in seconds 30 to 60 (docs/decisions/0016).
WINDOW_S = {"read_only": ByEffort(1, 4, 15), "read_write": ByEffort(1, 6, 60)}
# Of the report 2026-11-23-1: too short for writing, of which it decides little.
_EARLIER_S = {"read_only": ByEffort(1, 4, 5), "read_write": ByEffort(1, 6, 12)}
CAP_S = {"read_only": ByEffort(1, 8, 30), "read_write": ByEffort(1, 8, 60)}
STEP_S = {"read_only": ByEffort(1, 1, 1), "read_write": ByEffort(1, 1, 10)}
SETTLE_CAP_S = {"read_only": ByEffort(1, 6, 18), "read_write": ByEffort(1, 6, 150)}
WARM_UP_S = {"read_only": ByScale(1, 3, 900), "read_write": ByScale(1, 20, 900)}
LEARN_STEP_S, LEARN_CAP_S = ByEffort(1, 1, 5), ByEffort(1, 8, 120)


def _times(parameters: MemoryParameters, load: str, pages: float) -> Times:
    """Return the times of a scale.

    The warm-up touches as many leaf pages as the data has, about 20 a transaction; a writing one
    must also fill the redo log, with some 6 KB a transaction. Whatever is slow has its seconds.
    """
    writes = load == "read_write"
    filled = oltp.redo_bytes(parameters.table_rows) / 6000 if writes else 0
    return Times(
        warm_up_s=WARM_UP_S[load].of(parameters),
        warm_up_transactions=int(max(pages / 20, filled)),
        step_s=STEP_S[load].of(parameters),
        settle_cap_s=SETTLE_CAP_S[load].of(parameters),
        window_s=WINDOW_S[load].of(parameters),
        cap_s=CAP_S[load].of(parameters),
    )


def settings(parameters: MemoryParameters, arm: Arm, facts: Facts) -> dict[str, Any]:
    """Return the server variables of an arm; the pool is rounded to whole chunks."""
    return {
        **oltp.settings(arm.pool_ratio, arm.load, parameters.table_rows, facts),
        "innodb_flush_log_at_trx_commit": parameters.flush_log_at_trx_commit,
    }


def trial(bench: Bench, arm: Arm) -> Iterator[Observation]:
    """Fill the pool at the disk's own speed, then limit the device and measure one load.

    Where it is bound by processors alone it is measured again on one: a load that moves between
    processors scatters ten times as much from start to start.
    """
    parameters: MemoryParameters = bench.parameters
    data = oltp.data_bytes(bench.dataset_facts, arm.load)
    rows = bench.dataset_facts["rows"]
    workload = Workload(arm.load, rows, parameters.threads, arm.distribution, bench.seed)
    asked = settings(parameters, arm, bench.dataset_facts)
    with bench.loaded_server(asked, writes=arm.load == "read_write") as (server, ours):
        with bench.clock.stage("warm-up"):
            oltp.fill(server, arm.load)
            if arm.distribution != "uniform":
                step_s, cap_s = LEARN_STEP_S.of(parameters), LEARN_CAP_S.of(parameters)
                windows.learn(bench, server, ours, workload, step_s, cap_s)
        times = _times(parameters, arm.load, data / oltp.PAGE_BYTES)
        redo = oltp.redo_bytes(rows)
        yield windows.measure(bench, server, workload, times, redo)
        if arm.load == "read_only" and arm.pool_ratio >= PLATEAU:
            with server.on_one_processor():
                again = replace(times, warm_up_s=0)
                yield windows.measure(bench, server, workload, again, redo, {"processors": 1})


STUDY = Study(
    title="More memory, or a faster disk?",
    question="How does throughput grow with the buffer pool, and when does a faster disk pay more?",
    parameters=MemoryParameters,
    factors=lambda parameters: {
        "device": parameters.devices,
        "load": LOADS,
        "distribution": ["uniform", *SKEWED],
        "pool_ratio": POOL_RATIOS,
    },
    keep=keep,
    kind=load_windows(
        WINDOW_S["read_write"],
        known_windows_s=lambda parameters, arm: [
            windows[arm.load].of(parameters) for windows in (WINDOW_S, _EARLIER_S)
        ],
        checks=("pool not preloaded", "device as its profile"),
        doubts=(unsettled,),
        variables={"pool_ratio": oltp.POOL_VARIABLES},
    ),
    dataset=lambda parameters: oltp.dataset(parameters.table_rows),
    settings=settings,
    trial=trial,
    # One look: a block takes two hours, and the level of a few more looks would cost more.
    design=Design(blocks=ByEffort(Blocks(2, 2), Blocks(3, 3), Blocks(3, 3))),
    demands=Demands(tools=("sysbench", "fio", "mkfs.xfs"), variables=oltp.NEEDED_VARIABLES),
)
