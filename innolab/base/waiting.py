"""Waiting for what others do."""

import time
from collections.abc import Callable

from innolab.base.errors import InnolabError

_LOOK_S = 0.05


def await_that(is_so: Callable[[], bool], limit_s: float, what: str) -> None:
    """Wait until something is so; raise InnolabError, which begins with `what`, where it is not."""
    deadline = time.monotonic() + limit_s
    while not is_so():
        if time.monotonic() > deadline:
            raise InnolabError(f"{what} within {limit_s:g} s.")
        time.sleep(_LOOK_S)
