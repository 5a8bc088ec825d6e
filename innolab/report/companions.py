"""The files that go with the runs of a report: their series, and the variables of their servers."""

import functools
import hashlib
from pathlib import Path

from innolab import studies
from innolab.analysis import consistency
from innolab.mysql.builds import TOOLS
from innolab.record import runlog
from innolab.record.run import Run
from innolab.record.runlog import RunLog
from innolab.record.runs import VARIABLES_DIGITS, RunSet
from innolab.report import series_form


def faults(runs: RunSet, report: Path) -> list[str]:
    """Return series and variables that are missing, of no run, or not what their names say."""
    found = []
    for run in runs.runs:
        if run.series is None:
            # A series is of a server's process.
            has_server = run.conditions.get("build", {}).get("origin") not in TOOLS
            if run.status == "complete" and has_server:
                found.append(f"{runlog.FILE}: trial {run.trial} has no series")
        elif run.series != f"series/{run.trial:04d}.parquet" or not (report / run.series).is_file():
            found.append(f"{run.series}: it is not the series of trial {run.trial}, or is missing")
        elif why := series_form.fault(report / run.series):
            found.append(f"{run.series}: {why}")
    expected = {run.series for run in runs.runs}
    expected |= {
        f"variables/{digest}.json"
        for run in runs.runs
        if (digest := run.conditions.get("variables"))
    }
    present = {
        str(path.relative_to(report))
        for name in ("series", "variables")
        for path in (report / name).rglob("*")
    }
    found += [f"{name}: no run has it" for name in sorted(present - expected)]
    return found + [
        f"variables/{name}.json: its name is not the digest of what it holds"
        for name in runs.variables
        if _digest(report / "variables" / f"{name}.json") != name
    ]


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:VARIABLES_DIGITS]


def series_faults(study_name: str, report: Path) -> list[str]:
    """Return what of a report's series cannot be, and metrics that do not follow from them."""
    import pandas as pd

    study = studies.find(study_name)

    def follow(run: Run) -> list[str]:
        frame = pd.read_parquet(report / str(run.series))
        return consistency.metrics(run, frame, lambda: study.evidence(run, frame))

    return [
        fault
        for run in RunLog(report / runlog.FILE, study.upgrade).load()[0]
        # A series that is missing is found by `faults`.
        if run.status == "complete" and run.series
        for fault in consistency.guarded(
            functools.partial(follow, run), f"{run.series} of {runlog.FILE}"
        )
    ]
