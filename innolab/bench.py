"""The bench of one trial: a server that is started, watched, and asked what it really ran with."""

import contextlib
import os
import platform
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from innolab import host, pagecache, series
from innolab.builds import Build
from innolab.clock import Clock
from innolab.counters import Counters
from innolab.datasets import Clone
from innolab.devices import HOST, Calibration, profiles
from innolab.disk import EmulatedDisk
from innolab.errors import InnolabError
from innolab.runs import behaviour, store_variables
from innolab.server import Server, Settings

LOADED_PERIOD_S = 0.25


@dataclass
class Bench:
    """What a trial function works with: a verified server and a place for what it learns.

    Attributes
    ----------
    build : the server's binaries
    dataset_facts : what the recipe's verification learnt of the tables
    clone : returns a copy of the dataset on a device, "host" or an emulated one: to read only, one
        for all trials of the session, or to write, one of its own
    place : folder of this trial's server
    base : the host's my.cnf
    report : folder of the report
    parameters : the study's
    disk : the emulated disk, where the study has one
    calibrations : what each device gave before the first trial
    """

    build: Build
    dataset_facts: dict[str, Any]
    clone: Callable[[str, bool], Clone]
    place: Path
    base: Path
    report: Path
    parameters: Any = None
    disk: EmulatedDisk | None = None
    calibrations: dict[str, Calibration] = field(default_factory=dict)
    clock: Clock = field(default_factory=Clock)
    conditions: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    sampler: series.Sampler | None = None

    def note(self, name: str, value: Any) -> None:
        """Record a condition of this run."""
        self.conditions[name] = value

    @contextlib.contextmanager
    def cold_server(self, settings: Settings) -> Iterator[Server]:
        """Run the block with a server that was started on data proven to be out of the page cache.

        The data is shared with other trials, and proven unchanged afterwards. Records the
        conditions of the block: settings asked for and in force, what else the host did
        meanwhile, the series, the error log.
        """
        with self.clock.stage("cloning"):
            clone = self.clone(HOST, False)
        with self.clock.stage("eviction"):
            files = pagecache.files_under(clone.data)
            pagecache.evict(files)
            self.note("resident_pages_before_start", pagecache.resident_pages(files))
        server = Server(self.build, clone.data, self.place, self.base, settings)
        with self._running(server), self._watched(server):
            yield server
        self._note_changes(clone, may=False)

    @contextlib.contextmanager
    def loaded_server(
        self, settings: Settings, device: str, *, writes: bool
    ) -> Iterator[tuple[Server, Counters]]:
        """Run the block with a server on a device that is not limited yet.

        A load that writes has a copy of the data of its own, which is thrown away; one that reads
        shares it, and it is proven unchanged. Either way nothing is left to save, so the server is
        killed. Records the conditions as `cold_server` does; samples each LOADED_PERIOD_S.
        """
        with self.clock.stage("cloning"):
            clone = self.clone(device, writes)
        self.note("device", self._device_facts(device))
        cgroup = self.disk.cgroup if self.disk and device != HOST else None
        server = Server(self.build, clone.data, self.place, self.base, settings, cgroup)
        with (
            self._running(server, stops=False),
            Counters(server) as ours,
            Counters(server) as samplers,
            self._watched(server, samplers.read, LOADED_PERIOD_S),
        ):
            yield server, ours
        self._note_changes(clone, may=writes)

    def _note_changes(self, clone: Clone, *, may: bool) -> None:
        """Record what changed in tables that are shared with other trials."""
        changed = None
        if not may:
            try:
                clone.require_unchanged()
            except InnolabError as error:
                changed = str(error)
        self.note("tables_changed", changed)

    def _device_facts(self, device: str) -> dict[str, Any]:
        found = self.calibrations.get(device)
        emulated = self.disk.facts if self.disk and device != HOST else None
        return {
            "name": device,
            "calibration": None if found is None else found._asdict(),
            "emulated": emulated,
        }

    @contextlib.contextmanager
    def limited(self, device: str) -> Iterator[None]:
        """Hold the server to its device's profile while the block runs; the host's has no limit."""
        if device == HOST or self.disk is None:
            yield
            return
        with self.disk.limited(profiles()[device]):
            yield

    @contextlib.contextmanager
    def _running(self, server: Server, *, stops: bool = True) -> Iterator[None]:
        self.note("build", self.build.facts())
        self.note("dataset", self.dataset_facts)
        try:
            with self.clock.stage("start/stop"):
                server.start()
            self._note_variables(server)
            yield
            if stops:
                with self.clock.stage("start/stop"):
                    server.stop()
        finally:
            with self.clock.stage("start/stop"):
                server.kill()
            self._note_error_log(server)

    def _note_variables(self, server: Server) -> None:
        self.variables = behaviour(server.variables())
        self.note("variables", store_variables(self.report, self.variables))
        asked = {**base_settings(self.base), **server.settings}
        kept = {k: v for k, v in asked.items() if behaviour({k.removeprefix("loose_"): ""})}
        self.note("requested", kept)

    @contextlib.contextmanager
    def _watched(
        self,
        server: Server,
        probe: Callable[[], dict[str, float]] | None = None,
        period_s: float = series.PERIOD_S,
    ) -> Iterator[None]:
        before, known = host.usage(), _known_cpu_s(server)
        kernel = host.kernel_threads_cpu_s()
        began = time.monotonic()
        with series.Sampler(server.pid, period_s, probe) as self.sampler:
            yield
        after = host.usage()
        cpus_s = (time.monotonic() - began) * (os.cpu_count() or 1)
        used = _known_cpu_s(server) - known
        used += sum(s - kernel.get(t, 0.0) for t, s in host.kernel_threads_cpu_s().items())
        others = after.busy_s - before.busy_s - used
        usage = {
            "swapped_pages": after.swapped_pages - before.swapped_pages,
            "steal_share": round((after.steal_s - before.steal_s) / cpus_s, 4),
            "others_share": round(max(0.0, others) / cpus_s, 4),
        }
        self.note("usage", usage)

    def _note_error_log(self, server: Server) -> None:
        log = anonymous(server.error_log).splitlines()
        self.note(
            "error_log",
            {
                "errors": [line for line in log if "[ERROR]" in line],
                "warnings": [line for line in log if "[Warning]" in line],
            },
        )

    def write_series(self, name: str) -> str | None:
        """Write the trial's series into the report and return its path there, if there is any."""
        if self.sampler is None or not self.sampler.rows:
            return None
        series.write(self.sampler.rows, self.report / name)
        return name


def anonymous(text: str) -> str:
    """Return a text without the cache's path and the host's name: reports are published."""
    short = text.replace(str(host.cache_folder()), "CACHE")
    return short.replace(f"@{platform.node()}", "@HOST")


def _known_cpu_s(server: Server) -> float:
    """Return the CPU seconds of all processes of the trial: server, load, ourselves."""
    load = resource.getrusage(resource.RUSAGE_CHILDREN)
    ours = time.process_time() + load.ru_utime + load.ru_stime
    return host.process_usage(server.pid).cpu_s + ours


def base_settings(path: Path) -> dict[str, str]:
    """Return the settings of a my.cnf of one section, names with underscores, bare names ON."""
    settings = {}
    for line in path.read_text().splitlines():
        text = line.split("#")[0].strip()
        if text and not text.startswith("["):
            name, _, value = text.partition("=")
            settings[name.strip().replace("-", "_")] = value.strip() or "ON"
    if settings.pop("skip_log_bin", None):
        settings["log_bin"] = "OFF"  # The option of that name sets this variable.
    return settings
