"""The bench of one trial: a server that is started, watched, and asked what it really ran with."""

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from innolab.analysis.checks import same_value
from innolab.base.clock import Clock
from innolab.base.errors import InnolabError
from innolab.bench import usage
from innolab.hosts import observe, pagecache
from innolab.hosts.base import Host
from innolab.hosts.held_memory import Memory
from innolab.hosts.local import HERE
from innolab.hosts.network import Network
from innolab.mysql import replication
from innolab.mysql.builds import Build
from innolab.mysql.counters import Counters
from innolab.mysql.datasets import Clone, Copy
from innolab.mysql.server import Server, Settings, base_settings
from innolab.mysql.topology import Shape, Topology
from innolab.record import series
from innolab.record.journal import Journal
from innolab.record.runs import behaviour, store_variables
from innolab.storage.sites import Site

_HOSTNAME = "/proc/sys/kernel/hostname"
# Over ssh a sample costs an emulated host a tenth of a second of its processors.
LOADED_PERIOD_S, REMOTE_PERIOD_S = 0.25, 0.7
# What a server takes besides its pool: measured up to 420 MB for MySQL 9.7 as set up here.
OVERHEAD_BYTES = 512 * 1024**2
# The name of the one copy that a trial writes to.
_COPY = "written"


@dataclass
class Bench:
    """What a trial function works with: a verified server and a place for what it learns.

    Attributes
    ----------
    build : the server's binaries, on the site's host
    own_build : the same on this machine, to be asked what they have
    dataset_facts : what the recipe's verification learnt of the tables
    site : the device that the trial runs on, and its host
    clone : returns a copy of the dataset there, or in the same place of another host: to read only,
        one for all trials of the session, or to write, by a name, one of its own
    journal : how far a trial of hours came in an earlier session
    say, mark : take a line about what is being done now; a log has only the marks
    place : folder of this trial's server
    here : folder of this machine for what a trial keeps besides its servers, not made yet
    nodes : the hosts that the servers of a topology are spread over, the site's first; where there
        are none, all are on this machine
    base : the host's my.cnf
    report : folder of the report
    parameters : the study's
    seed : of the load, another for each trial of a plan
    block : the trial's, from 0
    memory : what is held of the machine's memory, which lasts from trial to trial
    """

    build: Build
    own_build: Build
    dataset_facts: dict[str, Any]
    site: Site
    clone: Callable[[str | None, Host | None], Clone]
    place: Path
    here: Path
    base: Path
    report: Path
    journal: Journal
    say: Callable[[str], None]
    mark: Callable[[str], None]
    parameters: Any = None
    nodes: Sequence[Host] = ()
    seed: int = 0
    block: int = 0
    memory: Memory = field(default_factory=Memory)
    clock: Clock = field(default_factory=Clock)
    conditions: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    sampler: series.Sampler | None = None
    watched: usage.WatchedHosts | None = None

    def own_place(self) -> Path:
        """Return a folder of this machine for what runs next to servers; makes it."""
        self.here.mkdir(parents=True, exist_ok=True)
        return self.here

    def note(self, name: str, value: Any) -> None:
        """Record a condition of this run."""
        self.conditions[name] = value

    def note_row(self, name: str, row: dict[str, Any]) -> None:
        """Record one of several conditions of a kind, as that of a window."""
        self.conditions.setdefault(name, []).append(row)

    def _note_what_runs(self) -> None:
        self.note("device", self.site.facts())
        self.note("build", self.own_build.facts())
        self.note("dataset", self.dataset_facts)

    @contextlib.contextmanager
    def cold_server(self, settings: Settings, copy: Clone | None = None) -> Iterator[Server]:
        """Run the block with a server that was started on data proven to be out of the page cache.

        The memory that it will use is held before, so that a hypervisor which takes idle memory
        back is not what is measured, and taken again at once when the server has ended: by then it
        costs nothing. The data is shared with other trials, or the trial's own copy, and proven
        unchanged afterwards.
        Records the conditions of the block: settings asked for and effective, what else the host
        did in that time, the series, the error log.
        """
        self._note_what_runs()
        with self.clock.stage("cloning"):
            clone = copy or self.clone(None, None)
        with self.clock.stage("eviction"):
            files = pagecache.files_under(clone.data)
            pagecache.evict(files)
            self.note("resident_pages_before_start", pagecache.resident_pages(files))
        used = _newly_used_bytes(settings, sum(file.stat().st_size for file in files))
        self.note("memory_wanted_bytes", used)
        with self.clock.stage("memory"):
            self.note("memory_held_bytes", self.memory.hold(used))
        server = self._server(clone, settings)
        with self.memory.yielding(), self._running(server), self._watched([server]):
            yield server
        with self.clock.stage("memory"):
            # Listed again: a server renames the files of its redo log.
            pagecache.evict(pagecache.files_under(clone.data))
            self.memory.hold(used)
        self._note_changes(clone, may=False)

    @contextlib.contextmanager
    def second_server(self, settings: Settings, copy: Copy) -> Iterator[Server]:
        """Run the block with one more server next to that which is watched, and stop it cleanly.

        Its processor time counts as the trial's own. What it reads cannot be told from what others
        do on the device, so nothing is said of that.

        Raises
        ------
        InnolabError
            If a setting is not effective.
        """
        assert self.watched is not None
        place = self.place.with_name(f"{self.place.name}-second")
        server = Server(
            self.build, copy.data, place, self.base, settings, self.site.cgroup, self.site.host
        )
        self.note("second_requested", dict(settings))
        try:
            with self.clock.stage("start/stop"):
                server.start()
            self.watched.join(server)
            _require_effective(server)
            yield server
            with self.clock.stage("start/stop"):
                server.stop()
        finally:
            server.kill()

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
            clone = self.clone(_COPY if writes else None, None)
            if writes:
                clone.warm_log()
        period_s = LOADED_PERIOD_S if self.site.host is HERE else REMOTE_PERIOD_S
        with self._sampled(clone, settings, period_s) as (server, ours):
            yield server, ours
        self._note_changes(clone, may=writes)

    @contextlib.contextmanager
    def without_server(self) -> Iterator[None]:
        """Run the block with the device alone; records what else the host did in that time."""
        self.memory.release()
        self._note_what_runs()
        self.note("requested", {})
        self.note("variables", store_variables(self.report, {}))
        host, site = self.site.host, self.site
        meter = usage.Meter(host, lambda: host.own_cpu_s() + site.emulation_cpu_s())
        yield
        self.note("usage", meter.read())

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
                fresh = self.clone(_COPY, None)
                if self.journal.lasting:
                    fresh.data.rename(copy.data)
                else:
                    copy = fresh
        with self._sampled(copy, settings, period_s, heed) as (server, _):
            yield server
        self.note("tables_changed", None)

    @contextlib.contextmanager
    def topology(self, shape: Shape, settings: Settings) -> Iterator[tuple[Topology, Network]]:
        """Run the block with servers in a network of their own, on devices of one kind.

        They are on this machine, or spread over `nodes` in turn; clients are always on this one.
        All begin with the same data and the device's own speed; `limited_nodes` limits them. None
        of it outlives the block: nothing is left to save, so the servers are killed. Records the
        conditions as `cold_server` does: variables and series of the source, what the error logs
        of all of them say.
        """
        self.memory.release()
        self._note_what_runs()
        self.note("topology", shape.facts())
        self.note("tables_changed", None)
        on = dict(zip(shape.servers, itertools.cycle(self.nodes), strict=False))
        if on:
            numbers = {host: number for number, host in enumerate(self.nodes, 1)}
            self.note("on_host", {name: numbers[host] for name, host in on.items()})
        with self.clock.stage("cloning"):
            copies = {name: self.clone(name, on.get(name)) for name in shape.servers}
            for copy in copies.values():
                copy.warm_log()
        sites = {name: self.site.node(name) for name in shape.servers}
        with Network([*shape.servers, *shape.clients], on) as network:
            raised = Topology(
                self.build,
                shape,
                network.nodes,
                {name: copy.data for name, copy in copies.items()},
                self.place,
                self.base,
                settings,
                {name: site.cgroup for name, site in sites.items()},
                with_semi_sync=replication.has_semi_sync(self.own_build),
            )
            try:
                with self.clock.stage("start/stop"):
                    raised.start()
                self._note_variables(raised.source)
                with self._watched([raised.source, *raised.others]):
                    yield raised, network
                self.note_error_logs(list(raised.servers.values()))
            finally:
                with self.clock.stage("start/stop"):
                    raised.end()

    @contextlib.contextmanager
    def limited_nodes(self, shape: Shape) -> Iterator[None]:
        """Hold each server of a topology to the site's device while the block runs."""
        with contextlib.ExitStack() as stack:
            for name in shape.servers:
                stack.enter_context(self.site.node(name).limited())
            yield

    @contextlib.contextmanager
    def _sampled(
        self,
        copy: Copy,
        settings: Settings,
        period_s: float,
        heed: Callable[[dict[str, float]], None] | None = None,
    ) -> Iterator[tuple[Server, Counters]]:
        self.memory.release()
        self._note_what_runs()
        server = self._server(copy, settings)
        with (
            self._running(server, stops=False),
            Counters(server) as ours,
            Counters(server) as samplers,
            self._watched([server], samplers.read, period_s, heed),
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
            self.note_error_logs([server])

    def _note_variables(self, server: Server) -> None:
        self.variables = behaviour(server.variables())
        self.note("variables", store_variables(self.report, self.variables))
        [base] = server.host.read(self.base)
        asked = {**base_settings(base), **server.settings}
        if "log_bin" in server.settings:
            # The option takes a name, the variable says whether there is one.
            asked["log_bin"] = "ON"
        kept = {k: v for k, v in asked.items() if behaviour({k.removeprefix("loose_"): ""})}
        self.note("requested", kept)

    @contextlib.contextmanager
    def _watched(
        self,
        servers: Sequence[Server],
        probe: Callable[[], dict[str, float]] | None = None,
        period_s: float = series.PERIOD_S,
        heed: Callable[[dict[str, float]], None] | None = None,
    ) -> Iterator[None]:
        """Sample the first of some servers, and know what else the host did."""
        host, server = self.site.host, servers[0]
        # On one disk for several servers, what is foreign to one is another's.
        device = observe.device_numbers(host, server.data) if len(servers) == 1 else None
        self.watched = hosts = usage.WatchedHosts(servers, self.site.emulation_cpu_s)
        sampler = series.Sampler(host, server.pid, period_s, probe, device, heed)
        with sampler as self.sampler:
            yield
            self.note("peak_memory_bytes", hosts.peak_memory_bytes())
        traffic = {} if hosts.joined else usage.device_traffic(sampler.rows)
        self.note("usage", hosts.read() | traffic)

    def note_error_logs(self, servers: Sequence[Server]) -> None:
        """Record what servers have complained of, once: later complaints may be part of a trial."""
        if "error_log" in self.conditions:
            return
        log = [
            line
            for server in servers
            for line in anonymous(server.error_log, self.site.host).splitlines()
        ]
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


def _require_effective(server: Server) -> None:
    effective = server.variables()
    asked = {name.removeprefix("loose_"): value for name, value in server.settings.items()}
    wrong = [
        f"{name} asked {value}, is {effective[name]}"
        for name, value in asked.items()
        if name in effective and not same_value(value, effective[name])
    ]
    if wrong:
        raise InnolabError(f"The second server of a trial did not take: {'; '.join(wrong)}.")


def _newly_used_bytes(settings: Settings, data_bytes: int) -> int:
    """Return the memory that a cold trial touches first: its pool, and its files where cached."""
    pool = int(settings["innodb_buffer_pool_size"])
    cached = 0 if settings.get("innodb_flush_method") == "O_DIRECT" else data_bytes
    return pool + cached + OVERHEAD_BYTES
