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
    from innolab.cli import documents, meta_document
    from innolab.compare import meta as pooling
    from innolab.compare import meta_page
    from innolab.report import folders

    found = pooling.pool([folders.find(report) for report in reports])
    if html:
        print(meta_page.write(found))
    elif as_json:
        documents.show(meta_document.document(found))
    else:
        for line in pooling.lines(found):
            print(printable(line))
