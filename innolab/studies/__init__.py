"""The studies: a folder each, or a module of another package that names itself.

A study of this project is a folder here with a `study.py`; its notebook, claims and published
figures lie in notebooks/ and data/. Another package names a module of its own under the entry point
`innolab.studies`; these files are next to it, as NAME.ipynb, NAME.yml, NAME.csv and, if it has one,
NAME.answer.yml.
"""

import importlib
import sys
import traceback
from dataclasses import replace
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from innolab.base import places
from innolab.base.errors import InputError

if TYPE_CHECKING:
    from innolab.studies.study import Study

_HERE = Path(__file__).parent
_GROUP = "innolab.studies"


def names() -> list[str]:
    """Return the names of all studies, those of other packages last."""
    ours = sorted(path.parent.name.replace("_", "-") for path in _HERE.glob("*/study.py"))
    return [*ours, *sorted(point.name for point in entry_points(group=_GROUP))]


@cache
def find(name: str) -> "Study":
    """Return the study of that name.

    Raises
    ------
    InputError
        If there is none, with those there are; or where its module or claims are malformed, with
        file and line.
    """
    folder = _HERE / name.replace("-", "_")
    points = {point.name: point.value for point in entry_points(group=_GROUP)}
    if (folder / "study.py").exists() and "_" not in name:
        return _loaded(name, f"innolab.studies.{folder.name}.study")
    if name in points:
        return _loaded(name, points[name])
    raise InputError(f"There is no study '{name}'. There are: {', '.join(names())}.")


def _loaded(name: str, module: str) -> "Study":
    from innolab.analysis import answers
    from innolab.studies.study import Papers, Study

    try:
        loaded = importlib.import_module(module)
        found = loaded.STUDY
    except (TypeError, ValueError, AttributeError, NameError, ImportError, SyntaxError) as error:
        raise InputError(f"The study {name} cannot be used: {_place(module)}: {error}") from None
    if not isinstance(found, Study):
        raise InputError(f"The study {name} cannot be used: STUDY in {module} is no Study.")
    if module.startswith(f"{__name__}."):
        papers = Papers(
            places.own("data", "published", f"{name}.csv"),
            places.own("data", "claims", f"{name}.yml"),
            places.own("notebooks", f"{name}.ipynb"),
            places.own("data", "answers", f"{name}.yml"),
        )
    else:
        beside = Path(str(loaded.__file__)).parent
        papers = Papers(
            *(beside / f"{name}.{kind}" for kind in ("csv", "yml", "ipynb", "answer.yml"))
        )
    study = replace(found, name=name, papers=papers)
    answers.require_known(study.answer, [claim.id for claim in study.claims()], papers.answer)
    return study


def _place(module: str) -> str:
    """Return file and line where loading a study failed, the innermost that is the study's own."""
    error = sys.exc_info()[1]
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}"
    last = module.rpartition(".")[2] + ".py"
    frames = [f for f in traceback.extract_tb(sys.exc_info()[2]) if f.filename.endswith(last)]
    return f"{frames[-1].filename}, line {frames[-1].lineno}" if frames else module
