"""Compute again all that a report shows, by the study's own notebook source, in this process.

Nothing of the report is executed: its runs, series and variables are read as data, and the cells
are those of the project's notebook. `render` executes the same cells in a kernel, by papermill, so
that JupyterLab and a report show the same; here there is no kernel to wait for.
"""

import ast
import contextlib
import io
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import nbformat

from innolab.base.errors import InnolabError
from innolab.record import replay
from innolab.record.plan import Plan
from innolab.report import figures, render
from innolab.studies.study import Study


def recompute(study: Study, folder: Path, provisional: Callable[[], str] | None = None) -> None:
    """Write verdicts, notebook, figures and page into a folder that holds what was recorded.

    Parameters
    ----------
    provisional : gives the words that mark the page of a plan that is not complete yet; without it
        a run that is missing is an error

    Raises
    ------
    InnolabError
        Where the notebook cannot be computed on these runs; names the cell and its error.
    """
    is_partial = provisional is not None
    render.complete(
        study,
        folder,
        lambda plan: _executed(render.source_of(study), plan, folder, is_partial=is_partial),
        provisional,
    )


@contextlib.contextmanager
def drawn(study: Study, folder: Path, name: str) -> Iterator[figures.Drawn]:
    """Give a figure as the study's notebook draws it from the runs in a folder, in its theme.

    The notebook runs as far as that figure.

    Raises
    ------
    InnolabError
        As `recompute`, or where the notebook draws no figure of this name; lists those it draws.
    """
    import matplotlib

    others: list[str] = []
    found: list[figures.Drawn] = []

    def take(figure: figures.Drawn) -> None:
        if figure.name == name:
            found.append(figure)
            raise _EnoughError
        others.append(figure.name)

    # A notebook sets its theme for the whole process.
    with matplotlib.rc_context():
        with contextlib.suppress(_EnoughError), figures.taken_by(take):
            plan = Plan.read(folder)
            _executed(render.source_of(study), plan, folder, is_partial=False)
        if not found:
            raise InnolabError(
                f"the study's notebook draws no figure '{name}' from these runs; it draws: "
                f"{', '.join(others) or 'none'}"
            )
        yield found[0]


class _EnoughError(BaseException):
    """The figure was drawn. No Exception: the cell that drew it has not failed."""


def _executed(source: Path, plan: Plan, folder: Path, *, is_partial: bool) -> Any:
    """Return the notebook of a source with its outputs, as papermill would leave it."""
    from papermill.iorw import load_notebook_node
    from papermill.parameterize import parameterize_notebook

    notebook = parameterize_notebook(
        load_notebook_node(str(source)), plan.parameters, kernel_name="python3", language="python"
    )
    names: dict[str, Any] = {"__name__": "__main__"}
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    with _same_backend(), replay.of(folder, partly=is_partial):
        for number, cell in enumerate(code, 1):
            # These cells only assign what the plan holds, and are never run.
            if {"parameters", "injected-parameters"} & set(cell.metadata.get("tags", [])):
                names |= plan.parameters
                outputs = []
            else:
                outputs = _run(cell.source, names, number)
            cell.outputs, cell.execution_count = outputs, number
    return render.timeless(notebook)


def _run(source: str, names: dict[str, Any], number: int) -> list[Any]:
    """Execute a cell and return its outputs: what it printed, and the value of its last line."""
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            exec(compile(ast.Module(body, []), f"cell {number}", "exec"), names)
            value = (
                eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
                if isinstance(last, ast.Expr)
                else None
            )
            shown = _formatted(value)
    except Exception as error:
        raise InnolabError(
            f"cell {number} of the study's notebook fails on these runs: "
            f"{type(error).__name__}: {str(error)[:300]}"
        ) from None
    text = printed.getvalue()
    outputs = [nbformat.v4.new_output("stream", name="stdout", text=text)] if text else []
    if value is not None:
        outputs.append(nbformat.v4.new_output("execute_result", data=shown, execution_count=number))
    return outputs


def _formatted(value: Any) -> Mapping[str, Any]:
    """Return a value as Jupyter shows it, by media type."""
    from IPython.core.formatters import DisplayFormatter

    shown, _ = DisplayFormatter().format(value)
    return shown


@contextlib.contextmanager
def _same_backend() -> Iterator[None]:
    """Give matplotlib its backend back: in JupyterLab, figures of one's own show inline."""
    import matplotlib

    before = matplotlib.get_backend(auto_select=False)
    try:
        yield
    finally:
        if before:
            matplotlib.use(before)
