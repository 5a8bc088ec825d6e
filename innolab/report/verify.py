"""Check a report without a server: seal, digests, schema, checks, verdicts, and a replay."""

import json
import tempfile
from pathlib import Path
from typing import Any

from innolab import studies, validity
from innolab.errors import InnolabError
from innolab.plans import PLAN_FILE, Plan, plan_keys
from innolab.report import folders, manifest, render
from innolab.runs import Run, RunLog, RunSet
from innolab.study import Study, check_parameters


def verify(folder: Path) -> list[str]:
    """Return every fault of a report, each naming its file; none means that it holds.

    Cheap tests come first, and a replay is only made of a report that passes them.
    """
    body = manifest.read(folder)
    faults = _sealed(folder, body)
    if faults:
        return faults
    plan = Plan.read(folder)
    study = studies.find(plan.study)
    parameters = check_parameters(study, plan.parameters)
    if study.spec_sha256(parameters) != plan.spec_sha256:
        commits = {str(m["commit"]) for m in body["measured_by"]}
        return [
            f"{PLAN_FILE}: it names another spec than this innolab's. Either it was altered, or "
            "the report is of another revision of the study: verify it with innolab at commit "
            f"{', '.join(sorted(commits))}."
        ]
    try:
        runs = RunSet.read(study, folder)
    except InnolabError as error:
        return [f"runs.jsonl: {error}"]
    faults = [
        f"{folders.MANIFEST_FILE}: its '{name}' does not follow from {PLAN_FILE} and runs.jsonl"
        for name, value in manifest.recorded(plan, runs.runs).items()
        if body.get(name) != value
    ]
    return [*faults, *_recorded(study, plan, runs, folder), *_replayed(study, folder)]


def _sealed(folder: Path, body: dict[str, Any]) -> list[str]:
    faults = []
    if manifest.seal_of(body) != body.get("seal"):
        faults.append(f"{folders.MANIFEST_FILE}: it was changed after it was sealed")
    if body.get("version") != folder.name:
        faults.append(f"{folders.MANIFEST_FILE}: it is of version {body.get('version')}")
    listed = body["files"]
    present = manifest.digests(folder)
    for name in sorted(listed.keys() | present.keys()):
        if name not in present:
            faults.append(f"{name}: missing")
        elif name not in listed:
            faults.append(f"{name}: not part of the report when it was sealed")
        elif listed[name] != present[name]:
            faults.append(f"{name}: changed after the report was sealed")
    return faults


def _recorded(study: Study, plan: Plan, runs: RunSet, folder: Path) -> list[str]:
    """Return what the runs alone show to be wrong: plan, schema, checks, missing companions."""
    faults = []
    if [run.key for run in sorted(runs.runs, key=lambda r: r.trial)] != plan_keys(study, plan):
        faults.append("runs.jsonl: its trials are not those of the plan")
    if RunLog(folder / "runs.jsonl").load()[1] is not None:
        faults.append("runs.jsonl: its last line is torn")
    for run in runs.runs:
        if run.series and not (folder / run.series).is_file():
            faults.append(f"{run.series}: missing")
        if run.status == "complete" and _judged_anew(study, run, runs) != run.checks:
            faults.append(
                f"runs.jsonl: the checks of trial {run.trial} do not follow from its record"
            )
    return faults


def _judged_anew(study: Study, run: Run, runs: RunSet) -> list[object]:
    variables = runs.variables.get(run.conditions["variables"], {})
    evidence = validity.Evidence(run.metrics, run.conditions, variables)
    return list(validity.judge(evidence, study.checks))


def _replayed(study: Study, folder: Path) -> list[str]:
    """Execute the report's own notebook on its runs, elsewhere, and compare all that it makes."""
    with tempfile.TemporaryDirectory(prefix="innolab-verify-") as place:
        copy = Path(place) / folder.name
        copy.mkdir()
        folders.copy_recorded(folder, copy)
        try:
            render.render(study, copy, _source_of(folder / render.NOTEBOOK_FILE, Path(place)))
        except InnolabError as error:
            return [f"{render.NOTEBOOK_FILE}: it does not execute again: {error}"]
        made = manifest.digests(copy)
        kept = manifest.digests(folder)
    return [
        f"{name}: it does not follow from the recorded runs"
        for name in sorted(made.keys() | kept.keys())
        if made.get(name) != kept.get(name)
    ]


def _source_of(executed: Path, place: Path) -> Path:
    """Return the executed notebook without outputs and without the cell papermill injected."""
    notebook = json.loads(executed.read_text())
    notebook["cells"] = [
        cell
        for cell in notebook["cells"]
        if "injected-parameters" not in cell["metadata"].get("tags", [])
    ]
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    source = place / executed.name
    source.write_text(json.dumps(notebook))
    return source
