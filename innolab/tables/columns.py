"""What each column of a published table is: settled from its description, or refused as unclear."""

import itertools
from collections.abc import Mapping, Sequence
from typing import NoReturn

from innolab.analysis.seconds import LEAST
from innolab.base.errors import InputError
from innolab.base.quoting import shown
from innolab.tables.cells import Cells
from innolab.tables.description import ALL_OTHERS, About, ColumnMetric
from innolab.tables.numbers import number


def refuse(why: str) -> NoReturn:
    """Raise InputError with why a table cannot be judged."""
    raise InputError(f"{why}. Nothing was written.")


def settled(table: str, cells: Cells, measured: Mapping[str, ColumnMetric], about: About) -> About:
    """Return a description that leaves nothing open.

    Parameters
    ----------
    measured : the metrics that headings and outputs name

    Raises
    ------
    InputError
        Where the description names what is not there, or a column stays unknown.
    """
    columns = list(cells[0][1])
    named = [
        *about.metrics, *about.factors, *filter(None, [about.ranked, about.seconds]),
        *(_given(about, "repeated_by")), *(_given(about, "notes")),
    ]  # fmt: skip
    if unknown := [name for name in named if name not in columns]:
        refuse(
            f"{table} has no column {shown(unknown[0])}, which its description names; its columns "
            f"are: {', '.join(columns)}"
        )
    others = {
        *about.factors, *about.repeated_by, *about.notes, about.output,
        *filter(None, [about.seconds]),
    }  # fmt: skip
    if ALL_OTHERS in about.notes and not about.factors:
        refuse(
            f"{table}: '{ALL_OTHERS}' among the notes is every column that is neither factor nor "
            "metric, so its description has to name the factors"
        )
    by_heading = {name: metric for name, metric in measured.items() if name not in others}
    metrics = by_heading | about.metrics
    beside = {*metrics, *others} - {*about.factors}
    factors = dict(about.factors) or {name: None for name in columns if name not in beside}
    if not about.factors:
        _require_no_unit_missing(table, cells, list(factors))
    if not metrics:
        refuse(
            f"{table} names no unit. Write each metric's unit into its heading, as in "
            "'tps (1/s)', or into a description (--about): metrics: {tps: 1/s}"
        )
    if both := [name for name in factors if name in metrics]:
        refuse(f"{table}: {shown(both[0])} cannot be both a factor and a metric")
    if about.ranked in metrics:
        refuse(f"{table}: {about.ranked} was measured, so it cannot be ranked; a factor can")
    if about.ranked and about.ranked not in factors:
        refuse(f"{table}: {about.ranked} is no factor, so it cannot be ranked")
    _require_all_known(table, cells, {*factors, *beside})
    for name, metric in metrics.items():
        if metric.direction is None:
            refuse(
                f"{table}: of {name}, in {metric.unit}, nobody says what is better. If it was "
                "varied, list it under factors of a description (--about); if it was measured, "
                f"write metrics: {{{name}: {{unit: {metric.unit}, better: lower}}}} or higher"
            )
    return about.model_copy(
        update={
            "metrics": metrics,
            "factors": factors,
            "ranked": about.ranked or _ranked(table, cells, list(factors)),
            "repeated_by": [n for n in about.repeated_by if n in columns and n not in factors],
            "notes": [name for name in columns if name not in {*metrics, *factors}
                      and name not in about.repeated_by],
        }
    )  # fmt: skip


def _given(about: About, name: str) -> list[str]:
    """Return the columns of a field that a description itself names, not by default."""
    given = getattr(about, name) if name in about.model_fields_set else []
    return [column for column in given if column != ALL_OTHERS]


def _require_all_known(table: str, cells: Cells, known: set[str]) -> None:
    """Refuse a column that varies and is nothing: rows that differ in it are no replicates."""
    for name in cells[0][1]:
        if not known & {name, ALL_OTHERS} and len({of[name] for _, of in cells}) > 1:
            refuse(
                f"{table}: the description does not say what the column {shown(name)} is. If it "
                "was varied, list it under factors; if it says nothing of the measurement, under "
                f"notes ('{ALL_OTHERS}' there stands for all others)"
            )


def require_measured(
    table: str, cells: Cells, measured: Mapping[str, ColumnMetric], about: About
) -> None:
    """Refuse a heading's unit where the column may have been varied, and nobody says which.

    What was measured seldom is the same in two arms; what was varied, or fixed, mostly is.

    Parameters
    ----------
    measured : the metrics that headings name

    Raises
    ------
    InputError
        Names the column, and how to say what it is.
    """
    known = {*about.metrics, *about.repeated_by, *about.notes, about.output, about.seconds}
    factors = [name for name in cells[0][1] if name not in {*known, *measured}]
    for name in cells[0][1]:
        if name not in known:
            _require_no_moments(table, cells, name, factors, about)
    for name, metric in measured.items():
        if name not in known and _comes_back(name, cells, factors):
            varied = ", ".join([*(f"{factor}: " for factor in factors), f"{name}: {metric.unit}"])
            refuse(
                f"{table}: half of the values of {name} or more are the same in several arms, as "
                "where it was varied or fixed. Say in a description (--about) what it is. Varied: "
                f"factors: {{{varied}}}; measured: metrics: {{{name}: {metric.unit}}}; the moments "
                f"within a run: seconds: {name}; neither: notes: [{name}]"
            )


def _comes_back(name: str, cells: Cells, factors: Sequence[str]) -> bool:
    """Return whether half of a column's numbers or more are also in a row of another arm."""
    rows = [(value, tuple(of[factor] for factor in factors)) for _, of in cells
            if (value := number(of[name])) is not None]  # fmt: skip
    arms: dict[float, set[tuple[str, ...]]] = {}
    for value, arm in rows:
        arms.setdefault(value, set()).add(arm)
    again = sum(len(arms[value]) > 1 for value, _ in rows)
    return bool(rows) and 2 * again >= len(rows)


def _require_no_moments(
    table: str, cells: Cells, name: str, factors: Sequence[str], about: About
) -> None:
    """Refuse a column that looks like the moments within a run: many, ascending in even steps."""
    labels = [label for label in about.repeated_by if label in cells[0][1]]
    arm = [*labels, *(factor for factor in factors if factor != name)]
    runs: dict[tuple[str, ...], list[float | None]] = {}
    for _, of in cells:
        runs.setdefault(tuple(of[column] for column in arm), []).append(number(of[name]))
    if all(map(_ascends_evenly, runs.values())):
        levels = ", ".join(f"{factor}: " for factor in dict.fromkeys([*factors, name]))
        refuse(
            f"{table}: the column {shown(name)} ascends in even steps in every arm, as the moments "
            "within a run do. Say in a description (--about) what it is. Moments: "
            f"seconds: {name}; varied: factors: {{{levels}}}"
        )


def _ascends_evenly(values: Sequence[float | None]) -> bool:
    known = [value for value in values if value is not None]
    if len(known) < max(LEAST, len(values)):
        return False
    steps = [after - before for before, after in itertools.pairwise(known)]
    return min(steps) > 0 and max(steps) <= 1.01 * min(steps)


def _require_no_unit_missing(table: str, cells: Cells, factors: Sequence[str]) -> None:
    """Refuse a column that may be a metric without a unit: a factor's levels come back."""
    for name in factors:
        found = [number(of[name]) for _, of in cells]
        if all(value is not None for value in found) and len(set(found)) * 2 > len(found):
            refuse(
                f"{table}: the column {shown(name)} holds numbers that seldom come back, and names "
                "no unit. If it was measured, write its unit into the heading, as in "
                f"'{name} (1/s)'; if it was varied, list it under factors of a description "
                "(--about)"
            )


def _ranked(table: str, cells: Cells, factors: Sequence[str]) -> str:
    """Return the factor whose levels are ranked: the only one that has words for levels."""
    if not factors:
        refuse(f"{table} has no column beside its metrics, so there is nothing to rank")
    words = [n for n in factors if any(number(of[n]) is None for _, of in cells)]
    candidates = words or list(factors)
    if len(candidates) != 1:
        refuse(
            f"{table} has several factors that could be ranked ({', '.join(candidates)}). Name one "
            "with --ranked"
        )
    return candidates[0]
