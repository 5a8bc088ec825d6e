"""Points found on a curve: where a planted knee is, and nothing where there is none."""

import pandas as pd
import pytest

from innolab.analysis import stats
from innolab.studies.more_memory import knees
from innolab.studies.more_memory.parameters import MemoryParameters
from innolab.studies.more_memory.study import STUDY


def _runs(plateau_from: float) -> pd.DataFrame:
    """Return runs of which throughput is 100 / (1 - x) below a plateau of 2000, and that beyond."""
    rows = []
    for block in (1, 2, 3):
        for arm in STUDY.arms(MemoryParameters(), "x"):
            x = arm.pool_ratio
            tps = 2000.0 if x >= plateau_from else min(2000.0, 100 / max(1 - x, 0.01))
            if arm.load == "read_only":
                rows.append({**vars(arm), "block": block, "tps": tps})
    return pd.DataFrame(rows)


def _found(runs: pd.DataFrame) -> dict[str, stats.Interval]:
    points = knees.points(runs, 2.6).query("device == 'raid10-8x15k'")
    return {str(name): stats.geometric_mean(list(of.value)) for name, of in points.groupby("point")}


def test_a_planted_knee_is_found() -> None:
    at = _found(_runs(1.0))
    assert 0.9 < at["A"].estimate <= 1.0
    assert at["slowdown"].estimate > 1.5
    assert at["C"].estimate == pytest.approx(2000 / 150)
    assert 0.8 < at["fall"].estimate < 1.0
    assert at["A"].n == 3


def test_a_curve_that_never_falls_so_far_has_no_such_point() -> None:
    at = _found(_runs(0.0))
    assert set(at) == {"C"}
    assert at["C"].estimate == pytest.approx(1)


def test_skewed_access_is_no_part_of_a_curve() -> None:
    runs = _runs(1.0)
    uniform = runs[runs.distribution == "uniform"]
    assert len(uniform) < len(runs)
    assert knees.points(runs, 2.6).equals(knees.points(uniform, 2.6))


def test_without_runs_there_is_no_point() -> None:
    assert knees.points(_runs(1.0).iloc[:0], 2.6).empty


@pytest.mark.parametrize(
    ("tps", "x"), [(100.0, None), (400.0, 1.0), (200.0, 0.75), (50.0, None), (500.0, None)]
)
def test_a_crossing_lies_on_the_line_of_logarithms(tps: float, x: float | None) -> None:
    assert knees.crossing({1.0: 400.0, 0.5: 100.0}, tps) == pytest.approx(x)


def test_a_dip_beyond_the_crossing_moves_it_past_the_dip() -> None:
    """From there on the curve must stay: a lucky low level is no plateau."""
    found = knees.crossing({0.4: 300.0, 0.6: 100.0, 0.8: 300.0}, 200.0)
    assert found is not None
    assert 0.6 < found < 0.8


def test_a_value_outside_the_measured_levels_is_none() -> None:
    assert knees.value({0.5: 100.0, 1.0: 400.0}, 1.1) is None
    assert knees.value({}, 0.5) is None
