"""No value is markup: what is recorded, given or claimed shows as text, whatever is in it."""

import ast
import copy
import csv
import dataclasses
import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import nbformat
import pandas as pd
import pytest
from conftest import ROOT, reference
from copied_reports import change, copied
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from markupsafe import Markup
from matplotlib import pyplot
from playwright.sync_api import Browser
from pydantic import BaseModel, TypeAdapter

from innolab import studies
from innolab.analysis.claims import Claim
from innolab.analysis.verdicts import Verdict
from innolab.base import parsing
from innolab.base.errors import InnolabError, InputError
from innolab.compare import compare, compare_page
from innolab.record.plan import Plan
from innolab.record.run import Run
from innolab.record.runlog import SessionStart
from innolab.record.text_types import all_plain, plain
from innolab.report import figures, folders, index, manifest, markup, pages, render, svg
from innolab.report.display import Alert, Section, Sections, Table, Verdicts
from innolab.report.prose import code, from_markdown, in_markdown, lines, listed, prose
from innolab.sizing import size_page
from innolab.sizing.size_document import Range, SizeDocument, SizeOffer, SizeRow
from innolab.tables import judged
from innolab.tables.description import About

_LENGTH = 60
_HARMLESS = "x" * _LENGTH
_PIECES = [
    '<div style="position:fixed">', "</td></table><h1>", '"><script>hit()</script>', "'x='",
    "<img src=x onerror=hit()>", "</svg>", "</style>", "-->", "]]>", "<!--", "</textarea>",
    "![a](javascript:hit())", "[a](http://a)", "http://a.b", "www.a.b", "a@b.c", "<http://a>",
    "**b**", "_i_", "~~s~~", "`c`", "| a | b |", "\n\n# h\n", "\n---\n", "- a", "1. a", "$x^2$",
    "\\(x\\)", "\\begin{a}", "&lt;b&gt;", "{{ 7 * 7 }}", "{0}", "%s", "\\", ' class="alert"',
    '<figure id="a"', ' role="alert"', "<th></th>", "\x1b[31m", "\x00", "\u202e", "\u2066",
    "\ufeff", "\ud800", "\r\n", "\x85", "\u2028", "=1+1",
]  # fmt: skip
# All of one length, as what is long is cut: a page differs from that of harmless words in nothing.
hostile = st.lists(st.sampled_from(_PIECES) | st.text(max_size=6), min_size=1, max_size=8).map(
    lambda parts: "".join(parts)[:_LENGTH].ljust(_LENGTH, "<")
)
_QUICK = settings(
    deadline=None,
    derandomize=True,
    max_examples=60,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
Change = Callable[[str], str]


class _Tree(HTMLParser):
    """The elements of a page, each with the names of its attributes, and its whole text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, ...]] = []
        self.text = ""
        self.feed(str(page))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = [name for name, _ in attrs]
        self.elements.append((tag, *sorted(known)))
        assert "style" not in known, "a policy forbids it"
        assert not any(name.startswith("on") for name in known)
        for name, value in attrs:
            assert name not in ("href", "src") or not (value or "").lower().startswith("javascript")

    handle_startendtag = handle_starttag

    def handle_data(self, data: str) -> None:
        self.text += data


def _elements(page: str) -> list[tuple[str, ...]]:
    # Pictures have as many elements as letters; what is in them is asked elsewhere.
    return _Tree(re.sub(r"(<svg\b[^>]*>).*?</svg>", r"\1</svg>", page, flags=re.DOTALL)).elements


def _changed(value: Any, change: Change) -> Any:
    """Return a value with all of its texts changed, and the captions of its figures."""
    if isinstance(value, Markup):
        return value
    if isinstance(value, str):
        return change(value)
    if isinstance(value, figures.Figure):
        return dataclasses.replace(value, caption=change(value.caption), alt=change(value.alt))
    if isinstance(value, Mapping):
        return {name: _changed(of, change) for name, of in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_changed(of, change) for of in value))
    if isinstance(value, list | tuple):
        return [_changed(of, change) for of in value]
    if isinstance(value, BaseModel):
        return value.model_copy(
            update={
                name: _changed(getattr(value, name), change) for name in type(value).model_fields
            }
        )
    return value


# The types of records.


def _bodies() -> dict[str, tuple[Callable[[Any], Any], Any]]:
    """Return for each form of a record what checks a body, and a body with a text in each field."""
    report = reference("multi-buffer-pool")
    lines = [json.loads(line) for line in (report / "runs.jsonl").read_text().splitlines()]
    session = next(line["session"] for line in lines if "session" in line)
    run = next(line for line in lines if "factors" in line)
    del run["before"]
    run |= {"error": "it ended", "status": "failed"}
    plan = parsing.json_file(report / "plan.json") | {
        "unavailable": {"mysql-8": "no package"}, "missing_devices": {"md": "no root"},
        "lacking": {"mysql-5.6.24": {"commit": {"semi": "no plugin"}}}, "claims": ["F1"],
    }  # fmt: skip
    body = parsing.json_file(report / "manifest.json") | {"unavailable": {"mysql-8": "none"}}
    of_table = {
        **{name: body[name] for name in ("schema", "rendered_by", "lock_sha256", "files", "seal")},
        "kind": "table", "study": "theirs", "version": report.name, "title": "t", "source": "s",
        "given": {"t.csv": "0" * 64}, "runs": {"rows": 2}, "sealed_at": body["sealed_at"],
        "time_s": {},
    }  # fmt: skip
    claim = {
        "id": "A", "says": "It is so", "stands": "published", "source": "s", "care": "c",
        "published": {"of": "a", "to": "b"}, "absent": "a", "where": {"server": "b"},
        "compare": {"metric": "m", "of": {"n": "1"}, "to": {"n": "2"}}, "holds": {"at_least": 1},
    }  # fmt: skip
    about = {
        "title": "t", "source": "s", "metrics": {"tps": {"unit": "1/s"}}, "factors": {"n": "u"},
        "ranked": "n", "repeated_by": ["r"], "notes": ["o"], "output": "f", "seconds": "t",
    }  # fmt: skip
    verdict = parsing.json_file(report / "verdicts.json")[0] | {"caveat": "c", "needs": "n"}
    return {
        "run": (Run.from_body, run),
        "session": (SessionStart.model_validate, session),
        "plan": (TypeAdapter(Plan).validate_python, plan),
        "manifest": (manifest.OfStudy.model_validate, body),
        "manifest of a table": (manifest.OfTable.model_validate, of_table),
        "claim": (Claim.model_validate, claim),
        "about": (About.model_validate, about),
        "verdict": (Verdict.model_validate, verdict),
    }


def _places(body: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where a body has texts, the last part None for the name of a field."""
    if isinstance(body, str):
        yield at
    elif isinstance(body, dict):
        for name, value in body.items():
            yield from _places(value, (*at, name))
            yield (*at, name, None)
    elif isinstance(body, list):
        for place, value in enumerate(body):
            yield from _places(value, (*at, place))


def _with(body: Any, at: tuple[Any, ...], text: str) -> Any:
    *outer, last = at
    if last is None:
        *outer, last = outer
    found = changed = copy.deepcopy(body)
    for part in outer:
        found = found[part]
    if at[-1] is None:
        found[text] = found.pop(last)
    else:
        found[last] = text
    return changed


_BODIES = _bodies()


@pytest.mark.parametrize("name", _BODIES)
def test_every_field_of_a_record_is_among_those_that_are_tried(name: str) -> None:
    """A new field that may hold a text needs one here, or nobody asks what it lets through."""
    check, body = _BODIES[name]
    model = type(check(copy.deepcopy(body)))
    fields = getattr(model, "model_fields", None) or model.__dataclass_fields__
    for field in fields:
        written = {"schema_": "schema"}.get(field, field)
        if "str" in str(getattr(fields[field], "annotation", None) or fields[field].type):
            held = [
                at for at in _places(body) if (at[0] == written and len(at) > 1) or at == (written,)
            ]
            assert held or field in ("series", "rendered_from", "not_measured", "twins", "arms")


@pytest.mark.parametrize("name", _BODIES)
@_QUICK
@given(data=st.data())
def test_a_text_of_a_record_is_plain_or_refused_in_one_sentence(
    name: str, data: st.DataObject
) -> None:
    check, body = _BODIES[name]
    # One of each kind is enough: the hundredth warning of a log is as its first.
    places = {re.sub(r"\b\d+\b", "0", str(at)): at for at in _places(body)}
    at = data.draw(st.sampled_from(list(places.values())))
    try:
        found = check(_with(body, at, data.draw(hostile)))
    except ValueError as error:
        assert len(parsing.reason(error).splitlines()) == 1
        assert parsing.reason(error).isprintable()
        return
    held = found.model_dump(mode="json") if hasattr(found, "model_dump") else vars(found)
    assert all_plain(held) == held


@pytest.mark.parametrize("field", ["id", "version"])
def test_a_builds_name_and_version_are_no_markup(field: str) -> None:
    check, body = _BODIES["run"]
    text = '5.6<div style="position:fixed">'
    with pytest.raises(ValueError, match="is not written as such a thing is") as refused:
        try:
            check(_with(body, ("conditions", "build", field), text))
        except ValueError as error:
            raise ValueError(parsing.reason(error)) from None
    assert "position:fixed" in str(refused.value)


def test_every_shipped_report_is_read() -> None:
    shipped = sorted((ROOT / "reports").glob("*/*/manifest.json"))
    assert shipped
    for path in shipped:
        manifest.read(path.parent)
        plan = Plan.read(path.parent)
        runs = studies.find(plan.study).read(path.parent).runs
        render.read_verdicts(path.parent)
        texts = [json.loads(line) for line in (path.parent / "runs.jsonl").read_text().splitlines()]
        assert all_plain(texts) == texts, "nothing that was ever recorded is changed at reading"
        assert len(runs) == sum("factors" in line for line in texts)


# Markdown.


@settings(_QUICK, max_examples=150)
@given(text=hostile.map(plain))
def test_a_value_in_markdown_is_text(text: str) -> None:
    words = "On **{value}** it is {value}, so:\n\n- {value}\n- {value} or {value}"
    made = render.in_html(prose(words, value=text))
    harmless = render.in_html(prose(words, value=_HARMLESS))
    assert _Tree(made).elements == _Tree(harmless).elements
    shown = " ".join(text.split())
    assert " ".join(_Tree(made).text.split()).count(shown) == 5
    assert from_markdown(in_markdown(text)) == shown


@_QUICK
@given(text=hostile.map(plain))
def test_a_value_as_code_in_markdown_is_text(text: str) -> None:
    made = _Tree(render.in_html(f"It is {code(text)}."))
    assert [tag for tag, *_ in made.elements] == ["p", "code"]


def test_html_in_a_notebooks_prose_is_text() -> None:
    assert render.in_html("<b>a</b>").strip() == "<p>&lt;b&gt;a&lt;/b&gt;</p>"


def test_prose_in_prose_keeps_its_marks_and_a_list_of_both_is_prose() -> None:
    one = prose("**{n}** of {name}", n=2, name="a_b")
    assert one == r"**2** of a\_b"
    assert listed([one, "c_d"]) == r"**2** of a\_b and c\_d"
    assert prose("- {one}: {all}", one=one, all=listed(["e_f"])) == r"- **2** of a\_b: e\_f"
    assert lines([one, "# g"]) == "**2** of a\\_b\n\\# g"


@_QUICK
@given(text=hostile.map(plain))
def test_a_leaflet_shows_caption_and_alternative_text_as_they_are(
    text: str, tmp_path: Path
) -> None:
    (tmp_path / "figures").mkdir(exist_ok=True)
    from matplotlib.figure import Figure as Picture

    leaflet = figures.leaflet(Picture(), "a", text, text, tmp_path)
    harmless = figures.leaflet(Picture(), "a", _HARMLESS, _HARMLESS, tmp_path)
    tags = [tag for tag, *_ in _Tree(render.in_html(leaflet)).elements]
    assert tags == [tag for tag, *_ in _Tree(render.in_html(harmless)).elements]


# HTML of outputs.


def _outputs(text: str) -> list[str]:
    """Return everything that a notebook shows as HTML, with a text wherever it has one."""
    body = _BODIES["verdict"][1]
    many = [
        Verdict.model_validate({**_changed(body, lambda _: text), "verdict": verdict,
                                "leaning": None, "stands": stands, "server": f"{text}{place}"})
        for place, (verdict, stands) in enumerate(
            [("reproduced", "published"), ("not-run", "retracted"), ("withheld", "hypothesis")]
        )
    ]  # fmt: skip
    frame = pd.DataFrame({text: [text, "b"], "n": [1.5, 2]}).set_index(text)
    return [
        Verdicts(many)._repr_html_(),
        Alert([text], [text])._repr_html_(),
        Table([{"fact": text, text: 2}])._repr_html_(),
        Table(frame)._repr_html_(),
        Sections(Section(text, text, Table(frame)))._repr_html_(),
        figures.Figure("a", "<svg />", text, text)._repr_html_(),
    ]


@_QUICK
@given(text=hostile.map(plain))
def test_a_value_in_an_output_is_text(text: str) -> None:
    made, harmless = (
        [_elements(markup.Sheet().fit(html)) for html in _outputs(of)] for of in (text, _HARMLESS)
    )
    assert made == harmless


def test_a_figure_is_named_as_a_file_can_be(tmp_path: Path) -> None:
    from matplotlib.figure import Figure as Picture

    for name in ('a"><script>', "../a", "a b", ""):
        with pytest.raises(InputError, match="cannot name a figure"):
            figures.publish(Picture(), name, pd.DataFrame(), "c", "a", tmp_path)


# Pages.


@dataclasses.dataclass(frozen=True, repr=False)
class _Written:
    """The values of each template's page; they are thousands, which no message should list."""

    values: dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator["_Written"]:
    """What each page of the collection is made of, by its template, and where it was written."""
    place = tmp_path_factory.mktemp("reports")
    values: dict[str, dict[str, Any]] = {}
    write = pages.write

    def kept(path: Path, template: str, **of: Any) -> Path:
        values[template] = of
        return write(path, template, **of)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(figures, "publish", _undrawn)
        patched.setattr(pages, "write", kept)
        patched.setenv("INNOLAB_REPORTS", str(place))
        compare_page.write(compare.compare(_three(place)))
        judged.judge(*_table(place, "a_b"), name="theirs", prove=lambda _: None)
        index.write()
        size_page.write(place / "size.html", _sizes())
    yield _Written(values)


def _three(place: Path) -> list[Path]:
    """Return copies of a report, measured on other days, of hosts that differ."""
    reports = []
    for day in (1, 2, 3):
        report = copied(place, f"2026-02-1{day}-1", day)

        def on_another(body: Any, cpu: str = f"a processor of day {day}") -> None:
            for host in body["hosts"]:
                host["cpu"] = cpu

        change(report, "manifest.json", on_another)
        reports.append(report)
    return reports


def _sizes() -> SizeDocument:
    ranges = [Range(estimate=1.0 / n, low=0.5 / n, high=2.0 / n) for n in (1, 2, 3)]
    rows = [
        SizeRow(
            pool_bytes=2**20 * n, known="measured" if n == 1 else "modelled", reads_per_s=1.0,
            reads_a_statement=ranges[n - 1], statements_per_s=ranges[n - 1],
        )
        for n in (1, 2, 3)
    ]  # fmt: skip
    offer = SizeOffer(option="a", price=2, statements_per_s=ranges[0], gain=ranges[0])
    return SizeDocument(
        maker="MySQL", version="9.7.0", pool_bytes=2**20, data_bytes=2**30, asked_bytes=2**30,
        seconds=60, statements_per_s=1, requests_per_s=1, reads_per_s=1, hit_share=0.5, clients=8,
        by_promotions=True, resized=False, rows=rows, offers=[offer], not_known=["b"],
    )  # fmt: skip


_TEMPLATES = ["compare.html.j2", "judged.html.j2", "index.html.j2", "size.html.j2"]


def test_every_template_of_a_page_is_among_those_that_are_tried() -> None:
    known = {path.name for path in render.TEMPLATES.glob("*.html.j2")}
    assert known == {*_TEMPLATES, "layout.html.j2", "counts.html.j2", "parts.html.j2"}


@pytest.mark.parametrize("template", _TEMPLATES)
@settings(_QUICK, max_examples=4)
@given(text=hostile)
def test_a_value_in_a_page_of_the_collection_is_text(
    written: _Written, template: str, text: str, tmp_path: Path
) -> None:
    made, harmless = (
        _elements(_page(written.values[template], template, tmp_path, of))
        for of in (plain(text), _HARMLESS)
    )
    assert made == harmless


def _page(values: dict[str, Any], template: str, place: Path, text: str) -> str:
    changed = _changed(values, lambda was: text if was else was)
    return pages.write(place / "page.html", template, **changed).read_text()


# A published table, from the files to the page.


def _table(place: Path, text: str) -> tuple[Path, Path, Path]:
    """Write a table whose names, levels, units and claims have a text in them."""
    # A heading has no brackets but those of its unit.
    heading = re.sub(r"[()\[\]\r\n]", "", f"engine {text}").strip()
    levels = [f"{letter} {text}".strip() for letter in "ab"]
    with (place / "t.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([heading, "tps (1/s)", "replicate"])
        for level in levels:
            for run in (1, 2):
                writer.writerow([level, 100 + 50 * levels.index(level) + run, run])
    about = {"title": text, "source": text, "ranked": heading, "factors": {heading: text}}
    (place / "about.yml").write_text(json.dumps(about))
    claims = [
        {"id": f"A{text}", "says": text, "stands": "published", "source": text, "care": text,
         "compare": {"metric": "tps", "of": {heading: levels[1]}, "to": {heading: levels[0]}},
         "holds": {"at_least": 1.1}},
        {"id": f"B{text}", "says": text, "stands": "published", "not_measured": text},
    ]  # fmt: skip
    (place / "claims.yml").write_text(json.dumps(claims))
    return place / "t.csv", place / "claims.yml", place / "about.yml"


def _undrawn(
    picture: Any, name: str, values: Any, caption: str, alt: str, *_: Any, **__: Any
) -> figures.Figure:
    """Return a figure without its picture, which is most of the time of a page."""
    pyplot.close(picture)
    return figures.Figure(name, "<svg/>", caption, alt)


def _judged(place: Path, text: str) -> str:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(figures, "publish", _undrawn)
        patched.setenv("INNOLAB_REPORTS", str(place / "reports"))
        report, _ = judged.judge(*_table(place, text), name="theirs", prove=lambda _: None)
    made = (report / "index.html").read_text()
    shutil.rmtree(report)
    return made


@settings(_QUICK, max_examples=2)
@given(text=hostile)
def test_a_text_of_a_published_table_is_text_or_refused(text: str, tmp_path: Path) -> None:
    try:
        page = _judged(tmp_path, plain(text).replace("\ufffd", "?"))
    except InputError as error:
        assert str(error).isprintable()
        return
    assert _elements(page) == _elements(_judged(tmp_path, _HARMLESS))


def test_marks_that_do_not_show_are_refused_in_a_table(tmp_path: Path) -> None:
    for mark in ("\x1b[31m", "\u202e", "\x00"):
        with pytest.raises(InputError, match="Nothing was written"):
            _judged(tmp_path, f"a{mark}b")


# Pictures.


@settings(_QUICK, max_examples=5)
@given(text=hostile.map(plain))
def test_a_label_of_a_picture_is_no_markup_and_no_formula(text: str, tmp_path: Path) -> None:
    (tmp_path / "figures").mkdir(exist_ok=True)
    drawn = _drawn(text)
    figure = figures.publish(drawn, "a", pd.DataFrame({"x": [1]}), text, text, tmp_path)
    root = ElementTree.fromstring(figure.svg.encode())
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert tags <= {"svg", "metadata", "RDF", "Work", "type", "format", "creator", "Agent", "title",
                    "defs", "g", "path", "use", "clipPath", "rect"}  # fmt: skip
    assert not [element for element in root.iter() if "style" in element.attrib]
    assert "mathdefault" not in figure.svg


def _drawn(text: str) -> Any:
    from matplotlib.figure import Figure as Picture

    picture = Picture(figsize=(4, 3), layout="constrained")
    axes = picture.subplots()
    axes.plot([1, 2], [1, 2], label=text)
    axes.set_xticks([1, 2], [text, f"{text}2"])
    axes.set(title=text, ylabel=text)
    axes.legend(title=text)
    return picture


def test_styles_of_a_picture_become_attributes_of_the_same_value() -> None:
    made = svg.settled(
        '<svg width="1"><defs><style type="text/css">*{stroke-linejoin: round}</style></defs>'
        '<path style="fill: #fff; stroke-opacity: 0.2"/></svg>',
        "a",
    )
    assert made == (
        '<svg stroke-linejoin="round" width="1"><defs></defs>'
        '<path fill="#fff" stroke-opacity="0.2"/></svg>'
    )


# A study's report, from its records to its page in a browser.


def _recorded(report: Path, place: Path, change: Change) -> str:
    """Return the page of a report whose records have other texts wherever they may have any."""
    folder = place / report.name
    folder.mkdir(parents=True)
    folders.copy_recorded(report, folder)
    lines = [json.loads(line) for line in (folder / "runs.jsonl").read_text().splitlines()]
    for line in lines:
        if "factors" in line:
            line["conditions"] = _free(line["conditions"], change)
            for check in line["checks"]:
                check["says"] = change(check["says"])
    last = next(line for line in reversed(lines) if "factors" in line)
    last |= {"status": "failed", "error": change("it ended"), "observations": [], "checks": []}
    (folder / "runs.jsonl").write_text(_bound(lines))
    plan = json.loads((folder / "plan.json").read_text())
    plan |= {"unavailable": {"mysql-8.0": change("no package")}}
    plan["missing_devices"] = {"md": change("no root")}
    (folder / "plan.json").write_text(json.dumps(plan))
    study = studies.find(report.parent.name)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(figures, "publish", _undrawn)
        render.render(study, folder)
    page = (folder / "index.html").read_text()
    shutil.rmtree(place / report.name)
    return page


# Conditions whose texts are free, each with those of its fields that have a type.
_FREE = {"host": {"kernel"}, "build": {"id", "version", "sha256"}, "error_log": set[str]()}


def _free(conditions: Mapping[str, Any], change: Change) -> dict[str, Any]:
    """Return a run's conditions with other texts where these are no codes that a study reads."""
    found = {
        name: {field: one if field in _FREE[name] else _changed(one, change)
               for field, one in of.items()} if name in _FREE else of
        for name, of in conditions.items()
    }  # fmt: skip
    if emulated := conditions.get("device", {}).get("emulated"):
        found["device"] = found["device"] | {"emulated": _changed(emulated, change)}
    return found


def _bound(lines: Sequence[Mapping[str, Any]]) -> str:
    """Return lines of a log, each with the digest of the one before it."""
    made = [""]
    for line in lines:
        before = hashlib.sha256(made[-1].encode()).hexdigest()
        made.append(json.dumps({**line, "before": before}))
    return "\n".join(made[1:]) + "\n"


_ALL_AT_ONCE = (
    '<div style="position:fixed">"><script>hit()</script>**b** $x$', '<img src=x onerror="hit()">'
    "![a](javascript:hit()) </td></table>",
    "<a href=http://a.b>\x1b[31m\u202e_i_ `c` [a](http://a) <http://a>\n\n# h\n\n| a |",
)  # fmt: skip


def _in_turn() -> Change:
    texts = [text[:_LENGTH].ljust(_LENGTH, "<") for text in _ALL_AT_ONCE]
    # A text is given the same one wherever it comes again, so that what was equal stays so.
    return lambda was: texts[len(was) % len(texts)]


def _same_in_turn() -> Change:
    return lambda was: f"{'abc'[len(was) % len(_ALL_AT_ONCE)]}".ljust(_LENGTH, "x")


def test_no_value_of_a_studys_records_is_active(browser: Browser, tmp_path: Path) -> None:
    report = reference("device-io")
    page = _recorded(report, tmp_path, _in_turn())
    harmless = _recorded(report, tmp_path, _same_in_turn())
    assert "position:fixed" in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert _elements(page) == _elements(harmless)
    (tmp_path / "page.html").write_text(page)
    _assert_inert(browser, tmp_path / "page.html")


def test_no_value_of_a_collections_page_is_active(
    browser: Browser, written: _Written, tmp_path: Path
) -> None:
    for template, values in written.values.items():
        for text in map(plain, _ALL_AT_ONCE):
            _page(values, template, tmp_path, text)
            _assert_inert(browser, tmp_path / "page.html")


def _assert_inert(browser: Browser, path: Path) -> None:
    """Prove that a page moves nothing over itself, runs no script of a value and asks nobody."""
    page = browser.new_page()
    asked: list[str] = []
    said: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.add_init_script(
        "window.hits = 0; window.hit = () => { hits += 1 };"
        "document.addEventListener('securitypolicyviolation', e => { hits += 1 })"
    )
    page.goto(path.as_uri())
    moved = page.evaluate(
        "[...document.querySelectorAll('*')].filter(e => "
        "getComputedStyle(e).position !== 'static'"
        # What a page itself has over it: the way back to its contents, and what a point says.
        " && !e.matches('a.back[href=\"#contents\"], main > .tip:empty'))"
        ".map(e => e.outerHTML.slice(0, 99))"
    )
    hits = page.evaluate("hits")
    page.close()
    # A picture of the index that is not there is asked for in its own folder alone.
    outside = [url for url in asked if not url.startswith("file://")]
    assert (moved, hits, outside) == ([], 0, [])
    assert [text for text in said if "ERR_FILE_NOT_FOUND" not in text] == []


@pytest.mark.thorough
@pytest.mark.parametrize("name", studies.names())
@settings(_QUICK, max_examples=3)
@given(text=hostile)
def test_no_value_of_any_studys_records_is_active(name: str, text: str, tmp_path: Path) -> None:
    try:
        page = _recorded(reference(name), tmp_path, lambda was: text)
    except InnolabError as error:  # A cell that cannot be computed is said to be so.
        assert len(str(error).splitlines()) == 1
        return
    assert _elements(page) == _elements(_recorded(reference(name), tmp_path, lambda was: _HARMLESS))


# How it stays so.


def _calls(path: Path) -> Iterator[tuple[str, ast.Call]]:
    for cell in nbformat.read(path, 4).cells:
        if cell.cell_type == "code":
            for node in ast.walk(ast.parse(cell.source)):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                    yield node.func.attr, node


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda p: p.stem)
def test_values_enter_a_notebooks_prose_by_name_alone(path: Path) -> None:
    words = [call.args[0] for name, call in _calls(path) if name == "prose"]
    assert words
    assert all(isinstance(one, ast.Constant | ast.Name) for one in words)


def test_no_module_writes_values_into_html_itself() -> None:
    for path in sorted((ROOT / "innolab" / "report").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            # Two take what is HTML already apart; two are of widgets, and write no page.
            others = ("markup.py", "svg.py", "explorer.py", "points.py")
            if isinstance(node, ast.JoinedStr) and path.name not in others:
                fixed = "".join(p.value for p in node.values if isinstance(p, ast.Constant))
                assert not re.search(r"</?[a-z]+[ >]", fixed), f"{path.name}: {fixed}"


def test_templates_escape_all_and_no_page_allows_styles_of_elements() -> None:
    for path in sorted((ROOT / "innolab" / "report").rglob("*.*")):
        if path.suffix in (".j2", ".py", ".css"):
            text = path.read_text()
            assert "unsafe" not in text, path.name
            assert "autoescape false" not in text
            assert path.suffix != ".j2" or 'style="' not in text, path.name
    safe = [
        line for path in render.TEMPLATES.rglob("*.html.j2")
        for line in re.findall(r"\{\{[^}]*\| safe", path.read_text())
    ]  # fmt: skip
    # Code that Pygments coloured, and outputs, which were escaped when they were made.
    assert len(safe) == 3
    assert sum("highlight_code" in line for line in safe) == 1
    assert sum("data['text/html']" in line for line in safe) == 2
