"""A short ladder of pool sizes on a server that runs, with a stop on the first sign of a stall."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from innolab.base.errors import InnolabError, InputError
from innolab.base.units import bytes_text
from innolab.hosts import observe
from innolab.hosts.local import HERE
from innolab.sizing import resizing
from innolab.sizing.server_status import RESIZABLE, Facts, Stretch, Values, Visit

# No step goes further down than this, and of steps down there is one.
LEAST_STEP = 0.5
# Signs of a stall: a second with so small a share of the statements of before, or our own questions
# for counters waiting so long. On 9.7 half the pool gave a tenth of the statements for one second.
_FEWEST, _LONGEST_S = 0.3, 1.0
_RESIZE_LIMIT_S = 30.0
# On a server of few statements a second without any is no stall: so many are expected before their
# number says anything (of 30 by chance, fewer than 9 come once in a million times).
_EXPECTED = 30
# While the pool has another size, a server that is silent for so long has stopped answering.
_ANSWER_S = 10
# A pool takes more than its size, for what describes its pages; and of all memory of a host so much
# stays free for the rest.
_OVERHEAD, _KEPT = 1.1, 0.1
_FREE = 0.02
# Reads a statement are level if two parts differ by less than this, or by less than chance does.
_LEVEL, _BY_CHANCE = 0.05, 2.0
_SETTLE_LEAST_S = 30.0
_POLL_S = 0.25


class StallError(InnolabError):
    """The server showed a sign of a stall, so the pool goes back at once."""


@dataclass(frozen=True)
class Rung:
    """One size of the ladder.

    Attributes
    ----------
    size_bytes : the pool's size, as the server rounded it
    stretch : what was seen there; None if it was left before, or not tried
    says : what went otherwise than wanted; empty if nothing did, or it was not tried
    """

    size_bytes: int
    stretch: Stretch | None
    says: str = ""


def planned(facts: Facts, wanted: Sequence[int], *, is_local: bool) -> list[int]:
    """Return the sizes as the server would round them: larger ones first, then the one below.

    Raises
    ------
    InputError
        If the server cannot resize, or a size is not for it.
    """
    if not wanted:
        return []
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
    # InnoDB rounds up to a multiple of this.
    unit = max(facts.innodb_buffer_pool_instances, 1) * max(facts.innodb_buffer_pool_chunk_size, 1)
    now = facts.innodb_buffer_pool_size
    sizes = sorted({-(-size // unit) * unit for size in wanted})
    larger = [size for size in sizes if size > now]
    below = [size for size in sizes if size < now]
    if now in sizes:
        raise InputError(
            f"A pool of that size is what there is: {bytes_text(now)}; this server's sizes are "
            f"multiples of {bytes_text(unit)}. Nothing was changed."
        )
    if len(below) > 1 or (below and below[0] < LEAST_STEP * now):
        raise InputError(
            f"--resize goes down at most one step, to no less than {LEAST_STEP:.0%} of the present "
            f"{bytes_text(now)}: what is given up is cold afterwards. Nothing was changed."
        )
    if larger and not is_local:
        raise InputError(
            "A larger pool is tried only where the server is asked by its socket: of another host "
            "it is not known how much memory it has, and a server that takes more is killed. Run "
            "this there with --socket. Nothing was changed."
        )
    if larger and (shortage := _shortage(larger[-1] - now)):
        raise InputError(f"{shortage} Name a smaller size. Nothing was changed.")
    return larger + below


def _shortage(more_bytes: int) -> str:
    """Return why a larger pool does not fit this host, nothing if it does."""
    memory = observe.memory_bytes(HERE)
    if memory["available"] - _OVERHEAD * more_bytes >= _KEPT * memory["total"]:
        return ""
    return (
        f"A pool larger by {bytes_text(more_bytes)} does not fit this host, which has "
        f"{bytes_text(memory['available'])} of memory available and is to keep {_KEPT:.0%} of "
        f"{bytes_text(memory['total'])}."
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
    visit.answer_within(_ANSWER_S)
    with resizing.guarded(visit.target, now_bytes) as is_guarded:
        for size in sizes:
            # Down from the present size, never from a larger one: that would be a longer step.
            is_down = bool(rungs) and size < now_bytes
            if is_down and not resizing.set_back(visit.target, now_bytes, before_each=is_guarded):
                break
            say(f"a pool of {bytes_text(size)}")
            more = size - (rungs[-1].size_bytes if rungs else now_bytes)
            rungs.append(_rung(visit, size, more, seconds, _Stall(visit, per_s, is_guarded)))
            if rungs[-1].stretch is None:
                break
        say(
            f"setting the pool back to {bytes_text(now_bytes)}: where clients never pause, the "
            "server may take minutes to give up pages"
        )
    say(f"the pool is {bytes_text(now_bytes)} again")
    return rungs + [Rung(size, None) for size in sizes[len(rungs) :]]


def _rung(visit: Visit, size: int, more_bytes: int, seconds: float, stall: "_Stall") -> Rung:
    try:
        _step(visit, size, more_bytes, stall)
        has_levelled = _settle(visit, seconds, stall.check)
        stretch = visit.stretch(seconds, _POLL_S, stall.check)
    except InputError:
        raise
    except InnolabError as error:
        # What was measured before is kept: also if the server is silent or refuses this size.
        return Rung(size, None, str(error).rstrip("."))
    return Rung(size, stretch, "" if has_levelled else "had not levelled off")


def _step(visit: Visit, size: int, more_bytes: int, stall: "_Stall") -> None:
    """Give the pool another size, if nothing speaks against it by now."""
    if more_bytes > 0 and (shortage := _shortage(more_bytes)):
        raise StallError(shortage)
    stall.look()
    resizing.ask(visit, size)
    status = resizing.wait(visit, _RESIZE_LIMIT_S, stall.look)
    # The answer that the resize has ended may be the one that took long.
    stall.look()
    if status is None:
        raise StallError(
            f"after {_RESIZE_LIMIT_S:.0f} s the server was still giving up pages that are in use"
        )
    if resizing.has_failed(status):
        raise StallError(f"the server could not resize it, and says: {status}")


def _settle(visit: Visit, seconds: float, check: Callable[[Values], None]) -> bool:
    """Wait until reads a statement are the same in two parts of time, and say whether they are."""
    part_s, end = max(2.0, seconds / 6), time.monotonic() + max(seconds, _SETTLE_LEAST_S)
    before: tuple[float, float] | None = None
    first = visit.sample()
    while time.monotonic() < end:
        time.sleep(_POLL_S)
        last = visit.sample()
        check(last)
        if last["t_s"] - first["t_s"] < part_s:
            continue
        free = last["Innodb_buffer_pool_pages_free"] / last["Innodb_buffer_pool_pages_total"]
        now = (
            last["Innodb_pages_read"] - first["Innodb_pages_read"],
            last["Questions"] - first["Questions"],
        )
        if before is not None and free < _FREE and _is_level(before, now):
            return True
        before, first = now, last
    return False


def _is_level(before: tuple[float, float], now: tuple[float, float]) -> bool:
    """Return whether two parts agree in reads a statement, each being reads and statements.

    >>> _is_level((1000, 100), (1020, 100)), _is_level((1000, 100), (700, 100))
    (True, False)
    """
    one, other = (reads / max(statements, 1) for reads, statements in (before, now))
    chance = math.sqrt(1 / max(before[0], 1) + 1 / max(now[0], 1))
    return abs(other - one) <= max(_LEVEL, _BY_CHANCE * chance) * one


@dataclass
class _Stall:
    """Looks for signs of a stall in what is sampled anyway, and gives signs of life."""

    visit: Visit
    per_s: float
    is_guarded: Callable[[], bool]
    since: Values | None = field(default=None, init=False)

    def look(self) -> None:
        """Take a sample and check it."""
        self.check(self.visit.sample())

    def check(self, sample: Values) -> None:
        """Raise StallError if a sample shows a sign of a stall."""
        if not self.is_guarded():
            raise StallError("the process that would set the pool back had ended")
        if sample["took_s"] > _LONGEST_S:
            raise StallError(f"questions for counters waited {sample['took_s']:.2g} s")
        since = self.since = self.since or sample
        passed_s = sample["t_s"] - since["t_s"]
        if passed_s < max(1.0, _EXPECTED / self.per_s):
            return
        self.since = sample
        per_s = (sample["Questions"] - since["Questions"]) / passed_s
        if per_s < _FEWEST * self.per_s:
            raise StallError(
                f"for {passed_s:.2g} s the server answered {per_s:,.0f} statements a second "
                f"instead of {self.per_s:,.0f}"
            )
