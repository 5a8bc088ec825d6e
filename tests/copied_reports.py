"""Copies of a recorded report as of other days and hosts, changed and sealed again."""

import datetime
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conftest import reference

from innolab import studies
from innolab.analysis import claim_files
from innolab.report import folders, manifest

STUDY = "multi-buffer-pool"
Body = dict[str, Any]


def reseal(report: Path) -> None:
    """Seal a changed report as its author would have."""
    path = report / folders.MANIFEST_FILE
    body = json.loads(path.read_text())
    body["files"] = manifest.digests(report)
    body["seal"] = manifest.seal_of(body)
    path.write_text(json.dumps(body))


def copied(place: Path, version: str, days: int, source: Path | None = None) -> Path:
    """A copy of a recorded report below a place, measured some days later."""
    report = place / STUDY / version
    shutil.copytree(source or reference(STUDY), report, ignore=shutil.ignore_patterns("figures"))
    moved = datetime.timedelta(days=days)

    def later(run: Body) -> None:
        for name in ("started_at", "ended_at"):
            at = datetime.datetime.fromisoformat(run[name]) + moved
            run[name] = at.isoformat(timespec="milliseconds")

    change_runs(report, later)
    return report


def change_runs(report: Path, change: Callable[[Body], None]) -> None:
    """Change every run of a report, and seal it again."""
    lines = [json.loads(line) for line in (report / "runs.jsonl").read_text().splitlines()]
    for line in lines:
        if "factors" in line:
            change(line)
    (report / "runs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    reseal(report)


def change(report: Path, file: str, change: Callable[[Any], None]) -> None:
    """Change what a JSON file of a report holds, and seal it again."""
    body = json.loads((report / file).read_text())
    change(body)
    (report / file).write_text(json.dumps(body))
    if file == "verdicts.json":  # As of today's claims: others would be judged again.
        manifest_file = report / folders.MANIFEST_FILE
        sealed = json.loads(manifest_file.read_text())
        sealed["claims_sha256"] = claim_files.sha256(studies.find(STUDY).papers.claims)
        manifest_file.write_text(json.dumps(sealed))
    reseal(report)
