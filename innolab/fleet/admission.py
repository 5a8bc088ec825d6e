"""The hosts of a fleet: which workers of a Dask cluster measure, and what they must have alike."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from innolab.base.errors import InnolabError, InputError
from innolab.measure.block import Ability, differing, differing_here
from innolab.record.plan import Progress
from innolab.studies.experiment import Experiment

# The resource that each worker declares once, so that no host ever runs two trials at a time.
RESOURCE = "host"
# Within which a host says what it can run.
_ASK_S = 120.0
# What a worker is in that ends: one that is stuck at it stays known to its scheduler.
_ENDING = {"closing", "closing_gracefully", "closed", "failed"}
# A host's clock from this machine's, at most: less than what a report may have (`verify`).
_CLOCKS_APART_S = 4.0

Can = Callable[[str, dict[str, Any]], Ability]


def ended(address: str) -> InnolabError:
    """Return the error of a scheduler that does not answer any more."""
    return InnolabError(
        f"The scheduler at {address} does not answer any more. All finished blocks are kept; start "
        "it and its workers again, then run the same command."
    )


class FleetHosts:
    """The workers of a scheduler that declare the resource `host`.

    Parameters
    ----------
    client : of the scheduler
    address : the scheduler's
    can : what a host says of itself
    progress : who is informed
    """

    def __init__(self, client: Any, address: str, can: Can, progress: Progress) -> None:
        self.address = address
        self._client = client
        self._can = can
        self._progress = progress
        self._study: tuple[str, dict[str, Any]] | None = None
        # The host that all others must be like, and by worker the host that each is.
        self._first: tuple[str, Ability] | None = None
        self._members: dict[str, str] = {}
        self._left_out: set[str] = set()
        # What workers are called, also those that are gone.
        self._names: dict[str, str] = {}

    def name(self, worker: str) -> str:
        """Return what the worker at an address is called: its own name, or its address."""
        return self._names.get(worker, worker)

    def workers(self) -> list[str]:
        """Return the addresses of the workers that can be hosts, of those that do not end."""
        try:
            known = self._client.scheduler_info(n_workers=-1)["workers"]
        except OSError:
            raise ended(self.address) from None
        self._names |= {at: str(one["name"]) for at, one in known.items()}
        here = {at: one for at, one in known.items() if one["status"] not in _ENDING}
        return sorted(at for at, one in here.items() if one["resources"].get(RESOURCE))

    def require_some(self, workers: Sequence[str]) -> None:
        """Raise InputError where there is no worker."""
        if not workers:
            raise InputError(
                f"The scheduler at {self.address} has no worker with the resource '{RESOURCE}'. "
                f"Start on each host: dask worker {self.address} --nthreads 1 --resources "
                f"{RESOURCE}=1. Nothing was written."
            )

    def prepare(self, asked: Experiment) -> Experiment:
        """Return what every host of the fleet can run, a wave of as many blocks as hosts.

        Raises
        ------
        InputError
            If a host cannot run the study, or two differ in what they can run, in innolab or
            in a build, or one differs from this machine in innolab or its clock; names both.
        """
        workers = self.workers()
        self.require_some(workers)
        self._study = asked.name, asked.plan.parameters
        self._first, self._members = None, {}
        self._left_out.clear()
        if refused := self._admit(workers):
            raise InputError(f"{next(iter(refused.values()))} Nothing was written.")
        assert self._first is not None
        plan = replace(self._first[1].plan, wave=len(workers))
        return Experiment.from_plan(plan, asked.study)

    def admitted(self) -> list[str]:
        """Return the workers that measure; those that joined late must be like the first.

        If nobody asked what they can run, all do.
        """
        workers = self.workers()
        if self._study is None:
            return workers
        # One that left and comes back may be another machine by then.
        self._members = {at: who for at, who in self._members.items() if at in workers}
        self._left_out.intersection_update(workers)
        joined = [at for at in workers if at not in self._members and at not in self._left_out]
        for at, why in self._admit(joined).items():
            self._left_out.add(at)
            self._progress.mark(f"{self.name(at)} is left out: {why}")
        return [at for at in workers if at in self._members]

    def _admit(self, joined: Sequence[str]) -> dict[str, str]:
        """Take workers as hosts; return why not of those that cannot measure beside the others."""
        answers = self._ask(joined, self._can, *(self._study or ()))
        # Apart from the rest, which may take a minute, by which a clock could then be wrong.
        asked_at = time.time()
        clocks = self._ask(joined, time.time)
        told_at = time.time()
        refused = {}
        for at in joined:
            try:
                who = self.name(at)
                found: Ability = _answered(who, answers[at])
                _require_alone(who, found, self._members)
                _require_alike(who, found, self._first)
                _require_clock(who, _answered(who, clocks[at]), asked_at, told_at)
            except InputError as error:
                refused[at] = str(error)
                continue
            self._first = self._first or (who, found)
            self._members[at] = found.member
        return refused

    def _ask(self, workers: Sequence[str], what: Callable[..., Any], *given: Any) -> dict[str, Any]:
        """Return what a function gives on each worker, or the error that keeps it from that."""
        if not workers:
            return {}
        try:
            found: dict[str, Any] = self._client.run(
                what, *given, workers=list(workers), on_error="return", callback_timeout=_ASK_S
            )
        except TimeoutError:
            found = {}
        except OSError:
            raise ended(self.address) from None
        silent = TimeoutError(f"it or one asked with it gave no answer in {_ASK_S:.0f} s")
        return {at: found.get(at, silent) for at in workers}


def _answered(at: str, answer: Any) -> Any:
    """Return what a host answered; InputError where it answered by an error."""
    if isinstance(answer, BaseException):
        raise InputError(f"The host at {at} cannot take part: {str(answer).rstrip('.')}.")
    return answer


def _require_alone(at: str, found: Ability, members: Mapping[str, str]) -> None:
    for other, member in members.items():
        if member == found.member:
            raise InputError(
                f"The workers at {other} and {at} are one host with one cache folder, and two "
                "trials would measure each other. Start one worker on each host."
            )


def _require_alike(at: str, found: Ability, first: tuple[str, Ability] | None) -> None:
    if difference := differing_here(found):
        raise InputError(
            f"This machine and the host at {at} differ in {difference}. Set them up alike, or "
            "leave that one out."
        )
    if first and (difference := differing(first[1], found)):
        raise InputError(
            f"The hosts at {first[0]} and {at} differ in {difference}. Set them up alike, or leave "
            "one out."
        )


def _require_clock(at: str, clock_s: float, asked_at: float, told_at: float) -> None:
    """Raise InputError where a host's clock may be too far from this machine's.

    It was read at some time between question and answer, so a slow answer proves nothing.
    """
    apart_s = max(clock_s - asked_at, told_at - clock_s)
    if apart_s > _CLOCKS_APART_S:
        raise InputError(
            f"The clock of the host at {at} may be {apart_s:.0f} s from this machine's (it "
            f"answered in {told_at - asked_at:.1f} s), and {_CLOCKS_APART_S:.0f} s are allowed. "
            "Set both by NTP, then run the same command."
        )
