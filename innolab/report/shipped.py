"""Which reports the repository ships, as references to compare one's own with."""

import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from innolab import studies
from innolab.base import places
from innolab.base.errors import InputError
from innolab.report import folders, manifest


@cache
def references() -> frozenset[Path]:
    """Return the folders of reports that git tracks around this innolab; none without a clone."""
    root = places.PACKAGE.parent
    if places.is_installed() or not (root / ".git").exists():
        return frozenset()
    pattern = f"reports/*/*/{folders.MANIFEST_FILE}"
    found = subprocess.run(
        ["git", "-C", str(root), "ls-files", pattern], capture_output=True, text=True
    )
    return frozenset(root / Path(line).parent for line in found.stdout.splitlines())


def reference_of(study: str) -> Path | None:
    """Return the newest reference of a study."""
    return max((one for one in references() if one.parent.name == study), default=None,
               key=lambda one: folders.order(one.name))  # fmt: skip


def is_reference(report: Path) -> bool:
    """Return whether a report is one that the repository ships."""
    return report.absolute() in references()


def with_reference(named: Sequence[Path]) -> list[Path]:
    """Return what to compare: a study's reference, and the report that is named or my newest.

    Parameters
    ----------
    named : reports; two or more are as they are

    Raises
    ------
    InputError
        If there is no report of mine, or no reference of its study.
    """
    if len(named) > 1:
        return list(named)
    report = named[0] if named else _my_newest()
    study = report.parent.name
    reference = reference_of(study)
    if reference is None or reference.absolute() == report.absolute():
        raise InputError(
            f"There is no reference of {study} to compare {report.name} with: a clone of innolab "
            "ships some. A comparison takes two reports of a study or more; name them: innolab "
            "compare REPORT REPORT"
        )
    return [reference, report]


def _my_newest() -> Path:
    mine = [report for name in studies.names() for report in folders.finished(name)
            if not is_reference(report)]  # fmt: skip
    if not mine:
        raise InputError(
            f"There is no report of yours in {folders.reports_folder()} yet. Make one (innolab run "
            "STUDY), or name two reports to compare: innolab compare REPORT REPORT"
        )
    return max(mine, key=lambda report: (manifest.read(report).get("sealed_at") or "", report))
