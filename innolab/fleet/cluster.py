"""A Dask cluster of an inventory's hosts: its scheduler here, a worker brought to each over ssh.

A host needs ssh and root, no network and nothing of ours. Whoever reaches a Dask scheduler can run
programs on its hosts, so both sides prove themselves by keys made for this one cluster.
"""

import contextlib
import logging
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from innolab.base.errors import InnolabError, InputError
from innolab.base.ports import free_ports
from innolab.hosts.bundle import Bundle
from innolab.hosts.installed import Worker
from innolab.hosts.inventory import Named, named_hosts
from innolab.hosts.ssh import Remote
from innolab.measure.nodes import equip
from innolab.mysql.builds import TOOLS
from innolab.record.plan import Progress
from innolab.studies.experiment import Experiment

# A slow host takes this long to import what measures.
_JOIN_S = 180.0
_LOOK_S = 0.5


class Cluster:
    """A scheduler and its workers, as long as the block runs.

    Attributes
    ----------
    address : the scheduler's
    security : what a client of it proves itself with
    """

    def __init__(self, hosts: Sequence[Named], builds: Sequence[str], progress: Progress) -> None:
        self._named = hosts
        self._builds = builds
        self._progress = progress
        self._stack = contextlib.ExitStack()
        self.address = ""
        self.security: Any = None

    def __enter__(self) -> "Cluster":
        """Bring innolab to the hosts and start their workers.

        Raises
        ------
        InputError
            If a host cannot be reached or used; nothing was measured or written then.
        InnolabError
            If one does not take what is brought, or its worker does not come.
        """
        with contextlib.ExitStack() as stack:
            hosts = [stack.enter_context(_connected(one)) for one in self._named]
            bundle = equip(hosts, self._builds, self._progress.say)
            scheduler = stack.enter_context(self._scheduler())
            self._start(hosts, bundle, scheduler, stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @contextlib.contextmanager
    def _scheduler(self) -> Iterator[Any]:
        from distributed import LocalCluster, Security

        self.security = Security.temporary()
        with LocalCluster(
            n_workers=0,
            host="127.0.0.1",
            protocol="tls://",
            security=self.security,
            dashboard_address=None,
            # Beginnings and ends of connections: what matters of them is said by the fleet.
            silence_logs=logging.ERROR,
        ) as made:
            self.address = made.scheduler_address
            yield made.scheduler

    def _start(
        self, hosts: list[Remote], bundle: Bundle, scheduler: Any, stack: contextlib.ExitStack
    ) -> None:
        logs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="innolab-hosts-")))
        credentials = {
            "ca": self.security.tls_ca_file,
            "cert": self.security.tls_worker_cert,
            "key": self.security.tls_worker_key,
        }
        port = int(self.address.rpartition(":")[2])
        workers = []
        for host, own_port in zip(hosts, free_ports(len(hosts)), strict=True):
            log = logs / f"{host.name}.log"
            worker = Worker(host, bundle, port, own_port, credentials, log)
            stack.callback(worker.end)
            workers.append(worker)
        began = time.monotonic()
        while missing := {one.name for one in workers} - _joined(scheduler):
            self._progress.say(f"waiting for {', '.join(sorted(missing))}")
            for worker in workers:
                if (says := worker.ended()) is not None:
                    raise InnolabError(
                        f"innolab ended on {worker.name} as soon as it was started. It said: "
                        f"{says}. Nothing was measured."
                    )
            if time.monotonic() > began + _JOIN_S:
                raise InnolabError(
                    f"innolab was started on {', '.join(sorted(missing))} but does not answer "
                    f"after {_JOIN_S:.0f} s. ssh has to forward ports there (AllowTcpForwarding). "
                    "Nothing was measured."
                )
            time.sleep(_LOOK_S)


def of_inventory(asked: Experiment, inventory: str, progress: Progress) -> Cluster:
    """Return the cluster of the hosts that INVENTORY or INVENTORY:GROUP names, not started yet.

    Raises
    ------
    InputError
        If the study measures on one host at a time, or the inventory is wrong.
    """
    if asked.study.demands.arrays(asked.parameters):
        raise InputError(
            f"{asked.name} makes arrays of a host's disks, one host at a time: name it by -p "
            "inventory=INVENTORY -p host=HOST. Nothing was written."
        )
    builds = [name for name in asked.parameters.builds if name not in TOOLS]
    return Cluster(named_hosts(inventory), builds, progress)


@contextlib.contextmanager
def _connected(named: Named) -> Iterator[Remote]:
    host = Remote(named.address, named.emulator)
    try:
        yield host
    finally:
        host.close()


def _joined(scheduler: Any) -> set[str]:
    return {str(worker.name) for worker in list(scheduler.workers.values())}
