"""Faults of a source that clients write to, and how each is mended."""

import time
from collections.abc import Callable
from typing import NamedTuple

from innolab.hosts.network import Link, Network
from innolab.mysql.topology import Topology

# Holds back what is committed: eight connections write some ten times as much.
_SLOW, _SLOW_S = Link(bits_per_s=200_000), 4.0


class Fault(NamedTuple):
    """What is done to the source of a topology, and what undoes it.

    `reaches_old` is whether an operator still reaches the source's node.
    """

    break_: Callable[[Topology, Network], None]
    mend: Callable[[Topology, Network], None]
    reaches_old: bool = True


def _kill(raised: Topology, _network: Network) -> None:
    raised.source.kill()


def _start(raised: Topology, _network: Network) -> None:
    raised.source.start()


def _signal(name: str) -> Callable[[Topology, Network], None]:
    return lambda raised, _network: raised.source.signal(name)


def _slow_and_kill(raised: Topology, network: Network) -> None:
    for name in raised.replicas:
        network.shape(name, _SLOW)
    time.sleep(_SLOW_S)
    raised.source.kill()


def _start_and_free(raised: Topology, network: Network) -> None:
    raised.source.start()
    for name in raised.replicas:
        network.shape(name, Link())


FAULTS = {
    "kill": Fault(_kill, _start),
    "stop": Fault(_signal("STOP"), _signal("CONT")),
    "cut": Fault(
        lambda raised, network: network.cut(raised.source_name),
        lambda raised, network: network.mend(raised.source_name),
        reaches_old=False,
    ),
    # Links to the replicas that are slow for a while, before the source is killed.
    "slow": Fault(_slow_and_kill, _start_and_free),
}
