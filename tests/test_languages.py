"""Reports speak another language: the same runs, verdicts and values, every text translated."""

import asyncio
import csv
import html
import re
import shutil
import string
from dataclasses import replace
from pathlib import Path

import pytest
import texts
from babel.messages.pofile import read_po
from conftest import ROOT, Innolab, reference
from matplotlib import font_manager

from innolab import studies
from innolab.analysis import controls
from innolab.base import language
from innolab.base.errors import InnolabError, InputError
from innolab.base.language import Message, joined, message
from innolab.record.plan import Plan
from innolab.report import display, figure_text, folders, render
from innolab.studies import judging
from innolab.studies.experiment import Experiment

OTHERS = [name for name, font in language.FONTS.items() if font is not None]
HANGUL = re.compile("[가-힣]")
STUDY = studies.find("multi-buffer-pool")


def _placeholders(message: str) -> list[str]:
    """Return the fields of a message with their formats, in no order."""
    return sorted(
        f"{name}:{spec}" for _, name, spec, _ in string.Formatter().parse(message) if name
    )


@pytest.mark.parametrize("name", OTHERS)
def test_every_text_is_translated(name: str) -> None:
    catalogue = language.catalogue(name)
    lacking = []
    for text in texts.wanted():
        message = catalogue.get(text.english, text.context)
        if message is None or not message.string:
            lacking.append(f"{text.where}: {text.english[:80]}")
    assert not lacking, f"{len(lacking)} texts lack a translation (make texts adds them)"


@pytest.mark.parametrize("name", OTHERS)
def test_translations_are_whole_and_have_the_values_of_their_texts(name: str) -> None:
    for entry in language.catalogue(name):
        if entry.id:
            assert entry.string and not entry.fuzzy, entry.id
            assert _placeholders(entry.string) == _placeholders(entry.id), entry.id
            assert entry.id.count("\n") == entry.string.count("\n"), entry.id


@pytest.mark.parametrize("name", OTHERS)
def test_a_catalogue_is_as_its_tool_writes_it(name: str, tmp_path: Path) -> None:
    path = language.path_of(name)
    with path.open("rb") as file:
        made = texts.updated(read_po(file, locale=name))
    texts.write(made, tmp_path / path.name)
    assert (tmp_path / path.name).read_text() == path.read_text(), "run make texts"


def test_no_translation_has_a_word_that_the_glossary_rules_out() -> None:
    with (language.path_of("ko").parent / "glossary-ko.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) > 40
    for entry in language.catalogue("ko"):
        for row in rows:
            for word in filter(None, row["not"].split(";")):
                assert word not in entry.string, f"{entry.id}: {row['korean']}, not {word}"


def test_no_prose_of_a_notebook_hides_in_an_f_string() -> None:
    assert list(texts.prose_in_f_strings()) == []


def test_a_language_is_asked_of_the_results_and_changes_no_digest() -> None:
    english, korean = (Experiment.fresh(STUDY, {"language": name}) for name in ("en", "ko"))
    assert english.spec_sha256 == korean.spec_sha256
    assert english.parameters.measured() == korean.parameters.measured()
    plan = Plan.read(reference(STUDY.name))
    # As before there were languages.
    plan = replace(plan, parameters={**plan.parameters})
    plan.parameters.pop("language", None)
    before = Experiment.from_plan(plan, STUDY)
    assert before.plan_sha256 == before.asking({"language": "ko"}).plan_sha256
    assert before.spec_sha256 == plan.spec_sha256


def test_an_unknown_language_is_refused_with_those_that_are_known(innolab: Innolab) -> None:
    with pytest.raises(InputError, match="the languages are en, ko"):
        STUDY.check({"language": "fr"})
    done = innolab("plan", STUDY.name, "-p", "language=fr")
    assert done.returncode == 2
    assert "'language'" in done.stderr and "en, ko" in " ".join(done.stderr.split())


def test_a_language_ends_with_its_book() -> None:
    async def book(name: str) -> str:
        language.choose(name)
        await asyncio.sleep(0)
        return language.text("not measured")

    async def both() -> list[str]:
        return await asyncio.gather(*(asyncio.create_task(book(name)) for name in ("ko", "en")))

    assert asyncio.run(both()) == ["측정하지 않음", "not measured"]
    with language.speaking("ko"):
        language.choose("ko")
    assert language.chosen() == "en"


def test_a_text_is_found_by_its_english_and_filled_with_values() -> None:
    with language.speaking("ko"):
        assert language.text("{n} by {fault}", n=3, fault="x") == "x 3건"
        assert language.text("no such text, {n}", n=1) == "no such text, 1"
        assert language.word("mysql-9.7: MB a second") == "mysql-9.7: 초당 MB"
        assert language.word("busy, %") == "사용 중, %"
        assert language.markdown("## The answer\n\nunknown to all") == "## 답\n\nunknown to all"
        # Whatever has a "to" is no range of numbers.
        assert language.sentence("an error from disk to memory") == "an error from disk to memory"
    assert language.sentence("more blocks") == "more blocks"


def test_tables_have_their_headings_and_words_translated_and_their_numbers_kept() -> None:
    table = display.Table([{"device": "host", "rows": "12,346", "seconds": 1.25, "judged": "yes"}])
    english = table._repr_html_()
    with language.speaking("ko"):
        korean = table._repr_html_()
    for word, translated in {"device": "장치", "rows": "행", "seconds": "초", "yes": "예"}.items():
        assert f">{word}<" in english
        english = english.replace(f">{word}<", f">{translated}<")
    assert korean == english.replace(">judged<", ">판정<")


_VERDICTS = sorted((ROOT / "reports").glob("*/*/" + render.VERDICTS_FILE))


@pytest.mark.parametrize("path", _VERDICTS, ids=lambda p: f"{p.parts[-3]}/{p.parts[-2]}")
def test_what_verdicts_and_controls_say_is_translated(path: Path) -> None:
    report, study = path.parent, studies.find(path.parts[-3])
    runs = study.read(report)
    verdicts = judging.verdicts(Experiment.read(report, study), runs)
    control = controls.controls(runs, study.kind.compared)
    messages = [m for v in verdicts for m in (v.reason, v.needs, v.caveat) if m]
    messages += [*control.notes, *(failed.says for failed in control.failed)]
    texts = [text for v in verdicts for text in (v.verdict, v.says, v.source) if text]
    with language.speaking("ko"):
        shown = {str(m): m.shown() for m in messages} | {t: language.sentence(t) for t in texts}
    assert [english for english, korean in shown.items() if not HANGUL.search(korean)] == []


def test_a_message_is_made_of_its_values_where_it_is_shown() -> None:
    within = message(
        "measured {measured}, wholly within the claim's {claimed}",
        measured=message("at least {low:.4g}", low=1.25),
        claimed="{braces}",
    )
    both = joined([within, Message("an error from {somewhere}")])
    english = "measured at least 1.25, wholly within the claim's {braces}; "
    assert str(both) == english + "an error from {somewhere}" == both.shown()
    with language.speaking("ko"):
        assert both.shown().startswith("측정값 1.25 이상: 주장의 범위 {braces}")
        assert both.shown().endswith("; an error from {somewhere}")


@pytest.mark.parametrize("path", _VERDICTS, ids=lambda p: f"{p.parts[-3]}/{p.parts[-2]}")
def test_what_checks_found_is_recognised(path: Path) -> None:
    runs = studies.find(path.parts[-3]).read(path.parent).runs
    found = {check.says for run in runs for check in run.checks}
    with language.speaking("ko"):
        assert {says for says in found if not HANGUL.search(language.sentence(says))} == set()


# Words of figures and headings that are names: of levels, columns of settings, builds and claims.
_NAMES = re.compile(
    r"(mysql|mysqld|sysbench|loose|innodb|fio|USE|iodrive|fusionio|FusionIO|cap|x25|s3|slc|vertex)\b.*"
    r"|\d x .*|v FROM .*|raid\d.*|\d+k-timed|shop\..*|.*(read_only|read_write).*|[A-H]\d+.*"
    r"|.*\$.*|spec sha256"
)
# Filled by the notebook: the templates are texts of the catalogue.
_FILLED = re.compile(".* over it|.* times slower at")
_KEPT = {
    "near", "far", "cpu", "host", "special", "pareto", "zipf", "async", "semi-sync", "auto",
    "zlib", "relaxed", "both", "short", "tps", "binlog",
}  # fmt: skip


@pytest.mark.parametrize("study", sorted({p.parent.parent.name for p in
    (ROOT / "reports").glob("*/*/" + folders.MANIFEST_FILE)}))  # fmt: skip
def test_headings_and_labels_of_recorded_reports_have_translations(study: str) -> None:
    """Those of the English pages, so that no word of a table or a figure is forgotten."""
    report = reference(study)
    page = (report / render.PAGE_FILE).read_text()
    words = re.findall(r"<th(?: [^>]*)?>([^<]+)</th>", page)
    words += re.findall(r"<!-- (.*?) -->", page)
    with language.speaking("ko"):
        left = {
            word
            for word in map(html.unescape, words)
            if not HANGUL.search(language.word(word)) and not _FILLED.fullmatch(word)
            for part in re.split(": |, ", word)
            if re.search("[a-z]{3}", part) and not _NAMES.fullmatch(part) and part not in _KEPT
        }
    assert left == set()


@pytest.fixture(scope="module")
def korean(reports: Path, innolab: Innolab) -> Path:
    """A recorded report, rendered in Korean by the command."""
    kept = reference(STUDY.name)
    place = reports / "korean" / STUDY.name
    place.mkdir(parents=True)
    shutil.copytree(kept, place / kept.name)
    words = ("render", f"{STUDY.name}/{kept.name}", "-p", "language=ko")
    done = innolab(*words, INNOLAB_REPORTS=str(place.parent))
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip().splitlines()[-1]).parent


def test_a_report_in_another_language_has_the_same_verdicts_and_values(
    korean: Path, reports: Path
) -> None:
    english = reports / "english" / korean.name
    english.mkdir(parents=True)
    folders.copy_recorded(reference(STUDY.name), english)
    render.render(STUDY, english)
    same = [render.VERDICTS_FILE, *(f"figures/{p.name}" for p in english.glob("figures/*.csv"))]
    for name in same:
        assert (korean / name).read_bytes() == (english / name).read_bytes(), name
    assert '<html lang="en">' in (english / render.PAGE_FILE).read_text()


def test_a_page_in_another_language_says_so_and_has_no_english_left(korean: Path) -> None:
    page = (korean / render.PAGE_FILE).read_text()
    assert '<html lang="ko">' in page
    seen = re.findall(r"<(h[1-3]|figcaption|summary|button)\b[^>]*>(.*?)</\1>", page, re.DOTALL)
    seen += [("label", label) for label in re.findall(r'aria-label="([^"]+)"', page)]
    seen += [("p", words) for words in re.findall(r"<p[^>]*>(.*?)</p>", page, re.DOTALL)]
    ids = {claim.id for claim in STUDY.claims()}
    for kind, words in seen:
        plain = html.unescape(re.sub("<[^>]*>", "", words)).strip()
        if plain in ids:  # Of a claim: the name by which it is reproduced, in any language.
            continue
        assert HANGUL.search(plain) or not re.search("[a-z]{3}", plain), f"{kind}: {plain}"
    for leaflet in korean.glob("figures/*.md"):
        assert "대체 텍스트:" in leaflet.read_text()
    assert "스캔당 초" in (korean / "figures" / "passes.svg").read_text()


def test_a_report_in_another_language_verifies(korean: Path, innolab: Innolab) -> None:
    done = innolab("verify", str(korean))
    assert done.returncode == 0, done.stdout + done.stderr


def test_without_its_font_a_language_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(figure_text._FILES, "NanumGothic", ("no_such_package", "none.ttf"))
    monkeypatch.setattr(font_manager.fontManager, "ttflist", [])
    with language.speaking("ko"), pytest.raises(InnolabError, match="run make setup"):
        figure_text.use_font()
