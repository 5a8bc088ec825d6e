"""The verb that makes one of several reports."""

from typing import Annotated

import typer

from innolab.base.quoting import printable
from innolab.cli.options import AsJson, ReportNames


def pool(
    reports: ReportNames,
    html: Annotated[bool, typer.Option("--html", help="Write a page and print its path.")] = False,
    as_json: AsJson = False,
) -> None:
    """Pool several people's reports of a study: what they say together, and of a host like theirs.

    Random effects by the modified Knapp-Hartung interval. Reports that measured other things than
    the first are refused.
    """
    from innolab.cli import documents, pool_document
    from innolab.report import folders, pool_page
    from innolab.report import pool as pooling

    found = pooling.pool([folders.find(report) for report in reports])
    if html:
        print(pool_page.write(found))
    elif as_json:
        documents.show(pool_document.document(found))
    else:
        for line in pooling.lines(found):
            print(printable(line))
