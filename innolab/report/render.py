"""Make a report of recorded runs: execute the notebook, convert it, and write its page."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
from markupsafe import Markup

from innolab.analysis.verdicts import Verdict
from innolab.base import files, language, parsing
from innolab.base.errors import InnolabError, InputError
from innolab.record.plan import Plan
from innolab.report import citation, first_screen, folders, markup
from innolab.report.execute import execute
from innolab.studies import rules
from innolab.studies.study import Study

TEMPLATES = Path(__file__).parent / "templates"
# Figures first: what scrolls depends on how they are laid.
SCRIPTS = ("figures.js", "page.js")
NOTEBOOK_FILE, PAGE_FILE, VERDICTS_FILE = "notebook.ipynb", "index.html", "verdicts.json"


def render(study: Study, folder: Path, provisional: Callable[[], str] | None = None) -> None:
    """Write notebook, figures, verdicts and page into a folder that holds plan and runs.

    Parameters
    ----------
    provisional : gives the words that mark the page of a plan that is not complete yet; without it
        a run that is missing is an error

    Raises
    ------
    InnolabError
        If a cell fails; quotes its error.
    """
    rules.keep(study, folder)
    plan = Plan.read(folder)
    with language.speaking(plan.parameters.get("language", language.ENGLISH)):
        notebook = execute(study, folder, partly=provisional is not None)
        _write(study, folder, plan, notebook, provisional)


def _write(
    study: Study,
    folder: Path,
    plan: Plan,
    notebook: Any,
    provisional: Callable[[], str] | None,
) -> None:
    if not (folder / VERDICTS_FILE).exists():
        raise InnolabError("The notebook wrote no verdicts: no cell of it calls study.verdicts().")
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = language.markdown(cell.source)
    files.write(folder / NOTEBOOK_FILE, nbformat.writes(notebook))
    version = folders.version_of(folder)
    words = provisional() if provisional else None
    found = read_verdicts(folder)
    files.write(folder / PAGE_FILE, page(notebook, study, plan, version, found, words))


def read_verdicts(folder: Path) -> list[dict[str, Any]]:
    """Return what a report's verdicts.json holds.

    Raises
    ------
    InputError
        Where it is damaged.
    """
    path = folder / VERDICTS_FILE
    try:
        return [Verdict.model_validate(v).model_dump() for v in parsing.json_file(path)]
    except (ValueError, TypeError):
        raise InputError(
            f"{path} is damaged: it holds no list of verdicts. Take the report from its source."
        ) from None


def page(
    notebook: Any,
    study: Study,
    plan: Plan,
    version: str,
    verdicts: Sequence[Mapping[str, Any]],
    provisional: str | None = None,
) -> str:
    """Return the self-contained page of an executed notebook: its answer on top, code folded.

    Parameters
    ----------
    verdicts : entries of verdicts.json
    provisional : the words that mark the page of a plan that is not complete yet
    """
    from nbconvert import HTMLExporter

    exporter = HTMLExporter(
        template_name="innolab",
        extra_template_basedirs=[str(TEMPLATES)],
        extra_template_paths=[str(TEMPLATES)],
    )
    exporter.environment.autoescape = True
    exporter.register_filter("markdown2html", in_html)
    sheet = markup.Sheet()
    first, rest = first_screen.lifted(
        notebook, language.text(study.title), language.text(study.question), verdicts
    )
    _fit(rest, sheet)
    facts = {
        "lead": replace(first, figure=sheet.fit(first.figure), answer=sheet.fit(first.answer)),
        "language": language.chosen(),
        "text": language.text,
        "study": study.name,
        "version": version,
        "scale": plan.parameters["scale"],
        "effort": study.check(plan.parameters).effort_name if plan.blocks else None,
        "provisional": provisional,
        "is_given": any(
            "injected-parameters" in cell.metadata.get("tags", []) for cell in notebook.cells
        ),
        "policy": markup.policy,
        "script": Markup("".join((TEMPLATES / name).read_text() for name in SCRIPTS)),
        "style": Markup((TEMPLATES / "style.css").read_text()),
        "sheet": sheet,
        "image": citation.file_address(plan.study, version, f"figures/{first.picture}.png")
        if first.picture
        else None,
    }
    body, _ = exporter.from_notebook_node(rest, resources={"innolab": facts})
    return str(markup.with_contents(body))


def _fit(notebook: Any, sheet: markup.Sheet) -> None:
    """Make the HTML of a notebook's outputs fit for a page whose rules a sheet collects."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if "text/html" in output.get("data", {}):
                output.data["text/html"] = sheet.fit(first_screen.text_of(output, "text/html"))


def in_html(markdown: str) -> Markup:
    """Return Markdown as HTML; what looks like HTML in it is text."""
    from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

    class Renderer(IPythonRenderer):
        """Its own option to escape would escape entities too, which Markdown has for signs."""

        def block_html(self, html: str) -> str:
            return f"{Markup('<p>{}</p>').format(html.strip())}\n"

        def inline_html(self, html: str) -> str:
            return str(Markup.escape(html))

    renderer = Renderer(escape=False, allow_harmful_protocols=False, exclude_anchor_links=True)
    return Markup(MarkdownWithMath(renderer).render(markdown))
