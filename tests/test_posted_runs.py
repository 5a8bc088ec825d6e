"""Published runs with their seconds: what a judged table says of them."""

import json
import math
from pathlib import Path

import command
import numpy as np
import pytest

from innolab.base.errors import InputError
from innolab.report import manifest
from innolab.tables import judged, judged_page
from innolab.tables.judging import Judged
from innolab.verify import verify

_LENGTH, _PERIOD = 66, 11


def _seconds(mean: float, trend: float = 0.0, height: float = 0.23, seed: int = 0) -> list[float]:
    """Return a run's rates: six waves of eleven seconds, and a trend of its end over its start."""
    noise = np.random.default_rng(seed).normal(0, 0.01, _LENGTH)
    return [mean * (1 + height * math.sin(math.tau * t / _PERIOD) + trend * (t / _LENGTH - 0.5)
                    + noise[t]) for t in range(_LENGTH)]  # fmt: skip


def _output(rates: list[float]) -> str:
    done = round(sum(rates))
    end_of_line = "(r/w/o: 1/1/1) lat (ms,95%): 9.1 err/s: 0.00 reconn/s: 0.00"
    lines = [f"[ {t}s ] thds: 8 tps: {rate:.2f} qps: {20 * rate:.2f} {end_of_line}"
             for t, rate in enumerate(rates, 1)]  # fmt: skip
    end = f"""SQL statistics:
    transactions:                        {done}   ({done / len(rates):.2f} per sec.)
    queries:                             {20 * done} ({20 * done / len(rates):.2f} per sec.)
General statistics:
    total time:                          {len(rates):.4f}s
"""
    return "\n".join(["sysbench 1.0.20", "Threads started!", *lines, end])


_RUNS = {"slow": _seconds(1000, seed=1), "near": _seconds(1503, seed=2),
         "best": _seconds(1506, seed=3), "rising": _seconds(600, trend=0.5, seed=4)}  # fmt: skip


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INNOLAB_REPORTS", str(tmp_path / "reports"))
    return tmp_path


def _outputs(place: Path, runs: dict[str, list[float]]) -> Path:
    for name, rates in runs.items():
        (place / f"{name}.txt").write_text(_output(rates))
    rows = [f"{name.split('-')[0]},{name.partition('-')[2]},{name}.txt" for name in runs]
    table = place / "t.csv"
    table.write_text("\n".join(["engine,replicate,output", *rows]))
    return table


def _leads(found: Judged) -> dict[tuple[str, str], str]:
    [ranking] = [one.ranking for one in found.rankings if one.metric == "tps"]
    return {(str(lead.of), str(lead.to)): lead.outcome for lead in ranking.leads}


def test_single_runs_are_told_apart_by_their_own_seconds(place: Path) -> None:
    folder, found = judged.judge(_outputs(place, _RUNS), prove=verify.require)
    leads = _leads(found)
    assert leads["best", "near"] == "noise"
    assert {leads["best", "slow"], leads["near", "slow"], leads["slow", "rising"]} == {"open"}
    courses = found.table.courses("tps")
    assert [one.wave and round(one.wave.period_s) for one in courses.values()] == [11] * 4
    assert [one.drift.steady for one in courses.values()] == [True, True, True, False]
    said = judged_page.summary(found)
    assert any(
        "of 4 runs 1 were still rising and 0 falling; 4 go in waves" in line for line in said
    )
    page = (folder / "index.html").read_text()
    assert "still rising: its second half is" in page
    assert "it holds 6" in page
    for name in ("seconds.csv", "figures/seconds.svg", "figures/seconds.csv"):
        assert name in manifest.read(folder)["files"]
    assert verify.verify(folder).faults == []


def test_changed_seconds_are_found(place: Path) -> None:
    folder, _ = judged.judge(_outputs(place, _RUNS), prove=verify.require)
    path = folder / "seconds.csv"
    path.write_text(path.read_text().replace(",tps,5.0,", ",tps,5.5,", 1))
    assert verify.verify(folder).faults == ["seconds.csv: changed after the report was sealed"]
    for damage in (
        "row\n",
        path.read_text() + "9,tps,1.0,2.0\n",
        path.read_text() + "0,x,1.0,2.0\n",
    ):
        path.write_text(damage)
        with pytest.raises(InputError, match=r"seconds\.csv"):
            judged.recorded(folder, "t")


def test_a_lead_of_less_than_a_wave_is_noise_even_with_replicates(place: Path) -> None:
    """Runs that all begin in the same moment of a wave agree, and are all off by the same."""
    runs = {f"{name}-{n}": _seconds(mean * (1 + n / 1e5), seed=0)
            for name, mean in (("A", 1000), ("B", 1004)) for n in (1, 2, 3)}  # fmt: skip
    _, found = judged.judge(_outputs(place, runs), prove=verify.require)
    [lead] = found.rankings[0].ranking.leads
    assert lead.ratio.low > 1, "its interval alone would decide it"
    assert lead.outcome == "noise"
    assert "one wave more or less moves it by" in judged_page.lead_text(lead)
    level = {name: _seconds(1000 if name[0] == "A" else 1004, height=0, seed=n)
             for n, name in enumerate(runs)}  # fmt: skip
    _, found = judged.judge(_outputs(place, level), prove=verify.require)
    assert found.rankings[0].ranking.leads[0].one_wave == 0


def _series(runs: dict[str, list[float]], heading: str = "t_s") -> str:
    return f"engine,{heading},tps (1/s)\n" + "".join(
        f"{name},{t},{rate}\n" for name, rates in runs.items() for t, rate in enumerate(rates, 1)
    )


@pytest.mark.parametrize("heading", ["t_s", "second", "t (s)"])
def test_a_series_in_a_table_is_asked_about_and_read_as_runs(place: Path, heading: str) -> None:
    table, about = place / "t.csv", place / "about.yml"
    table.write_text(_series(_RUNS, heading))
    name = heading.split(" ")[0]
    with pytest.raises(InputError, match=f"seconds: {name}"):
        judged.judge(table, prove=verify.require)
    about.write_text(f"seconds: {name}\n")
    folder, found = judged.judge(table, about=about, prove=verify.require)
    assert len(found.table.rows) == 4
    assert found.table.values("tps", {"engine": "slow"}) == [
        pytest.approx(sum(_RUNS["slow"]) / _LENGTH)
    ]
    assert _leads(found)["best", "near"] == "noise"
    assert verify.verify(folder).faults == []


def test_moments_of_another_run_are_to_be_numbered(place: Path) -> None:
    table, about = place / "t.csv", place / "about.yml"
    rows = _series({"A": [100, 101, 102], "B": [110, 111, 112]}).splitlines()
    table.write_text("\n".join([*rows, "A,1,103", "A,2,104"]))
    about.write_text("seconds: t_s\n")
    with pytest.raises(InputError, match=r"row 8: t_s is not after .* column 'replicate'"):
        judged.judge(table, about=about, prove=verify.require)


def test_seconds_without_a_transaction_count(place: Path) -> None:
    table, about = place / "t.csv", place / "about.yml"
    table.write_text(_series({"A": [100, 0, 101, 99], "B": [50, 51, 52, 0]}))
    about.write_text("seconds: t_s\n")
    _, found = judged.judge(table, about=about, prove=verify.require)
    assert found.table.values("tps", {"engine": "A"}) == [75.0]


def test_the_document_has_the_runs_as_numbers(place: Path) -> None:
    done = command.called("judge", str(_outputs(place, _RUNS)), "--json")
    runs = json.loads(done.out)["runs"]
    assert [one["waves"] for one in runs] == [6] * 4
    assert [one["steady"] for one in runs] == [True, True, True, False]
    assert runs[0].keys() >= {"period_s", "swing_share", "one_wave_log", "error_log", "row"}
