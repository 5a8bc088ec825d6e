"""Verbs on reports that are there: render, verify, sign, compare, deposit, index."""

from pathlib import Path
from typing import Annotated

import typer

from innolab.base.errors import InnolabError
from innolab.cli.given import parameters_of
from innolab.cli.options import AsJson, Named, ReportName


def render_(
    report: ReportName,
    parameter: Named = None,
    version: Annotated[str | None, typer.Option(help="The new version; else the next.")] = None,
) -> None:
    """Make a new version of a report from its recorded runs with today's notebook.

    Parameters that only ask of the results, as what to buy, may change.
    """
    from innolab import studies
    from innolab.base.clock import Clock
    from innolab.record.plan import Plan
    from innolab.report import folders, manifest, render

    clock = Clock()
    source = folders.find(report)
    plan = Plan.read(source)
    study = studies.find(plan.study)
    given = parameters_of(study, plan.parameters["scale"], parameter)
    folder = folders.begin_from(source, version, study.asking(plan, given))
    with clock.stage("rendering"):
        render.render(study, folder)
    runs = study.read(folder).runs
    # The runs took their time in the source; only the rendering is new.
    time_s = manifest.read(source)["time_s"]
    rendering = round(clock.seconds["rendering"], 2)
    total = time_s["total"] - time_s["rendering"] + rendering
    time_s = {**time_s, "rendering": rendering, "total": round(total, 2)}
    print(manifest.seal(study, folder, runs, time_s, source.name) / render.PAGE_FILE)


def verify(
    report: ReportName,
    execute: Annotated[
        bool,
        typer.Option("--execute", help="Execute a notebook that is not the study's, in a sandbox."),
    ] = False,
    signers: Annotated[
        Path | None, typer.Option(help="Allowed signers, as ssh-keygen reads them.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check that a report is whole and follows from its recorded runs. Needs no server, no root.

    Nothing of the report is executed: all that it shows is computed again by the study's own code.
    """
    from innolab.cli import documents
    from innolab.report import folders
    from innolab.report import verify as verifying

    folder = folders.find(report)
    found = verifying.verify(folder, execute=execute, signers=signers)
    if as_json:
        documents.show(documents.verified(folder, found, verifying.LIMITS))
    else:
        for line in [*found.notes, *found.faults]:
            # What an unknown author wrote must not control the reader's terminal.
            print("".join(c if c.isprintable() else "?" for c in line))
    if found.faults:
        raise InnolabError(
            f"{folder.name} does not hold: {len(found.faults)} faults, listed above."
        )
    if not as_json:
        print(f"{folder.name} holds: {found.of} agree.\n{verifying.LIMITS}")


def sign(
    report: ReportName,
    key: Annotated[Path, typer.Option(help="An SSH key, private, or public with an agent.")],
) -> None:
    """Vouch for a report with an SSH key: a statement over its manifest, next to it.

    The report is verified first, and one that does not hold is not signed.
    """
    from innolab.report import folders, signatures
    from innolab.report.verify import verify as verified

    print(signatures.sign(folders.find(report), key, lambda folder: verified(folder).faults))


def compare(
    first: ReportName,
    second: ReportName,
    html: Annotated[bool, typer.Option("--html", help="Write a page and print its path.")] = False,
    as_json: AsJson = False,
) -> None:
    """Set two reports side by side: the second's values over the first's, changed verdicts."""
    from innolab.cli import documents
    from innolab.report import compare as comparing
    from innolab.report import compare_page, folders

    found = comparing.compare(folders.find(first), folders.find(second))
    if html:
        print(compare_page.write(found))
    elif as_json:
        documents.show(documents.compared(found))
    else:
        print("\n".join(comparing.lines(found)))


def deposit(
    report: ReportName,
    to: Annotated[
        Path | None, typer.Option(help="A folder to make; else STUDY-VERSION-deposit here.")
    ] = None,
) -> None:
    """Write a report as a folder to deposit at Zenodo, with its metadata; nothing is sent.

    Only a report that verifies is written.
    """
    from innolab.record.plan import Plan
    from innolab.report import deposit as depositing
    from innolab.report import folders

    folder = folders.find(report)
    name = f"{Plan.read(folder).study}-{folder.name}-deposit"
    print(depositing.write(folder, (to or Path(name)).absolute()))


def index() -> None:
    """Write reports/index.html, which lists all reports, and print its path."""
    from innolab.report import index as indexing

    print(indexing.write())
