"""What a device does under the patterns of SQLIO and IOMeter? Studies G, H and I of the seeds."""

import contextlib
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator

from innolab.hosts.local import HERE
from innolab.loads.trial import Bench
from innolab.mysql import datasets
from innolab.record.plan import Blocks
from innolab.record.run import Observation
from innolab.storage import bursts, fio
from innolab.storage.load import Load
from innolab.storage.profiles import HOST
from innolab.studies.parameters import Builds, ByEffort, ByScale, Devices, Parameters, repeats
from innolab.studies.study import Arm, Study

MIB = 1024**2
# SQLIO's patterns in S4, with two threads of four each in flight.
IN_FLIGHT = 8
PATTERNS = {
    "8K random read": Load(IN_FLIGHT, 8192),
    "8K random write": Load(IN_FLIGHT, 8192, 0.0),
    "256K read in order": Load(IN_FLIGHT, 256 * 1024, 1.0, in_order=True),
    "256K write in order": Load(IN_FLIGHT, 256 * 1024, 0.0, in_order=True),
    "1024K read in order": Load(IN_FLIGHT, MIB, 1.0, in_order=True),
    "1024K write in order": Load(IN_FLIGHT, MIB, 0.0, in_order=True),
}
SWEPT = "8K random read"
_ALL_DEPTHS = (1, 2, 4, 8, 16, 32, 64)
DEPTHS = ByEffort((1, 8, 32), (1, 4, 8, 32, 64), _ALL_DEPTHS)
# Five blocks of `reference` took 70 minutes so (docs/decisions/0021).
WINDOW_S = ByEffort(1, 1, 5)
# Seconds before a burst, and from its beginning on.
BURST_S = ByEffort((3, 4), (4, 6), (10, 20))
FILE_BYTES = ByScale(256 * MIB, 1024 * MIB, 16 * 1024 * MIB)


def _fio_alone(builds: list[str]) -> list[str]:
    if builds != ["fio"]:
        raise ValueError("should be fio alone: no server runs in this study")
    return builds


class DeviceParameters(Parameters):
    """The common parameters; no server runs, so the only build is the program that asks.

    Attributes
    ----------
    builds : fio, and nothing else
    rows : without a meaning here
    devices : devices, or host; at smoke the first and the last of them
    """

    ROWS: ClassVar = ByScale(100_000, 100_000, 100_000)
    builds: Annotated[Builds, AfterValidator(_fio_alone)] = repeats(["fio"])
    devices: Devices = ["15k-timed", "raid10-10x15k", "x25-e-timed", "vertex", "slc-2008",
                        "iodrive-80", HOST]  # fmt: skip


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
                yield {
                    "pattern": pattern,
                    "depth": depth,
                    **_measured(bench, file, asked, size_bytes),
                }


def _measured(bench: Bench, file: Any, load: Load, size_bytes: int) -> dict[str, float]:
    window_s = WINDOW_S.of(bench.parameters)
    # The limit is set anew for each: no load finds what an earlier one left in a cache.
    with bench.clock.stage("measured passes"), bench.site.limited():
        found = fio.measure(
            HERE, file, bench.site.cgroup, {"load": load}, window_s, fio.LIMIT_RAMP_S, size_bytes
        )["load"]
    return {
        "per_s": found.per_s,
        "bytes_per_s": found.per_s * load.block_bytes,
        "mean_s": found.mean_s,
        "p50_s": found.p50_s,
        "p99_s": found.p99_s,
    }


def _burst(bench: Bench, file: Any, size_bytes: int) -> Iterator[Observation]:
    logs = bench.place / "logs"
    HERE.fresh_folder(logs)
    times = BURST_S.of(bench.parameters)
    with bench.clock.stage("measured passes"), bench.site.limited():
        line = bursts.measure(file, bench.site.cgroup, size_bytes, logs, times)
    HERE.remove(logs)
    for one in line.reads:
        yield {"at_s": one.at_s, "reads_per_s": one.per_s, "read_s": one.mean_s}
    yield {**bursts.summary(line)}


STUDY = Study(
    title="What a device does under a database's patterns",
    question="How do disks and flash answer random and ordered operations, and bursts of writes?",
    parameters=DeviceParameters,
    factors=lambda parameters: {
        "device": parameters.measured_of(parameters.devices),
        "work": ["patterns", "bursts"],
    },
    control={"work": "patterns"},
    within={
        "pattern": list(PATTERNS),
        "depth": list(_ALL_DEPTHS),
        "at_s": [bursts.BIN_S * (i + 1) for i in range(200)],
    },
    main=("pattern", "depth"),
    metrics={"per_s": "1/s", "bytes_per_s": "bytes/s", "mean_s": "s", "p50_s": "s", "p99_s": "s",
             "reads_per_s": "1/s", "read_s": "s", "reads_before_per_s": "1/s",
             "reads_in_burst_per_s": "1/s", "fall_ratio": "share", "read_before_s": "s",
             "read_in_burst_s": "s", "read_rise_ratio": "share", "write_in_burst_s": "s"},
    compared={"per_s": ("pattern", "depth")},
    blocks=ByEffort(Blocks(1, 1), Blocks(3, 3), Blocks(5, 9)),
    dataset=lambda _: datasets.NONE,
    settings=lambda *_: {},
    trial=trial,
    checks=("swap", "steal", "other load", "device as its profile"),
    variables={"device": (), "work": ()},
    tools=("fio", "mkfs.xfs"),
    calibration_s=ByScale(0.3, 1.0, 10.0),
    window_s=WINDOW_S,
    copies=1,
    grows_bytes=FILE_BYTES.of,
)  # fmt: skip
