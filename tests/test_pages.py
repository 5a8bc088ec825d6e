"""Pages as a reader meets them: in a browser, on a desk and on a phone, in the dark, on paper."""

import contextlib
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
import pytest
from axe_playwright_python.sync_playwright import Axe
from conftest import ROOT, Innolab, reference
from copied_reports import copied
from playwright.sync_api import Browser, Page

from innolab import studies
from innolab.record.plan import Plan
from innolab.report import answer, first_screen, index, markup, render

_MEASURED = sorted(path.parent.parent.name for path in (ROOT / "reports").glob("*/*/manifest.json"))
_STUDIES = list(dict.fromkeys(_MEASURED))
_DESK, _PHONE = (1280, 800), (390, 844)
_WIDTHS = pytest.mark.parametrize("size", [_DESK, _PHONE], ids=["desk", "phone"])
_SCHEMES = pytest.mark.parametrize("scheme", ["light", "dark"])
# What A4 leaves between the margins of style.css, in CSS pixels.
_PAPER = (702, 1016)


class Opened(NamedTuple):
    """A page in the browser, and what the browser asked for and complained about."""

    page: Page
    path: Path
    asked: list[str]
    said: list[str]

    def shown(self, size: tuple[int, int], scheme: Any = "light", media: Any = "screen") -> Page:
        """Return the page at its top, in a window of a size, on a screen or on paper."""
        self.page.set_viewport_size({"width": size[0], "height": size[1]})
        self.page.emulate_media(media=media, color_scheme=scheme)
        self.page.evaluate("scrollTo(0, 0)")
        return self.page

    def unfolded(self, size: tuple[int, int], scheme: Any = "light") -> Page:
        """Return the page with all open that can be folded."""
        page = self.shown(size, scheme)
        page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
        # What opens says so after this frame.
        page.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
        return page


@pytest.fixture(scope="module")
def collection() -> Iterator[Path]:
    """A folder of reports: the newest of each study, their pages as they are rendered today."""
    with tempfile.TemporaryDirectory(prefix="innolab-pages-", dir="/var/tmp") as place:
        for name in _STUDIES:
            kept = reference(name)
            copy = Path(place) / name / kept.name
            shutil.copytree(kept, copy, ignore=shutil.ignore_patterns("series", "variables"))
            (copy / "index.html").write_text(_rendered(name, kept))
        yield Path(place)


def _rendered(name: str, report: Path, provisional: str | None = None) -> str:
    return render.page(
        nbformat.read(report / "notebook.ipynb", 4),
        studies.find(name),
        Plan.read(report),
        report.name,
        render.read_verdicts(report),
        provisional,
    )


@contextlib.contextmanager
def _open(browser: Browser, path: Path) -> Iterator[Opened]:
    page = browser.new_page()
    asked: list[str] = []
    said: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(path.as_uri())
    yield Opened(page, path, asked, said)
    page.close()


@pytest.fixture(scope="module", params=_STUDIES)
def report(request: pytest.FixtureRequest, browser: Browser, collection: Path) -> Iterator[Opened]:
    """A report's page, its folder moved away from all others."""
    kept = next((collection / request.param).iterdir())
    with tempfile.TemporaryDirectory(prefix="innolab-alone-", dir="/var/tmp") as place:
        moved = shutil.copytree(kept, Path(place) / "moved")
        with _open(browser, moved / "index.html") as opened:
            yield opened


def _box(page: Page, selector: str) -> dict[str, float]:
    """Return where an element's edges lie in the window."""
    found: dict[str, float] = page.evaluate(
        "s => document.querySelector(s).getBoundingClientRect().toJSON()", selector
    )
    return found


def _assert_first_screen(page: Page, size: tuple[int, int]) -> None:
    width, height = size
    for part in (".lead .question", ".lead .counts"):
        box = _box(page, part)
        assert box["bottom"] <= height, part
        assert box["height"] > 10, part
        assert box["right"] <= width, part
    assert _box(page, ".lead .answer p")["top"] + 40 <= height
    figure = _box(page, ".lead figure svg")
    if width >= _DESK[0]:
        assert figure["bottom"] <= height
        assert figure["right"] <= width
    else:
        # The numbers behind the answer come before the figure, which begins at the left edge.
        assert _box(page, ".lead .answer table")["top"] + 100 <= height
        assert figure["left"] >= 0


@_WIDTHS
def test_the_first_screen_has_question_answer_and_main_figure(
    report: Opened, size: tuple[int, int]
) -> None:
    page = report.shown(size)
    _assert_first_screen(page, size)
    verdicts = render.read_verdicts(report.path.parent)
    for server, of in first_screen.counts(verdicts):
        line = page.locator(".lead .counts li", has_text=server).inner_text()
        for verdict, n in of:
            assert f"{n} {verdict.replace('-', ' ')}" in line


@_WIDTHS
def test_a_provisional_page_begins_in_the_same_way(
    browser: Browser, tmp_path: Path, size: tuple[int, int]
) -> None:
    words = "Provisional: 2 of at most 8 blocks are complete; 9 claims are still being decided."
    path = tmp_path / "index.html"
    path.write_text(_rendered("access-paths", reference("access-paths"), words))
    with _open(browser, path) as opened:
        page = opened.shown(size)
        assert _box(page, ".provisional")["top"] < _box(page, ".lead")["top"]
        _assert_first_screen(page, size)


@_WIDTHS
def test_letters_in_figures_can_be_read(report: Opened, size: tuple[int, int]) -> None:
    page = report.shown(size)
    letters = page.evaluate(
        """() => Array.from(document.querySelectorAll('figure svg g[transform*="scale(0."]'))
             .map(g => g.getScreenCTM()).map(m => 100 * Math.hypot(m.a, m.b))"""
    )
    assert len(letters) > 10
    # A hundredth for widths in whole pixels.
    assert min(letters) >= 8.99


@_WIDTHS
def test_the_page_itself_never_scrolls_sideways(report: Opened, size: tuple[int, int]) -> None:
    _assert_no_sideways_scroll(report.unfolded(size), size)


def _assert_no_sideways_scroll(page: Page, size: tuple[int, int]) -> None:
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]


@_WIDTHS
def test_what_scrolls_can_be_reached_by_the_keyboard(report: Opened, size: tuple[int, int]) -> None:
    page = report.unfolded(size)
    wrong = page.evaluate(
        """() => Array.from(document.querySelectorAll('.scroll, pre'))
             .filter(b => (b.scrollWidth > b.clientWidth) !== (b.tabIndex === 0))
             .map(b => b.textContent.slice(0, 40))"""
    )
    assert wrong == []


_COLOUR = "color-contrast"


def _violations(page: Page, **options: Any) -> list[str]:
    found = Axe().run(page, options={"resultTypes": ["violations"], **options}).response
    return [
        f"{rule['id']}: {node['target']} {node['html'][:120]}"
        for rule in found["violations"]
        for node in rule["nodes"]
    ]


def _trimmed(page: Page, *selectors: str) -> None:
    """Take out of a page what is like what stays: axe would look at each for seconds."""
    for selector in selectors:
        page.evaluate("s => document.querySelectorAll(s).forEach(e => e.remove())", selector)


def _assert_accessible(opened: Opened) -> None:
    """Ask axe at both widths and in both schemes; only its rule on colours needs the schemes."""
    # A picture is one thing to a reader by ear, whatever it is drawn of.
    _trimmed(opened.page, "svg > *", "details.code ~ details.code ~ details.code")
    for size in (_DESK, _PHONE):
        page = opened.unfolded(size)
        assert _violations(page, rules={_COLOUR: {"enabled": False}}) == []
    _trimmed(opened.page, "tbody tr:nth-child(n+4)")
    for scheme in ("light", "dark"):
        page = opened.unfolded(_DESK, scheme)
        assert _violations(page, runOnly=[_COLOUR]) == []


def test_axe_finds_nothing_on_a_report(report: Opened, browser: Browser) -> None:
    with _open(browser, report.path) as opened:
        assert opened.page.locator("svg[aria-label]").count() > 0
        _assert_accessible(opened)


@pytest.mark.thorough
def test_axe_finds_nothing_on_the_whole_of_a_report(report: Opened, browser: Browser) -> None:
    with _open(browser, report.path) as opened:
        for size in (_DESK, _PHONE):
            for scheme in ("light", "dark"):
                assert _violations(opened.unfolded(size, scheme)) == []


def test_nothing_is_fetched_and_nothing_can_be(report: Opened) -> None:
    assert report.asked == [report.path.as_uri()]
    assert report.said == []
    refused = report.page.evaluate(
        """() => new Promise(done => {
             const refused = [];
             document.addEventListener('securitypolicyviolation', event => {
               refused.push(event.effectiveDirective);
               if (refused.length === 2) done(refused.sort());
             });
             const picture = document.createElement('img');
             picture.src = 'figures/any.png';
             const script = document.createElement('script');
             script.textContent = 'window.hasRun = true';
             document.body.append(picture, script);
             picture.remove(); script.remove();
           })"""
    )
    assert refused == ["img-src", "script-src-elem"]
    assert not report.page.evaluate("window.hasRun")
    report.said.clear()


def test_links_lead_to_what_the_folder_has(report: Opened) -> None:
    links = report.page.evaluate(
        """() => Array.from(document.querySelectorAll('a[href]'))
             .map(a => [a.getAttribute('href'), a.rel])"""
    )
    assert len(links) > 3
    for link, kind in links:
        if re.match(r"[a-z]+:", link):
            assert "external" in kind, link
        elif link.startswith("#"):
            assert report.page.locator(f"[id='{link[1:]}']").count() == 1, link
        else:
            target = (report.path.parent / link).resolve()
            assert target.is_relative_to(report.path.parent.resolve()), link
            assert target.is_file(), link


def test_each_figure_is_shown_once(report: Opened) -> None:
    notebook = (report.path.parent / "notebook.ipynb").read_text()
    shown = report.page.evaluate("Array.from(document.querySelectorAll('figure')).map(f => f.id)")
    assert sorted(shown) == sorted(re.findall(r'<figure id=\\"([\w-]+)', notebook))
    # Letters of a font have the same name in each picture, and the same outline.
    named = report.page.evaluate(
        """() => Array.from(document.querySelectorAll('[id]'))
             .map(e => [e.id, e.closest('defs') ? e.outerHTML : null])"""
    )
    letters = {tuple(one) for one in named if one[1]}
    assert len(letters) == len({name for name, _ in letters})
    others = [name for name, letter in named if not letter]
    assert len(others) == len(set(others))


@_SCHEMES
def test_on_paper_all_is_there_and_nothing_is_cut(report: Opened, scheme: str) -> None:
    page = report.shown(_PAPER, scheme, "print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    found = page.evaluate(
        """() => {
          const style = getComputedStyle(document.body);
          const box = e => e.getBoundingClientRect();
          const seen = e => e.checkVisibility();
          const all = s => Array.from(document.querySelectorAll(s));
          return {
            colours: [style.backgroundColor, style.color],
            code: all('details.code').filter(seen).length,
            folded: all('details:not(.code):not([open])').length,
            widest: Math.max(...all('main *:not(svg *)').filter(seen).map(e => box(e).right)),
            highest: Math.max(...all('figure').map(e => box(e).height)),
          };
        }"""
    )
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert found["colours"] == ["rgb(255, 255, 255)", "rgb(28, 28, 28)"]
    assert found["code"] == 0
    assert found["folded"] == 0
    assert found["widest"] <= _PAPER[0] + 1
    assert found["highest"] <= _PAPER[1]


def test_little_comes_before_the_first_screen_is_whole(report: Opened) -> None:
    """What a browser has to read before it can paint it, whatever the speed of this machine."""
    text = report.path.read_text()
    first = text[: text.index("</section>")]
    assert len(first.encode()) < 250_000
    assert first.count("<") < 8_000
    assert len(text.encode()) < 1_500_000
    assert report.page.evaluate("document.querySelectorAll('*').length") < 40_000


def test_the_button_opens_all_code(report: Opened) -> None:
    page = report.shown(_DESK)
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = false })")
    cells = page.locator("details.code").count()
    page.get_by_role("button", name="Show all code").click()
    assert page.locator("details.code[open]").count() == cells > 3
    page.get_by_role("button", name="Hide all code").click()
    assert page.locator("details.code[open]").count() == 0


@pytest.fixture(scope="module")
def front(browser: Browser, collection: Path) -> Iterator[Opened]:
    """The page that lists the reports."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INNOLAB_REPORTS", str(collection))
        path = index.write()
    with _open(browser, path) as opened:
        yield opened


def test_the_front_door_has_every_study_with_question_and_verdicts(front: Opened) -> None:
    page = front.shown(_DESK)
    for name in studies.names():
        study = studies.find(name)
        section = page.locator(".study", has=page.get_by_role("heading", name=study.title))
        assert study.question in section.inner_text()
        if name in _STUDIES:
            assert section.locator(".report .counts li").count() >= 1
        else:
            assert f"make report STUDY={name}" in section.inner_text()
    for link in page.evaluate("Array.from(document.links).map(a => a.getAttribute('href'))"):
        assert (front.path.parent / link).is_file(), link
    assert front.said == []
    assert all(url.startswith(front.path.parent.as_uri()) for url in front.asked)


def test_axe_finds_nothing_on_the_front_door(front: Opened) -> None:
    for size in (_DESK, _PHONE):
        _assert_no_sideways_scroll(front.unfolded(size), size)
    _assert_accessible(front)


def test_newest_reports_come_first_and_those_without_any_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = reference("multi-buffer-pool")
    for version in ("2026-01-31-9", "2026-01-31-10"):
        copy = tmp_path / "multi-buffer-pool" / version
        shutil.copytree(kept, copy, ignore=shutil.ignore_patterns("series", "variables"))
    monkeypatch.setenv("INNOLAB_REPORTS", str(tmp_path))
    text = index.write().read_text()
    assert text.index("2026-01-31-10/index.html") < text.index("2026-01-31-9/index.html")
    assert text.index("2026-01-31-9/index.html") < text.index("make report STUDY=")
    assert text.count("make report STUDY=") == len(studies.names()) - 1


@pytest.fixture(scope="module")
def compared(
    browser: Browser, collection: Path, innolab: Innolab, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Opened]:
    """The page of three reports."""
    kept = sorted((ROOT / "reports" / "multi-buffer-pool").glob("*/manifest.json"))
    third = copied(tmp_path_factory.mktemp("third"), "2026-02-14-1", 1)
    reports = [*(str(path.parent) for path in kept[-2:]), str(third)]
    done = innolab("compare", *reports, "--html", INNOLAB_REPORTS=str(collection))
    assert done.returncode == 0, done.stderr
    with _open(browser, Path(done.stdout.strip())) as opened:
        yield opened


@_WIDTHS
def test_a_comparison_fits_and_can_be_read(compared: Opened, size: tuple[int, int]) -> None:
    page = compared.shown(size)
    _assert_no_sideways_scroll(page, size)
    letters = page.evaluate(
        """() => Array.from(document.querySelectorAll('figure svg g[transform*="scale(0."]'))
             .map(g => g.getScreenCTM()).map(m => 100 * Math.hypot(m.a, m.b))"""
    )
    assert len(letters) > 100
    assert min(letters) >= 8.99
    assert compared.said == []
    assert compared.asked == [compared.path.as_uri()]


def test_a_comparison_on_paper_is_whole(compared: Opened) -> None:
    page = compared.shown(_PAPER, "dark", "print")
    widest = page.evaluate(
        """() => Math.max(...Array.from(document.querySelectorAll('main *:not(svg *)'))
             .map(e => e.getBoundingClientRect().right))"""
    )
    assert widest <= _PAPER[0] + 1
    colours = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert colours == "rgb(255, 255, 255)"


def test_axe_finds_nothing_on_a_comparison(compared: Opened, browser: Browser) -> None:
    with _open(browser, compared.path) as opened:
        assert opened.page.locator("svg[aria-label]").count() > 10
        for size in (_DESK, _PHONE):
            _assert_no_sideways_scroll(opened.unfolded(size), size)
        _assert_accessible(opened)


def test_axe_finds_nothing_on_a_judged_table(
    browser: Browser, tmp_path: Path, innolab: Innolab
) -> None:
    table = ROOT / "data" / "judged" / "percona-buffer-pool-2026"
    done = innolab(
        "judge", f"{table}.csv", "--about", f"{table}.yml", "--claims", f"{table}-claims.yml",
        INNOLAB_REPORTS=str(tmp_path),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with _open(browser, Path(done.stdout.splitlines()[-1])) as opened:
        assert opened.page.locator("svg[aria-label]").count() == 3
        for size in (_DESK, _PHONE):
            _assert_no_sideways_scroll(opened.unfolded(size), size)
        links = "Array.from(document.links).map(a => a.getAttribute('href'))"
        for link in opened.page.evaluate(links):
            assert link.startswith("#") or (opened.path.parent / link).is_file(), link
        assert opened.said == []
        assert opened.asked == [opened.path.as_uri()]
        _assert_accessible(opened)


@pytest.mark.parametrize("name", studies.names())
def test_a_notebook_begins_with_a_title_and_a_question(name: str) -> None:
    study = studies.find(name)
    notebook = nbformat.read(study.papers.notebook, 4)
    first, rest = first_screen.lifted(notebook, "no title", "no question", [])
    assert first.title == study.title
    assert first.question.endswith("?")
    assert not rest.cells[0].source.startswith(("#", "**"))
    assert notebook.cells[0].source.startswith("# "), "what was given is not changed"


def _notebook(*cells: Any) -> Any:
    return nbformat.v4.new_notebook(cells=list(cells))


def _shows(**data: str) -> Any:
    kinds = {"html": "text/html", "prose": "text/markdown"}
    output = nbformat.v4.new_output(
        "display_data", data={kinds[name]: text for name, text in data.items()}
    )
    return nbformat.v4.new_code_cell("", outputs=[output])


def test_a_notebook_of_another_form_is_shown_as_it_is() -> None:
    words = nbformat.v4.new_markdown_cell("A study of ours.")
    first, rest = first_screen.lifted(
        _notebook(words, _shows(prose="All is well.")), "Title", "Why?", []
    )
    assert (first.title, first.question, first.answer, first.figure) == ("Title", "Why?", "", "")
    assert rest.cells[0].source == "A study of ours."


def test_an_answer_and_the_first_figure_are_moved_to_the_top() -> None:
    said = f"{answer.MARK}<p>It is so.</p></div>"
    notebook = _notebook(
        _shows(prose="All runs are complete."),
        nbformat.v4.new_markdown_cell("## The answer"),
        _shows(html=said),
        _shows(html='<figure id="first"><svg></svg></figure>'),
        _shows(html='<figure id="second"><svg></svg></figure>'),
    )
    first, rest = first_screen.lifted(notebook, "Title", "Why?", [])
    assert first.answer == said
    assert 'id="first"' in first.figure
    marks = [
        output.metadata.get("lead") for cell in rest.cells for output in cell.get("outputs", [])
    ]
    assert marks == [None, "answer", "first", None]


def test_hypotheses_are_not_counted_as_published_claims() -> None:
    verdicts = [
        {"server": "s", "stands": stands, "verdict": verdict}
        for stands, verdict in [
            ("published", "not-run"), ("retracted", "contradicted"), ("corrected", "not-run"),
            ("hypothesis", "reproduced"),
        ]
    ]  # fmt: skip
    assert first_screen.counts(verdicts) == [("s", [("contradicted", 1), ("not-run", 2)])]


def test_small_letters_keep_a_figure_wide() -> None:
    def least(*points: float) -> int:
        letters = "".join(f'<g transform="translate(1 2) scale({p / 100:g} -1)"/>' for p in points)
        sheet = markup.Sheet()
        html = sheet.fit(f'<svg width="600pt" height="300pt">{letters}</svg>')
        assert html.startswith('<div class="scroll own-1">')
        found = re.search(r"--wide: 800px; --least: (\d+)px; --shape: 2.000", str(sheet))
        assert found, sheet
        return int(found[1])

    assert least(12, 13.5) == 450
    assert least(12, 9) == 600
    assert least(5) == 800


def test_what_reads_aloud_badly_is_put_right() -> None:
    html = markup.Sheet().fit(
        '<table><tr style="text-align: right;"><th></th><th>a</th></tr></table>'
        '<ul class="alert" role="alert" style="color: #9b1c00"><li>b</li></ul>'
    )
    assert "<th></th>" not in html
    assert html.startswith('<div class="scroll"><table>')
    assert '<ul class="alert"><li>b</li></ul>' in html
    assert "style" not in html


def test_parts_of_two_figures_share_no_id() -> None:
    drawn = '<svg><g id="axes_1"/><path id="first-1"/><use xlink:href="#first-1"/></svg>'
    fitted = markup.Sheet().fit(drawn)
    assert 'id="axes_1"' not in fitted
    assert 'id="first-1"' in fitted


def test_verdicts_are_escaped() -> None:
    verdicts = [{"server": "<b>", "stands": "published", "verdict": "reproduced"}]
    kept = reference("multi-buffer-pool")
    page = render.page(
        _notebook(), studies.find("multi-buffer-pool"), Plan.read(kept), kept.name, verdicts
    )
    assert ">&lt;b&gt;</span>" in page
