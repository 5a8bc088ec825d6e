"""Python processes that innolab starts: none takes code from the folder that a user works in."""

import json
import os
import subprocess
import sys
import tempfile
from typing import Any

from innolab.base.errors import InnolabError

_SHOWN = 400


def python(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of ours.

    Without -P the working directory comes first on the path, and a file `json.py` in it would run.
    """
    return [sys.executable, "-P", "-m", module, *arguments]


class Child:
    """A module of ours that computes something in a process and an empty folder of its own.

    Programs look for settings in their working directory (matplotlibrc, ipython_config.py): what is
    read from a report must not be there. The module prints one JSON value.
    """

    def __init__(self, module: str, *arguments: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="innolab-child-")
        self._process = subprocess.Popen(
            python(module, *arguments),
            cwd=self._folder.name,
            env={**os.environ, "PYTHONSAFEPATH": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def result(self) -> Any:
        """Return what the module printed, once it has ended.

        Raises
        ------
        InnolabError
            If it failed or was killed, as by its limit of memory.
        """
        printed, said = self._process.communicate()
        self._folder.cleanup()
        if self._process.returncode:
            last = " ".join(said.split())[-_SHOWN:] or f"it ended with {self._process.returncode}"
            raise InnolabError(last)
        return json.loads(printed)

    def end(self) -> None:
        """End it, whatever it has come to."""
        self._process.kill()
        self._process.communicate()
        self._folder.cleanup()
