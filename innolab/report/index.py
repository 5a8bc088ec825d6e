"""The page that lists all reports, and those that were not finished."""

from collections import Counter
from pathlib import Path
from typing import Any

from innolab import studies
from innolab.base.errors import InnolabError
from innolab.report import folders, manifest, pages, render


def write() -> Path:
    """Write reports/index.html and return its path.

    Raises
    ------
    InputError
        Where the reports' folder cannot be written.
    """
    rows, troubles, comparisons = [], [], []
    for name in studies.names():
        comparisons += [_comparison(name, page) for page in folders.comparisons(name)]
        for folder in folders.finished(name):
            try:
                rows.append(_row(name, folder))
            except (InnolabError, OSError, ValueError, KeyError) as error:
                troubles.append(f"{name}/{folder.name}: {error}")
        troubles += [f"{name}: {folder.name} was begun" for folder in folders.unfinished(name)]
    path = folders.reports_folder() / "index.html"
    listed = {"reports": rows[::-1], "comparisons": comparisons, "troubles": troubles}
    return pages.write(path, "index.html.j2", **listed)


def _row(name: str, folder: Path) -> dict[str, Any]:
    body = manifest.read(folder)
    found = render.read_verdicts(folder)
    counts = Counter(v["verdict"] for v in found)
    runs = body["runs"]
    return {
        "title": studies.find(name).title,
        "link": f"{name}/{folder.name}/{render.PAGE_FILE}",
        "version": folder.name,
        "scale": body["scale"],
        "effort": body["parameters"].get("effort") or "",
        "servers": ", ".join(body["builds"]),
        "runs": f"{runs['valid']} valid of {runs['complete'] + runs['failed']}",
        "verdicts": ", ".join(f"{n} {verdict}" for verdict, n in sorted(counts.items())),
    }


def _comparison(name: str, page: Path) -> dict[str, str]:
    return {
        "title": studies.find(name).title,
        "link": page.relative_to(folders.reports_folder()).as_posix(),
        "name": " and ".join(page.parent.name.split("_")),
    }
