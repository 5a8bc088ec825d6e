"""Walk a plan: skip what is recorded, run what is not, record each run before the next starts."""

import contextlib
import datetime
import errno
import json
import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from innolab import __version__, builds, datasets, host, validity
from innolab.bench import Bench
from innolab.builds import Build, Unavailable
from innolab.clock import Clock
from innolab.errors import InnolabError, InputError
from innolab.runs import SCHEMA, Run, RunLog, RunSet, finite
from innolab.server import require_short_path
from innolab.study import Parameters, Study, Trial, check_parameters, plan
from innolab.units import bytes_text

PLAN_FILE = "plan.json"
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


class Progress(Protocol):
    """Who is told how far the work is."""

    def say(self, text: str) -> None:
        """Take a line about what is being done now."""

    def trials(self, done: int, total: int, left_s: float | None, text: str) -> None:
        """Take the count of recorded trials and the estimated seconds left."""


@dataclass(frozen=True)
class Plan:
    """What was asked for, fixed before the first run: the content of plan.json."""

    study: str
    spec_sha256: str
    parameters: dict[str, Any]
    builds: list[str]
    unavailable: dict[str, str]

    @classmethod
    def read(cls, folder: Path) -> "Plan":
        """Return the plan of a report's folder.

        Raises
        ------
        InputError
            Where the folder holds none, or a damaged one.
        """
        path = folder / PLAN_FILE
        if not path.exists():
            raise InputError(f"{folder} holds no {PLAN_FILE}, so it is no innolab report.")
        try:
            return cls(**json.loads(path.read_text()))
        except (ValueError, TypeError) as error:
            raise InputError(
                f"{path} is damaged ({error}). Move its folder away, or take it from its source."
            ) from None

    def write(self, folder: Path) -> None:
        """Write the plan into a report's folder."""
        part = folder / (PLAN_FILE + ".part")
        part.write_text(json.dumps(self.__dict__, indent=1) + "\n")
        part.rename(folder / PLAN_FILE)


def prepare(study: Study, parameters: Parameters) -> Plan:
    """Return the plan for this host after every check that can be made before anything is written.

    Raises
    ------
    InputError
        Names what this host lacks and what to do about it.
    """
    cache = host.cache_folder()
    host.server_user()
    require_short_path(cache / datasets.WORK / "trial-00000")
    found = [builds.find(cache, wanted) for wanted in parameters.builds]
    usable = [b for b in found if isinstance(b, Build)]
    missing = {b.id: b.reason for b in found if isinstance(b, Unavailable)}
    if not usable:
        reasons = " ".join(f"{name}: {why}" for name, why in missing.items())
        raise InputError(
            f"None of the builds asked for can be had on this host. {reasons} "
            "Mend that and run: make setup; or name a mysqld by path with -p builds=PATH."
        )
    if len({b.id for b in usable}) < len(usable):
        raise InputError("The builds asked for are not all different; name each build once.")
    for build in usable:
        if lacking := builds.lacks(build, study.needed_variables):
            raise InputError(
                f"{build.id} has no {' and no '.join(lacking)}, which {study.name} varies, so it "
                "cannot run this study. MariaDB removed it; give a MySQL or Percona server."
            )
    if not base_settings_file(cache).exists():
        raise InputError(f"There is no {base_settings_file(cache)} yet. Run: make setup")
    _require_room(study, parameters, usable, cache)
    return Plan(
        study=study.name,
        spec_sha256=study.spec_sha256(parameters),
        parameters=parameters.model_dump(),
        builds=[b.id for b in usable],
        unavailable=missing,
    )


def plan_keys(study: Study, chosen: Plan) -> list[str]:
    """Return the identities of all trials of a plan, in its order."""
    parameters = check_parameters(study, chosen.parameters)
    return [trial.key for trial in plan(study, parameters, chosen.builds)]


def base_settings_file(cache: Path) -> Path:
    """Return the host's base my.cnf, which the playbook leaves in the cache folder."""
    return cache / "etc" / "my.cnf"


def _require_room(study: Study, parameters: Parameters, usable: list[Build], cache: Path) -> None:
    needs = study.needs(parameters)
    memory = host.memory_bytes()["available"]
    if needs.memory_bytes > memory:
        raise InputError(
            f"The largest server of {study.name} needs {bytes_text(needs.memory_bytes)} of memory "
            f"and this host has {bytes_text(memory)} available. Take a smaller scale or size."
        )
    recipe = study.dataset(parameters)
    prepared = sum(datasets.has(recipe, build, cache) for build in usable)
    needed = needs.disk_bytes_per_build * len(usable) - recipe.size_bytes * prepared
    datasets.require_disk(cache, needed)


def replaying() -> bool:
    """Return whether only recorded runs may be used (INNOLAB_REPLAY=1)."""
    return os.environ.get("INNOLAB_REPLAY") == "1"


def measure(study: Study, folder: Path, progress: Progress, clock: Clock) -> RunSet:
    """Run every trial of the folder's plan that is not recorded yet, and return all runs.

    The caller holds the right to measure (`host.measuring_alone`), except in replay.

    Raises
    ------
    InputError
        Where a build of the plan is gone.
    InnolabError
        Where runs are missing in replay, or a dataset cannot be built.
    """
    chosen = Plan.read(folder)
    parameters = check_parameters(study, chosen.parameters)
    trials = plan(study, parameters, chosen.builds)
    log = RunLog(folder / "runs.jsonl")
    recorded = {run.key: run for run in log.load()[0]}
    missing = [trial for trial in trials if trial.key not in recorded]
    for run in recorded.values():
        clock.add_earlier(run.conditions["time_s"])
    if missing and replaying():
        raise InnolabError(
            f"{len(missing)} of {len(trials)} runs are not recorded in {log.path}, and in replay "
            "none is measured. Unset INNOLAB_REPLAY to measure them."
        )
    if missing:
        if log.repair():
            progress.say("the last line was torn by a crash; its trial runs again")
        _run_trials(study, parameters, chosen, missing, log, progress, clock)
    return RunSet.read(study, folder)


def _run_trials(
    study: Study,
    parameters: Parameters,
    chosen: Plan,
    missing: list[Trial],
    log: RunLog,
    progress: Progress,
    clock: Clock,
) -> None:
    workshop = Workshop(study, parameters, chosen, log.path.parent, progress, clock)
    total = len(plan(study, parameters, chosen.builds))
    try:
        workshop.prepare_datasets()
        began = time.monotonic()
        for count, trial in enumerate(missing):
            left_s = (time.monotonic() - began) / count * (len(missing) - count) if count else None
            progress.trials(total - len(missing) + count, total, left_s, _label(trial))
            log.append(workshop.run(trial))
        progress.trials(total, total, 0, "all runs recorded")
    finally:
        workshop.clear()


def _label(trial: Trial) -> str:
    levels = [str(trial.factors[name]) for name in ("server", "case") if name in trial.factors]
    return f"block {trial.block + 1}: {', '.join(levels)}"


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
        self._clones: dict[str, datasets.Clone] = {}
        self._host_facts = host.facts(self.cache)
        self._own_facts = own_facts()
        self.clear()

    def clear(self) -> None:
        """Remove this session's servers and clones, and those that a killed session left.

        Only called while holding the right to measure, so nothing in the folder is in use.
        """
        _end_strays(self.folder)
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

    def clone(self, build: Build) -> datasets.Clone:
        """Return the session's clone for a build: one for all trials of a study that only reads.

        Fifty copies of the data would take longer than the measurement, and their different
        places on the disk would add noise between arms.
        """
        if build.id not in self._clones:
            self.progress.say(f"{build.id}: cloning the dataset")
            place = self.folder / "clones" / build.id
            self._clones[build.id] = datasets.Clone(self._datasets[build.id], place)
        return self._clones[build.id]

    def run(self, trial: Trial) -> Run:
        """Run one trial and return its record; a failure is a record too."""
        build = self.builds[str(trial.factors["server"])]
        bench = Bench(
            build=build,
            dataset_facts=self._datasets[build.id].facts,
            clone=lambda: self.clone(build),
            place=self.folder / f"trial-{trial.position}",
            base=self.base,
            report=self.report,
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
            error = str(failure)
            # The server may have died on it: the next trial gets a fresh copy.
            self._clones.pop(build.id, None)
        for stage, seconds in bench.clock.seconds.items():
            self.clock.seconds[stage] += seconds
        return self._record(trial, bench, metrics, error, started)

    def _record(
        self, trial: Trial, bench: Bench, metrics: dict[str, Any], error: str | None, started: str
    ) -> Run:
        checks: list[Any] = []
        if error is None:
            checks = validity.judge(validity.Evidence(metrics, bench.conditions, bench.variables))
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


def own_facts() -> dict[str, Any]:
    """Return which innolab this is: version, commit, and whether files differ from the commit."""
    root = Path(__file__).parent.parent
    git = ["git", "-C", str(root)]
    commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True)
    changes = subprocess.run(
        [*git, "status", "--porcelain", "--untracked-files=no"], capture_output=True, text=True
    )
    known = commit.returncode == 0
    return {
        "version": __version__,
        "commit": commit.stdout.strip() if known else None,
        "dirty": bool(changes.stdout.strip()) if known else None,
    }


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
