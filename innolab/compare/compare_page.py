"""The page that sets two reports side by side."""

import math
from pathlib import Path
from typing import Any

from innolab.base.units import number
from innolab.compare import overlay
from innolab.compare.compare import Pair, ReportComparison
from innolab.compare.report_differences import Difference
from innolab.report import figures, folders, pages, render

_MOST_NAMED = 12


def write(found: ReportComparison) -> Path:
    """Write the page of a comparison, with its figures, and return its path.

    It lies below the second report's study in the reports' folder. One that is there is replaced:
    it follows from two sealed reports.

    Raises
    ------
    InputError
        Where the reports' folder cannot be written.
    """
    folder = folders.comparison(found.study.name, found.first.name, found.second.name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        drawn = _forests(found, folder)
        by_second = overlay.draw(found, folder)
    except OSError as error:
        raise pages.cannot_write(folder, error) from None
    return pages.write(
        folder / render.PAGE_FILE,
        "compare.html.j2",
        title=found.study.title,
        first=found.first.name,
        second=found.second.name,
        links=_links(found, folder),
        summary=found.summary,
        differences=_differences(found),
        changed=[
            _row(pair) | {"id": _id(pair), "explained": explained(found, pair)}
            for pair in found.changed
        ],
        same=[_row(pair) for pair in found.pairs if pair.same],
        ratios=[(row, _interval(row.ratio._asdict())) for row in found.ratios],
        figures=drawn,
        overlaid=by_second,
    )


def _links(found: ReportComparison, folder: Path) -> list[str]:
    """Return the addresses of both pages as seen from the comparison's, empty where it has none."""
    study = folder.parent.parent
    return [
        f"../../{report.name}/{render.PAGE_FILE}" if report.parent == study else ""
        for report in (found.first, found.second)
    ]


def _differences(found: ReportComparison) -> list[dict[str, Any]]:
    """Return a row a difference with the claims that it touches: the most specific kind first.

    Of one kind, that which touches the most changed verdicts. One of all arms names none of them.
    """
    touched: dict[Difference, list[Pair]] = {one: [] for one in found.differences}
    for pair in found.pairs:
        for one in found.touching(pair):
            touched[one].append(pair)
    rows = [
        {
            "of": one,
            "is_general": one.server is None,
            "changed": [_row(pair) | {"id": _id(pair)} for pair in pairs if not pair.same],
            "kept": _named([pair for pair in pairs if pair.same]) if one.arms else "",
        }
        for one, pairs in touched.items()
    ]
    kinds = list(dict.fromkeys(one.kind for one in found.differences))
    return sorted(rows, key=lambda row: (kinds.index(row["of"].kind), -len(row["changed"])))


def _named(pairs: list[Pair]) -> str:
    """Return claims in words, the first of many."""
    names = list(dict.fromkeys(pair.claim for pair in pairs))
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def _id(pair: Pair) -> str:
    return f"changed-{pair.claim}-{pair.server}".replace("/", "-").replace(" ", "-")


def explained(found: ReportComparison, pair: Pair) -> str:
    """Return what may explain a changed verdict, noise among it."""
    names = [f"{one.kind} {one.name}" for one in found.touching(pair)]
    said = f"May be explained by: {', '.join(names)}. " if names else ""
    if pair.overlap:
        return f"{said}The intervals overlap: it may be noise alone."
    if pair.overlap is None:
        return f"{said}One of the two has no interval."
    return f"{said}The intervals lie apart, which noise alone seldom does."


def _row(pair: Pair) -> dict[str, Any]:
    return {
        "claim": pair.claim,
        "server": pair.server,
        "says": (pair.second or pair.first)["says"],
        "verdicts": pair.verdicts,
        "intervals": [_interval(verdict) for verdict in (pair.first, pair.second)],
        "reasons": [verdict.get("reason", "") for verdict in (pair.first, pair.second)],
        "turned": pair.turned,
    }


def _interval(of: Any) -> str:
    """Return estimate and interval as people read them, as far as they are known."""
    known = [of.get(name) for name in ("estimate", "low", "high")]
    if known[0] is None:
        return ""
    if any(value is None or not math.isfinite(value) for value in known[1:]):
        return number(known[0])
    return f"{number(known[0])} ({number(known[1])} to {number(known[2])})"


def _forests(found: ReportComparison, folder: Path) -> list[figures.Figure]:
    """Return a figure for each server: every ratio that both judged, with both intervals."""
    import pandas as pd

    rows = [
        {"server": pair.server, "claim": pair.claim, "report": report.name,
         **{name: verdict[name] for name in ("estimate", "low", "high", "published")}}
        for pair in found.pairs
        for report, verdict in ((found.first, pair.first), (found.second, pair.second))
        if _is_drawn(pair)
    ]  # fmt: skip
    frame = pd.DataFrame(rows)
    drawn = []
    for server, of in frame.groupby("server", sort=False) if rows else ():
        name = figures.file_name(f"verdicts-{server}")
        shown = of.drop(columns="server")
        said = f"{server}: what both reports found of each claim, with their intervals."
        changed = ", ".join(p.claim for p in found.changed if p.server == server) or "none"
        drawn.append(
            figures.publish(
                figures.forest(shown, "report"), name, shown, folder=folder,
                caption=said, alt=f"{said} Verdicts that changed: {changed}.",
            )
        )  # fmt: skip
    return drawn


def _is_drawn(pair: Pair) -> bool:
    """Return whether both have an interval that a logarithmic axis can show."""
    ends = [
        of.get(name) for of in (pair.first, pair.second) for name in ("estimate", "low", "high")
    ]
    return all(value is not None and math.isfinite(value) and value > 0 for value in ends)
