"""What a study needs of its host, known before anything is measured."""

from typing import NamedTuple

from innolab.storage.profiles import HOST, profiles
from innolab.studies.experiment import Experiment

# What a file system needs beside its files.
_FILE_SYSTEM_RATIO, _FILE_SYSTEM_BYTES = 1.3, 400 * 1024**2


class Needs(NamedTuple):
    """What a study needs of its host: memory, disk for datasets and clones, emulated disks.

    `emulated_bytes` are those of each; there is one for all limits and one for all service times.
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
    emulated = {profiles()[name].times is not None for name in devices & profiles().keys()}
    # Those that are read stay, one for each build; those that are written have their places.
    copies = len(parameters.builds) + study.demands.copies - 1
    emulated_bytes = copies * int(whole * _FILE_SYSTEM_RATIO) + _FILE_SYSTEM_BYTES
    return Needs(
        memory_bytes=max(pools, default=0) + study.demands.extra_bytes(parameters),
        disk_bytes_per_build=recipe.size_bytes + (study.demands.copies * whole if is_here else 0),
        emulated_bytes=emulated_bytes if emulated else 0,
        emulated_disks=len(emulated),
    )
