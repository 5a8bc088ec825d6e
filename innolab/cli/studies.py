"""Verbs that run nothing: which studies there are, what this host has, what a plan decides."""

import itertools
from typing import Annotated, Any

import typer

from innolab.base.errors import InnolabError
from innolab.cli.options import AsJson, Effort, Named, Scale, StudyName, parameters_of

# Earlier reports that a plan is compared with: reading one takes a tenth of a second.
_MOST_EARLIER = 4


def list_(
    names: Annotated[bool, typer.Option("--names", help="The studies' names alone.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the studies, and the reports there are of each."""
    from innolab import studies

    if names and not as_json:
        print("\n".join(studies.names()))
        return
    from innolab.cli import documents
    from innolab.report import folders

    tables = [
        documents.ListedTable(name=name, reports=[f"{name}/{folder.name}" for folder in of])
        for name, of in folders.tables().items()
    ]
    found = documents.Listed(studies=[_listed(name) for name in studies.names()], tables=tables)
    if as_json:
        documents.show(found)
        return
    for study in found.studies:
        print(f"{study.name}: {study.question}")
        if study.answer:
            print(f"  {study.answer}")
        for report in study.reports:
            note = " (reference)" if report.is_reference else ""
            print(
                f"  {report.name}{note}" + ("" if report.finished else " (innolab run resumes it)")
            )
    for table in found.tables:
        print(f"{table.name}: a published table, judged")
        print("\n".join(f"  {report}" for report in table.reports))


def _listed(name: str) -> Any:
    from innolab import studies
    from innolab.cli.documents import ListedReport, ListedStudy
    from innolab.report import folders, shipped
    from innolab.report.index import newest_answer

    finished, unfinished = folders.finished(name), folders.unfinished(name)
    reports = [
        ListedReport(
            name=f"{name}/{folder.name}",
            finished=folder in finished,
            is_reference=shipped.is_reference(folder),
        )
        for folder in [*finished, *unfinished]
    ]
    study = studies.find(name)
    answer = newest_answer(study, finished)
    return ListedStudy(name=name, question=study.question, answer=answer, reports=reports)


def doctor(as_json: AsJson = False) -> None:
    """Say what this host has, what is missing, and what may disturb a measurement."""
    from innolab.cli import documents
    from innolab.measure import doctor

    findings = doctor.examine()
    if as_json:
        documents.show(documents.doctor(findings))
    else:
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
    as_json: AsJson = False,
) -> None:
    """Say how long a study takes and what it may decide, without running anything.

    Both follow from earlier reports of the study, those of the same scale and effort first.
    """
    from innolab import studies
    from innolab.cli import documents
    from innolab.measure import estimate, plan_text
    from innolab.measure.prepare import prepare
    from innolab.studies.experiment import Experiment

    found = studies.find(study)
    ready = prepare(Experiment.fresh(found, parameters_of(found, scale, parameter, effort)))
    not_run = {**ready.plan.unavailable, **ready.plan.missing_devices}
    if trials and not as_json:
        lines = [plan_text.trial_line(trial) for trial in ready.trials]
    else:
        earlier = list(itertools.islice(estimate.earlier_reports(ready), _MOST_EARLIER))
        expects = estimate.expected(ready, earlier)
        if as_json:
            documents.show(documents.planned(ready.plan, ready.trials, expects, not_run))
            return
        plans = {report.name: report.plan for report in earlier}
        lines = plan_text.summary(ready, expects, plans)
    print("\n".join([*lines, *(f"not run: {name}: {why}" for name, why in not_run.items())]))
