"""A claim measured again, as data and as text: what it takes, and both verdicts side by side."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from innolab.analysis.claims import Claim
from innolab.analysis.outcomes import DECIDED
from innolab.analysis.verdicts import Verdict
from innolab.base.text_columns import aligned
from innolab.base.units import bytes_text, number
from innolab.measure import resources
from innolab.measure.estimate import Earlier, effort_of
from innolab.measure.plan_text import about
from innolab.measure.resources import Amount, Estimate
from innolab.record.plan import Plan

_WIDTH = 100
_HEAD = {"claim", "server", "says", "stands", "source"}
_AGREE = {True: "yes", False: "no", None: "open"}


def expected(found: Estimate) -> dict[str, Any]:
    """Return an estimate as JSON has it: seconds and bytes."""
    return {
        "time_s": round(found.expected_s, 1),
        "least_s": round(found.least_s, 1),
        "most_s": round(found.most_s, 1),
        "before_s": round(found.before_s, 1),
        "speed_ratio": round(found.speed, 2),
        "blocks": found.blocks,
        "unbuilt": found.unbuilt,
        "dataset_s": found.dataset_s and round(found.dataset_s, 1),
        "memory_bytes": found.memory.bytes,
        "memory_is": _kind(found.memory),
        "disk_bytes": found.disk.bytes,
        "disk_is": _kind(found.disk),
    }


def will_run(chosen: Plan, found: Estimate) -> dict[str, Any]:
    """Return what a plan runs as JSON has it: its arms, controls and blocks."""
    return {
        "servers": list(found.blocks),
        "arms": chosen.arms,
        "twins": chosen.twins,
        "blocks": {"first": found.first, "last": found.last},
        "parameters": chosen.parameters,
        "unavailable": chosen.unavailable,
    }


def servers(
    reference: Mapping[str, Verdict], here: Mapping[str, Verdict] | None
) -> list[dict[str, Any]]:
    """Return both verdicts by server and whether they agree; before it ran one's alone."""
    if here is None:
        return [{"server": name, "reference": _verdict(one)} for name, one in reference.items()]
    return [
        {
            "server": name,
            "reference": _verdict(reference[name]),
            "here": _verdict(one),
            "agree": agrees(reference[name], one),
        }
        for name, one in here.items()
        if name in reference
    ]


def agrees(one: Verdict, other: Verdict) -> bool | None:
    """Return whether two verdicts agree; None if one of them decides nothing."""
    if one.verdict in DECIDED and other.verdict in DECIDED:
        return one.verdict == other.verdict
    return None


def _verdict(one: Verdict) -> dict[str, Any]:
    return one.model_dump(exclude=_HEAD)


def _kind(amount: Amount) -> str:
    return "measured" if amount.measured else "upper bound"


def plan_lines(claim: Claim, chosen: Plan, found: Estimate, reference: Earlier) -> list[str]:
    """Return what measuring a claim again runs and takes, as text."""
    given = chosen.parameters
    effort = given["effort"] or effort_of(chosen)
    of_block = len(chosen.arms) + len(chosen.twins)
    blocks = f"{found.first}" if found.first == found.last else f"{found.first} to {found.last}"
    said = [
        f"{claim.id}: {claim.says}.",
        f"The reference is {reference.name}: scale {given['scale']}, effort {effort}, seed "
        f"{given['seed']}.",
        *(f"Not run: {name}: {why}" for name, why in chosen.unavailable.items()),
        f"Of {chosen.study} it runs {len(chosen.arms)} arms, {blocks} blocks of {of_block} trials:",
    ]
    lines = [line for text in said for line in textwrap.wrap(text, _WIDTH)]
    for arm in chosen.arms:
        twice = "  (twice, as a control)" if arm in chosen.twins else ""
        lines.append("  " + "  ".join(f"{name}={level}" for name, level in arm.items()) + twice)
    return [*lines, *(line for text in _takes(found) for line in textwrap.wrap(text, _WIDTH))]


def _takes(found: Estimate) -> list[str]:
    said = f"It takes about {about(found.expected_s)}"
    if found.first != found.last:
        needed = sorted(set(found.blocks.values()))
        after = f"{needed[0]}" if len(needed) == 1 else f"{needed[0]} to {needed[-1]}"
        why = (
            f"the reference left it open on {' and '.join(found.left_open)}"
            if found.left_open
            else "as in the reference"
        )
        said += (
            f" if it needs {after} blocks ({why}), {about(found.least_s)} at least and "
            f"{about(found.most_s)} at most"
        )
    lines = [
        f"{said}; {about(found.before_s)} of it before the first trial. This host's processors do "
        f"{number(found.speed)} times the work that the reference's did."
    ]
    if found.unbuilt and found.dataset_s is None:
        lines.append(
            f"The data of {' and '.join(found.unbuilt)} are made first, of which the reference "
            "does not say the time: it comes on top."
        )
    if found.strange_arms:
        lines.append(
            f"Of {found.strange_arms} arms the reference has no complete run; the mean of the "
            "others is taken."
        )
    lines.append(
        f"It takes {bytes_text(found.memory.bytes)} of memory ({_kind(found.memory)}) and "
        f"{bytes_text(found.disk.bytes)} of disk ({_kind(found.disk)})."
    )
    return lines


def answer_lines(body: Mapping[str, Any]) -> list[str]:
    """Return an answer as text: a line a server, what differs, what it took."""
    rows = [
        [one["server"], _measured(one["reference"]), _measured(one["here"]), _AGREE[one["agree"]]]
        for one in body["servers"]
    ]
    head = ["server", f"reference {body['reference']['report']}", "here", "agree"]
    lines = ["", *aligned([head, *rows])]
    for one in body["servers"]:
        if one["agree"] is None:
            lines += [f"On {one['server']}, here: {one['here']['reason']}."]
    expected, taken = body["expected"], body["taken"]
    lines += ["", *body["differences"]]
    lines.append(
        f"It took {about(taken['time_s'])} (expected: {about(expected['time_s'])}), "
        f"{_of(taken, expected, 'memory')} and {_of(taken, expected, 'disk')}."
    )
    return [part for line in lines for part in textwrap.wrap(line, _WIDTH + 60) or [""]]


def _of(taken: Mapping[str, Any], expected: Mapping[str, Any], what: str) -> str:
    found, kind = taken[f"{what}_bytes"], expected[f"{what}_is"]
    said = "unknown" if found is None else bytes_text(found)
    beside = "expected" if kind == "measured" else kind
    return f"{said} of {what} ({beside}: {bytes_text(expected[f'{what}_bytes'])})"


def _measured(verdict: Mapping[str, Any]) -> str:
    """Return a verdict with its estimate, interval and number of blocks.

    >>> _measured({"verdict": "reproduced", "estimate": 1.2345, "low": 1.1, "high": None, "n": 3})
    'reproduced 1.23 (1.1 to ...), n = 3'
    """
    if verdict["estimate"] is None and verdict["low"] is None:
        return str(verdict["verdict"])
    middle, low, high = (
        "..." if verdict[name] is None else number(verdict[name])
        for name in ("estimate", "low", "high")
    )
    # A largest value, as a number of pages, has no interval.
    has_interval = verdict["low"] is not None or verdict["high"] is not None
    between = f" ({low} to {high})" if has_interval else ""
    return f"{verdict['verdict']} {middle}{between}, n = {verdict['n']}"


def taken(runs: Sequence[Any], time_s: float) -> dict[str, Any]:
    """Return what measuring took, as its runs recorded it."""
    complete = [run for run in runs if run.status == "complete"]
    return {
        "time_s": round(time_s, 1),
        "memory_bytes": resources.memory_bytes(complete),
        "disk_bytes": resources.disk_bytes(complete),
    }
