"""In what reports differ besides what was measured, and which of their claims that touches."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

from innolab.analysis.claims import Claim
from innolab.base.errors import InputError
from innolab.compare.members import Member
from innolab.record.run import Level
from innolab.record.runs import RunSet
from innolab.studies.study import Study

# The levels of an arm, sorted by factor.
ArmKey = tuple[tuple[str, Level], ...]
# The most specific first.
Kind = Literal["setting", "length", "build", "host", "parameter", "code"]
_MISSING = "not there"
_DIGITS = 9
_MOST_ARMS_NAMED = 3


class Difference(NamedTuple):
    """Something that is not the same in all reports.

    Attributes
    ----------
    values : what it is in each report, as text, in their order
    server : the server that it concerns; None for all
    arms : the arms that it concerns; None for all arms of the server
    where : the same as text
    judges : whether a verdict may follow from it
    """

    kind: Kind
    name: str
    values: tuple[str, ...]
    server: str | None = None
    arms: frozenset[ArmKey] | None = None
    where: str = "all arms"
    judges: bool = True

    def touches(self, claim: Claim, server: str) -> bool:
        """Return whether it concerns an arm that a claim is about on a server."""
        if not self.judges or self.server not in (None, server):
            return False
        if self.arms is None:
            return True
        return any(is_side(arm, side) for arm in self.arms for side in claim.sides)


def key_of(factors: Mapping[str, Level]) -> ArmKey:
    """Return the arm of some levels."""
    return tuple(sorted(factors.items()))


def is_side(arm: ArmKey, side: Mapping[str, Level]) -> bool:
    """Return whether an arm has the levels of a claim's side, those within a trial left out."""
    levels = dict(arm)
    return all(levels.get(name, level) == level for name, level in side.items())


def between(study: Study, members: Sequence[Member]) -> list[Difference]:
    """Return everything that is in a report not as in the first, the most specific kind first.

    Raises
    ------
    InputError
        If what a manifest says of hosts or builds is damaged.
    """
    first, *others = members
    merged: dict[tuple[object, ...], Difference] = {}
    for place, other in enumerate(others, 1):
        try:
            pairs = [*_of_two(study, first, other)]
        except (LookupError, TypeError, AttributeError) as error:
            raise InputError(
                f"The manifests of {first.name} and {other.name} cannot be compared: what one of "
                f"them says of hosts or builds is damaged ({type(error).__name__}: {error}). Take "
                "the reports from their sources, or see: innolab verify REPORT"
            ) from None
        for one in pairs:
            key = one._replace(values=one.values[:1])
            values = [*(merged[key].values if key in merged else one.values[:1] * len(members))]
            values[place] = one.values[1]
            merged[key] = one._replace(values=tuple(values))
    return sorted(merged.values(), key=lambda one: get_args(Kind).index(one.kind))


def _of_two(study: Study, first: Member, other: Member) -> Iterator[Difference]:
    old, new = first.body, other.body
    yield from _on_arms("setting", _variables(first.runs), _variables(other.runs))
    yield from _on_arms("length", _window_lengths(first.runs), _window_lengths(other.runs))
    yield from _builds(old, new)
    yield from _hosts(old, new)
    yield from _parameters(old, new, study.parameters.with_role("asks"))
    yield from _code(old, new)
    yield from _records(first, other)


# By arm and name, the values that its runs had.
_ByArm = dict[ArmKey, dict[str, set[str]]]


def _on_arms(kind: Kind, old: _ByArm, new: _ByArm) -> list[Difference]:
    """Return the values that were not the same on arms that both reports measured."""
    shared = [arm for arm in old if arm in new]
    arms_of: dict[tuple[str, str, str, str], list[ArmKey]] = defaultdict(list)
    for arm in shared:
        for name in sorted(old[arm].keys() | new[arm].keys()):
            was, then = (_values(values[arm].get(name)) for values in (old, new))
            if was != then:
                arms_of[str(dict(arm)["server"]), name, was, then].append(arm)
    rows = [
        Difference(
            kind, name, (was, then), server, frozenset(arms),
            _where(arms, [arm for arm in shared if dict(arm)["server"] == server]),
        )
        for (server, name, was, then), arms in arms_of.items()
    ]  # fmt: skip
    return sorted(rows, key=lambda row: (-len(row.arms or ()), row.name, row.server or ""))


def _variables(runs: RunSet) -> _ByArm:
    """Return the effective server variables."""
    by_arm: _ByArm = {}
    for run in runs.runs:
        if digest := run.conditions.get("variables"):
            values = by_arm.setdefault(key_of(run.factors), {})
            for name, value in runs.variables[digest].items():
                values.setdefault(name, set()).add(value)
    return by_arm


def _window_lengths(runs: RunSet) -> _ByArm:
    """Return how long windows were asked to be, which a study may change."""
    by_arm: _ByArm = {}
    for run in runs.runs:
        for window in run.conditions.get("steady", []):
            values = by_arm.setdefault(key_of(run.factors), {})
            values.setdefault("of windows", set()).add(f"{window['window_s']:g} s")
    return by_arm


def _values(values: Collection[str] | None) -> str:
    if not values:
        return _MISSING
    return " or ".join(sorted(value or '""' for value in values))


def _where(arms: Sequence[ArmKey], every: Sequence[ArmKey]) -> str:
    """Return some arms of a server as text: by the levels that they share and others have not."""
    server = dict(arms[0])["server"]
    if len(arms) == len(every):
        return f"all arms of {server}" if len(arms) > 1 else f"the arm of {server}"
    common = _shared(arms) - _shared(every)
    counted = f"{len(arms)} of {len(every)} arms of {server}"
    if common:
        return f"{counted}: {', '.join(f'{name} {level}' for name, level in sorted(common))}"
    named = [
        ", ".join(f"{name} {level}" for name, level in arm if name != "server")
        for arm in arms[:_MOST_ARMS_NAMED]
    ]
    return f"{counted}: {'; '.join(named)}" + ("; ..." if len(arms) > _MOST_ARMS_NAMED else "")


def _shared(arms: Sequence[ArmKey]) -> set[tuple[str, Level]]:
    """Return the levels that all arms have."""
    return {level for level in arms[0] if all(level in arm for arm in arms)}


def _builds(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Difference]:
    for name in sorted(old["builds"].keys() & new["builds"].keys()):
        builds = [body["builds"][name] for body in (old, new)]
        if builds[0]["sha256"] != builds[1]["sha256"]:
            was, then = (f"{build['version']}, {build['sha256'][:_DIGITS]}" for build in builds)
            yield Difference("build", name, (was, then), name, where=f"all arms of {name}")


def _hosts(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Difference]:
    hosts = [{json.dumps(host, sort_keys=True) for host in body["hosts"]} for body in (old, new)]
    if hosts[0] == hosts[1]:
        return []
    was, then = _facts(old["hosts"][0]), _facts(new["hosts"][0])
    names = [name for name in sorted(was.keys() | then.keys()) if was.get(name) != then.get(name)]
    if not names:
        return [Difference("host", "number", (str(len(hosts[0])), str(len(hosts[1]))))]
    return [
        Difference("host", name, (_shown(was.get(name)), _shown(then.get(name)))) for name in names
    ]


def _facts(host: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is known of a host by name, each part of its disk by a separate name."""
    facts: dict[str, Any] = {}
    for name, value in host.items():
        if isinstance(value, dict):
            facts |= {f"{name} {part}": of_part for part, of_part in value.items()}
        else:
            facts[name] = value
    return facts


def _parameters(
    old: Mapping[str, Any], new: Mapping[str, Any], asks: Collection[str]
) -> Iterator[Difference]:
    for name in sorted(old["parameters"].keys() | new["parameters"].keys()):
        was, then = (body["parameters"].get(name) for body in (old, new))
        if was != then:
            values = _shown(was), _shown(then)
            yield Difference("parameter", name, values, judges=name not in asks)


def _code(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield which innolab measured, and which rendered if that is another one than measured."""
    measured = _commits(old["measured_by"]), _commits(new["measured_by"])
    rendered = _commits([old["rendered_by"]]), _commits([new["rendered_by"]])
    if measured[0] != measured[1]:
        yield Difference("code", "measured", measured)
    if rendered[0] != rendered[1] and rendered != measured:
        yield Difference("code", "rendered", rendered)


def _records(first: Member, other: Member) -> Iterator[Difference]:
    """Yield whether claims were others when the reports were sealed, and whether runs are shared.

    No verdict follows from the former: all are by today's claims.
    """
    claims = [(one.body.get("claims_sha256") or _MISSING)[:_DIGITS] for one in (first, other)]
    if claims[0] != claims[1]:
        yield Difference("code", "claims when it was sealed", (claims[0], claims[1]), judges=False)
    own, others = ({(run.key, run.started_at) for run in one.runs.runs} for one in (first, other))
    if shared := len(own & others):
        values = f"{len(own)}", f"{len(others)}, {shared} of them the same"
        yield Difference("code", "runs", values, judges=False)


def _commits(innolabs: Sequence[Mapping[str, Any]]) -> str:
    known = [(by["version"], (by["commit"] or "no commit")[:_DIGITS]) for by in innolabs]
    return ", ".join(f"{version} ({commit})" for version, commit in known)


def _shown(value: Any) -> str:
    return "not given" if value is None else str(value)
