"""A plan as text: how long it takes, what it may decide, its first trials."""

import textwrap
from collections.abc import Mapping

from innolab.analysis.stats import LEVEL
from innolab.base.text_columns import aligned
from innolab.measure.estimate import Expected, ExpectedClaim, effort_of
from innolab.record.plan import Plan
from innolab.record.run import Factors
from innolab.studies.experiment import Experiment, Trial

_WIDTH = 100
# A factor above this decides nothing, however large it is.
_WIDEST = 100
_TRIALS_SHOWN = 12
_UNKNOWN = "-"


def trial_line(trial: Trial) -> str:
    """Return a trial's place, block and levels."""
    return f"{trial.position:4}  block {trial.block + 1}  {_levels(trial.factors)}"


def summary(experiment: Experiment, expected: Expected, earlier: Mapping[str, Plan]) -> list[str]:
    """Return the lines that say of a plan what a reader wants to know before running it.

    Parameters
    ----------
    earlier : the plans of the reports that were learned from, by name
    """
    plan, trials = experiment.plan, experiment.trials
    first_block = [trial for trial in trials if trial.block == 0]
    shown = first_block[:_TRIALS_SHOWN]
    said = [
        _size(plan, expected, len(first_block)),
        _looks(expected),
        *_twins(plan),
        *_time(expected),
        *_sources(plan, expected, earlier),
    ]
    lines = [line for text in said for line in _wrapped(text)]
    lines += ["", *_claims(expected), "", "The first trials:"]
    lines += [trial_line(trial) + ("  (control)" if trial.twin else "") for trial in shown]
    more = len(trials) - len(shown)
    return [*lines, f"and {more} more; --trials prints all"] if more else lines


def _size(chosen: Plan, expected: Expected, of_block: int) -> str:
    first, last = expected.first.blocks, expected.declared
    blocks = _count(last, "block") if first == last else f"{first} to {last} blocks"
    effort = chosen.parameters["effort"] or effort_of(chosen)
    return (
        f"{chosen.study} at scale {chosen.parameters['scale']}, effort {effort}: "
        f"{blocks} of {_count(of_block, 'trial')}."
    )


def _looks(expected: Expected) -> str:
    first, last, declared = expected.first, expected.last, expected.declared
    if first.level is None or last.level is None:
        return "One block leaves no interval, so this plan decides no claim."
    if first.blocks == declared:
        return f"Claims are judged after block {declared}, at a level of {LEVEL:.4g}."
    levels = f"{first.level:.4g}"
    if levels != f"{last.level:.4g}":
        levels += f" at first and {last.level:.4g} at last"
    return (
        f"Claims are judged after each block from {first.blocks} to {declared}, at a level of "
        f"{levels} ({LEVEL:.4g} for all together). Arms whose claims are all decided stop."
    )


def _twins(chosen: Plan) -> list[str]:
    """Return which arms are measured twice, each once for all its servers."""
    servers: dict[str, list[str]] = {}
    for twin in chosen.twins:
        rest = {name: level for name, level in twin.items() if name != "server"}
        servers.setdefault(_levels(rest, ", "), []).append(str(twin["server"]))
    return [
        f"Measured twice in each block, as a control: {levels}, on {' and '.join(names)}."
        for levels, names in servers.items()
    ]


def _time(expected: Expected) -> list[str]:
    found = expected.duration
    if found is None:
        return ["How long it takes is unknown: there is no earlier report of these measurements."]
    first, last = expected.first.blocks, expected.last.blocks
    most = about(found.until(last) + found.after_s)
    takes = most
    if first != last:
        takes = f"{about(found.until(first))} to the first verdicts, {most} at most"
    lines = [
        f"It takes about {takes}, by the times in {found.report}; longer where servers or data are "
        f"not ready yet. What comes before the first trial took {about(found.before_s)} there."
    ]
    if found.strange_arms:
        of_them = (
            "is no run of 1 arm"
            if found.strange_arms == 1
            else (f"are no runs of {found.strange_arms} arms")
        )
        lines.append(f"There {of_them} in it; the mean of the others is taken.")
    if last < expected.declared:
        lines.append(f"The time given is enough for {last} of {expected.declared} blocks.")
    return lines


def _sources(chosen: Plan, expected: Expected, earlier: Mapping[str, Plan]) -> list[str]:
    """Return a warning of each report that is used and was measured in another way."""
    used = [expected.duration.report] if expected.duration else []
    used += [row.report for row in expected.rows if row.report]
    differing = {name: _other(chosen, earlier[name]) for name in used}
    return [
        f"But {name} was measured {how}, so spread and time may be others here, though the time "
        "counts how long windows are."
        for name, how in differing.items()
        if how
    ]


def _other(chosen: Plan, other: Plan) -> str:
    """Return in which scale and effort another plan differs; nothing where in none."""
    said = []
    if other.parameters["scale"] != chosen.parameters["scale"]:
        said.append(f"at scale {other.parameters['scale']}")
    effort = effort_of(other)
    if effort is None:
        said.append("by an older innolab, which had no efforts")
    elif effort != effort_of(chosen):
        said.append(f"at effort {effort}")
    return " and ".join(said)


def _claims(expected: Expected) -> list[str]:
    lines: list[str] = []
    if reports := dict.fromkeys(row.report for row in expected.rows if row.report):
        lines = [
            f"Expected by the spread between blocks in {' and '.join(reports)}:",
            "after a block, intervals go from the estimate / factor to the estimate x factor;",
            "power is how likely the last look decides the claim if the true value is as in 'at'.",
            "",
        ]
    if expected.rows:
        head = _head(expected)
        rows = [head, *(_cells(row, expected) for row in expected.rows)]
        lines += aligned(rows, numbers=range(2, len(head) - 1))
    for said, claims in (
        ("Without arms in this plan", expected.not_planned),
        ("Not measured at all", expected.not_measured),
    ):
        if claims:
            lines += _wrapped(f"{said}: {', '.join(claims)}.")
    return lines


def _head(expected: Expected) -> list[str]:
    looks = dict.fromkeys((expected.first.blocks, expected.last.blocks))
    return ["claim", "server", *(f"block {n}" for n in looks), "at", "power", ""]


def _cells(row: ExpectedClaim, expected: Expected) -> list[str]:
    is_one_look = expected.first.blocks == expected.last.blocks
    factors = row.factors or (None, None)
    # Most spreads are from one report, the one that the time is from.
    is_elsewhere = row.report and expected.duration and row.report != expected.duration.report
    return [
        row.claim,
        row.server,
        *(_factor(factor) for factor in factors[: 1 if is_one_look else 2]),
        _UNKNOWN if row.truth is None else f"{row.truth:.3g}",
        _UNKNOWN if row.power is None else f"{row.power:.0%}",
        row.reason or (f"by {row.report}" if is_elsewhere else ""),
    ]


def _factor(factor: float | None) -> str:
    if factor is None:
        return _UNKNOWN
    return f"{factor:.2f}" if factor <= _WIDEST else f"> {_WIDEST}"


def _wrapped(text: str) -> list[str]:
    # Names of reports and claims have hyphens, and stay whole.
    return textwrap.wrap(text, _WIDTH, break_on_hyphens=False)


def _levels(factors: Factors, between: str = "  ") -> str:
    return between.join(f"{name}={level}" for name, level in factors.items())


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" + ("s" if number != 1 else "")


def about(duration_s: float) -> str:
    """Return a duration as a person would plan with it.

    >>> about(20), about(754), about(4 * 3600)
    ('20 seconds', '13 minutes', '4.0 hours')
    """
    if duration_s < 90:
        return _count(round(duration_s), "second")
    minutes = duration_s / 60
    return f"{minutes:.0f} minutes" if minutes < 100 else f"{minutes / 60:.1f} hours"
