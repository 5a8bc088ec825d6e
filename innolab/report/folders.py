"""Where reports lie. A report is begun in VERSION.unfinished and sealed by a rename."""

import datetime
import re
import shutil
from pathlib import Path

from innolab.base import places
from innolab.base.errors import InputError
from innolab.record import runlog
from innolab.record.plan import PLAN_FILE, Plan

MANIFEST_FILE = "manifest.json"
UNFINISHED = ".unfinished"
# A report that is rendered again from recorded runs; never resumed as a measurement.
RENDERING = ".rendering"
# Of a report of a published table that was judged.
TABLE_FILE = "table.csv"
# Signatures that people add to a sealed report; the seal is not of them.
SIGNATURES = "signatures"
# Below a study's reports: a version is a day and a number, so none has these names.
COMPARISONS = "comparisons"
POOLS = "pooled"
# What was recorded; all else in a report is made from it.
RECORDED = (PLAN_FILE, runlog.FILE, "variables", "series")
_VERSION = re.compile(r"(\d{4}-\d{2}-\d{2})-(\d+)")


def reports_folder() -> Path:
    """Return the folder of all reports (`INNOLAB_REPORTS` moves it)."""
    return places.reports()


def version_of(folder: Path) -> str:
    """Return the version that a report's folder, finished or not, is named after."""
    return folder.name.removesuffix(UNFINISHED).removesuffix(RENDERING)


def finished(study: str, sealed_by: str = MANIFEST_FILE) -> list[Path]:
    """Return the folders of a study's sealed reports, oldest first."""
    found = (reports_folder() / study).glob("*/" + sealed_by)
    return sorted((p.parent for p in found), key=lambda p: _order(p.name))


def unfinished(study: str) -> list[Path]:
    """Return the folders of a study's reports that were begun and not sealed, oldest first."""
    found = (reports_folder() / study).glob(f"*{UNFINISHED}/{PLAN_FILE}")
    return sorted((p.parent for p in found), key=lambda p: _order(version_of(p.parent)))


def comparison(study: str, first: str, second: str) -> Path:
    """Return the folder of the page that sets two versions side by side."""
    return reports_folder() / study / COMPARISONS / f"{first}_{second}"


def comparisons(study: str) -> list[Path]:
    """Return the pages that set two reports of a study side by side, by their names."""
    return sorted((reports_folder() / study / COMPARISONS).glob("*/index.html"))


def pool(study: str, name: str) -> Path:
    """Return the folder of the page that pools several reports of a study."""
    return reports_folder() / study / POOLS / name


def pools(study: str) -> list[Path]:
    """Return the pages that pool several reports of a study, by their names."""
    return sorted((reports_folder() / study / POOLS).glob("*/index.html"))


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


def begin_from(report: Path, version: str | None, plan: Plan) -> Path:
    """Return a new unfinished folder that holds a plan and the runs of a sealed report.

    Raises
    ------
    InputError
        As `begin`.
    """
    folder = _make(plan, version, plan.study, RENDERING)
    copy_recorded(report, folder)
    plan.write(folder)
    return folder


def copy_recorded(report: Path, folder: Path) -> None:
    """Copy what was recorded, and nothing that was made from it, into another folder."""
    for name in RECORDED:
        source = report / name
        if source.is_dir():
            shutil.copytree(source, folder / name)
        elif source.exists():
            shutil.copy(source, folder / name)


def _make(plan: Plan, version: str | None, place: str, suffix: str = UNFINISHED) -> Path:
    folder = reports_folder() / place / ((version or _next(place)) + suffix)
    if version and not _VERSION.fullmatch(version):
        raise InputError(
            f"'{version}' is no version; a version is a day and a number: 2026-01-31-1."
        )
    if folder.exists() or folder.with_name(version_of(folder)).exists():
        raise InputError(
            f"The report {place}/{version} exists already, and reports are never overwritten. "
            "Leave the version out to get the next free one."
        )
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
    return {name: sorted(of, key=lambda folder: _order(folder.name)) for name, of in found.items()}


def begin_table(name: str) -> Path:
    """Return a new folder, not sealed yet, for the report of a judged table.

    Raises
    ------
    InputError
        Where the reports' folder cannot be written.
    """
    folder = reports_folder() / name / (_next(name) + RENDERING)
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise _unwritable(error) from None
    return folder


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


def _order(version: str) -> tuple[str, int]:
    match = _VERSION.fullmatch(version)
    return (match[1], int(match[2])) if match else (version, 0)
