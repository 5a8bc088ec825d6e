"""What arrays are compared on: the parameters, the arrays, and the arms that are measured."""

from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from innolab.storage.profiles import HOST, Profile, ServiceTimes, profiles
from innolab.storage.raid import Array
from innolab.studies.parameters import (
    ByScale,
    FlushLog,
    Parameters,
    Threads,
    one_of,
    repeats,
)
from innolab.studies.study import Arm

# The seed's pools over its 11 GB of data, by the names that it gives them.
POOLS = {"12G": 12 / 11, "8G": 8 / 11, "4G": 4 / 11}
# The seed states no number of disks. A mirror usually has two; the others have four here, and the
# split mirrors four together, so that three of the layouts have the same number.
ARRAYS = {
    "single-1": Array("single", 1),
    "raid1-2": Array("raid1", 2),
    "raid1-4": Array("raid1", 4),
    "raid1-split-4": Array("raid1-split", 4),
    "raid5-4": Array("raid5", 4),
    "raid10-4": Array("raid10", 4),
    "raid5-8": Array("raid5", 8),
    "raid10-8": Array("raid10", 8),
}
# S1: 14 queries without BEGIN and COMMIT; 19 with them. sysbench 1.0 issues 20 if one of its two
# updates is asked for twice as in 0.4, and 18 otherwise.
OPTIONS = {"read_only": ("--skip_trx=on",), "read_write": ("--index_updates=2",)}
THREADS = ByScale([10], [10, 100], [1, 5, 10, 15, 20, 30, 100])
# What S1 says of hot data is of a mirror; RAID10 is what it is compared with. A hundredth of the
# rows is hot in `special`, which 8 of 11 GB hold all of; of `hot` rows 4 of 11 GB hold 80 %.
HOT_ARRAYS = ("raid1-2", "raid10-4")
HOT_ARMS = {("special", "read_only", "8G"), ("special", "read_write", "8G"),
            ("hot", "read_only", "4G")}  # fmt: skip
HOT_OPTIONS = (f"--rand-spec-pct={round(100 * POOLS['4G'] / 0.8)}", "--rand-spec-res=99")
# Of many disks the seed says that they are the best: that is asked at one arm.
MANY_DISKS = "raid10-8"
# Arms whose throughput the disks decide, at each array and load; the others have processors or
# memory to thank for it. Only there may disks be faster than real ones: docs/decisions/0041.
BOUND_BY_DISKS = {("uniform", "8G"), ("uniform", "4G"), ("hot", "4G")}


def _single_disks() -> dict[str, ServiceTimes]:
    """Return the disks that arrays can be made of; their own caches are off, as databases ask."""
    times = {name: profile.times for name, profile in profiles().items()}
    return {
        name: one._replace(cache_bytes=0, cache_s=0)
        for name, one in times.items()
        if one is not None and one.units == 1
    }


DISKS = _single_disks()


def _each_once(threads: list[int]) -> list[int]:
    if len(set(threads)) < len(threads):
        raise ValueError("names a number of threads twice")
    return threads


def _power_of_two(chunk: int) -> int:
    if chunk & (chunk - 1):
        raise ValueError("is no power of two, which md asks of a chunk")
    return chunk


class RaidParameters(Parameters):
    """The common parameters, the host, its arrays and how they are made.

    Attributes
    ----------
    threads : the connections of the load, one window for each number; left out, the scale says them
    arrays : layouts on a number of disks
    inventory : the inventory that has a host on whose disks arrays are really made, anew in every
        block: a name in playbooks/inventories, such as lab, or a path; left out, they are modelled
        on this machine
    host : the host's name there
    confirm : the hash of the plan for the host's disks, which lets arrays be made; the lab's disks
        are innolab's own and need none
    chunk_kib : the chunk of striped arrays, a power of two
    disk : which disk modelled arrays are made of
    speedup : how many times faster modelled disks are where only they decide
    flush_log_at_trx_commit : the server's innodb_flush_log_at_trx_commit
    """

    ROWS: ClassVar = ByScale(250_000, 2_000_000, 50_000_000)
    threads: Annotated[list[Threads], Field(min_length=1), AfterValidator(_each_once)] | None = None
    arrays: Annotated[list[str], Field(min_length=1), one_of(ARRAYS, "arrays")] = [
        "raid1-2", "raid1-split-4", "raid5-4", "raid10-4", "raid10-8"
    ]  # fmt: skip
    inventory: str | None = repeats(None)
    host: str = repeats("lab")
    confirm: str | None = repeats(None)
    chunk_kib: Annotated[int, Field(ge=4, le=65536), AfterValidator(_power_of_two)] = 512
    disk: Annotated[str, one_of(DISKS, "disks")] = "15k-timed"
    speedup: Annotated[float, Field(ge=1, le=8)] = 2.0
    flush_log_at_trx_commit: FlushLog = 1


def threads_of(parameters: RaidParameters) -> list[int]:
    """Return the numbers of threads, ascending."""
    return sorted(parameters.threads or THREADS.of(parameters))


def keep(parameters: RaidParameters, arm: Arm) -> bool:
    """Return whether an arm is measured.

    The control of the lab runs in memory alone and on this machine itself: what it gives over what
    the same arm gives in the lab is the cost of the lab's emulated processors.
    """
    uniform = arm.distribution == "uniform"
    writes_most = (arm.load, arm.pool) == ("read_write", "4G")
    if parameters.scale == "smoke":
        return uniform and writes_most and arm.device != HOST
    if arm.device == HOST:
        return uniform and arm.pool == "12G"
    if arm.device == MANY_DISKS and "raid10-4" in parameters.arrays:
        return uniform and writes_most
    if (arm.distribution, arm.load, arm.pool) in _hot_arms(parameters):
        return arm.device in HOT_ARRAYS or parameters.scale == "paper"
    return uniform or (arm.distribution == "special" and parameters.scale == "paper")


def _hot_arms(parameters: RaidParameters) -> set[tuple[str, str, str]]:
    """Return access, load and pool of arms with hot rows; real arrays have the first alone."""
    return HOT_ARMS if parameters.inventory is None else {("special", "read_only", "8G")}


def modelled(parameters: RaidParameters) -> dict[str, Profile]:
    """Return the arrays as emulated devices by name; none where a host has real disks for them."""
    if parameters.inventory is not None:
        return {}
    disk, chunk_bytes = DISKS[parameters.disk], 1024 * parameters.chunk_kib
    of_disk = profiles()[parameters.disk]
    return {
        name: of_disk._replace(
            name=name,
            note="",
            times=ARRAYS[name].of_disks(disk, chunk_bytes),
            has_log=ARRAYS[name].splits,
            speedups=tuple(dict.fromkeys([1.0, parameters.speedup])),
        )
        for name in parameters.arrays
    }


def real(parameters: RaidParameters) -> dict[str, Array]:
    """Return the arrays that are made of a host's disks by name; none where they are modelled."""
    return {name: ARRAYS[name] for name in parameters.arrays if parameters.inventory}


def speedup_of(parameters: RaidParameters, arm: Arm) -> float:
    """Return how many times faster than real ones the disks of an arm are."""
    bound = (arm.distribution, arm.pool) in BOUND_BY_DISKS
    return parameters.speedup if bound and parameters.inventory is None else 1.0
