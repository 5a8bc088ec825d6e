"""What leaves the project is what the standards' own tools accept."""

import copy
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
import standards_venv
from conftest import BIN, ROOT, reference

from innolab import studies
from innolab.record.plan import Plan
from innolab.report import crate, folders, manifest, project

pytestmark = pytest.mark.integration

_CONTEXT = ROOT / "tests" / "standards" / "ro-crate-1.1-context.json"
REFERENCES = sorted(p.parent for p in (ROOT / "reports").glob("*/*/" + folders.MANIFEST_FILE))


@pytest.fixture(scope="session")
def tools() -> Path:
    """The folder of the tools' commands, which the first test that asks for it installs."""
    return standards_venv.bin_folder()


@pytest.fixture(scope="session")
def validated(
    tools: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Path], dict[str, Any]]:
    """Validate a report as a Process Run Crate; without a network, its context from a file.

    The file has those terms of the specification's context that innolab uses: a term that it lacks
    is a finding.
    """
    cache = tmp_path_factory.mktemp("ro-crate") / "cache"
    keep = ROOT / "tests" / "standards" / "keep_context.py"
    subprocess.run([tools / "python", keep, cache, _CONTEXT], check=True)

    def validate(report: Path) -> dict[str, Any]:
        out = report.parent / "validated.json"
        done = subprocess.run(
            [tools / "rocrate-validator", "-y", "validate", "--offline", "--cache-path", cache,
             "--profile-identifier", "process-run-crate", "--requirement-severity", "REQUIRED",
             "--output-format", "json", "--output-file", out, report],
            capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"},
        )  # fmt: skip
        assert out.exists(), done.stdout + done.stderr
        return dict(json.loads(out.read_text()), status=done.returncode)

    return validate


def _crated(kept: Path, folder: Path) -> Path:
    """Return a copy of a report with the crate that sealing it today would write."""
    report = folder / kept.name
    shutil.copytree(kept, report)
    study = studies.find(Plan.read(report).study)
    crate.write(study, report, study.read(report).runs, manifest.digests(report))
    return report


@pytest.fixture
def crated(tmp_path: Path) -> Path:
    return _crated(reference("multi-buffer-pool"), tmp_path)


def _entities(report: Path) -> dict[str, dict[str, Any]]:
    graph = json.loads((report / crate.CRATE_FILE).read_text())["@graph"]
    assert len({entity["@id"] for entity in graph}) == len(graph)
    return {entity["@id"]: entity for entity in graph}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _issues(found: dict[str, Any]) -> list[str]:
    return [issue["message"] for issue in found["issues"]]


def test_a_report_is_a_process_run_crate(
    crated: Path, validated: Callable[[Path], dict[str, Any]]
) -> None:
    found = validated(crated)
    assert _issues(found) == []
    assert found["passed"] is True
    assert found["status"] == 0


@pytest.mark.thorough
@pytest.mark.parametrize("kept", REFERENCES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_every_report_is_a_process_run_crate(
    kept: Path, tmp_path: Path, validated: Callable[[Path], dict[str, Any]]
) -> None:
    assert _issues(validated(_crated(kept, tmp_path))) == []


@pytest.mark.parametrize("fault", ["no instrument", "no licence", "a file that is not there"])
def test_the_validator_finds_what_is_no_such_crate(
    crated: Path, validated: Callable[[Path], dict[str, Any]], fault: str
) -> None:
    body = json.loads((crated / crate.CRATE_FILE).read_text())
    by_id = {entity["@id"]: entity for entity in body["@graph"]}
    if fault == "no instrument":
        del by_id["#measuring"]["instrument"]
    elif fault == "no licence":
        del by_id["./"]["license"]
    else:
        (crated / "verdicts.json").unlink()
    (crated / crate.CRATE_FILE).write_text(json.dumps(body))
    assert _issues(validated(crated))


def test_a_crate_names_every_file_with_its_digest_and_what_made_them(crated: Path) -> None:
    entities = _entities(crated)
    described = {e["name"]: e for e in entities.values() if e["@type"] == "File"}
    digests = manifest.digests(crated)
    del digests[crate.CRATE_FILE]
    assert described.keys() == {*digests, folders.MANIFEST_FILE}
    assert {name: described[name]["sha256"] for name in digests} == digests
    assert not [e for e in described.values() if e["encodingFormat"] == "application/octet-stream"]
    runs = studies.find("multi-buffer-pool").read(crated).runs
    action = entities["#measuring"]
    assert action["startTime"] == min(run.started_at for run in runs)
    assert action["endTime"] == max(run.ended_at for run in runs)
    programs = [entities[one["@id"]] for one in _listed(action["instrument"])]
    assert [p["softwareVersion"] for p in programs] == ["0.2.0"]
    commit = runs[0].conditions["innolab"]["commit"]
    assert [p["identifier"] for p in programs] == [f"git commit {commit}"]
    read = {"#notebook", "plan.json", "rules.json", "claims.yml", "published.csv"}
    assert read <= {one["@id"] for one in action["object"]}
    assert entities["./"]["license"] == {"@id": "https://spdx.org/licenses/MIT"}
    assert [entities[one["@id"]]["name"] for one in _listed(entities["./"]["author"])] == [
        author.name for author in project.own().authors
    ]


def test_every_reference_of_a_crate_leads_to_one_of_its_entities(crated: Path) -> None:
    entities = _entities(crated)
    specification = {"https://w3id.org/ro/crate/1.1"}
    for entity in entities.values():
        for value in entity.values():
            for one in _listed(value):
                if isinstance(one, dict):
                    assert one["@id"] in entities.keys() | specification


def test_a_crate_is_the_same_whenever_it_is_written(crated: Path, tmp_path: Path) -> None:
    again = _crated(crated, tmp_path / "again")
    assert (again / crate.CRATE_FILE).read_bytes() == (crated / crate.CRATE_FILE).read_bytes()


def test_whatever_is_changed_in_a_crate_is_found(crated: Path, tmp_path: Path) -> None:
    made = _crated(crated, tmp_path / "made")
    digests = manifest.digests(crated)
    assert crate.differences(crated, made, digests) == []
    kept = json.loads((crated / crate.CRATE_FILE).read_text())
    of_files = [e["@id"] for e in kept["@graph"] if e["@type"] == "File"]
    for number, entity in enumerate(kept["@graph"]):
        if entity["@id"] in of_files[3:-3]:
            continue  # As many alike would take a minute.
        for name, value in entity.items():
            changed = copy.deepcopy(kept)
            changed["@graph"][number][name] = f"{value}1"
            (crated / crate.CRATE_FILE).write_text(json.dumps(changed))
            found = crate.differences(crated, made, digests)
            assert found, f"{name} of {entity['@id']}"
            assert all(fault.startswith(crate.CRATE_FILE) for fault in found)


def test_pictures_of_other_bytes_are_no_fault_of_a_crate(crated: Path, tmp_path: Path) -> None:
    made = _crated(crated, tmp_path / "made")
    body = json.loads((made / crate.CRATE_FILE).read_text())
    picture = next(e for e in body["@graph"] if e["@id"].endswith(".png"))
    picture["sha256"] = "0" * 64
    (made / crate.CRATE_FILE).write_text(json.dumps(body))
    assert crate.differences(crated, made, manifest.digests(crated)) == []


def test_citation_is_as_its_format_asks(tools: Path, tmp_path: Path) -> None:
    words = [tools / "cffconvert", "--validate", "--infile"]
    done = subprocess.run([*words, ROOT / "CITATION.cff"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / "CITATION.cff").write_text("cff-version: 1.2.0\ntitle: no authors\n")
    wrong = subprocess.run([*words, tmp_path / "CITATION.cff"], capture_output=True, text=True)
    assert wrong.returncode != 0


def test_the_data_package_names_the_sources_of_every_study() -> None:
    for name in studies.names():
        if studies.find(name).papers.published.is_relative_to(ROOT / "data"):
            assert project.sources(name), name


def _changed(one: Any, other: Any) -> set[tuple[int, str]]:
    """Return cell and key of all in which nbdime finds that two notebooks differ."""
    from nbdime import diff_notebooks

    found = diff_notebooks(one, other)
    assert [entry.key for entry in found] == ["cells"], "no cell came or went by itself"
    return {
        (entry.key, part.key if part.op == "patch" or part.op == "replace" else part.op)
        for entry in found[0].diff
        for part in entry.diff
    }


def _of_one_notebook() -> list[Path]:
    """Return two recorded reports that one notebook made at different efforts."""
    by_notebook: dict[str, dict[str, Path]] = {}
    for report in REFERENCES:
        body = manifest.read(report)
        efforts = by_notebook.setdefault(str(body["notebook_sha256"]), {})
        efforts[str(body["parameters"].get("effort"))] = report
    return next(list(of.values()) for of in by_notebook.values() if len(of) > 1)[:2]


def _short(path: Path) -> Any:
    """Return a notebook with what it shows cut short.

    nbdime aligns long outputs letter by letter, which takes minutes. Each keeps its size, so that
    another one is another output.
    """
    notebook = nbformat.read(path, 4)
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            for kind, text in output.get("data", {}).items():
                output["data"][kind] = f"{text[:60]} {len(text)}"
    return notebook


def test_two_reports_notebooks_differ_in_parameters_and_outputs_alone() -> None:
    one, other = (_short(report / "notebook.ipynb") for report in _of_one_notebook())
    changed = _changed(one, other)
    given = {
        number
        for number, cell in enumerate(one.cells)
        if "injected-parameters" in cell.metadata.get("tags", [])
    }
    assert {number for number, key in changed if key == "source"} == given
    assert {key for _, key in changed} == {"source", "outputs"}


def test_nbdiff_shows_the_parameters_that_differ_and_no_other_source() -> None:
    one, other = _of_one_notebook()
    done = subprocess.run(
        [BIN / "nbdiff", "--ignore-outputs", "--no-color", "--color-words",
         one / "notebook.ipynb", other / "notebook.ipynb"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    places = re.findall(r"^## modified (.*):$", done.stdout, re.MULTILINE)
    assert len(places) == 1
    assert places[0].endswith("/source")
    efforts = [manifest.read(report)["parameters"]["effort"] for report in (one, other)]
    assert all(str(effort) in done.stdout for effort in efforts)


def test_a_cell_that_was_changed_is_shown_as_that_cell() -> None:
    one = nbformat.read(reference("multi-buffer-pool") / "notebook.ipynb", 4)
    other = copy.deepcopy(one)
    number = next(n for n, cell in enumerate(one.cells) if n > 5 and cell.cell_type == "code")
    other.cells[number].source += "\nrows = rows / 10"
    assert _changed(one, other) == {(number, "source")}
