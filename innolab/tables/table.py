"""A published table as rows of levels and metrics, read from CSV or JSON and refused where unclear.

A row is a run: the levels of its arm, its metrics, and what tells it from other runs of the arm.
"""

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from innolab.analysis.seconds import Course, course
from innolab.base import parsing, spreadsheet
from innolab.base.errors import InnolabError
from innolab.base.quoting import shown
from innolab.record.run import Level
from innolab.record.text_types import plain
from innolab.tables import columns, load_outputs
from innolab.tables.cells import Cells, cells_of_csv, cells_of_json
from innolab.tables.columns import refuse
from innolab.tables.description import About, ColumnMetric, heading
from innolab.tables.load_outputs import LoadOutput
from innolab.tables.numbers import hint, is_of_nothing, number
from innolab.tables.posted import Seconds, Series
from innolab.tables.sysbench_output import FailedRunError

_MOST_BYTES = 64 * 1024**2
_KEEP = "To count it as a failed run: --failed keep"


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
    series : the seconds of runs, where they are known
    """

    about: About
    rows: Sequence[TableRow]
    series: Mapping[Series, Seconds] = field(default_factory=dict)

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

    @cached_property
    def _courses(self) -> dict[Series, Course]:
        found = {key: course(seconds) for key, seconds in self.series.items()}
        return {key: one for key, one in found.items() if one}

    def courses(self, metric: str) -> dict[int, Course]:
        """Return what the seconds of each run say of a metric, by its row from 0."""
        return {key.row: one for key, one in self._courses.items() if key.metric == metric}

    def one_wave(self, metric: str, arm: Mapping[str, Level]) -> float:
        """Return by how much, on the logarithm, one wave moves an arm's mean; 0 if none is seen."""
        of = [one.one_wave for row, one in self.courses(metric).items()
              if self.rows[row].levels == arm]  # fmt: skip
        return sum(of) / len(of) if of else 0.0

    @cached_property
    def failed(self) -> dict[tuple[Level, ...], int]:
        """Return how many runs of an arm have no value at all, by its levels, if any has none."""
        return dict(Counter(tuple(row.levels.values()) for row in self.rows if not row.values))

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
        refuse(f"{name} cannot be read: {' '.join(str(error).split())[:300]}")
    if hidden := next((x for _, of in cells for x in [*of, *of.values()] if x != plain(x)), None):
        refuse(
            f"{name} has {shown(hidden)}, which holds a control character or a mark of direction, "
            "or is too long to show"
        )
    if len(cells) < 2:
        refuse(
            f"{name} has {'a single measurement' if cells else 'no rows'}; it takes two at least "
            "to compare anything"
        )
    cells, measured = _named(name, cells)
    series: dict[Series, Seconds] = {}
    if not about.factors:
        columns.require_measured(name, cells, measured, about)
    if with_outputs and about.output in cells[0][1]:
        cells, printed, series = _with_outputs(path, cells, about)
        measured |= printed
    about = columns.settled(name, cells, measured, about)
    rows = [_row(name, place, of, about) for place, of in cells]
    if about.seconds:
        rows, series, about = _of_seconds(name, rows, about)
    numeric = {f for f in about.factors if _are_numbers({row.cells[f] for row in rows})}
    typed = [
        row._replace(levels={f: _level(row.cells[f], f in numeric) for f in about.factors})
        for row in rows
    ]
    _require_no_copies(name, typed, about)
    of_metrics = {key: of for key, of in series.items() if key.metric in about.metrics}
    return PublishedTable(about, typed, of_metrics)


def _named(table: str, cells: Cells) -> tuple[Cells, dict[str, ColumnMetric]]:
    """Return the cells by the names of their columns, and the metrics that headings name."""
    headings = {text: heading(text) for text in cells[0][1]}
    names = [of.name for of in headings.values()]
    if strange := [name for name in names if not name or set(name) & set("()[]")]:
        refuse(
            f"{table}: the heading {shown(strange[0])} is empty, or has brackets beside those of "
            "its unit"
        )
    if twice := [name for name, n in Counter(names).items() if n > 1]:
        refuse(f"{table} has two columns {shown(twice[0])}")
    measured = {
        of.name: ColumnMetric(unit=of.unit, better=of.better) for of in headings.values() if of.unit
    }
    named = [(n, {headings[text].name: cell for text, cell in of.items()}) for n, of in cells]
    return named, measured


def _with_outputs(
    path: Path, cells: Cells, about: About
) -> tuple[Cells, dict[str, ColumnMetric], dict[Series, Seconds]]:
    """Return the cells with the metrics of the outputs that a column names, these, and seconds."""
    outputs = [_output(path, place, own[about.output], about) for place, own in cells]
    _require_own_outputs(path.name, cells, about.output)
    parsed = {name: unit for output in outputs for name, (_, unit) in output.metrics.items()}
    if not parsed and any(own[about.output] for _, own in cells):
        refuse(f"{path.name}: none of its outputs has a result")
    if both := [name for name in parsed if name in cells[0][1]]:
        refuse(f"{path.name} has a column {shown(both[0])}, and its outputs have one too")
    with_metrics = [
        (place, own | {name: _written(output.metrics.get(name)) for name in parsed})
        for (place, own), output in zip(cells, outputs, strict=True)
    ]
    metrics = {name: ColumnMetric(unit=unit) for name, unit in parsed.items()}
    series = {Series(row, "tps"): output.seconds for row, output in enumerate(outputs)
              if output.seconds}  # fmt: skip
    return with_metrics, metrics, series


def _require_own_outputs(table: str, cells: Cells, column: str) -> None:
    """Refuse an output that several rows name: it is of one run, and each row is one."""
    places: dict[str, int] = {}
    for place, own in cells:
        if (name := own[column]) and (first := places.setdefault(name, place)) != place:
            refuse(
                f"{table}: rows {first} and {place} name the same output {shown(name)}. Each row "
                "is a run; keep the output of each in a separate file"
            )


def _written(metric: tuple[float, str] | None) -> str:
    if metric is None:
        return ""
    value = metric[0]
    return repr(int(value) if value == int(value) else value)


def _output(path: Path, place: int, name: str, about: About) -> LoadOutput:
    nothing = LoadOutput({}, [])
    if not name:
        return nothing
    file, folder = (path.parent / name).resolve(), path.parent.resolve()
    at = f"{path.name}, row {place}: the output {shown(name)}"
    if not file.is_relative_to(folder):
        refuse(f"{at} is outside {folder}")
    try:
        return load_outputs.read(parsing.text_of_any_encoding(file, _MOST_BYTES))
    except FailedRunError as error:
        if about.failed == "keep":
            return nothing
        refuse(f"{at} cannot be read: {str(error).rstrip('.')}. {_KEEP}")
    except (ValueError, InnolabError) as error:
        refuse(f"{at} cannot be read: {str(error).rstrip('.')}")


def _row(table: str, place: int, cells: Mapping[str, str], about: About) -> TableRow:
    values: dict[str, float] = {}
    for name, metric in about.metrics.items():
        value = _value(f"{table}, row {place}: {name}", cells[name], metric, about)
        if value is not None:
            values[name] = value
    for name in about.factors:
        if not cells[name]:
            refuse(f"{table}, row {place}: the factor {name} has no level")
    return TableRow(place, cells, {}, values)


def _of_seconds(
    table: str, rows: Sequence[TableRow], about: About
) -> tuple[list[TableRow], dict[Series, Seconds], About]:
    """Return a row for each run of a table that has one for each of its moments, and its seconds.

    What a row says besides its moment and its metrics is of the run.
    """
    assert about.seconds
    runs: dict[tuple[str, ...], list[TableRow]] = {}
    apart = {about.seconds, *about.metrics}
    for row in rows:
        of = tuple(cell for name, cell in row.cells.items() if name not in apart)
        runs.setdefault(of, []).append(row)
    series: dict[Series, Seconds] = {}
    whole = []
    for place, moments in enumerate(runs.values()):
        times = [_moment(table, row, about.seconds) for row in moments]
        if back := next((n for n in range(1, len(times)) if times[n] <= times[n - 1]), None):
            refuse(
                f"{table}, row {moments[back].place}: {about.seconds} is not after that of the row "
                "before it of the same run. Number runs in a column 'replicate'"
            )
        cells = {name: cell for name, cell in moments[0].cells.items() if name != about.seconds}
        values: dict[str, float] = {}
        for name in about.metrics:
            seconds = [(t_s, row.values[name]) for t_s, row in zip(times, moments, strict=True)
                       if name in row.values]  # fmt: skip
            mean = sum(value for _, value in seconds) / len(seconds) if seconds else 0.0
            cells[name] = repr(mean) if mean else ""
            if mean:
                values[name] = mean
                series[Series(place, name)] = seconds
        whole.append(TableRow(moments[0].place, cells, {}, values))
    notes = [name for name in about.notes if name != about.seconds]
    return whole, series, about.model_copy(update={"seconds": None, "notes": notes})


def _moment(table: str, row: TableRow, column: str) -> float:
    value = number(row.cells[column])
    if value is None:
        refuse(
            f"{table}, row {row.place}: {column} is {shown(row.cells[column])}, and a moment has "
            "to be a number of seconds"
        )
    return value


def _value(where: str, cell: str, metric: ColumnMetric, about: About) -> float | None:
    """Return the value of a cell, None for that of a failed run."""
    if not cell or (about.failed == "keep" and is_of_nothing(cell)):
        return None
    if (value := number(cell)) is None:
        refuse(
            f"{where} is {shown(cell)}, and a value in {metric.unit} has to be a number{hint(cell)}"
        )
    if value < 0 or (value == 0 and not about.seconds):
        refuse(
            f"{where} is {shown(cell)}, and a measured value has to be above 0. Leave the cell of "
            "a run that failed empty"
        )
    return value


def _are_numbers(levels: set[str]) -> bool:
    """Return whether levels are numbers, each written in one way: 8.1 and 8.10 are versions."""
    found = {number(level) for level in levels}
    return None not in found and len(found) == len(levels)


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
            refuse(
                f"{which} are the same run. A row that was copied is no replicate; number real "
                "ones in a column 'replicate'"
            )
        refuse(
            f"{which} have the same levels and the same {', '.join(labels)}, but other values: "
            "they contradict each other. Correct one, or give each run a number of its own"
        )
