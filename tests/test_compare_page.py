"""A reviewer finds what changed between two reports, and what may explain it, near the top."""

import hashlib
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from math import nan
from pathlib import Path

import pandas as pd
import pytest
from conftest import Innolab, reference
from copied_reports import STUDY as _STUDY
from copied_reports import Body, change, copied, reseal

from innolab import studies
from innolab.analysis.claims_together import PooledClaim
from innolab.analysis.stats import Interval
from innolab.compare import compare, compare_page, report_differences
from innolab.compare.compare import ReportComparison
from innolab.compare.members import Member
from innolab.record.plan import Plan
from innolab.record.run import arm_text
from innolab.report import manifest

_SERVER = "mysql-9.7"
_PLANTED = "innodb_flush_neighbors"


@pytest.fixture
def other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of a recorded report, as a second one that was measured later."""
    monkeypatch.setenv("INNOLAB_REPORTS", str(tmp_path))
    return copied(tmp_path, "2026-02-14-1", 1)


def _plant(report: Path, value: str, chosen: Callable[[Body], bool]) -> None:
    """Let the servers of some runs have another value of a variable in force."""
    lines = [json.loads(line) for line in (report / "runs.jsonl").read_text().splitlines()]
    for run in [line for line in lines if "factors" in line and chosen(line["factors"])]:
        path = report / "variables" / f"{run['conditions']['variables']}.json"
        text = json.dumps({**json.loads(path.read_text()), _PLANTED: value}, indent=0) + "\n"
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        (report / "variables" / f"{digest}.json").write_text(text)
        run["conditions"]["variables"] = digest
    (report / "runs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    reseal(report)


def _turn(report: Path, server: str = _SERVER) -> str:
    """Turn the verdict of one claim about the large pool, and return its id."""
    verdicts = json.loads((report / "verdicts.json").read_text())
    turned = next(
        v for v in verdicts
        if v["server"] == server and v["claim"] == "F2-warm-8v128M" and v["low"] is not None
    )  # fmt: skip
    turned["verdict"] = "reproduced" if turned["verdict"] != "reproduced" else "contradicted"
    (report / "verdicts.json").write_text(json.dumps(verdicts))
    reseal(report)
    return str(turned["claim"])


def _compared(other: Path) -> ReportComparison:
    return compare.compare([reference(_STUDY), other])


class _Text(HTMLParser):
    """The words of a page in their order, without those of styles and pictures."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self._hidden, self.words = 0, ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in ("style", "svg", "title")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("style", "svg", "title")

    def handle_data(self, data: str) -> None:
        self.words += "" if self._hidden else f" {data.strip()}"


def test_a_planted_setting_and_what_it_may_explain_stand_near_the_top(other: Path) -> None:
    _plant(other, "1", lambda factors: factors["server"] == _SERVER)
    claim = _turn(other)
    page = compare_page.write(_compared(other)).read_text()
    text = " ".join(_Text(page).words.split())
    # About as much as a screen shows: a reader needs half a minute for it.
    top = text[:1500]
    assert f"setting {_PLANTED} 0 1 all arms of {_SERVER} {claim} ({_SERVER})" in top
    rows = re.findall(r"<tr>.*?</tr>", page[page.index('id="differences"') :], re.DOTALL)
    assert _PLANTED in rows[1], "the first difference of all"
    target = re.search(rf'href="#([^"]+)">{claim}<', page)
    assert target
    assert f'<tr id="{target[1]}">' in page
    assert f"May be explained by: setting {_PLANTED}" in text


def test_a_setting_is_named_where_nothing_changed_too(other: Path) -> None:
    _plant(other, "1", lambda factors: factors["server"] == _SERVER)
    page = compare_page.write(_compared(other)).read_text()
    top = " ".join(_Text(page).words.split())[:1500]
    assert f"setting {_PLANTED} 0 1 all arms of {_SERVER} none" in top
    assert "unchanged: F1-" in top, "the claims on its arms"


def test_a_setting_of_some_arms_explains_no_claim_about_others(other: Path) -> None:
    _plant(other, "1", lambda f: f["server"] == _SERVER and f["pool"] == "128M")
    claim = _turn(other)
    found = _compared(other)
    [difference] = found.differences
    assert difference.where.endswith("pool 128M")
    assert [one.name for one in found.touching(_row(found, claim, _SERVER))] == [_PLANTED]
    elsewhere = next(
        row for row in found.claims
        if row.server == _SERVER
        and all(side.get("pool") not in (None, "128M") for side in row.claim.sides)
        and row.claim.sides
    )  # fmt: skip
    assert found.touching(elsewhere) == []
    assert found.touching(_row(found, claim, "mysql-5.6.24")) == []


def _row(found: ReportComparison, claim: str, server: str) -> PooledClaim:
    return next(row for row in found.claims if (row.claim.id, row.server) == (claim, server))


def test_a_report_measured_again_in_the_same_way_differs_in_nothing(other: Path) -> None:
    found = _compared(other)
    assert found.differences == []
    assert found.changed == []
    page = compare_page.write(found).read_text()
    assert "Nothing that the reports record" in page
    assert "has a series in all of them" in page


def test_a_build_explains_claims_on_it_alone(other: Path) -> None:

    def another(body: Body) -> None:
        body["builds"][_SERVER]["sha256"] = "0" * 64
        body["parameters"]["seed"] = 1

    change(other, "manifest.json", another)
    found = _compared(other)
    kinds = {
        server: [one.kind for one in found.touching(_row(found, "F2-warm-8v128M", server))]
        for server in (_SERVER, "mysql-5.6.24")
    }
    assert kinds == {_SERVER: ["build", "parameter"], "mysql-5.6.24": ["parameter"]}


def test_noise_alone_is_said_to_be_possible_where_intervals_overlap(other: Path) -> None:
    claim = _turn(other)
    assert "may be noise alone" in _explained(other, claim)
    for low, high, says in ((1000.0, 2000.0, "do not overlap"), (None, None, "no interval")):
        verdicts = json.loads((other / "verdicts.json").read_text())
        for verdict in verdicts:
            if (verdict["claim"], verdict["server"]) == (claim, _SERVER):
                verdict.update(low=low, high=high)
        (other / "verdicts.json").write_text(json.dumps(verdicts))
        reseal(other)
        assert says in _explained(other, claim)


def _explained(other: Path, claim: str) -> str:
    found = _compared(other)
    return compare_page.explained(found, _row(found, claim, _SERVER))


def test_one_value_alone_leaves_nothing_out() -> None:
    whole = Interval(2.0, 1.5, 2.5, 3)
    ratios = [compare.Ratio("", "", "", of, ()) for of in (whole, Interval(2.0, nan, nan, 1))]
    assert [ratio.differs for ratio in ratios] == [True, False]


def test_the_text_names_settings_too(other: Path) -> None:
    _plant(other, "1", lambda factors: factors["server"] == _SERVER)
    header, line = [line for line in compare.lines(_compared(other)) if _PLANTED in line]
    assert header.endswith(f"They differ in: {_PLANTED} (0, then 1).")
    assert line == (
        f"Not the same besides what was measured: setting {_PLANTED} is 0, then 1, on all arms of "
        f"{_SERVER}."
    )


def test_series_of_the_arms_that_differ_are_drawn_over_each_other(other: Path) -> None:
    claim = _turn(other)
    found = _compared(other)
    page = compare_page.write(found)
    values = pd.read_csv(page.parent / "figures" / "by-second.csv")
    assert set(values["report"]) == {reference(_STUDY).name, other.name}
    assert 1 <= values["arm"].nunique() <= 12
    sides = _row(found, claim, _SERVER).claim.sides
    expected = {
        f"{_SERVER}: {arm_text(run)}"
        for run in found.members[0].runs.valid.runs
        for side in sides
        if run.factors["server"] == _SERVER
        and report_differences.is_side(report_differences.key_of(run.factors), side)
    }
    assert expected
    assert expected <= set(values["arm"])
    for _, line in values.groupby(["arm", "report"]):
        assert line["median"].is_monotonic_increasing
        assert line["median"].iloc[0] == 0
    assert (values["least"] <= values["median"]).all()
    assert (values["median"] <= values["greatest"]).all()
    assert 'id="by-second"' in page.read_text()


def test_the_two_recorded_reports_of_the_scan_are_explained() -> None:
    kept = sorted(reference(_STUDY).parent.glob(f"*/{manifest.folders.MANIFEST_FILE}"))[:2]
    found = compare.compare([path.parent for path in kept])
    assert found.changed
    # One recorded some variables of the server that the other did not.
    settings = [one for one in found.differences if one.kind == "setting"]
    assert all("not there" in one.values for one in settings)
    kinds = {"parameter", "code", "host", "build", "setting"}
    for row in found.changed:
        assert {one.kind for one in found.touching(row)} <= kinds
        assert compare.overlap(row) is not None


def test_windows_of_other_lengths_are_a_difference() -> None:
    folder = reference("more-memory")
    study = studies.find("more-memory")
    first, second = (
        Member(name, folder, manifest.read(folder), Plan.read(folder), study.read(folder), [])
        for name in ("first", "second")
    )
    for run in (run for run in second.runs.runs if run.factors["load"] == "read_write"):
        run.conditions["steady"][0]["window_s"] += 1
    found = [
        one for one in report_differences.between(study, [first, second]) if one.name != "runs"
    ]
    assert {one.server for one in found} == {run.factors["server"] for run in first.runs.runs}
    for one in found:
        assert (one.kind, one.name) == ("length", "of windows")
        assert one.where.endswith("load read_write")
        assert {dict(arm)["load"] for arm in one.arms or ()} == {"read_write"}


def test_a_page_shows_which_verdicts_turned(other: Path, innolab: Innolab) -> None:
    claim = _turn(other)
    reports = other.parent.parent
    env = {"INNOLAB_REPORTS": str(reports)}
    done = innolab("compare", str(reference(_STUDY)), str(other), "--html", **env)
    assert done.returncode == 0, done.stderr
    path = Path(done.stdout.strip())
    page = path.read_text()
    assert "1 turned from reproduced to contradicted or back" in page
    changed = page[page.index("Verdicts that changed") : page.index(">The reports</h2>")]
    assert changed.count("Turned round.") == 1
    assert f">{claim}</a>" in changed
    front = Path(innolab("index", **env).stdout.strip()).read_text()
    assert path.relative_to(reports).as_posix() in front
