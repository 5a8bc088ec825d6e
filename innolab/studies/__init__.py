"""The studies, one module each. A module is imported only when its study is asked for."""

import importlib
from typing import TYPE_CHECKING

from innolab.base.errors import InputError

if TYPE_CHECKING:
    from innolab.record.study import Study

NAMES = ("compressed-insert", "more-memory", "multi-buffer-pool", "raid-comparison")


def find(name: str) -> "Study":
    """Return the study of that name.

    Raises
    ------
    InputError
        Where there is none; lists those there are.
    """
    if name not in NAMES:
        raise InputError(f"There is no study '{name}'. There are: {', '.join(NAMES)}.")
    module = importlib.import_module(f"innolab.studies.{name.replace('-', '_')}")
    return module.STUDY
