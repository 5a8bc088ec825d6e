"""One session: its builds, datasets, copies and sites, and its trials one by one."""

import contextlib
import datetime
import errno
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from innolab.analysis import checks
from innolab.base import places
from innolab.base.clock import Clock
from innolab.base.errors import InnolabError, InputError
from innolab.base.provenance import own_facts
from innolab.base.units import bytes_text
from innolab.bench.trial import Bench, anonymous
from innolab.hosts import machine, observe, probe
from innolab.hosts.base import Host, HostLostError
from innolab.hosts.held_memory import Memory
from innolab.hosts.local import HERE
from innolab.measure import nodes, sweeper
from innolab.measure.prepare import arrays_of, needs
from innolab.mysql import builds, datasets
from innolab.mysql.builds import Build
from innolab.mysql.server import base_settings_file
from innolab.record import journal, series_store
from innolab.record.journal import Journal
from innolab.record.plan import Progress
from innolab.record.run import SCHEMA, CheckResult, Factors, Observation, Run
from innolab.storage.arrays import Arrays
from innolab.storage.profiles import HOST
from innolab.storage.sites import Site, Sites
from innolab.studies.experiment import Experiment, Trial
from innolab.studies.study import Arm

# Less than what a server asks for when a table's file grows.
_FULL_BYTES = 8 * 1024**2
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


@contextlib.contextmanager
def opened(
    experiment: Experiment,
    report: Path,
    progress: Progress,
    clock: Clock,
    *,
    keep_failed: bool = False,
) -> Iterator["Session"]:
    """Have a session, its datasets and devices ready, on the hosts that its study needs."""
    with contextlib.ExitStack() as stack:
        if arrays := arrays_of(experiment):
            stack.callback(arrays.host.close)
        spread = stack.enter_context(nodes.of(experiment, progress.say))
        session = Session(
            experiment, report, progress, clock, arrays, spread, keep_failed=keep_failed
        )
        stack.callback(session.close)
        session.prepare_datasets()
        session.prepare_devices()
        yield session


class Session:
    """The servers, datasets and clones of one session, all in one folder of the cache."""

    def __init__(
        self,
        experiment: Experiment,
        report: Path,
        progress: Progress,
        clock: Clock,
        arrays: Arrays | None = None,
        nodes: Sequence[Host] = (),
        *,
        keep_failed: bool = False,
    ) -> None:
        study, parameters = experiment.study, experiment.parameters
        self.experiment = experiment
        self.report = report
        self.progress = progress
        self.clock = clock
        self.cache = machine.cache_folder()
        self.folder = self.cache / datasets.WORK
        self.base = base_settings_file(self.cache)
        self.recipe = study.dataset(parameters)
        self.builds = _builds_of(self.cache, experiment)
        self._datasets: dict[str, datasets.Dataset] = {}
        self._clones: dict[Path, datasets.Clone] = {}
        self._written: list[datasets.Clone] = []
        self._array: Site | None = None
        self._facts: dict[tuple[str, str], dict[str, Any]] = {}
        self.lost = False
        self._memory = Memory()
        self._predecessor: Factors | None = None
        self._own_facts = own_facts()
        self.sites = Sites(
            self.folder,
            experiment.profiles,
            needs(experiment).emulated_bytes,
            study.kind.calibration_s.of(parameters),
            arrays,
            progress.say,
            clock,
            nodes[0] if nodes else HERE,
        )
        self.arrays, self._nodes = arrays, nodes
        self._keeps_failed = keep_failed
        self.hosts = [HERE, *([arrays.host] if arrays else []), *nodes]
        self._clear()
        self._beside = sweeper.Beside()

    def close(self) -> None:
        """Remove all that the session made, but datasets and what is kept of trials."""
        self._memory.release()
        self._clear()
        self._beside.dismiss()

    def _clear(self) -> None:
        """Remove this session's servers and clones, and those that a killed session left.

        Only called while holding the right to measure, so nothing in the folder is in use.
        """
        sweeper.clear(self.hosts)
        journal.clear_orphans(self.cache)
        for half in (self.cache / "datasets").glob("*" + datasets.HALF):
            shutil.rmtree(half)

    def prepare_datasets(self) -> None:
        """Build what is missing in the cache, before the first trial, so that none waits."""
        for build in self.builds.values():
            with self.clock.stage("dataset"):
                say = _prefixed(self.progress, f"{build.id}: ")
                prepared = datasets.obtain(self.recipe, build, self.cache, self.base, say)
                self._datasets[build.id] = prepared

    def prepare_devices(self) -> None:
        """Make ready every device that can be before the first trial, and ask fio for its speed."""
        arms = [vars(arm) for arm in self.experiment.arms]
        if self.arrays is not None:
            self.progress.say(f"{self.arrays.host.name}: installing servers and tools")
            with self.clock.stage("set-up"):
                self.arrays.prepare_host(list(self.builds.values()))
        self.sites.prepare(list(dict.fromkeys(str(a["device"]) for a in arms if "device" in a)))

    def clone(self, build: Build, site: Site, written: str | None) -> datasets.Clone:
        """Return a copy of a build's dataset on a device.

        To read, there is one for all trials of the session: fifty copies of the data would take
        longer than the measurement, and their different places on the disk would add noise
        between arms. To write, each trial gets fresh ones by names, in the room of the last's.
        """
        dataset = self._datasets[build.id]
        kept = site.data / (f"{build.id}-{written}" if written else build.id)
        if written is None and kept in self._clones:
            return self._clones[kept]
        if written is None:
            self.progress.say(f"{build.id}: cloning the dataset")
        log = site.log and site.log / kept.name
        made = datasets.Clone(site.host, dataset, kept, log)
        if written is None:
            self._clones[kept] = made
        else:
            self._written.append(made)
        return made

    def _discard_written(self) -> None:
        while self._written:
            self._written.pop().remove()

    def run(self, trial: Trial) -> Run:
        """Run one trial and return its record; a failure is a record too."""
        study, parameters = self.experiment.study, self.experiment.parameters
        site = self._site(trial)
        facts = self._facts_of(site)
        of_nodes = [self._facts_of(replace(site, host=one, data=one.folder)) for one in self._nodes]
        build = own_build = self.builds[str(trial.factors["server"])]
        if site.host is not HERE:
            build = builds.moved(build, self.cache, site.host.folder)
        bench = Bench(
            build=build,
            own_build=own_build,
            dataset_facts=self._datasets[build.id].facts,
            site=site,
            clone=lambda written, host: self.clone(
                build, replace(site, host=host or site.host), written
            ),
            place=site.host.folder / datasets.WORK / f"trial-{trial.position}",
            here=self.folder / f"trial-{trial.position}",
            base=base_settings_file(site.host.folder),
            report=self.report,
            journal=self._journal(trial, site),
            say=self.progress.say,
            mark=self.progress.mark,
            parameters=parameters,
            nodes=self._nodes,
            seed=(parameters.seed + trial.position) % 2**20 * 1000,
            block=trial.block,
            memory=self._memory,
        )
        bench.note("predecessor", self._predecessor)
        self._predecessor = trial.factors
        started = _now()
        error = None
        rows: list[Observation] = []
        try:
            self._discard_written()
            _probe(bench)
            for row in study.trial(bench, Arm(**trial.factors)):
                rows.append(study.observation(row))
        except (InnolabError, OSError) as failure:
            if isinstance(failure, OSError) and failure.errno in _NO_ROOM:
                raise InnolabError(
                    f"The disk failed or is full during a trial ({failure.strerror}), which is not "
                    "recorded. Make room and run the same again."
                ) from None
            error = _disk_full(site) + anonymous(str(failure)) + self._keep_failed(bench)
            self.lost = isinstance(failure, HostLostError)
            # The server may have died on one of them: the next trials get fresh copies.
            self._clones.clear()
            if not site.is_there():
                # They ended with their disk; removing them would be the next trial's failure.
                self._written.clear()
        for stage, seconds in bench.clock.seconds.items():
            self.clock.seconds[stage] += seconds
        bench.note("host", facts)
        if of_nodes:
            bench.note("nodes", of_nodes)
        if error is None:
            bench.note("disk_bytes", self._disk_bytes(bench, site))
        return self._record(trial, bench, [] if error else rows, error, started)

    def _disk_bytes(self, bench: Bench, site: Site) -> dict[str, int]:
        """Return what a trial took of this machine's disk, or of the image of an emulated one.

        The dataset of its build, the copies that its trials share, and those of its own. An array
        of another host has its own disks.
        """
        places = {"dataset": [self._datasets[bench.build.id].folder]}
        if site.host is HERE:
            shared = site.data / bench.build.id
            own = [*(copy.data for copy in self._written), bench.journal.data]
            places["shared"] = [shared] if shared in self._clones else []
            places["own"] = [data for data in own if data.exists()]
        found = {name: observe.held_bytes(HERE, folders) for name, folders in places.items()}
        return found | ({"image": site.disk.image_bytes()} if site.disk else {})

    def _journal(self, trial: Trial, site: Site) -> Journal:
        """Return a trial's journal; only what lies on our own disk outlives a session."""
        lasting = site.device == HOST
        return Journal(self.report, trial.key, self.cache, lasting=lasting)

    def recorded(self, trial: Trial) -> None:
        """Forget what was kept of a trial for the case that it had not come to its end."""
        Journal(self.report, trial.key, self.cache, lasting=False).end()

    def _keep_failed(self, bench: Bench) -> str:
        """Set a failed trial's data aside if that was asked for, and return where, as text."""
        if not self._keeps_failed:
            return ""
        if not bench.journal.data.exists():
            return " It has no data that outlive the session, so none are kept."
        return f" Its data are kept in {bench.journal.keep_failed().relative_to(self.cache)}."

    def _site(self, trial: Trial) -> Site:
        """Return where a trial runs; making an array again removes all copies."""
        device = trial.factors.get("device")
        if device is None:
            return self.sites.plain()
        ready = self.sites.at(str(device), trial.block)
        if ready.array is not None and ready is not self._array:
            self._array = ready
            for folder in [kept for kept in self._clones if kept.is_relative_to(ready.data)]:
                del self._clones[folder]
            self._written.clear()
        return ready

    def _facts_of(self, site: Site) -> dict[str, Any]:
        """Return what a site's host is, asked once for each device on each host."""
        folder = self.cache if site.host is HERE else site.data
        known = site.device, site.host.name
        if known not in self._facts:
            self._facts[known] = observe.facts(site.host, folder)
        return self._facts[known]

    def _record(
        self, trial: Trial, bench: Bench, rows: list[Observation], error: str | None, started: str
    ) -> Run:
        judged: list[CheckResult] = []
        if error is None:
            evidence = checks.Evidence(
                rows, bench.conditions, bench.variables, devices=self.experiment.profiles
            )
            judged = self.experiment.judged(evidence)
        return Run(
            schema_=SCHEMA,
            study=self.experiment.name,
            spec_sha256=self.experiment.spec_sha256,
            scale=self.experiment.parameters.scale,
            effort=self.experiment.parameters.effort_name,
            trial=trial.position,
            block=trial.block,
            factors=trial.factors,
            twin=trial.twin,
            observations=rows,
            conditions={
                "innolab": self._own_facts,
                **bench.conditions,
                "time_s": {k: round(v, 4) for k, v in bench.clock.seconds.items()},
            },
            checks=judged,
            series=bench.write_series(series_store.path_of(trial.position)),
            status="complete" if error is None else "failed",
            error=error,
            started_at=started,
            ended_at=_now(),
        )


def _probe(bench: Bench) -> None:
    with bench.clock.stage("probing"):
        found, absent = probe.probe(bench.site.host, bench.site.data)
    bench.note("probe", found)
    if absent:
        bench.note("probe_absent", absent)


def _disk_full(site: Site) -> str:
    """Return that a site's disk is full, if it is: servers report that in many ways."""
    if site.host is not HERE or (free := machine.free_disk_bytes(site.data)) > _FULL_BYTES:
        return ""
    return f"The disk of the data is full ({bytes_text(free)} free). "


def _builds_of(cache: Path, experiment: Experiment) -> dict[str, Build]:
    found = [builds.find(cache, wanted) for wanted in experiment.parameters.builds]
    usable = {b.id: b for b in found if isinstance(b, Build)}
    if gone := [name for name in experiment.plan.builds if name not in usable]:
        raise InputError(
            f"This report was begun with {', '.join(gone)}, which this host no longer has. "
            f"Install it again with: {places.set_up()}; or move the unfinished report away."
        )
    return usable


def _prefixed(progress: Progress, prefix: str) -> datasets.Say:
    return lambda text: progress.say(prefix + text)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
