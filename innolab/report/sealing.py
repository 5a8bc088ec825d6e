"""Seal a report: make it whole in a folder apart, prove it there, and put it in its place.

Whatever is killed or runs out of space on the way leaves the reports' folder as it was.
"""

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from innolab.base import files
from innolab.base.errors import InnolabError
from innolab.record import series_store
from innolab.report import folders, manifest

# Takes the finished folder, and raises where it does not hold.
Proof = Callable[[Path], None]


@contextlib.contextmanager
def apart(version: str, recorded: Path | None = None) -> Iterator[Path]:
    """Give a folder to make a report in, named by its version.

    Parameters
    ----------
    recorded : a folder whose recorded files are copied into it
    """
    with tempfile.TemporaryDirectory(prefix="innolab-report-") as room:
        made = Path(room) / version
        made.mkdir()
        if recorded:
            folders.copy_recorded(recorded, made)
            series_store.merge(made)
        yield made


def finish(made: Path, begun: Path, prove: Proof) -> Path:
    """Put a finished report in the place of the folder in which it was measured, and return it.

    Raises
    ------
    InnolabError
        If it does not hold, or its version exists.
    """
    prove(made)
    final = begun.with_name(made.name)
    if final.is_symlink():  # To the provisional page.
        final.unlink()
    if final.exists():
        raise InnolabError(f"{final} exists already, and reports are never overwritten.")
    _fill(begun, made)
    begun.rename(final)
    return final


def _fill(begun: Path, made: Path) -> None:
    """Make a folder's files those of another, the manifest last: with it a folder is a report.

    What is not wanted goes once all else is there: the series of single trials, of which no other
    copy is kept.
    """
    wanted = {path.relative_to(made) for path in made.rglob("*")}
    for name in sorted(wanted - {Path(folders.MANIFEST_FILE)}):
        if (made / name).is_dir():
            (begun / name).mkdir(exist_ok=True)
        elif not (begun / name).exists() or manifest.digest(begun / name) != manifest.digest(
            made / name
        ):
            _copy(made / name, begun / name)
    for path in sorted(begun.rglob("*"), reverse=True):
        if path.relative_to(begun) not in wanted:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    _copy(made / folders.MANIFEST_FILE, begun / folders.MANIFEST_FILE)


def _copy(source: Path, target: Path) -> None:
    with files.replaced(target) as part:
        shutil.copyfile(source, part)
