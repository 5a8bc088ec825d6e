"""Whether recorded runs had the settings, conditions and builds of the arms that they name."""

import csv
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from innolab.analysis.checks import RequiredSettings, same_value
from innolab.base import places
from innolab.mysql.builds import OWN_ORIGIN
from innolab.record.run import Run

_BUILDS = places.own("data", "builds.csv")
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
        if changed := differing(shared.setdefault(str(build["id"]), base), base):
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
        if changed := differing(seen.setdefault(build["id"], build), build):
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


def differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Return the names of the values in which two mappings differ."""
    return ", ".join(n for n in sorted({*one, *other}) if one.get(n) != other.get(n))
