"""The verb that measures one claim again."""

import json
import sys
from typing import Annotated, Any

import typer

from innolab.base.errors import InnolabError
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
    from innolab.base import extras
    from innolab.measure import reproduction, reproduction_answer, resources
    from innolab.measure.progress import Shown

    study, found = reproduction.find(claim)
    if judge:
        _judge_again(study, found, as_json=as_json)
        return
    reference, seal = reproduction.reference_of(study, report)
    ready = reproduction.planned(found, reference, server)
    judged = reproduction.verdicts(reference.experiment, found, reference.runs)
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
    extras.require("measure")
    with Shown() as progress:
        folder, body = reproduction.measured(found, ready, reference, asked, body, progress)
    lines = [*reproduction_answer.answer_lines(body), str(folder)]
    print(json.dumps({**body, "folder": str(folder)}, indent=1) if as_json else "\n".join(lines))
    if all(one["here"]["verdict"] == "not-run" for one in body["servers"]):
        why = "; ".join(dict.fromkeys(one["here"]["reason"] for one in body["servers"]))
        raise InnolabError(f"Nothing was judged: {why}. The runs are kept in {folder}.")


def _judge_again(study: Any, claim: Any, *, as_json: bool) -> None:
    """Check the record of the newest reproduction, and that its answer follows from it."""
    from innolab.measure import reproduction, reproduction_answer
    from innolab.studies.experiment import Experiment
    from innolab.verify import verify

    folder = reproduction.newest(study.name, claim.id)
    body = reproduction.read(folder)
    faults = verify.of_reproduction(study, folder, body)
    if not faults:
        reference, seal = reproduction.reference_of(study, body["reference"]["report"])
        judged = reproduction.verdicts(reference.experiment, claim, reference.runs)
        again = Experiment.read(folder, study)
        here = reproduction.verdicts(again, claim, study.read(folder))
        if seal != body["reference"]["seal"]:
            faults.append(f"{reference.name} is not the report that it was set beside")
        elif reproduction_answer.servers(judged, here) != body["servers"]:
            faults.append(f"{reproduction.ANSWER_FILE}: its verdicts do not follow from the runs")
    for fault in faults:
        print(printable(fault), file=sys.stderr)
    if faults:
        raise InnolabError(f"{folder} does not hold: {len(faults)} faults, listed above.")
    lines = [
        *reproduction_answer.answer_lines(body),
        f"{folder} holds: the answer follows from its runs.",
    ]
    print(json.dumps({**body, "folder": str(folder)}, indent=1) if as_json else "\n".join(lines))
