"""The arguments and options that several verbs share, and what a shell completes them to.

Completions read names of files alone: a shell asks at each press of a key, and must not wait for
libraries.
"""

from typing import Annotated

import typer

from innolab.base import places


def study_names() -> list[str]:
    """Return the names of the studies."""
    from innolab import studies

    return studies.names()


def report_names() -> list[str]:
    """Return the sealed reports, each as STUDY/VERSION."""
    sealed = places.reports().glob("*/*/manifest.json")
    return sorted(path.parent.relative_to(places.reports()).as_posix() for path in sealed)


def _claims() -> list[str]:
    from innolab import studies

    return sorted({claim.id for name in studies.names() for claim in studies.find(name).claims()})


Scale = Annotated[
    str,
    typer.Option(
        help="smoke (a minute), quick (the default) or paper.",
        autocompletion=lambda: ["smoke", "quick", "paper"],
    ),
]
Effort = Annotated[
    str | None,
    typer.Option(
        help="smoke, quick, reference or a time as 90min; else that of the scale.",
        autocompletion=lambda: ["smoke", "quick", "reference"],
    ),
]
Named = Annotated[
    list[str] | None,
    typer.Option("-p", "--parameter", metavar="NAME=VALUE", help="A parameter of the study."),
]
StudyName = Annotated[
    str, typer.Argument(metavar="STUDY", help="See: innolab list", autocompletion=study_names)
]
ReportName = Annotated[
    str,
    typer.Argument(
        metavar="REPORT", help="A folder, or STUDY/VERSION.", autocompletion=report_names
    ),
]
ReportNames = Annotated[
    list[str],
    typer.Argument(
        metavar="REPORT REPORT...", help="Folders, or STUDY/VERSION.", autocompletion=report_names
    ),
]
ClaimName = Annotated[
    str, typer.Argument(metavar="CLAIM", help="A claim's id.", autocompletion=_claims)
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON document instead, as docs/json.md has it.")
]
