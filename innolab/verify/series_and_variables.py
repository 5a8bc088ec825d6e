"""The files that go with the runs of a report: their series, and the variables of their servers."""

import functools
import hashlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from innolab import studies
from innolab.analysis.bounds import Record
from innolab.mysql.builds import TOOLS
from innolab.record import runlog, series_store
from innolab.record.run import Run
from innolab.record.runlog import RunLog
from innolab.record.runs import VARIABLES_DIGITS, RunSet
from innolab.record.series_store import SeriesStore
from innolab.studies.study import Study
from innolab.verify import followed_metrics
from innolab.verify.session import guarded

_OLDER = "An older innolab measured it, which did not keep what bounds them"


def faults(runs: RunSet, report: Path) -> list[str]:
    """Return series and variables that are missing, of no run, or not what their names say."""
    store = SeriesStore(report)
    if found := store.faults():
        return found
    names = store.names
    for run in runs.runs:
        if run.series is None:
            # A series is of a server's process.
            has_server = run.conditions.get("build", {}).get("origin") not in TOOLS
            if run.status == "complete" and has_server:
                found.append(f"{runlog.FILE}: trial {run.trial} has no series")
        elif run.series != series_store.path_of(run.trial) or run.series not in names:
            found.append(f"{run.series}: it is not the series of trial {run.trial}, or is missing")
    expected = {run.series for run in runs.runs}
    expected |= {
        f"variables/{digest}.json"
        for run in runs.runs
        if (digest := run.conditions.get("variables"))
    }
    present = names | {str(path.relative_to(report)) for path in (report / "variables").rglob("*")}
    found += [f"{name}: no run has it" for name in sorted(present - expected)]
    return found + [
        f"variables/{name}.json: its name is not the digest of what it holds"
        for name in runs.variables
        if _digest(report / "variables" / f"{name}.json") != name
    ]


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:VARIABLES_DIGITS]


class Followed(NamedTuple):
    """What a report's records say of its metrics: faults, and what a reader should know."""

    faults: list[str]
    notes: list[str]


def metrics(study_name: str, report: Path) -> Followed:
    """Return what of a report's series cannot be, and metrics that do not follow from its records.

    That nothing bounds a metric is a fault of a run whose session kept evidence, and else a note.
    """
    study, store = studies.find(study_name), SeriesStore(report)
    faults: list[str] = []
    unbound: dict[str, set[str]] = {}

    def follow(run: Run, evidence: int) -> list[str]:
        record = Record(run, store.read(run), set(study.kind.within))
        found = followed_metrics.followed(record, study.kind.metrics)
        lost = [metric for metric, why in found.unbound.items() if not why]
        is_newer = evidence >= runlog.EVIDENCE
        for metric, why in found.unbound.items():
            if why or not is_newer:
                unbound.setdefault(why or _OLDER, set()).add(metric)
        return found.faults + [
            f"{runlog.FILE}: trial {run.trial}: nothing in its record bounds its {metric}, and its "
            "session kept evidence of all metrics"
            for metric in lost
            if is_newer
        ]

    entries, _ = RunLog(report / runlog.FILE, study.kind.upgrade).entries()
    for session, runs in runlog.by_session(entries):
        evidence = session.evidence if session else 1
        for run in (run for run in runs if run.status == "complete"):
            check = functools.partial(follow, run, evidence)
            faults += guarded(check, f"trial {run.trial} of {runlog.FILE}")
    return Followed(faults, unbound_notes(unbound, study))


def unbound_notes(unbound: Mapping[str, Collection[str]], study: Study) -> list[str]:
    """Return which metrics of a report nothing bounds, by the reasons, each as a sentence."""
    return [
        "Not bound in this report, so that edited values would not be found: "
        f"{', '.join(name for name in study.kind.metrics if name in names)}. {why}."
        for why, names in unbound.items()
    ]
