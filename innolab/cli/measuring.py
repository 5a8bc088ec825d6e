"""The verb that measures."""

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from innolab.base.errors import InnolabError, InputError
from innolab.cli.arguments import parameters_of
from innolab.cli.options import Effort, Named, Scale, StudyName


def run(
    study: StudyName,
    scale: Scale = "quick",
    effort: Effort = None,
    parameter: Named = None,
    version: Annotated[
        str | None, typer.Option(help="The report's version; else the next.")
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Of a Dask cluster, whose hosts measure blocks beside each other: tcp://HOST:PORT",
        ),
    ] = None,
    hosts: Annotated[
        str | None,
        typer.Option(
            metavar="INVENTORY[:GROUP]",
            help="Measure on these hosts over ssh, one or many; they need nothing of innolab's.",
        ),
    ] = None,
    keep_failed: Annotated[
        bool,
        typer.Option("--keep-failed", help="Keep the data of failed trials that are on our disk."),
    ] = False,
) -> None:
    """Measure a study and make its report; resume an interrupted run of the same plan."""
    if scheduler is not None and hosts is not None:
        raise InputError("Give --hosts or --scheduler, not both. Nothing was written.")
    if keep_failed and (scheduler is not None or hosts is not None):
        raise InputError(
            "--keep-failed keeps data on this host's disk, so it does not go with --hosts or "
            "--scheduler. Nothing was written."
        )
    if scheduler is not None:
        from innolab.fleet.fleet import require_address

        require_address(scheduler)
    from innolab import studies
    from innolab.base import extras
    from innolab.base.clock import Clock
    from innolab.measure.progress import Shown
    from innolab.studies.experiment import Experiment

    extras.require("measure")
    clock = Clock()
    clock.add_earlier({"set-up": _set_up_s()})
    found = studies.find(study)
    asked = Experiment.fresh(found, parameters_of(found, scale, parameter, effort))
    if found.nodes(asked.parameters) is not None and (scheduler is not None or hosts is not None):
        raise InputError(
            "-p nodes spreads the servers of one trial over hosts, --hosts and --scheduler whole "
            "blocks: give one of them. Nothing was written."
        )
    with Shown() as progress:
        if hosts is not None:
            page = _on_hosts(asked, version, progress, clock, hosts)
        elif scheduler is not None:
            page = _on_a_fleet(asked, version, progress, clock, scheduler)
        else:
            page = _on_this_host(asked, version, progress, clock, keep_failed)
    print(page)


def _on_this_host(
    asked: Any, version: str | None, progress: Any, clock: Any, keep_failed: bool
) -> Path:
    from innolab.hosts import machine
    from innolab.measure.prepare import prepare
    from innolab.report import folders

    ready = prepare(asked)
    # Held until the report is sealed: a second run of the same plan would work in its folder.
    with machine.measuring_alone():
        folder = folders.begin(ready.plan, version)
        return make_report(ready, folder, progress, clock, keep_failed=keep_failed)


def _on_hosts(asked: Any, version: str | None, progress: Any, clock: Any, hosts: str) -> Path:
    from innolab.fleet.cluster import Cluster
    from innolab.hosts.inventory import named_hosts
    from innolab.mysql.builds import TOOLS

    if asked.study.arrays(asked.parameters):
        raise InputError(
            f"{asked.name} makes arrays of a host's disks, one host at a time: name it by -p "
            "inventory=INVENTORY -p host=HOST. Nothing was written."
        )
    builds = [name for name in asked.parameters.builds if name not in TOOLS]
    with Cluster(named_hosts(hosts), builds, progress) as made:
        return _on_a_fleet(asked, version, progress, clock, made.address, made.security)


def _on_a_fleet(
    asked: Any,
    version: str | None,
    progress: Any,
    clock: Any,
    address: str,
    security: Any = None,
) -> Path:
    from innolab.fleet.fleet import Fleet
    from innolab.report import folders
    from innolab.studies.experiment import Experiment

    with Fleet(address, progress, security=security) as fleet:
        chosen = fleet.hosts.prepare(asked.name, asked.plan.parameters)
        ready = Experiment.from_plan(_as_begun(asked.name, chosen), asked.study)
        folder = folders.begin(ready.plan, version)
        with _in_folder_alone(folder):
            return make_report(ready, folder, progress, clock, fleet)


def _as_begun(study: str, chosen: Any) -> Any:
    """Return a fleet's plan as it was begun, where it was: by now there may be more hosts."""
    from innolab.record.plan import Plan
    from innolab.report import folders

    begun = [Plan.read(folder) for folder in reversed(folders.unfinished(study))]
    same = (plan for plan in begun if plan.wave and replace(plan, wave=chosen.wave) == chosen)
    return next(same, chosen)


@contextlib.contextmanager
def _in_folder_alone(folder: Path) -> Iterator[None]:
    """Hold a report's folder: this host may be one of the fleet, whose right to measure it needs.

    Raises
    ------
    InputError
        Where another process works there.
    """
    import fcntl

    from innolab.record.plan import PLAN_FILE

    with (folder / PLAN_FILE).open() as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(
                f"Another innolab measures {folder.name} already. Wait for it to end, then start "
                "this one again."
            ) from None
        yield


def make_report(
    experiment: Any,
    folder: Path,
    progress: Any,
    clock: Any,
    fleet: Any = None,
    *,
    keep_failed: bool = False,
) -> Path:
    """Measure what is missing in a report's folder, seal it, and return its page."""
    from innolab.measure.measure import measure
    from innolab.record import runlog
    from innolab.record.runlog import RunLog
    from innolab.report import folders, manifest, render, sealing
    from innolab.report.provisional import Provisional
    from innolab.verify import verify

    study = experiment.study
    if recorded := len(RunLog(folder / runlog.FILE, study.upgrade).load()[0]):
        print(f"Resuming {folder.name} ({recorded} runs recorded).", file=sys.stderr)
    shown = Provisional(study, folder, progress)
    runs = measure(
        experiment, folder, progress, clock, shown.after_trial, fleet, keep_failed=keep_failed
    )
    if all(one.status == "failed" for one in runs.runs):
        raise InnolabError(
            f"All {len(runs.runs)} runs failed; the first says: {runs.runs[0].error} They are "
            f"kept in {folder}. Move it away to measure again."
        )
    with sealing.apart(folders.version_of(folder), folder) as made:
        with clock.stage("rendering"):
            render.render(study, made)
        manifest.write(study, made, runs.runs, clock.account())
        return sealing.finish(made, folder, verify.require) / render.PAGE_FILE


def _set_up_s() -> float:
    """Return the seconds since `make` began: the set-up before this program started."""
    began = os.environ.get("INNOLAB_BEGAN")
    try:
        return max(0.0, time.time() - float(began)) if began else 0.0
    except ValueError:
        return 0.0
