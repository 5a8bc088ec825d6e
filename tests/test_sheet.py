"""Exported CSV: no cell runs in a spreadsheet, each reads as what it was, shipped files stay."""

import csv
import io
import json
from pathlib import Path

import frictionless
import pandas as pd
import pytest
from conftest import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st

from innolab import studies
from innolab.base import spreadsheet
from innolab.report import figures, value_columns
from innolab.tables import description as describing
from innolab.tables import table as tables

_RUN_BY_SPREADSHEETS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_FORMULAS = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "=", "-", "＝1",
             "-1_000", "-1.5e", "+1,5", "--1", "-0x10", "=HYPERLINK(\"a\")"]  # fmt: skip
_NUMBERS = ["-1.5", "+2", "-1e-9", "-.5", "8.0", "-inf", "1", "-12."]
_SHIPPED = sorted([*ROOT.glob("reports/**/*.csv"), *ROOT.glob("data/judged/*.csv")])
_TEXTS = st.text(alphabet="'=+-@\t1.e\"a,;\n＝ ", max_size=8) | st.text(max_size=8)


@pytest.mark.parametrize("cell", _FORMULAS)
def test_a_formula_becomes_text(cell: str) -> None:
    written = spreadsheet.guarded(cell)
    assert written == f"'{cell}"
    assert spreadsheet.plain(written) == cell


@pytest.mark.parametrize("cell", [*_NUMBERS, "", "a-b", "raid10-8x15k", "'tis", "1.5 (now)"])
def test_numbers_and_words_stay(cell: str) -> None:
    assert spreadsheet.guarded(cell) == spreadsheet.plain(cell) == cell


@settings(max_examples=100, derandomize=True, database=None, deadline=None)
@given(st.lists(_TEXTS, min_size=1, max_size=4), _TEXTS.filter(lambda heading: heading != "n"))
def test_every_cell_comes_back_and_none_runs(cells: list[str], heading: str) -> None:
    text = spreadsheet.csv_text(pd.DataFrame({heading: cells, "n": range(len(cells))}))
    (first, *rest) = csv.reader(io.StringIO(text, newline=""))
    for cell in [first[0], *(row[0] for row in rest)]:
        assert not cell.startswith(_RUN_BY_SPREADSHEETS) or float(cell) <= 0 or cell[0] == "+"
    assert [spreadsheet.plain(row[0]) for row in rest] == cells
    assert spreadsheet.plain(first[0]) == heading


@pytest.mark.parametrize("path", _SHIPPED, ids=lambda path: str(path.relative_to(ROOT)))
def test_shipped_files_stay_as_they_are(path: Path) -> None:
    rows = list(csv.reader(io.StringIO(path.read_text(), newline="")))
    assert [[spreadsheet.guarded(cell) for cell in row] for row in rows] == rows


def test_there_are_shipped_files() -> None:
    assert len([path for path in _SHIPPED if path.parent.name == "figures"]) > 50


def test_a_figures_values_are_read_as_their_types(tmp_path: Path) -> None:
    """By frictionless, from the file and its description, as anyone would who got the kit."""
    values = pd.DataFrame(
        {
            "server": ["=cmd|' /C calc'!A0", "@x", "mysql-9.7"],
            "=change": [-1.5, 0.25, float("nan")],
            "n": [-1, 2, 3],
            "low": ["-5", "+5", "-x"],
        }
    )
    study = studies.find("multi-buffer-pool")
    fields = value_columns.columns(values, study, study.check({}))
    (tmp_path / "passes.csv").write_text(figures.as_csv(values))
    package = value_columns.data_package("passes", "a title", fields, "MIT", "a source")
    (tmp_path / "datapackage.json").write_text(json.dumps(package))
    report = frictionless.validate(str(tmp_path / "datapackage.json"))
    assert report.valid, report.flatten(["message"])
    [resource] = frictionless.Package(str(tmp_path / "datapackage.json")).resources
    rows = [row.to_dict() for row in resource.read_rows()]
    assert [spreadsheet.plain(row["server"]) for row in rows] == list(values["server"])
    assert [row["n"] for row in rows] == [-1, 2, 3]
    changes = [row["'=change"] for row in rows]
    assert [None if one is None else float(one) for one in changes] == [-1.5, 0.25, None]
    assert [spreadsheet.plain(row["low"]) for row in rows] == ["-5", "+5", "-x"]


def test_a_judged_table_holds_no_formula_and_reads_as_it_was(tmp_path: Path) -> None:
    rows = [
        {"engine": engine, "tps (1/s)": tps, "note": note}
        for engine, tps, note in (("=A", 1.5, "@b"), ("=A", 2.5, "-"), ("'=A", 3.5, "+1"))
    ]
    path = tmp_path / "table.json"
    path.write_text(json.dumps(rows))
    given = tables.read(path, describing.About())
    kept = tmp_path / "table.csv"
    kept.write_text(given.as_csv())
    assert "'=A,1.5,'@b\n" in kept.read_text()
    again = tables.read(kept, given.about)
    assert [row.cells for row in again.rows] == [row.cells for row in given.rows]
    assert again.as_csv() == given.as_csv()


def test_nothing_else_writes_csv() -> None:
    """Or its cells would not be guarded."""
    writers = ("csv.writer", "csv.DictWriter", "to_csv(")
    found = [path.relative_to(ROOT).as_posix() for path in (ROOT / "innolab").rglob("*.py")
             if any(word in path.read_text() for word in writers)]  # fmt: skip
    assert found == ["innolab/base/spreadsheet.py"]
