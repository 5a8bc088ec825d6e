"""Write what the shipped reports say: run it after a change that is meant to change it."""

import csv
import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
REPORTS = HERE.parents[1] / "reports"
VERDICTS, FIGURES = HERE / "verdicts.csv", HERE / "figures.csv"
# What a verdict decides, and by which numbers; its sentences may be written better.
_KEYS = [
    "claim", "server", "verdict", "published", "estimate", "low", "high", "level", "n", "looks",
    "power", "blocks_needed",
]  # fmt: skip


def sealed() -> list[Path]:
    """Return the shipped reports of studies."""
    return sorted(path.parent for path in REPORTS.glob("*/*/manifest.json"))


def runs_of(report: Path) -> str:
    """Return what names a report's runs, in whichever version they are shown."""
    runs = hashlib.sha256((report / "runs.jsonl").read_bytes()).hexdigest()
    return f"{report.parent.name} {runs[:8]}"


def verdict_rows(report: Path, verdicts: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return a report's verdicts as rows of text, as a CSV file gives them back."""
    texts = [
        {key: "" if one[key] is None else repr(one[key]).strip("'") for key in _KEYS}
        for one in verdicts
    ]
    return [{"runs": runs_of(report), **text} for text in texts]


def figure_rows(report: Path, figures: Path) -> list[dict[str, str]]:
    """Return the digest of every table of plotted values in a folder."""
    return [
        {"runs": runs_of(report), "figure": path.stem, "sha256": _digest(path)}
        for path in sorted(figures.glob("*.csv"))
    ]


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read(path: Path, report: Path) -> list[dict[str, str]]:
    """Return the rows that a golden file has of a report's runs."""
    with path.open(newline="") as file:
        return [row for row in csv.DictReader(file) if row["runs"] == runs_of(report)]


def _write(path: Path, rows: list[dict[str, str]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    """Write both files from the reports as they are."""
    verdicts, figures = [], []
    for report in sealed():
        verdicts += verdict_rows(report, json.loads((report / "verdicts.json").read_text()))
        figures += figure_rows(report, report / "figures")
    _write(VERDICTS, verdicts)
    _write(FIGURES, figures)


if __name__ == "__main__":
    main()
