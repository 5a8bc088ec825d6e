"""The verb that takes a figure out of a report, with all that a post or a paper needs."""

from pathlib import Path
from typing import Annotated

import typer

from innolab.base.quoting import printable
from innolab.cli.options import ReportName


def figure(
    report: ReportName,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A figure of it; else they are listed.")
    ] = None,
    to: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where to write; else ./NAME-kit.")
    ] = None,
    width: Annotated[
        str | None,
        typer.Option(help="single, double, post, 120mm, 4.5in; several with commas between."),
    ] = None,
    font: Annotated[str | None, typer.Option(help="A family that this host has.")] = None,
    font_size: Annotated[
        float | None, typer.Option(help="Of all text in the figure, in points.")
    ] = None,
    style: Annotated[
        str | None,
        typer.Option(help="Font and size as a style of matplotlib has them, by name or .mplstyle."),
    ] = None,
    light: Annotated[bool, typer.Option("--light", help="Light alone.")] = False,
    dark: Annotated[bool, typer.Option("--dark", help="Dark alone.")] = False,
    format: Annotated[str | None, typer.Option(help="svg, png, pdf; else all.")] = None,
    language: Annotated[str | None, typer.Option(help="en or ko; else that of the report.")] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace files of a folder that is there.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print names and paths as JSON.")] = False,
) -> None:
    """Write a figure's kit: pictures for columns and posts, values, words, licence, citation.

    The figure is drawn anew from the report's recorded runs. Without NAME the figures are listed.
    """
    import json

    from innolab.measure.progress import Shown
    from innolab.publish import kit, styles
    from innolab.report import folders

    source = folders.find(report)
    if name is None:
        captions = kit.listed(source)
        if as_json:
            found = [{"name": n, "caption": caption} for n, caption in captions.items()]
            print(json.dumps({"report": str(source), "figures": found}, indent=1))
            return
        for each, caption in captions.items():
            print(printable(f"{each}: {caption}"))
        return
    tones = [False] * light + [True] * dark
    wanted = styles.style(width, font, font_size, tones, format, style)
    folder = (to or Path(f"{name}-kit")).absolute()
    with Shown() as progress:
        made = kit.make(
            source, name, wanted, folder, overwrite=overwrite, spoken=language, progress=progress
        )
    if as_json:
        print(json.dumps({"folder": str(folder), "files": [p.name for p in made]}, indent=1))
        return
    print(folder / kit.README)
