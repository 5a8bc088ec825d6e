"""Verbs on reports that are there: render, verify, sign, compare, deposit, open, index."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from innolab.base.errors import InnolabError, InputError
from innolab.base.quoting import printable
from innolab.cli.options import (
    AsJson,
    Named,
    ReportName,
    ReportNames,
    parameters_of,
    report_names,
    study_names,
)


def render_(
    report: ReportName,
    parameter: Named = None,
    version: Annotated[str | None, typer.Option(help="The new version; else the next.")] = None,
) -> None:
    """Make a new version of a report from its recorded runs with today's notebook.

    Parameters that only ask of the results, as what to buy, may change.
    """
    from innolab.base.clock import Clock
    from innolab.report import folders, manifest, render, sealing
    from innolab.studies.experiment import Experiment
    from innolab.verify import verify as verifying

    clock = Clock()
    source = folders.find(report)
    recorded, body = Experiment.read(source), manifest.read(source)
    study = recorded.study
    given = parameters_of(study, recorded.parameters.scale, parameter)
    with (
        folders.next_version(study.name, version) as final,
        sealing.apart(final.name, source) as made,
    ):
        recorded.asking(given).plan.write(made)
        with clock.stage("rendering"):
            render.render(study, made)
        # The runs took their time in the source; only the rendering is new.
        rendering = round(clock.seconds["rendering"], 2)
        total = body["time_s"]["total"] - body["time_s"]["rendering"] + rendering
        time_s = {**body["time_s"], "rendering": rendering, "total": round(total, 2)}
        measured = body["rendered_from"] or source.name
        manifest.write(study, made, study.read(made).runs, time_s, measured)
        verifying.require(made)
        print(folders.put(made, final) / render.PAGE_FILE)


def verify(
    report: ReportName,
    records_only: Annotated[
        bool,
        typer.Option("--records-only", help="Leave page and figures out, as of an older innolab."),
    ] = False,
    signers: Annotated[
        Path | None, typer.Option(help="Allowed signers, as ssh-keygen reads them.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check that a report is whole and follows from its recorded runs. Needs no server, no root.

    Nothing of the report is executed: the installed innolab computes again what it shows.
    """
    from innolab.cli import documents
    from innolab.report import folders
    from innolab.verify import verify as verifying

    folder = folders.find(report)
    found = verifying.verify(folder, signers=signers, records_only=records_only)
    if as_json:
        documents.show(documents.verified(folder, found, verifying.LIMITS))
    else:
        for line in [*found.notes, *found.faults]:
            # What an unknown author wrote must not control the reader's terminal.
            print(printable(line))
    if found.faults:
        raise InnolabError(
            f"{folder.name} does not hold: {len(found.faults)} faults, listed above."
        )
    if found.page == "unknown":
        raise InnolabError(
            f"{folder.name}: records hold, page NOT checked: {found.why_unknown}. Its {found.of} "
            "agree. To see the same runs by today's code make a new version (innolab render "
            f"{report}); if the records are what you ask for, say so: --records-only"
        )
    if not as_json:
        left = "" if found.page == "checked" else " Page and figures were left out, as asked."
        print(f"{folder.name} holds: {found.of} agree.{left}\n{verifying.LIMITS}")


def sign(
    report: ReportName,
    key: Annotated[Path, typer.Option(help="An SSH key, private, or public with an agent.")],
) -> None:
    """Vouch for a report with an SSH key: a statement over its manifest, next to it.

    The report is verified first, and one that does not hold is not signed.
    """
    from innolab.report import folders
    from innolab.verify import signatures
    from innolab.verify.verify import unsound

    print(signatures.sign(folders.find(report), key, unsound))


def compare(
    reports: ReportNames = None,
    html: Annotated[bool, typer.Option("--html", help="Write a page and print its path.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare reports of a study: what differs, changed verdicts, values over the first one's.

    One report is compared with the shipped reference of its study; without any it is your newest.
    From three reports on, as of several people or hosts, also what they say together, and of a
    host like theirs: random effects by the modified Knapp-Hartung interval. Reports that measured
    other things than the first are refused.
    """
    from innolab.cli import compared_document, documents
    from innolab.compare import compare as comparing
    from innolab.compare import compare_page
    from innolab.report import folders, shipped

    named = [folders.find(report) for report in reports or []]
    comparison = comparing.compare(shipped.with_reference(named))
    if html:
        print(compare_page.write(comparison))
    elif as_json:
        documents.show(compared_document.document(comparison))
    else:
        for line in comparing.lines(comparison):
            print(printable(line))


def deposit(
    report: ReportName,
    to: Annotated[
        Path | None, typer.Option(help="A folder to make; else STUDY-VERSION-deposit here.")
    ] = None,
) -> None:
    """Write a report as a folder to deposit at Zenodo, with its metadata; nothing is sent.

    Only a report that verifies is written.
    """
    from innolab.publish import deposit as depositing
    from innolab.record.plan import Plan
    from innolab.report import folders
    from innolab.verify import verify as verifying

    folder = folders.find(report)
    name = f"{Plan.read(folder).study}-{folder.name}-deposit"
    print(depositing.write(folder, (to or Path(name)).absolute(), prove=verifying.require))


def open_(
    report: Annotated[
        str,
        typer.Argument(
            metavar="REPORT", help="A folder, STUDY/VERSION, or STUDY for its newest report.",
            autocompletion=lambda: [*study_names(), *report_names()],
        ),
    ],
) -> None:  # fmt: skip
    """Open a report's page in the browser, and print its path."""
    import webbrowser

    from innolab.report import folders, render

    newest = folders.finished(report)[-1:]
    if not newest and report in study_names():
        raise InputError(
            f"There is no finished report of {report} yet. Measure it first: innolab run {report}"
        )
    page = (newest[0] if newest else folders.find(report)) / render.PAGE_FILE
    print(page.absolute(), flush=True)
    if not webbrowser.open(page.absolute().as_uri()):
        print("No browser could be started here; open that path yourself.", file=sys.stderr)


def index() -> None:
    """Write reports/index.html, which lists all reports, and print its path."""
    from innolab.report import index as indexing

    print(indexing.write())
