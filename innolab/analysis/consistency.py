"""What only a real session has: whether recorded runs agree with their plan, series and clock.

Pure functions of the record, each of which returns what contradicts it in words. They find an
author who edits a result and forgets what follows from it; they cannot find one who invents a
whole session with care.
"""

import csv
import datetime
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from innolab.analysis.bounds import Bound, Evidence, Metric, Record, Unbounded
from innolab.analysis.checks import same_value
from innolab.base import places
from innolab.mysql.builds import OWN_ORIGIN
from innolab.record import runlog, series
from innolab.record.run import Run
from innolab.record.runlog import SessionStart

if TYPE_CHECKING:
    import pandas as pd


Sessions = Sequence[tuple[SessionStart | None, Sequence[Run]]]

_BUILDS = places.own("data", "builds.csv")
# Nothing between two runs of one session, such as making an array, takes as long.
_LONGEST_PAUSE = datetime.timedelta(days=1)
# Clocks are read at both ends of a run, and its stages are rounded.
_CLOCK_S = 1.5
# What a fleet accepts of its hosts' clocks, and the way to them.
_CLOCKS_APART = datetime.timedelta(seconds=5)
# The kernel itself says that its count of waiting may decrease (proc(5)): a task that waited moves
# to another processor. Seen: up to 0.08 s.
_MAY_FALL_S = {"host_iowait_s": 0.5}
# A sample reads the clock of CPU time and its own a moment apart, on a busy host up to a second.
_CPU_CLOCK_RATIO, _CPU_CLOCK_S = 0.1, 1.0
_SHOWN = 60


class KnownBuild(NamedTuple):
    """A build that the project's own set-up installs, and the digest of its mysqld."""

    origin: str
    version: str
    sha256: str


@cache
def known_builds() -> dict[str, KnownBuild]:
    """Return the builds of data/builds.csv by where they come from."""
    with _BUILDS.open(newline="") as file:
        return {row["origin"]: KnownBuild(**row) for row in csv.DictReader(file)}


def times(sessions: Sessions, sealed_at: str | None) -> list[str]:
    """Return runs that end before they begin, overlap on a host, or do not lie in their session."""
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
            # A host may join a fleet at any time, so that nothing of its own came before.
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
    if stages_s > took_s + _CLOCK_S:
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
            if changed := _differing(known, run.conditions["host"]):
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

    The host of a fleet begins each block anew.
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


def _differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    return ", ".join(n for n in sorted({*one, *other}) if one.get(n) != other.get(n))


class RequiredSettings(NamedTuple):
    """What a run of an arm must have recorded.

    Attributes
    ----------
    settings : the server variables that the arm asks for
    values : parameters and levels by name
    array : layout and number of disks, where its device is an array
    known_windows_s : the lengths that its windows may have been asked for; none where any will do
    """

    settings: Mapping[str, Any]
    values: Mapping[str, Any]
    array: Mapping[str, Any] | None
    known_windows_s: Collection[float] = ()


def same_settings(asked: Mapping[str, Any], requested: Mapping[str, Any]) -> bool:
    """Return whether what a server was started with has all settings that were asked for."""
    return all(same_value(str(v), str(requested.get(name))) for name, v in asked.items())


def arms(runs: Sequence[Run], asked: Callable[[Run], RequiredSettings]) -> list[str]:
    """Return runs whose settings or conditions are not those of the arm that they are said to be.

    What all arms share, the host's base settings, must be the same in all runs of a build.
    """
    found = []
    shared: dict[str, dict[str, str]] = {}
    for run in (run for run in runs if run.status == "complete"):
        name = f"trial {run.trial} ({_arm(run)})"
        requested, of = run.conditions["requested"], asked(run)
        found += [
            f"{name}: {variable} was set to {requested.get(variable)}, and its arm asks for {value}"
            for variable, value in of.settings.items()
            if not same_value(str(value), str(requested.get(variable)))
        ]
        base = {k: str(v) for k, v in requested.items() if k not in of.settings}
        build = run.conditions["build"]
        if changed := _differing(shared.setdefault(str(build["id"]), base), base):
            found.append(f"{name}: it shares no arm's settings of {changed}")
        if build["id"] != run.factors["server"]:
            found.append(f"{name}: it ran on {build['id']}")
        found += [f"{name}: {fault}" for fault in _contradictions(run, of)]
    return found


def _arm(run: Run) -> str:
    return ", ".join(str(level) for level in run.factors.values())[:_SHOWN]


# The conditions that repeat parameters and levels under their names.
_REPEATING = ("dataset", "load", "table")
_REPEATING_ROWS = ("loads", "steady")


def _contradictions(run: Run, of: RequiredSettings) -> Iterator[str]:
    """Yield what is recorded otherwise than parameters, levels and windows say."""
    conditions = run.conditions
    if "device" in of.values and conditions["device"]["name"] != of.values["device"]:
        yield f"device is {conditions['device']['name']}, and its arm has {of.values['device']}"
    if of.array is not None:
        made = conditions["device"]["array"]
        yield from _unequal("array", made, of.array)
    for name in _REPEATING:
        yield from _unequal(name, conditions.get(name, {}), of.values)
    for name in _REPEATING_ROWS:
        for row in conditions.get(name, []):
            where = f"{name} {row['label']}"
            yield from _unequal(where, row, {**of.values, **row.get("within", {})})
            if of.known_windows_s and not _fits(name, row["window_s"], of.known_windows_s):
                lengths = " or ".join(map(str, of.known_windows_s))
                yield f"{where} window_s is {row['window_s']}, and its arm has {lengths}"
    for row in conditions.get("steady", []):
        if not any(row["within"].items() <= one.items() for one in run.observations):
            yield f"steady {row['label']}: no observation is of this window"


def _fits(name: str, window_s: float, lengths: Collection[float]) -> bool:
    """Return whether a window has a length that was asked for.

    The load's own lasts longer where few transactions end in it.
    """
    return window_s in lengths or (name == "loads" and window_s > min(lengths))


def _unequal(where: str, recorded: Mapping[str, Any], values: Mapping[str, Any]) -> Iterator[str]:
    for name in recorded.keys() & values.keys():
        if recorded[name] != values[name]:
            yield f"{where} {name} is {recorded[name]}, and its arm has {values[name]}"


def claims(sessions: Sessions, of_manifest: str | None) -> list[str]:
    """Return in words that a report's claims were changed after a session began, if they were."""
    began = {session.claims_sha256 for session, _ in sessions if session is not None}
    if began - {of_manifest}:
        return [
            "Its claims were changed after it began to be measured: the verdicts are by another "
            "file of claims than was registered then."
        ]
    return []


def servers(runs: Sequence[Run], variables: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return builds that changed between runs, are of another version, or have a wrong digest."""
    found = []
    seen: dict[str, dict[str, Any]] = {}
    for run in (run for run in runs if "build" in run.conditions):
        build = run.conditions["build"]
        known = known_builds().get(build["origin"])
        if known and (build["version"], build["sha256"]) != (known.version, known.sha256):
            found.append(
                f"{build['id']}: the mysqld of '{known.origin}' is {known.version} with the digest "
                f"{known.sha256[:16]}, not {build['version']} with {build['sha256'][:16]}"
            )
        if changed := _differing(seen.setdefault(build["id"], build), build):
            found.append(f"trial {run.trial}: {build['id']} differs in {changed} from other trials")
        says = variables.get(run.conditions.get("variables", ""), {}).get("version")
        if says is not None and not says.startswith(build["version"]):
            found.append(f"trial {run.trial}: {build['version']} says of itself that it is {says}")
    return list(dict.fromkeys(found))


def own_builds(runs: Sequence[Run]) -> list[str]:
    """Return the builds that the project's set-up did not install, or not as this innolab knows it.

    Of these a digest says only that all runs had the same binary.
    """
    found = {
        run.conditions["build"]["id"]: run.conditions["build"]
        for run in runs
        if "build" in run.conditions and run.conditions["build"]["origin"] not in known_builds()
    }
    return [
        f"{name} is an own build ({build['version']}, sha256 {build['sha256'][:16]}"
        + ("" if build["origin"] == OWN_ORIGIN else f", said to be of {build['origin']}")
        + "): that digest is not among those that innolab knows"
        for name, build in found.items()
    ]


class FollowedMetrics(NamedTuple):
    """What a run's record says of its metrics.

    Attributes
    ----------
    faults : what of its series cannot be, and metrics that do not follow from the rest
    unbound : the metrics that nothing in the record bounds, and why, where it is known
    """

    faults: list[str]
    unbound: dict[str, str]


def metrics(record: Record, declared: Mapping[str, Metric]) -> FollowedMetrics:
    """Return what of a run's series cannot be, and how its metrics follow from its record."""
    run = record.run
    found = []
    if record.series is not None:
        found += [f"{run.series}: {why}" for why in _impossible(run, record.series)]
    bounds, whys = _bounds(record, declared)
    bound = set()
    for within, metric, low, high in bounds:
        places = _places(run, within, metric)
        value = _number(run.observations[places[0]][metric]) if len(places) == 1 else math.nan
        if not low <= value <= high:
            at = "".join(f", {name} {level}" for name, level in within.items())
            found.append(
                f"{runlog.FILE}: trial {run.trial}{at}: its {metric} is {value:.6g}, and the rest "
                f"of its record gives {low:.6g} to {high:.6g}"
            )
        if math.inf not in (-low, high):
            bound |= {(place, metric) for place in places}
    return FollowedMetrics(
        found,
        {
            metric: whys.get(metric, "")
            for place, row in enumerate(run.observations)
            for metric in row.keys() & declared.keys()
            if (place, metric) not in bound
        },
    )


def _bounds(record: Record, declared: Mapping[str, Metric]) -> tuple[list[Bound], dict[str, str]]:
    """Return the bounds of all metrics, and why some have none, by their names.

    Evidence that many metrics share is read once.
    """
    bounds: list[Bound] = []
    whys: dict[str, str] = {}
    by_evidence: dict[Evidence, list[str]] = {}
    for name, metric in declared.items():
        if isinstance(metric.evidence, Unbounded):
            whys[name] = metric.evidence.reason
            continue
        for evidence in metric.evidence:
            by_evidence.setdefault(evidence, []).append(name)
    for evidence, names in by_evidence.items():
        for found in evidence(record):
            if isinstance(found, Bound):
                bounds.append(found)
            else:
                whys |= dict.fromkeys(names, found.reason)
    return bounds, whys


def _places(run: Run, within: Mapping[str, Any], metric: str) -> list[int]:
    """Return the observations that have a metric at some levels.

    A bound is of one: no value, and none of several, lies within it.
    """
    return [
        place
        for place, row in enumerate(run.observations)
        if metric in row and within.items() <= row.items()
    ]


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def _impossible(run: Run, frame: "pd.DataFrame") -> list[str]:
    """Return what no sampler can have seen in a run of this length on a host of these cores."""
    took_s = (_moment(run.ended_at) - _moment(run.started_at)).total_seconds()
    counters = [name for name in frame.columns if name in series.COUNTERS]
    span_s = float(frame["t_s"].iloc[-1] - frame["t_s"].iloc[0])
    cpu_s = span_s * run.conditions["host"]["cores"]
    most_s = cpu_s * (1 + _CPU_CLOCK_RATIO) + _CPU_CLOCK_S * run.conditions["host"]["cores"]
    found = []
    if not frame["t_s"].is_monotonic_increasing or span_s > took_s + _CLOCK_S:
        found.append(f"it spans {span_s:.1f} s of a trial of {took_s:.1f} s")
    falls = -frame[counters].diff().iloc[1:].min()
    if any(fall > _MAY_FALL_S.get(str(name), 0) for name, fall in falls.items()):
        found.append("a counter falls")
    if bool((frame[counters].iloc[0] != 0).any()):
        found.append("a counter does not begin at 0")
    for name in ("mysqld_cpu_s", "host_busy_s", "host_total_s"):
        if name in frame and frame[name].iloc[-1] > most_s:
            found.append(
                f"its {name} is {frame[name].iloc[-1]:.2f}, where all processors had {cpu_s:.2f}"
            )
    return found


def guarded(check: Callable[[], list[str]], what: str) -> list[str]:
    """Return what a check finds, or that the record is damaged where it cannot be read for it."""
    try:
        return check()
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        return [f"{what} cannot be checked: {type(error).__name__}: {str(error)[:200]}"]
