"""A fleet: the hosts of a Dask cluster, each of which measures whole blocks, one at a time.

Dask brings a block to a host and its runs back, and sees that a host is lost. Who takes part is
told by `innolab.fleet.admission`; which host gets which block is decided here: Dask would queue
blocks at a host that is still busy. The block of a slow host is given to an idle one too, and the
first result counts.
"""

import re
import statistics
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from innolab.base.errors import InnolabError, InputError
from innolab.base.quoting import shown
from innolab.fleet.admission import RESOURCE, Can, FleetHosts, ended
from innolab.measure.block import Measured, Task, ability, measure_block
from innolab.record.plan import Progress

_TOPIC = "innolab"
_ADDRESS = re.compile(r"(tcp|tls)://(\[[0-9a-fA-F:.]+\]|[\w.-]+):(\d{1,5})", re.ASCII)
_CONNECT_S = 20
# Within which a host's block is handed over.
_FETCH_S = 60.0
# How often hosts are looked at that say nothing.
_LOOK_S = 2.0
# How long a fleet may be without any host before the work ends.
_ALONE_S = 120.0
# Of a block, after which its hosts are not lost by chance.
_MOST_LOSSES = 3
# A block that takes longer than the others by this factor is given to an idle host too.
_SLOW = 1.5
# One with failed trials waits for another host's, but not for one that takes longer by this.
_HOPELESS = 4.0

Measure = Callable[[Task, Callable[[int, int], None]], Measured]


@dataclass
class _Wanted:
    """A block that has not been handed on.

    Attributes
    ----------
    task : what a host is to measure
    refused : the workers that could not measure it
    why : what the last of them said
    losses : how often a host that had it was lost
    found : what a host gave, of which some trials failed while another host measures it too
    """

    task: Task
    refused: set[str] = field(default_factory=set)
    why: str = ""
    losses: int = 0
    found: Measured | None = None


def require_address(address: str) -> None:
    """Raise InputError where an address cannot be a scheduler's: Dask would trace back, late."""
    named = _ADDRESS.fullmatch(address)
    if named is None or not 0 < int(named[3]) < 2**16:
        raise InputError(
            f"{shown(address)} is no address of a Dask scheduler; write it as tcp://HOST:PORT. "
            "Nothing was written."
        )
    if named[1] == "tls" and not _has_keys():
        raise InputError(
            f"{address} takes keys, and there are none. Name their files in Dask's configuration, "
            "below distributed.comm.tls. Nothing was written."
        )


def _has_keys() -> bool:
    from distributed import Security

    try:
        return bool(Security().get_connection_args("client").get("ssl_context"))
    except (OSError, ValueError):
        return False


class _Copy(NamedTuple):
    """A block that a worker has been given, and the answer that is to come."""

    worker: str
    block: int
    given_at: float
    future: Any


class Fleet:
    """The hosts of a Dask cluster at work: hands out blocks, and takes what they measured.

    Parameters
    ----------
    address : the scheduler's, as tcp://HOST:PORT
    progress : who is informed
    measure : what a host does with a block
    can : what a host says of itself
    security : what to prove oneself with, where the scheduler asks for that

    Attributes
    ----------
    hosts : who takes part

    Raises
    ------
    InputError
        If no scheduler answers there, or it has no such worker.
    """

    def __init__(
        self,
        address: str,
        progress: Progress,
        measure: Measure = measure_block,
        can: Can = ability,
        security: Any = None,
    ) -> None:
        from distributed import Client

        try:
            self._client = Client(
                address, timeout=_CONNECT_S, set_as_default=False, security=security
            )
        except (OSError, ValueError) as error:
            raise InputError(
                f"No Dask scheduler answers at {address} ({error}). Start one with: dask "
                "scheduler; and on each host: dask worker ADDRESS --nthreads 1 --resources "
                f"{RESOURCE}=1. Nothing was written."
            ) from None
        self.address = address
        self._progress = progress
        self._measure = measure
        self.hosts = FleetHosts(self._client, address, can, progress)
        self._alone_since: float | None = None
        self._took_s: list[float] = []
        self._wanted: dict[int, _Wanted] = {}
        # By the key of the answer.
        self._working: dict[str, _Copy] = {}
        self._client.subscribe_topic(_TOPIC, self._heard)
        try:
            self.hosts.require_some(self.hosts.workers())
        except InnolabError:
            self.close()
            raise

    def __enter__(self) -> "Fleet":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the cluster; what its hosts still measure is discarded."""
        self._client.close()

    def blocks(self, tasks: Sequence[Task]) -> Iterator[Measured]:
        """Yield blocks as they arrive, in any order, each once.

        Raises
        ------
        InnolabError
            If a block failed on every host, no host is left, or the scheduler ended.
        """
        self._wanted = {task.block: _Wanted(task) for task in tasks}
        try:
            while self._wanted:
                self._hand_out()
                self._wait()
                for copy in [copy for copy in self._working.values() if copy.future.done()]:
                    # Its host may have been lost while the block before was recorded.
                    if copy.future.done():
                        self._take(copy)
                        settled = list(self._settled())
                        # Hosts would be idle until all others' blocks are recorded.
                        self._hand_out()
                        yield from settled
                self._take_back()
                yield from self._settled()
        finally:
            if self._client.status == "running":
                futures = [copy.future for copy in self._working.values()]
                self._client.cancel(futures, force=True)
            self._working.clear()

    def _hand_out(self) -> None:
        """Give each idle host a block that nobody has, else one that is late elsewhere.

        A host gets its next block once its last one is here: it may be lost with both otherwise.
        """
        running = [copy for copy in self._working.values() if not copy.future.done()]
        answered = {copy.block for copy in self._working.values() if copy.future.done()}
        busy = {copy.worker for copy in self._working.values()}
        having = Counter(copy.block for copy in self._working.values())
        hosts = self.hosts.admitted()
        if idle := [worker for worker in hosts if worker not in busy]:
            wanted = self._wanted.values()
            free = [one for one in wanted if not having[one.task.block]]
            lacking = {copy.block for copy in running} - answered
            late = [one for one in wanted if one.task.block in lacking and self._is_late(one)]
            left = [*free, *late]
            for worker in idle:
                able = (one for one in left if worker not in one.refused)
                if (one := next(able, None)) is not None:
                    left.remove(one)
                    having[one.task.block] += 1
                    self._give(worker, one.task)
        for one in self._wanted.values():
            if hosts and not having[one.task.block] and one.refused.issuperset(hosts):
                raise InnolabError(
                    f"No host can measure block {one.task.block + 1}; the last one says: "
                    f"{one.why.rstrip('.')}. All finished blocks are kept; fix this and run the "
                    "same command."
                )

    def _give(self, worker: str, task: Task) -> None:
        future = self._client.submit(
            _on_host,
            self._measure,
            task,
            resources={RESOURCE: 1},
            workers=[worker],
            pure=False,
        )
        self._working[str(future.key)] = _Copy(worker, task.block, time.monotonic(), future)

    def _is_late(self, one: _Wanted) -> bool:
        return one.found is None and self._lateness(one.task.block) > _SLOW

    def _lateness(self, block: int) -> float:
        """Return by which factor a host has had a block longer than others took for theirs.

        That host is the last that was given it, as those before may never answer. Its time is from
        when it was given the block: one that hangs never says that it began.
        """
        if not self._took_s:
            return 0
        given_at = max(copy.given_at for copy in self._working.values() if copy.block == block)
        return (time.monotonic() - given_at) / statistics.median(self._took_s)

    def _wait(self) -> None:
        """Wait until an answer comes, or it is time to look after the hosts."""
        from distributed import wait

        futures = [copy.future for copy in self._working.values()]
        with self._client.as_current():
            try:
                wait(futures, timeout=_LOOK_S, return_when="FIRST_COMPLETED")
            except TimeoutError:
                pass
            except (OSError, CancelledError):
                raise ended(self.address) from None
        if self._client.status != "running":
            raise ended(self.address)
        if self.hosts.admitted():
            self._alone_since = None
            return
        time.sleep(_LOOK_S)
        now = time.monotonic()
        self._alone_since = self._alone_since or now
        if now - self._alone_since > _ALONE_S:
            raise InnolabError(
                f"No host has answered for {_ALONE_S:.0f} s. All finished blocks are kept; see "
                f"that hosts and their connections to the scheduler at {self.address} work, then "
                "run the same command."
            )

    def _take(self, copy: _Copy) -> None:
        if (one := self._wanted.get(copy.block)) is None:
            # Another host gave it before.
            del self._working[copy.future.key]
            return
        if copy.future.status == "error":
            error = copy.future.exception()
            at = traceback.extract_tb(copy.future.traceback())[-1:]
            where = "".join(f" ({Path(one.filename).name}, line {one.lineno})" for one in at)
            raise InnolabError(
                f"block {copy.block + 1} failed with {type(error).__name__}: {error}{where}"
            )
        try:
            answer: Measured | _Failed = copy.future.result(timeout=_FETCH_S)
        except TimeoutError:
            self._lose(copy)
            return
        except (OSError, CancelledError):
            raise ended(self.address) from None
        del self._working[copy.future.key]
        if isinstance(answer, Measured):
            if one.found is None or answer.failed < one.found.failed:
                one.found = answer
            # Trials that fail may take no time, beside which every other host would be late.
            if not answer.failed:
                self._took_s.append(time.monotonic() - copy.given_at)
            return
        one.refused.add(copy.worker)
        one.why = answer.why
        who = self.hosts.name(copy.worker)
        self._progress.mark(f"block {copy.block + 1}: {who} could not measure it: {one.why}")

    def _settled(self) -> Iterator[Measured]:
        """Yield the blocks that have arrived, each once.

        One with failed runs waits for the other host that measures it, or a host that fails soon
        would displace one that does not.
        """
        having = {copy.block for copy in self._working.values()}
        for block, one in list(self._wanted.items()):
            if one.found is None:
                continue
            if one.found.failed and block in having and self._lateness(block) < _HOPELESS:
                continue
            del self._wanted[block]
            yield one.found

    def _take_back(self) -> None:
        known = self.hosts.workers()
        for copy in [copy for copy in self._working.values() if copy.worker not in known]:
            self._lose(copy)

    def _lose(self, copy: _Copy) -> None:
        """Take a block back from a host that was lost, or the block with it."""
        del self._working[copy.future.key]
        self._client.cancel([copy.future], force=True)
        if (one := self._wanted.get(copy.block)) is None:
            return
        one.losses += 1
        who = self.hosts.name(copy.worker)
        self._progress.mark(f"block {copy.block + 1}: {who} was lost")
        if one.losses == _MOST_LOSSES:
            raise InnolabError(
                f"Block {copy.block + 1} was given to {_MOST_LOSSES} hosts that were lost, at last "
                f"{who}. All finished blocks are kept; look at these hosts, then run the same "
                "command."
            )

    def _heard(self, event: tuple[float, "_Heard"]) -> None:
        """Take how far a host is, in the client's own thread.

        The topic is one for all reports that the cluster measures, and for copies given up.
        """
        heard = _Heard(*event[1])
        if (copy := self._working.get(heard.key)) is not None:
            at = f"trial {heard.done + 1} of {heard.total} of block {copy.block + 1}"
            self._progress.say(f"{self.hosts.name(copy.worker)}: {at}")


class _Heard(NamedTuple):
    """How far a worker is with what it was given, by the key of the answer; trials are counted."""

    key: str
    done: int
    total: int


class _Failed(NamedTuple):
    """Why a host could not measure a block, as text."""

    why: str


def _on_host(measure: Measure, task: Task) -> Measured | _Failed:
    """Measure a block in a worker, which tells whoever asked how far it is."""
    from distributed import get_worker

    worker = get_worker()
    key = str(worker.get_current_task())

    def heed(done: int, total: int) -> None:
        worker.log_event(_TOPIC, tuple(_Heard(key, done, total)))

    try:
        return measure(task, heed)
    except (InnolabError, OSError) as error:
        return _Failed(str(error))
