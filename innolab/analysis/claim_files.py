"""The file of a study's claims: read, each entry spread over its levels and checked."""

import hashlib
import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from innolab.analysis.claims import Claim, Where
from innolab.base import parsing
from innolab.base.errors import InputError
from innolab.record.run import Level

# The study with the most has 33; each is judged on every server, and is a row of the page.
MOST_CLAIMS = 2_000
# The longest sentence has 160 characters. One that names a level twice for each of some factors
# would double as often.
_MOST_CHARACTERS = 2_000

# A factor's levels in their order, or by the names that claims may use for them.
Levels = Sequence[Level] | Mapping[str, Level]


def sha256(path: Path) -> str:
    """Return the digest of a file of claims."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def claims_of(
    path: Path,
    factors: Mapping[str, Levels],
    metrics: Collection[str],
    arms: Sequence[Mapping[str, Level]],
) -> list[Claim]:
    """Return the claims of a file, each checked against its study.

    Parameters
    ----------
    factors : the levels of factors and within-factors, named or not; those of a within-factor may
        be open, as an empty list
    metrics : the names of the metrics
    arms : every arm of the study

    Raises
    ------
    InputError
        Names file and line, what is wrong there, and what is allowed.
    """
    try:
        node = parsing.yaml_node(parsing.read_text(path, parsing.MOST_YAML_BYTES))
        entries = parsing.yaml_value(node)
        if not isinstance(entries, list):
            raise ValueError("it holds no list of claims")
    except ValueError as error:
        raise InputError(f"{path} cannot be read: {parsing.reason(error)}") from None
    found: list[Claim] = []
    for entry, at in zip(entries, node.value, strict=True):
        try:
            for body in _repeated(entry, MOST_CLAIMS - len(found)):
                claim = Claim.model_validate(_resolved(body, factors))
                _require_known(claim, factors, metrics, arms)
                found.append(claim)
        except (ValueError, TypeError, AttributeError, LookupError) as error:
            says = (
                parsing.reason(error) if isinstance(error, ValueError) else "it is no claim at all"
            )
            if isinstance(error, ValidationError):
                says += f" (a claim may have: {', '.join(Claim.model_fields)}, each)"
            line = at.start_mark.line + 1
            raise InputError(f"{path}, line {line}: the claim cannot be used: {says}") from None
    return found


def _repeated(entry: Mapping[str, Any], most: int = MOST_CLAIMS) -> Iterator[dict[str, Any]]:
    """Yield an entry once for each of its `each`, whose words end the id and fill {each}.

    A list gives the levels of a factor, which are the words; a mapping gives a word its levels.

    Raises
    ------
    ValueError
        Where there would be more than `most`: three lists of a page each are a billion claims.

    >>> each = {"load": ["x", "y"]}
    >>> [(one["id"], one["where"]) for one in _repeated({"id": "A", "says": "", "each": each})]
    [('A-x', {'load': 'x'}), ('A-y', {'load': 'y'})]
    >>> each = {"ro": {"load": "read_only"}}
    >>> [(one["id"], one["says"]) for one in _repeated({"id": "A", "says": "{each}", "each": each})]
    [('A-ro', 'ro')]
    """
    rest = {name: value for name, value in entry.items() if name != "each"}
    choices = _choices(entry.get("each", {}))
    if (claims := math.prod(map(len, choices))) > most:
        raise ValueError(
            f"its 'each' makes {claims:,} claims of it, and {MOST_CLAIMS:,} are the most of a file"
        )
    if "each" not in entry:
        yield rest
        return
    for chosen in itertools.product(*choices):
        at = {name: level for _, levels in chosen for name, level in levels.items()}
        yield {
            **rest,
            "id": "-".join([str(rest["id"]), *(word for word, _ in chosen)]),
            "says": _filled(str(rest["says"]), chosen),
            "where": {**rest.get("where", {}), **at},
        }


def _filled(says: str, chosen: Sequence[tuple[str, Where]]) -> str:
    """Return a sentence with {each} as the words that were chosen, and {FACTOR} as its level."""
    filled = _put(says, "each", ", ".join(word for word, _ in chosen))
    for _, at in chosen:
        for factor, level in at.items():
            filled = _put(filled, factor, str(level).replace("_", "-"))
    return filled


def _put(says: str, name: str, word: str) -> str:
    """Return a sentence with a word in each place of a name; ValueError where it is too long."""
    mark = "{" + name + "}"
    if (length := len(says) + says.count(mark) * len(word)) > _MOST_CHARACTERS:
        raise ValueError(
            f"its sentence has {length:,} characters with all levels filled in, and "
            f"{_MOST_CHARACTERS:,} are the most"
        )
    return says.replace(mark, word)


def _choices(each: Mapping[str, Any]) -> list[list[tuple[str, Where]]]:
    """Return what there is to choose of: each factor's levels, and the words with theirs."""
    found = [
        [(str(level), {factor: level}) for level in levels]
        for factor, levels in each.items()
        if isinstance(levels, list)
    ]
    words = [(word, dict(at)) for word, at in each.items() if not isinstance(at, list)]
    return [*found, *([words] if words else [])]


def _resolved(body: Mapping[str, Any], factors: Mapping[str, Levels]) -> dict[str, Any]:
    """Return an entry with the named levels of factors as the values that they stand for."""

    def where(at: Mapping[str, Any]) -> dict[str, Any]:
        return {name: _level(level, factors.get(name, [])) for name, level in at.items()}

    found = dict(body)
    if "where" in found:
        found["where"] = where(found["where"])
    for name in ("compare", "mean", "largest", "proportion"):
        if name in found:
            found[name] = {
                part: [where(one) for one in value]
                if isinstance(value, list)
                else (where(value) if isinstance(value, Mapping) else value)
                for part, value in found[name].items()
            }
    return found


def _level(level: Any, levels: Levels) -> Any:
    return levels.get(level, level) if isinstance(levels, Mapping) else level


def _require_known(
    claim: Claim,
    factors: Mapping[str, Levels],
    metrics: Collection[str],
    arms: Sequence[Mapping[str, Level]],
) -> None:
    """Raise ValueError where a claim names what the study does not have, or no single arm."""
    if claim.measure is None:
        return
    asked = [claim.measure.metric, claim.mean.censored_by if claim.mean else None]
    if unknown := [metric for metric in asked if metric and metric not in metrics]:
        raise ValueError(
            f"{claim.id}: '{unknown[0]}' is no metric of the study; the metrics are: "
            f"{', '.join(sorted(metrics))}"
        )
    for side in claim.sides:
        for name, level in side.items():
            if name not in factors:
                raise ValueError(
                    f"{claim.id}: '{name}' is no factor of the study; the factors are: "
                    f"{', '.join(factors)}"
                )
            levels = factors[name]
            known = list(levels.values() if isinstance(levels, Mapping) else levels)
            if known and level not in known:
                raise ValueError(
                    f"{claim.id}: {name} has no level {level!r}; its levels are: "
                    f"{', '.join(map(str, levels))}"
                )
        at = {name: level for name, level in side.items() if arms and name in arms[0]}
        if (found := sum(at.items() <= arm.items() for arm in arms)) != 1:
            named = ", ".join(f"{name} {level}" for name, level in at.items()) or "nothing"
            raise ValueError(
                f"{claim.id}: {named} leaves {found} arms of the study, and it has to be one"
            )
