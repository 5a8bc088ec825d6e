"""The verb that measures."""

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from innolab.base.errors import InputError
from innolab.cli.options import Effort, Named, Scale, StudyName, parameters_of


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
    wait: Annotated[
        bool, typer.Option("--wait", help="Begin once this host is quiet enough to measure.")
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
    from innolab.measure import quiet, workflow
    from innolab.measure.prepare import prepare
    from innolab.measure.progress import Shown
    from innolab.report import summary
    from innolab.studies.experiment import Experiment
    from innolab.verify import verify

    extras.require("measure")
    clock = Clock()
    clock.add_earlier({"set-up": _set_up_s()})
    found = studies.find(study)
    asked = Experiment.fresh(found, parameters_of(found, scale, parameter, effort))
    with Shown() as progress, _fleet(asked, hosts, scheduler, progress) as fleet:
        ready = fleet.hosts.prepare(asked) if fleet else prepare(asked)
        if not fleet:
            quiet.awaited(lambda says: print(says, file=sys.stderr, flush=True), wait=wait)
        with workflow.begun(ready, progress, version) as (experiment, folder):
            page = workflow.make_report(
                experiment, folder, progress, clock, verify.require, fleet, keep_failed=keep_failed
            )
    print("\n".join([*summary.lines(page.parent), str(page)]))
    summary.require_judged(page.parent)


@contextlib.contextmanager
def _fleet(
    asked: Any, hosts: str | None, scheduler: str | None, progress: Any
) -> Iterator[Any | None]:
    """Give the fleet that is asked for, None for this host."""
    if hosts is None and scheduler is None:
        yield None
        return
    if asked.study.demands.nodes(asked.parameters) is not None:
        raise InputError(
            "-p nodes spreads the servers of one trial over hosts, --hosts and --scheduler whole "
            "blocks: give one of them. Nothing was written."
        )
    from innolab.fleet.fleet import Fleet

    with contextlib.ExitStack() as stack:
        security = None
        if hosts is not None:
            from innolab.fleet import cluster

            made = stack.enter_context(cluster.of_inventory(asked, hosts, progress))
            scheduler, security = made.address, made.security
        yield stack.enter_context(Fleet(str(scheduler), progress, security=security))


def _set_up_s() -> float:
    """Return the seconds since `make` began: the set-up before this program started."""
    began = os.environ.get("INNOLAB_BEGAN")
    try:
        return max(0.0, time.time() - float(began)) if began else 0.0
    except ValueError:
        return 0.0
