"""The page of a report that is still being measured: what its blocks so far say."""

import tempfile
import time
from pathlib import Path

from innolab.base import files
from innolab.base.errors import InnolabError
from innolab.record.plan import Plan, Progress
from innolab.report import folders, recompute, render
from innolab.studies.study import Study

# Of the time that measuring takes, so that a page after every block costs next to nothing.
_SHARE = 0.03


class Provisional:
    """Writes a report's page while it is measured, and leaves it where the final one will stand."""

    def __init__(self, study: Study, folder: Path, progress: Progress) -> None:
        self._study, self._folder, self._progress = study, folder, progress
        self._took_s = 0.0
        self._written = time.monotonic()

    def after_block(self, done: int) -> None:
        """Write the page of all blocks so far, unless the last one was written a moment ago."""
        began = time.monotonic()
        if self._took_s > _SHARE * (began - self._written):
            return
        try:
            address = write(self._study, self._folder, done)
        except InnolabError as error:
            # What cannot be shown yet can still be measured.
            self._progress.mark(f"no provisional page: {error}")
            return
        self._written = time.monotonic()
        self._took_s = self._written - began
        self._progress.mark(f"first numbers, after block {done}: {address}")


def write(study: Study, folder: Path, done: int) -> Path:
    """Write the page of an unfinished report and return its address, that of the final page.

    Parameters
    ----------
    done : how many blocks are complete

    Raises
    ------
    InnolabError
        Where the notebook cannot be computed on these runs.
    """
    with tempfile.TemporaryDirectory(prefix="innolab-provisional-") as place:
        copy = Path(place) / folders.version_of(folder)
        copy.mkdir()
        folders.copy_recorded(folder, copy)
        recompute.recompute(study, copy, lambda: _words(Plan.read(copy), copy, done))
        files.write(folder / render.PAGE_FILE, (copy / render.PAGE_FILE).read_text())
    return folders.linked(folder) / render.PAGE_FILE


def _words(plan: Plan, copy: Path, done: int) -> str:
    """Return how far measuring has come, and what is still being decided."""
    assert plan.blocks is not None
    first, last = plan.blocks
    undecided = {
        verdict["claim"]
        for verdict in render.read_verdicts(copy)
        if verdict["verdict"] in ("inconclusive", "withheld")
    }
    judged = (
        f"claims are judged after block {first}"
        if done < first
        else f"{len(undecided)} claims are still being decided"
    )
    return f"Provisional: {done} of at most {last} blocks are measured; {judged}. Reload for more."
