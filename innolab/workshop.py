"""The workshop of one session: builds, datasets, copies, the emulated disk, and single trials."""

import contextlib
import datetime
import errno
import os
import shutil
import signal
from pathlib import Path
from typing import Any

from innolab import builds, datasets, disk, host, validity
from innolab.bench import Bench, anonymous
from innolab.builds import Build
from innolab.clock import Clock
from innolab.devices import HOST, Calibration, profiles
from innolab.errors import InnolabError, InputError
from innolab.itself import own_facts
from innolab.loads import fio
from innolab.plans import Plan, Progress
from innolab.runs import SCHEMA, Run, finite
from innolab.study import Parameters, Study, Trial

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


def base_settings_file(cache: Path) -> Path:
    """Return the host's base my.cnf, which the playbook leaves in the cache folder."""
    return cache / "etc" / "my.cnf"


class Workshop:
    """The servers, datasets and clones of one session, all in one folder of the cache."""

    def __init__(
        self,
        study: Study,
        parameters: Parameters,
        chosen: Plan,
        report: Path,
        progress: Progress,
        clock: Clock,
    ) -> None:
        self.study = study
        self.parameters = parameters
        self.report = report
        self.progress = progress
        self.clock = clock
        self.cache = host.cache_folder()
        self.folder = self.cache / datasets.WORK
        self.base = base_settings_file(self.cache)
        self.recipe = study.dataset(parameters)
        self.builds = _builds_of(self.cache, parameters, chosen)
        self.spec_sha256 = study.spec_sha256(parameters)
        self._datasets: dict[str, datasets.Dataset] = {}
        self._clones: dict[Path, datasets.Clone] = {}
        self._disk: disk.EmulatedDisk | None = None
        self._calibrations: dict[str, Calibration] = {}
        self._written: Path | None = None
        self._host_facts = host.facts(self.cache)
        self._own_facts = own_facts()
        self.clear()

    def clear(self) -> None:
        """Remove this session's servers and clones, and those that a killed session left.

        Only called while holding the right to measure, so nothing in the folder is in use.
        """
        _end_strays(self.folder)
        disk.lower_disk(self._disk_folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        for half in (self.cache / "datasets").glob("*" + datasets.HALF):
            shutil.rmtree(half)

    def prepare_datasets(self) -> None:
        """Build what the cache lacks, before the first trial, so that no trial waits for it."""
        for build in self.builds.values():
            with self.clock.stage("dataset"):
                say = _prefixed(self.progress, f"{build.id}: ")
                prepared = datasets.obtain(self.recipe, build, self.cache, self.base, say)
                self._datasets[build.id] = prepared

    @property
    def _disk_folder(self) -> Path:
        return self.folder / "disk"

    def prepare_devices(self) -> None:
        """Make the emulated disk where the study has devices, and ask fio what each device gives.

        The host's own disk is asked too: the model needs its speed.
        """
        build = next(iter(self.builds))
        arms = self.study.arms(self.parameters, build)
        wanted = list(dict.fromkeys(str(arm["device"]) for arm in arms if "device" in arm))
        if not wanted:
            return
        host_place = self.folder / "clones"
        host_place.mkdir(parents=True, exist_ok=True)
        host.give_to_server(host_place)
        if any(name != HOST for name in wanted):
            self.progress.say("making the emulated disk")
            with self.clock.stage("set-up"):
                size = self.study.needs(self.parameters).emulated_bytes
                self._disk = disk.raise_disk(self._disk_folder, size)
        duration_s = self.study.calibration_s[self.parameters.scale]
        for name in wanted:
            self.progress.say(f"calibrating {name}")
            with self.clock.stage("calibration"):
                if name == HOST or self._disk is None:
                    found = fio.calibrate(host_place, None, duration_s)
                else:
                    with self._disk.limited(profiles()[name]):
                        found = fio.calibrate(self._disk.data, self._disk.cgroup, duration_s)
                self._calibrations[name] = found

    def clone(self, build: Build, device: str, writes: bool) -> datasets.Clone:
        """Return a copy of a build's dataset on a device.

        To read, there is one for all trials of the session: fifty copies of the data would take
        longer than the measurement, and their different places on the disk would add noise
        between arms. To write, each trial gets a fresh one, in the room of the last.
        """
        emulated = self._disk is not None and device != HOST
        place = self._disk.data if emulated and self._disk else self.folder / "clones"
        if writes:
            if self._written:
                shutil.rmtree(self._written, ignore_errors=True)
            self._written = place / f"{build.id}-written"
            return datasets.Clone(self._datasets[build.id], self._written)
        kept = place / build.id
        if kept not in self._clones:
            self.progress.say(f"{build.id}: cloning the dataset")
            self._clones[kept] = datasets.Clone(self._datasets[build.id], kept)
        return self._clones[kept]

    def run(self, trial: Trial) -> Run:
        """Run one trial and return its record; a failure is a record too."""
        build = self.builds[str(trial.factors["server"])]
        bench = Bench(
            build=build,
            dataset_facts=self._datasets[build.id].facts,
            clone=lambda device, writes: self.clone(build, device, writes),
            place=self.folder / f"trial-{trial.position}",
            base=self.base,
            report=self.report,
            parameters=self.parameters,
            disk=self._disk,
            calibrations=self._calibrations,
        )
        started = _now()
        error = None
        metrics: dict[str, Any] = {}
        try:
            metrics = finite(self.study.trial(bench, trial))
        except (InnolabError, OSError) as failure:
            if isinstance(failure, OSError) and failure.errno in _NO_ROOM:
                raise InnolabError(
                    f"The disk gave out during a trial ({failure.strerror}), which is not "
                    "recorded. Make room and run the same again."
                ) from None
            error = anonymous(str(failure))
            # The server may have died on one of them: the next trials get fresh copies.
            self._clones.clear()
        for stage, seconds in bench.clock.seconds.items():
            self.clock.seconds[stage] += seconds
        return self._record(trial, bench, metrics, error, started)

    def _record(
        self, trial: Trial, bench: Bench, metrics: dict[str, Any], error: str | None, started: str
    ) -> Run:
        checks: list[Any] = []
        if error is None:
            checks = validity.judge(
                validity.Evidence(metrics, bench.conditions, bench.variables), self.study.checks
            )
        return Run(
            schema_=SCHEMA,
            study=self.study.name,
            spec_sha256=self.spec_sha256,
            scale=self.parameters.scale,
            trial=trial.position,
            block=trial.block,
            factors=trial.factors,
            metrics=metrics,
            conditions={
                "host": self._host_facts,
                "innolab": self._own_facts,
                **bench.conditions,
                "time_s": {k: round(v, 4) for k, v in bench.clock.seconds.items()},
            },
            checks=checks,
            series=bench.write_series(f"series/{trial.position:04d}.parquet"),
            status="complete" if error is None else "failed",
            error=error,
            started_at=started,
            ended_at=_now(),
        )


def _builds_of(cache: Path, parameters: Parameters, chosen: Plan) -> dict[str, Build]:
    found = [builds.find(cache, wanted) for wanted in parameters.builds]
    usable = {b.id: b for b in found if isinstance(b, Build)}
    if gone := [name for name in chosen.builds if name not in usable]:
        raise InputError(
            f"This report was begun with {', '.join(gone)}, which this host no longer has. "
            "Bring it back with: make setup; or move the unfinished report away."
        )
    return usable


def _end_strays(folder: Path) -> None:
    """End servers that run on a settings file below a folder of ours."""
    ours = f"--defaults-file={folder}/".encode()
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if any(word.startswith(ours) for word in entry.read_bytes().split(b"\0")):
                os.kill(int(entry.parent.name), signal.SIGKILL)


def _prefixed(progress: Progress, prefix: str) -> datasets.Say:
    return lambda text: progress.say(prefix + text)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
