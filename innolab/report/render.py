"""Make a report of recorded runs: execute the notebook, convert it, and write its page."""

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
from markupsafe import Markup

from innolab.analysis.verdicts import Verdict
from innolab.base import children, files, language, parsing
from innolab.base.errors import InnolabError, InputError
from innolab.record import replay
from innolab.record.plan import Plan
from innolab.report import first_screen, folders, markup
from innolab.studies import rules
from innolab.studies.study import Study

TEMPLATES = Path(__file__).parent / "templates"
NOTEBOOK_FILE, PAGE_FILE, VERDICTS_FILE = "notebook.ipynb", "index.html", "verdicts.json"


def render(study: Study, folder: Path) -> None:
    """Write notebook, figures, verdicts and page into a folder that holds plan and runs.

    Raises
    ------
    InnolabError
        If a cell fails; quotes its error.
    """
    complete(study, folder, lambda plan: execute(source_of(study), plan, folder))


def complete(
    study: Study,
    folder: Path,
    executed: Callable[[Plan], Any],
    provisional: Callable[[], str] | None = None,
) -> None:
    """Write the notebook that was executed, and its page.

    Parameters
    ----------
    executed : takes the plan and returns the notebook with its outputs, having made the figures and
        the verdicts
    provisional : gives the words that mark the page of a plan that is not complete yet
    """
    rules.keep(study, folder)
    plan = Plan.read(folder)
    with language.speaking(plan.parameters.get("language", language.ENGLISH)):
        _complete(study, folder, plan, executed(plan), provisional)


def _complete(
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


def source_of(study: Study) -> Path:
    """Return a study's notebook, as its authors wrote it."""
    return study.papers.notebook


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


def execute(source: Path, plan: Plan, folder: Path) -> Any:
    """Return a study's notebook executed by a kernel on the recorded runs in a folder alone.

    The kernel works in an empty folder of its own, which has its sockets too. Time, host and tool
    of the execution are removed, so that the same runs give the same bytes.
    """
    import papermill
    from papermill.exceptions import PapermillExecutionError
    from traitlets.config import Config

    with tempfile.TemporaryDirectory(prefix="innolab-kernel-") as room, _environment_for(folder):
        try:
            notebook = papermill.execute_notebook(
                str(source),
                str(Path(room) / NOTEBOOK_FILE),
                parameters=plan.parameters,
                kernel_name="python3",
                cwd=room,
                progress_bar=False,
                log_output=False,
                # A private socket file instead of a TCP port that others on this host may reach.
                config=Config(KernelManager={"transport": "ipc"}),
            )
        except PapermillExecutionError as error:
            raise InnolabError(
                f"Cell {error.exec_count} of {source.name} failed: {error.ename}: {error.evalue}. "
                "The runs are kept."
            ) from None
    return timeless(notebook)


@contextlib.contextmanager
def _environment_for(folder: Path) -> Iterator[None]:
    """Let kernels that are started meanwhile replay the runs in a folder, on a safe path."""
    before = dict(os.environ)
    os.environ.update(children.environment(**{replay.VARIABLE: str(folder)}))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def timeless(notebook: Any) -> Any:
    """Return a notebook without the time and the tool of its execution."""
    notebook.metadata = nbformat.NotebookNode(
        kernelspec=nbformat.NotebookNode(
            display_name="Python 3", language="python", name="python3"
        ),
        language_info=nbformat.NotebookNode(name="python"),
    )
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number:02d}"
        tags = cell.metadata.get("tags", [])
        cell.metadata = nbformat.NotebookNode(tags=tags) if tags else nbformat.NotebookNode()
    return notebook


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
        "lead": replace(first, figure=sheet.fit(first.figure)),
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
        "script": Markup((TEMPLATES / "page.js").read_text()),
        "style": Markup((TEMPLATES / "style.css").read_text()),
        "sheet": sheet,
    }
    body, _ = exporter.from_notebook_node(rest, resources={"innolab": facts})
    return str(body)


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
