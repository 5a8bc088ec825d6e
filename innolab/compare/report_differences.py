"""In what two reports differ beside what was measured, and which of their claims that touches."""

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from innolab.analysis.claims import Claim
from innolab.record.run import Level
from innolab.record.runs import RunSet
from innolab.studies.study import Study

# The levels of an arm, sorted by factor.
ArmKey = tuple[tuple[str, Level], ...]
Kind = Literal["setting", "length", "build", "host", "parameter", "claims", "code"]
_MISSING = "not there"
_DIGITS = 9
_MOST_ARMS_NAMED = 3


class Difference(NamedTuple):
    """Something that is not the same in two reports.

    Attributes
    ----------
    first, second : what it is in each, in words
    server : the server that it concerns; None for all
    arms : the arms that it concerns; None for all arms of the server
    where : the same in words
    judges : whether a verdict may follow from it
    """

    kind: Kind
    name: str
    first: str
    second: str
    server: str | None = None
    arms: frozenset[ArmKey] | None = None
    where: str = "all arms"
    judges: bool = True

    def touches(self, claim: Claim | None, server: str) -> bool:
        """Return whether it concerns an arm that a claim is about on a server.

        A claim that today's study does not have may be about any arm.
        """
        if not self.judges or self.server not in (None, server):
            return False
        if self.arms is None or claim is None:
            return True
        return any(is_side(arm, side) for arm in self.arms for side in claim.sides)

    @property
    def says(self) -> str:
        """Return it as the end of a sentence."""
        both = f"{self.first} in the first, {self.second} then"
        match self.kind:
            case "setting":
                return f"{self.name} is {both}, on {self.where}"
            case "length":
                return f"the length {self.name} is {both}, on {self.where}"
            case "build":
                return f"{self.name} is another binary in each"
            case "host":
                return f"the hosts differ in {self.name}"
            case "parameter":
                return f"{self.name} is {both}"
            case "claims":
                return "they were rendered by different claims"
            case "code":
                return f"{self.name} by innolab {self.first}, then by {self.second}"


def key_of(factors: Mapping[str, Level]) -> ArmKey:
    """Return the arm of some levels."""
    return tuple(sorted(factors.items()))


def is_side(arm: ArmKey, side: Mapping[str, Level]) -> bool:
    """Return whether an arm has the levels of a claim's side, those within a trial left out."""
    levels = dict(arm)
    return all(levels.get(name, level) == level for name, level in side.items())


def words(differences: Sequence[Difference]) -> list[str]:
    """Return differences in words, those of the hosts in one."""
    of_hosts = ", ".join(one.name for one in differences if one.kind == "host")
    said = [f"the hosts differ in {of_hosts}"] if of_hosts else []
    return said + [one.says for one in differences if one.kind != "host"]


def differences(
    study: Study, manifests: tuple[dict[str, Any], dict[str, Any]], runs: tuple[RunSet, RunSet]
) -> list[Difference]:
    """Return all in which two reports of a study differ, the most specific first.

    Parameters
    ----------
    manifests, runs : of the first and of the second report
    """
    return [
        *_on_arms("setting", *map(_in_force, runs)),
        *_on_arms("length", *map(_window_lengths, runs)),
        *_builds(*manifests),
        *_hosts(*manifests),
        *_parameters(*manifests, study.parameters.with_role("asks")),
        *_claims(*manifests),
        *_code(*manifests),
    ]


# By arm and name, the values that its runs had.
_OfArms = dict[ArmKey, dict[str, set[str]]]


def _on_arms(kind: Kind, old: _OfArms, new: _OfArms) -> list[Difference]:
    """Return the values that were not the same on arms that both reports measured."""
    shared = [arm for arm in old if arm in new]
    found: dict[tuple[str, str, str, str], list[ArmKey]] = defaultdict(list)
    for arm in shared:
        for name in sorted(old[arm].keys() | new[arm].keys()):
            values = [_values(of[arm].get(name)) for of in (old, new)]
            if values[0] != values[1]:
                found[(str(dict(arm)["server"]), name, values[0], values[1])].append(arm)
    rows = [
        Difference(
            kind, name, was, then, server, frozenset(arms),
            _where(arms, [arm for arm in shared if dict(arm)["server"] == server]),
        )
        for (server, name, was, then), arms in found.items()
    ]  # fmt: skip
    return sorted(rows, key=lambda row: (-len(row.arms or ()), row.name, row.server or ""))


def _in_force(runs: RunSet) -> _OfArms:
    """Return the server variables in force."""
    found: _OfArms = {}
    for run in runs.runs:
        if digest := run.conditions.get("variables"):
            of_arm = found.setdefault(key_of(run.factors), {})
            for name, value in runs.variables[digest].items():
                of_arm.setdefault(name, set()).add(value)
    return found


def _window_lengths(runs: RunSet) -> _OfArms:
    """Return how long windows were asked to be, which a study may change."""
    found: _OfArms = {}
    for run in runs.runs:
        for window in run.conditions.get("steady", []):
            of_arm = found.setdefault(key_of(run.factors), {})
            of_arm.setdefault("of windows", set()).add(f"{window['window_s']:g} s")
    return found


def _values(values: Collection[str] | None) -> str:
    if not values:
        return _MISSING
    return " or ".join(sorted(value or '""' for value in values))


def _where(arms: Sequence[ArmKey], every: Sequence[ArmKey]) -> str:
    """Return some arms of a server in words: by the levels that they share and others have not."""
    server = dict(arms[0])["server"]
    if len(arms) == len(every):
        return f"all arms of {server}" if len(arms) > 1 else f"the arm of {server}"
    common = _shared(arms) - _shared(every)
    counted = f"{len(arms)} of {len(every)} arms of {server}"
    if common:
        return f"{counted}: {', '.join(f'{name} {level}' for name, level in sorted(common))}"
    named = "; ".join(_named(arm) for arm in arms[:_MOST_ARMS_NAMED])
    return f"{counted}: {named}" + ("; ..." if len(arms) > _MOST_ARMS_NAMED else "")


def _shared(arms: Sequence[ArmKey]) -> set[tuple[str, Level]]:
    """Return the levels that all arms have."""
    return {level for level in arms[0] if all(level in arm for arm in arms)}


def _named(arm: ArmKey) -> str:
    return ", ".join(f"{name} {level}" for name, level in arm if name != "server")


def _builds(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Difference]:
    found = []
    for name in sorted(old["builds"].keys() & new["builds"].keys()):
        builds = [body["builds"][name] for body in (old, new)]
        if builds[0]["sha256"] != builds[1]["sha256"]:
            was, then = (f"{build['version']}, {build['sha256'][:_DIGITS]}" for build in builds)
            found.append(Difference("build", name, was, then, name, where=f"all arms of {name}"))
    return found


def _hosts(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Difference]:
    hosts = [{json.dumps(host, sort_keys=True) for host in body["hosts"]} for body in (old, new)]
    if hosts[0] == hosts[1]:
        return []
    was, then = _facts(old["hosts"][0]), _facts(new["hosts"][0])
    names = [name for name in sorted(was.keys() | then.keys()) if was.get(name) != then.get(name)]
    found = [
        Difference("host", name, _shown(was.get(name)), _shown(then.get(name))) for name in names
    ]
    return found or [Difference("host", "number", str(len(hosts[0])), str(len(hosts[1])))]


def _facts(host: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is known of a host by name, each part of its disk by a name of its own."""
    found: dict[str, Any] = {}
    for name, value in host.items():
        if isinstance(value, dict):
            found |= {f"{name} {part}": of_part for part, of_part in value.items()}
        else:
            found[name] = value
    return found


def _parameters(
    old: Mapping[str, Any], new: Mapping[str, Any], asks: Collection[str]
) -> list[Difference]:
    found = []
    for name in sorted(old["parameters"].keys() | new["parameters"].keys()):
        was, then = (body["parameters"].get(name) for body in (old, new))
        if was != then:
            judges = name not in asks
            found.append(Difference("parameter", name, _shown(was), _shown(then), judges=judges))
    return found


def _claims(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Difference]:
    digests = [body.get("claims_sha256") for body in (old, new)]
    if digests[0] == digests[1]:
        return []
    first, second = (digest[:_DIGITS] if digest else "not recorded" for digest in digests)
    return [Difference("claims", "claims", first, second)]


def _code(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Difference]:
    """Return which innolab measured, and which rendered where that is another one than measured."""
    measured = _commits(old["measured_by"]), _commits(new["measured_by"])
    rendered = _commits([old["rendered_by"]]), _commits([new["rendered_by"]])
    said = {"measured": measured}
    if rendered != measured:
        said["rendered"] = rendered
    return [
        Difference("code", name, was, then) for name, (was, then) in said.items() if was != then
    ]


def _commits(innolabs: Sequence[Mapping[str, Any]]) -> str:
    known = [(by["version"], (by["commit"] or "no commit")[:_DIGITS]) for by in innolabs]
    return ", ".join(f"{version} ({commit})" for version, commit in known)


def _shown(value: Any) -> str:
    return "not given" if value is None else str(value)
