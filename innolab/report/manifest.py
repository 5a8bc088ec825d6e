"""The manifest seals a report: what was asked, what it ran on, and the digest of every file."""

import datetime
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from innolab.base import files, parsing
from innolab.base.errors import InnolabError, InputError
from innolab.base.files import digest
from innolab.base.provenance import lock_sha256, own_facts
from innolab.record.plan import Plan
from innolab.record.run import SCHEMA, BuildFacts, Innolab, Run
from innolab.record.text_types import (
    FolderName,
    Label,
    Name,
    PlainFacts,
    PlainText,
    Sha256,
    Version,
)
from innolab.report import crate, folders, rendering_code
from innolab.studies.rules import CLAIMS_FILE
from innolab.studies.study import Study

TABLE = "table"
# It names a folder, out of which it must not lead.
VERSION = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}-[0-9]{1,6}$"


class Renderer(BaseModel):
    """The code that made page and figures: digest of ours, and versions of libraries."""

    model_config = ConfigDict(extra="forbid")

    code_sha256: Sha256
    libraries: dict[Name, Version]


class OfStudy(BaseModel):
    """What a manifest must hold for a reader to make sense of it.

    The last six are not in all older reports.

    Attributes
    ----------
    schema_ : the version of this form
    version, study, scale : what the report is
    parameters, spec_sha256 : as in plan.json
    builds : the servers' binaries by id: version, origin, digest
    unavailable : builds that were asked for and did not run, and why
    hosts : the machines that runs were measured on
    measured_by, rendered_by : which innolab measured and which rendered
    runs : how many runs are complete, failed and valid
    rendered_from : the version whose runs were rendered again; null where they were measured
    lock_sha256 : the digest of requirements.lock
    time_s : where the time went, by stage
    files : the digest of every other file of the report, signatures left out
    seal : the digest of all the rest of the manifest
    study_revision : the revision of the study, raised where older runs no longer compare
    record_schema : the version of the form of runs
    notebook_sha256, claims_sha256 : the digests of the study's notebook and claims
    sealed_at : when, with the time zone
    renderer : the code that made page and figures
    """

    model_config = ConfigDict(extra="forbid")

    schema_: Literal[1] = Field(alias="schema")
    version: str = Field(pattern=VERSION)
    study: FolderName
    scale: Label
    parameters: PlainFacts
    spec_sha256: Sha256
    builds: dict[Name, BuildFacts]
    unavailable: dict[Name, PlainText]
    hosts: list[PlainFacts]
    measured_by: list[Innolab]
    runs: dict[Label, int]
    rendered_by: Innolab
    rendered_from: str | None = Field(pattern=VERSION)
    lock_sha256: Sha256
    time_s: dict[Label, float]
    files: dict[PlainText, Sha256]
    seal: Sha256
    study_revision: int | None = None
    record_schema: int | None = None
    notebook_sha256: Sha256 | None = None
    claims_sha256: Sha256 | None = None
    sealed_at: AwareDatetime | None = None
    renderer: Renderer | None = None


class OfTable(BaseModel):
    """What the manifest of a judged table must hold.

    Attributes
    ----------
    schema_, kind : the version of this form, and that it is a table's
    study, version : what the report is named
    title, source : of the table: who published it
    given : the digest of each file that was given, by its name
    runs : how many rows and arms the table has
    rendered_by, renderer, lock_sha256, sealed_at, files, seal, time_s : as in that of a study
    """

    model_config = ConfigDict(extra="forbid")

    schema_: Literal[1] = Field(alias="schema")
    kind: Literal["table"]
    study: FolderName
    version: str = Field(pattern=VERSION)
    title: PlainText
    source: PlainText | None
    given: dict[PlainText, Sha256]
    runs: dict[Label, int]
    rendered_by: Innolab
    lock_sha256: Sha256
    sealed_at: AwareDatetime
    time_s: dict[Label, float] = Field(max_length=0)  # Judging has no stages.
    files: dict[PlainText, Sha256]
    seal: Sha256
    renderer: Renderer | None = None


def is_of_table(body: Mapping[str, Any]) -> bool:
    """Return whether a manifest is of a judged table, and not of a study's report."""
    return body.get("kind") == TABLE


def write_of_table(folder: Path, facts: Mapping[str, Any]) -> None:
    """Write the manifest of a judged table into its finished folder, which its version names.

    Parameters
    ----------
    facts : its `study`, `title`, `source`, `given` and `runs`
    """
    body = {
        "schema": 1,
        "kind": TABLE,
        "version": folder.name,
        **facts,
        "rendered_by": own_facts(),
        "renderer": rendering_code.todays(None),
        "lock_sha256": lock_sha256(),
        "sealed_at": _now(),
        "time_s": {},
        "files": digests(folder),
    }
    _write(folder, body)


def write(
    study: Study,
    folder: Path,
    runs: list[Run],
    time_s: dict[str, float],
    rendered_from: str | None = None,
) -> None:
    """Write crate and manifest into a report's finished folder, which its version names.

    Parameters
    ----------
    rendered_from : the version whose runs were rendered again; None if they were measured for it

    Raises
    ------
    InnolabError
        If the folder holds what belongs to no report.
    """
    if foreign := folders.foreign(folder):
        raise InnolabError(f"The report cannot be sealed: {foreign[0]}.")
    crate.write(study, folder, runs, digests(folder))
    body: dict[str, Any] = {
        "schema": 1,
        "version": folder.name,
        **recorded(Plan.read(folder), runs),
        "rendered_by": own_facts(),
        "rendered_from": rendered_from,
        "renderer": rendering_code.todays(study),
        "study_revision": study.revision,
        "record_schema": SCHEMA,
        "notebook_sha256": digest(study.papers.notebook),
        "claims_sha256": digest(folder / CLAIMS_FILE),
        "lock_sha256": lock_sha256(),
        "sealed_at": _now(),
        "time_s": time_s,
        "files": digests(folder),
    }
    _write(folder, body)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


def _write(folder: Path, body: dict[str, Any]) -> None:
    body["seal"] = seal_of(body)
    files.write_json(folder / folders.MANIFEST_FILE, body)


def recorded(plan: Plan, runs: list[Run]) -> dict[str, Any]:
    """Return the part of a manifest that follows from plan and runs."""
    return {
        "study": plan.study,
        "scale": plan.parameters["scale"],
        "parameters": plan.parameters,
        "spec_sha256": plan.spec_sha256,
        "builds": _builds(runs),
        "unavailable": plan.unavailable,
        "hosts": _distinct([run.conditions["host"] for run in runs]),
        "measured_by": _distinct([run.conditions["innolab"] for run in runs]),
        "runs": {
            "complete": sum(run.status == "complete" for run in runs),
            "failed": sum(run.status == "failed" for run in runs),
            "valid": sum(run.valid for run in runs),
        },
    }


def read(folder: Path) -> dict[str, Any]:
    """Return a report's manifest.

    Raises
    ------
    InputError
        Where it is damaged.
    """
    path = folder / folders.MANIFEST_FILE
    try:
        body = parsing.json_file(path)
        is_table = isinstance(body, dict) and is_of_table(body)
        (OfTable if is_table else OfStudy).model_validate(body)
    except ValueError as error:
        raise InputError(
            f"{path} is damaged: {parsing.reason(error)}. Take the report from its source."
        ) from None
    return dict(body)


def seal_of(body: dict[str, Any]) -> str:
    """Return the digest of a manifest without its seal."""
    rest = {name: value for name, value in body.items() if name != "seal"}
    return files.digest_of(rest)


def faults(report: Path, body: dict[str, Any]) -> list[str]:
    """Return what of a report is not as it was sealed, each naming its file."""
    found = []
    if seal_of(body) != body["seal"]:
        found.append(f"{folders.MANIFEST_FILE}: it was changed after it was sealed")
    stages_s = sum(seconds for name, seconds in body["time_s"].items() if name != "total")
    if abs(stages_s - body["time_s"].get("total", stages_s)) > 1:
        found.append(f"{folders.MANIFEST_FILE}: the times of its stages are not its total")
    listed = body["files"]
    present = members(report)
    for name in sorted(listed.keys() | present.keys()):
        if name not in present:
            found.append(f"{name}: missing")
        elif name not in listed:
            found.append(f"{name}: not part of the report when it was sealed")
        elif listed[name] != digest(present[name]):
            found.append(f"{name}: changed after the report was sealed")
    return found


def members(folder: Path) -> dict[str, Path]:
    """Return every file of a report by relative path.

    The manifest is none of them, nor are the signatures that others add to a sealed report.
    """
    paths = {str(path.relative_to(folder)): path for path in _walk(folder)}
    return {
        name: path
        for name, path in sorted(paths.items())
        if stat.S_ISREG(path.lstat().st_mode)
        and name != folders.MANIFEST_FILE
        and not name.startswith(f"{folders.SIGNATURES}/")
    }


def digests(folder: Path) -> dict[str, str]:
    """Return the digest of every file of a report by relative path."""
    return {name: digest(path) for name, path in members(folder).items()}


def _walk(folder: Path) -> Iterator[Path]:
    for place, names, others in os.walk(folder, followlinks=False):
        yield from (Path(place) / name for name in [*names, *others])


def _builds(runs: list[Run]) -> dict[str, Any]:
    return {
        run.conditions["build"]["id"]: run.conditions["build"]
        for run in runs
        if "build" in run.conditions
    }


def _distinct(facts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return list({files.canonical(f): f for f in facts}.values())
