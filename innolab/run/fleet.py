"""A fleet: the hosts of a Dask cluster, each of which measures whole blocks, one at a time.

Dask brings a block to a host and its runs back, and sees that a host is lost. Which host gets
which block is decided here: Dask would queue blocks at a host that is still busy. The block of a
slow host is given to an idle one too, and the first result counts.
"""

import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from innolab.base.errors import InnolabError, InputError
from innolab.record.plan import Plan, Progress
from innolab.run.block import Ability, Measured, Task, ability, measure_block

# The resource that each worker declares once, so that no host ever runs two trials at a time.
RESOURCE = "host"
_TOPIC = "innolab"
_CONNECT_S = 20
# Of two clocks: half of it may be the way to the host.
_CLOCKS_APART_S = 2.0
# How often hosts are looked at that say nothing.
_LOOK_S = 2.0
# How long a fleet may be without any host before the work ends.
_ALONE_S = 120.0
# Of a block, after which its hosts are not lost by chance.
_MOST_LOSSES = 3
# A block that takes longer than the others by this factor is given to an idle host too.
_SLOW = 1.5

Measure = Callable[[Task, Callable[[int, int], None]], Measured]


@dataclass
class _Wanted:
    """A block that has not arrived.

    Attributes
    ----------
    task : what a host is to measure
    began : when a host began with it, None as long as none has
    refused : the workers that could not measure it
    losses : how often a host that had it was lost
    """

    task: Task
    began: float | None = None
    refused: set[str] = field(default_factory=set)
    losses: int = 0


class Fleet:
    """The workers of a Dask scheduler that declare the resource `host`.

    Parameters
    ----------
    address : the scheduler's, as tcp://HOST:PORT
    progress : who is informed
    measure : what a host does with a block

    Raises
    ------
    InputError
        Where no scheduler answers there, or it has no such worker.
    """

    def __init__(self, address: str, progress: Progress, measure: Measure = measure_block) -> None:
        from distributed import Client

        try:
            self._client = Client(address, timeout=_CONNECT_S, set_as_default=False)
        except (OSError, ValueError) as error:
            raise InputError(
                f"No Dask scheduler answers at {address} ({error or 'no reason'}). Start one with: "
                "dask scheduler; and on each host: dask worker ADDRESS --nthreads 1 --resources "
                f"{RESOURCE}=1. Nothing was written."
            ) from None
        self.address = address
        self._progress = progress
        self._measure = measure
        self._alone_since: float | None = None
        self._took_s: list[float] = []
        self._wanted: dict[int, _Wanted] = {}
        # Each answer that is to come, with the worker that gives it and its block.
        self._working: dict[Any, tuple[str, int]] = {}
        self._client.subscribe_topic(_TOPIC, self._heard)
        if not self.workers():
            self.close()
            raise InputError(
                f"The scheduler at {address} has no worker with the resource '{RESOURCE}'. Start "
                f"on each host: dask worker {address} --nthreads 1 --resources {RESOURCE}=1. "
                "Nothing was written."
            )

    def __enter__(self) -> "Fleet":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the cluster; what its hosts still measure is discarded."""
        self._client.close()

    def workers(self) -> list[str]:
        """Return the addresses of the workers that can be hosts."""
        try:
            known = self._client.scheduler_info(n_workers=-1)["workers"]
        except OSError:
            raise self._lost() from None
        return sorted(at for at, one in known.items() if one["resources"].get(RESOURCE))

    def prepare(self, study: str, given: dict[str, Any]) -> Plan:
        """Return the plan that every host of the fleet can run, a wave of as many blocks as hosts.

        Raises
        ------
        InputError
            Where a host cannot run the study, or two differ in what they can run, in innolab, in
            a build or in their clocks; names both.
        """
        asked_at = time.time()
        workers = self.workers()
        answers = self._client.run(ability, study, given, workers=workers, on_error="return")
        took_s = time.time() - asked_at
        for worker, found in answers.items():
            if isinstance(found, BaseException):
                raise InputError(f"The host at {worker} cannot take part: {found}")
        first = answers[workers[0]]
        for worker in workers:
            _require_alike(first, answers[worker], (workers[0], worker), took_s)
        if twice := len(workers) - len({one.member for one in answers.values()}):
            raise InputError(
                f"{twice + 1} workers are one host with one cache folder, and two trials would "
                "measure each other. Start one worker on each host. Nothing was written."
            )
        plan: Plan = first.plan
        return replace(plan, wave=len(workers))

    def blocks(self, tasks: Sequence[Task]) -> Iterator[Measured]:
        """Yield blocks as they arrive, in any order, each once.

        Raises
        ------
        InnolabError
            Where a block failed on every host, no host is left, or the scheduler ended.
        """
        wanted = self._wanted = {task.block: _Wanted(task) for task in tasks}
        try:
            while wanted:
                self._hand_out()
                self._wait()
                for future in [future for future in self._working if future.done()]:
                    _, block = self._working[future]
                    found = self._answer(future)
                    if found is not None and block in wanted:
                        del wanted[block]
                        yield found
                self._take_back()
        finally:
            if self._client.status == "running":
                self._client.cancel(list(self._working), force=True)
            self._working.clear()

    def _hand_out(self) -> None:
        """Give each idle host a block that nobody has, else one that is late elsewhere."""
        busy = {worker for worker, _ in self._working.values()}
        having = Counter(block for _, block in self._working.values())
        workers = self.workers()
        for worker in [worker for worker in workers if worker not in busy]:
            able = [one for one in self._wanted.values() if worker not in one.refused]
            free = (one for one in able if not having[one.task.block])
            late = (one for one in able if having[one.task.block] == 1 and self._is_late(one))
            if (one := next(free, None) or next(late, None)) is None:
                continue
            having[one.task.block] += 1
            future = self._client.submit(
                _on_host,
                self._measure,
                one.task,
                resources={RESOURCE: 1},
                workers=[worker],
                pure=False,
            )
            self._working[future] = worker, one.task.block
        for one in self._wanted.values():
            if workers and not having[one.task.block] and one.refused.issuperset(workers):
                raise InnolabError(
                    f"No host can measure block {one.task.block + 1}; why is said above. All "
                    "finished blocks are kept; fix this and run the same command."
                )

    def _is_late(self, one: _Wanted) -> bool:
        """Return whether a block takes much longer than those that have arrived."""
        if one.began is None or not self._took_s:
            return False
        return time.monotonic() - one.began > _SLOW * statistics.median(self._took_s)

    def _wait(self) -> None:
        """Wait until an answer comes, or it is time to look after the hosts."""
        from distributed import wait

        with self._client.as_current():
            try:
                wait(list(self._working), timeout=_LOOK_S, return_when="FIRST_COMPLETED")
            except TimeoutError:
                pass
            except (OSError, CancelledError):
                raise self._lost() from None
        if self._client.status != "running":
            raise self._lost()
        if self.workers():
            self._alone_since = None
            return
        time.sleep(_LOOK_S)
        now = time.monotonic()
        self._alone_since = self._alone_since or now
        if now - self._alone_since > _ALONE_S:
            raise InnolabError(
                f"The scheduler at {self.address} has had no host for {_ALONE_S:.0f} s. All "
                "finished blocks are kept; start its workers again, then run the same command."
            )

    def _lost(self) -> InnolabError:
        return InnolabError(
            f"The scheduler at {self.address} does not answer any more. All finished blocks are "
            "kept; start it and its workers again, then run the same command."
        )

    def _answer(self, future: Any) -> Measured | None:
        """Return the block that a host gives; None, and why, where it gives none."""
        worker, block = self._working.pop(future)
        one = self._wanted.get(block)
        if future.status == "finished":
            answer: Measured | _Failed = future.result()
            if isinstance(answer, Measured):
                if one and one.began:
                    self._took_s.append(time.monotonic() - one.began)
                return answer
            self._progress.mark(f"block {block + 1}: {worker} could not measure it: {answer.why}")
            if one:
                one.refused.add(worker)
            return None
        if future.status != "error":
            raise self._lost()
        error = future.exception()
        raise InnolabError(f"block {block + 1} failed with {type(error).__name__}: {error}")

    def _take_back(self) -> None:
        """Take blocks back from hosts that are lost."""
        known = self.workers()
        for future, (worker, block) in list(self._working.items()):
            if worker in known:
                continue
            del self._working[future]
            self._client.cancel([future], force=True)
            if (one := self._wanted.get(block)) is None:
                continue
            one.losses, one.began = one.losses + 1, None
            self._progress.mark(f"block {block + 1}: {worker} was lost")
            if one.losses == _MOST_LOSSES:
                raise InnolabError(
                    f"Block {block + 1} was given to {_MOST_LOSSES} hosts that were lost, at last "
                    f"{worker}. All finished blocks are kept; look at these hosts, then run the "
                    "same command."
                )

    def _heard(self, event: tuple[float, "_Heard"]) -> None:
        """Take how far a host is, in the client's own thread."""
        heard = _Heard(*event[1])
        if one := self._wanted.get(heard.block):
            one.began = one.began or time.monotonic()
        self._progress.say(
            f"{heard.worker}: trial {heard.done + 1} of {heard.total} of block {heard.block + 1}"
        )


class _Heard(NamedTuple):
    """How far a worker is with a block, whose trials are counted."""

    worker: str
    block: int
    done: int
    total: int


class _Failed(NamedTuple):
    """Why a host could not measure a block, in words."""

    why: str


def _on_host(measure: Measure, task: Task) -> Measured | _Failed:
    """Measure a block in a worker, which tells whoever asked how far it is."""
    from distributed import get_worker

    worker = get_worker()

    def heed(done: int, total: int) -> None:
        worker.log_event(_TOPIC, tuple(_Heard(worker.address, task.block, done, total)))

    try:
        return measure(task, heed)
    except InnolabError as error:
        return _Failed(str(error))


def _require_alike(one: Ability, other: Ability, at: tuple[str, str], took_s: float) -> None:
    """Raise InputError where two hosts would not measure the same."""
    pairs = {
        "innolab": (one.innolab, other.innolab),
        "the servers' digests": (one.mysqld, other.mysqld),
        "devices": (one.plan.missing_devices, other.plan.missing_devices),
        "what they can run": (one.plan, other.plan),
    }
    for what, (first, second) in pairs.items():
        if first != second:
            raise InputError(
                f"The hosts at {at[0]} and {at[1]} differ in {what}: {_brief(first)} and "
                f"{_brief(second)}. Set them up alike, or leave one out. Nothing was written."
            )
    if abs(one.clock_s - other.clock_s) > took_s + _CLOCKS_APART_S:
        raise InputError(
            f"The clocks of the hosts at {at[0]} and {at[1]} are "
            f"{abs(one.clock_s - other.clock_s):.0f} s apart. Set them by NTP. Nothing was written."
        )


def _brief(value: Any) -> str:
    if isinstance(value, Plan):
        return f"{', '.join(value.builds)} ({value.spec_sha256[:8]})"
    return ", ".join(f"{name} {one}" for name, one in value.items()) or "none"
