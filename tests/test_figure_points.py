"""Figures answer questions: what a point says, which series are seen, on a desk and on a phone."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pandas as pd
import pytest
from axe_playwright_python.sync_playwright import Axe
from conftest import reference
from playwright.sync_api import Browser, Page

import innolab
from innolab import studies
from innolab.record.plan import Plan
from innolab.report import figures, file_contents, render, summaries

_STUDY = "access-paths"
_PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def runs() -> pd.DataFrame:
    """Four runs an arm: the value is 1 to 1.3 times that of the first block."""
    return pd.DataFrame(
        {"server": server, "device": device, "path": path, "share": share, "block": block,
         "seconds": (1 + block / 10) * share * factor * by_server * by_device}
        for server, by_server in (("one", 1), ("two", 1.1))
        for device, by_device in (("disk", 3), ("flash", 2))
        for path, factor in (("near", 10), ("far", 20)) for share in (0.01, 0.1, 1.0)
        for block in range(4)
    )  # fmt: skip


@pytest.fixture(scope="module")
def figure(runs: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> figures.Figure:
    """Four panels, whose ticks and labels only the outer ones have."""
    import seaborn

    folder = tmp_path_factory.mktemp("figure")
    grid = seaborn.relplot(
        runs, kind="line", x="share", y="seconds", hue="path", style="path", col="device",
        row="server", markers=True, dashes=False, err_style="bars", height=3.6,
        estimator=innolab.geometric_mean, errorbar=innolab.interval,
    )  # fmt: skip
    grid.set(xscale="log", yscale="log", ylabel="seconds")
    made = figures.publish(
        grid.figure, "made", summaries.plotted(runs, "seconds"), "A caption.", "Alt.", folder,
        metric="seconds",
    )  # fmt: skip
    assert file_contents.svg_fault(folder / "figures" / "made.svg") is None
    return made


@pytest.fixture(scope="module")
def path(figure: figures.Figure, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with the figure, and as many headings as a long one has."""
    shown = nbformat.v4.new_output("display_data", data={"text/html": figure._repr_html_()})
    headings = [nbformat.v4.new_markdown_cell(f"## Part {n}\n\nText.") for n in range(6)]
    cells = [nbformat.v4.new_code_cell("", outputs=[shown]), *headings]
    kept = reference(_STUDY)
    page = render.page(
        nbformat.v4.new_notebook(cells=cells), studies.find(_STUDY), Plan.read(kept), kept.name, []
    )
    written = tmp_path_factory.mktemp("page") / "index.html"
    written.write_text(page)
    return written


@pytest.fixture
def page(browser: Browser, path: Path) -> Iterator[Page]:
    """The page on a desk; what its script complains of fails the test."""
    opened = browser.new_page(viewport={"width": 1280, "height": 800})
    said: list[str] = []
    opened.on("console", lambda message: said.append(message.text))
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.goto(path.as_uri())
    yield opened
    opened.close()
    assert said == []


def test_each_mean_says_value_interval_runs_and_arm(
    figure: figures.Figure, runs: pd.DataFrame
) -> None:
    titles = re.findall(r"<title>([^<]*)</title>", figure.svg)
    assert len(titles) == 2 * 2 * 2 * 3
    arm = runs.query("server == 'two' and device == 'flash' and path == 'far' and share == 0.1")
    value = summaries.estimate(list(arm.seconds))
    levels = "server: two\ndevice: flash\npath: far\nshare: 0.1"
    assert f"{value} seconds; 4 runs\n{levels}" in titles


def _tip(page: Page) -> Any:
    return page.locator(".tip")


def test_a_point_is_read_by_the_mouse_and_by_the_keyboard(page: Page) -> None:
    first = page.locator("figure use[tabindex='0']")
    assert first.count() == 1, "a figure is one stop of the tabulator"
    first.focus()
    before = _tip(page).inner_text()
    assert "4 runs" in before
    page.keyboard.press("ArrowRight")
    assert _tip(page).inner_text() != before
    page.keyboard.press("Escape")
    assert not _tip(page).is_visible()
    last = page.locator("figure use[role=img]").last.bounding_box()
    assert last
    page.mouse.move(last["x"] + last["width"] / 2 + 5, last["y"] + last["height"] / 2)
    assert "server: two" in _tip(page).inner_text()
    page.mouse.move(5, 5)
    assert not _tip(page).is_visible()


def test_the_legend_hides_and_shows_a_series(page: Page) -> None:
    button = page.get_by_role("button", name="near")
    points = "Array.from(document.querySelectorAll('figure use[role=img]'))"
    shown = f"{points}.filter(point => point.checkVisibility()).length"
    assert page.evaluate(shown) == 24
    button.focus()
    page.keyboard.press("Enter")
    assert button.get_attribute("aria-pressed") == "false"
    assert page.evaluate(shown) == 12
    button.click()
    assert page.evaluate(shown) == 24


def test_on_a_phone_panels_are_stacked_and_nothing_is_off_the_edge(page: Page) -> None:
    page.set_viewport_size(_PHONE)
    page.wait_for_timeout(200)
    found = page.evaluate(
        """() => {
          const box = e => e.getBoundingClientRect();
          const panels = Array.from(document.querySelectorAll('[data-panel]'));
          const scroll = document.querySelector('figure .scroll');
          return {
            lefts: new Set(panels.map(p => Math.round(box(p.querySelector('path')).left))).size,
            overflow: scroll.scrollWidth - scroll.clientWidth,
            bare: panels.filter(p => p.querySelectorAll(
              '[data-axis=x], [data-axis=y], [data-axis=copy]').length !== 2).length,
            legendBelow: box(document.querySelector('.legend')).top >= box(scroll).bottom - 1,
          };
        }"""
    )
    assert found == {"lefts": 1, "overflow": 0, "bare": 0, "legendBelow": True}


def test_in_the_dark_a_figure_has_dark_colours(page: Page) -> None:
    page.emulate_media(color_scheme="dark")
    ground = page.evaluate("getComputedStyle(document.querySelector('[data-panel] path')).fill")
    assert ground == "rgb(23, 25, 28)"


def test_without_a_script_it_is_the_picture(browser: Browser, path: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    opened = context.new_page()
    opened.goto(path.as_uri())
    assert opened.locator("figure svg[role=img] [data-legend]").count() == 1
    assert opened.locator("figure use title").count() == 24
    assert opened.locator(".legend, .tip").count() == 0
    context.close()


def test_axe_finds_nothing_on_a_figure_that_answers(page: Page) -> None:
    page.locator("figure use[tabindex='0']").focus()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        found = Axe().run(page, options={"resultTypes": ["violations"]}).response
        assert [rule["id"] for rule in found["violations"]] == []


def test_a_long_page_has_its_contents_and_a_way_back(page: Page) -> None:
    links = page.locator("nav.contents a")
    assert links.count() >= 6
    for link in links.all():
        target = link.get_attribute("href")
        assert target
        assert page.locator(f"h2{target}").count() == 1
    assert page.locator("a.back").get_attribute("href") == "#contents"
    assert page.locator("#contents").count() == 1
