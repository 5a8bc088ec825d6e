"""Where reports lie. A report is begun in VERSION.unfinished and sealed by a rename."""

import contextlib
import datetime
import fcntl
import os
import re
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from innolab.base import places
from innolab.base.errors import InputError
from innolab.record.plan import PLAN_FILE, Plan

MANIFEST_FILE = "manifest.json"
UNFINISHED = ".unfinished"
# A report while it is copied to its place.
_HALF = ".part"
# Of a report of a published table that was judged.
TABLE_FILE = "table.csv"
# Signatures that people add to a sealed report; the seal is not of them.
SIGNATURES = "signatures"
# Below a study's reports: a version is a day and a number, so none has this name.
COMPARISONS = "comparisons"
# What was recorded, and what it is judged by; the rest of a report is made from it.
_RECORDED = re.compile(
    r"plan\.json|runs\.jsonl|rules\.json|variables/[0-9a-f]{16}\.json|series\.parquet"
    r"|series/[0-9]{4,}\.parquet"
)
_MADE = re.compile(
    r"claims\.yml|published\.csv|verdicts\.json|notebook\.ipynb|index\.html|manifest\.json"
    r"|ro-crate-metadata\.json|figures/[0-9A-Za-z._-]+\.(svg|png|csv|md)|signatures/[^/]+\.(json|sig)"
    # Of a judged table.
    r"|table\.csv|about\.json|spreads\.json|seconds\.csv|rankings\.json"
)
_FOLDERS = ("variables", "series", "figures", SIGNATURES)
_VERSION = re.compile(r"(\d{4}-\d{2}-\d{2})-(\d+)")


def reports_folder() -> Path:
    """Return the folder of all reports (`INNOLAB_REPORTS` moves it)."""
    return places.reports()


def version_of(folder: Path) -> str:
    """Return the version that a report's folder, finished or not, is named after."""
    return folder.name.removesuffix(UNFINISHED)


def finished(study: str, sealed_by: str = MANIFEST_FILE) -> list[Path]:
    """Return the folders of a study's sealed reports, oldest first."""
    found = (path.parent for path in (reports_folder() / study).glob("*/" + sealed_by))
    return sorted((p for p in found if _VERSION.fullmatch(p.name)), key=lambda p: order(p.name))


def unfinished(study: str) -> list[Path]:
    """Return the folders of a study's reports that were begun and not sealed, oldest first."""
    found = (reports_folder() / study).glob(f"*{UNFINISHED}/{PLAN_FILE}")
    return sorted((p.parent for p in found), key=lambda p: order(version_of(p.parent)))


def comparison(study: str, name: str) -> Path:
    """Return the folder of the page that compares several reports of a study."""
    return reports_folder() / study / COMPARISONS / name


def comparisons(study: str) -> list[Path]:
    """Return the pages that compare reports of a study, by their names."""
    return sorted((reports_folder() / study / COMPARISONS).glob("*/index.html"))


def linked(folder: Path) -> Path:
    """Return the final name of an unfinished report, which leads to its folder until it is sealed.

    A page that is opened there while it is provisional is the final one after a reload.
    """
    address = folder.with_name(version_of(folder))
    if not address.is_symlink():
        address.symlink_to(folder.name)
    return address


def begin(plan: Plan, version: str | None = None, place: str | None = None) -> Path:
    """Return the unfinished folder of this very plan, resumed where there is one, else made.

    Parameters
    ----------
    place : where it lies below the reports' folder; that of its study where none is named

    Raises
    ------
    InputError
        Where the named version exists, or the reports' folder cannot be written.
    """
    place = place or plan.study
    for folder in reversed(unfinished(place)):
        if Plan.read(folder) == plan and version in (None, version_of(folder)):
            return folder
    return _make(plan, version, place)


def copy_recorded(report: Path, folder: Path) -> None:
    """Copy what was recorded, and nothing that was made from it, into another folder.

    Raises
    ------
    InputError
        If anything of it is no plain file: a link would copy what the report does not hold.
    """
    for path, name in _files(report):
        if _RECORDED.fullmatch(name):
            if not stat.S_ISREG(path.lstat().st_mode):
                raise InputError(f"{path} is no plain file, so {report.name} is not copied.")
            (folder / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(path, folder / name)


def foreign(folder: Path) -> list[str]:
    """Return what does not belong in a report's folder, each with the reason.

    A link would let a report show what is elsewhere, a pipe let its reader wait without end, and a
    program of the reader take a file of another name for its own configuration or code.
    """
    found = []
    for path, name in _files(folder):
        kind = path.lstat().st_mode
        if stat.S_ISLNK(kind):
            found.append(f"{name!r}: it is a link, and a report holds files alone")
        elif stat.S_ISDIR(kind):
            if name not in _FOLDERS:
                found.append(f"{name!r}: no report has a folder of this name")
        elif not stat.S_ISREG(kind):
            found.append(f"{name!r}: it is neither a file nor a folder")
        elif not (_RECORDED.fullmatch(name) or _MADE.fullmatch(name)):
            found.append(f"{name!r}: no report has a file of this name")
    return sorted(found)


def _files(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield all in a folder with its relative name; no link is followed."""
    for place, folders, others in os.walk(folder, followlinks=False):
        for name in [*folders, *others]:
            path = Path(place) / name
            yield path, path.relative_to(folder).as_posix()


def _free(final: Path) -> Path:
    """Return the folder of a version that nothing has yet."""
    if not _VERSION.fullmatch(final.name):
        raise InputError(
            f"'{final.name}' is no version; a version is a day and a number: 2026-01-31-1."
        )
    if final.exists() or final.with_name(final.name + UNFINISHED).exists():
        raise InputError(
            f"The report {final.parent.name}/{final.name} exists already, and reports are never "
            "overwritten. Leave the version out to get the next free one."
        )
    return final


def _make(plan: Plan, version: str | None, place: str) -> Path:
    final = _free(reports_folder() / place / (version or _next(place)))
    folder = final.with_name(final.name + UNFINISHED)
    try:
        folder.mkdir(parents=True)
        plan.write(folder)
    except OSError as error:
        raise _unwritable(error) from None
    return folder


def tables() -> dict[str, list[Path]]:
    """Return the reports of judged tables by their names, oldest first.

    They are told by the table itself, which no report of a study holds.
    """
    found: dict[str, list[Path]] = {}
    for path in sorted(reports_folder().glob(f"*/*/{TABLE_FILE}")):
        if (path.parent / MANIFEST_FILE).is_file() and _VERSION.fullmatch(path.parent.name):
            found.setdefault(path.parent.parent.name, []).append(path.parent)
    return {name: sorted(of, key=lambda folder: order(folder.name)) for name, of in found.items()}


@contextlib.contextmanager
def next_version(place: str, version: str | None = None) -> Iterator[Path]:
    """Give the folder of the next version below a place, which no other process takes meanwhile.

    The folder is not made: what fails or is killed uses up no version.

    Raises
    ------
    InputError
        If the named version exists or is no version, or the reports' folder cannot be written.
    """
    parent = reports_folder() / place
    try:
        parent.mkdir(parents=True, exist_ok=True)
        held = os.open(parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise _unwritable(error) from None
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        for left in parent.glob(f".*{_HALF}"):  # Of a process that was killed as it put it there.
            shutil.rmtree(left)
        yield _free(parent / (version or _next(place)))
    finally:
        os.close(held)
        with contextlib.suppress(OSError):
            parent.rmdir()  # Only if nothing was put there.


def put(made: Path, final: Path) -> Path:
    """Put a finished folder in its place, whole or not at all, and return the place."""
    half = final.with_name(f".{final.name}{_HALF}")
    try:
        shutil.copytree(made, half)
        half.rename(final)
    except BaseException:
        shutil.rmtree(half, ignore_errors=True)
        raise
    return final


def _unwritable(error: OSError) -> InputError:
    return InputError(
        f"The reports' folder {reports_folder()} cannot be written ({error.strerror}). Make it "
        "writable, or name another with INNOLAB_REPORTS."
    )


def find(name: str) -> Path:
    """Return a sealed report's folder by path, or by STUDY/VERSION below the reports' folder.

    Raises
    ------
    InputError
        Where there is none.
    """
    for folder in (Path(name), reports_folder() / name):
        if (folder / MANIFEST_FILE).is_file():
            return folder.resolve()
    raise InputError(
        f"There is no report '{name}'. A report is named by its folder, or as STUDY/VERSION below "
        f"{reports_folder()}; see: innolab list"
    )


def _next(study: str) -> str:
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    names = [version_of(p) for p in (reports_folder() / study).glob(f"{today}-*")]
    taken = [int(m[2]) for name in names if (m := _VERSION.fullmatch(name))]
    return f"{today}-{max(taken, default=0) + 1}"


def order(version: str) -> tuple[str, int]:
    """Return what sorts versions by day and number."""
    match = _VERSION.fullmatch(version)
    return (match[1], int(match[2])) if match else (version, 0)
