"""Other people's tables: what is decided, what is noise, what is refused."""

import csv
import json
import math
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import command
import numpy as np
import pytest
from conftest import ROOT, Innolab
from typer.testing import CliRunner

from benchmarks import spreads as written
from innolab import cli
from innolab.analysis import stats
from innolab.base.errors import InputError
from innolab.report import folders, index, manifest, render
from innolab.tables import description as describing
from innolab.tables import judged, judged_page, load_outputs, rankings, spreads
from innolab.tables import table as tables
from innolab.tables.description import About
from innolab.tables.judging import Judged
from innolab.tables.rankings import Spread
from innolab.verify import signatures, verify

_DATA = ROOT / "data" / "judged"
_SWEEP = _DATA / "percona-buffer-pool-2026.csv"
_ABOUT = _SWEEP.with_suffix(".yml")
_CLAIMS = _DATA / "percona-buffer-pool-2026-claims.yml"
_SPREAD = Spread(0.01, 4, 4, "by hand")

# Two servers at two numbers of threads, each arm twice: A and B are alike at 16, B is ahead at 32.
_TABLE = """engine,threads,replicate,tps (1/s),p95 (ms),source
A,16,1,1000,10,t1
A,16,2,1010,10.2,t1
B,16,1,1005,10.1,t1
B,16,2,1012,9.9,t1
A,32,1,1500,20,t2
A,32,2,1515,19.8,t2
B,32,1,1900,15,t2
B,32,2,1880,15.3,t2
"""
_CLAIM = """- id: X1
  says: "With {threads} threads B does more than A"
  stands: published
  source: "the abstract"
  published: {value: 1.2}
  compare: {metric: tps, of: {engine: B}, to: {engine: A}}
  each: {threads: [16, 32]}
  holds: {at_least: 1.1}
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INNOLAB_REPORTS", str(tmp_path / "reports"))
    return tmp_path


def _written(place: Path, name: str, text: str) -> Path:
    path = place / name
    path.write_text(text)
    return path


def _judged(place: Path, text: str = _TABLE, **given: Any) -> tuple[Path, Judged]:
    return judged.judge(_written(place, "table-x.csv", text), **given, prove=verify.require)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Judged]:
    """The published sweep, judged once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INNOLAB_REPORTS", str(tmp_path_factory.mktemp("reports")))
        return judged.judge(_SWEEP, _CLAIMS, _ABOUT, prove=verify.require)


# Statistics.


def test_a_pooled_spread_is_that_of_the_arms_that_were_run_twice() -> None:
    found = rankings.replicate_spread([[100.0, 110.0, 90.0], [5.0, 5.5], [7.0]])
    logs = [np.log([100.0, 110.0, 90.0]), np.log([5.0, 5.5])]
    expected = math.sqrt(sum(((x - x.mean()) ** 2).sum() for x in logs) / 3)
    assert found
    assert found.sd == pytest.approx(expected)
    assert (found.freedom, found.arms, found.borrowed) == (3, 2, False)
    assert rankings.replicate_spread([[1.0], [2.0]]) is None


def test_a_ratio_of_single_runs_is_by_student_with_the_pooled_spread() -> None:
    found = rankings.ratio([102.0], [100.0], _SPREAD)
    half = 2.7764451 * 0.01 * math.sqrt(2)
    assert math.log(found.high / found.estimate) == pytest.approx(half, rel=1e-6)
    other = rankings.ratio([100.0], [102.0], _SPREAD)
    assert other.low == pytest.approx(1 / found.high)


def test_many_runs_have_a_spread_of_their_own() -> None:
    generator = np.random.default_rng(5)
    top, bottom = (list(np.exp(generator.normal(m, 0.1, 8))) for m in (0.2, 0.0))
    found = rankings.ratio(top, bottom, _SPREAD)
    welch = stats.independent_ratio(top, bottom)
    assert found.estimate == pytest.approx(welch.estimate)
    # Degrees of freedom are rounded down, so it is never narrower.
    assert found.low <= welch.low
    assert found.low == pytest.approx(welch.low, rel=0.01)


def test_of_arms_that_are_alike_a_winner_is_found_in_one_ranking_of_twenty() -> None:
    """Four arms with one run each, the spread from four pairs: the level is that of all pairs."""
    generator = np.random.default_rng(20)
    n = 4000
    runs = generator.normal(0, 0.05, (n, 4))
    pairs = generator.normal(0, 0.05, (n, 4, 2))
    sd = np.sqrt((np.diff(pairs)[..., 0] ** 2 / 2).mean(axis=1))
    factor = rankings.quantile(0.95, 4, 4)
    wrong = np.ptp(runs, axis=1) > factor * sd * math.sqrt(2)
    assert 0.04 < wrong.mean() < 0.06
    # What a reader does who takes the best and the worst and Student's interval.
    naive = np.ptp(runs, axis=1) > rankings.quantile(0.95, 2, 4) * sd * math.sqrt(2)
    assert naive.mean() > 0.12


def test_a_lead_holds_up_to_the_spread_that_is_named() -> None:
    arms = {"A": [110.0], "B": [100.0], "C": [97.0]}
    lead = rankings.ranked(arms, _SPREAD, is_higher_better=True).first
    for factor, decided in ((0.99, True), (1.01, False)):
        at = _SPREAD._replace(sd=lead.spread_most * factor)
        assert rankings.ranked(arms, at, is_higher_better=True).first.is_decided is decided


def test_of_times_the_least_is_best_and_leads_by_more_than_one() -> None:
    arms = {"slow": [20.0], "fast": [10.0], "middle": [10.05]}
    found = rankings.ranked(arms, _SPREAD, is_higher_better=False)
    assert [one.level for one in found.standings] == ["fast", "middle", "slow"]
    assert found.first.ratio.estimate == pytest.approx(1.005)
    assert not found.first.is_decided
    assert found.level_with_best == ["middle"]
    assert found.leads[1].ratio.estimate == pytest.approx(2.0)


def test_so_many_replicates_as_are_said_decide() -> None:
    n = rankings.replicates_for(0.02, _SPREAD, 1)
    assert n
    for runs, enough in ((n, True), (n - 1, False)):
        freedom = 2 * (runs - 1) + 4
        half = stats.student_quantile(0.95, freedom) * 0.01 * math.sqrt(2 / runs)
        assert (half < 0.02) is enough
    assert rankings.replicates_for(0.0001, _SPREAD, 1) is None


def test_a_mean_takes_fewer_replicates_than_a_ratio_and_those_of_now_count_once() -> None:
    n = rankings.replicates_for(0.02, _SPREAD, 2, arms=1)
    assert n
    for runs, enough in ((n, True), (n - 1, n - 1 <= 2)):
        half = stats.student_quantile(0.95, runs - 2 + 4) * 0.01 * math.sqrt(1 / runs)
        assert (half < 0.02) is enough
    ratio = rankings.replicates_for(0.01, _SPREAD, 2)
    alone = rankings.replicates_for(0.01, _SPREAD, 2, arms=1)
    assert ratio and alone and alone < ratio


# What this collection lends.


def test_the_spreads_to_borrow_are_those_of_the_reports_that_they_name() -> None:
    kept = spreads.read()
    reports = {row.study: row.report for row in kept}
    there = {s: r for s, r in reports.items() if (ROOT / "reports" / s / r).is_dir()}
    assert there, "make spreads"
    again = {(row.study, row.metric): row for row in written.rows(there)}
    assert again
    assert again == {(row.study, row.metric): row for row in kept if row.study in there}
    assert spreads.FILE.read_text() == spreads.as_csv(kept)


def test_a_spread_is_lent_by_its_name_and_each_says_of_what_machine_it_is() -> None:
    lent = spreads.named("more-memory:tps")
    assert lent.spread.borrowed
    assert lent.machine in lent.spread.says
    with pytest.raises(InputError) as refused:
        spreads.named("theirs")
    for row in spreads.read():
        assert f"{row.name}, {row.sd_log:.1%} of a {row.kind} on {row.machine}" in str(
            refused.value
        )


# The published sweep.


def test_the_sweep_has_its_spread_from_the_arm_that_is_in_both(sweep: tuple[Path, Judged]) -> None:
    _, found = sweep
    spread = found.spreads["nopm"]
    assert spread.sd == pytest.approx(0.0067, abs=0.0002)
    assert (spread.freedom, spread.arms, spread.borrowed) == (4, 4, False)
    assert len(found.table.rows) == 48
    assert len(found.table.arms) == 44


def test_a_bold_winner_leads_by_nothing(sweep: tuple[Path, Judged]) -> None:
    folder, found = sweep
    by = {(one.metric, one.at["pool_gib"], one.at["virtual_users"]): one.ranking
          for one in found.rankings}  # fmt: skip
    bold = by["tpm", 110, 160].first
    assert (bold.of, bold.to) == ("MySQL 9.7.0", "MariaDB 12.2.2")
    assert bold.ratio.estimate == pytest.approx(1_226_158 / 1_226_157)
    assert not bold.is_decided
    assert "leads MariaDB 12.2.2 by nothing" in judged_page.lead_text(bold)
    assert not by["tpm", 30, 80].first.is_decided
    small = by["nopm", 10, 80].first
    assert small.of == "MySQL 8.4.8"
    assert small.is_decided
    page = (folder / "index.html").read_text()
    assert "MySQL 9.7.0 leads by nothing" in page
    assert "the other 40 arms, which nobody measured twice" in page


def test_conclusions_of_the_sweep_stand_or_fall_by_its_own_numbers(
    sweep: tuple[Path, Judged],
) -> None:
    found = {verdict.claim: verdict for verdict in sweep[1].verdicts}
    assert found["U1-wins-10"].verdict == "reproduced"
    assert found["U1-wins-160"].verdict == "inconclusive"
    assert found["U1-wins-160"].needs
    assert found["U5-last-20"].verdict == "contradicted"
    assert found["P2-small-pool-50"].verdict == "contradicted"
    assert found["P4-regression-90"].verdict == "reproduced"
    assert all(verdict.source and "sweep" in verdict.source for verdict in found.values())
    counted = json.loads((sweep[0] / "verdicts.json").read_text())
    assert [one["claim"] for one in counted] == list(found)


def test_each_figure_of_the_sweep_names_its_run() -> None:
    with _SWEEP.open() as file:
        rows = list(csv.DictReader(file))
    assert len({row["source"] for row in rows}) == len(rows) == 48


# The report.


def test_the_report_verifies(sweep: tuple[Path, Judged]) -> None:
    found = verify.verify(sweep[0])
    assert found.faults == []
    body = manifest.read(sweep[0])
    assert body["given"].keys() == {_SWEEP.name, _ABOUT.name, _CLAIMS.name}
    assert body["runs"] == {"rows": 48, "arms": 44}
    for name in ("table.csv", "about.json", "claims.yml", "spreads.json", "rankings.json",
                 "figures/leads.svg", "figures/leads-2.png", "figures/claims.csv"):  # fmt: skip
        assert name in body["files"]


def _resealed(report: Path) -> None:
    """Seal a changed report again, as a forger would."""
    path = report / "manifest.json"
    body = json.loads(path.read_text())
    body["files"] = manifest.digests(report)
    body["seal"] = manifest.seal_of(body)
    path.write_text(json.dumps(body, indent=1))


@pytest.mark.parametrize("name", ["table.csv", "rankings.json", "verdicts.json", "index.html",
                                  "spreads.json", "figures/leads.csv"])  # fmt: skip
def test_one_altered_number_is_found(sweep: tuple[Path, Judged], place: Path, name: str) -> None:
    copy = place / "reports" / "x" / sweep[0].name
    shutil.copytree(sweep[0], copy)
    text = (copy / name).read_text()
    old, new = {
        "table.csv": ("152010", "162010"),
        "rankings.json": ('"n": 2', '"n": 9'),
        "verdicts.json": ('"reproduced"', '"contradicted"'),
        "index.html": ("leads by nothing", "leads"),
        "spreads.json": ('"freedom": 4', '"freedom": 40'),
        "figures/leads.csv": ("110", "111"),
    }[name]
    assert old in text
    (copy / name).write_text(text.replace(old, new, 1))
    faults = verify.verify(copy).faults
    assert faults == [f"{name}: changed after the report was sealed"]
    _resealed(copy)
    faults = verify.verify(copy).faults
    assert faults
    named = {"table.csv": "rankings.json"}.get(name, name)
    assert any(fault.startswith(named) for fault in faults), faults


def test_a_spread_is_not_borrowed_where_there_are_replicates(
    sweep: tuple[Path, Judged], place: Path
) -> None:
    copy = place / "reports" / "x" / sweep[0].name
    shutil.copytree(sweep[0], copy)
    body = json.loads((copy / "spreads.json").read_text())
    body["nopm"] |= {"borrowed": True, "sd": 0.0001, "freedom": 1000}
    (copy / "spreads.json").write_text(json.dumps(body, indent=1))
    _resealed(copy)
    assert any(fault.startswith("spreads.json") for fault in verify.verify(copy).faults)


def _called(*words: str) -> str:
    """Return what the command prints, run in this process."""
    done = CliRunner().invoke(cli.app, words)
    if done.exception:
        raise done.exception
    return done.stdout


def test_a_report_is_listed_and_what_needs_runs_refuses_it(place: Path) -> None:
    folder, _ = _judged(place)
    name = f"table-x/{folder.name}"
    assert f"table-x: a published table, judged\n  {name}\n" in _called("list")
    page = index.write().read_text()
    assert f'href="{name}/index.html"' in page
    assert "table, rankings and verdicts" in _called("verify", name)
    for words in (["render", name], ["compare", name, name], ["figure", name, "leads"],
                  ["deposit", name, "--to", str(place / "deposit")]):  # fmt: skip
        with pytest.raises(InputError, match="no innolab report of a study"):
            _called(*words)
    assert not (place / "deposit").exists()
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_a_damaged_report_is_listed_as_such(place: Path) -> None:
    folder, _ = _judged(place)
    (folder / "manifest.json").write_text('{"kind": "table"}')
    page = index.write().read_text()
    assert "Unfinished or damaged" in page
    assert f"table-x/{folder.name}: " in page


def _faults_of(report: Path) -> list[str]:
    return verify.verify(report).faults


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("title", "A hundred thousand runs"),
        ("source", "The journal"),
        ("runs", {"rows": 100_000, "arms": 4}),
        ("runs", {"rows": 8, "arms": 4, "hosts": 12}),
        ("sealed_at", "2099-01-01T00:00:00.000+00:00"),
        ("sealed_at", "2020-01-01T00:00:00.000+00:00"),
    ],
)
def test_what_a_manifest_says_of_a_table_follows_from_it_and_is_not_vouched_for(
    place: Path, name: str, value: Any
) -> None:
    folder, _ = _judged(place)
    body = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**body, name: value}))
    _resealed(folder)
    named = "it was sealed at 2099" if "2099" in str(value) else name
    named = "not sealed on the day" if "2020" in str(value) else named
    faults = _faults_of(folder)
    assert any(fault.startswith("manifest.json") and named in fault for fault in faults), faults
    with pytest.raises(InputError, match="is not signed"):
        signatures.sign(folder, _key(place), _faults_of)
    assert not (folder / signatures.FOLDER).exists()


@pytest.mark.parametrize("value", [{"t.csv": "0"}, {"t.csv": "x" * 64}])
def test_a_manifest_names_what_was_given_by_digests(place: Path, value: Any) -> None:
    folder, _ = _judged(place)
    body = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**body, "given": value}))
    with pytest.raises(InputError, match="damaged: given"):
        verify.verify(folder)


def _key(place: Path) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", place / "key"], check=True)
    return place / "key"


def test_somebody_can_vouch_for_it(place: Path) -> None:
    folder, _ = _judged(place)
    key = _key(place)
    signatures.sign(folder, key, _faults_of)
    signers = _written(place, "signers", f"a@example.org {key.with_suffix('.pub').read_text()}")
    found = verify.verify(folder, signers=signers)
    assert found.faults == []
    assert any("a@example.org" in note for note in found.notes)


def test_a_second_judgement_is_a_version_of_its_own(place: Path) -> None:
    first, second = (_judged(place)[0] for _ in range(2))
    assert first != second
    for name in ("index.html", "rankings.json", "figures/leads.svg"):
        texts = [(one / name).read_text().replace(one.name, "") for one in (first, second)]
        assert texts[0] == texts[1]
    assert folders.tables()["table-x"] == [first, second]


# What is read.


def test_replicates_and_claims_of_a_small_table(place: Path) -> None:
    claims = _written(place, "claims.yml", _CLAIM)
    folder, found = _judged(place, claims=claims)
    verdicts = {one.claim: one for one in found.verdicts}
    assert verdicts["X1-16"].verdict == "contradicted"
    assert verdicts["X1-32"].verdict == "reproduced"
    assert verdicts["X1-32"].n == 2
    assert verdicts["X1-32"].published == 1.2
    by = {(one.metric, one.at["threads"]): one.ranking for one in found.rankings}
    assert not by["tps", 16].first.is_decided
    assert by["p95", 32].first.of == "B"
    assert by["p95", 32].first.is_decided
    assert found.spreads["tps"].freedom == 4
    assert render.read_verdicts(folder)[1]["server"] == "table-x"


_SINGLE = "\n".join(line for line in _TABLE.splitlines() if ",2," not in line)


def test_a_table_without_replicates_borrows_nothing_by_default(place: Path) -> None:
    """A lead is open, and says up to which spread it holds."""
    claims = _written(place, "claims.yml", _CLAIM)
    folder, found = _judged(place, _SINGLE, claims=claims)
    assert [(one.is_floor, one.borrowed) for one in found.spreads.values()] == [(True, False)] * 2
    lead = next(one.ranking.first for one in found.rankings if one.at["threads"] == 32)
    assert lead.outcome == "open"
    assert math.isnan(lead.ratio.low)
    # Decided by Student's interval of a known spread, which is that of the normal distribution.
    assert lead.spread_most == pytest.approx(
        math.log(1900 / 1500) / 1.959964 / math.sqrt(2), rel=1e-4
    )
    assert {verdict.verdict for verdict in found.verdicts} == {"inconclusive"}
    assert all("--spread" in str(verdict.needs) for verdict in found.verdicts)
    assert any("hold up to a spread between runs of" in line for line in judged_page.summary(found))
    page = (folder / "index.html").read_text()
    assert "No arm was run twice in tps, p95" in page
    assert ">open<" in page
    assert verify.verify(folder).faults == []


def test_a_spread_is_borrowed_where_a_reader_names_one(place: Path) -> None:
    claims = _written(place, "claims.yml", _CLAIM)
    folder, found = _judged(place, _SINGLE, claims=claims, spread="more-memory:tps")
    assert [one.borrowed for one in found.spreads.values()] == [True, False], "of rates alone"
    assert all("borrowed from this collection" in str(v.caveat) for v in found.verdicts)
    page = (folder / "index.html").read_text()
    assert page.index("Spread borrowed: the table has no replicates of tps") < 20_000
    checked = verify.verify(folder)
    assert checked.faults == []
    assert any("tps: its spread is borrowed" in note for note in checked.notes)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (_TABLE, "more-memory:tps"),
        (_SINGLE.replace("(ms)", "(1/s)"), "access-paths:seconds"),
        (_SINGLE, "more-memory"),
    ],
)
def test_a_spread_that_no_metric_takes_is_refused(place: Path, text: str, name: str) -> None:
    with pytest.raises(InputError, match="Nothing was written"):
        _judged(place, text, spread=name)
    assert not (place / "reports").exists()


def test_what_was_lent_then_still_verifies_and_is_no_row_of_today(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = _judged(place, _SINGLE, spread="more-memory:tps")
    later = [row._replace(sd_log=row.sd_log * 2) for row in spreads.read()]
    monkeypatch.setattr(spreads, "read", lambda: later)
    checked = verify.verify(folder)
    assert checked.faults == []
    assert sum("no row of today's" in note for note in checked.notes) == 1


def test_a_borrowed_spread_is_known_by_its_numbers(place: Path) -> None:
    folder, _ = _judged(place, _SINGLE, spread="more-memory:tps")
    body = json.loads((folder / "spreads.json").read_text())
    body["tps"]["sd"] = 0.001
    (folder / "spreads.json").write_text(json.dumps(body, indent=1) + "\n")
    judged.write(judged.recorded(folder, folder.parent.name), folder)
    _resealed(folder)
    checked = verify.verify(folder)
    assert checked.faults == []
    assert [note.split(":")[0] for note in checked.notes if "no row of today's" in note] == ["tps"]


@pytest.mark.parametrize("change", [{"sd": "x"}, {"sd": -1.0}, {"freedom": 0}, {"arms": None}])
def test_a_spread_that_is_none_is_a_fault(place: Path, change: dict[str, object]) -> None:
    folder, _ = _judged(place)
    body = json.loads((folder / "spreads.json").read_text())
    body["tps"] |= change
    (folder / "spreads.json").write_text(json.dumps(body, indent=1) + "\n")
    _resealed(folder)
    assert any("spreads.json is damaged" in fault for fault in verify.verify(folder).faults)


def test_a_release_keeps_its_name(place: Path) -> None:
    path = _written(place, "a.csv", "release,tps (1/s)\n8.0,10\n8.4,11\n9,12\n")
    found = tables.read(path, About(factors={"release": None}), with_outputs=True)
    assert list(map(str, found.factors["release"])) == ["8.0", "8.4", "9"]


def test_a_table_is_the_same_when_it_is_read_again(place: Path) -> None:
    first = tables.read(_written(place, "a.csv", _TABLE), About(), with_outputs=True)
    again = tables.read(_written(place, "b.csv", first.as_csv()), first.about)
    assert again.about == first.about
    assert again.arms == first.arms
    assert [row.values for row in again.rows] == [row.values for row in first.rows]


def test_runs_as_json_with_objects_and_series_within(place: Path) -> None:
    runs = [
        {"engine": engine, "vu": vu, "tpm": {"avg": value, "samples": 3608}, "series": [1, 2, 3]}
        for engine, vu, value in (("x", 10, 100.5), ("y", 10, 140.0), ("x", 20, 190), ("y", 20, 2))
    ]
    about = _written(
        place,
        "about.yml",
        "metrics: {tpm.avg: transactions/min}\nfactors: {engine: , vu: }\nnotes: [tpm.samples]\n",
    )
    folder, found = judged.judge(
        _written(place, "runs.json", json.dumps(runs)), about=about, prove=verify.require
    )
    assert found.table.factors == {"engine": ["x", "y"], "vu": [10, 20]}
    assert found.table.values("tpm.avg", {"engine": "x", "vu": 10}) == [100.5]
    assert verify.verify(folder).faults == []
    assert "series" not in (folder / "table.csv").read_text()


_HAMMERDB = """HammerDB CLI v5.0
Value rootpassword for tpcc:mysql_pass is the same as existing value rootpassword, no change made
Vuser 1:TEST RESULT : System achieved {nopm} NOPM from {tpm} MySQL TPM
"""
_SYSBENCH = """sysbench 1.0.20 (using bundled LuaJIT 2.1.0-beta2)

SQL statistics:
    queries performed:
        read:                            140000
        write:                           40000
        other:                           20000
        total:                           200000
    transactions:                        {transactions} (x per sec.)
    queries:                             200000 (x per sec.)
    ignored errors:                      0      (0.00 per sec.)

General statistics:
    total time:                          100.0s
"""


def test_metrics_are_read_out_of_outputs_which_are_not_copied(place: Path) -> None:
    rows = ["engine,replicate,output"]
    (place / "out").mkdir()
    for engine, base in (("x", 1000), ("y", 2000)):
        for n in (1, 2):
            name = f"out/{engine}{n}.log"
            text = _HAMMERDB.format(nopm=base + n, tpm=2 * base + n)
            (place / name).write_text(text)
            rows.append(f"{engine},{n},{name}")
    folder, found = _judged(place, "\n".join(rows))
    assert found.table.values("nopm", {"engine": "y"}) == [2001.0, 2002.0]
    assert found.table.about.metrics["tpm"].unit == "transactions/min"
    assert verify.verify(folder).faults == []
    assert len(manifest.read(folder)["given"]) == 5
    kept = "".join(p.read_text(errors="replace") for p in folder.rglob("*") if p.is_file())
    assert "rootpassword" not in kept


def test_outputs_of_sysbench_need_no_histogram() -> None:
    found = load_outputs.read(_SYSBENCH.format(transactions=10000)).metrics
    assert found == {"tps": (100.0, "transactions/s"), "qps": (2000.0, "queries/s")}


def test_versions_that_look_like_numbers_are_not_taken_for_one() -> None:
    cells = "version,users,tps (1/s)\n8.1,8,5\n8.10,8,6\n8.1,16,7\n8.10,16,8\n"
    with tempfile.TemporaryDirectory() as folder:
        path = _written(Path(folder), "t.csv", cells)
        found = tables.read(path, About(ranked="version"), with_outputs=True)
    assert found.factors == {"version": ["8.1", "8.10"], "users": [8, 16]}


def test_columns_may_be_left_out_together(place: Path) -> None:
    about = _written(place, "about.yml", "factors: {engine: , threads: }\nnotes: ['*']\n")
    table = _TABLE.replace("source", "when")
    _, found = _judged(place, table, about=about)
    assert list(found.table.factors) == ["engine", "threads"]
    assert found.table.about.notes == ["when"]


def test_units_stand_in_headings_or_in_the_description() -> None:
    assert describing.heading("p95 [ms]")[:2] == ("p95", "ms")
    assert describing.heading("NOPM (new orders/min)")[:2] == ("NOPM", "new orders/min")
    assert describing.heading("commits_per_s")[:2] == ("commits_per_s", "1/s")
    assert describing.heading("engine")[:2] == ("engine", None)
    kinds = {unit: describing.kind_of(unit) for unit in ("tps/GiB", "MB/s", "rows a second", "s")}
    assert kinds == {"tps/GiB": None, "MB/s": "rate", "rows a second": "rate", "s": "time"}


# What is refused.

_LINES = _TABLE.splitlines()
_BAD_TABLES = {
    "empty": ("", "it is empty"),
    "heading alone": (_LINES[0], "has no rows"),
    "a single measurement": ("\n".join(_LINES[:2]), "a single measurement"),
    "no unit": ("engine,note\nA,x\nB,y\n", "names no unit"),
    "a metric without a unit": (
        "engine,tps,p95 (ms)\nA,100.1,5\nB,120.2,6\nC,130.3,7\n", "'tps' holds numbers that seldom"
    ),
    "no direction": (
        "engine,used (GiB)\nA,1\nB,2\n", "of used, in GiB, nobody says what is better"
    ),
    "words": (_TABLE.replace("1010", "fast"), "row 3: tps is 'fast'"),
    "thousands": (_TABLE.replace("1010", '"1,010"'), "write 1147448 for 1,147,448"),
    "negative": (_TABLE.replace("1010", "-3"), "has to be above 0"),
    "zero": (_TABLE.replace("1010", "0"), "Leave the cell of a run that failed empty"),
    "infinite": (_TABLE.replace("1010", "inf"), "has to be a number"),
    "contradiction": (_TABLE + "A,16,1,2000,30,t9\n", "rows 2 and 10 have the same levels"),
    "a row twice": (_TABLE + "A,16,1,1000,10,t1\n", "rows 2 and 10 are the same run"),
    "a copied row": (
        "engine,tps (1/s)\nA,100\nA,100\nB,120\n", "rows 2 and 3 are the same run"
    ),
    "copied replicates": (
        "engine,replicate,tps (1/s)\nA,1,100\nA,2,100\nB,1,90\n", "the same to the last digit"
    ),
    "replicates in other units": (
        "engine,replicate,tps (1/s)\nA,1,1e-9\nA,2,1e9\nB,1,90\n", "one is in another unit"
    ),
    "a million columns": (",".join(f"c{n}" for n in range(10**6)) + "\n", ", 500 columns or"),
    "rows without end": ("a,b\n" + "1,2\n" * 10**6, "more than 20,000 rows"),
    "commas without end": ("," * 10**7, ", 500 columns or"),
    "many columns and rows": (
        "\n".join(",".join(f"{r}.{c}" for c in range(400)) for r in range(5001)), "1,000,000 cells"
    ),
    "levels without end": (
        "engine,tps (1/s)\n" + "".join(f"e{n},{n + 1}\n" for n in range(3000)) + "e0,2\n",
        "make 4,498,500 pairs to compare, and 20,000 are the most",
    ),
    "a heading twice": ("engine,engine,tps (1/s)\nA,B,1\nA,C,2\n", "stands twice"),
    "a short line": (_TABLE + "A,64,1\n", "line 10 has 3 cells, and the heading 6"),
    "semicolons": (_TABLE.replace(",", ";"), "not separated by commas"),
    "an open quotation": (_TABLE + '"A,64', "cannot be read"),
    "no factor": ("tps (1/s)\n1\n2\n", "nothing to rank"),
    "no common levels": (
        "engine,host,tps (1/s)\nA,h1,10\nB,h2,11\n", "several factors that could be ranked"
    ),
    "a level left out": (_TABLE.replace("A,32,1,", ",32,1,"), "the factor engine has no level"),
    "an output elsewhere": (
        "engine,output\nA,../../etc/passwd\nB,/etc/passwd\n", "is outside"
    ),
    "an output that is none": (
        "engine,output\nA,table-x.csv\nB,table-x.csv\n", "no output of sysbench or HammerDB"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", _BAD_TABLES)
def test_a_bad_table_is_refused_in_a_paragraph_and_nothing_is_written(
    place: Path, name: str
) -> None:
    text, says = _BAD_TABLES[name]
    with pytest.raises(InputError) as refused:
        _judged(place, text)
    message = str(refused.value)
    assert says in message
    assert message.endswith("Nothing was written.")
    assert "\n" not in message
    assert not (place / "reports").exists()


def test_levels_that_never_meet_leave_nothing_to_rank(place: Path) -> None:
    with pytest.raises(InputError, match="No two levels of engine were measured at the same"):
        _judged(place, "engine,host,tps (1/s)\nA,h1,10\nB,h2,11\n", ranked="engine")


_BAD_CLAIMS = {
    "an unknown column": (_CLAIM.replace("engine: B", "server: B"), "'server' is no factor"),
    "an unknown level": (_CLAIM.replace("engine: B", "engine: C"), "engine has no level 'C'"),
    "an unknown metric": (_CLAIM.replace("metric: tps", "metric: qps"), "'qps' is no metric"),
    "several arms": (_CLAIM.replace("  each: {threads: [16, 32]}\n", ""), "leaves 2 arms"),
    "no list": ("id: X1\n", "holds no list of claims"),
    "no YAML": ("- id: [", "cannot be read"),
    "an id twice": (_CLAIM + _CLAIM, "The claim X1-16 stands twice"),
    "published words": (_CLAIM.replace("{value: 1.2}", "{value: 1.2x}"), "which is no number"),
    "about less than nothing": (
        _CLAIM.replace("holds: {at_least: 1.1}", "holds: {about_published: -1}"),
        "about_published",
    ),
    "each of nothing": ("- each: {threads: [16, 32]}\n", "cannot be used"),
    "published ids": (_CLAIM.replace("{value: 1.2}", "{of: a, to: b}"), "write {value: ...}"),
}


@pytest.mark.parametrize("name", _BAD_CLAIMS)
def test_bad_claims_are_refused_and_nothing_is_written(place: Path, name: str) -> None:
    text, says = _BAD_CLAIMS[name]
    with pytest.raises(InputError) as refused:
        _judged(place, claims=_written(place, "claims.yml", text))
    assert says in str(refused.value)
    assert not (place / "reports").exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("metrics: [tps", "cannot be used"),
        ("[1, 2]", "it holds no names with values"),
        ("metric: {tps: 1/s}", "It may have: title, source, metrics"),
        ("metrics: {qps: 1/s}", "has no column 'qps', which its description names"),
        ("metrics: {tps: ''}", "cannot be used"),
        ("factors: {tps: }\nmetrics: {tps: 1/s}", "cannot be both a factor and a metric"),
        ("factors: {engine: }", "does not say what the column 'threads' is"),
        ("notes: ['*']", "has to name the factors"),
        ("ranked: source", "source is no factor, so it cannot be ranked"),
    ],
)
def test_a_bad_description_is_refused(place: Path, text: str, says: str) -> None:
    with pytest.raises(InputError) as refused:
        _judged(place, about=_written(place, "about.yml", text))
    assert says in str(refused.value)
    assert not (place / "reports").exists()


def test_the_command_says_what_is_decided(place: Path) -> None:
    table = _written(place, "t.csv", _TABLE)
    *lines, page = _called("judge", str(table), "--name", "small").splitlines()
    assert Path(page).is_file()
    assert Path(page).parent.parent.name == "small"
    assert any("by nothing" in line for line in lines)
    for words, says in (
        (["no.csv"], "There is no file no.csv"),
        ([str(table), "--name", "more-memory"], "is the name of a study"),
        ([str(table), "--name", "../x"], "is no name for a report"),
        ([str(table), "--ranked", "tps"], "tps was measured, so it cannot be ranked"),
    ):
        with pytest.raises(InputError, match=re.escape(says)):
            _called("judge", *words)
    assert [p.name for p in (place / "reports").iterdir()] == ["small"]


def test_bad_input_ends_with_two_and_a_paragraph(place: Path, innolab: Innolab) -> None:
    table = _written(place, "t.csv", "engine,tps (1/s)\nA,fast\nB,2\n")
    done = innolab("judge", str(table), INNOLAB_REPORTS=str(place / "reports"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (place / "reports").exists()


def test_text_of_a_table_stays_text_on_its_page(place: Path) -> None:
    evil = "<script>alert(1)</script>$x^"
    folder, _ = _judged(place, _TABLE.replace("A,", f"{evil},"))
    page = (folder / "index.html").read_text()
    assert page.count("<script") == 1, "its own"
    assert "&lt;script&gt;" in page


_HIDDEN = {"nul": "\0", "escape": "\x1b[2J", "bell": "\a", "right to left": "\u202e",
           "no width": "\u200b", "line": "\u2028", "delete": "\x7f"}  # fmt: skip


@pytest.mark.parametrize("where", ["level", "heading", "note", "value", "json"])
@pytest.mark.parametrize("name", _HIDDEN)
def test_a_control_character_in_a_table_is_one_sentence(place: Path, name: str, where: str) -> None:
    """Two levels that differ in it alone would look the same, and a terminal obeys it."""
    text = _TABLE
    spot = {"level": "B,32,2", "heading": "replicate", "note": "t2\n", "value": "1515"}
    if where == "json":
        rows = [{"engine": e, "tps (1/s)": v} for e, v in (("A", 1.0), (f"B{_HIDDEN[name]}C", 2.0))]
        path = _written(place, "table.json", json.dumps(rows))
    else:
        word = spot[where].strip()
        text = text.replace(word, word[0] + _HIDDEN[name] + word[1:], 1)
        path = _written(place, "table.csv", text)
    done = command.called("judge", str(path))
    command.explained(done)
    assert done.status == 2
    assert "control character" in done.err
    assert not (place / "reports").exists()


def test_cells_of_several_lines_and_wide_spaces_are_no_control(place: Path) -> None:
    text = _TABLE.replace("t1\n", '"t1\nsecond\tline"\n', 1).replace("t2\n", "1\u00a0000\n", 1)
    _, found = _judged(place, text)
    assert len(found.table.rows) == 8
