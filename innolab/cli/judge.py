"""The verb that judges a published table."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from innolab.base.quoting import printable
from innolab.cli.options import AsJson


def _files(*endings: str) -> list[str]:
    """Return the files here, by their endings: a table that is judged mostly lies here."""
    return sorted(path.name for path in Path.cwd().iterdir() if path.suffix in endings)


_Table = Annotated[
    Path,
    typer.Argument(
        metavar="TABLE",
        help="A CSV file, or a JSON list of runs.",
        autocompletion=lambda: _files(".csv", ".json"),
    ),
]
_Claims = Annotated[
    Path | None,
    typer.Option(
        help="What is claimed, as in data/claims; else rankings alone.",
        autocompletion=lambda: _files(".yml", ".yaml"),
    ),
]
_About = Annotated[
    Path | None,
    typer.Option(
        help="What the columns are: metrics with units, factors, source.",
        autocompletion=lambda: _files(".yml", ".yaml"),
    ),
]


class FailedRuns(StrEnum):
    """What becomes of a run that came to nothing: the table is refused, or the run counted."""

    REFUSE = "refuse"
    KEEP = "keep"


def judge(
    table: _Table,
    claims: _Claims = None,
    about: _About = None,
    ranked: Annotated[
        str | None, typer.Option(metavar="FACTOR", help="Whose levels are ranked.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Of the report; else that of the table's file.")
    ] = None,
    spread: Annotated[
        str | None,
        typer.Option(
            metavar="STUDY:METRIC",
            help="Whose spread a table without replicates borrows; a name that is none lists them.",
        ),
    ] = None,
    failed: Annotated[
        FailedRuns, typer.Option(help="What to do with a run that came to nothing.")
    ] = FailedRuns.REFUSE,
    as_json: AsJson = False,
) -> None:
    """Judge a table that somebody published: which rankings and claims stand beyond the noise.

    Writes a report below its name and prints what is decided, then the path of its page. Rows with
    equal factors are replicates, whose spread makes the intervals. A table without any says up to
    which spread each lead holds, and which are within what the seconds of its runs vary by.
    """
    from innolab.cli import documents, judged_document
    from innolab.report import render
    from innolab.tables import judged, judged_page
    from innolab.verify import verify

    folder, found = judged.judge(
        table, claims, about, ranked, name, failed.value, spread, prove=verify.require
    )
    page = folder / render.PAGE_FILE
    if as_json:
        documents.show(judged_document.document(found, page))
        return
    for line in judged_page.lines(found):
        print(printable(line))
    print(page)
