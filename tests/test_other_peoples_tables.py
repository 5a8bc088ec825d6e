"""Kinds of tables that people have: judged right, or refused with what to do about it."""

import warnings
from pathlib import Path
from typing import Any

import pytest

from innolab.base.errors import InputError
from innolab.tables import description as describing
from innolab.tables import judged, judged_page, numbers, table
from innolab.tables.description import About
from innolab.tables.table import PublishedTable
from innolab.verify import verify

_TABLE = """engine,replicate,tps (1/s)
A,1,1520.3
A,2,1498.8
B,1,1611.0
B,2,1600.2
"""


def _read(place: Path, text: str | bytes, **about: Any) -> PublishedTable:
    path = place / "t.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return table.read(path, About(**about), with_outputs=True)


def _refused(place: Path, text: str | bytes, **about: Any) -> str:
    with pytest.raises(InputError) as refused:
        _read(place, text, **about)
    assert str(refused.value).endswith("Nothing was written.")
    return str(refused.value)


# Headings.


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("10,500.10,4.42,A,1\n20,501.20,4.41,A,1\n", "'10'"),
        ("point=100,23000,77000\nscan=100,5800,5000\n", "'23000'"),
        ('A,"1520,3",1\nA,"1498,8",2\n', "'1520,3'"),
        ("2026-01-31T10:00:00,A,500\n2026-01-31T10:00:10,A,501\n", "'2026-01-31T10:00:00'"),
        ("test,8,16,32\npoint,100,200,300\nscan,10,20,30\n", "'8'"),
        ("test,5.7.44,8.0.36\npoint,100,200\nscan,10,20\n", "'5.7.44'"),
    ],
)
def test_a_first_line_of_data_is_no_heading(tmp_path: Path, text: str, number: str) -> None:
    says = _refused(tmp_path, text)
    assert f"line 1 looks like data and not like a heading, as it has {number}" in says
    assert "unit" not in says


@pytest.mark.parametrize(
    ("heading", "name", "unit", "better"),
    [
        ("TPS (higher is better)", "TPS", "TPS", "higher"),
        ("p95 (ms, lower is better)", "p95", "ms", "lower"),
        ("p95 (ms) (lower is better)", "p95", "ms", "lower"),
        ("score, more is better", "score", "score", "higher"),
        ("size (GiB; less is better)", "size", "GiB", "lower"),
        ("points [bigger=better]", "points", "points", "higher"),
        ("used (GiB) \u2193", "used", "GiB", "lower"),
        ("점수 (높을수록 좋음)", "점수", "점수", "higher"),
        ("better (1/s)", "better", "1/s", None),
        ("more", "more", None, None),
    ],
)
def test_a_heading_may_say_which_way_is_better(
    heading: str, name: str, unit: str | None, better: str | None
) -> None:
    assert describing.heading(heading) == (name, unit, better)


def test_a_table_whose_heading_says_what_is_better_needs_no_description(tmp_path: Path) -> None:
    found = _read(tmp_path, _TABLE.replace("tps (1/s)", "Score (higher is better)"))
    assert found.about.metrics["Score"].direction == "higher"


def test_units_in_korean_are_units() -> None:
    kinds = {
        unit: describing.kind_of(unit) for unit in ("건/초", "초당 건수", "밀리초", "초", "개")
    }
    assert kinds == {
        "건/초": "rate",
        "초당 건수": "rate",
        "밀리초": "time",
        "초": "time",
        "개": None,
    }


# Columns that may have been varied.

_RTT = [(engine, rtt, n, tps * factor + n)
        for engine, factor in (("A", 1.0), ("B", 0.9))
        for rtt, tps in ((1, 1500), (10, 300), (50, 70)) for n in (1, 2)]  # fmt: skip


@pytest.mark.parametrize("is_numbered", [True, False])
@pytest.mark.parametrize("heading", ["rtt_ms", "rtt (ms)", "t_s", "rate_per_s", "rate (1/s)"])
def test_what_may_have_been_varied_is_asked_about(
    tmp_path: Path, heading: str, is_numbered: bool
) -> None:
    lines = [f"engine,{heading},{'replicate' if is_numbered else 'note'},tps (1/s)"]
    lines += [f"{engine},{rtt},{n},{tps}" for engine, rtt, n, tps in _RTT]
    says = _refused(tmp_path, "\n".join(lines))
    name, unit, _ = describing.heading(heading)
    assert f"factors: {{engine: , {name}: {unit}}}" in says
    found = _read(tmp_path, "\n".join(lines), factors={"engine": None, name: unit}, ranked="engine")
    assert found.factors[name] == [1, 10, 50]
    assert list(found.about.metrics) == ["tps"]


def test_arms_that_share_some_levels_only_are_asked_about_too(tmp_path: Path) -> None:
    text = "engine,rtt_ms,tps (1/s)\nA,1,10\nA,10,11\nA,50,12\nB,1,13\nB,10,14\nB,100,15\n"
    assert "rtt_ms" in _refused(tmp_path, text)


def test_a_column_of_one_value_is_asked_about(tmp_path: Path) -> None:
    text = _TABLE.replace("replicate", "duration_s,replicate").replace(",1,1", ",300,1,1")
    text = text.replace(",2,1", ",300,2,1")
    assert "factors: {engine: , duration_s: s}" in _refused(tmp_path, text)
    found = _read(tmp_path, text, notes=["duration_s"])
    assert list(found.about.metrics) == ["tps"]


def test_what_was_measured_needs_no_word(tmp_path: Path) -> None:
    """A few values that come back by chance, as of rounded latencies, are no design."""
    rows = [("A", 1, 10.1), ("A", 2, 10.3), ("A", 3, 10.3), ("B", 1, 9.8), ("B", 2, 9.9),
            ("B", 3, 10.1)]  # fmt: skip
    text = "engine,replicate,p95_ms\n" + "".join(f"{e},{n},{ms}\n" for e, n, ms in rows)
    assert "p95_ms" in _read(tmp_path, text).about.metrics
    assert "p95_ms" in _read(tmp_path, text, metrics={"p95_ms": "ms"}).about.metrics


# Numbers and encodings.


@pytest.mark.parametrize(
    ("cell", "advice"),
    [
        ("1520,3", "write 1520.3"),
        ("1520,35", "write 1520.35"),
        ("0,125", "write 1147448 for 1,147,448; where the comma is before decimals, write a point"),
        ("1.520,3", "write 1520.3"),
        ("1 520,3", "write 1520.3"),
        ("1 520.3", "write 1520.3"),
        ("1'520", "write 1520"),
        ("1\u202f520,3", "write 1520.3"),
        ("12ms", "write the number alone, and its unit into the heading"),
        ("1500 ± 20", "write the number alone, and its unit into the heading"),
        ("N/A", "leave the cell of a run without a value empty"),
        ("-", "leave the cell of a run without a value empty"),
        ("없음", "leave the cell of a run without a value empty"),
        ("nan", "leave the cell of a run without a value empty"),
    ],
)
def test_a_cell_that_is_no_number_is_refused_with_how_to_write_it(
    tmp_path: Path, cell: str, advice: str
) -> None:
    says = _refused(tmp_path, _TABLE.replace("1611.0", f'"{cell}"'))
    assert "row 4: tps is " in says
    assert f"({advice})" in says
    assert numbers.number(cell) is None


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "cp949", "latin-1", "cp1252"])
def test_another_encoding_is_to_be_saved_as_utf8(tmp_path: Path, encoding: str) -> None:
    name = "엔진" if encoding == "cp949" else "Gerät"
    text = _TABLE.replace("engine", name).encode(encoding)
    says = _refused(tmp_path, text)
    assert "Save it as UTF-8" in says or "control character" in says
    assert "codec" not in says


@pytest.mark.parametrize("text", [b"\xef\xbb\xbf" + _TABLE.replace("\n", "\r\n").encode()])
def test_a_byte_order_mark_and_windows_lines_do_no_harm(tmp_path: Path, text: bytes) -> None:
    assert _read(tmp_path, text).factors == {"engine": ["A", "B"]}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-8-sig", "cp949", "cp1252"])
def test_outputs_are_read_in_any_encoding(tmp_path: Path, encoding: str) -> None:
    """A shell of Windows writes UTF-16, and a prompt above may have any letters."""
    prompt = "C:\\벤치> sysbench run" if encoding == "cp949" else "C:\\Gerät> sysbench run"
    for n in (1, 2):
        (tmp_path / f"{n}.txt").write_bytes(
            f"{prompt}\ntransactions:   {n}00 ({n}.00 per sec.)\n".encode(encoding)
        )
    found = _read(tmp_path, "engine,output\nA,1.txt\nB,2.txt\n")
    assert [row.values["tps"] for row in found.rows] == [1.0, 2.0]


# Failed runs.

_FAILED = {
    "a word": _TABLE + "B,3,N/A\n",
    "zero": _TABLE + "B,3,0\n",
    "an empty output": None,
}


@pytest.mark.parametrize("kind", _FAILED)
def test_a_failed_run_is_refused_or_kept_and_counted(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INNOLAB_REPORTS", str(tmp_path / "reports"))
    text = _FAILED[kind]
    if text is None:
        for n, tps in enumerate((152, 149, 161, 160), 1):
            (tmp_path / f"{n}.txt").write_text(f"transactions:  9 ({tps}.00 per sec.)\n")
        (tmp_path / "5.txt").write_text("")
        text = "engine,replicate,output\nA,1,1.txt\nA,2,2.txt\nB,1,3.txt\nB,2,4.txt\nB,3,5.txt\n"
    _refused(tmp_path, text)
    folder, found = judged.judge(tmp_path / "t.csv", failed="keep", prove=verify.require)
    assert found.table.failed == {("B",): 1}
    assert any(
        "1 of 5 runs came to nothing (1 of B)" in line for line in judged_page.summary(found)
    )
    assert found.table.values("tps", {"engine": "B"}) == [
        row.values["tps"] for row in found.table.rows[2:4]
    ]
    assert verify.verify(folder).faults == []


def test_a_missing_output_is_no_failed_run(tmp_path: Path) -> None:
    says = _refused(tmp_path, "engine,output\nA,1.txt\nB,2.txt\n", failed="keep")
    assert "No such file" in says


def test_where_all_runs_failed_there_is_nothing_to_judge(tmp_path: Path) -> None:
    (tmp_path / "1.txt").write_text("")
    (tmp_path / "2.txt").write_text("FATAL: no connection\n")
    says = _refused(tmp_path, "engine,output\nA,1.txt\nB,2.txt\n", failed="keep")
    assert "none of its outputs has a result" in says


# Letters.


@pytest.mark.parametrize(
    ("names", "key"),
    [
        (("엔진", "갑", "을"), ""),
        (("エンジン", "あか", "あお"), ""),
        (("сервер", "первый", "второй"), ""),
        (("引擎", "甲", "数据库"), " In the figure (2) is 数据库."),
        (("ชนิด", "ก", "ข"), " In the figure (1) is ชนิด, (2) is ข, (3) is ก."),
    ],
)
def test_figures_have_letters_of_any_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, str, str], key: str
) -> None:
    """No letter is drawn as a box, and nothing is printed about fonts."""
    monkeypatch.setenv("INNOLAB_REPORTS", str(tmp_path / "reports"))
    text = _TABLE
    for plain, name in zip(("engine", "\nA", "\nB"), names, strict=True):
        text = text.replace(plain, plain[: plain.count("\n")] + name)
    (tmp_path / "t.csv").write_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        folder, _ = judged.judge(tmp_path / "t.csv", prove=verify.require)
    assert (folder / "figures" / "leads.md").read_text().count(key)
    values = (folder / "figures" / "leads.csv").read_text()
    assert all(name in values for name in names[1:])
