"""How close a disk of service times comes to its model: fio's loads beside simulated ones."""

from collections.abc import Mapping
from typing import Any

from innolab.hosts.local import HERE
from innolab.storage import fio, model_disk
from innolab.storage.emulated import EmulatedDisk
from innolab.storage.load import DEPTH, TIMED, DeviceLoad, Outcome, calibrating
from innolab.storage.profiles import KINDS_IN_WORDS, TIMED_TOLERANCE, Profile, ServiceTimes

# Enough that the places which fio draws move the mean of an arm's times by less than 2 %; a load
# that is so slow that this takes long has the longest time.
_OPERATIONS, _LONGEST_S = 400, 6.0
# What takes little more than the way to the program and back cannot be told from it.
_PATHS = 4


def compare(disk: EmulatedDisk, profile: Profile, least_s: float) -> list[dict[str, Any]]:
    """Return a row a load: what fio got, what the model gives, and whether that is judged.

    Each load begins with a device that has nothing to do: what an earlier one left in its cache
    would be the next one's.

    Parameters
    ----------
    least_s : how long each load takes at least

    Raises
    ------
    InnolabError
        Where fio or the program fails.
    """
    assert profile.times is not None
    rows = []
    with fio.filled_file(HERE, disk.data) as file:
        for name, load in {**calibrating(DEPTH), **TIMED}.items():
            expected = _simulated(disk, profile.times, load, 20_000)
            long_enough_s = min(_OPERATIONS / expected.per_s, _LONGEST_S)
            with disk.limited(profile):
                lasting_s = max(least_s, long_enough_s)
                [found] = fio.measure(HERE, file, disk.cgroup, {name: load}, lasting_s).values()
            # As many as fio did: a cache that is not full yet takes all of them.
            expected = _simulated(disk, profile.times, load, found.operations)
            slow_enough = expected.mean_s >= _PATHS * disk.path_s
            is_judged = slow_enough and not (load.synced or _fills_a_cache(profile.times, load))
            rows.append(_row(name, found, expected, is_judged))
    return rows


def _fills_a_cache(times: ServiceTimes, load: DeviceLoad) -> bool:
    """Return whether a load lasts about as long as its cache takes to be full.

    A file system that flushes meanwhile, at a moment of its own, makes it wait for all of that.
    """
    return bool(times.cache_bytes) and not times.cache_kept and load.read_share == 0


def _simulated(
    disk: EmulatedDisk, times: ServiceTimes, load: DeviceLoad, operations: int
) -> Outcome:
    size_bytes = int(disk.facts["size_bytes"])
    return model_disk.simulated(
        times, load, size_bytes=size_bytes, span_bytes=fio.FILE_BYTES, operations=operations
    )


def _row(name: str, found: Outcome, expected: Outcome, is_judged: bool) -> dict[str, Any]:
    values = {
        f"{who}_{what}": float(f"{getattr(outcome, what):.4g}")
        for who, outcome in {"found": found, "modelled": expected}.items()
        for what in ("per_s", "p50_s", "p99_s")
    }
    return {"load": name, "judged": is_judged, **values}


def faults(rows: list[Mapping[str, Any]], tolerance: float = TIMED_TOLERANCE) -> list[str]:
    """Return in words which loads got more or less than the model by more than a share."""
    return [
        f"{row['found_per_s']:,.0f} of {row['modelled_per_s']:,.0f} "
        f"{KINDS_IN_WORDS[row['load'] + '_per_s']} a second"
        for row in rows
        if row["judged"] and abs(row["found_per_s"] / row["modelled_per_s"] - 1) > tolerance
    ]
