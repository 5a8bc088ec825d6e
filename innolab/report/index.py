"""The page that leads to all reports: for each study its question and how its claims came out."""

import contextlib
import csv
import re
import urllib.parse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from innolab import studies
from innolab.base import parsing
from innolab.base.errors import InnolabError
from innolab.report import answer, first_screen, folders, manifest, pages, render, shipped
from innolab.studies.study import Study

# Reports that were kept here once: study, version, the last commit that holds it, and why it went.
EARLIER_FILE = "earlier.csv"
_FIRST_FIGURE = re.compile(r'<figure id="([\w-]+)"')


def write() -> Path:
    """Write reports/index.html and return its path.

    Raises
    ------
    InputError
        Where the reports' folder cannot be written.
    """
    troubles: list[str] = []
    listed = [_study(name, troubles) for name in studies.names()]
    # Those that have no report yet come last.
    listed.sort(key=lambda study: not study["reports"])
    path = folders.reports_folder() / "index.html"
    tables = [_table(folder, troubles) for of in folders.tables().values() for folder in of[::-1]]
    return pages.write(
        path, "index.html.j2", studies=listed, troubles=troubles,
        tables=[one for one in tables if one],
    )  # fmt: skip


def newest_answer(study: Study, reports: Sequence[Path]) -> str | None:
    """Return what the newest of some reports answers; None if it is damaged or answers nothing."""
    with contextlib.suppress(InnolabError, OSError, ValueError, KeyError, IndexError):
        return " ".join(answer.sentences(study, render.read_verdicts(reports[-1]))) or None
    return None


def _table(folder: Path, troubles: list[str]) -> dict[str, Any]:
    """Return what is listed of a judged table; nothing, and what is wrong, where it is damaged."""
    name = f"{folder.parent.name}/{folder.name}"
    try:
        body = manifest.read(folder)
        return {
            "link": _address(folder / render.PAGE_FILE),
            "title": body["title"],
            "version": folder.name,
            "runs": body["runs"]["rows"],
            "counts": first_screen.counts(render.read_verdicts(folder)),
        }
    except (InnolabError, OSError, ValueError, KeyError) as error:
        troubles.append(f"{name}: {error}")
        return {}


def _study(name: str, troubles: list[str]) -> dict[str, Any]:
    """Return what is listed of a study, newest report first, and add what is wrong with others."""
    study = studies.find(name)
    reports = []
    for folder in reversed(folders.finished(name)):
        try:
            reports.append(_report(study, folder))
        except (InnolabError, OSError, ValueError, KeyError) as error:
            troubles.append(f"{name}/{folder.name}: {error}")
    troubles += [f"{name}: {folder.name} was begun" for folder in folders.unfinished(name)]
    return {
        "name": name,
        "title": study.title,
        "question": study.question,
        "reports": reports,
        "picture": reports[0]["picture"] if reports else None,
        "comparisons": [_comparison(page) for page in folders.comparisons(name)],
        "earlier": _earlier(name),
    }


def _earlier(name: str) -> list[dict[str, str]]:
    """Return the reports of a study that only the history of the repository still holds."""
    listed = folders.reports_folder() / EARLIER_FILE
    if not listed.is_file():
        return []
    with listed.open(newline="") as file:
        return [row for row in csv.DictReader(file) if row["study"] == name]


def _report(study: Study, folder: Path) -> dict[str, Any]:
    body = manifest.read(folder)
    runs, verdicts = body["runs"], render.read_verdicts(folder)
    return {
        "link": _address(folder / render.PAGE_FILE),
        "version": folder.name,
        "is_reference": shipped.is_reference(folder),
        "scale": body["scale"],
        "effort": body["parameters"].get("effort") or "",
        "runs": f"{runs['valid']} valid of {runs['complete'] + runs['failed']}",
        "counts": first_screen.counts(verdicts),
        "answer": " ".join(answer.sentences(study, verdicts)),
        "picture": _picture(folder),
    }


def _picture(folder: Path) -> str | None:
    """Return the address of a report's main figure, the first on its page."""
    found = _FIRST_FIGURE.search(parsing.read_text(folder / render.PAGE_FILE))
    picture = folder / "figures" / f"{found[1]}.png" if found else None
    return _address(picture) if picture and picture.exists() else None


def _comparison(page: Path) -> dict[str, str]:
    """Return the link to a page of two reports, named by both, or of more, named by a digest."""
    counted, _, digest = page.parent.name.partition("-reports-")
    name = f"{counted} reports ({digest})" if digest else " and ".join(counted.split("_"))
    return {"link": _address(page), "name": name}


def _address(path: Path) -> str:
    """Return the address of a file as seen from the page, whatever its folders are named."""
    return urllib.parse.quote(path.relative_to(folders.reports_folder()).as_posix())
