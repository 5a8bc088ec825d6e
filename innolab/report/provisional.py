"""The page of a report that is still being measured: what its blocks so far say."""

import tempfile
import time
from pathlib import Path

from innolab.base import files
from innolab.base.errors import InnolabError
from innolab.base.language import text
from innolab.record.plan import Plan, Progress
from innolab.report import folders, render
from innolab.studies.study import Study

# Of the time that measuring takes, so that a page after every block costs next to nothing.
_SHARE = 0.03
# A first block may take long: some of its trials are numbers too.
_FIRST_S = 75.0


class Provisional:
    """Writes a report's page while it is measured, and leaves it where the final one will stand."""

    def __init__(self, study: Study, folder: Path, progress: Progress) -> None:
        self._study, self._folder, self._progress = study, folder, progress
        self._took_s = 0.0
        self._written = 0.0
        self._began: float | None = None

    def after_trial(self, blocks: int, is_whole: bool) -> None:
        """Write the page of all trials so far, after a block, and once before the first is whole.

        Parameters
        ----------
        blocks : how many blocks are complete
        is_whole : whether the trial was the last of a block
        """
        began = time.monotonic()
        self._began = began if self._began is None else self._began
        if is_whole:
            is_due = self._took_s <= _SHARE * (began - self._written)
        else:
            is_due = not self._written and began - self._began > _FIRST_S
        if is_due:
            self._write(blocks)
            self._written = time.monotonic()
            self._took_s = self._written - began

    def _write(self, blocks: int) -> None:
        try:
            address = write(self._study, self._folder, blocks)
        except InnolabError as error:
            # What cannot be shown yet can still be measured.
            self._progress.mark(f"no provisional page: {error}")
            return
        self._progress.mark(f"a provisional page, {blocks} blocks complete: {address}")


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
        render.render(study, copy, lambda: _words(Plan.read(copy), copy, done))
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
        text("claims are judged after block {first}", first=first)
        if done < first
        else text("{n} claims are still being decided", n=len(undecided))
    )
    measured = text("{done} of at most {last} blocks are complete", done=done, last=last)
    return text(
        "Provisional: {measured}; {judged}. Reload for more.", measured=measured, judged=judged
    )
