"""The bench of one trial: a server that is started, watched, and asked what it really ran with."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from innolab.base.clock import Clock
from innolab.base.errors import InnolabError
from innolab.hosts import observe, pagecache
from innolab.hosts.base import Host
from innolab.hosts.local import HERE
from innolab.hosts.memory import Memory
from innolab.mysql.builds import Build
from innolab.mysql.counters import Counters
from innolab.mysql.datasets import Clone, Copy
from innolab.mysql.server import Server, Settings
from innolab.record import series
from innolab.record.journal import Journal
from innolab.record.runs import behaviour, store_variables
from innolab.storage.sites import Site

_HOSTNAME = "/proc/sys/kernel/hostname"
# Over ssh a sample costs an emulated host a tenth of a second of its processors.
LOADED_PERIOD_S, REMOTE_PERIOD_S = 0.25, 0.7
# What a server takes beside its pool: measured up to 420 MB for MySQL 9.7 as set up here.
_OVERHEAD_BYTES = 512 * 1024**2


@dataclass
class Bench:
    """What a trial function works with: a verified server and a place for what it learns.

    Attributes
    ----------
    build : the server's binaries
    dataset_facts : what the recipe's verification learnt of the tables
    site : the device that the trial runs on, and its host
    clone : returns a copy of the dataset there: to read only, one for all trials of the session, or
        to write, one of its own
    journal : how far a trial of hours came in an earlier session
    say, mark : take a line about what is being done now; a log has only the marks
    place : folder of this trial's server
    base : the host's my.cnf
    report : folder of the report
    parameters : the study's
    seed : of the load, another for each trial of a plan
    memory : what is held of the machine's memory, which lasts from trial to trial
    """

    build: Build
    dataset_facts: dict[str, Any]
    site: Site
    clone: Callable[[bool], Clone]
    place: Path
    base: Path
    report: Path
    journal: Journal
    say: Callable[[str], None]
    mark: Callable[[str], None]
    parameters: Any = None
    seed: int = 0
    memory: Memory = field(default_factory=Memory)
    clock: Clock = field(default_factory=Clock)
    conditions: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    sampler: series.Sampler | None = None

    def note(self, name: str, value: Any) -> None:
        """Record a condition of this run."""
        self.conditions[name] = value

    def note_row(self, name: str, row: dict[str, Any]) -> None:
        """Record one of several conditions of a kind, as that of a window."""
        self.conditions.setdefault(name, []).append(row)

    @contextlib.contextmanager
    def cold_server(self, settings: Settings) -> Iterator[Server]:
        """Run the block with a server that was started on data proven to be out of the page cache.

        The memory that it will use is held before, so that a hypervisor which takes idle memory
        back is not what is measured, and taken again at once when the server has ended: by then it
        costs nothing. The data is shared with other trials, and proven unchanged afterwards.
        Records the conditions of the block: settings asked for and in force, what else the host
        did meanwhile, the series, the error log.
        """
        self.note("device", self.site.facts())
        with self.clock.stage("cloning"):
            clone = self.clone(False)
        with self.clock.stage("eviction"):
            files = pagecache.files_under(clone.data)
            pagecache.evict(files)
            self.note("resident_pages_before_start", pagecache.resident_pages(files))
        used = _newly_used_bytes(settings, sum(file.stat().st_size for file in files))
        self.note("memory_wanted_bytes", used)
        with self.clock.stage("memory"):
            self.note("memory_held_bytes", self.memory.hold(used))
        server = self._server(clone, settings)
        with self.memory.yielding(), self._running(server), self._watched(server):
            yield server
        with self.clock.stage("memory"):
            # Listed again: a server renames the files of its redo log.
            pagecache.evict(pagecache.files_under(clone.data))
            self.memory.hold(used)
        self._note_changes(clone, may=False)

    @contextlib.contextmanager
    def loaded_server(
        self, settings: Settings, *, writes: bool
    ) -> Iterator[tuple[Server, Counters]]:
        """Run the block with a server on its device, which is not limited yet.

        A load that writes has a copy of the data of its own, which is thrown away; one that reads
        shares it, and it is proven unchanged. Either way nothing is left to save, so the server is
        killed. Records the conditions as `cold_server` does; samples more often than it.
        """
        with self.clock.stage("cloning"):
            clone = self.clone(writes)
            if writes:
                clone.warm_log()
        period_s = LOADED_PERIOD_S if self.site.host is HERE else REMOTE_PERIOD_S
        with self._sampled(clone, settings, period_s) as (server, ours):
            yield server, ours
        self._note_changes(clone, may=writes)

    @contextlib.contextmanager
    def growing_server(
        self,
        settings: Settings,
        period_s: float,
        heed: Callable[[dict[str, float]], None],
        *,
        resumed: bool,
    ) -> Iterator[Server]:
        """Run the block with a server whose data a later session can resume, where they last.

        Otherwise as `loaded_server` with a load that writes.

        Parameters
        ----------
        heed : is called with each sample
        resumed : whether to resume with the data of the journal, instead of an empty copy
        """
        copy = Copy(HERE, self.journal.data)
        if not resumed:
            with self.clock.stage("cloning"):
                self.journal.begin()
                fresh = self.clone(True)
                if self.journal.lasting:
                    fresh.data.rename(copy.data)
                else:
                    copy = fresh
        with self._sampled(copy, settings, period_s, heed) as (server, _):
            yield server
        self.note("tables_changed", None)

    @contextlib.contextmanager
    def _sampled(
        self,
        copy: Copy,
        settings: Settings,
        period_s: float,
        heed: Callable[[dict[str, float]], None] | None = None,
    ) -> Iterator[tuple[Server, Counters]]:
        self.memory.release()
        self.note("device", self.site.facts())
        server = self._server(copy, settings)
        with (
            self._running(server, stops=False),
            Counters(server) as ours,
            Counters(server) as samplers,
            self._watched(server, samplers.read, period_s, heed),
        ):
            yield server, ours

    def _server(self, copy: Copy, settings: Settings) -> Server:
        if copy.log is not None:
            settings = {**settings, "innodb_log_group_home_dir": str(copy.log)}
        site = self.site
        return Server(
            self.build, copy.data, self.place, self.base, settings, site.cgroup, site.host
        )

    def _note_changes(self, clone: Clone, *, may: bool) -> None:
        """Record what changed in tables that are shared with other trials."""
        changed = None
        if not may:
            try:
                clone.require_unchanged()
            except InnolabError as error:
                changed = str(error)
        self.note("tables_changed", changed)

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
        heed: Callable[[dict[str, float]], None] | None = None,
    ) -> Iterator[None]:
        host = self.site.host
        device = observe.device_numbers(host, server.data)
        meters = [_Meter(host, lambda: _known_cpu_s(server))]
        if host.emulator is not None:
            meters.append(_Meter(HERE, lambda: _emulation_cpu_s(host)))
        sampler = series.Sampler(host, server.pid, period_s, probe, device, heed)
        with sampler as self.sampler:
            yield
        usage = meters[0].read()
        # What disturbs the emulator disturbs the host that it emulates, which cannot see it.
        for meter in meters[1:]:
            here = meter.read()
            usage |= {
                name: max(usage[name], here[name])
                for name in ("steal_share", "others_share", "others_cpus")
            }
        self.note("usage", usage | _device_traffic(sampler.rows))

    def _note_error_log(self, server: Server) -> None:
        log = anonymous(server.error_log, self.site.host).splitlines()
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


def anonymous(text: str, host: Host = HERE) -> str:
    """Return a text without a host's folder and names: reports are published.

    Datasets are made here, so their system tables name this machine on every host.
    """
    # A cache may be made of links to another's parts.
    linked = str((host.folder / "builds").resolve())
    short = text.replace(linked, "CACHE/builds").replace(str(host.folder), "CACHE")
    for [name] in (host.peek(_HOSTNAME), HERE.peek(_HOSTNAME)):
        short = short.replace(f"@{(name or '').strip()}", "@HOST")
    return short


class _Meter:
    """What a host did since the meter was made, beside what is known of it."""

    def __init__(self, host: Host, known_s: Callable[[], float]) -> None:
        self._host, self._known_s = host, known_s
        self._kernel = observe.kernel_threads_cpu_s(host)
        self._before, self._known, self._began = observe.usage(host), known_s(), time.monotonic()

    def read(self) -> dict[str, float]:
        """Return pages swapped, the shares of all CPU time stolen and used by others.

        `others_cpus` is how many processors the others kept busy.
        """
        after, used = observe.usage(self._host), self._known_s() - self._known
        took_s = time.monotonic() - self._began
        cpus_s = took_s * self._host.cores
        now = observe.kernel_threads_cpu_s(self._host)
        used += sum(seconds - self._kernel.get(thread, 0.0) for thread, seconds in now.items())
        others = after.busy_s - self._before.busy_s - used
        return {
            "swapped_pages": after.swapped_pages - self._before.swapped_pages,
            "steal_share": round((after.steal_s - self._before.steal_s) / cpus_s, 4),
            "others_share": round(max(0.0, others) / cpus_s, 4),
            "others_cpus": round(max(0.0, others) / took_s, 4),
        }


def _newly_used_bytes(settings: Settings, data_bytes: int) -> int:
    """Return the memory that a cold trial touches first: its pool, and its files where cached."""
    pool = int(settings["innodb_buffer_pool_size"])
    cached = 0 if settings.get("innodb_flush_method") == "O_DIRECT" else data_bytes
    return pool + cached + _OVERHEAD_BYTES


def _device_traffic(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return what others than the server read and wrote on its device, and what all did together.

    From the first sample to the last. Nothing where the kernel keeps no counters of the device.
    """
    if not rows or "device_reads" not in rows[0]:
        return {}
    spent = {name: rows[-1][name] - rows[0][name] for name in rows[0]}
    return {
        "watched_s": round(spent["t_s"], 2),
        "device_bytes": int(spent["device_read_bytes"] + spent["device_written_bytes"]),
        **{
            f"foreign_{name}_bytes": max(
                0, int(spent[f"device_{name}_bytes"] - spent[f"mysqld_{name}_bytes"])
            )
            for name in ("read", "written")
        },
    }


def _emulation_cpu_s(host: Host) -> float:
    """Return the CPU seconds here of the process that emulates a host, and our own."""
    assert host.emulator is not None
    return observe.process_usage(HERE, host.emulator).cpu_s + HERE.own_cpu_s()


def _known_cpu_s(server: Server) -> float:
    """Return the CPU seconds of all processes of the trial: server, load, ourselves."""
    host = server.host
    return observe.process_usage(host, server.pid).cpu_s + host.own_cpu_s()


def base_settings_file(cache: Path) -> Path:
    """Return the host's base my.cnf, which the playbook leaves in the cache folder."""
    return cache / "etc" / "my.cnf"


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
