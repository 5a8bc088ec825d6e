"""What of a study this host can run: a plan, after every check before anything is written."""

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from innolab.analysis.claims import Claim
from innolab.base import places
from innolab.base.errors import InputError
from innolab.base.units import bytes_text
from innolab.hosts import bundle, machine, observe
from innolab.hosts.local import HERE
from innolab.measure import nodes
from innolab.mysql import builds, datasets, makers
from innolab.mysql.builds import Build, Unavailable
from innolab.mysql.server import base_settings_file, require_short_path
from innolab.record.run import Factors
from innolab.storage import arrays, emulated, model_disk
from innolab.storage.arrays import Arrays
from innolab.storage.profiles import HOST, Profile
from innolab.studies.experiment import Experiment
from innolab.studies.study import Arm, Study

# What a file system needs beside its files.
_FILE_SYSTEM_RATIO, _FILE_SYSTEM_BYTES = 1.3, 400 * 1024**2


class Needs(NamedTuple):
    """What a study needs of its host: memory, disk for datasets and clones, emulated disks.

    `emulated_bytes` are those of each; there is one for all limits and one for all service times,
    and one for redo logs apart.
    """

    memory_bytes: int
    disk_bytes_per_build: int
    emulated_bytes: int
    emulated_disks: int


def needs(experiment: Experiment) -> Needs:
    """Return what an experiment needs of a host: the largest pool, all copies of the data.

    An upper bound: pools need not fill, nor need trials add all that they may to the data.
    """
    study, parameters, arms = experiment.study, experiment.parameters, experiment.arms
    recipe = study.dataset(parameters)
    asked = (study.settings(parameters, arm, recipe.expected) for arm in arms)
    pools = [int(settings.get("innodb_buffer_pool_size", 0)) for settings in asked]
    devices = {str(arm.device) for arm in arms if "device" in vars(arm)}
    whole = recipe.size_bytes + study.demands.grows_bytes(parameters)
    is_here = not devices or HOST in devices or bool(study.demands.arrays(parameters))
    of_devices = [experiment.profiles[name] for name in devices & experiment.profiles.keys()]
    emulated = {profile.times is not None for profile in of_devices}
    # Those that are read stay, one for each build; those that are written have their places.
    copies = len(parameters.builds) + study.demands.copies - 1
    emulated_bytes = copies * int(whole * _FILE_SYSTEM_RATIO) + _FILE_SYSTEM_BYTES
    return Needs(
        memory_bytes=max(pools, default=0) + study.demands.extra_bytes(parameters),
        disk_bytes_per_build=recipe.size_bytes + (study.demands.copies * whole if is_here else 0),
        emulated_bytes=emulated_bytes if emulated else 0,
        emulated_disks=len(emulated) + any(profile.has_log for profile in of_devices),
    )


def prepare(asked: Experiment, claim: Claim | None = None) -> Experiment:
    """Return what of an experiment this host can run, after every check; nothing is written.

    Parameters
    ----------
    asked : as `Experiment.fresh` makes it
    claim : the one claim that it is for, of which each device is needed; without it, all of the
        study that this host can run

    Raises
    ------
    InputError
        Names what is missing on this host and what to do about it.
    """
    study = asked.study
    if why := study.demands.impossible():
        raise InputError(f"{study.name} cannot run on this host: {why}.")
    cache = machine.cache_folder()
    machine.server_user()
    require_short_path(cache / datasets.WORK / "trial-00000")
    usable, unavailable = _builds(asked, cache)
    if not base_settings_file(cache).exists():
        raise InputError(f"There is no {base_settings_file(cache)} yet. Run: {places.set_up()}")
    for name in study.demands.tools:
        machine.tool(name)
    missing_devices: dict[str, str] = {}
    if claim is None:
        asked, missing_devices = _with_usable_devices(asked)
    ready = asked.with_plan(
        builds=[build.id for build in usable],
        unavailable=unavailable,
        missing_devices=missing_devices,
    )
    twins = [] if claim else _twins(ready)
    missing_levels = {build.id: _lacking(ready, build) for build in usable}
    ready = ready.with_plan(
        twins=twins, lacking={name: why for name, why in missing_levels.items() if why}
    )
    if claim is not None:
        ready = only(ready, claim)
        _require_devices(ready)
    wanted = needs(ready)
    _require_room(ready, usable, wanted, cache)
    if arrays_of_host := arrays_of(ready):
        with contextlib.closing(arrays_of_host.host):
            _require_host(ready, usable, wanted, arrays_of_host)
    if spread := study.demands.nodes(ready.parameters):
        for build in usable:
            builds.moved(build, cache, bundle.FOLDER)
        nodes.require(spread, wanted.memory_bytes)
    return ready


def only(whole: Experiment, claim: Claim) -> Experiment:
    """Return the arms of one claim alone, each server with a twin among them.

    Raises
    ------
    InputError
        If the plan does not have the arms.
    """
    by_build = {
        build: claim.arms_among([vars(arm) for arm in whole.arms_on(build)])
        for build in whole.plan.builds
    }
    if not any(by_build.values()):
        raise InputError(
            f"{whole.name} has no arms of {claim.id} with these parameters, at scale "
            f"'{whole.parameters.scale}' on {', '.join(whole.plan.builds)}."
        )
    # The control that each server has in a whole plan too: here an arm of the claim itself.
    controls = [whole.control([Arm(**arm) for arm in arms]) for arms in by_build.values() if arms]
    return whole.with_plan(
        claims=[claim.id],
        arms=[arm for arms in by_build.values() for arm in arms],
        twins=[vars(control) for control in controls],
    )


def _twins(whole: Experiment) -> list[Factors]:
    """Return the control of each build, also where the build cannot have it."""
    if not whole.arms:
        raise InputError(
            f"{whole.name} has nothing to measure with these parameters at scale "
            f"'{whole.parameters.scale}'. Name other devices, or take a larger scale."
        )
    return [vars(whole.control(whole.arms_on(build))) for build in whole.plan.builds]


def _builds(asked: Experiment, cache: Path) -> tuple[list[Build], dict[str, str]]:
    found = [builds.find(cache, wanted) for wanted in asked.parameters.builds]
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
    _require_able(asked.study, usable)
    return usable, missing


def _lacking(ready: Experiment, build: Build) -> dict[str, dict[str, str]]:
    levels_of = ready.study.demands.lacks(build, ready.parameters)
    return {name: dict(levels) for name, levels in levels_of.items() if levels}


def _require_able(study: Study, usable: list[Build]) -> None:
    for build in usable:
        if absent := builds.lacks(build, frozenset(study.demands.variables)):
            raise InputError(
                f"{build.id} has no {' and no '.join(absent)}, which {study.name} needs, so it "
                f"cannot run this study{_instead(build, absent)}. Name another with -p builds=, "
                "such as mysql-9.7."
            )
        if why := study.demands.refuses(build):
            raise InputError(f"{build.id} cannot run {study.name}: {why}.")


def _instead(build: Build, absent: Sequence[str]) -> str:
    known = [why for name in absent if (why := makers.instead(build.version, name))]
    return f": {'; '.join(known)}" if known else ""


def arrays_of(experiment: Experiment) -> Arrays | None:
    """Return the arrays that are needed, their host connected, or None if none are."""
    parameters = experiment.parameters
    known = experiment.study.demands.arrays(parameters)
    if not known:
        return None
    storage = {"chunk_kib": parameters.chunk_kib}
    return arrays.connect(known, parameters.inventory, parameters.host, storage)


def _require_host(ready: Experiment, usable: list[Build], wanted: Needs, found: Arrays) -> None:
    for build in usable:
        builds.moved(build, machine.cache_folder(), found.host.folder)
    # A copy to read for each build, and one to write.
    copies = (len(usable) + 1) * ready.study.dataset(ready.parameters).size_bytes
    arrays.require_room(found, wanted.memory_bytes, copies)
    arrays.require_confirmed(found, ready.parameters.confirm)


def _with_usable_devices(asked: Experiment) -> tuple[Experiment, dict[str, str]]:
    real = asked.study.demands.arrays(asked.parameters)
    wanted = [name for name in asked.devices if name not in real]
    reasons = _reasons(wanted, asked.profiles)
    if not reasons:
        return asked, {}
    left = [name for name in wanted if name not in reasons]
    if not left:
        by_name = "devices" in type(asked.parameters).model_fields
        own = f", or on the host's own disk with -p devices={HOST}" if by_name else ""
        raise InputError(f"{_impossible(reasons)}. Run it as root{own}.")
    parameters = asked.parameters.model_copy(update={"devices": left})
    return Experiment.fresh(asked.study, parameters), reasons


def _require_devices(ready: Experiment) -> None:
    """Raise InputError if a device of some arm is not possible here: none may be left out."""
    real = ready.study.demands.arrays(ready.parameters)
    wanted = dict.fromkeys(str(arm.device) for arm in ready.arms if "device" in vars(arm))
    if reasons := _reasons([name for name in wanted if name not in real], ready.profiles):
        raise InputError(f"{_impossible(reasons)}. Run it as root.")


def _reasons(devices: Sequence[str], known: Mapping[str, Profile]) -> dict[str, str]:
    return {name: why for name in devices if (why := _why_not(known.get(name)))}


def _impossible(reasons: Mapping[str, str]) -> str:
    whys = " ".join(dict.fromkeys(reasons.values()))
    return f"{', '.join(reasons)} cannot be emulated here: {whys}"


def _why_not(device: Profile | None) -> str | None:
    """Return why a device cannot be made here; None if it can, or is the host's own disk."""
    if device is None:
        return None
    return emulated.why_impossible() or (model_disk.why_impossible() if device.times else None)


def _require_room(ready: Experiment, usable: list[Build], wanted: Needs, cache: Path) -> None:
    memory = observe.memory_bytes(HERE)["available"]
    disks_bytes = wanted.emulated_bytes * wanted.emulated_disks
    in_memory = emulated.backing(disks_bytes) == "memory"
    needed_memory = wanted.memory_bytes + (disks_bytes if in_memory else 0)
    if needed_memory > memory and ready.study.demands.nodes(ready.parameters) is None:
        raise InputError(
            f"The largest server of {ready.name} needs {bytes_text(needed_memory)} of memory "
            f"and this host has {bytes_text(memory)} available. Take a smaller scale or size."
        )
    recipe = ready.study.dataset(ready.parameters)
    prepared = sum(datasets.has(recipe, build, cache) for build in usable)
    needed = wanted.disk_bytes_per_build * len(usable) - recipe.size_bytes * prepared
    needed += 0 if in_memory else disks_bytes
    datasets.require_disk(cache, needed)
