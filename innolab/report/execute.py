"""Execute a study's notebook on recorded runs: by papermill, with this process as its engine.

Nothing of a report is executed: its runs, series and variables are read as data, and the cells are
those of the project's notebook. There is no kernel to wait for; in JupyterLab and by nbval the same
cells show the same in one.
"""

import ast
import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import nbformat

from innolab.base.errors import InnolabError
from innolab.record.plan import Plan
from innolab.record.replay import GLOBAL, Replay
from innolab.report import figures
from innolab.studies.study import Study

_ENGINE = "innolab"
# These cells only assign what the plan holds, and are never run.
_PARAMETERS = {"parameters", "injected-parameters"}


def execute(
    study: Study,
    folder: Path,
    *,
    partly: bool = False,
    take: Callable[[figures.Drawn], None] | None = None,
) -> Any:
    """Return a study's notebook with its outputs, which wrote figures and verdicts into the folder.

    Time and tool of the execution are left out: the same runs give the same bytes.

    Parameters
    ----------
    folder : holds plan and runs
    partly : whether runs of the plan may be missing
    take : takes each figure that the notebook publishes, which is not written then

    Raises
    ------
    InnolabError
        If the notebook cannot be computed on these runs; names the cell and its error.
    """
    import papermill
    from papermill.engines import papermill_engines

    # It warns of parameters that an older plan has and the notebook no longer.
    logging.getLogger("papermill").setLevel(logging.ERROR)
    papermill_engines.register(_ENGINE, _engine(Replay(folder, partly, take)))
    with _same_backend():
        return _timeless(
            papermill.execute_notebook(
                str(study.papers.notebook),
                None,
                parameters=Plan.read(folder).parameters,
                engine_name=_ENGINE,
                kernel_name="python3",
                language="python",
                progress_bar=False,
            )
        )


@contextlib.contextmanager
def drawn(study: Study, folder: Path, name: str) -> Iterator[figures.Drawn]:
    """Give a figure as the study's notebook draws it from the runs in a folder, in its theme.

    The notebook runs as far as that figure.

    Raises
    ------
    InnolabError
        As `execute`, or if the notebook draws no figure of this name; lists those it draws.
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
        with contextlib.suppress(_EnoughError):
            execute(study, folder, take=take)
        if not found:
            raise InnolabError(
                f"the study's notebook draws no figure '{name}' from these runs; it draws: "
                f"{', '.join(others) or 'none'}"
            )
        yield found[0]


class _EnoughError(BaseException):
    """The figure was drawn. No Exception: the cell that drew it has not failed."""


def _engine(replay: Replay) -> type:
    """Return the engine; a class of papermill's, which is not imported before it is needed."""
    from papermill.engines import Engine

    class InThisProcess(Engine):
        """Runs the cells of a notebook one after the other, in names of their own."""

        @classmethod
        def execute_managed_notebook(cls, nb_man: Any, kernel_name: str, **_: Any) -> None:
            parameters = nb_man.nb.metadata.papermill["parameters"]
            names: dict[str, Any] = {"__name__": "__main__", GLOBAL: replay, **parameters}
            code = (cell for cell in nb_man.nb.cells if cell.cell_type == "code")
            for number, cell in enumerate(code, 1):
                is_run = not _PARAMETERS & set(cell.metadata.get("tags", []))
                source = cell.source if replay.take is None else _of_figures(cell.source)
                cell.outputs = _run(source, names, number) if is_run else []
                cell.execution_count = number

    return InThisProcess


def _of_figures(source: str) -> str:
    r"""Return a cell without its last line if that only shows something and draws no figure.

    Verdicts take longer than all figures together.

    >>> print(_of_figures("study = open_study()\nstudy.warnings()"))
    study = open_study()
    >>> _of_figures("study.publish(grid, 'a')")
    "study.publish(grid, 'a')"
    """
    cell = ast.parse(source)
    last = cell.body[-1] if cell.body else None
    if not isinstance(last, ast.Expr) or any(
        isinstance(part, ast.Attribute) and part.attr == "publish" for part in ast.walk(last)
    ):
        return source
    return ast.unparse(ast.Module(cell.body[:-1], []))


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


def _timeless(notebook: Any) -> Any:
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


@contextlib.contextmanager
def _same_backend() -> Iterator[None]:
    """Give matplotlib its backend back: in JupyterLab, a reader's own figures show inline."""
    import matplotlib

    before = matplotlib.get_backend(auto_select=False)
    try:
        yield
    finally:
        if before:
            matplotlib.use(before)
