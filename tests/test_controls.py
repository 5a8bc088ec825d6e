"""Each control passes a sound report and finds the one fault that it is there to find."""

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from conftest import made_conditions, made_observations, made_run, planned

from innolab.analysis import checks, controls
from innolab.record.run import Factors, Run
from innolab.record.runs import RunSet
from innolab.studies.experiment import Experiment, Trial
from innolab.studies.study import Study
from innolab.verify import settings_and_builds, times_and_hosts

_METRICS = {"seconds": ("pass",)}
Probes = Callable[[int], dict[str, float]]


def _even(trial: int) -> dict[str, float]:
    """Return probes that differ by some hundredths, as those of an idle machine."""
    chance = random.Random(trial)
    return {
        name: value * math.exp(chance.gauss(0, 0.03))
        for name, value in made_conditions()["probe"].items()
    }


def _runs(study: Study, probes: Probes = _even, blocks: int = 5) -> list[Run]:
    trials = planned(study, ["x"], replicates=blocks)
    return [
        made_run(study, trial, conditions={**made_conditions(), "probe": probes(trial.position)})
        for trial in trials
    ]


def _set(runs: Sequence[Run]) -> RunSet:
    return RunSet(runs, {}, {"pass", "instance"})


def test_even_probes_are_in_range(study: Study) -> None:
    assert controls.probe_faults(_set(_runs(study))) == controls.Found([], [], frozenset())


def test_one_trial_after_a_slow_probe_is_doubtful_and_the_rest_stand(study: Study) -> None:

    def slow(trial: int) -> dict[str, float]:
        return {**_even(trial), "cpus_ops_per_s": 3500 if trial == 7 else 5000}

    found = controls.probe_faults(_set(_runs(study, slow)))
    assert found.doubtful == {7}
    assert found.failed == []
    assert "before 1 of 55 trials (7)" in str(found.notes[0])


def _disturbed(study: Study, blocks: int, is_slow: Callable[[Trial], bool]) -> RunSet:
    """Return runs before some of which all processors together were slow."""
    trials = planned(study, ["x"], replicates=blocks)
    return _set(
        [
            made_run(
                study,
                trial,
                conditions={
                    **made_conditions(),
                    "probe": {**_even(trial.position), "cpus_ops_per_s": 3500 if slow else 5000},
                },
            )
            for trial in trials
            for slow in [is_slow(trial)]
        ]
    )


def test_an_arm_that_is_disturbed_more_than_the_others_fails_there_alone(study: Study) -> None:
    arm = planned(study, ["x"])[3].factors
    found = controls.probe_faults(_disturbed(study, 8, lambda trial: trial.factors == arm))
    [failed] = found.failed
    assert failed.server == "x"
    assert {"server": "x", **failed.at} == arm
    assert "before 8 of 8 trials" in str(failed.says)
    assert "where 0.7 were due" in str(failed.says)


def test_an_arm_that_is_spared_fails_too(study: Study) -> None:
    arm = planned(study, ["x"])[3].factors
    chance = random.Random(4)
    slow = {t.position: chance.random() < 0.45 for t in planned(study, ["x"], replicates=20)}
    runs = _disturbed(study, 20, lambda t: t.factors != arm and slow[t.position])
    [failed] = controls.probe_faults(runs).failed
    assert {"server": "x", **failed.at} == arm


def test_disturbances_that_fall_on_all_arms_alike_are_noted_however_many(study: Study) -> None:
    chance = random.Random(2)
    slow = {t.position: chance.random() < 0.4 for t in planned(study, ["x"], replicates=8)}
    runs = _disturbed(study, 8, lambda trial: slow[trial.position])
    found = controls.probe_faults(runs)
    assert found.failed == []
    assert len(found.doubtful) == sum(slow.values())
    assert f"before {sum(slow.values())} of 88 trials" in str(found.notes[0])


def test_a_sound_draw_fails_in_one_of_a_hundred_reports_at_most(study: Study) -> None:
    trials = planned(study, ["x"], replicates=6)
    failed = 0
    for report in range(200):
        chance = random.Random(report)
        slow = {trial.position for trial in trials if chance.random() < 0.3}
        runs = [made_run(study, trial) for trial in trials]
        out = [run for run in runs if run.trial in slow]
        failed += any(controls._uneven(runs, out, "it"))
    assert failed <= 6


def test_a_drift_of_five_percent_a_block_is_found(study: Study) -> None:

    def drifting(trial: int) -> dict[str, float]:
        return {"cpu_ops_per_s": 3000 * 0.95 ** (trial // 11)}

    [failed] = controls.probe_faults(_set(_runs(study, drifting, blocks=4))).failed
    assert str(failed.says).startswith("the machine drifted: cpu_ops_per_s changed by -4.8%")


def test_a_trial_that_names_another_predecessor_contradicts_its_session(study: Study) -> None:
    right = _ordered(study, [[0, 1, 2], [2, 1, 0]]).runs
    assert times_and_hosts.predecessors([(None, right)]) == []
    found = times_and_hosts.predecessors([(None, [right[0], right[2], *right[3:]])])
    assert found == ["trial 2: its predecessor is not the trial before it"]


def test_a_machine_that_always_changes_has_a_range_to_leave(study: Study) -> None:

    def wild(trial: int) -> dict[str, float]:
        return {"cpu_ops_per_s": 3000.0 * (1 + trial % 2)}

    assert controls.probe_faults(_set(_runs(study, wild))).doubtful


def test_a_disks_probes_are_compared_with_those_of_the_same_device(study: Study) -> None:
    def of(device: str, speeds: Sequence[float]) -> list[Run]:
        return [
            run.model_copy(
                update={
                    "factors": {**run.factors, "device": device},
                    "conditions": {**run.conditions, "probe": {"disk_reads_per_s": speed}},
                }
            )
            for run, speed in zip(host, speeds, strict=False)
        ]

    host = [run for run in _runs(study) if run.factors["device"] == "host"]
    fast, slow = of("fast", [50_000.0] * 10), of("slow", [200.0] * 7 + [50.0] * 3)
    found = controls.probe_faults(_set([*fast, *slow]))
    assert found.doubtful == {run.trial for run in slow[7:]}
    assert str(found.notes[0]).startswith("disk_reads_per_s of slow was out of its range")


def test_a_few_probes_are_judged_by_nobody(study: Study) -> None:
    found = controls.probe_faults(_set(_runs(study)[:4]))
    assert not found.failed
    assert "4 probes of cpu_ops_per_s are too few" in str(found.notes[0])


def test_a_range_holds_the_probes_of_a_sound_machine_and_is_bounded() -> None:
    low, high = controls.probe_range("cpu_ops_per_s", [100.0] * 9)
    assert (low, high) == (pytest.approx(100 / 1.15), pytest.approx(115))
    low, high = controls.probe_range("cpu_ops_per_s", [50.0, 100.0, 200.0, 60.0, 170.0])
    assert high / low == pytest.approx(1.3**2)
    low, high = controls.probe_range("disk_reads_per_s", [50.0, 100.0, 200.0, 60.0, 170.0])
    assert high / low == pytest.approx(2.0**2)


def _with_twins(study: Study, factor: Callable[[int], float]) -> RunSet:
    """Return runs of which the control's arm has a twin in each block, slower by a factor."""
    runs = _runs(study)
    asked = Experiment.fresh(study, {})
    arm = vars(asked.control(asked.arms_on("x")))
    twins = []
    for run in runs:
        if run.factors == arm:
            rows: list[dict[str, Any]] = [
                {**row, "seconds": row["seconds"] * factor(run.block)} if "seconds" in row else row
                for row in made_observations()
            ]
            update = {"twin": True, "observations": rows, "trial": run.trial + 100}
            twins.append(Run.model_validate({**run.model_dump(), **update}))
    return _set([*runs, *twins])


def _chance(block: int) -> float:
    return math.exp(random.Random(block).gauss(0, 0.02))


def test_an_arm_that_is_as_fast_as_itself_passes(study: Study) -> None:
    found = controls.a_a(_with_twins(study, _chance), _METRICS)
    assert found.failed == []
    assert "Of 2 comparisons of an arm with itself, 0" in str(found.notes[0])


def test_an_arm_that_differs_from_itself_fails_where_it_does(study: Study) -> None:
    found = controls.a_a(_with_twins(study, lambda block: 1.2 * _chance(block)), _METRICS)
    assert [(failed.server, dict(failed.at)) for failed in found.failed] == [
        ("x", {"pass": 1}),
        ("x", {"pass": 2}),
    ]
    assert "in seconds at pass 1 by a factor of 1.2" in str(found.failed[0].says)


def test_a_difference_from_itself_within_the_margin_is_only_noted(study: Study) -> None:
    found = controls.a_a(_with_twins(study, lambda block: 1.03 + block * 1e-4), _METRICS)
    assert found.failed == []
    assert ", 2 had an interval that leaves 1 out" in str(found.notes[0])


def test_twins_are_no_second_value_of_their_arm(study: Study) -> None:
    runs = _with_twins(study, lambda _: 5.0)
    twin = runs.runs[-1]
    [first] = [r for r in runs.runs[:-1] if (r.block, r.factors) == (twin.block, twin.factors)]
    assert set(runs.values("seconds", **{**twin.factors, "pass": 1}).values()) == {2.0}
    # Nine arms scan twice, and two once.
    assert len(runs.frame("pass")) == 5 * (2 * 9 + 2)
    assert first.key != twin.key


def test_without_twins_nothing_is_compared(study: Study) -> None:
    assert controls.a_a(_set(_runs(study)), _METRICS) == controls.Found([], [])


def _ordered(study: Study, orders: Sequence[Sequence[int]]) -> RunSet:
    arms = [run.factors for run in _runs(study, blocks=1)]
    runs: list[Run] = []
    before: Factors | None = None
    for block, places in enumerate(orders):
        for arm in places:
            trial = Trial(len(runs), block, arms[arm])
            conditions = {**made_conditions(), "predecessor": before}
            runs.append(made_run(study, trial, conditions=conditions))
            before = arms[arm]
    return _set(runs)


def test_an_order_that_is_always_the_same_fails(study: Study) -> None:
    [failed] = controls.order(_ordered(study, [[0, 1, 2, 3]] * 3)).failed
    assert str(failed.says) == "the arms ran in the same order in each of 3 blocks"


def test_a_shuffled_order_passes_and_its_evenness_is_noted(study: Study) -> None:
    found = controls.order(_ordered(study, [[0, 1, 2], [2, 0, 1], [1, 2, 0]]))
    assert found.failed == []
    assert "Mean places of the 3 arms within 3 blocks: 0.50 to 0.50" in str(found.notes[0])
    assert "more than 2 times in 3 blocks" in str(found.notes[1])


def test_two_arms_in_the_same_order_twice_are_chance(study: Study) -> None:
    assert controls.order(_ordered(study, [[0, 1], [0, 1]])).failed == []


def test_arms_that_stopped_leave_the_order_of_the_rest(study: Study) -> None:
    same = [[0, 1, 2, 3, 4], [0, 1, 3, 4], [0, 3, 4]]
    assert controls.order(_ordered(study, same)).failed
    assert not controls.order(_ordered(study, [*same, [4, 3, 0]])).failed


def test_all_controls_are_put_together(study: Study) -> None:
    runs = _with_twins(study, lambda _: 1.5)
    found = controls.controls(runs, _METRICS)
    assert len(found.failed) == 2
    assert any("Mean places" in str(note) for note in found.notes)


@pytest.mark.parametrize(
    ("of", "window_s", "faults"),
    [("loads", 12, 0), ("loads", 20, 0), ("loads", 23, 0), ("loads", 11, 1),
     ("steady", 12, 0), ("steady", 20, 0), ("steady", 23, 1), ("steady", 11, 1)],
)  # fmt: skip
def test_a_load_may_last_longer_than_a_window_that_was_asked_for_and_no_less(
    study: Study, of: str, window_s: int, faults: int
) -> None:
    """It does where few transactions end in it; what was asked for is recorded beside it."""
    trial = planned(study, ["x"], replicates=1)[0]
    row = {"label": "x", "within": {}, "window_s": window_s}
    build = {**made_conditions()["build"], "id": "x"}
    conditions = {**made_conditions(), "loads": [], "steady": [], of: [row], "build": build}
    run = made_run(study, trial, conditions=conditions)
    asked = checks.RequiredSettings({}, {}, None, [12, 20])
    assert len(settings_and_builds.arms([run], lambda _: asked)) == faults


@pytest.mark.parametrize(("failures", "is_withheld"), [(1, False), (2, False), (3, True)])
def test_of_an_arm_whose_runs_failed_there_is_a_verdict_up_to_a_third_of_them(
    study: Study, failures: int, is_withheld: bool
) -> None:
    trials = planned(study, ["x"], replicates=6)
    arm = trials[0].factors
    runs = _set(
        [
            made_run(study, trial, status="failed", error="killed", observations=[])
            if trial.factors == arm and trial.block < failures
            else made_run(study, trial)
            for trial in trials
        ]
    )
    found = controls.complete(runs)
    assert str(found.notes[0]).startswith(f"{failures} of 6 runs of ")
    assert [one.at for one in found.failed] == (
        [{name: level for name, level in arm.items() if name != "server"}] if is_withheld else []
    )
    assert all(one in controls.controls(runs, _METRICS).failed for one in found.failed)
