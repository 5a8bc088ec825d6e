"""The figure kit: a report's figure in all that a post or a paper needs."""

import contextlib
import dataclasses
import datetime
import itertools
import json
import re
import shutil
import xml.etree.ElementTree as ET
import zlib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import frictionless
import matplotlib
import numpy as np
import pandas as pd
import pytest
import seaborn
import yaml
from conftest import ROOT, Innolab, reference
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Picture
from PIL import Image

from innolab.base.errors import InnolabError, InputError
from innolab.publish import kit, styles
from innolab.publish.styles import Style
from innolab.report import citation, dark_colours, embedding, execute, figures
from innolab.report.citation import Citation

NAME = "passes"
FONT = "DejaVu Serif"
WIDTHS_MM = {"single": 85.0, "double": 178.0, "post": 190.5}
# Of https://github.com/citation-style-language/schema, those that a report may use.
CSL_KEYS = {
    "id", "type", "title", "author", "issued", "number", "version", "publisher", "note", "DOI",
    "URL", "genre",
}  # fmt: skip
CITED = Citation(
    ({"name": "A group"},), "A title", "a/2026-01-31-1", datetime.date(2026, 1, 31), "0.2.0",
    "c" * 40, {},
)  # fmt: skip


@pytest.fixture(scope="session")
def report() -> Path:
    return reference("multi-buffer-pool")


@pytest.fixture(scope="session")
def made(report: Path, innolab: Innolab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kit as the command makes it, of everything."""
    folder = tmp_path_factory.mktemp("kit") / "for my post"
    done = innolab("figure", str(report), NAME, "--to", str(folder), "--font", FONT, "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["folder"] == str(folder)
    assert sorted(said["files"]) == sorted(path.name for path in folder.iterdir())
    return folder


@pytest.fixture
def house() -> Iterator[None]:
    """The house's style, as a notebook sets it, and what it was afterwards."""
    with matplotlib.rc_context():
        matplotlib.use("agg")
        seaborn.set_theme(style="whitegrid", palette="colorblind", font="DejaVu Sans")
        yield


@pytest.fixture
def drawn(house: None) -> figures.Drawn:
    return _drawn()


def _drawn() -> figures.Drawn:
    """Draw two panels with long words, a legend of two parts, and greys of their own."""
    values = pd.DataFrame({
        "server": np.repeat(["mysql-5.6.24", "mysql-9.7"], 12),
        "device": np.tile(np.repeat(["an array of disks", "a card"], 6), 2),
        "pool": np.tile(["128M", "2G"], 12),
        "case": np.tile(["of one instance", "of two instances", "of 8"], 8),
        "seconds": np.linspace(1, 2, 24),
    })  # fmt: skip
    grid = seaborn.relplot(values, x="case", y="seconds", hue="device", style="pool", col="server")
    for axes in grid.axes.flat:
        axes.axhline(1.5, color="0.4")
        axes.plot([0], [1.5], "w.")
    picture = grid.set(ylabel="seconds that a scan of the whole table takes").figure
    return figures.Drawn(picture, "scans", values, "Seconds a scan.", "From 1 to 2.")


def _pdf_streams(path: Path) -> bytes:
    """Return what a PDF draws, inflated."""
    found = []
    for packed in re.findall(rb"stream\r?\n(.*?)\r?\nendstream", path.read_bytes(), re.DOTALL):
        with contextlib.suppress(zlib.error):
            found.append(zlib.decompress(packed))
    return b"\n".join(found)


def _pdf_text_pt(path: Path) -> set[float]:
    return {float(size) for size in re.findall(rb"/F\S+ ([\d.]+) Tf", _pdf_streams(path))}


def _svg_text_pt(path: Path) -> set[float]:
    """Return the sizes of text drawn as paths, which have 100 units an em."""
    return {
        round(100 * float(scale), 2)
        for scale in re.findall(r"scale\(([\d.]+) -[\d.]+\)", path.read_text())
    }


def _svg_text_colours(path: Path) -> set[str]:
    """Return the colours of text; black is what SVG draws where none is named."""
    texts = re.findall(r'<g id="text_\d+">\s*(?:<!--.*?-->\s*)?<g ([^>]*)>', path.read_text())
    assert texts
    return {
        (re.search(r'fill="(#[0-9a-f]{6})"', given) or re.match("()", given))[1] or "#000000"
        for given in texts
    }


def _background(path: Path) -> str:
    found = re.search(r'<g id="patch_1">.*?fill="(#[0-9a-f]{6})"', path.read_text(), re.DOTALL)
    assert found
    return found[1]


def _rgb(colour: str) -> tuple[float, float, float]:
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return red, green, blue


@pytest.mark.parametrize("tone", ["", "-dark"])
@pytest.mark.parametrize("width", WIDTHS_MM)
def test_pictures_have_the_width_that_their_names_say(made: Path, width: str, tone: str) -> None:
    stem = f"{NAME}-{width}{tone}"
    box = re.search(
        rb"/MediaBox \[ ?0 0 ([\d.]+) ([\d.]+) ?\]", (made / f"{stem}.pdf").read_bytes()
    )
    assert box
    pdf_mm = [float(side) / 72 * 25.4 for side in box.groups()]
    assert pdf_mm[0] == pytest.approx(WIDTHS_MM[width], abs=0.1)
    root = ET.parse(made / f"{stem}.svg").getroot()
    svg_mm = [
        float(root.attrib[side].removesuffix("pt")) / 72 * 25.4 for side in ("width", "height")
    ]
    assert svg_mm == pytest.approx(pdf_mm, abs=0.1)
    with Image.open(made / f"{stem}.png") as picture:
        dpi = 192 if width == "post" else 300
        assert picture.format == "PNG"
        assert picture.size == pytest.approx([mm / 25.4 * dpi for mm in pdf_mm], abs=1.5)
    assert (made / f"{stem}.pdf").read_bytes().startswith(b"%PDF-")


def test_text_has_the_font_and_the_size_that_were_asked_for(made: Path) -> None:
    for width, size in (("single", 7.5), ("double", 8.0), ("post", 10.0)):
        path = made / f"{NAME}-{width}.pdf"
        assert _pdf_text_pt(path) == {size}
        assert _svg_text_pt(path.with_suffix(".svg")) == {size}
        fonts = set(re.findall(rb"/BaseFont /(?:[A-Z]{6}\+)?([\w-]+)", path.read_bytes()))
        assert fonts == {b"DejaVuSerif"}
        assert b"/Subtype /Type3" not in path.read_bytes(), "journals take none"


def test_light_and_dark_text_can_be_read(made: Path) -> None:
    backgrounds = set()
    for tone in ("", "-dark"):
        path = made / f"{NAME}-single{tone}.svg"
        background = _background(path)
        backgrounds.add(background)
        for colour in _svg_text_colours(path):
            assert dark_colours.contrast(_rgb(colour), _rgb(background)) >= 4.5, (tone, colour)
    assert len(backgrounds) == 2
    assert dark_colours.contrast(_rgb(max(backgrounds)), _rgb(min(backgrounds))) > 15


def test_values_are_those_of_the_report(made: Path, report: Path) -> None:
    name = f"{NAME}.csv"
    assert (made / name).read_bytes() == (report / "figures" / name).read_bytes()


def test_values_have_units_as_a_data_package(made: Path) -> None:
    found = frictionless.validate(str(made / "datapackage.json"))
    assert found.valid, found.flatten(["rowNumber", "fieldName", "message"])
    body = json.loads((made / "datapackage.json").read_text())
    fields = {field["name"]: field for field in body["resources"][0]["schema"]["fields"]}
    assert list(fields) == list(pd.read_csv(made / f"{NAME}.csv", nrows=0))
    assert {name: fields[name].get("unit") for name in ("seconds", "low", "high", "server")} == {
        "seconds": "s", "low": "s", "high": "s", "server": None,
    }  # fmt: skip
    assert all(field["description"] for field in fields.values())
    assert body["licenses"] == [{"name": "MIT"}]


def test_the_front_of_a_kit_links_to_what_is_there(made: Path) -> None:
    text = (made / kit.README).read_text()
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert {link for link in links if not (made / link).exists()} == set()
    # Nothing in a kit goes without a word in its front.
    assert {p.name for p in made.iterdir()} - {kit.README} == set(links)
    assert (made / "alt.txt").read_text().startswith("Seconds a scan by case.")
    assert (made / "LICENSE.txt").read_text() == (ROOT / "LICENSE").read_text()


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_html_follows_the_readers_colours_and_screen(made: Path) -> None:
    parser = _Tags()
    parser.feed((made / "snippet.html").read_text())
    tags = [tag for tag, _ in parser.found]
    assert tags == ["figure", "picture", "source", "source", "source", "img", "figcaption"]
    sources = [of for tag, of in parser.found if tag == "source"]
    assert [of["media"] for of in sources] == [
        "(max-width: 480px) and (prefers-color-scheme: dark)",
        "(max-width: 480px)",
        "(prefers-color-scheme: dark)",
    ]
    assert [of["srcset"] for of in sources] == [
        f"{NAME}-single-dark.svg", f"{NAME}-single.svg", f"{NAME}-post-dark.svg",
    ]  # fmt: skip
    [image] = [of for tag, of in parser.found if tag == "img"]
    assert image["src"] == f"{NAME}-post.svg"
    assert image["width"] == "720"
    assert "mysql-9.7" in str(image["alt"])


def test_latex_is_escaped_and_names_files_that_are_there(made: Path) -> None:
    text = (made / "snippet.tex").read_text()
    files = re.findall(r"\]\{([^}]+)\}", text)
    assert files == [f"{NAME}-single.pdf", f"{NAME}-double.pdf"]
    assert all((made / file).is_file() for file in files)
    assert not re.search(r"(?<!\\)[%&#_$^~]", text)
    assert text.count("{") - text.count("\\{") == text.count("}") - text.count("\\}")
    assert r"95 \% intervals" in text
    assert len(set(re.findall(r"\\label\{(.+?)\}", text))) == 2


def test_markdown_has_the_picture_and_its_caption(made: Path) -> None:
    text = (made / "snippet.md").read_text()
    assert re.match(rf"!\[Seconds a scan.*\]\({NAME}-post\.svg\)\n\nSeconds for a full scan", text)


def test_citations_name_the_report(made: Path, report: Path) -> None:
    body = json.loads((report / "manifest.json").read_text())
    number = f"{body['study']}/{body['version']}"
    day = datetime.date.fromisoformat(body["sealed_at"][:10])
    bibtex = (made / "citation.bib").read_text()
    entry = re.fullmatch(r"@techreport\{([\w-]+),\n(?:  \w+ = (?:\{.*\}|[a-z]{3}),\n)+\}\n", bibtex)
    assert entry, bibtex
    fields = dict(re.findall(r"^  (\w+) = (.*),$", bibtex, re.MULTILINE))
    assert bibtex.count("{") == bibtex.count("}")
    assert fields["author"] == "{{innolab contributors}}"
    assert fields["number"] == "{" + number + "}"
    assert fields["year"] == "{" + str(day.year) + "}"
    assert body["rendered_by"]["commit"] in fields["note"]
    [csl] = json.loads((made / "citation.json").read_text())
    assert set(csl) <= CSL_KEYS
    assert csl["type"] == "report"
    assert csl["number"] == number
    assert csl["issued"] == {"date-parts": [[day.year, day.month, day.day]]}
    assert csl["title"] in bibtex


def test_authors_and_licence_are_those_of_the_repository() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["authors"][0]["name"] in citation.credit(citation.sentence("A title", "a/2026-1"))
    assert (ROOT / "LICENSE").read_text().startswith(f"{cited['license']} License")


def test_people_and_addresses_are_cited_too() -> None:
    person = {"given-names": "Ada", "family-names": "L_a"}
    one = Citation(
        (person,), "50 % & more", "a/2026-01-31-1", CITED.date, "0.2.0", None,
        {"doi": "10.5281/zenodo.1"},
    )  # fmt: skip
    assert "author = {L\\_a, Ada}" in one.bibtex()
    assert r"title = {{50 \% \& more}}" in one.bibtex()
    assert "doi = {10.5281/zenodo.1}" in one.bibtex()
    assert one.csl()[0]["author"] == [{"family": "L_a", "given": "Ada"}]
    assert one.csl()[0]["DOI"] == "10.5281/zenodo.1"


def test_the_same_figure_gives_the_same_bytes(house: None, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    # The same too whichever width came before.
    for folder, widths in ((first, "single,post"), (second, "post,single")):
        folder.mkdir()
        kit.pictures(_drawn(), styles.style(widths), CITED, folder)
    names = sorted(path.name for path in first.iterdir())
    assert len(names) == 12
    assert [n for n in names if (first / n).read_bytes() != (second / n).read_bytes()] == []


def test_headings_of_a_legend_begin_its_columns(drawn: figures.Drawn, tmp_path: Path) -> None:
    kit.pictures(drawn, styles.style("double", tones=[False], formats="svg"), CITED, tmp_path)
    [legend] = drawn.picture.legends
    lefts: dict[float, list[str]] = {}
    for text in legend.get_texts():
        lefts.setdefault(round(text.get_window_extent().x0), []).append(text.get_text())
    assert [words[0] for words in lefts.values()] == ["device", "pool"]


def test_a_picture_says_where_it_is_from_and_not_when(drawn: figures.Drawn, tmp_path: Path) -> None:
    kit.pictures(drawn, styles.style("single", tones=[False]), CITED, tmp_path)
    for path in tmp_path.iterdir():
        held = path.read_bytes()
        assert b"a/2026-01-31-1" in held, path.name
        assert not re.search(rb"CreationDate|<dc:date>|Software", held), path.name


def test_nothing_is_cut_off_and_no_labels_overlap(drawn: figures.Drawn, tmp_path: Path) -> None:
    for mm in (60, 85, 178, 300):
        style = styles.style(f"{mm}mm", size_pt=8, tones=[False], formats="png")
        kit.pictures(drawn, style, CITED, tmp_path)
        picture = drawn.picture
        renderer = FigureCanvasAgg(picture).get_renderer()
        room = picture.bbox
        tight = picture.get_tightbbox(renderer)
        assert tight.width * 300 <= room.width + 2, f"{mm} mm"
        assert tight.height * 300 <= room.height + 2, f"{mm} mm"
        for axes in picture.axes:
            boxes = sorted(
                (box.x0, box.x1)
                for label in axes.get_xticklabels()
                if label.get_text() and (box := label.get_window_extent(renderer))
            )
            assert all(a[1] <= b[0] for a, b in itertools.pairwise(boxes)), f"{mm} mm"
            title = axes.title.get_window_extent(renderer)
            assert title.x0 >= 0 and title.x1 <= room.width


def test_marks_of_one_grey_are_seen_on_dark(drawn: figures.Drawn, tmp_path: Path) -> None:
    before = [line.get_color() for axes in drawn.picture.axes for line in axes.lines]
    kit.pictures(drawn, styles.style("single", tones=[True], formats="svg"), CITED, tmp_path)
    text = (tmp_path / "scans-single-dark.svg").read_text()
    assert "#666666" not in text, "a line that is grey on white"
    assert "#ffffff" not in text, "a white mark, hollow on white, is hollow on dark too"
    after = [line.get_color() for axes in drawn.picture.axes for line in axes.lines]
    assert before == after, "the figure has its own colours back"


def test_all_text_has_the_size_asked_for(drawn: figures.Drawn, tmp_path: Path) -> None:
    style = styles.style("100mm", size_pt=11, tones=[False])
    kit.pictures(drawn, style, CITED, tmp_path)
    assert _pdf_text_pt(tmp_path / "scans-100mm.pdf") == {11.0}
    assert _svg_text_pt(tmp_path / "scans-100mm.svg") == {11.0}


def test_a_width_without_room_is_refused(drawn: figures.Drawn, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no room in 30 mm with text of 40 pt"):
        kit.pictures(drawn, styles.style("30mm", size_pt=40), CITED, tmp_path)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"widths": "triple"}, "single, double, post"),
        ({"widths": "12mm"}, "30 to 1000 mm"),
        ({"widths": "-85mm"}, "no width"),
        ({"widths": ""}, "No width"),
        ({"font": "No Such Font"}, "DejaVu Sans"),
        ({"size_pt": 2.0}, "4 to 40 pt"),
        ({"size_pt": float("nan")}, "4 to 40 pt"),
        ({"formats": "svg,gif"}, "svg, png, pdf"),
        ({"formats": ""}, "svg, png, pdf"),
        ({"like": "no-such-style"}, "mplstyle"),
    ],
)
def test_what_cannot_be_drawn_is_refused(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        styles.style(**asked)


def test_a_style_of_matplotlib_gives_font_and_size(tmp_path: Path) -> None:
    path = tmp_path / "journal.mplstyle"
    path.write_text("font.family: serif\nfont.serif: DejaVu Serif\nfont.size: 9\n")
    found = styles.style("single", like=str(path))
    assert found.font == FONT
    assert [width.text_pt for width in found.widths] == [9.0]
    assert styles.style(size_pt=7, font="dejavu sans", like=str(path)).font == "DejaVu Sans"
    path.write_text("font.size: large as life\n")
    with pytest.raises(InputError, match="cannot be read"):
        styles.style(like=str(path))


def test_widths_are_names_and_lengths() -> None:
    found = styles.style("single, 120mm,4.5in,single", size_pt=9).widths
    assert [width.name for width in found] == ["single", "120mm", "4.5in"]
    assert [round(width.mm, 1) for width in found] == [85.0, 120.0, 114.3]


def test_without_a_name_figures_are_listed(innolab: Innolab, report: Path) -> None:
    said = innolab("figure", str(report))
    assert said.returncode == 0
    assert re.search(rf"^{NAME}: Seconds for a full scan", said.stdout, re.MULTILINE)
    body = json.loads(innolab("figure", str(report), "--json").stdout)
    assert {one["name"] for one in body["figures"]} == {
        path.stem for path in (report / "figures").glob("*.svg")
    }


def test_an_unknown_figure_is_refused_with_those_there_are(
    innolab: Innolab, report: Path, tmp_path: Path
) -> None:
    done = innolab("figure", str(report), "../passes", "--to", str(tmp_path / "kit"))
    assert done.returncode == 2
    assert "passes" in done.stderr and "instances" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_figure_speaks_another_language_with_the_same_values(
    innolab: Innolab, report: Path, tmp_path: Path
) -> None:
    words = ("figure", str(report), NAME, "--width", "post", "--light", "--format", "svg")
    done = innolab(*words, "--to", str(tmp_path / "kit"), "--language", "ko")
    assert done.returncode == 0, done.stderr
    assert re.search("[가-힣]", (tmp_path / "kit" / "caption.txt").read_text())
    assert "NanumGothic" in (tmp_path / "kit" / f"{NAME}-post.svg").read_text()
    values = (tmp_path / "kit" / f"{NAME}.csv").read_text()
    assert values == (report / "figures" / f"{NAME}.csv").read_text()
    done = innolab(*words, "--to", str(tmp_path / "other"), "--language", "fr")
    assert done.returncode == 2
    assert "en, ko" in done.stderr
    assert not (tmp_path / "other").exists()


def test_a_folder_that_is_there_is_not_overwritten(report: Path, tmp_path: Path) -> None:
    kept = tmp_path / "mine.txt"
    kept.write_text("mine")
    with pytest.raises(InputError, match="--overwrite"):
        kit.make(report, NAME, Style(), tmp_path)
    with pytest.raises(InputError, match="is a file"):
        kit.make(report, NAME, Style(), kept)
    with pytest.raises(InputError, match="sealed"):
        kit.make(report, NAME, Style(), report / "figures" / "kit", overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_report_that_was_changed_gives_no_kit(report: Path, tmp_path: Path) -> None:
    changed = tmp_path / report.name
    shutil.copytree(report, changed)
    path = changed / "figures" / f"{NAME}.csv"
    path.write_text(path.read_text().replace("1", "2"))
    with pytest.raises(InnolabError, match="not as it was sealed"):
        kit.make(changed, NAME, Style(), tmp_path / "kit")
    assert not (tmp_path / "kit").exists()


@contextlib.contextmanager
def _others(*_: object) -> Iterator[figures.Drawn]:
    values = pd.DataFrame({"case": ["a"], "seconds": [1.0]})
    yield figures.Drawn(Picture(), NAME, values, "Other.", "Other.")


def test_a_figure_that_came_out_otherwise_gives_no_kit(
    report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execute, "drawn", _others)
    with pytest.raises(InnolabError, match=r"(?s)values are others, line 1.*innolab render"):
        kit.make(report, NAME, Style(), tmp_path / "kit")
    assert not (tmp_path / "kit").exists()


@pytest.mark.parametrize(("formats", "snippets_"), [("pdf", {"tex"}), ("svg", {"md", "html"})])
def test_a_kit_has_what_was_asked_for_alone(
    drawn: figures.Drawn,
    report: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    formats: str,
    snippets_: set[str],
) -> None:
    values = pd.read_csv(report / "figures" / f"{NAME}.csv")

    @contextlib.contextmanager
    def same(*_: object) -> Iterator[figures.Drawn]:
        yield dataclasses.replace(drawn, name=NAME, values=values)

    monkeypatch.setattr(execute, "drawn", same)
    kit.make(report, NAME, styles.style("120mm", tones=[True], formats=formats), tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert {n for n in names if n.startswith(f"{NAME}-")} == {f"{NAME}-120mm-dark.{formats}"}
    assert {n for n in names if n.startswith("snippet")} == {
        f"snippet.{kind}" for kind in snippets_
    }
    assert not [n for n in names if n.endswith(".part")]


def test_a_leaflet_is_the_front_of_the_kit(
    drawn: figures.Drawn, report: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "2026-01-31-7"
    folder.mkdir()
    shutil.copy(report / "plan.json", folder)
    shown = figures.publish(*(vars(drawn)[part] for part in (
        "picture", "name", "values", "caption", "alt")), folder)  # fmt: skip
    leaflet = (folder / "figures" / "scans.md").read_text()
    assert "    innolab figure multi-buffer-pool/2026-01-31-7 scans\n" in leaflet
    for part in ("![From 1 to 2.](scans.svg)", r"\includegraphics", "<figcaption>", "MIT"):
        assert part in leaflet
    for link in re.findall(r'<a href="([^"]+)"', shown._repr_html_()):
        assert (folder / link).is_file()
    assert kit.listed(folder) == {"scans": "Seconds a scan."}


def test_a_leaflet_of_no_report_names_none(drawn: figures.Drawn, tmp_path: Path) -> None:
    figures.publish(drawn.picture, "scans", drawn.values, "Said.", "Alt.", tmp_path)
    leaflet = (tmp_path / "figures" / "scans.md").read_text()
    assert "innolab figure" not in leaflet
    assert "Alternative text: Alt." in leaflet


def test_words_are_escaped_for_where_they_go() -> None:
    assert embedding.in_latex("a_b\n{~^\\} <1 %|2> & #$") == (
        r"a\_b \{\textasciitilde{}\textasciicircum{}\textbackslash{}\} \textless{}1 \%"
        r"\textbar{}2\textgreater{} \& \#\$"
    )
    picture = embedding.Picture("a.svg", 1, 1)
    text = embedding.html_figure([picture], [], "<b> & c", 'say "x" <y>')
    assert 'alt="say &#34;x&#34; &lt;y&gt;"' in text
    assert "<figcaption>&lt;b&gt; &amp; c</figcaption>" in text
    assert embedding.markdown(picture, "a*b", "[x]") == "![\\[x\\]](a.svg)\n\na\\*b\n"
