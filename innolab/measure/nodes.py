"""Hosts over ssh: this innolab brought to them, for the servers of topologies that are spread."""

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from innolab.base.errors import InputError
from innolab.base.units import bytes_text
from innolab.hosts import installed, machine, network, observe
from innolab.hosts.bundle import FOLDER, Bundle
from innolab.hosts.installed import Equipped
from innolab.hosts.inventory import named_hosts
from innolab.hosts.ssh import Remote
from innolab.mysql import builds as installed_builds
from innolab.mysql.builds import Build
from innolab.studies.experiment import Experiment

# Hosts that are sent an archive at a time.
_SIDE_BY_SIDE = 8


@contextlib.contextmanager
def of(experiment: Experiment, say: Callable[[str], None]) -> Iterator[list[Equipped]]:
    """Have the hosts that a study spreads servers over, as `ready`; none if it does not."""
    asked = experiment.study.demands.nodes(experiment.parameters)
    if asked is None:
        yield []
        return
    with ready(asked, experiment.plan.builds, say) as hosts:
        yield hosts


def require(asked: str, memory_bytes: int) -> None:
    """Raise InputError where a host cannot be reached or used, or has too little memory.

    Parameters
    ----------
    memory_bytes : what all servers need together
    """
    with connected(asked) as hosts:
        for host in hosts:
            installed.require_able(host)
            network.require_able(host)
            needed, free = memory_bytes // len(hosts), observe.memory_bytes(host)["available"]
            if free < needed:
                raise InputError(
                    f"Servers on {host.name} may need {bytes_text(needed)} of memory and it has "
                    f"{bytes_text(free)} available. Take a smaller scale, or name more hosts. "
                    "Nothing was written."
                )


@contextlib.contextmanager
def connected(asked: str) -> Iterator[list[Equipped]]:
    """Have connections to the hosts of INVENTORY or INVENTORY:GROUP while the block runs."""
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(contextlib.closing(Equipped(one.address, one.emulator)))
            for one in named_hosts(asked)
        ]


@contextlib.contextmanager
def ready(
    asked: str, builds: Sequence[str], say: Callable[[str], None]
) -> Iterator[list[Equipped]]:
    """Have hosts with this innolab, on which nobody else measures, while the block runs.

    Parameters
    ----------
    builds : the servers that they need, by id

    Raises
    ------
    InputError
        If one cannot be reached or used.
    InnolabError
        If one does not take what is brought.
    """
    with connected(asked) as hosts, contextlib.ExitStack() as stack:
        equip(hosts, builds, say)
        for host in hosts:
            stack.enter_context(installed.measured_alone(host))
        yield hosts


def equip(hosts: Sequence[Remote], wanted: Sequence[str], say: Callable[[str], None]) -> Bundle:
    """Bring this innolab to hosts that lack it, and prove that their servers are ours.

    Parameters
    ----------
    wanted : the servers that go with it, by id
    say : takes a line about what is being done

    Raises
    ------
    InputError
        If a host cannot be used, or a server does not lie in the cache; nothing was written.
    InnolabError
        If a host does not take what is brought.
    """
    for host in hosts:
        installed.require_able(host)
    cache = machine.cache_folder()
    found = [installed_builds.find(cache, name) for name in wanted]
    servers = [one for one in found if isinstance(one, Build)]
    for one in servers:
        installed_builds.moved(
            one, cache, FOLDER
        )  # Refuses what lies elsewhere, before it is packed.
    # The record of one that is unavailable here says so there.
    bundle = Bundle(one.id for one in found)
    without = [host for host in hosts if not installed.is_there(host, bundle)]
    for host in without:
        installed.require_room(host)
    say(f"bringing innolab to {', '.join(host.name for host in hosts)}")
    # Without a name, so that nothing is left of it if we are killed.
    with tempfile.TemporaryFile(dir=cache) as archive:
        if without:
            bundle.pack(archive)
            archive.flush()
        with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
            packed = Path(f"/proc/self/fd/{archive.fileno()}")
            list(pool.map(lambda host: installed.bring(host, bundle, packed), hosts))
    for host in hosts:
        for one in servers:
            installed_builds.require_same(one, host, FOLDER)
    return bundle
