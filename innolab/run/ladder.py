"""A short ladder of pool sizes on a server that runs, with a stop on the first sign of a stall."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from innolab.base.errors import InnolabError, InputError
from innolab.base.units import bytes_text
from innolab.hosts import observe
from innolab.hosts.local import HERE
from innolab.mysql import resizing
from innolab.mysql.visit import RESIZABLE, Facts, Stretch, Values, Visit

# No step goes further down than this, and of steps down there is one.
LEAST_STEP = 0.5
# Signs of a stall: a second with so small a share of the statements of before, or our own question
# for counters waiting so long. On 9.7 half the pool gave a tenth of the statements for one second.
_FEWEST, _LONGEST_S = 0.3, 1.0
_RESIZE_LIMIT_S = 30.0
# Of memory that is available so much must stay free beside a larger pool.
_SPARE = 1.1
_FREE = 0.02
_LEVEL = 0.05
_POLL_S = 0.25


class StallError(InnolabError):
    """The server showed a sign of a stall, so the pool goes back at once."""


@dataclass(frozen=True)
class Rung:
    """One size of the ladder.

    Attributes
    ----------
    size_bytes : the pool's size, as the server rounded it
    stretch : what was seen there; None where it was left before
    took_s : until the server had resized
    says : what went otherwise than wanted, empty where nothing did
    """

    size_bytes: int
    stretch: Stretch | None
    took_s: float
    says: str = ""


def planned(facts: Facts, wanted: Sequence[int], *, is_local: bool) -> list[int]:
    """Return the sizes as the server would round them: larger ones first, then the one below.

    Raises
    ------
    InputError
        Where the server cannot resize, or a size is not for it.
    """
    if not wanted:
        return []
    _require_resizable(facts)
    unit = resizing.unit_bytes(
        facts.number("innodb_buffer_pool_instances", 1),
        facts.number("innodb_buffer_pool_chunk_size", 1),
    )
    now = int(facts.number("innodb_buffer_pool_size"))
    sizes = sorted({-(-size // unit) * unit for size in wanted})
    below = [size for size in sizes if size < now]
    if now in sizes:
        raise InputError(
            f"A pool of that size is what there is: {bytes_text(now)}; this server's sizes are "
            f"multiples of {bytes_text(unit)}. Nothing was changed."
        )
    if len(below) > 1 or (below and below[0] < LEAST_STEP * now):
        raise InputError(
            f"--resize goes down at most one step, to no less than {LEAST_STEP:.0%} of the "
            f"{bytes_text(now)} that there are: what is given up is cold afterwards. Nothing was "
            "changed."
        )
    larger = [size for size in sizes if size > now]
    if larger and is_local:
        _require_memory(larger[-1] - now)
    return larger + below


def _require_resizable(facts: Facts) -> None:
    if facts.is_mariadb:
        raise InputError(
            "--resize was tested on MySQL alone, and this is MariaDB. Leave it out. Nothing was "
            "changed."
        )
    if facts.release < RESIZABLE:
        raise InputError(
            f"This server is {facts.version}, and only from 5.7.5 on can a pool change its size "
            "without a restart. Leave --resize out: the curve is modelled then. Nothing was "
            "changed."
        )


def _require_memory(more_bytes: int) -> None:
    free = observe.memory_bytes(HERE)["available"]
    if free < _SPARE * more_bytes:
        raise InputError(
            f"A pool larger by {bytes_text(more_bytes)} does not fit this host, which has "
            f"{bytes_text(free)} of memory available. Name a smaller size. Nothing was changed."
        )


def climb(
    visit: Visit, now_bytes: int, sizes: Sequence[int], seconds: float, per_s: float,
    say: Callable[[str], None],
) -> list[Rung]:  # fmt: skip
    """Watch the server at each size, and set its pool back, whatever happens.

    Parameters
    ----------
    per_s : statements a second before, against which a stall is seen
    """
    rungs: list[Rung] = []
    with resizing.guarded(visit.target, now_bytes):
        for size in sizes:
            # Down from the present size, never from a larger one: that would be a longer step.
            if rungs and size < now_bytes and not resizing.set_back(visit.target, now_bytes):
                break
            say(f"a pool of {bytes_text(size)}")
            rungs.append(_rung(visit, size, seconds, per_s))
            if rungs[-1].stretch is None:
                break
        say(f"setting the pool back to {bytes_text(now_bytes)}")
    say(f"the pool is {bytes_text(now_bytes)} again")
    return rungs


def _rung(visit: Visit, size: int, seconds: float, per_s: float) -> Rung:
    stall = _Stall(visit, per_s)
    took_s = 0.0
    try:
        took_s = _step(visit, size, stall.look)
        has_levelled = _settle(visit, seconds, stall.heed)
        stretch = visit.stretch(seconds, _POLL_S, stall.heed)
    except StallError as error:
        return Rung(size, None, took_s, str(error))
    says = "" if has_levelled else f"had not levelled off {seconds:.0f} s after the change"
    return Rung(size, stretch, took_s, says)


def _step(visit: Visit, size: int, heed: Callable[[], None]) -> float:
    resizing.ask(visit, size)
    took_s = resizing.wait(visit, _RESIZE_LIMIT_S, heed)
    if took_s is None:
        raise StallError(
            f"after {_RESIZE_LIMIT_S:.0f} s the server was still giving up pages that are in use"
        )
    return took_s


def _settle(visit: Visit, seconds: float, heed: Callable[[Values], None]) -> bool:
    """Wait until reads a statement are the same in two parts of time, and say whether they are."""
    part_s = max(2.0, seconds / 6)
    before = None
    for sample in _every(visit, part_s, seconds, heed):
        free = sample["Innodb_buffer_pool_pages_free"] / sample["Innodb_buffer_pool_pages_total"]
        now = sample["reads"] / max(sample["statements"], 1)
        if before is not None and free < _FREE and abs(now - before) <= _LEVEL * before:
            return True
        before = now
    return False


def _every(
    visit: Visit, part_s: float, limit_s: float, heed: Callable[[Values], None]
) -> Iterator[Values]:
    """Yield what each part of a time showed: the last counters, and `reads` and `statements`."""
    end = time.monotonic() + limit_s
    first = visit.sample()
    while time.monotonic() < end:
        time.sleep(_POLL_S)
        last = visit.sample()
        heed(last)
        if last["t_s"] - first["t_s"] >= part_s:
            reads = last["Innodb_pages_read"] - first["Innodb_pages_read"]
            yield {**last, "reads": reads, "statements": last["Questions"] - first["Questions"]}
            first = last


class _Stall:
    """Looks for signs of a stall in what is sampled anyway."""

    def __init__(self, visit: Visit, per_s: float) -> None:
        self._visit = visit
        self._per_s = per_s
        self._asked_s = time.monotonic()
        self._since: Values | None = None

    def look(self) -> None:
        """Take a sample and heed it."""
        self._asked_s = time.monotonic()
        self.heed(self._visit.sample())

    def heed(self, sample: Values) -> None:
        """Raise StallError where a sample shows a sign of a stall."""
        waited_s = sample["t_s"] - self._asked_s
        self._asked_s = sample["t_s"]
        if waited_s > _LONGEST_S + _POLL_S:
            raise StallError(f"a question for counters waited {waited_s:.2g} s")
        if self._since is None:
            self._since = sample
        passed_s = sample["t_s"] - self._since["t_s"]
        if passed_s < 1.0:
            return
        per_s = (sample["Questions"] - self._since["Questions"]) / passed_s
        self._since = sample
        if per_s < _FEWEST * self._per_s:
            raise StallError(
                f"for a second the server answered {per_s:,.0f} statements instead of "
                f"{self._per_s:,.0f}"
            )
