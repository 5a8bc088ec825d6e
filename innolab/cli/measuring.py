"""The verb that measures."""

import os
import sys
import time
from typing import Annotated

import typer

from innolab.base.errors import InnolabError
from innolab.cli.given import parameters_of
from innolab.cli.options import Effort, Named, Scale, StudyName


def run(
    study: StudyName,
    scale: Scale = "quick",
    effort: Effort = None,
    parameter: Named = None,
    version: Annotated[
        str | None, typer.Option(help="The report's version; else the next.")
    ] = None,
) -> None:
    """Measure a study and make its report; resume an interrupted run of the same plan."""
    from innolab import studies
    from innolab.base.clock import Clock
    from innolab.hosts import machine
    from innolab.record import runlog
    from innolab.record.runlog import RunLog
    from innolab.report import folders
    from innolab.report.provisional import Provisional
    from innolab.run.measure import measure
    from innolab.run.plan import prepare
    from innolab.run.progress import Shown

    clock = Clock()
    clock.add_earlier({"set-up": _set_up_s()})
    found = studies.find(study)
    parameters = found.check(parameters_of(found, scale, parameter, effort))
    chosen = prepare(found, parameters)
    # Held until the report is sealed: a second run of the same plan would work in its folder.
    with machine.measuring_alone():
        folder = folders.begin(chosen, version)
        if recorded := len(RunLog(folder / runlog.FILE, found.upgrade).load()[0]):
            print(f"Resuming {folder.name} ({recorded} runs recorded).", file=sys.stderr)
        with Shown() as progress:
            shown = Provisional(found, folder, progress)
            runs = measure(found, folder, progress, clock, shown.after_trial)
        if all(one.status == "failed" for one in runs.runs):
            raise InnolabError(
                f"All {len(runs.runs)} runs failed; the first says: {runs.runs[0].error} They are "
                f"kept in {folder}. Move it away to measure again."
            )
        with clock.stage("rendering"):
            from innolab.report import manifest, render

            render.render(found, folder)
        sealed = manifest.seal(found, folder, runs.runs, clock.account())
    print(sealed / render.PAGE_FILE)


def _set_up_s() -> float:
    """Return the seconds since `make` began: the set-up before this program started."""
    began = os.environ.get("INNOLAB_BEGAN")
    try:
        return max(0.0, time.time() - float(began)) if began else 0.0
    except ValueError:
        return 0.0
