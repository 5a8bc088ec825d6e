"""What a device does under the patterns of SQLIO and IOMeter? Studies G, H and I of the seeds."""

import contextlib
from collections.abc import Iterator
from typing import Any

from innolab.bench.trial import Bench
from innolab.hosts.local import HERE
from innolab.mysql import datasets
from innolab.record.plan import Blocks
from innolab.record.run import Observation
from innolab.storage import fio
from innolab.storage.profiles import DeviceLoad
from innolab.studies.device_io import bursts, evidence
from innolab.studies.device_io.parameters import (
    ALL_DEPTHS,
    BURST_S,
    DEPTHS,
    FILE_BYTES,
    IN_FLIGHT,
    PATTERNS,
    SWEPT,
    WINDOW_S,
    DeviceParameters,
)
from innolab.studies.kind import Kind, named
from innolab.studies.parameters import ByEffort
from innolab.studies.study import Arm, Demands, Design, Study


def trial(bench: Bench, arm: Arm) -> Iterator[Observation]:
    """Fill a file and ask its device for all patterns, or for reads with a burst of writes."""
    size_bytes, depths = FILE_BYTES.of(bench.parameters), DEPTHS.of(bench.parameters)
    with bench.without_server(), contextlib.ExitStack() as stack:
        with bench.clock.stage("cloning"):
            filled = fio.filled_file(HERE, bench.site.data, size_bytes)
            file = stack.enter_context(filled)
        bench.note("file_bytes", size_bytes)
        if arm.work == "bursts":
            yield from _burst(bench, file, size_bytes)
            return
        for pattern, load in PATTERNS.items():
            for depth in depths if pattern == SWEPT else (IN_FLIGHT,):
                asked = load._replace(depth=depth)
                within: Observation = {"pattern": pattern, "depth": depth}
                job = _measured(bench, file, asked, size_bytes)
                bench.note_row("fio", {"within": within, **job})
                yield {**within, **evidence.of_pattern(job, load)}


def _measured(bench: Bench, file: Any, load: DeviceLoad, size_bytes: int) -> fio.Job:
    window_s = WINDOW_S.of(bench.parameters)
    # The limit is set anew for each: no load finds what an earlier one left in a cache.
    with bench.clock.stage("measured passes"), bench.site.limited():
        return fio.run(
            HERE, file, bench.site.cgroup, {"load": load}, window_s, fio.LIMIT_RAMP_S, size_bytes
        )["load"]


def _burst(bench: Bench, file: Any, size_bytes: int) -> Iterator[Observation]:
    logs = bench.place / "logs"
    HERE.fresh_folder(logs)
    times = BURST_S.of(bench.parameters)
    with bench.clock.stage("measured passes"), bench.site.limited():
        texts = bursts.measure(file, bench.site.cgroup, size_bytes, logs, times)
    HERE.remove(logs)
    bench.note("fio_logs", texts)
    yield from evidence.of_burst(bursts.line_of(texts, float(times[0])))


STUDY = Study(
    title="What a device does under a database's patterns",
    question="How do disks and flash answer random and ordered operations, and bursts of writes?",
    parameters=DeviceParameters,
    factors=lambda parameters: {
        "device": parameters.measured_of(parameters.devices),
        "work": ["patterns", "bursts"],
    },
    kind=Kind(
        metrics=evidence.METRICS,
        checks=named("swap", "steal", "other load", "device as its profile"),
        within={
            "pattern": list(PATTERNS),
            "depth": list(ALL_DEPTHS),
            "at_s": [bursts.BIN_S * (i + 1) for i in range(200)],
        },
        main=("pattern", "depth"),
        compared={"per_s": ("pattern", "depth")},
        window_s=WINDOW_S,
    ),
    dataset=lambda _: datasets.NONE,
    settings=lambda *_: {},
    trial=trial,
    design=Design(
        blocks=ByEffort(Blocks(1, 1), Blocks(3, 3), Blocks(5, 9)), control={"work": "patterns"}
    ),
    demands=Demands(tools=("fio", "mkfs.xfs"), copies=1, grows_bytes=FILE_BYTES.of),
)
