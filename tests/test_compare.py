"""Reports of several people: what is refused, what they say together, and their page."""

import math
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import Innolab, reference
from copied_reports import STUDY, Body, change, change_runs, copied

from innolab import studies
from innolab.analysis import claims_together, stats
from innolab.analysis.claims import Quantity
from innolab.base.errors import InputError
from innolab.compare import compare, compare_page, forest_plot
from innolab.compare.compare import ReportComparison
from innolab.record.plan import Plan
from innolab.record.run import Run
from innolab.record.runs import RunSet
from innolab.report import folders, index
from innolab.studies.experiment import Experiment

_SERVER, _CLAIM = "mysql-9.7", "F2-warm-8v128M"
# What an arm of the claim takes longer on each host, as a logarithm.
_SHIFTS = (0.0, 0.8, -0.5, 1.1, 0.3)


def _shift(shift: float) -> Callable[[Body], None]:
    """Return what makes the second arm of the claim slower, in all its runs."""

    def change(run: Body) -> None:
        if run["factors"]["pool"] == "128M":
            for row in run["observations"]:
                if "seconds" in row:
                    row["seconds"] *= math.exp(shift)

    return change


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Five reports as of five hosts, whose ratios of the claim are a known factor apart."""
    place = tmp_path_factory.mktemp("hosts")
    made = []
    for number, shift in enumerate(_SHIFTS, 1):
        report = copied(place, f"2026-02-0{number}-1", days=number)
        change_runs(report, _shift(shift))
        change(report, "manifest.json", _on_kernel(f"6.{number}"))
        made.append(report)
    return made


def _on_kernel(kernel: str) -> Callable[[Body], None]:
    def change(body: Body) -> None:
        body["hosts"][0]["kernel"] = kernel

    return change


@pytest.fixture(scope="module")
def found(hosts: list[Path]) -> ReportComparison:
    return compare.compare(hosts)


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    """Two reports of one host, which a test may change."""
    return copied(tmp_path, "2026-02-01-1", 1), copied(tmp_path, "2026-02-02-1", 2)


def _row(
    found: ReportComparison, claim: str = _CLAIM, server: str = _SERVER
) -> claims_together.PooledClaim:
    return next(row for row in found.claims if (row.claim.id, row.server) == (claim, _SERVER))


def _refused(*reports: Path) -> str:
    with pytest.raises(InputError) as refusal:
        compare.compare(reports)
    said = str(refusal.value)
    assert "\n" not in said
    assert 40 < len(said) < 900, said
    return said


def test_planted_differences_of_hosts_are_found(found: ReportComparison) -> None:
    row = _row(found)
    parts = [part.interval for part in row.parts]
    assert all(parts)
    logs = [math.log(of.estimate) for of in parts if of]
    assert logs == pytest.approx([logs[0] - shift for shift in _SHIFTS])
    assert row.on_logs
    assert row.pooled
    # Their noise is the same, so all weigh the same.
    assert row.pooled.weights == pytest.approx((0.2,) * 5)
    assert math.log(row.pooled.interval.estimate) == pytest.approx(np.mean(logs))
    assert row.pooled.tau == pytest.approx(np.std(_SHIFTS, ddof=1), rel=0.3)
    assert row.pooled.i2 > 0.5
    assert row.pooled.predicted
    assert row.pooled.predicted.low < row.pooled.interval.low
    assert row.pooled.interval.n == 5


def test_a_reports_interval_is_of_all_its_valid_blocks(found: ReportComparison) -> None:
    row, runs = _row(found), found.members[0].runs.valid
    on = runs.where(lambda run: run.factors["server"] == _SERVER)
    top, bottom = on.pairs("seconds", *row.claim.sides)
    assert row.parts[0].interval == stats.robust_ratio(top, bottom)


def test_the_verdict_of_all_follows_from_interval_and_bounds(found: ReportComparison) -> None:
    outcomes = set()
    for row in found.together:
        assert row.pooled
        low, high = row.pooled.interval.low, row.pooled.interval.high
        wanted = "inconclusive"
        if row.bounds[0] <= low and high <= row.bounds[1]:
            wanted = "reproduced"
        elif high < row.bounds[0] or low > row.bounds[1]:
            wanted = "contradicted"
        assert row.outcome == wanted, row.claim.id
        outcomes.add(row.outcome)
    assert len(outcomes) == 3, "the fixture shows each of them"


def test_a_withheld_estimate_is_shown_and_does_not_enter(hosts: list[Path], tmp_path: Path) -> None:
    withheld = copied(tmp_path, "2026-02-09-1", 9)

    def withhold(verdicts: list[Body]) -> None:
        for verdict in verdicts:
            if (verdict["claim"], verdict["server"]) == (_CLAIM, _SERVER):
                verdict.update(verdict="withheld", reason="the machine drifted")

    change(withheld, "verdicts.json", withhold)
    with_, without = (_row(compare.compare(of)) for of in ([*hosts, withheld], hosts))
    assert with_.pooled == without.pooled
    last = with_.parts[-1]
    assert last.interval
    assert str(last.why_not) == "withheld: the machine drifted"
    assert with_.weight(last) is None
    assert with_.weight(with_.parts[0]) == pytest.approx(0.2)


def _with(run: Run, metric: str, value: float) -> Run:
    """Return a run that has another value wherever it has a metric."""
    rows = [{**row, metric: value} if metric in row else row for row in run.observations]
    return run.model_copy(update={"observations": rows})


def test_a_value_that_every_run_shows_has_students_interval() -> None:
    study = studies.find("compressed-insert")
    [claim] = [one for one in study.claims() if one.id == "H5-place"]
    runs = study.read(folders.finished(study.name)[-1]).valid
    of = runs.where(lambda run: run.factors["server"] == "mysql-5.6.24")
    assert isinstance(claim.measure, Quantity) and claim.measure.censored_by
    known = claim.measure.censored_by
    is_shown = of.values(known, **claim.sides[0])
    whole = of.where(lambda run: is_shown.get(run.block) == 1)
    block = min(run.block for run in whole.runs)
    one_hidden = [_with(run, known, 0.0) if run.block == block else run for run in whole.runs]
    hidden = RunSet(one_hidden, whole.variables, whole.within)
    judged = {"verdict": "inconclusive"}
    some, all_ = (
        claims_together.part_of("one", judged, claim, each, study.published(), study.kind.units)
        for each in (hidden, whole)
    )
    assert (some.is_students, all_.is_students) == (False, True)
    assert all_.why_not is None


def test_undecided_reports_enter(found: ReportComparison) -> None:
    rows = [row for row in found.together if row.parts[0].outcome == "inconclusive"]
    assert rows
    assert all(len(row.entered) == 5 for row in rows)


def test_what_has_no_interval_is_listed_with_its_verdicts(found: ReportComparison) -> None:
    largest = _row(found, "F3")
    assert largest.pooled is None
    assert [part.outcome for part in largest.parts] == ["reproduced"] * 5
    assert str(largest.parts[0].why_not) == "a largest value has no interval"
    assert largest not in found.together


def test_shares_enter_as_they_are(found: ReportComparison) -> None:
    row = _row(found, "F4-kept")
    assert not row.on_logs
    assert row.pooled
    assert 0 <= row.pooled.interval.low <= row.pooled.interval.high <= 1


def test_a_claim_that_one_report_lacks_is_said(hosts: list[Path], tmp_path: Path) -> None:
    other = copied(tmp_path, "2026-02-09-1", 9)

    def one_build(verdicts: list[Body]) -> None:
        verdicts[:] = [verdict for verdict in verdicts if verdict["server"] != _SERVER]

    change(other, "verdicts.json", one_build)
    row = _row(compare.compare([*hosts, other]))
    assert row.parts[-1].outcome == "none"
    assert str(row.parts[-1].why_not) == "the report has no such claim or server"
    assert row.pooled
    assert row.pooled.interval.n == 5


def test_two_reports_are_not_taken_together_and_the_reason_is_said(
    two: tuple[Path, Path],
) -> None:
    found = compare.compare(two)
    row = _row(found)
    assert row.pooled is None
    assert (row.outcome, found.together) == ("not-run", [])
    assert "2 of 2 reports can enter a meta-analysis, which takes 3" in str(row.reason)
    assert "a meta-analysis takes 3 reports or more" in found.can_say


def test_reports_of_one_host_say_so(two: tuple[Path, Path], tmp_path: Path) -> None:
    found = compare.compare([*two, copied(tmp_path, "2026-02-03-1", 3)])
    assert "3 reports leave 2 degrees of freedom" in found.can_say
    assert "reaches 4.3 standard errors" in found.can_say
    assert "all are of one host" in found.can_say


def test_what_differs_has_a_value_for_each_report(found: ReportComparison) -> None:
    [kernel] = [one for one in found.differences if one.kind == "host"]
    assert kernel.name == "kernel"
    assert kernel.values == ("6.1", "6.2", "6.3", "6.4", "6.5")
    assert "of one host" not in found.can_say


def test_efforts_may_differ(two: tuple[Path, Path]) -> None:
    study = studies.find(STUDY)

    def smoke(body: Body) -> None:
        body["parameters"]["effort"] = "smoke"
        body["spec_sha256"] = Experiment.fresh(study, body["parameters"]).spec_sha256

    for file in ("plan.json", "manifest.json"):
        change(two[1], file, smoke)
    assert Plan.read(two[0]).spec_sha256 != Plan.read(two[1]).spec_sha256
    found = compare.compare(two)
    [effort] = [one for one in found.differences if one.name == "effort"]
    assert effort.values[1] == "smoke"


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("rows", 10_000_000, "rows is 5000000 and 10000000"),
        ("scale", "smoke", "scale is quick and smoke"),
        ("devices", ["host"], "devices is ['host', 's3-disk'] and ['host']"),
    ],
)
def test_what_measured_other_things_is_refused(
    two: tuple[Path, Path], name: str, value: Any, says: str
) -> None:
    study = studies.find(STUDY)

    def other(body: Body) -> None:
        body["parameters"][name] = value
        body["spec_sha256"] = Experiment.fresh(study, body["parameters"]).spec_sha256

    change(two[1], "plan.json", other)
    said = _refused(*two)
    assert says in said
    assert "2026-02-01-1 and 2026-02-02-1 measured different things" in said


def test_a_revised_study_is_refused(two: tuple[Path, Path]) -> None:
    change(two[1], "manifest.json", lambda body: body.update(study_revision=9))
    assert "the study's revision is 1 and 9" in _refused(*two)


def test_a_device_that_changed_is_refused(two: tuple[Path, Path]) -> None:
    change(two[0], "plan.json", lambda body: body.update(spec_sha256="0" * 64))
    assert "2026-02-01-1 was measured by another definition" in _refused(*two)


def test_a_report_of_other_claims_is_judged_by_todays(two: tuple[Path, Path]) -> None:
    before = compare.compare(two)
    change(two[1], "manifest.json", lambda body: body.update(claims_sha256="0" * 64))
    found = compare.compare(two)
    assert found.members[1].verdicts == before.members[1].verdicts
    [said] = [one for one in found.differences if one.name == "claims when it was sealed"]
    assert said.values[1] == "0" * 9
    assert not said.judges
    assert "claims when it was sealed" in found.header


def test_a_report_of_another_effort_compares(two: tuple[Path, Path]) -> None:
    study = studies.find(STUDY)

    def shorter(body: Body) -> None:
        body["parameters"]["effort"] = "smoke"
        body["spec_sha256"] = Experiment.fresh(study, body["parameters"]).spec_sha256

    change(two[1], "plan.json", shorter)
    # The first is of an older definition too: digests of two efforts cannot say so.
    change(two[0], "plan.json", lambda body: body.update(spec_sha256="0" * 64))
    assert "(smoke) over" in compare.compare(two).header


def test_another_study_is_refused(two: tuple[Path, Path]) -> None:
    said = _refused(two[0], reference("access-paths"))
    assert "is of multi-buffer-pool and" in said
    assert "access-paths" in said


def test_one_report_alone_is_refused(two: tuple[Path, Path]) -> None:
    assert "1 is named" in _refused(two[0])


def test_runs_that_would_count_twice_are_refused(two: tuple[Path, Path], tmp_path: Path) -> None:
    runs = len(compare.compare(two).members[0].runs.runs)
    assert f"have {runs} runs in common" in _refused(two[0], two[0])
    # Rendered again: another version, verdicts and time, but the same runs. Two can be compared.
    again = shutil.copytree(two[0], tmp_path / STUDY / "2026-03-01-1")
    change(again, "manifest.json", lambda body: body.update(rendered_from=two[0].name))
    assert "2026-02-01-1 and 2026-03-01-1 have" in _refused(two[0], two[1], again)
    assert f"{runs} of them the same" in compare.compare([two[0], again]).header


@pytest.mark.parametrize("file", ["runs.jsonl", "verdicts.json", "plan.json"])
def test_a_damaged_report_is_refused(two: tuple[Path, Path], file: str) -> None:
    path = two[1] / file
    text = path.read_text()
    path.write_text(text.replace("0", "1", 1))
    assert f"{file}: changed after the report was sealed" in _refused(*two)
    path.unlink()
    assert f"{file}: missing" in _refused(*two)


def test_a_manifest_that_names_no_host_is_refused(two: tuple[Path, Path]) -> None:
    change(two[1], "manifest.json", lambda body: body.update(hosts=[]))
    assert "hosts or builds is damaged" in _refused(*two)


def test_values_without_a_ratio_are_refused(two: tuple[Path, Path]) -> None:
    def beyond(run: Body) -> None:
        for row in run["observations"]:
            if "seconds" in row:
                row["seconds"] = 1e-300 if run["factors"]["pool"] == "128M" else 1e300

    change_runs(two[1], beyond)
    assert "cannot be compared" in _refused(*two)


def test_a_report_with_a_link_is_refused(two: tuple[Path, Path]) -> None:
    (two[1] / "notes").symlink_to("/etc/hostname")
    assert "it is a link" in _refused(*two)


def test_people_who_measure_on_one_day_keep_their_names(tmp_path: Path) -> None:
    places = [tmp_path / person for person in ("ada", "bob")]
    found = compare.compare(
        [copied(place, "2026-02-01-1", day) for day, place in enumerate(places, 1)]
    )
    assert [member.name for member in found.members] == ["2026-02-01-1 (1)", "2026-02-01-1 (2)"]


@pytest.fixture(scope="module")
def page(hosts: list[Path], found: ReportComparison) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INNOLAB_REPORTS", str(hosts[0].parent.parent))
        yield compare_page.write(found)


def _words(page: str) -> str:
    without = re.sub(r"<(style|svg)\b.*?</\1>", "", page, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", without).split())


def test_a_page_begins_with_what_all_say(
    found: ReportComparison, page: Path, hosts: list[Path]
) -> None:
    text = page.read_text()
    top = _words(text)[:2500]
    assert found.summary in top
    assert "Together the reports show" in found.summary
    assert found.can_say in top
    row = _row(found)
    assert row.pooled
    assert (
        f"{_CLAIM} {_SERVER} {compare.estimate_text(row.pooled.interval)} {row.outcome}"
        in _words(text)
    )
    for report in hosts:
        assert f'href="../../{report.name}/index.html"' in text


def test_a_page_has_a_forest_for_each_claim_with_its_values(
    found: ReportComparison, page: Path
) -> None:
    claims = {row.claim.id for row in found.claims if forest_plot.is_drawable(row)}
    assert {row.claim.id for row in found.together} <= claims
    text = page.read_text()
    assert text.count('<figure id="forest-') == len(claims)
    values = pd.read_csv(page.parent / "figures" / f"forest-{_CLAIM}.csv")
    of = values[values["server"] == _SERVER].set_index("report")
    row = _row(found)
    assert row.pooled
    assert row.pooled.predicted
    assert len(of) == 7
    for name, wanted in (
        (forest_plot.TOGETHER, row.pooled.interval), (forest_plot.FURTHER, row.pooled.predicted),
        (found.members[1].name, row.parts[1].interval),
    ):  # fmt: skip
        assert wanted
        for end in ("estimate", "low", "high"):
            assert of.loc[name, end] == pytest.approx(getattr(wanted, end), rel=1e-5)
    assert of["weight_share"].sum() == pytest.approx(1, abs=1e-5)


def test_a_page_loads_nothing_and_its_links_are_there(page: Path) -> None:
    text = re.sub(r"<svg.*?</svg>", "", page.read_text(), flags=re.DOTALL)
    assert not re.search(r"<(link|img)\b|\bsrc=|url\(|@import", text)
    assert re.findall("<script[^>]*>", text) == ["<script>"], "the one that its policy names"
    for target in re.findall(r'href="#([^"]+)"', text):
        assert f'id="{target}"' in text
    for target in re.findall(r'href="([^#"][^"]*)"', text):
        if not target.endswith("index.html"):
            assert (page.parent / target).exists() or target.endswith(".html"), target


def test_the_same_reports_in_any_order_have_one_page(
    hosts: list[Path], page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INNOLAB_REPORTS", str(hosts[0].parent.parent))
    assert compare_page.place(compare.compare(hosts[::-1])) == page.parent
    assert compare_page.place(compare.compare(hosts[1:])) != page.parent


def test_the_list_of_reports_links_to_it(
    hosts: list[Path], page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INNOLAB_REPORTS", str(hosts[0].parent.parent))
    text = index.write().read_text()
    [link, name] = re.findall(r'Side by side: <a href="([^"]+)">([^<]+)</a>', text)[0]
    assert (hosts[0].parent.parent / link) == page
    assert name.startswith("5 reports (")


def test_a_wide_interval_does_not_push_the_reports_together(
    two: tuple[Path, Path], tmp_path: Path
) -> None:
    three = [*two, copied(tmp_path, "2026-02-03-1", 3)]
    change_runs(three[1], _shift(0.9))
    row = _row(compare.compare(three))
    assert row.pooled
    low, high = forest_plot.shown_range(row)
    own = [part.interval for part in row.parts if part.interval]
    assert low < min(of.low for of in own)
    assert high > max(of.high for of in own)
    assert math.log(high / low) < 2.2 * math.log(
        max(*row.bounds, *(of.high for of in own)) / min(*row.bounds, *(of.low for of in own))
    )


def test_the_text_has_a_line_for_each_claim(found: ReportComparison) -> None:
    said = compare.lines(found)
    [line] = [line for line in said if line.startswith(f"{_CLAIM} on {_SERVER}:")]
    assert "by 5 reports" in line
    assert "on a host like these" in line
    kernels = "6.1, then 6.2, then 6.3, then 6.4, then 6.5"
    assert said[0] == found.header
    assert any(f"host kernel is {kernels}, on all arms." in line for line in said)
    assert said[-2:] == [found.summary, found.can_say]


def test_the_command_refuses_in_one_paragraph(innolab: Innolab, tmp_path: Path) -> None:
    alone = innolab("compare", str(reference(STUDY)), INNOLAB_REPORTS=str(tmp_path))
    assert alone.returncode == 2
    assert "A comparison takes two reports" in alone.stderr
    assert alone.stdout == ""
    both = str(reference(STUDY))
    twice = innolab("compare", both, both, "--html", INNOLAB_REPORTS=str(tmp_path))
    assert twice.returncode == 2
    assert "Traceback" not in twice.stderr
    assert list(tmp_path.iterdir()) == []


def test_my_newest_report_is_compared_with_the_shipped_reference(
    innolab: Innolab, tmp_path: Path
) -> None:
    mine = copied(tmp_path, "2026-12-01-1", 3)
    done = innolab("compare", INNOLAB_REPORTS=str(tmp_path))
    assert done.returncode == 0, done.stderr
    header = done.stdout.splitlines()[0]
    assert header.startswith(f"{STUDY}: {mine.name} (")
    assert f"over {reference(STUDY).name} (the shipped reference, " in header


def test_without_a_report_of_mine_compare_says_what_to_do(innolab: Innolab, tmp_path: Path) -> None:
    done = innolab("compare", INNOLAB_REPORTS=str(tmp_path))
    assert done.returncode == 2
    assert "There is no report of yours" in done.stderr
