"""One claim measured again: its study, its arms as a reference planned them, and the answer.

Reproductions are next to the reports of their study, in reproductions/CLAIM/VERSION: plan, runs and
the answer. There is no page: the answer follows from the runs, and can be judged again from them.
"""

import datetime
import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from innolab import studies
from innolab.analysis.claims import Claim
from innolab.analysis.verdicts import Verdict
from innolab.base import files, parsing
from innolab.base.clock import Clock
from innolab.base.errors import InputError
from innolab.base.provenance import own_facts
from innolab.base.quoting import shown
from innolab.hosts import machine
from innolab.measure import reproduction_answer, workflow
from innolab.measure.estimate import Earlier
from innolab.measure.prepare import prepare
from innolab.mysql import builds
from innolab.record import runlog, series_store
from innolab.record.plan import PLAN_FILE, Blocks, Plan, Progress
from innolab.record.run import Run
from innolab.record.runs import RunSet
from innolab.report import folders, manifest, shipped
from innolab.studies import judging
from innolab.studies.experiment import Experiment
from innolab.studies.study import Study

ANSWER_FILE = "answer.json"
# The files that an answer follows from.
DIGESTED = (PLAN_FILE, runlog.FILE)
_CLOSE, _MOST_CLOSE = 0.6, 5
# Facts of a host that a reader would look at first where verdicts differ.
_HOST_FACTS = ("cpu", "cores", "memory_bytes", "kernel", "virtual")


def find(name: str) -> tuple[Study, Claim]:
    """Return the claim of an id, and the study that it belongs to.

    Raises
    ------
    InputError
        If no study has it, with the ids that are close; or if it is never measured.
    """
    every = [(study, claim) for study in map(studies.find, studies.names())
             for claim in study.claims()]  # fmt: skip
    of = [(study, claim) for study, claim in every if claim.id == name]
    if not of:
        close = _close(name, [claim.id for _, claim in every])
        said = f" Close ones: {', '.join(close)}." if close else ""
        raise InputError(
            f"There is no claim {shown(name)}.{said} To list a study's claims: innolab plan STUDY; "
            "each report names those that it judges."
        )
    if len(of) > 1:
        names = ", ".join(study.name for study, _ in of)
        raise InputError(f"The claim {name} is in several studies, {names}; ids have to differ.")
    [(study, claim)] = of
    if claim.not_measured is not None:
        raise InputError(f"{name} of {study.name} is never measured: {claim.not_measured}.")
    return study, claim


def _close(name: str, known: Sequence[str]) -> list[str]:
    """Return the ids that begin as a name does, then those that resemble it.

    >>> _close("f1-warm", ["F1-warm-8v1", "F2-warm-8v1", "G1"])
    ['F1-warm-8v1', 'F2-warm-8v1']
    """
    lower = {one.lower(): one for one in known}
    begin = [one for text, one in lower.items() if name and text.startswith(name.lower())]
    alike = difflib.get_close_matches(name.lower(), lower, _MOST_CLOSE, _CLOSE)
    return list(dict.fromkeys([*begin, *(lower[text] for text in alike)]))[:_MOST_CLOSE]


def planned(claim: Claim, reference: Earlier, server: str | None = None) -> Experiment:
    """Return a claim's arms as this host can run them, with all else as a reference has it.

    Parameters
    ----------
    server : the one build of the reference to measure on; without it, all that have the arms

    Raises
    ------
    InputError
        If the reference does not have the arms, or this host cannot run them.
    """
    servers = servers_of(reference, claim)
    if server is not None and server not in servers:
        raise InputError(
            f"{reference.name} has no arms of {claim.id} on {shown(server)}. It has them on: "
            f"{', '.join(servers)}."
        )
    asked, gone = _on_this_host(reference, [server] if server else servers)
    ready = prepare(asked, claim)
    return ready.with_plan(
        unavailable={**ready.plan.unavailable, **gone}, blocks=blocks_of(reference)
    )


def servers_of(reference: Earlier, claim: Claim) -> list[str]:
    """Return the builds of a reference that have the arms of a claim.

    Raises
    ------
    InputError
        If none has.
    """
    plan = reference.plan
    servers = [
        build
        for build in plan.builds
        if claim.arms_among([vars(arm) for arm in reference.experiment.arms_on(build)])
    ]
    if not servers:
        wanted = {str(side["device"]) for side in claim.sides if "device" in side}
        said = [why for device, why in plan.missing_devices.items() if device in wanted]
        because = f": {'; '.join(said)}" if said else ""
        raise InputError(
            f"{reference.name} did not measure the arms of {claim.id}{because}. Name another "
            f"report of {plan.study} with --report; see: innolab list"
        )
    return servers


def blocks_of(reference: Earlier) -> Blocks:
    """Return the blocks of a reference's plan; those that it has, where its plan says none."""
    has = 1 + max(run.block for run in reference.runs.runs)
    return reference.plan.blocks or Blocks(has, has)


def _on_this_host(reference: Earlier, servers: Sequence[str]) -> tuple[Experiment, dict[str, str]]:
    """Return a reference's parameters with those of its builds that are here, and why others not.

    Raises
    ------
    InputError
        If none is here.
    """
    kept, gone = [], {}
    for wanted in reference.experiment.parameters.builds:
        try:
            found = builds.find(machine.cache_folder(), wanted)
        except InputError as why:
            # What lies at a path that is gone has no id any more.
            if wanted in servers or wanted not in reference.plan.builds:
                gone[wanted] = str(why)
            continue
        if found.id in servers:
            kept.append(wanted)
    if not kept:
        raise InputError(
            f"This host has none of the builds of {reference.name} ({', '.join(servers)}). "
            + " ".join(dict.fromkeys(gone.values()))
        )
    parameters = reference.experiment.parameters.model_copy(update={"builds": kept})
    return Experiment.fresh(reference.experiment.study, parameters), gone


def verdicts(experiment: Experiment, claim: Claim, runs: RunSet) -> dict[str, Verdict]:
    """Return a claim's verdict by server, as today's claims and rules judge these runs."""
    judged = judging.verdicts(experiment.with_plan(claims=[claim.id]), runs)
    return {verdict.server: verdict for verdict in judged}


def reference_of(study: Study, report: str | None) -> tuple[Earlier, str]:
    """Return the report that a claim is reproduced from, and its seal.

    If none is named, the newest that the repository ships, else the newest.

    Raises
    ------
    InputError
        If there is none, it is of another study, or it was changed after it was sealed.
    """
    finished = folders.finished(study.name)
    if report is None and not finished:
        raise InputError(
            f"There is no finished report of {study.name} below {folders.reports_folder()}. Make "
            f"one: innolab run {study.name}; or name one with --report."
        )
    # The shipped report if it is there: what everybody else sets theirs next to.
    references = [one for one in finished if shipped.is_reference(one)]
    folder = folders.find(report) if report else [*finished, *references][-1]
    body, measured = manifest.read(folder), Plan.read(folder).study
    if measured != study.name:
        raise InputError(f"{folder.name} is a report of {measured}, not of {study.name}.")
    for name in DIGESTED:
        if body["files"].get(name) != manifest.digest(folder / name):
            raise InputError(
                f"{name} of {study.name}/{folder.name} was changed after the report was sealed, so "
                "it is no reference. Take the report from its source."
            )
    reference = Earlier.read(folder, study)
    if not reference.runs.runs:
        raise InputError(f"{reference.name} holds no run, so it is no reference.")
    return reference, body["seal"]


def measured(
    claim: Claim,
    ready: Experiment,
    reference: Earlier,
    asked: Mapping[str, Verdict],
    body: Mapping[str, Any],
    progress: Progress,
) -> tuple[Path, dict[str, Any]]:
    """Measure a plan or what is left of it, judge it, and return its folder and the answer.

    Parameters
    ----------
    asked : the reference's verdicts by server
    body : what the answer says of the claim, the reference and the estimate
    """
    clock, place = Clock(), _place(ready.name, claim.id)
    with workflow.begun(ready, progress, place=place) as (_, folder):
        runs = workflow.measured(ready, folder, progress, clock, has_page=False)
        workflow.require_complete(runs, folder)
        answer = {
            **body,
            "servers": reproduction_answer.servers(asked, verdicts(ready, claim, runs)),
            "differences": differences(ready, reference, runs.runs),
            "taken": reproduction_answer.taken(runs.runs, clock.account()["total"]),
            "innolab": own_facts(),
            "judged_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
        }
        series_store.merge(folder)
        digests = {name: manifest.digest(folder / name) for name in DIGESTED}
        files.write_json(folder / ANSWER_FILE, {**answer, "files": digests})
        return folder.rename(folder.with_name(folders.version_of(folder))), answer


def _place(study: str, claim: str) -> str:
    return f"{study}/reproductions/{claim}"


def newest(study: str, claim: str) -> Path:
    """Return the newest finished reproduction of a claim.

    Raises
    ------
    InputError
        If there is none.
    """
    finished = folders.finished(_place(study, claim), ANSWER_FILE)
    if not finished:
        raise InputError(
            f"There is no finished reproduction of {claim} below {folders.reports_folder()}. Make "
            f"one: innolab reproduce {claim}"
        )
    return finished[-1]


def read(folder: Path) -> dict[str, Any]:
    """Return the answer of a reproduction.

    Raises
    ------
    InputError
        If it is damaged.
    """
    path = folder / ANSWER_FILE
    try:
        body = parsing.json_file(path)
        wanted = {"claim", "reference", "servers", "files", "judged_at"}
        if not isinstance(body, dict) or wanted - body.keys():
            raise ValueError("it is no answer")
        return body
    except ValueError as error:
        raise InputError(
            f"{path} is damaged ({parsing.reason(error)}). Take it from its source."
        ) from None


def differences(experiment: Experiment, reference: Earlier, runs: Sequence[Run]) -> list[str]:
    """Return in what two sessions differ that may explain verdicts that differ, as text."""
    found = []
    if experiment.plan.spec_sha256 != reference.plan.spec_sha256:
        found.append(
            f"today's {experiment.name} measures otherwise than the innolab that measured the "
            "reference"
        )
    of_reference, here = (_facts(of) for of in (reference.runs.runs, runs))
    found += [
        f"{name} is {value} here and was {of_reference[name]}"
        for name, value in here.items()
        if name in of_reference and of_reference[name] != value
    ]
    return found


def _facts(runs: Sequence[Run]) -> Mapping[str, object]:
    facts: dict[str, object] = {}
    for run in runs:
        facts |= {f"the host's {name}": run.conditions["host"].get(name) for name in _HOST_FACTS}
        if build := run.conditions.get("build"):
            facts[build["id"]] = f"version {build['version']}, sha256 {build['sha256'][:16]}"
    return facts
