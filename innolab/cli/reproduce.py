"""The verb that measures one claim again."""

import datetime
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from innolab.base.errors import InnolabError, InputError
from innolab.base.quoting import printable
from innolab.cli.options import ClaimName


def reproduce(
    claim: ClaimName,
    server: Annotated[
        str | None, typer.Option(metavar="BUILD", help="One server alone; else all that have it.")
    ] = None,
    report: Annotated[
        str | None, typer.Option(help="The reference; else the study's newest finished report.")
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Say what would run and what it takes; run nothing.")
    ] = False,
    judge: Annotated[
        bool, typer.Option("--judge", help="Judge the newest reproduction again; run nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure the arms of one claim again and set its verdict beside the reference's.

    All else is as in the reference: scale, effort, rows, seed and blocks. A run that was
    interrupted is resumed by the same command.
    """
    from innolab.measure import reproduction, reproduction_answer, resources
    from innolab.studies.experiment import Experiment

    study, found = reproduction.find(claim)
    if judge:
        _judge_again(study, found, as_json=as_json)
        return
    reference, seal = _reference(study, report)
    ready = reproduction.planned(study, found, reference, server)
    measured = Experiment.from_plan(reference.plan, study)
    judged = reproduction.verdicts(measured, found, reference.runs)
    faster = resources.speed(reference)
    estimate = resources.estimate(ready, reference, judged, faster)
    body: dict[str, Any] = {
        "schema": 1,
        "study": study.name,
        "claim": found.id,
        "says": found.says,
        "reference": {"report": reference.name, "seal": seal},
        "expected": reproduction_answer.expected(estimate),
        "runs": reproduction_answer.will_run(ready.plan, estimate),
    }
    servers = (*ready.plan.builds, *ready.plan.unavailable)
    asked = {name: judged[name] for name in servers if name in judged}
    if plan and as_json:
        print(json.dumps({**body, "servers": reproduction_answer.servers(asked, None)}, indent=1))
        return
    # Beside an answer in JSON, what is said before it is no part of it.
    said = reproduction_answer.plan_lines(found, ready.plan, estimate, reference)
    print("\n".join(said), file=sys.stderr if as_json else sys.stdout, flush=True)
    if plan:
        return
    folder, body = _measured(found, ready, reference, asked, body)
    lines = [*reproduction_answer.answer_lines(body), str(folder)]
    print(json.dumps({**body, "folder": str(folder)}, indent=1) if as_json else "\n".join(lines))
    if all(one["here"]["verdict"] == "not-run" for one in body["servers"]):
        why = "; ".join(dict.fromkeys(one["here"]["reason"] for one in body["servers"]))
        raise InnolabError(f"Nothing was judged: {why}. The runs are kept in {folder}.")


def _reference(study: Any, report: str | None) -> tuple[Any, str]:
    """Return the report that a claim is reproduced from, and its seal."""
    from innolab.measure.estimate import Earlier
    from innolab.record import runlog
    from innolab.record.plan import Plan
    from innolab.report import folders, manifest

    finished = folders.finished(study.name)
    if report is None and not finished:
        raise InputError(
            f"There is no finished report of {study.name} below {folders.reports_folder()}. Make "
            f"one: innolab run {study.name}; or name one with --report."
        )
    folder = folders.find(report) if report else finished[-1]
    plan, body = Plan.read(folder), manifest.read(folder)
    if plan.study != study.name:
        raise InputError(f"{folder.name} is a report of {plan.study}, not of {study.name}.")
    for name in ("plan.json", runlog.FILE):
        if body["files"].get(name) != manifest.digest(folder / name):
            raise InputError(
                f"{name} of {study.name}/{folder.name} was changed after the report was sealed, so "
                "it is no reference. Take the report from its source."
            )
    runs = study.read(folder)
    if not runs.runs:
        raise InputError(f"{study.name}/{folder.name} holds no run, so it is no reference.")
    return Earlier(f"{study.name}/{folder.name}", plan, runs, body["time_s"]), body["seal"]


def _measured(
    claim: Any, ready: Any, reference: Any, asked: Any, body: dict[str, Any]
) -> tuple[Path, dict[str, Any]]:
    """Measure a plan or what is left of it, judge it, and return the folder and the answer."""
    from innolab.base import extras
    from innolab.base.clock import Clock
    from innolab.base.provenance import own_facts
    from innolab.measure import reproduction, reproduction_answer, workflow
    from innolab.measure.progress import Shown
    from innolab.verify import reproductions

    extras.require("measure")
    clock, place = Clock(), reproductions.place(ready.name, claim.id)
    with Shown() as progress, workflow.begun(ready, progress, place=place) as (_, folder):
        runs = workflow.measured(ready, folder, progress, clock, has_page=False)
        workflow.require_complete(runs, folder)
        here = reproduction.verdicts(ready, claim, runs)
        body |= {
            "servers": reproduction_answer.servers(asked, here),
            "differences": reproduction.differences(ready, reference, runs.runs),
            "taken": reproduction_answer.taken(runs.runs, clock.account()["total"]),
            "innolab": own_facts(),
            "judged_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
        }
        return reproductions.finish(folder, body), body


def _judge_again(study: Any, claim: Any, *, as_json: bool) -> None:
    """Check the record of the newest reproduction, and that its answer follows from it."""
    from innolab.measure import reproduction, reproduction_answer
    from innolab.studies.experiment import Experiment
    from innolab.verify import reproductions

    folder = reproductions.newest(study.name, claim.id)
    body = reproductions.read(folder)
    faults = reproductions.faults(study, folder)
    if not faults:
        reference, seal = _reference(study, body["reference"]["report"])
        measured = Experiment.from_plan(reference.plan, study)
        judged = reproduction.verdicts(measured, claim, reference.runs)
        again = Experiment.read(folder, study)
        here = reproduction.verdicts(again, claim, study.read(folder))
        if seal != body["reference"]["seal"]:
            faults.append(f"{reference.name} is not the report that it was set beside")
        elif reproduction_answer.servers(judged, here) != body["servers"]:
            faults.append(f"{reproductions.ANSWER_FILE}: its verdicts do not follow from the runs")
    for fault in faults:
        print(printable(fault), file=sys.stderr)
    if faults:
        raise InnolabError(f"{folder} does not hold: {len(faults)} faults, listed above.")
    lines = [
        *reproduction_answer.answer_lines(body),
        f"{folder} holds: the answer follows from its runs.",
    ]
    print(json.dumps({**body, "folder": str(folder)}, indent=1) if as_json else "\n".join(lines))
