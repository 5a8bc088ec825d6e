"""What the full scan is measured on: the parameters, the seed's pools, and each arm's settings."""

from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator

from innolab.storage.profiles import HOST
from innolab.studies.parameters import ByScale, Devices, Parameters, Rows, repeats
from innolab.studies.study import Arm, Facts

MIB = 1024**2
ORIGINAL_ROWS = 10_000_000
# Half the original: below it the 2 GiB pool would scale under 1 GiB, where every server silently
# sets one instance, and the arm with eight would measure one.
ROWS_STEP = 5_000_000
# The seed's pools, at its number of rows.
POOLS = {"128M": 128 * MIB, "256M": 256 * MIB, "2G": 2048 * MIB}
CASES = [("128M", 1, "fsync"), ("256M", 1, "fsync"), ("2G", 8, "fsync"), ("2G", 1, "fsync"),
         ("256M", 1, "O_DIRECT")]  # fmt: skip
# What is in the pool before a scan: nothing, or pages in use; and how long a page that a scan reads
# must have been in it before a second access counts, in milliseconds.
OLD_BLOCKS_MS = {"nothing": 1000, "hot pages": 1000, "hot pages, 0 ms": 0}
HOT_CASE = ("256M", 1, "fsync")
# What a second server has that scans in turn with an arm's own, each while the other is stopped;
# and the arms that it is compared with, of which one is the second server's own, as a control.
IN_TURN = {
    "2G in one": {"pool": "2G", "instances": 1},
    "256M in one": {"pool": "256M", "instances": 1},
}
TURNS = [("2G", 8, "2G in one"), ("2G", 1, "2G in one"), ("2G", 1, "256M in one")]


def _whole_steps(rows: int | None) -> int | None:
    if rows is not None and rows % ROWS_STEP:
        raise ValueError(
            f"must be a multiple of {ROWS_STEP:,}, so that every pool keeps its ratio to the "
            "data and the one with eight instances holds at least 1 GiB"
        )
    return rows


class ScanParameters(Parameters):
    """The common parameters; every pool scales with the number of rows.

    Attributes
    ----------
    rows : the rows of the table, in steps of 5,000,000: a smaller pool would have one instance
    devices : devices, or host; the first has all cases, the others the scans by the page cache
    in_turn : whether scans from memory are also measured by two servers in turn, which needs the
        memory and the disk of two; at scale paper they always are
    """

    ROWS: ClassVar = ByScale(ROWS_STEP, ROWS_STEP, ORIGINAL_ROWS)
    rows: Annotated[Rows, AfterValidator(_whole_steps)] = None
    devices: Devices = [HOST, "s3-disk"]
    in_turn: bool = repeats(False)


def pool_bytes(rows: int, pool: str) -> int:
    """Return the size of one of the seed's pools for a table of some rows."""
    return POOLS[pool] * rows // ORIGINAL_ROWS


def keep(parameters: ScanParameters, arm: Arm) -> bool:
    """Return whether an arm is measured.

    A second device has the cold scans through the page cache: there the device's time outweighs
    what the host's memory costs.
    """
    case = arm.pool, arm.instances, arm.flush_method
    is_first = arm.device == parameters.devices[0]
    if arm.beside in IN_TURN:
        turn = arm.pool, arm.instances, arm.beside
        asked = parameters.in_turn or parameters.scale == "paper"
        return asked and is_first and arm.flush_method == "fsync" and turn in TURNS
    if arm.beside != "nothing":
        return is_first and case == HOT_CASE
    return case in CASES and (is_first or arm.flush_method == "fsync")


def settings(parameters: ScanParameters, arm: Arm, _facts: Facts) -> dict[str, Any]:
    """Return the server variables of an arm."""
    return {
        "innodb_buffer_pool_size": pool_bytes(parameters.table_rows, arm.pool),
        "innodb_buffer_pool_instances": arm.instances,
        "innodb_flush_method": arm.flush_method,
        "innodb_old_blocks_time": OLD_BLOCKS_MS.get(arm.beside, 1000),
        # Smaller than the smallest pool, so that the server need not adapt it to the pool.
        "loose_innodb_buffer_pool_chunk_size": 64 * MIB,
    }
