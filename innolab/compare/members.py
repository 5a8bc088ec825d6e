"""Which reports can be compared: whole ones of one study that measured the same, each its own."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from innolab import studies
from innolab.analysis import claim_files
from innolab.analysis.verdicts import Verdict
from innolab.base.errors import InputError
from innolab.record.plan import Plan
from innolab.record.runs import RunSet
from innolab.report import folders, manifest, render
from innolab.studies import judging
from innolab.studies.experiment import Experiment
from innolab.studies.study import Study

_SHA_DIGITS = 9


class Member(NamedTuple):
    """A report that is compared.

    Attributes
    ----------
    name : its version; with a number if another one has the same
    body : its manifest
    runs : all that it holds, those that are not valid included
    verdicts : by today's claims, as verdicts.json has them
    """

    name: str
    folder: Path
    body: dict[str, Any]
    plan: Plan
    runs: RunSet
    verdicts: list[dict[str, Any]]


def read(reports: Sequence[Path]) -> tuple[Study, list[Member]]:
    """Return the study of several reports, and what each of them holds.

    Raises
    ------
    InputError
        If there are fewer than two; if one is damaged; if they are of different studies or
        measured different things; or if two of more than two have runs in common.
    """
    if len(reports) < 2:
        raise InputError(
            f"A comparison takes two reports of a study or more, and {len(reports)} is named. Name "
            "the others too: innolab compare REPORT REPORT ..."
        )
    bodies = [_sealed_manifest(folder) for folder in reports]
    plans = [Plan.read(folder) for folder in reports]
    names = _names(reports)
    for name, plan in zip(names, plans, strict=True):
        if plan.study != plans[0].study:
            raise InputError(
                f"{names[0]} is of {plans[0].study} and {name} of {plan.study}. Only reports of "
                "one study can be compared."
            )
    study = studies.find(plans[0].study)
    members = [_member(study, *each) for each in zip(names, reports, bodies, plans, strict=True)]
    _require_one_spec(study, members)
    _require_own_runs(members)
    return study, members


def _member(study: Study, name: str, folder: Path, body: dict[str, Any], plan: Plan) -> Member:
    """Return a report; one that was judged by other claims than today's is judged again."""
    runs = study.read(folder)
    if body.get("claims_sha256") == claim_files.sha256(study.papers.claims):
        return Member(name, folder, body, plan, runs, render.read_verdicts(folder))
    try:
        again: list[Verdict] = judging.verdicts(Experiment.from_plan(plan, study), runs)
    except (ValueError, ArithmeticError) as error:
        raise InputError(
            f"{name} was sealed with other claims than today's and cannot be compared, as today's "
            f"cannot be judged by its runs: {error}"
        ) from None
    return Member(name, folder, body, plan, runs, [verdict.model_dump() for verdict in again])


def _names(reports: Sequence[Path]) -> list[str]:
    """Return a name for each report: people who measure on one day give the same version."""
    versions = [folder.name for folder in reports]
    return [
        version if versions.count(version) == 1
        else f"{version} ({versions[: place + 1].count(version)})"
        for place, version in enumerate(versions)
    ]  # fmt: skip


def _sealed_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a report that is as it was sealed."""
    foreign = folders.foreign(folder)
    body = manifest.read(folder)
    if faults := foreign or manifest.faults(folder, body):
        more = f" (and {len(faults) - 1} faults more)" if len(faults) > 1 else ""
        raise InputError(
            f"{folder} is not as it was sealed, so it is not compared: {faults[0]}{more}. Take it "
            f"from its source, or see all faults: innolab verify {folder}"
        )
    return body


def _require_one_spec(study: Study, members: Sequence[Member]) -> None:
    """Refuse reports that did not measure the same.

    Their efforts may differ, and with these their digests: those say how long is measured.
    """
    first = members[0]
    experiments = [Experiment.from_plan(member.plan, study) for member in members]
    measured = [
        {name: value for name, value in one.parameters.measured().items() if name != "effort"}
        for one in experiments
    ]
    for member, own in zip(members, measured, strict=True):
        both = {
            "the study's revision": tuple(
                one.body.get("study_revision") for one in (first, member)
            ),
            **{name: (measured[0].get(name), own.get(name)) for name in {**measured[0], **own}},
        }
        if differing := [f"{name} is {a} and {b}" for name, (a, b) in both.items() if a != b]:
            raise InputError(
                f"{first.name} and {member.name} measured different things: "
                f"{'; '.join(differing)}. Only reports that measured the same can be compared; "
                "effort, seed, builds, hosts and the code's commit may differ."
            )
    digests = [member.plan.spec_sha256 for member in members]
    todays = [experiment.spec_sha256 for experiment in experiments]
    efforts = {experiment.parameters.effort_name for experiment in experiments}
    # An effort is part of the digest, so those of two efforts say nothing of each other.
    if len(efforts) == 1 and digests != todays and len(set(digests)) > 1:
        other = next(m for m, now in zip(members, todays, strict=True) if m.plan.spec_sha256 != now)
        raise InputError(
            f"{other.name} was measured by another definition of {study.name} than today's "
            f"(spec_sha256 {other.plan.spec_sha256[:_SHA_DIGITS]}), as of a device that has "
            "changed since, and others were not. Only reports that measured the same can be "
            "compared."
        )


def _require_own_runs(members: Sequence[Member]) -> None:
    """Refuse runs that are in two of several reports: they would count twice.

    Two reports of the same runs can be compared: they may be judged by other claims or code.
    """
    if len(members) == 2 and members[0].folder != members[1].folder:
        return
    seen: dict[tuple[str, str, str], Member] = {}
    for member in members:
        own = [(run.key, run.started_at, run.ended_at) for run in member.runs.runs]
        if shared := [one for one in own if one in seen]:
            raise InputError(
                f"{seen[shared[0]].name} and {member.name} have {len(shared)} runs in common, as "
                "one report has that was rendered again from another's, and would count twice. "
                "Name one of them."
            )
        seen |= dict.fromkeys(own, member)
