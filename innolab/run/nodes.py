"""Hosts of an inventory that the servers of topologies are spread over."""

import contextlib
from collections.abc import Callable, Iterator, Sequence

from innolab.base.errors import InputError
from innolab.base.units import bytes_text
from innolab.base.waiting import await_that
from innolab.hosts import alone, brought, network, observe
from innolab.hosts.brought import Equipped
from innolab.hosts.bundle import FOLDER
from innolab.run.cluster import named_hosts
from innolab.run.equip import equip
from innolab.studies.parameters import Parameters
from innolab.studies.study import Study

# A slow host takes this long to import what holds the right to measure.
_HELD_WITHIN_S = 60.0
_RUN = FOLDER / "run"


@contextlib.contextmanager
def of(
    study: Study, parameters: Parameters, builds: Sequence[str], say: Callable[[str], None]
) -> Iterator[list[Equipped]]:
    """Have the hosts that a study spreads servers over, as `ready`; none where it does not."""
    asked = study.nodes(parameters)
    if asked is None:
        yield []
        return
    with ready(asked, builds, say) as hosts:
        yield hosts


def require(asked: str, memory_bytes: int) -> None:
    """Raise InputError where a host cannot be reached or used, or has too little memory.

    Parameters
    ----------
    memory_bytes : what all servers need together
    """
    with connected(asked) as hosts:
        for host in hosts:
            brought.require_able(host)
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
            stack.enter_context(_alone(host))
        yield hosts


@contextlib.contextmanager
def _alone(host: Equipped) -> Iterator[None]:
    """Hold the right to measure on a host while the block runs, or as long as it is connected."""
    host.must(["install", "-d", "-m", "0700", _RUN], what="Making a folder")
    log = _RUN / "alone.log"
    host.remove(log)
    words = ["setpriv", "--pdeathsig", "KILL", *host.module(alone.__name__)]
    process = host.start(words, env={}, log=log)

    def is_held() -> bool:
        [said] = host.peek(log)
        if process.poll() is not None:
            raise InputError(f"{host.name}: {(said or 'it said nothing').strip()}")
        return (said or "").startswith(alone.HELD)

    try:
        await_that(is_held, _HELD_WITHIN_S, f"{host.name} did not give the right to measure")
        yield
    finally:
        process.kill()
        process.wait()
