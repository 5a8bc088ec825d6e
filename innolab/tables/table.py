"""A published table as rows of levels and metrics, read from CSV or JSON and refused where unclear.

A row is a run: the levels of its arm, its metrics, and what tells it from other runs of the arm.
"""

import csv
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, NoReturn

from innolab.base import parsing, spreadsheet
from innolab.base.errors import InnolabError, InputError
from innolab.base.quoting import shown
from innolab.record.run import Level
from innolab.record.text_types import plain
from innolab.tables import load_outputs
from innolab.tables.cells import Cells, cells_of_csv, cells_of_json
from innolab.tables.description import ALL_OTHERS, About, ColumnMetric, heading

_MOST_BYTES = 64 * 1024**2
_NOTHING_WRITTEN = "Nothing was written."


class TableRow(NamedTuple):
    """One run.

    Attributes
    ----------
    place : its line in the CSV, or its number in the JSON list, from 1
    cells : every cell as it was given, by column
    levels : of the factors
    values : of the metrics that it has
    """

    place: int
    cells: Mapping[str, str]
    levels: Mapping[str, Level]
    values: Mapping[str, float]


@dataclass(frozen=True)
class PublishedTable:
    """A table whose columns are all known.

    Attributes
    ----------
    about : its description, with nothing left open
    rows : one a run, in the table's order
    """

    about: About
    rows: Sequence[TableRow]

    @cached_property
    def factors(self) -> dict[str, list[Level]]:
        """Return the levels of each factor, in the order of their first row."""
        return {
            name: list(dict.fromkeys(row.levels[name] for row in self.rows))
            for name in self.about.factors
        }

    @cached_property
    def arms(self) -> list[dict[str, Level]]:
        """Return each combination of levels that has a row, in the table's order."""
        return [dict(arm) for arm in dict.fromkeys(tuple(row.levels.items()) for row in self.rows)]

    def values(self, metric: str, arm: Mapping[str, Level]) -> list[float]:
        """Return a metric of the replicates of an arm."""
        of = self._by_arm.get(tuple(arm[name] for name in self.about.factors), [])
        return [row.values[metric] for row in of if metric in row.values]

    @cached_property
    def _by_arm(self) -> dict[tuple[Level, ...], list[TableRow]]:
        found: dict[tuple[Level, ...], list[TableRow]] = {}
        for row in self.rows:
            found.setdefault(tuple(row.levels.values()), []).append(row)
        return found

    def as_csv(self) -> str:
        """Return the table as CSV, each cell as it was given; `read` of it gives the same table."""
        import pandas as pd

        return spreadsheet.csv_text(pd.DataFrame([dict(row.cells) for row in self.rows]))


def read(path: Path, about: About, *, with_outputs: bool = False) -> PublishedTable:
    """Return the table of a CSV file, or of a JSON list of objects.

    Parameters
    ----------
    about : what is known of its columns beforehand
    with_outputs : whether to read the outputs that a column names, files next to the table or below
        it; those of the table of a report were read before

    Raises
    ------
    InputError
        Where it cannot be read, or leaves open what its columns are; names line and column.
    """
    name = path.name
    try:
        text = parsing.read_text(path, _MOST_BYTES)
        cells = cells_of_json(text) if path.suffix.lower() == ".json" else cells_of_csv(text)
    except (ValueError, csv.Error) as error:
        _refuse(f"{name} cannot be read: {' '.join(str(error).split())[:300]}")
    if hidden := next((x for _, of in cells for x in [*of, *of.values()] if x != plain(x)), None):
        _refuse(
            f"{name} has {shown(hidden)}, which holds a control character or a mark of direction, "
            "or is too long to show"
        )
    if len(cells) < 2:
        _refuse(
            f"{name} has {'a single measurement' if cells else 'no rows'}; it takes two at least "
            "to compare anything"
        )
    cells, units = _named(name, cells)
    if with_outputs and about.output in cells[0][1]:
        cells, units = _with_outputs(path, cells, units, about.output)
    about = _settled(name, cells, units, about)
    rows = [_row(name, place, of, about) for place, of in cells]
    numeric = {f for f in about.factors if _are_numbers({row.cells[f] for row in rows})}
    typed = [
        row._replace(levels={f: _level(row.cells[f], f in numeric) for f in about.factors})
        for row in rows
    ]
    _require_no_copies(name, typed, about)
    return PublishedTable(about, typed)


def _refuse(why: str) -> NoReturn:
    raise InputError(f"{why}. {_NOTHING_WRITTEN}")


def _named(table: str, cells: Cells) -> tuple[Cells, dict[str, str]]:
    """Return the cells by the names of their columns, and the units that headings name."""
    headings = {text: heading(text) for text in cells[0][1]}
    names = [name for name, _ in headings.values()]
    if strange := [name for name in names if not name or set(name) & set("()[]")]:
        _refuse(
            f"{table}: the heading {shown(strange[0])} is empty, or has brackets beside those of "
            "its unit"
        )
    if twice := [name for name, n in Counter(names).items() if n > 1]:
        _refuse(f"{table} has two columns {shown(twice[0])}")
    units = {name: unit for name, unit in headings.values() if unit}
    return [(n, {headings[text][0]: cell for text, cell in of.items()}) for n, of in cells], units


def _with_outputs(
    path: Path, cells: Cells, units: dict[str, str], column: str
) -> tuple[Cells, dict[str, str]]:
    """Return the cells with the metrics of the outputs that a column names, and all units."""
    outputs = [_output(path, place, own[column]) for place, own in cells]
    _require_own_outputs(path.name, cells, column)
    parsed = {name: unit for output in outputs for name, (_, unit) in output.items()}
    if both := [name for name in parsed if name in cells[0][1]]:
        _refuse(f"{path.name} has a column {shown(both[0])}, and its outputs have one too")
    with_metrics = [
        (place, own | {name: _written(output.get(name)) for name in parsed})
        for (place, own), output in zip(cells, outputs, strict=True)
    ]
    return with_metrics, units | parsed


def _require_own_outputs(table: str, cells: Cells, column: str) -> None:
    """Refuse an output that several rows name: it is of one run, and each row is one."""
    places: dict[str, int] = {}
    for place, own in cells:
        if (name := own[column]) and (first := places.setdefault(name, place)) != place:
            _refuse(
                f"{table}: rows {first} and {place} name the same output {shown(name)}. Each row "
                "is a run; keep the output of each in a separate file"
            )


def _written(metric: tuple[float, str] | None) -> str:
    if metric is None:
        return ""
    value = metric[0]
    return repr(int(value) if value == int(value) else value)


def _output(path: Path, place: int, name: str) -> dict[str, tuple[float, str]]:
    if not name:
        return {}
    file, folder = (path.parent / name).resolve(), path.parent.resolve()
    if not file.is_relative_to(folder):
        _refuse(f"{path.name}, row {place}: the output {shown(name)} is outside {folder}")
    try:
        return load_outputs.read(parsing.read_text(file, _MOST_BYTES)).metrics
    except (ValueError, InnolabError) as error:
        _refuse(
            f"{path.name}, row {place}: the output {shown(name)} cannot be read: {error}".rstrip(
                "."
            )
        )


def _settled(table: str, cells: Cells, units: Mapping[str, str], about: About) -> About:
    """Return a description that leaves nothing open."""
    columns = list(cells[0][1])
    named = [
        *about.metrics, *about.factors, *([about.ranked] if about.ranked else []),
        *(_given(about, "repeated_by")), *(_given(about, "notes")),
    ]  # fmt: skip
    if unknown := [name for name in named if name not in columns]:
        _refuse(
            f"{table} has no column {shown(unknown[0])}, which its description names; its columns "
            f"are: {', '.join(columns)}"
        )
    others = {*about.factors, *about.repeated_by, *about.notes, about.output}
    if ALL_OTHERS in about.notes and not about.factors:
        _refuse(
            f"{table}: '{ALL_OTHERS}' among the notes is every column that is neither factor nor "
            "metric, so its description has to name the factors"
        )
    by_heading = {
        name: ColumnMetric(unit=unit) for name, unit in units.items() if name not in others
    }
    metrics = by_heading | about.metrics
    beside = {*metrics, *about.repeated_by, *about.notes, about.output}
    factors = dict(about.factors) or {name: None for name in columns if name not in beside}
    if not about.factors:
        _require_no_unit_missing(table, cells, list(factors))
    if not metrics:
        _refuse(
            f"{table} names no unit. Write each metric's unit into its heading, as in "
            "'tps (1/s)', or into a description (--about): metrics: {tps: 1/s}"
        )
    if both := [name for name in factors if name in metrics]:
        _refuse(f"{table}: {shown(both[0])} cannot be both a factor and a metric")
    if about.ranked in metrics:
        _refuse(f"{table}: {about.ranked} was measured, so it cannot be ranked; a factor can")
    if about.ranked and about.ranked not in factors:
        _refuse(f"{table}: {about.ranked} is no factor, so it cannot be ranked")
    _require_all_known(table, cells, {*factors, *beside})
    for name, metric in metrics.items():
        if metric.direction is None:
            _refuse(
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
            _refuse(
                f"{table}: the description does not say what the column {shown(name)} is. If it "
                "was varied, list it under factors; if it says nothing of the measurement, under "
                f"notes ('{ALL_OTHERS}' there stands for all others)"
            )


def _require_no_unit_missing(table: str, cells: Cells, factors: Sequence[str]) -> None:
    """Refuse a column that may be a metric without a unit: a factor's levels come back."""
    for name in factors:
        found = [_number(of[name]) for _, of in cells]
        if all(value is not None for value in found) and len(set(found)) * 2 > len(found):
            _refuse(
                f"{table}: the column {shown(name)} holds numbers that seldom come back, and names "
                "no unit. If it was measured, write its unit into the heading, as in "
                f"'{name} (1/s)'; if it was varied, list it under factors of a description "
                "(--about)"
            )


def _ranked(table: str, cells: Cells, factors: Sequence[str]) -> str:
    """Return the factor whose levels are ranked: the only one that has words for levels."""
    if not factors:
        _refuse(f"{table} has no column beside its metrics, so there is nothing to rank")
    words = [n for n in factors if any(_number(of[n]) is None for _, of in cells)]
    candidates = words or list(factors)
    if len(candidates) != 1:
        _refuse(
            f"{table} has several factors that could be ranked ({', '.join(candidates)}). Name one "
            "with --ranked"
        )
    return candidates[0]


def _row(table: str, place: int, cells: Mapping[str, str], about: About) -> TableRow:
    values: dict[str, float] = {}
    for name, metric in about.metrics.items():
        if not (cell := cells[name]):
            continue
        at = f"{table}, row {place}: {name} is {shown(cell)}"
        if (value := _number(cell)) is None:
            hint = " (write 1147448 for 1,147,448)" if "," in cell else ""
            _refuse(f"{at}, and a value in {metric.unit} has to be a number{hint}")
        if value <= 0:
            _refuse(
                f"{at}, and a measured value has to be above 0. Leave the cell of a run that "
                "failed empty"
            )
        values[name] = value
    for name in about.factors:
        if not cells[name]:
            _refuse(f"{table}, row {place}: the factor {name} has no level")
    return TableRow(place, cells, {}, values)


def _are_numbers(levels: set[str]) -> bool:
    """Return whether levels are numbers, each written in one way: 8.1 and 8.10 are versions."""
    found = {_number(level) for level in levels}
    return None not in found and len(found) == len(levels)


def _number(cell: str) -> float | None:
    """Return a number of a cell; none for words, nan, infinities and 1_000."""
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in cell else None


def _level(cell: str, is_number: bool) -> Level:
    if not is_number:
        return cell
    # "8.0" stays what it is: it may be a release.
    return int(cell) if cell.strip().lstrip("+-").isdigit() else float(cell)


def _require_no_copies(table: str, rows: Sequence[TableRow], about: About) -> None:
    """Refuse rows that name one run twice: copied, or with values that contradict each other."""
    labels = about.repeated_by
    seen: dict[tuple[object, ...], TableRow] = {}
    for row in rows:
        label = tuple(row.cells[name] for name in labels)
        whole = () if any(label) else tuple(row.cells.values())
        other = seen.setdefault((*row.levels.items(), label, whole), row)
        if other is row or not other.values.keys() & row.values.keys():
            continue
        which = f"{table}: rows {other.place} and {row.place}"
        if other.values == row.values:
            _refuse(
                f"{which} are the same run. A row that was copied is no replicate; number real "
                "ones in a column 'replicate'"
            )
        _refuse(
            f"{which} have the same levels and the same {', '.join(labels)}, but other values: "
            "they contradict each other. Correct one, or give each run a number of its own"
        )
