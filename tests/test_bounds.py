"""What bounds each metric: a value that is edited alone is found, in records of every study.

The records in fixtures/evidence are of real smoke runs; see its README.
"""

import copy
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import reference

from innolab import studies
from innolab.analysis.bounds import Metric, Unbounded, formula
from innolab.record import runlog
from innolab.record.run import Run
from innolab.record.runlog import EVIDENCE, RunLog, SessionStart
from innolab.record.series_store import SeriesStore
from innolab.report import display
from innolab.studies.study import Study
from innolab.verify import series_and_variables

RECORDS = Path(__file__).parent / "fixtures" / "evidence"
FACTORS = (1.3, 1 / 1.3, 8.0)
Body = dict[str, Any]


def _bodies(study: str) -> list[Body]:
    """Return recorded runs; raid-comparison has windows as more-memory has, and needs a lab."""
    if study == "raid-comparison":
        bodies = _bodies("more-memory")
        return [_raid(body) for body in bodies if len(body["observations"]) == 1]
    lines = (RECORDS / study / runlog.FILE).read_text().splitlines()
    return [json.loads(line) for line in lines]


def _raid(body: Body) -> Body:
    """Return a run of another study's window as two windows of raid-comparison, one slower."""
    conditions = copy.deepcopy(body["conditions"])
    [row], rows = body["observations"], []
    for name in ("loads", "steady"):
        [of] = conditions[name]
        conditions[name] = [{**of, "within": {"threads": n}, "label": str(n)} for n in (10, 100)]
    # Windows of a smoke run have too few seconds to say how uneven they were.
    for load in conditions["loads"]:
        load["intervals"] = [{**load["intervals"][0], "tps": tps} for tps in (0.0, 90, 100, 110)]
    rows = [{"threads": n, **row, "unevenness": 0.1} for n in (10, 100)]
    calibration = conditions["device"]["calibration"]
    fio = {f"fio_{kind}": value for kind, value in calibration.items()}
    return {**body, "conditions": conditions, "observations": [*rows, {"kept_ratio": 1.0, **fio}]}


def _followed(
    folder: Path, study: str, body: Body, evidence: int = EVIDENCE, source: Path | None = None
) -> series_and_variables.Followed:
    """Return what verify says of a run, as the only one of a session of its own log."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    if source is None:
        source = RECORDS / ("more-memory" if study == "raid-comparison" else study)
    series = SeriesStore(source).read(Run.from_body(body))
    if series is not None:
        (folder / "series").mkdir()
        series.to_parquet(folder / body["series"], index=False)
    log = RunLog(folder / runlog.FILE)
    began: Body = {
        "began_at": "2026-11-26T00:00:00Z", "trials": 1, "blocks": 1, "plan_sha256": "0" * 64,
        "claims_sha256": "0" * 64, "innolab": body["conditions"]["innolab"],
    }  # fmt: skip
    log.begin(SessionStart.model_validate({**began, "evidence": evidence}))
    log.append(Run.from_body(body))
    return series_and_variables.metrics(study, folder)


def _cases() -> Iterator[tuple[str, str]]:
    for study in studies.names():
        for metric in studies.find(study).kind.metrics:
            yield study, metric


def _has(body: Body, metric: str) -> bool:
    return any(metric in row for row in body["observations"])


def _shipped(study: str, metric: str) -> Body:
    """Return a run of a shipped report that has a metric."""
    runs, _ = RunLog(reference(study) / runlog.FILE, studies.find(study).kind.upgrade).load()
    return next(run.body() for run in runs if _has(run.body(), metric))


def _multiplied(body: Body, metric: str, factor: float) -> Body:
    """Return a run with a metric of its arm multiplied, or set to 1 where it is 0 throughout."""
    changed = copy.deepcopy(body)
    rows = [row for row in changed["observations"] if metric in row]
    is_zero = not any(row[metric] for row in rows)
    for row in rows:
        row[metric] = 1.0 if is_zero else row[metric] * factor
    return changed


@pytest.mark.parametrize("study", studies.names())
def test_records_as_they_were_measured_hold(tmp_path: Path, study: str) -> None:
    for body in _bodies(study):
        found = _followed(tmp_path / "report", study, body)
        assert (found.faults, found.notes) == ([], []), body["factors"]


@pytest.mark.parametrize(("study", "metric"), list(_cases()))
def test_a_metric_that_is_edited_in_one_arm_is_found(
    tmp_path: Path, study: str, metric: str
) -> None:
    if isinstance(studies.find(study).kind.metrics[metric].evidence, Unbounded):
        return  # It is on the list, which the next test counts.
    records = [(body, EVIDENCE, None) for body in _bodies(study) if _has(body, metric)]
    # Processors that wait for a disk for long are in no record of a smoke run.
    for body, evidence, source in records or [(_shipped(study, metric), 1, reference(study))]:
        for factor in FACTORS:
            changed = _multiplied(body, metric, factor)
            found = _followed(tmp_path / "report", study, changed, evidence, source)
            assert any(metric in fault for fault in found.faults), (factor, body["factors"])


def test_at_most_five_metrics_of_all_studies_are_bound_by_nothing() -> None:
    unbound = [
        (study, metric)
        for study, metric in _cases()
        if isinstance(studies.find(study).kind.metrics[metric].evidence, Unbounded)
    ]
    assert len(unbound) <= 5, unbound


# What bounds a metric and nothing else: left out, the metric hangs in the air.
_EVIDENCE = {
    "access-paths": ["passes"],
    "multi-buffer-pool": ["passes"],
    "device-io": ["fio", "fio_logs"],
    "replication": ["witness", "fate", "tried", "beats"],
}


@pytest.mark.parametrize("study", _EVIDENCE)
def test_evidence_that_was_removed_is_found_and_of_an_older_innolab_noted(
    tmp_path: Path, study: str
) -> None:
    removed = set()
    for body in _bodies(study):
        for name in _EVIDENCE[study]:
            if name in body["conditions"]:
                removed.add(name)
                changed = copy.deepcopy(body)
                del changed["conditions"][name]
                found = _followed(tmp_path / "report", study, changed)
                assert any("nothing in its record bounds" in f for f in found.faults), name
                older = _followed(tmp_path / "report", study, changed, evidence=1)
                assert older.faults == []
                assert "An older innolab measured it" in " ".join(older.notes)
    assert removed == set(_EVIDENCE[study])


def _without(body: Body, change: Callable[[Body], object]) -> Body:
    changed = copy.deepcopy(body)
    change(changed["conditions"])
    return changed


def test_a_histogram_that_was_removed_or_shortened_is_found(tmp_path: Path) -> None:
    for change, says in (
        (lambda of: of["loads"][0].pop("histogram"), "nothing in its record bounds its p99_s"),
        (lambda of: of["loads"][0]["histogram"].pop(), "a histogram of"),
    ):
        body = _without(_bodies("more-memory")[0], change)
        found = _followed(tmp_path / "report", "more-memory", body)
        assert any(says in fault for fault in found.faults)


def test_a_resumed_run_says_which_of_its_metrics_nothing_bounds(tmp_path: Path) -> None:
    body = _bodies("compressed-insert")[0]
    body["conditions"]["pieces"] = {"resumed_at_rows": 10, "deleted_rows": 0}
    found = _followed(tmp_path / "report", "compressed-insert", body)
    assert found.faults == []
    [note] = found.notes
    assert "per_s" in note
    assert "zlib_ratio" not in note
    assert "resumed" in note


@pytest.mark.parametrize("metric", ["s", Metric("s", []), Metric("", [formula("x", max)])])
def test_a_study_is_not_declared_without_evidence_or_unit(study: Study, metric: Any) -> None:
    with pytest.raises(ValueError, match="the metric seconds"):
        replace(study.kind, metrics={**study.kind.metrics, "seconds": metric})


def test_the_page_lists_what_nothing_bounds() -> None:
    mood = Metric("1", Unbounded("It is the author's own estimate"))
    began: Any = SimpleNamespace(evidence=EVIDENCE)
    assert display.unbound(studies.find("device-io").kind.metrics, [began]) == []
    [says] = display.unbound({"mood": mood}, [began])
    assert says == "Nothing in a record bounds mood: It is the author's own estimate."
    for older in (None, SimpleNamespace(evidence=1)):
        [says] = display.unbound({}, [began, older])
        assert "An older innolab measured it" in says
