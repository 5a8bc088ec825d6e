"""A deposit holds the whole report and what an archive asks to know, and the report has to hold."""

import json
import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Innolab, todays

from innolab import studies
from innolab.base import files
from innolab.base.errors import InputError
from innolab.publish import deposit
from innolab.report import folders, manifest, render
from innolab.verify import verify

# What Zenodo's deposition API takes (developers.zenodo.org, "Deposit metadata"; the program's own
# names for it are in its repository zenodo/zenodo, deposit/jsonschemas/.../legacyrecord.json).
# Required: the first four, access_right, and a license where that is open.
_REQUIRED: dict[str, type] = {
    "upload_type": str, "title": str, "creators": list, "description": str,
    "access_right": str, "license": str,
}  # fmt: skip
_OPTIONAL: dict[str, type] = {
    "publication_date": str, "version": str, "language": str, "keywords": list, "notes": str,
    "references": list, "related_identifiers": list,
}  # fmt: skip
_RELATIONS = {"cites", "references", "isDerivedFrom", "isSupplementTo", "isPartOf", "reviews"}


def _refused(metadata: dict[str, Any]) -> list[str]:
    """Return what Zenodo would not take of some metadata."""
    known = {**_REQUIRED, **_OPTIONAL}
    found = [f"{name} is required" for name in _REQUIRED if not metadata.get(name)]
    found += [f"{name} is not known" for name in metadata if name not in known]
    found += [
        f"{name} is no {known[name].__name__}"
        for name, value in metadata.items()
        if name in known and not isinstance(value, known[name])
    ]
    if found:
        return found
    found += [f"no name in {c}" for c in metadata["creators"] if not c.get("name")]
    found += [
        f"unknown key in {c}"
        for c in metadata["creators"]
        if not c.keys() <= {"name", "affiliation", "orcid", "gnd"}
    ]
    found += [
        f"no related identifier: {one}"
        for one in metadata.get("related_identifiers", [])
        if one.get("relation") not in _RELATIONS
        or not re.match(r"https?://|10\.", one["identifier"])
    ]
    for name in ("keywords", "references"):
        found += [f"{name}: {x!r}" for x in metadata.get(name, []) if not isinstance(x, str)]
    if metadata["upload_type"] != "dataset" or metadata["access_right"] != "open":
        found.append("it is no open dataset")
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", metadata.get("publication_date", "")):
        found.append("publication_date is no day")
    return found


def _trusted(_: Path) -> None:
    """Take the reports of the repository as they are: other tests verify each of them."""


def _made(study: str, to: Path) -> Path:
    return deposit.write(todays(study), to, prove=_trusted)


@pytest.mark.parametrize("study", ["more-memory", "multi-buffer-pool"])
def test_zenodo_would_take_the_metadata(study: str, tmp_path: Path) -> None:
    made = _made(study, tmp_path / "deposit")
    metadata = json.loads((made / ".zenodo.json").read_text())
    assert json.loads((made / "metadata.json").read_text()) == {"metadata": metadata}
    assert _refused(metadata) == []
    assert metadata["references"]
    named = [one["identifier"] for one in metadata["related_identifiers"]]
    assert len(named) == (2 if study == "more-memory" else 0), "the addresses that are known"
    body = manifest.read(todays(study))
    assert metadata["version"] == body["version"]
    assert body["seal"] in metadata["description"]
    assert body["rendered_by"]["commit"] in metadata["notes"]


def test_what_zenodo_would_not_take_is_found() -> None:
    report = todays("multi-buffer-pool")
    right = deposit.metadata(report, manifest.read(report), studies.find("multi-buffer-pool"))
    assert _refused(right) == []
    for name in _REQUIRED:
        assert _refused({**right, name: ""}), name
    for name in right:
        assert _refused({**right, name: 7}), name
    related = {"identifier": "a post", "relation": "references"}
    for wrong in (
        {"creators": [{"affiliation": "x"}]}, {"creators": [{"name": "x", "mail": "y"}]},
        {"related_identifiers": [related]}, {"upload_type": "poster"}, {"licence": "MIT"},
        {"publication_date": "22 November"}, {"keywords": [1]},
    ):  # fmt: skip
        assert _refused({**right, **wrong}), wrong


def test_a_deposit_holds_the_report_and_what_it_was_judged_by(tmp_path: Path) -> None:
    report = todays("multi-buffer-pool")
    made = _made("multi-buffer-pool", tmp_path / "new" / "deposit")
    archive = made / f"multi-buffer-pool-{report.name}.zip"
    names = {path.name for path in made.iterdir()}
    assert names == {
        archive.name, "claims.yml", "published.csv", "LICENSE", "CITATION.cff",
        ".zenodo.json", "metadata.json",
    }  # fmt: skip
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(tmp_path / "unpacked")
    unpacked = tmp_path / "unpacked" / archive.stem
    assert manifest.digests(unpacked) == manifest.digests(report)
    assert manifest.faults(unpacked, manifest.read(unpacked)) == []
    body = manifest.read(report)
    assert files.digest(made / "claims.yml") == body["claims_sha256"]
    assert (made / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_the_same_report_gives_the_same_bytes(tmp_path: Path) -> None:
    other = tmp_path / "elsewhere" / todays("multi-buffer-pool").name
    shutil.copytree(todays("multi-buffer-pool"), other)
    for path in other.rglob("*"):
        path.touch()
    one = _made("multi-buffer-pool", tmp_path / "one")
    two = deposit.write(other, tmp_path / "two", prove=_trusted)
    assert manifest.digests(one) == manifest.digests(two)


def test_a_page_that_today_s_code_cannot_check_is_not_deposited(tmp_path: Path) -> None:
    report = tmp_path / "2026-02-14-1"
    shutil.copytree(todays("multi-buffer-pool"), report)
    body = manifest.read(report)
    body["renderer"]["code_sha256"] = "0" * 64
    body["seal"] = manifest.seal_of(body)
    (report / folders.MANIFEST_FILE).write_text(json.dumps(body))
    with pytest.raises(InputError, match="its code is not today's"):
        deposit.write(report, tmp_path / "deposit", prove=verify.require)
    assert not (tmp_path / "deposit").exists()


def test_a_report_that_does_not_hold_is_refused(innolab: Innolab, tmp_path: Path) -> None:
    report = tmp_path / "2026-02-14-1"
    shutil.copytree(todays("multi-buffer-pool"), report)
    (report / render.VERDICTS_FILE).write_text("[]")
    done = innolab("deposit", str(report), "--to", str(tmp_path / "deposit"))
    assert done.returncode == 2
    assert "does not hold" in done.stderr
    assert "verdicts.json" in done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {report.name}


def test_a_folder_that_exists_is_not_written_over(innolab: Innolab, tmp_path: Path) -> None:
    report = str(todays("multi-buffer-pool"))
    done = innolab("deposit", report, "--to", str(tmp_path))
    assert done.returncode == 2
    assert "exists already" in done.stderr
    assert list(tmp_path.iterdir()) == []
