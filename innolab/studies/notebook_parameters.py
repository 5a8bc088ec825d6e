"""The parameters that a notebook's cells give, also those that its study does not take.

papermill writes what it is given into a cell of its own, after that of the defaults, and lets
unknown names pass with a warning. A notebook hands over all its globals, among which an unknown
parameter is one variable of many, as those that a reader made in JupyterLab. The kernel's history
tells them apart: it has the source of every cell that was run.
"""

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

# The study that a notebook of this process opened last.
_opened: list[str] = []
# What papermill begins its cell with.
_INJECTED = "# Parameters"


def given(names: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Return what was given as parameters, by name: the known ones, and strangers.

    Parameters
    ----------
    names : a notebook's globals, or parameters alone, which are taken as they are
    known : the names of the study's parameters
    """
    if "__name__" not in names:  # No module's globals.
        return dict(names)
    history = names.get("In")  # IPython's; other Pythons keep none.
    sources = history if isinstance(history, list) else []
    wanted = [*known, *strangers([str(source) for source in sources], known)]
    return {name: names[name] for name in wanted if name in names}


def opens(study: str) -> None:
    """Note which study a notebook opened: what asks for none afterwards is about it."""
    _opened[:] = [study]


def opened() -> str | None:
    """Return the study that a notebook of this process opened last."""
    return _opened[0] if _opened else None


def strangers(history: Sequence[str], known: Collection[str]) -> list[str]:
    """Return the unknown names that the cells of parameters assign, as they were last run.

    These are the last cell that only assigns plain values, a known parameter among them, and all
    that papermill put after it. What was run before them, such as a name that was misspelt and has
    been corrected since, counts no more.

    >>> defaults = 'scale = "quick"; seed = 1'
    >>> strangers([defaults, "# Parameters\\nseeds = 2", "import innolab"], ["scale", "seed"])
    ['seeds']
    >>> strangers([defaults + "; sede = 2", defaults, "cases = {}"], ["scale", "seed"])
    []
    """
    found: list[str] = []
    for source in reversed(history):
        is_injected = source.lstrip().startswith(_INJECTED)
        names = list(_assigned(source, plain_only=not is_injected))
        is_of_notebook = not is_injected and not set(names).isdisjoint(known)
        if is_injected or is_of_notebook:
            found = [name for name in names if name not in known] + found
        if is_of_notebook:
            break
    return list(dict.fromkeys(found))


def _assigned(source: str, *, plain_only: bool) -> Iterator[str]:
    """Yield the names that a cell assigns, none if it does anything else."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError):  # Such as a cell of another language.
        return
    found = [one for one in body if isinstance(one, ast.Assign | ast.AnnAssign) and one.value]
    if len(found) < len(body):
        return
    if plain_only and not all(_is_plain(one.value) for one in found if one.value):
        return
    for one in found:
        targets = one.targets if isinstance(one, ast.Assign) else [one.target]
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def _is_plain(value: ast.expr) -> bool:
    """Return whether an expression is a number, a text, None, or a list and the like of them."""
    try:
        ast.literal_eval(value)
    except (ValueError, TypeError, RecursionError):
        return False
    return True
