"""What became of commits that a server had acknowledged: lost, kept, or never known.

An attempt that ended `ok` must be there; one that `failed` must not; of one that is `unknown`
nothing can be said, so that it counts neither as a loss nor as an error (the discipline of Jepsen's
histories). Pure functions of a witness's lines and of the ids that are there in the end.
"""

import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:  # A witness imports this, and has to be there soon.
    from innolab.analysis.evidence import Evidence, Finding

# An attempt whose end nobody knows may be there later: that is no loss and no error.
End = Literal["ok", "failed", "unknown"]
Event = End | Literal["begin"]
BEGIN: Literal["begin"] = "begin"
_ENDS: dict[str, End] = {"ok": "ok", "failed": "failed", "unknown": "unknown"}
# Of the metrics, those that count rows that are there, or are not.
COUNTED = ("lost", "lost_after", "unknown_present", "refused_present")
# Each writer of a witness has ids of its own, from its place times this on.
STRIDE = 1_000_000
# In which a record counts acknowledged commits.
BIN_S = 0.25
_SHOWN = 5


class Attempt(NamedTuple):
    """One row that a witness tried to write.

    Attributes
    ----------
    id : of the row, never used twice
    began_s, ended_s : by the clock of the witness; `ended_s` is None where it was killed first
    end : how it ended, as far as the witness knows
    """

    id: int
    began_s: float
    ended_s: float | None
    end: End


def attempts(lines: Iterable[str]) -> list[Attempt]:
    """Return the attempts of a log; those without a second line are `unknown`.

    >>> log = ["0.5 7 begin", "0.6 7 ok", "0.7 8 begin"]
    >>> [(one.id, one.end) for one in attempts(log)]
    [(7, 'ok'), (8, 'unknown')]

    Raises
    ------
    ValueError
        Where a whole line is none of a witness.
    """
    found: dict[int, Attempt] = {}
    for line in lines:
        time_s, number, event = line.split()
        place = int(number)
        if event == BEGIN:
            found[place] = Attempt(place, float(time_s), None, "unknown")
        elif event in _ENDS:
            found[place] = found[place]._replace(ended_s=float(time_s), end=_ENDS[event])
        else:
            raise ValueError(f"'{line}' is no line of a witness")
    return list(found.values())


def read(log: Path) -> list[Attempt]:
    """Return the attempts in a witness's file; a last line that was torn is left out."""
    whole, _, _ = log.read_text().rpartition("\n")
    return attempts(whole.splitlines())


def split(history: Sequence[Attempt], moment_s: float) -> tuple[list[Attempt], list[Attempt]]:
    """Return the attempts that had begun by a moment, and those that began later.

    By their beginning: an answer that a server had sent before may be read later.

    >>> log = attempts(["0.0 1 begin", "0.1 1 ok", "0.9 2 begin", "1.1 2 ok", "3.1 3 begin"])
    >>> [[one.id for one in part] for part in split(log, 1.0)]
    [[1, 2], [3]]
    """
    before = [one for one in history if one.began_s <= moment_s]
    return before, [one for one in history if one.began_s > moment_s]


@dataclass(frozen=True)
class Fate:
    """What became of a witness's attempts.

    Attributes
    ----------
    acknowledged : how many ended `ok`
    lost : of these, the ids that are not there
    unknown_present : the ids of unknown end that are there
    failed_present : the ids that were refused and are there all the same: the witness or the server
        is wrong
    gap_s : the longest time without an acknowledged commit
    """

    acknowledged: int
    lost: list[int]
    unknown_present: list[int]
    failed_present: list[int]
    gap_s: float


def fate(history: Sequence[Attempt], present: Collection[int]) -> Fate:
    """Return what became of attempts, by the ids that are there in the end.

    >>> log = ["0.0 1 begin", "0.1 1 ok", "0.1 2 begin", "3.1 2 ok", "3.1 3 begin"]
    >>> found = fate(attempts(log), {1, 3})
    >>> found.lost, found.unknown_present, round(found.gap_s, 1)
    ([2], [3], 3.0)
    """
    there = set(present)
    by_end = {
        end: [one for one in history if one.end == end] for end in ("ok", "failed", "unknown")
    }
    earlier_s, later_s = _gap(history)
    return Fate(
        acknowledged=len(by_end["ok"]),
        lost=[one.id for one in by_end["ok"] if one.id not in there],
        unknown_present=[one.id for one in by_end["unknown"] if one.id in there],
        failed_present=[one.id for one in by_end["failed"] if one.id in there],
        gap_s=later_s - earlier_s,
    )


def _times(history: Sequence[Attempt]) -> list[float]:
    return sorted(one.ended_s for one in history if one.end == "ok" and one.ended_s is not None)


def _gap(history: Sequence[Attempt]) -> tuple[float, float]:
    """Return the ends of the longest time without an acknowledged commit."""
    pairs = itertools.pairwise(_times(history))
    return max(pairs, key=lambda pair: pair[1] - pair[0], default=(0.0, 0.0))


def pace(history: Sequence[Attempt], broken_s: float) -> dict[str, Any]:
    """Return what a record keeps of when commits were acknowledged, from a fault at 0 on.

    `per_bin` has how many there were in each BIN_S, by its number from the fault on.
    """
    counts = Counter(math.floor((at_s - broken_s) / BIN_S) for at_s in _times(history))
    earlier_s, later_s = _gap(history)
    return {
        "broken_s": broken_s,
        "gap_from_s": earlier_s,
        "gap_to_s": later_s,
        "per_bin": {str(place): counts[place] for place in sorted(counts)},
    }


def between(per_bin: Mapping[str, int], from_s: float, to_s: float) -> tuple[int, int]:
    """Return the least and the most commits that bins have in a span, which may cut them.

    >>> between({"-2": 5, "-1": 7, "0": 9}, -0.3, 0.0)
    (7, 12)
    """
    ends = {int(place) * BIN_S: count for place, count in per_bin.items()}
    inner = (count for at_s, count in ends.items() if from_s <= at_s and at_s + BIN_S <= to_s)
    outer = (count for at_s, count in ends.items() if from_s < at_s + BIN_S and at_s < to_s)
    return sum(inner), sum(outer)


def longest_gap(per_bin: Mapping[str, int]) -> tuple[float, float]:
    """Return the least and the most that the longest time without a commit can be, by bins.

    >>> longest_gap({"0": 5, "1": 7, "5": 9})
    (0.75, 1.25)
    """
    pairs = itertools.pairwise(sorted(map(int, per_bin)))
    empty = max((later - earlier - 1 for earlier, later in pairs), default=0)
    return empty * BIN_S, (empty + 2) * BIN_S


class Parted(NamedTuple):
    """What became of attempts before a fault and after it, and of all of them.

    Where two servers took writes meanwhile, the work of one is gone: what was acknowledged before
    the fault has to be at the server that took over, what came later at the one that clients end
    with.

    Attributes
    ----------
    before : those that had begun by the fault, at the server that took over
    after, whole : the later ones, and all, at the server that clients end with
    unknown : how many of all had an end that nobody knows
    """

    before: Fate
    after: Fate
    whole: Fate
    unknown: int

    def metrics(self) -> dict[str, float]:
        """Return the metrics: COUNTED, how many were acknowledged, and the longest gap."""
        return {
            "acknowledged": self.before.acknowledged,
            "lost": len(self.before.lost),
            "lost_after": len(self.after.lost),
            "unknown_present": len(self.whole.unknown_present),
            "refused_present": len(self.whole.failed_present),
            "gap_s": self.whole.gap_s,
        }

    def facts(self) -> dict[str, Any]:
        """Return what a record says: the first rows that were lost, and COUNTED by the writer."""
        lost, later = self.before.lost, self.after.lost
        ids = (lost, later, self.whole.unknown_present, self.whole.failed_present)
        return {
            "first_lost": lost[:_SHOWN],
            "first_lost_after": later[:_SHOWN],
            "unknown": self.unknown,
            **{
                metric: Counter(str(id_ // STRIDE) for id_ in of)
                for metric, of in zip(COUNTED, ids, strict=True)
            },
        }


def parted(
    history: Sequence[Attempt], moment_s: float, first: Collection[int], last: Collection[int]
) -> Parted:
    """Return what became of attempts around a fault.

    Parameters
    ----------
    moment_s : of the fault, by the clock of the witness
    first, last : the ids at the server that took over, and at the one that clients end with

    >>> log = ["0.0 1 begin", "0.1 1 ok", "0.5 2 begin", "0.6 2 ok", "2.0 3 begin", "2.1 3 ok"]
    >>> found = parted(attempts(log), 1.0, first={1}, last={1, 2})
    >>> found.before.lost, found.after.lost, found.whole.lost
    ([2], [3], [3])
    """
    before, after = split(history, moment_s)
    unknown = sum(one.end == "unknown" for one in history)
    return Parted(fate(before, first), fate(after, last), fate(history, last), unknown)


def as_told(evidence: "Evidence") -> "Finding":
    """Prevents a witness that is wrong about what it was told from passing for a loss."""
    refused = [row["refused_present"] for row in evidence.observations if "refused_present" in row]
    if any(refused):
        return "invalid", f"{sum(refused)} rows are there that a server had refused"
    return "ok", "no row is there that a server had refused"
