"""The arguments and options that several verbs share."""

from typing import Annotated

import typer

Scale = Annotated[str, typer.Option(help="smoke (a minute), quick (the default) or paper.")]
Effort = Annotated[
    str | None,
    typer.Option(help="smoke, quick, reference or a time as 90min; else that of the scale."),
]
Named = Annotated[
    list[str] | None,
    typer.Option("-p", "--parameter", metavar="NAME=VALUE", help="A parameter of the study."),
]
StudyName = Annotated[str, typer.Argument(metavar="STUDY", help="See: innolab list")]
ReportName = Annotated[str, typer.Argument(metavar="REPORT", help="A folder, or STUDY/VERSION.")]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON document instead, as docs/json.md has it.")
]
