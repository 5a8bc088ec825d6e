"""The explorer: single runs as points, those that are not valid marked; its choices."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import made_run, made_variables, planned, reference
from matplotlib.collections import PathCollection

import innolab
from innolab.base.errors import InputError
from innolab.record.run import CheckResult
from innolab.record.runs import RunSet
from innolab.report import explorer, points
from innolab.report.points import PointQuantity, View
from innolab.studies.study import Study

_SECONDS = PointQuantity("seconds", ("pass",))
_ORDERS = {"pool": ["128M", "256M", "2G"]}


@pytest.fixture(scope="module")
def runs(study: Study) -> RunSet:
    """Two blocks without servers; the second run is not valid, the third failed."""
    trials = planned(study, ["old", "new"], scale="quick", replicates=2, devices=["host"])
    made = [made_run(study, trial) for trial in trials]
    bad = CheckResult(check="steal", result="invalid", says="half of the time was stolen")
    made[1] = made[1].model_copy(update={"checks": [bad]})
    made[2] = made[2].model_copy(
        update={"observations": [], "status": "failed", "error": "the server died"}
    )
    return RunSet(made, {"0123456789abcdef": made_variables()}, study.kind.within)


def _offsets(drawing: points.DrawnPoints) -> dict[str, int]:
    [axis] = drawing.picture.axes
    groups = [c for c in axis.collections if isinstance(c, PathCollection)]
    return {str(group.get_gid()): len(group.get_offsets()) for group in groups}


def _view(**changes: object) -> View:
    return View(x="pool", metric="seconds", unit="s", colour="server")._replace(**changes)


def test_a_metric_is_offered_for_each_kind_of_observation(runs: RunSet, study: Study) -> None:
    found = [str(one) for one in points.quantities(runs, list(study.kind.metrics))]
    assert "seconds by pass" in found
    assert "pool_kept_ratio" in found
    assert "instance_pages_read by instance, pass" in [
        re.sub("pass, instance", "instance, pass", name) for name in found
    ]


def test_each_run_is_a_point_and_what_is_not_valid_says_why(runs: RunSet) -> None:
    frame = points.points(runs, _SECONDS)
    with_values = [run for run in runs.runs if any("seconds" in row for row in run.observations)]
    assert set(frame.trial) == {run.trial for run in with_values}
    assert runs.runs[2].trial not in set(frame.trial), "a failed run has no values"
    bad = frame[~frame.valid]
    assert set(bad.trial) <= {runs.runs[1].trial}
    assert len(bad) == sum("seconds" in row for row in runs.runs[1].observations)
    assert bad["why not valid"].str.contains("half of the time was stolen").all()
    assert (frame[frame.valid]["why not valid"] == "").all()


def test_dots_are_valid_runs_and_crosses_are_not(runs: RunSet) -> None:
    frame = points.points(runs, _SECONDS)
    offsets = _offsets(points.drawn(frame, _view(), _ORDERS))
    assert sum(offsets.values()) == len(frame)
    crosses = sum(number for group, number in offsets.items() if group.endswith("-x"))
    assert crosses == (~frame.valid).sum() > 0
    assert f"{len(frame)} points of" in points.counted(frame)
    assert "1 of them not valid" in points.counted(frame)


def test_names_stand_in_the_order_of_the_study_and_numbers_where_they_are(runs: RunSet) -> None:
    frame = points.points(runs, _SECONDS)
    [axis] = points.drawn(frame, _view(), _ORDERS).picture.axes
    assert [tick.get_text() for tick in axis.get_xticklabels()] == ["128M", "256M", "2G"]
    [axis] = points.drawn(frame, _view(x="instances", log_x=True), _ORDERS).picture.axes
    assert axis.get_xscale() == "log"
    places = {float(x) for group in axis.collections for x in group.get_offsets()[:, 0]}
    assert places == {1.0, 8.0}


def test_a_logarithmic_axis_leaves_out_what_it_cannot_have_and_says_so(runs: RunSet) -> None:
    frame = points.points(runs, PointQuantity("pages_read", ("pass",)))
    none_read = int((frame.pages_read == 0).sum())
    assert none_read
    drawing = points.drawn(frame, _view(metric="pages_read", unit="pages", log_y=True))
    [axis] = drawing.picture.axes
    assert axis.get_yscale() == "log"
    assert axis.get_title().startswith(f"{none_read} points at or below 0")
    assert sum(_offsets(drawing).values()) == len(frame) - none_read


def test_an_axis_of_names_is_never_logarithmic(runs: RunSet) -> None:
    frame = points.points(runs, _SECONDS)
    [axis] = points.drawn(frame, _view(log_x=True)).picture.axes
    assert axis.get_xscale() == "linear"


def test_the_picture_says_of_each_point_what_it_is(runs: RunSet) -> None:
    frame = points.points(runs, _SECONDS)
    shown = [points.as_html(points.drawn(frame, _view()), frame, _view()) for _ in range(2)]
    assert shown[0] == shown[1], "the same runs give the same picture"
    titles = re.findall("<title>(.*?)</title>", shown[0])
    assert len(titles) == len(frame)
    assert sum("half of the time was stolen" in title for title in titles) == (~frame.valid).sum()
    assert 'aria-label="seconds (s) over pool, coloured by server: ' in shown[0]


def test_what_a_run_recorded_stays_text(study: Study, runs: RunSet) -> None:
    bad = CheckResult(check="steal", result="invalid", says="<script>alert(1)</script>")
    one = next(run for run in runs.runs if any("seconds" in row for row in run.observations))
    strange = RunSet([one.model_copy(update={"checks": [bad]})], runs.variables, study.kind.within)
    frame = points.points(strange, _SECONDS)
    view = _view(x="block", colour=None)
    text = points.as_html(points.drawn(frame, view), frame, view) + points.table(frame, view)
    assert "<script" not in text
    assert text.count("&lt;script&gt;") > len(frame)


def test_the_table_beside_has_the_points_in_the_order_of_x(runs: RunSet) -> None:
    frame = points.points(runs, _SECONDS)
    text = points.table(frame, _view(x="instances", colour=None))
    head = re.findall("<th>(.*?)</th>", text)
    assert head[0] == "instances"
    assert head[-1] == "why not valid"
    column = [row[0] for row in re.findall("<tr>\\s*<td>(.*?)</td>", text) if row]
    assert len(column) == len(frame)
    assert column == sorted(column)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The reports' folder with the newest reports of two studies."""
    place = tmp_path_factory.mktemp("reports")
    for name in ("multi-buffer-pool", "replication"):
        source = reference(name)
        shutil.copytree(source, place / name / source.name)
    before = os.environ.get("INNOLAB_REPORTS")
    os.environ["INNOLAB_REPORTS"] = str(place)
    yield place
    if before is None:
        del os.environ["INNOLAB_REPORTS"]
    else:
        os.environ["INNOLAB_REPORTS"] = before


def _explorer(place: Path, study: str) -> explorer.Explorer:
    known = {of.name: explorer._reports(of.name) for of in sorted(place.iterdir())}
    return explorer.Explorer(known, study)


def test_a_choice_changes_picture_and_table(recorded: Path) -> None:
    shown = _explorer(recorded, "multi-buffer-pool")
    assert list(shown.study.options) == ["multi-buffer-pool", "replication"]
    assert shown.metric.label == "seconds by pass"
    first = shown.picture.value, shown.table.value
    assert 'aria-label="seconds (s) over' in first[0]
    shown.metric.label = "cpu_s by pass"
    assert 'aria-label="cpu_s (s) over' in shown.picture.value
    assert shown.table.value != first[1]
    shown.log_y.value = True
    logarithmic = shown.picture.value
    shown.log_y.value = False
    assert shown.picture.value != logarithmic
    shown.x.value, shown.colour.value = "instances", "pool"
    assert "over instances, coloured by pool" in shown.picture.value
    assert not shown.log_x.disabled
    shown.x.value = "pool"
    assert shown.log_x.disabled
    shown.metric.label = "seconds by pass"
    assert (shown.x.value, shown.colour.value) == ("pool", "pool"), "what fits stays chosen"


def test_another_study_brings_its_own_reports_and_metrics(recorded: Path) -> None:
    shown = _explorer(recorded, "multi-buffer-pool")
    shown.study.value = "replication"
    assert list(shown.report.options) == [reference("replication").name]
    assert "seconds by pass" not in [label for label, _ in shown.metric.options]
    assert "points of" in shown.says.value
    assert shown.picture.value.startswith("<svg")


def test_every_metric_of_every_report_can_be_shown(recorded: Path) -> None:
    for study in ("multi-buffer-pool", "replication"):
        shown = _explorer(recorded, study)
        for label, _ in shown.metric.options:
            shown.metric.label = label
            assert shown.metric.value.metric in shown.picture.value


def test_a_damaged_report_is_said_to_be_one(recorded: Path, tmp_path: Path) -> None:
    copy = tmp_path / "multi-buffer-pool" / "2026-01-31-1"
    shutil.copytree(reference("multi-buffer-pool"), copy)
    log = copy / "runs.jsonl"
    log.write_text("{\n" + log.read_text())
    shown = explorer.Explorer({"multi-buffer-pool": {copy.name: copy}}, "multi-buffer-pool")
    assert "Line 1 of" in shown.says.value
    assert shown.picture.value == ""


def test_it_begins_as_asked_and_refuses_what_is_not_there(recorded: Path, tmp_path: Path) -> None:
    assert innolab.explore is explorer.explore
    box = innolab.explore("replication", reference("replication").name)
    assert box.children[0].children[0].value == "replication"
    with pytest.raises(InputError, match="No report of 'device-io' is recorded"):
        innolab.explore("device-io")
    with pytest.raises(InputError, match="There is no report '2000-01-01-1'"):
        innolab.explore("replication", "2000-01-01-1")


def test_without_a_report_it_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INNOLAB_REPORTS", str(tmp_path))
    with pytest.raises(InputError, match="Measure a study first"):
        innolab.explore()
