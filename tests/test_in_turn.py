"""Scans of two servers in turn: what their record bounds, and servers that are not alike."""

from typing import Any

import pytest
from conftest import made_run, planned

from innolab.analysis.bounds import Record
from innolab.analysis.doubts import Sample
from innolab.record.run import Run
from innolab.record.runs import RunSet
from innolab.studies.multi_buffer_pool import in_turn
from innolab.studies.study import Study

_SCANS = [("own", 0.0, 2.0), ("other", 2.1, 3.1), ("other", 3.2, 4.2), ("own", 4.3, 6.3)]


def _run(study: Study, scans: list[tuple[str, float, float]], took_s: float = 7.0) -> Run:
    trial = next(
        t for t in planned(study, ["b"], in_turn=True) if t.factors["beside"] == "2G in one"
    )
    noted = [{"side": s, "from_s": a, "to_s": b, "cpu_s": b - a} for s, a, b in scans]
    conditions = {"scans_in_turn": noted, "time_s": {"measured passes": took_s}}
    run = made_run(study, trial, observations=[])
    return run.model_copy(update={"conditions": {**run.conditions, **conditions}})


def _bounds(study: Study, run: Run) -> dict[tuple[str, str], float]:
    found = in_turn.evidence(Record(run, None, study.kind.within))
    return {(bound.within["side"], bound.metric): (bound.low + bound.high) / 2 for bound in found}


def test_what_a_side_took_follows_from_its_scans(study: Study) -> None:
    assert _bounds(study, _run(study, _SCANS)) == pytest.approx(
        {
            ("own", "turn_seconds"): 2,
            ("own", "cpu_s"): 2,
            ("other", "turn_seconds"): 1,
            ("other", "cpu_s"): 1,
        }
    )


@pytest.mark.parametrize(
    ("scans", "took_s", "says"),
    [([("own", 0.0, 2.0), ("other", 1.9, 3.0)], 7.0, "overlap"), (_SCANS, 6.0, "longer")],
)
def test_scans_at_the_same_time_or_longer_than_the_stage_are_refused(
    study: Study, scans: list[tuple[str, float, float]], took_s: float, says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        _bounds(study, _run(study, scans, took_s))


@pytest.mark.parametrize(
    ("ratios", "is_doubted"),
    [((1.10, 1.11, 1.12), True), ((1.01, 1.02, 1.015), False), ((0.8, 1.1, 1.2), False)],
)
def test_servers_on_which_one_arm_differs_from_itself_decide_nothing(
    study: Study, ratios: tuple[float, ...], is_doubted: bool
) -> None:
    pairs = [t for t in planned(study, ["b"], in_turn=True) if t.factors["beside"] == "2G in one"]
    same = [t for t in pairs if t.factors["instances"] == 1 and not t.twin][: len(ratios)]
    runs = [made_run(study, trial, observations=_sides(ratio))
            for trial, ratio in zip(same, ratios, strict=True)]  # fmt: skip
    [claim] = [claim for claim in study.claims() if claim.id == "F1-turns-8v1"]
    doubted = in_turn.unlike_itself(Sample(claim, RunSet(runs, {}, study.kind.within)))
    assert (doubted is not None) is is_doubted


def _sides(ratio: float) -> list[dict[str, Any]]:
    return [{"side": "own", "turn_seconds": ratio}, {"side": "other", "turn_seconds": 1.0}]
