"""Verbs that run nothing: which studies there are, what this host has, what a plan decides."""

import contextlib
from typing import Annotated, Any

import typer

from innolab.base.errors import InnolabError
from innolab.cli.given import parameters_of
from innolab.cli.options import Effort, Named, Scale, StudyName

# Earlier reports that a plan is compared with: reading one takes a tenth of a second.
_MOST_EARLIER = 4


def list_(
    names: Annotated[bool, typer.Option("--names", help="The studies' names alone.")] = False,
) -> None:
    """List the studies, and the reports there are of each."""
    from innolab import studies
    from innolab.report import folders

    for name in studies.names():
        if names:
            print(name)
            continue
        print(f"{name}: {studies.find(name).question}")
        for folder in folders.finished(name):
            print(f"  {name}/{folder.name}")
        for folder in folders.unfinished(name):
            print(f"  {name}/{folder.name} (innolab run resumes it)")


def doctor() -> None:
    """Say what this host has, what is missing, and what may disturb a measurement."""
    from innolab.run import doctor

    findings = doctor.examine()
    for finding in findings:
        print(f"{finding.result:8}{finding.name}: {finding.says}")
    if any(finding.result == "missing" for finding in findings):
        raise InnolabError("Requirements are missing; the lines above say what to do.")


def plan(
    study: StudyName,
    scale: Scale = "quick",
    effort: Effort = None,
    parameter: Named = None,
    trials: Annotated[
        bool, typer.Option("--trials", help="Print every trial in its order, and nothing else.")
    ] = False,
) -> None:
    """Say how long a study takes and what it may decide, without running anything.

    Both follow from earlier reports of the study, those of the same scale and effort first.
    """
    from innolab import studies
    from innolab.run import expected, planned
    from innolab.run.plan import prepare

    found = studies.find(study)
    chosen = prepare(found, found.check(parameters_of(found, scale, parameter, effort)))
    of_plan = found.planned(chosen)
    if trials:
        lines = [planned.trial_line(trial) for trial in of_plan]
    else:
        earlier = _earlier(found, chosen)
        expects = expected.expected(found, chosen, of_plan, earlier)
        plans = {report.name: report.plan for report in earlier}
        lines = planned.summary(chosen, of_plan, expects, plans)
    for name, why in {**chosen.unavailable, **chosen.missing_devices}.items():
        lines.append(f"not run: {name}: {why}")
    print("\n".join(lines))


def _earlier(study: Any, chosen: Any) -> list[Any]:
    """Return the earlier reports that a plan is compared with, that which is preferred first.

    A damaged one is left out: it is no reason not to plan, and `verify` says what is wrong.
    """
    from innolab.record.plan import Plan
    from innolab.report import folders, manifest
    from innolab.run.expected import Earlier, effort_of, nearest_first

    plans, reports = {}, []
    for folder in folders.finished(study.name):
        with contextlib.suppress(InnolabError, ValueError):
            effort_of(plan := Plan.read(folder))
            plans[folder.name] = plan
    for version in nearest_first(plans, chosen)[:_MOST_EARLIER]:
        folder = folders.reports_folder() / study.name / version
        with contextlib.suppress(InnolabError):
            time_s = manifest.read(folder)["time_s"]
            name = f"{study.name}/{version}"
            reports.append(Earlier(name, plans[version], study.read(folder), time_s))
    return reports
