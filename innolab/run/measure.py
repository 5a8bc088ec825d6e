"""Walk a plan: skip what is recorded, run what is not, record each run before the next starts."""

import contextlib
import datetime
import os
import time
from pathlib import Path

from innolab.analysis import claims
from innolab.base.clock import Clock
from innolab.base.errors import InnolabError, InputError
from innolab.base.provenance import own_facts
from innolab.base.units import bytes_text
from innolab.hosts import machine, observe, tools
from innolab.hosts.local import HERE
from innolab.mysql import builds, datasets
from innolab.mysql.builds import Build, Unavailable
from innolab.mysql.server import require_short_path
from innolab.record import journal, runlog
from innolab.record.plan import Plan, Progress
from innolab.record.run import Run
from innolab.record.runlog import FILE, RunLog, Session
from innolab.record.runs import RunSet
from innolab.record.study import Parameters, Study, Trial, check_parameters, plan
from innolab.run.session import Workshop, base_settings_file
from innolab.storage import arrays, emulated
from innolab.storage.arrays import Arrays
from innolab.storage.profiles import HOST


def prepare(study: Study, parameters: Parameters) -> Plan:
    """Return the plan for this host after every check that can be made before anything is written.

    Raises
    ------
    InputError
        Names what this host lacks and what to do about it.
    """
    cache = machine.cache_folder()
    machine.server_user()
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
        if why := study.refuses(build):
            raise InputError(f"{build.id} cannot run {study.name}: {why}.")
    if not base_settings_file(cache).exists():
        raise InputError(f"There is no {base_settings_file(cache)} yet. Run: make setup")
    for name in study.tools:
        tools.path(name)
    parameters, missing_devices = _usable_devices(study, parameters)
    if not study.arms(parameters, usable[0].id):
        raise InputError(
            f"{study.name} has nothing to measure with these parameters at scale "
            f"'{parameters.scale}'. Name other devices, or take a larger scale."
        )
    _require_room(study, parameters, usable, cache)
    if found_arrays := _arrays(study, parameters):
        with contextlib.closing(found_arrays.host):
            _require_host(study, parameters, usable, found_arrays)
    return Plan(
        study=study.name,
        spec_sha256=study.spec_sha256(parameters),
        parameters=parameters.model_dump(),
        builds=[b.id for b in usable],
        unavailable=missing,
        missing_devices=missing_devices,
    )


def _arrays(study: Study, parameters: Parameters) -> Arrays | None:
    """Return the arrays that a study needs, their host connected, or None where it needs none."""
    known = study.arrays(parameters)
    if not known:
        return None
    where = parameters.model_dump()
    storage = {"chunk_kib": where["chunk_kib"]}
    return arrays.connect(known, where["inventory"], where["host"], storage)


def _require_host(study: Study, parameters: Parameters, usable: list[Build], found: Arrays) -> None:
    for build in usable:
        builds.moved(build, machine.cache_folder(), found.host.folder)
    needs = study.needs(parameters)
    # A copy to read for each build, and one to write.
    copies = (len(usable) + 1) * study.dataset(parameters).size_bytes
    arrays.require_room(found, needs.memory_bytes, copies)
    arrays.require_confirmed(found, parameters.model_dump()["confirm"])


def _usable_devices(study: Study, parameters: Parameters) -> tuple[Parameters, dict[str, str]]:
    """Return the parameters without the devices that cannot be had here, and why each cannot."""
    real = study.arrays(parameters)
    wanted = [name for name in study.devices(parameters) if name not in real]
    why = emulated.why_impossible()
    asked = [name for name in wanted if name != HOST]
    if why is None or not asked:
        return parameters, {}
    if HOST not in wanted:
        raise InputError(
            f"{', '.join(asked)} cannot be emulated here: {why}. Run it as root, or on the "
            f"host's own disk with -p devices={HOST}."
        )
    return parameters.model_copy(update={"devices": [HOST]}), dict.fromkeys(asked, why)


def _require_room(study: Study, parameters: Parameters, usable: list[Build], cache: Path) -> None:
    needs = study.needs(parameters)
    memory = observe.memory_bytes(HERE)["available"]
    in_memory = emulated.backing(needs.emulated_bytes) == "memory"
    needed_memory = needs.memory_bytes + (needs.emulated_bytes if in_memory else 0)
    if needed_memory > memory:
        raise InputError(
            f"The largest server of {study.name} needs {bytes_text(needed_memory)} of memory "
            f"and this host has {bytes_text(memory)} available. Take a smaller scale or size."
        )
    recipe = study.dataset(parameters)
    prepared = sum(datasets.has(recipe, build, cache) for build in usable)
    needed = needs.disk_bytes_per_build * len(usable) - recipe.size_bytes * prepared
    needed += 0 if in_memory else needs.emulated_bytes
    datasets.require_disk(cache, needed)


def replaying() -> bool:
    """Return whether only recorded runs may be used (INNOLAB_REPLAY=1)."""
    return os.environ.get("INNOLAB_REPLAY") == "1"


def measure(study: Study, folder: Path, progress: Progress, clock: Clock) -> RunSet:
    """Run every trial of the folder's plan that is not recorded yet, and return all runs.

    The caller holds the right to measure (`machine.measuring_alone`), except in replay.

    Raises
    ------
    InputError
        Where a build of the plan is gone, or the log of the runs was altered.
    InnolabError
        Where runs are missing in replay, or a dataset cannot be built.
    """
    chosen = Plan.read(folder)
    parameters = check_parameters(study, chosen.parameters)
    trials = plan(study, parameters, chosen.builds)
    log = RunLog(folder / FILE)
    entries, torn = log.entries()
    if altered := runlog.faults(entries):
        raise InputError(
            f"{log.path} is not as it was written: {altered[0]}. Restore it, or move its folder "
            "away and measure anew. Nothing was changed."
        )
    recorded = {e.content.key: e.content for e in entries if isinstance(e.content, Run)}
    journal.settle(folder, recorded)
    missing = [trial for trial in trials if trial.key not in recorded]
    for run in recorded.values():
        clock.add_earlier(run.conditions["time_s"])
    if missing and replaying():
        raise InnolabError(
            f"{len(missing)} of {len(trials)} runs are not recorded in {log.path}, and in replay "
            "none is measured. Unset INNOLAB_REPLAY to measure them."
        )
    if missing:
        if torn is not None:
            log.repair()
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
    found = _arrays(study, parameters)
    workshop = Workshop(study, parameters, chosen, log.path.parent, progress, clock, found)
    total = len(plan(study, parameters, chosen.builds))
    try:
        workshop.prepare_datasets()
        workshop.prepare_devices()
        log.begin(_session(study, parameters, chosen))
        began = time.monotonic()
        for count, trial in enumerate(missing):
            left_s = (time.monotonic() - began) / count * (len(missing) - count) if count else None
            progress.trials(total - len(missing) + count, total, left_s, _label(trial))
            log.append(run := workshop.run(trial))
            workshop.recorded(trial)
            if workshop.lost:
                raise InnolabError(str(run.error))
        progress.trials(total, total, 0, "all runs recorded")
    finally:
        workshop.clear()
        if found:
            found.host.close()


def _session(study: Study, parameters: Parameters, chosen: Plan) -> Session:
    return Session(
        began_at=datetime.datetime.now(datetime.UTC),
        plan_sha256=chosen.sha256(study),
        claims_sha256=claims.sha256(study.name),
        trials=len(plan(study, parameters, chosen.builds)),
        blocks=study.blocks(parameters),
        innolab=own_facts(),
    )


def _label(trial: Trial) -> str:
    levels = [
        str(trial.factors[name]) for name in ("server", "case", "load") if name in trial.factors
    ]
    return f"block {trial.block + 1}: {', '.join(levels)}"
