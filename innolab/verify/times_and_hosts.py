"""Whether recorded runs agree with their sessions' clock, hosts and order.

They find an author who edits a result and forgets what follows from it; they cannot find one who
invents a whole session with care.
"""

import datetime
from collections.abc import Sequence
from typing import Any

from innolab.record.run import Run
from innolab.record.runlog import SessionStart
from innolab.verify.settings_and_builds import differing

Sessions = Sequence[tuple[SessionStart | None, Sequence[Run]]]

# Nothing between two runs of one session, such as making an array, takes as long.
_LONGEST_PAUSE = datetime.timedelta(days=1)
# Clocks are read at both ends of a run, and its stages are rounded.
CLOCK_S = 1.5
# What a fleet accepts of its hosts' clocks, and the way to them.
_CLOCKS_APART = datetime.timedelta(seconds=5)


def times(sessions: Sessions, sealed_at: str | None) -> list[str]:
    """Return runs that end before they begin, overlap on a host, or are outside their session."""
    found = []
    # When each host was done, by its own clock, and all of them, by that of their session.
    last: dict[str, datetime.datetime] = {}
    latest: datetime.datetime | None = None
    for session, runs in sessions:
        if session is not None:
            if latest is not None and session.began_at < latest:
                found.append("a session begins before the one before it has ended")
            last, latest = {}, session.began_at
        start = latest
        for run in runs:
            began, ended = _moment(run.started_at), _moment(run.ended_at)
            before = last.get(run.member, start)
            # A host may join a fleet at any time, so that nothing came before on it.
            resumed = latest if run.member else before
            name = f"trial {run.trial}"
            if ended < began:
                found.append(f"{name} ends before it begins")
            elif before is not None and began < before - _apart(run):
                found.append(f"{name} begins before what comes before it has ended")
            elif resumed is not None and began - resumed > _LONGEST_PAUSE:
                found.append(f"{name} begins {began - resumed} after what comes before it")
            found += _too_short(run, (ended - began).total_seconds(), name)
            last[run.member] = ended
            at_least = ended - _apart(run)
            latest = at_least if latest is None else max(latest, at_least)
    if latest is not None and sealed_at is not None and _moment(sealed_at) < latest:
        found.append("the last trial ends after the report was sealed")
    return found


def _apart(run: Run) -> datetime.timedelta:
    """Return by how much the clock of a run's host may differ from that of its session."""
    return _CLOCKS_APART if run.member else datetime.timedelta()


def _too_short(run: Run, took_s: float, name: str) -> list[str]:
    stages_s = sum(run.conditions["time_s"].values())
    if stages_s > took_s + CLOCK_S:
        return [f"{name} took {took_s:.1f} s and its stages {stages_s:.1f} s"]
    return []


def _moment(text: str) -> datetime.datetime:
    moment = datetime.datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"the time {text} names no time zone")
    return moment


def hosts(sessions: Sessions) -> list[str]:
    """Return devices whose host changed within a session."""
    found = []
    for _, runs in sessions:
        seen: dict[tuple[str, str], dict[str, Any]] = {}
        for run in runs:
            device = run.member, str(run.factors.get("device"))
            known = seen.setdefault(device, run.conditions["host"])
            if changed := differing(known, run.conditions["host"]):
                found.append(
                    f"trial {run.trial}: its host differs in {changed} from that of the trials "
                    "before it in the same session"
                )
    return found


def members(runs: Sequence[Run]) -> list[str]:
    """Return blocks that more than one host measured: ratios are taken inside a block."""
    of: dict[int, set[str]] = {}
    for run in runs:
        of.setdefault(run.block, set()).add(run.member)
    return [f"block {n + 1} is of {len(names)} hosts" for n, names in of.items() if len(names) > 1]


def predecessors(sessions: Sessions) -> list[str]:
    """Return runs that name another trial before them than ran before them in their session.

    The host of a fleet starts again with each block.
    """
    found = []
    for _, runs in sessions:
        before: Run | None = None
        for run in runs:
            if before and run.member and run.block != before.block:
                before = None
            factors = before.factors if before else None
            if run.conditions.get("predecessor", factors) != factors:
                found.append(f"trial {run.trial}: its predecessor is not the trial before it")
            before = run
    return found
