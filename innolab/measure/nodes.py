"""Hosts of an inventory that the servers of topologies are spread over."""

import contextlib
from collections.abc import Callable, Iterator, Sequence

from innolab.base.errors import InputError
from innolab.base.units import bytes_text
from innolab.hosts import installed, network, observe
from innolab.hosts.installed import Equipped
from innolab.hosts.inventory import named_hosts
from innolab.measure.installing import equip
from innolab.studies.experiment import Experiment


@contextlib.contextmanager
def of(experiment: Experiment, say: Callable[[str], None]) -> Iterator[list[Equipped]]:
    """Have the hosts that a study spreads servers over, as `ready`; none where it does not."""
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
        Where one cannot be reached or used.
    InnolabError
        Where one does not take what is brought.
    """
    with connected(asked) as hosts, contextlib.ExitStack() as stack:
        equip(hosts, builds, say)
        for host in hosts:
            stack.enter_context(installed.measured_alone(host))
        yield hosts
