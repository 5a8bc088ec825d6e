"""One claim measured again: which study has it, and its arms as a reference planned them."""

import difflib
from collections.abc import Mapping, Sequence

from innolab import studies
from innolab.analysis.claims import Claim
from innolab.analysis.outcomes import DECIDED
from innolab.analysis.verdicts import Verdict
from innolab.base.errors import InputError
from innolab.base.quoting import shown
from innolab.hosts import machine
from innolab.measure.estimate import Earlier
from innolab.measure.prepare import prepare
from innolab.mysql import builds
from innolab.record.plan import Blocks
from innolab.record.run import Run
from innolab.record.runs import RunSet
from innolab.studies import judging
from innolab.studies.experiment import Experiment
from innolab.studies.study import Study

_CLOSE, _MOST_CLOSE = 0.6, 5
# Facts of a host that a reader would look at first where verdicts differ.
_HOST_FACTS = ("cpu", "cores", "memory_bytes", "kernel", "virtual")


def find(name: str) -> tuple[Study, Claim]:
    """Return the claim of an id, and the study that it belongs to.

    Raises
    ------
    InputError
        Where no study has it, with the ids that are close; or where it is never measured.
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


def planned(
    study: Study, claim: Claim, reference: Earlier, server: str | None = None
) -> Experiment:
    """Return a claim's arms as this host can run them, with all else as a reference has it.

    Parameters
    ----------
    server : the one build of the reference to measure on; without it, all that have the arms

    Raises
    ------
    InputError
        Where the reference does not have the arms, or this host cannot run them.
    """
    whole = Experiment.from_plan(reference.plan, study)
    servers = servers_of(whole, claim, reference.name)
    if server is not None and server not in servers:
        raise InputError(
            f"{reference.name} has no arms of {claim.id} on {shown(server)}. It has them on: "
            f"{', '.join(servers)}."
        )
    asked, gone = _on_this_host(whole, reference.name, [server] if server else servers)
    ready = prepare(asked, claim)
    return ready.with_plan(
        unavailable={**ready.plan.unavailable, **gone}, blocks=blocks_of(reference)
    )


def servers_of(reference: Experiment, claim: Claim, name: str) -> list[str]:
    """Return the builds of a reference that have the arms of a claim.

    Raises
    ------
    InputError
        Where none has.
    """
    plan = reference.plan
    servers = [
        build
        for build in plan.builds
        if claim.arms_among([vars(arm) for arm in reference.arms_on(build)])
    ]
    if not servers:
        wanted = {str(side["device"]) for side in claim.sides if "device" in side}
        said = [why for device, why in plan.missing_devices.items() if device in wanted]
        because = f": {'; '.join(said)}" if said else ""
        raise InputError(
            f"{name} did not measure the arms of {claim.id}{because}. Name another "
            f"report of {reference.name} with --report; see: innolab list"
        )
    return servers


def blocks_of(reference: Earlier) -> Blocks:
    """Return the blocks of a reference's plan; those that it has, where its plan says none."""
    has = 1 + max(run.block for run in reference.runs.runs)
    return reference.plan.blocks or Blocks(has, has)


def _on_this_host(
    reference: Experiment, name: str, servers: Sequence[str]
) -> tuple[Experiment, dict[str, str]]:
    """Return a reference's parameters with those of its builds that are here, and why others not.

    Raises
    ------
    InputError
        Where none is here.
    """
    kept, gone = [], {}
    for wanted in reference.parameters.builds:
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
            f"This host has none of the builds of {name} ({', '.join(servers)}). "
            + " ".join(dict.fromkeys(gone.values()))
        )
    parameters = reference.parameters.model_copy(update={"builds": kept})
    return Experiment.fresh(reference.study, parameters), gone


def verdicts(experiment: Experiment, claim: Claim, runs: RunSet) -> dict[str, Verdict]:
    """Return a claim's verdict by server, as today's claims and rules judge these runs."""
    judged = judging.verdicts(experiment.with_plan(claims=[claim.id]), runs)
    return {verdict.server: verdict for verdict in judged}


def agrees(one: Verdict, other: Verdict) -> bool | None:
    """Return whether two verdicts agree; None where one of them decides nothing."""
    if one.verdict in DECIDED and other.verdict in DECIDED:
        return one.verdict == other.verdict
    return None


def differences(experiment: Experiment, reference: Earlier, runs: Sequence[Run]) -> list[str]:
    """Return in what two sessions differ that may explain verdicts that differ, in words."""
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
    """Return the facts of hosts and binaries that runs name, by what they are of."""
    facts: dict[str, object] = {}
    for run in runs:
        facts |= {f"the host's {name}": run.conditions["host"].get(name) for name in _HOST_FACTS}
        if build := run.conditions.get("build"):
            facts[build["id"]] = f"version {build['version']}, sha256 {build['sha256'][:16]}"
    return facts
