"""The sites of one session: every device that trials run on, on its host, made ready and measured.

A device is this machine's own disk, an emulated one, or an array of real disks on a host.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from innolab.base.clock import Clock
from innolab.hosts import machine
from innolab.hosts.base import Host
from innolab.hosts.local import HERE
from innolab.storage import emulated, fio, model_disk
from innolab.storage.arrays import DATA, LOG, Arrays
from innolab.storage.emulated import EmulatedDisk
from innolab.storage.profiles import (
    DEPTH,
    HOST,
    TIMED,
    Calibration,
    DeviceLoad,
    Outcome,
    Profile,
    ServiceTimes,
    calibrating,
)

_DEPTH_OF_DISK = 8


class _Kind(NamedTuple):
    """One of the emulated disks that there may be at a time, and its folder."""

    folder: str
    timed: bool = False
    log: bool = False


_LIMITED, _TIMED = _Kind("disk"), _Kind("timed-disk", timed=True)
_TIMED_LOG = _Kind("timed-log", timed=True, log=True)
# Of copies of data on a host's own disk.
_CLONES = "clones"


@dataclass(frozen=True)
class Site:
    """A device on a host, as a trial sees it.

    Attributes
    ----------
    device : its name
    host : where servers on it run
    data : the folder of copies of datasets
    log : the folder of their redo logs, where these are on disks of their own
    disk : the emulated disk, where it is one
    log_disk : the one that holds the redo logs, where these are apart
    profile : what an emulated disk is to do
    speedup : how many times faster than its profile it is
    calibration : what fio got from it, where it was asked
    page_reads : pages a second that fio read as lookups and scans do, where it was asked
    fidelity : of a disk of service times, what fio got and what its model gives, one row per load
    array : what was asked of an array of real disks and what there is, where it is one
    """

    device: str
    host: Host
    data: Path
    log: Path | None = None
    disk: EmulatedDisk | None = None
    log_disk: EmulatedDisk | None = None
    profile: Profile | None = None
    speedup: float = 1.0
    calibration: Calibration | None = None
    page_reads: dict[str, float] | None = None
    fidelity: list[dict[str, Any]] | None = None
    array: dict[str, Any] | None = None

    def facts(self) -> dict[str, Any]:
        """Return what a report says of it."""
        return {
            "name": self.device,
            "calibration": self.speeds() or None,
            "emulated": self.disk.facts if self.disk else None,
            **({} if self.log_disk is None else {"emulated_log": self.log_disk.facts}),
            **({} if self.speedup == 1 else {"speedup": self.speedup}),
            **({} if self.array is None else {"array": self.array}),
            **({} if self.page_reads is None else {"page_reads": self.page_reads}),
            **({} if self.fidelity is None else {"fidelity": self.fidelity}),
        }

    @property
    def cgroup(self) -> Path | None:
        """Return the control group whose processes its limits bind."""
        return self.disk.cgroup if self.disk else None

    def emulation_cpu_s(self) -> float:
        """Return the CPU seconds of the programs that serve its disks, 0 if there is none."""
        models = [disk.model for disk in self._disks if disk.model]
        return sum(model.counters().get("cpu_s", 0.0) for model in models)

    @property
    def _disks(self) -> list[EmulatedDisk]:
        return [disk for disk in (self.disk, self.log_disk) if disk]

    def is_there(self) -> bool:
        """Return whether it can be used: the program that serves a disk may have ended."""
        return all(disk.is_there() for disk in self._disks)

    def at_speed(self, speedup: float) -> "Site":
        """Return the same device so many times faster; a real one is as fast as it is."""
        return self if self.disk is None else replace(self, speedup=speedup)

    def node(self, name: str) -> "Site":
        """Return the site of one of several servers on it, whose limits bind that server alone."""
        return self if self.disk is None else replace(self, disk=self.disk.of_node(name))

    def speeds(self) -> dict[str, float]:
        """Return what fio got from it by kind of work, none if it was not asked."""
        return {} if self.calibration is None else self.calibration._asdict()

    @contextlib.contextmanager
    def limited(self) -> Iterator[None]:
        """Hold the servers on it to its profile while the block runs; a real one has no limit."""
        with contextlib.ExitStack() as stack:
            for disk in self._disks:
                assert self.profile is not None
                stack.enter_context(disk.limited(self.profile.faster(self.speedup)))
            yield


def lower_disks(folder: Path) -> None:
    """Take the emulated disks in a session's folder away, as far as they are there.

    Raises
    ------
    InnolabError
        If something still holds one.
    """
    for kind in (_LIMITED, _TIMED, _TIMED_LOG):
        _lower(folder, kind)


def _lower(folder: Path, kind: _Kind) -> None:
    emulated.lower_disk(folder / kind.folder, timed=kind.timed, log=kind.log)


class Sites:
    """Makes devices ready when they are first asked for.

    Parameters
    ----------
    folder : the session's; on another host the one of the same name
    known : the emulated devices by name
    plain_host : the host whose own disk is meant by HOST
    """

    def __init__(
        self,
        folder: Path,
        known: Mapping[str, Profile],
        emulated_bytes: int,
        calibration_s: float,
        arrays: Arrays | None,
        say: Callable[[str], None],
        clock: Clock,
        plain_host: Host = HERE,
    ) -> None:
        self._folder = folder
        self._known = known
        self._plain_host = plain_host
        self._emulated_bytes = emulated_bytes
        self._calibration_s = calibration_s
        self._arrays = arrays
        self._say = say
        self._clock = clock
        self._disks: dict[_Kind, EmulatedDisk] = {}
        self._ready: dict[str, Site] = {}
        self._arranged: tuple[str, int, Site] | None = None

    def prepare(self, devices: list[str]) -> None:
        """Make ready what can be there all at once, which arrays of the same disks cannot."""
        for name in devices:
            if self._arrays is None or name not in self._arrays.known:
                self.at(name)

    def plain(self) -> Site:
        """Return a host's own disk, not asked for its speed."""
        host = self._plain_host
        if host is not HERE:
            place = host.folder / self._folder.name / _CLONES
            host.must(["mkdir", "-p", place], what=f"Making {place}")
            return Site(HOST, host, place)
        place = self._folder / _CLONES
        place.mkdir(parents=True, exist_ok=True)
        machine.give_to_server(place)
        return Site(HOST, HERE, place)

    def at(self, device: str, block: int = 0) -> Site:
        """Return a device, ready and calibrated; an array is made for each block."""
        if self._arrays is not None and device in self._arrays.known:
            if self._arranged is None or self._arranged[:2] != (device, block):
                self._arranged = device, block, self._arrange(self._arrays, device)
            return self._arranged[2]
        ready = self._ready.get(device)
        if ready is None or not ready.is_there():
            ready = self._ready[device] = self._read(self._local(device))
        return ready

    def _local(self, device: str) -> Site:
        if device == HOST:
            return self._calibrated(self.plain())
        profile = self._known[device]
        made = self._emulated(_LIMITED if profile.times is None else _TIMED)
        log = self._emulated(_TIMED_LOG) if profile.has_log else None
        site = Site(device, HERE, made.data, log.data if log else None, made, log, profile)
        if profile.times is None:
            return self._calibrated(site)
        self._say(f"calibrating {device}")
        with self._clock.stage("calibration"):
            rows = [
                {**row, **({} if speedup == 1 else {"speedup": speedup})}
                for speedup in profile.speedups
                for row in compare(made, profile.faster(speedup), self._calibration_s)
            ]
        at_its_own = (row for row in rows if "speedup" not in row)
        speeds = {row["load"]: row["found_per_s"] for row in at_its_own}
        found = Calibration(*(speeds[name[: -len("_per_s")]] for name in Calibration._fields))
        return replace(site, calibration=found, fidelity=rows)

    def _read(self, site: Site) -> Site:
        with self._clock.stage("calibration"), site.limited():
            found = fio.page_reads(site.host, site.data, site.cgroup, self._calibration_s)
        return replace(site, page_reads=found)

    def _emulated(self, kind: _Kind) -> EmulatedDisk:
        """Return the emulated disk of a kind, again if its program ended."""
        if kind in self._disks and not self._disks[kind].is_there():
            _lower(self._folder, kind)
            gone = self._disks.pop(kind)
            # All devices on it are calibrated again on the next one.
            kept = {name: x for name, x in self._ready.items() if gone not in (x.disk, x.log_disk)}
            self._ready = kept
        if kind not in self._disks:
            self._say("making the emulated disk")
            with self._clock.stage("set-up"):
                self._disks[kind] = emulated.raise_disk(
                    self._folder / kind.folder,
                    self._emulated_bytes,
                    timed=kind.timed,
                    log=kind.log,
                )
        return self._disks[kind]

    def _arrange(self, arrays: Arrays, device: str) -> Site:
        self._say(f"{arrays.host.name}: making {device}")
        with self._clock.stage("arranging"):
            facts = arrays.arrange(device)
        log = LOG if arrays.known[device].splits else None
        return self._calibrated(Site(device, arrays.host, DATA, log, array=facts))

    def _calibrated(self, site: Site) -> Site:
        self._say(f"calibrating {site.device}")
        with self._clock.stage("calibration"), site.limited():
            found = fio.calibrate(
                site.host, site.data, site.cgroup, self._calibration_s, _depth(site)
            )
        return replace(site, calibration=found)


def _depth(site: Site) -> int:
    """Return how many operations fio should have in flight.

    Random operations fall on an array's disks unevenly: of n in flight on k disks, n / (n + k - 1)
    of the disks' speed is used where services are random, which for 32 on 8 is four fifths.
    """
    return DEPTH if site.array is None else _DEPTH_OF_DISK * site.array["disks"]


# Enough that the places which fio draws move the mean of an arm's times by less than 2 %; a load
# that is so slow that this takes long has the longest time.
_OPERATIONS, _LONGEST_S = 400, 6.0
# What takes little more than the way to the program and back cannot be distinguished from it.
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
        If fio or the program fails.
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

    A file system that flushes in that time makes it wait for all of that.
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
