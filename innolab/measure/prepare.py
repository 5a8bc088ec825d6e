"""What of a study this host can run: a plan, after every check before anything is written."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from innolab.analysis.claims import Claim
from innolab.base import places
from innolab.base.errors import InputError
from innolab.base.units import bytes_text
from innolab.hosts import bundle, machine, observe, tools
from innolab.hosts.local import HERE
from innolab.measure import nodes
from innolab.mysql import builds, datasets
from innolab.mysql.builds import Build, Unavailable
from innolab.mysql.my_cnf import base_settings_file
from innolab.mysql.server import require_short_path
from innolab.record.plan import Plan
from innolab.storage import arrays, emulated, model_disk
from innolab.storage.arrays import Arrays
from innolab.storage.profiles import HOST, profiles
from innolab.studies.needs import Needs, needs
from innolab.studies.parameters import Parameters
from innolab.studies.study import Arm, Study


def prepare(study: Study, parameters: Parameters, claim: Claim | None = None) -> Plan:
    """Return the plan for this host after every check that can be made before anything is written.

    Parameters
    ----------
    claim : the one claim that it is for, of which each device is needed; without it, all of the
        study that this host can run

    Raises
    ------
    InputError
        Names what is missing on this host and what to do about it.
    """
    if why := study.impossible():
        raise InputError(f"{study.name} cannot run on this host: {why}.")
    cache = machine.cache_folder()
    machine.server_user()
    require_short_path(cache / datasets.WORK / "trial-00000")
    usable, missing = _builds(study, parameters, cache)
    if not base_settings_file(cache).exists():
        raise InputError(f"There is no {base_settings_file(cache)} yet. Run: {places.set_up()}")
    for name in study.tools:
        tools.path(name)
    missing_devices: dict[str, str] = {}
    if claim is None:
        parameters, missing_devices = _usable_devices(study, parameters)
    chosen = Plan(
        study=study.name,
        spec_sha256=study.spec_sha256(parameters),
        parameters=parameters.model_dump(),
        builds=[b.id for b in usable],
        unavailable=missing,
        missing_devices=missing_devices,
        blocks=study.looks(parameters),
        lacking={
            build.id: lack for build in usable if (lack := _lacking(study, build, parameters))
        },
    )
    chosen = _with_twins(study, chosen, parameters) if claim is None else only(study, chosen, claim)
    arms = [arm for build in chosen.builds for arm in study.arms_of(chosen, build)]
    if claim is not None:
        _require_devices(study, parameters, arms)
    wanted = needs(study, parameters, arms)
    _require_room(study, parameters, usable, wanted, cache)
    if found_arrays := arrays_of(study, parameters):
        with contextlib.closing(found_arrays.host):
            _require_host(study, parameters, usable, wanted, found_arrays)
    if spread := study.nodes(parameters):
        for build in usable:
            builds.moved(build, cache, bundle.FOLDER)
        nodes.require(spread, wanted.memory_bytes)
    return chosen


def only(study: Study, chosen: Plan, claim: Claim) -> Plan:
    """Return a plan of the arms of one claim alone, each server with a twin among them.

    Raises
    ------
    InputError
        Where the plan does not have the arms.
    """
    of = {
        build: claim.arms_among([vars(arm) for arm in study.arms_of(chosen, build)])
        for build in chosen.builds
    }
    if not any(of.values()):
        raise InputError(
            f"{study.name} has no arms of {claim.id} with these parameters, at scale "
            f"'{chosen.parameters['scale']}' on {', '.join(chosen.builds)}."
        )
    # The control that each server has in a whole plan too: here an arm of the claim itself.
    twins = [study.control_among([Arm(**arm) for arm in arms]) for arms in of.values() if arms]
    return replace(
        chosen,
        claims=[claim.id],
        arms=[arm for arms in of.values() for arm in arms],
        twins=[vars(twin) for twin in twins],
    )


def _with_twins(study: Study, chosen: Plan, parameters: Parameters) -> Plan:
    if not study.arms(parameters, chosen.builds[0]):
        raise InputError(
            f"{study.name} has nothing to measure with these parameters at scale "
            f"'{parameters.scale}'. Name other devices, or take a larger scale."
        )
    return replace(chosen, twins=[vars(study.twin(parameters, name)) for name in chosen.builds])


def _builds(
    study: Study, parameters: Parameters, cache: Path
) -> tuple[list[Build], dict[str, str]]:
    """Return the builds that can run a study, and why others that were asked for are not there."""
    found = [builds.find(cache, wanted) for wanted in parameters.builds]
    usable = [b for b in found if isinstance(b, Build)]
    missing = {b.id: b.reason for b in found if isinstance(b, Unavailable)}
    if not usable:
        reasons = " ".join(f"{name}: {why}" for name, why in missing.items())
        raise InputError(
            f"None of the builds asked for is available on this host. {reasons} "
            f"Fix this and run: {places.set_up()}; or name a mysqld by path with -p builds=PATH."
        )
    if len({b.id for b in usable}) < len(usable):
        raise InputError("The builds asked for are not all different; name each build once.")
    _require_able(study, usable)
    return usable, missing


def _lacking(study: Study, build: Build, parameters: Parameters) -> dict[str, dict[str, str]]:
    return {name: dict(levels) for name, levels in study.lacks(build, parameters).items() if levels}


def _require_able(study: Study, usable: list[Build]) -> None:
    for build in usable:
        if absent := builds.lacks(build, frozenset(study.needed_variables)):
            raise InputError(
                f"{build.id} has no {' and no '.join(absent)}, which {study.name} varies, so it "
                "cannot run this study. MariaDB removed it; name a MySQL or Percona server."
            )
        if why := study.refuses(build):
            raise InputError(f"{build.id} cannot run {study.name}: {why}.")


def arrays_of(study: Study, parameters: Parameters) -> Arrays | None:
    """Return the arrays that a study needs, their host connected, or None where it needs none."""
    known = study.arrays(parameters)
    if not known:
        return None
    where = parameters.model_dump()
    storage = {"chunk_kib": where["chunk_kib"]}
    return arrays.connect(known, where["inventory"], where["host"], storage)


def _require_host(
    study: Study, parameters: Parameters, usable: list[Build], wanted: Needs, found: Arrays
) -> None:
    for build in usable:
        builds.moved(build, machine.cache_folder(), found.host.folder)
    # A copy to read for each build, and one to write.
    copies = (len(usable) + 1) * study.dataset(parameters).size_bytes
    arrays.require_room(found, wanted.memory_bytes, copies)
    arrays.require_confirmed(found, parameters.model_dump()["confirm"])


def _usable_devices(study: Study, parameters: Parameters) -> tuple[Parameters, dict[str, str]]:
    """Return the parameters without the devices that are not possible here, and why."""
    real = study.arrays(parameters)
    wanted = [name for name in study.devices(parameters) if name not in real]
    reasons = {name: why for name in wanted if (why := _why_not(name))}
    if not reasons:
        return parameters, {}
    left = [name for name in wanted if name not in reasons]
    if not left:
        raise InputError(
            f"{_impossible(reasons)}. Run it as root, or on the host's own disk with "
            f"-p devices={HOST}."
        )
    return parameters.model_copy(update={"devices": left}), reasons


def _require_devices(study: Study, parameters: Parameters, arms: Sequence[Arm]) -> None:
    """Raise InputError where a device of some arms is not possible here: none may be left out."""
    real = study.arrays(parameters)
    wanted = dict.fromkeys(str(arm.device) for arm in arms if "device" in vars(arm))
    if reasons := {name: why for name in wanted if name not in real and (why := _why_not(name))}:
        raise InputError(f"{_impossible(reasons)}. Run it as root.")


def _impossible(reasons: Mapping[str, str]) -> str:
    whys = " ".join(dict.fromkeys(reasons.values()))
    return f"{', '.join(reasons)} cannot be emulated here: {whys}"


def _why_not(device: str) -> str | None:
    """Return why a device cannot be made here, or None where it can or is the host's own disk."""
    if device == HOST:
        return None
    timed = profiles()[device].times is not None
    return emulated.why_impossible() or (model_disk.why_impossible() if timed else None)


def _require_room(
    study: Study, parameters: Parameters, usable: list[Build], wanted: Needs, cache: Path
) -> None:
    memory = observe.memory_bytes(HERE)["available"]
    disks_bytes = wanted.emulated_bytes * wanted.emulated_disks
    in_memory = emulated.backing(disks_bytes) == "memory"
    needed_memory = wanted.memory_bytes + (disks_bytes if in_memory else 0)
    if needed_memory > memory and study.nodes(parameters) is None:
        raise InputError(
            f"The largest server of {study.name} needs {bytes_text(needed_memory)} of memory "
            f"and this host has {bytes_text(memory)} available. Take a smaller scale or size."
        )
    recipe = study.dataset(parameters)
    prepared = sum(datasets.has(recipe, build, cache) for build in usable)
    needed = wanted.disk_bytes_per_build * len(usable) - recipe.size_bytes * prepared
    needed += 0 if in_memory else disks_bytes
    datasets.require_disk(cache, needed)
