"""What arrays are compared on: the parameters, the arrays, and the arms that are measured."""

from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from innolab.storage.profiles import HOST
from innolab.storage.raid import Array
from innolab.studies.parameters import (
    Builds,
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
    arrays : layouts on a number of disks, each made anew in every block
    inventory : the inventory that has the host: a name in playbooks/inventories, or a path
    host : the host's name there
    confirm : the hash of the plan for the host's disks, which lets arrays be made; the lab's disks
        are innolab's own and need none
    chunk_kib : the chunk of striped arrays, a power of two
    flush_log_at_trx_commit : the server's innodb_flush_log_at_trx_commit
    """

    ROWS: ClassVar = ByScale(250_000, 250_000, 50_000_000)
    # The server of the seed's time. In an emulated guest a second one doubles an hour.
    builds: Builds = repeats(["mysql-5.6.24"])
    threads: Annotated[list[Threads], Field(min_length=1), AfterValidator(_each_once)] | None = None
    arrays: Annotated[list[str], Field(min_length=1), one_of(ARRAYS, "arrays")] = [
        "raid1-2", "raid1-split-4", "raid5-4", "raid10-4"
    ]  # fmt: skip
    inventory: str = repeats("lab")
    host: str = repeats("lab")
    confirm: str | None = repeats(None)
    chunk_kib: Annotated[int, Field(ge=4, le=65536), AfterValidator(_power_of_two)] = 512
    flush_log_at_trx_commit: FlushLog = 1


def threads_of(parameters: RaidParameters) -> list[int]:
    """Return the numbers of threads, ascending."""
    return sorted(parameters.threads or THREADS.of(parameters))


def keep(parameters: RaidParameters, arm: Arm) -> bool:
    """Return whether an arm is measured.

    The control runs in memory alone and on this machine itself: what it gives over what the same
    arm gives in the lab is the cost of the lab's emulated processors.
    """
    uniform = arm.distribution == "uniform"
    if parameters.scale == "smoke":
        at = (arm.load, arm.pool) == ("read_write", "4G")
        return uniform and at and arm.device != HOST
    if arm.device == HOST:
        return uniform and arm.pool == "12G"
    # Hot data in memory is what D4 speaks of; on two alone, as it needs the most time to settle.
    d4 = [(array, "read_only", "8G") for array in ("raid1-2", "raid10-4")]
    return uniform or (arm.device, arm.load, arm.pool) in d4 or parameters.scale == "paper"
