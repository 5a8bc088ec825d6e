"""`--json` prints one document with the keys that docs/json.md names, and nothing else."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Innolab, reference, todays
from copied_reports import change, copied
from pydantic import BaseModel
from typer.testing import CliRunner

from innolab import cli, studies
from innolab.cli import compared_document, documents, judged_document
from innolab.sizing import size_document
from innolab.studies.experiment import Experiment
from innolab.verify import verify
from innolab.verify.verify import Findings

_BY_VERB: dict[str, type[BaseModel]] = {
    "list": documents.Listed,
    "doctor": documents.Doctor,
    "plan": documents.Planned,
    "verify": documents.Verified,
    "compare": compared_document.Compared,
    "judge": judged_document.Judged,
    "size": size_document.SizeDocument,
}


def _document(verb: str, *words: str) -> Any:
    """Return what a verb prints, run in this process, checked against its model."""
    done = CliRunner().invoke(cli.app, [verb, *words, "--json"], catch_exceptions=True)
    body = json.loads(done.stdout)
    _BY_VERB[verb].model_validate(body, strict=True, extra="forbid")
    return body


def _keys(body: Any) -> set[str]:
    if isinstance(body, dict):
        return set(body) | set().union(*map(_keys, body.values()))
    return set().union(*map(_keys, body)) if isinstance(body, list) else set()


def test_every_key_is_in_the_document_of_keys() -> None:
    text = (ROOT / "docs" / "json.md").read_text()
    for verb, model in _BY_VERB.items():
        section = text[text.index(f"## {verb}\n") :].split("\n## ")[0]
        named = set(re.findall(r"`([a-z_]+)(?:\[\])?`", section))
        schema = model.model_json_schema()
        parts = [schema, *schema.get("$defs", {}).values()]
        keys = {key for part in parts for key in part["properties"]}
        assert keys <= named, f"{verb}: {keys - named}"


def test_studies_and_reports_are_listed() -> None:
    body = _document("list")
    assert [study["name"] for study in body["studies"]] == studies.names()
    reports = [report for study in body["studies"] for report in study["reports"]]
    name = f"multi-buffer-pool/{reference('multi-buffer-pool').name}"
    assert {"name": name, "finished": True, "is_reference": True} in reports


def test_a_doctor_says_whether_the_host_is_ready() -> None:
    body = _document("doctor")
    assert body["ready"] == all(f["result"] != "missing" for f in body["findings"])
    assert {"memory", "disk"} <= {f["name"] for f in body["findings"]}


def test_a_plan_has_its_trials_and_times_as_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    # A plan that was made once: no server needs to be installed.
    recorded = Experiment.read(todays("multi-buffer-pool"))
    ready = recorded.with_plan(unavailable={"mysql-8.0": "it is not packaged"})
    monkeypatch.setattr("innolab.measure.prepare.prepare", lambda *_: ready)
    body = _document("plan", "multi-buffer-pool")
    assert body["parameters"] == ready.plan.parameters
    assert body["blocks_first"] <= body["blocks_in_time"] <= body["blocks_last"]
    assert 0 < body["time"]["first_verdicts_s"] < body["time"]["most_s"]
    assert body["trials"][0]["position"] == 0
    assert {trial["block"] for trial in body["trials"]} == set(range(1, body["blocks_last"] + 1))
    powers = [c["power_share"] for c in body["claims"] if c["power_share"] is not None]
    assert powers
    assert all(0 <= power <= 1 for power in powers)
    assert body["not_run"] == {"mysql-8.0": "it is not packaged"}


def test_a_report_that_holds_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        verify,
        "verify",
        lambda *_, **__: Findings([], ["It is not signed."], page="checked"),
    )
    body = _document("verify", str(todays("multi-buffer-pool")))
    assert body["holds"] is True
    assert body["faults"] == []
    assert body["notes"] == ["It is not signed."]
    assert body["limits"] == verify.LIMITS


def test_a_report_that_does_not_hold_is_a_document_and_a_paragraph(
    innolab: Innolab, tmp_path: Path
) -> None:
    report = tmp_path / "2026-02-14-1"
    shutil.copytree(todays("multi-buffer-pool"), report)
    (report / "verdicts.json").write_text("[]")
    done = innolab("verify", str(report), "--json")
    assert done.returncode == 1
    body = json.loads(done.stdout)
    assert body["holds"] is False
    assert body["faults"] == ["verdicts.json: changed after the report was sealed"]
    assert body["folder"] == str(report)
    assert "does not hold: 1 fault" in done.stderr


def test_bad_input_prints_no_document(innolab: Innolab) -> None:
    done = innolab("compare", "a", "b", "--json")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "There is no report 'a'" in done.stderr


def test_a_comparison_has_ratios_and_verdicts_as_numbers(tmp_path: Path) -> None:
    other = copied(tmp_path, "2026-02-14-1", 1)
    change(other, "manifest.json", lambda body: body["hosts"][0].update(kernel="0.0.1"))

    turned: list[tuple[str, str]] = []

    def turn(verdicts: Any) -> None:
        verdict = next(v for v in verdicts if v["verdict"] == "reproduced" and v["estimate"])
        verdict["verdict"] = "contradicted"
        turned.append((verdict["claim"], verdict["server"]))

    change(other, "verdicts.json", turn)
    found = _document("compare", str(reference("multi-buffer-pool")), str(other))
    assert {ratio["estimate"] for ratio in found["ratios"]} == {1.0}
    [changed] = [row for row in found["verdicts"] if (row["claim"], row["server"]) in turned]
    assert not changed["same"]
    assert changed["turned"] is True
    assert changed["first"]["verdict"] == "reproduced"
    assert changed["reports"] == [changed["first"], changed["second"]]
    [difference] = found["differences"]
    assert changed["may_be_explained_by"] == [0]
    assert (difference["kind"], difference["name"]) == ("host", "kernel")
    assert difference["values"] == [difference["first"], "0.0.1"]
    assert {row["verdict"] for row in found["claims"]} == {"not-run"}, "of two"
    assert not _keys(found) - _keys_of(compared_document.Compared)


def test_three_reports_have_estimates_of_all_as_numbers(tmp_path: Path) -> None:
    kept = sorted((ROOT / "reports" / "multi-buffer-pool").glob("*/manifest.json"))[-2:]
    reports = [*(path.parent for path in kept), copied(tmp_path, "2026-02-14-1", 1)]
    body = _document("compare", *map(str, reports))
    assert [report["name"] for report in body["reports"]] == [path.name for path in reports]
    assert all(len(one["values"]) == 3 for one in body["differences"])
    together = [claim for claim in body["claims"] if claim["estimate"] is not None]
    assert together
    for claim in together:
        assert claim["low"] <= claim["estimate"] <= claim["high"]
        assert claim["predicted_low"] <= claim["low"]
        assert claim["reports_pooled"] == 3
        weights = [part["weight_share"] for part in claim["reports"]]
        assert sum(weights) == pytest.approx(1)
    assert {claim["scale"] for claim in together} == {"log", "plain"}


def _keys_of(model: type[BaseModel]) -> set[str]:
    schema = model.model_json_schema()
    return {key for part in [schema, *schema["$defs"].values()] for key in part["properties"]}


def test_a_judged_table_has_its_rankings_as_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INNOLAB_REPORTS", str(tmp_path))
    table = ROOT / "data" / "judged" / "percona-buffer-pool-2026"
    about, claims = f"{table}.yml", f"{table}-claims.yml"
    body = _document("judge", f"{table}.csv", "--about", about, "--claims", claims)
    assert Path(body["page"]).is_file()
    assert {one["metric"] for one in body["rankings"]} == {"nopm", "tpm"}
    assert len(body["rankings"]) == 22
    first = body["rankings"][0]
    assert first["at"] == {"pool_gib": 10, "virtual_users": 80}
    assert first["lead"]["low"] < first["lead"]["estimate"] < first["lead"]["high"]
    assert first["order"][0]["level"] == first["lead"]["of"]
    assert [one["borrowed"] for one in body["spreads"]] == [False, False]
    verdicts = {one["verdict"] for one in body["claims"]}
    assert verdicts == {"reproduced", "contradicted", "inconclusive"}
