"""The bench of one trial: a server started cold, watched, and asked what it really ran with."""

import contextlib
import os
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from innolab import host, pagecache, series
from innolab.builds import Build
from innolab.clock import Clock
from innolab.datasets import Clone
from innolab.errors import InnolabError
from innolab.runs import behaviour, store_variables
from innolab.server import Server, Settings


@dataclass
class Bench:
    """What a trial function works with: a verified cold server and a place for what it learns.

    Attributes
    ----------
    build : the server's binaries
    dataset_facts : what the recipe's verification learnt of the tables
    clone : returns the copy of the dataset to run on
    place : folder of this trial's server
    base : the host's my.cnf
    report : folder of the report
    """

    build: Build
    dataset_facts: dict[str, Any]
    clone: Callable[[], Clone]
    place: Path
    base: Path
    report: Path
    clock: Clock = field(default_factory=Clock)
    conditions: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    _samples: list[dict[str, float]] = field(default_factory=list)

    def note(self, name: str, value: Any) -> None:
        """Record a condition of this run."""
        self.conditions[name] = value

    @contextlib.contextmanager
    def cold_server(self, settings: Settings) -> Iterator[Server]:
        """Run the block with a server that was started on data proven to be out of the page cache.

        Records the conditions of the block: settings asked for and in force, what else the host
        did meanwhile, the series, the error log, and whether the tables stayed as they were.
        """
        with self.clock.stage("dataset"):
            clone = self.clone()
        self.note("build", self.build.facts())
        self.note("dataset", self.dataset_facts)
        with self.clock.stage("eviction"):
            files = pagecache.files_under(clone.data)
            pagecache.evict(files)
            self.note("resident_pages_before_start", pagecache.resident_pages(files))
        server = Server(self.build, clone.data, self.place, self.base, settings)
        try:
            with self.clock.stage("start/stop"):
                server.start()
            self._note_variables(server, settings)
            with self._watched(server):
                yield server
            with self.clock.stage("start/stop"):
                server.stop()
        finally:
            server.kill()
            self._note_error_log(server)
        try:
            clone.require_unchanged()
            self.note("tables_changed", None)
        except InnolabError as error:
            self.note("tables_changed", str(error))

    def _note_variables(self, server: Server, settings: Settings) -> None:
        self.variables = behaviour(server.variables())
        self.note("variables", store_variables(self.report, self.variables))
        asked = {**base_settings(self.base), **settings}
        kept = {k: v for k, v in asked.items() if behaviour({k.removeprefix("loose_"): ""})}
        self.note("requested", kept)

    @contextlib.contextmanager
    def _watched(self, server: Server) -> Iterator[None]:
        before, own = host.usage(), time.process_time()
        mysqld = host.process_usage(server.pid)
        began = time.monotonic()
        with series.Sampler(server.pid) as sampler:
            self._samples = sampler.rows
            yield
        after = host.usage()
        cpus_s = (time.monotonic() - began) * (os.cpu_count() or 1)
        known = (host.process_usage(server.pid).cpu_s - mysqld.cpu_s) + time.process_time() - own
        others = after.busy_s - before.busy_s - known
        usage = {
            "swapped_pages": after.swapped_pages - before.swapped_pages,
            "steal_share": round((after.steal_s - before.steal_s) / cpus_s, 4),
            "others_share": round(max(0.0, others) / cpus_s, 4),
        }
        self.note("usage", usage)

    def _note_error_log(self, server: Server) -> None:
        # Reports are published: no path and no name of this host in them.
        log = server.error_log.replace(str(host.cache_folder()), "CACHE")
        lines = log.replace(f"@{platform.node()}", "@HOST").splitlines()
        self.note(
            "error_log",
            {
                "errors": [line for line in lines if "[ERROR]" in line],
                "warnings": [line for line in lines if "[Warning]" in line],
            },
        )

    def write_series(self, name: str) -> str | None:
        """Write the trial's series into the report and return its path there, if there is any."""
        if not self._samples:
            return None
        series.write(self._samples, self.report / name)
        return name


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
