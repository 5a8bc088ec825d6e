"""A figure's kit: its pictures, values, words, licence and citation, ready to be published.

It is drawn anew from the report's recorded runs by the study's own notebook, as `verify` does it;
nothing of the report is executed.
"""

import contextlib
import multiprocessing
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import jinja2

from innolab.base import files, language, parsing
from innolab.base.errors import InnolabError, InputError
from innolab.base.quoting import shown
from innolab.publish import dark, refit
from innolab.publish.styles import Style, Width
from innolab.record.plan import Progress, Silent
from innolab.report import (
    citation,
    embedding,
    equality,
    execute,
    figures,
    folders,
    manifest,
    project,
    value_columns,
)
from innolab.report.citation import Citation
from innolab.report.prose import Prose, from_markdown, in_markdown
from innolab.report.render import TEMPLATES
from innolab.studies import rules
from innolab.studies.experiment import Experiment

_CSS_PX_PER_INCH = 96
README = "README.md"


class Made(NamedTuple):
    """A picture of a kit: its file, what was asked, and its height."""

    file: str
    width: Width
    height_inches: float
    kind: str
    is_dark: bool

    def on_page(self) -> embedding.Picture:
        """Return it as a web page shows it."""
        size = (self.width.inches, self.height_inches)
        width, height = (round(_CSS_PX_PER_INCH * inches) for inches in size)
        return embedding.Picture(self.file, width, height, self.is_dark)


def listed(report: Path) -> dict[str, str]:
    """Return the captions of a report's figures by name."""
    return {path.stem: _caption(path) for path in sorted((report / "figures").glob("*.svg"))}


def make(
    report: Path,
    name: str,
    style: Style,
    folder: Path,
    *,
    overwrite: bool = False,
    spoken: str | None = None,
    progress: Progress | None = None,
) -> list[Path]:
    """Write the kit of a report's figure into a folder, and return its files.

    Parameters
    ----------
    overwrite : whether files in a folder that is there already may be replaced; others stay
    spoken : the language of the figure's words; else that of the report
    progress : is told what is drawn

    Raises
    ------
    InputError
        Where there is no such figure or language, or the folder may not be written; nothing was.
    InnolabError
        Where today's study cannot draw the figure as the report has it.
    """
    _check_name(report, name)
    _check_folder(report, folder, overwrite=overwrite)
    body = manifest.read(report)
    _check_seal(report, body)
    experiment = Experiment.read(report)
    if spoken:
        experiment = experiment.asking({"language": spoken})
    with tempfile.TemporaryDirectory(prefix="innolab-figure-") as place:
        made = Path(place) / "kit"
        made.mkdir()
        with language.speaking(experiment.parameters.language):
            _write(report, name, style, body, experiment, made, progress or Silent())
        return _move(made, folder)


def _write(
    report: Path,
    name: str,
    style: Style,
    body: dict[str, Any],
    experiment: Experiment,
    made: Path,
    progress: Progress,
) -> None:
    progress.say(f"computing {name} from the recorded runs")
    copy = made.parent / str(body["version"])
    copy.mkdir()
    folders.copy_recorded(report, copy)
    experiment.plan.write(copy)
    study = rules.with_papers(experiment.study, report)
    rules.keep(study, copy)
    cited = citation.of_report(body, study.title)
    try:
        with execute.drawn(study, copy, name) as drawn:
            values = figures.as_csv(drawn.values)
            _check_values(report, name, values)
            drawings = pictures(drawn, style, cited, made, progress)
    except InputError:
        raise
    except InnolabError as error:
        by = body["rendered_by"]
        raise InnolabError(
            f"{cited.report} was rendered by innolab {by['version']}, and today's cannot draw its "
            f"figure '{name}' anew: {error}. Its folder figures/ holds the figure as SVG and PNG "
            f"with its values. Or make a new report of the same runs: innolab render {cited.report}"
        ) from None
    (made / f"{name}.csv").write_text(values)
    fields = value_columns.columns(drawn.values, study, experiment.parameters)
    _write_words(drawn, fields, drawings, cited, made)


def pictures(
    drawn: figures.Drawn,
    style: Style,
    cited: Citation,
    folder: Path,
    progress: Progress | None = None,
) -> list[Made]:
    """Draw a figure in each width, tone and format into a folder.

    Raises
    ------
    InputError
        Where a width has no room for it.
    """
    import matplotlib

    # What the house's font has, a font for print may lack.
    own = matplotlib.rcParams["font.family"]
    families = [*([style.font] if style.font else []), *([own] if isinstance(own, str) else own)]
    if style.font:
        # Powers of ten are set as formulas.
        matplotlib.rcParams["mathtext.fontset"] = "custom"
        matplotlib.rcParams["mathtext.rm"] = matplotlib.rcParams["mathtext.it"] = style.font
    job = _Job(drawn, refit.Refit(drawn.picture, families), style, cited, folder)
    made: list[Made] = []
    with _drawing(job) as drawn_in:
        for place, of_width in enumerate(drawn_in(_in_width, style.widths), 1):
            made += of_width
            if progress:
                progress.say(f"drew {place} of {len(style.widths)} widths")
    return made


class _Job(NamedTuple):
    """What is drawn in each width."""

    drawn: figures.Drawn
    fitted: refit.Refit
    style: Style
    cited: Citation
    folder: Path


# What this process and its forks draw: a fork has the picture as it is, and none is pickled.
_jobs: list[_Job] = []


@contextlib.contextmanager
def _drawing(job: _Job) -> Iterator[Callable[..., Iterable[list[Made]]]]:
    """Give what maps widths to what is drawn of a job: several at the same time, in forks."""
    _jobs[:] = [job]
    try:
        if len(job.style.widths) == 1:
            yield map
            return
        context = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(len(job.style.widths), mp_context=context) as forks:
            yield forks.map
    finally:
        _jobs.clear()


def _in_width(width: Width) -> list[Made]:
    """Draw the job in a width, in each tone and format."""
    [(drawn, fitted, style, cited, folder)] = _jobs
    fitted.fit(width.inches, width.text_pt)
    height = drawn.picture.get_figheight()
    made = []
    for is_dark in style.tones:
        with dark.darkened(drawn.picture) if is_dark else contextlib.nullcontext():
            for kind in style.formats:
                stem = f"{drawn.name}-{width.name}{'-dark' if is_dark else ''}"
                _draw(drawn, folder / f"{stem}.{kind}", width.dpi, cited)
                made.append(Made(f"{stem}.{kind}", width, height, kind, is_dark))
    return made


def _draw(drawn: figures.Drawn, path: Path, dpi: int, cited: Citation) -> None:
    """Write a picture in the format of its name; it says what it shows and where it is from."""
    import matplotlib
    from matplotlib.backends.backend_pdf import FigureCanvasPdf

    picture, title, source = drawn.picture, embedding.line(drawn.caption), cited.sentence()
    picture.set_dpi(dpi)
    if path.suffix == ".svg":
        about = {"Title": title, "Source": source, "Rights": project.own().licence}
        path.write_text(figures.as_svg(picture, path.stem, about))
    elif path.suffix == ".png":
        said = {"Title": title, "Source": source, "Copyright": project.own().licence}
        figures.write_png(picture, path, said)
    else:
        none = dict.fromkeys(("Creator", "Producer", "CreationDate"))
        # Journals take no fonts of type 3.
        with matplotlib.rc_context({"pdf.fonttype": 42}):
            FigureCanvasPdf(picture).print_pdf(
                path,
                metadata={**none, "Title": title, "Subject": f"{source} {project.own().licence}"},
            )


def _write_words(
    drawn: figures.Drawn,
    fields: list[dict[str, str]],
    drawings: list[Made],
    cited: Citation,
    made: Path,
) -> None:
    """Write what goes with the pictures: descriptions, snippets, citation, licence."""
    name, caption, alt = drawn.name, embedding.line(drawn.caption), embedding.line(drawn.alt)
    credited = f"{caption} {citation.credit(cited.sentence())}"
    pasted = list(_snippets(name, credited, alt, drawings))
    package = value_columns.data_package(
        name, caption, fields, project.own().licence, cited.sentence()
    )
    shown_in = next((p.file for p in drawings if p.kind != "pdf"), drawings[0].file)
    loader = jinja2.FileSystemLoader(TEMPLATES)
    environment = jinja2.Environment(
        loader=loader, keep_trailing_newline=True, finalize=_in_markdown
    )
    environment.filters["as_it_is"] = Prose
    template = environment.get_template("kit.md.j2")
    readme = template.render(
        name=name,
        caption=caption,
        alt=alt,
        shown=shown_in,
        snippets=pasted,
        pictures=[{"file": p.file, "size": _size(p), "text": f"{p.width.text_pt:g} pt"}
                  for p in drawings],
        fields=fields,
        citation=cited.sentence(),
        note=cited.note,
        licence=project.own().licence,
        report=cited.report,
    )  # fmt: skip
    texts = {
        README: readme,
        "caption.txt": f"{caption}\n",
        "alt.txt": f"{alt}\n",
        "citation.bib": cited.bibtex(),
        "citation.json": files.json_text(cited.csl(), is_ascii=False),
        "datapackage.json": files.json_text(package, is_ascii=False),
        "LICENSE.txt": project.LICENCE_FILE.read_text(),
        **{file: text for _, file, text in pasted},
    }
    for file, text in texts.items():
        (made / file).write_text(text)


def _snippets(
    name: str, caption: str, alt: str, drawings: list[Made]
) -> Iterator[tuple[str, str, str]]:
    """Give language, file and text of what is pasted, for the formats that were drawn."""
    if of_web := _first_kind(drawings, "svg", "png"):
        by_width = sorted(of_web, key=lambda p: (p.width.name == "post", p.width.inches))
        widest, least = by_width[-1].width, min(p.width.inches for p in of_web)
        main = [p.on_page() for p in of_web if p.width == widest]
        small = [p.on_page() for p in of_web if p.width.inches == least < widest.inches]
        phones = [p for p in small if p.width <= embedding.PHONE_PX]
        yield "Markdown", "snippet.md", embedding.markdown(main[0], caption, alt)
        yield "HTML", "snippet.html", embedding.html_figure(main, phones, caption, alt)
    if of_paper := _first_kind(drawings, "pdf", "png"):
        light = [p for p in of_paper if not p.is_dark] or of_paper
        for_columns = [p for p in light if p.width.name != "post"] or light
        yield (
            "LaTeX",
            "snippet.tex",
            "\n".join(
                embedding.latex_figure(
                    p.file, f"{name}-{p.width.name}", caption, alt, is_wide=p.width.name == "double"
                )
                for p in for_columns
            ),
        )


def _first_kind(drawings: list[Made], *kinds: str) -> list[Made]:
    """Return the pictures of the first of these formats that was drawn."""
    of_kinds = ([p for p in drawings if p.kind == kind] for kind in kinds)
    return next((found for found in of_kinds if found), [])


def _size(picture: Made) -> str:
    if picture.kind == "png":
        pixels = (int(side * picture.width.dpi) for side in
                  (picture.width.inches, picture.height_inches))  # fmt: skip
        return "{} x {} pixels".format(*pixels)
    return f"{picture.width.mm:.4g} x {picture.height_inches * 25.4:.4g} mm"


def _check_name(report: Path, name: str) -> None:
    there = listed(report)
    if name not in there:
        raise InputError(
            f"{folders.version_of(report)} has no figure {shown(name)}. Its figures: "
            f"{', '.join(there) or 'none'}. Nothing was written."
        )


def _check_folder(report: Path, folder: Path, *, overwrite: bool) -> None:
    if report in [folder, *folder.parents]:
        raise InputError(
            f"{folder} lies in the report, which is sealed. Name another folder with --to. "
            "Nothing was written."
        )
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file. Name a folder with --to. Nothing was written.")
    if folder.exists() and any(folder.iterdir()) and not overwrite:
        raise InputError(
            f"{folder} is there already. Name another folder with --to, or replace its files with "
            "--overwrite. Nothing was written."
        )


def _check_seal(report: Path, body: Mapping[str, Any]) -> None:
    """Refuse a report that was changed since it was sealed: nobody should publish from it."""
    faults = folders.foreign(report)
    if not faults and (manifest.digests(report), manifest.seal_of(dict(body))) != (
        body["files"],
        body["seal"],
    ):
        faults = ["it was changed after it was sealed"]
    if faults:
        raise InnolabError(
            f"{report.name} is not as it was sealed: {faults[0]}. innolab verify names every file."
        )


def _check_values(report: Path, name: str, values: str) -> None:
    path = report / "figures" / f"{name}.csv"
    kept = parsing.read_text(path) if path.is_file() else ""
    if kept != values:
        why = equality.text_difference(kept, values)
        raise InnolabError(f"its values are others, {why}")


def _move(made: Path, folder: Path) -> list[Path]:
    """Put the files of a finished kit in their place, each whole, and return them."""
    places = {path: folder / path.name for path in sorted(made.iterdir())}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, place in places.items():
            with files.replaced(place) as part:
                part.write_bytes(path.read_bytes())
    except OSError as error:
        raise InputError(
            f"{folder} cannot be written ({error.strerror}). Name another folder with --to."
        ) from None
    return list(places.values())


def _caption(drawn: Path) -> str:
    """Return the caption that a leaflet begins with, after its heading."""
    leaflet = drawn.with_suffix(".md")
    paragraphs = leaflet.read_text(errors="replace").split("\n\n") if leaflet.is_file() else []
    return from_markdown(paragraphs[1]) if len(paragraphs) > 1 else ""


def _in_markdown(value: Any) -> Any:
    return in_markdown(value) if isinstance(value, str) else value
