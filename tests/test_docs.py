"""The documents: every command in them works, what they list is what there is, their pages build.

A command stands in a block marked `sh`, or indented in README.md. Each line of one is proven by the
first rule of `RULES` that fits it. A line that none fits fails, so no command goes untested.
"""

import functools
import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from conftest import BIN, COLLECTION, ROOT
from markdown_it import MarkdownIt
from playwright.sync_api import Browser

from innolab import cli, studies
from innolab.cli.options import parameters_of
from innolab.hosts import machine
from innolab.record.runlog import RunLog
from innolab.report import manifest, render
from innolab.studies.study import Study
from innolab.verify import signatures

DOCUMENTS = [
    ROOT / "README.md",
    *(p for p in sorted((ROOT / "docs").rglob("*.md")) if p.parent.name != "decisions"),
]
# The reports that commands name: copied, the second made again by the code under test.
REPORTS = ("multi-buffer-pool/2026-11-28-1", "multi-buffer-pool/2026-11-28-2")
STATE = re.compile(r"(cd|export|source) ")


@dataclass
class Shell:
    """A reader at a clone of the repository, who keeps reports and home elsewhere.

    `before` holds the lines of a block that change what later ones see.
    """

    place: Path
    env: dict[str, str]
    before: list[str] = field(default_factory=list)

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        """Run a line in bash, after the lines before it that count."""
        # The last command is not bash's own process, which completion asks for its name.
        script = "\n".join(["set -e", *self.before, line, ":"])
        return subprocess.run(
            ["bash", "-c", script],
            cwd=self.place,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=300,
        )


def _blocks(document: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the first line's number and the commands of each block."""
    for token in MarkdownIt().parse(document.read_text()):
        if token.map and (
            (token.type == "fence" and token.info in ("sh", "console"))
            or (token.type == "code_block" and document.name == "README.md")
        ):
            whole = token.content.replace("\\\n", " ")
            lines = [_without_comment(line) for line in whole.splitlines()]
            yield token.map[0] + 1, [line for line in lines if line]


def _without_comment(line: str) -> str:
    """Return a command as it would be typed, with the reports that its words stand for."""
    line = line.replace("REPORT REPORT", " ".join(REPORTS)).replace("REPORT", REPORTS[1])
    return re.sub(r"(^|\s+)#( .*)?$", "", line.strip()).removeprefix("$ ")


BLOCKS = [
    pytest.param(lines, id=f"{path.relative_to(ROOT)}:{number}")
    for path in DOCUMENTS
    for number, lines in _blocks(path)
]


# How a line is proven. Each takes the line and the shell, and fails where the line is wrong.


def really(line: str, shell: Shell) -> None:
    """It runs, as written."""
    done = shell.run(line)
    assert done.returncode == 0, done.stdout + done.stderr


def read(line: str, _shell: Shell) -> None:
    """The command line takes it, and the study its parameters: it would measure for long."""
    words = shlex.split(line)
    words = words[words.index("innolab") + 1 :]
    context = _context(words)
    given = context.params
    if "parameter" in given and "study" in given:
        study = _study(given["study"])
        effort = given.get("effort")
        study.check(parameters_of(study, given["scale"], given["parameter"], effort))
    elif given.get("parameter"):
        study = _study(given["report"].partition("/")[0])
        study.check(parameters_of(study, "quick", given["parameter"]))


def _context(words: list[str]) -> Any:
    """Return what the command line makes of words, without running them."""
    verb, *rest = words
    group: Any = typer.main.get_command(cli.app)
    assert verb in group.commands, f"innolab {verb}: there is no such verb"
    return group.commands[verb].make_context(verb, rest)


def _study(name: str) -> Study:
    if name not in studies.names():
        sys.path.append(str(ROOT / "tests" / "other_package"))
    try:
        return studies.find(name)
    finally:
        if sys.path[-1].endswith("other_package"):
            sys.path.pop()


def signed(line: str, shell: Shell) -> None:
    """The signature is good by the file that it names; what else is verified has its own line."""
    read(line, shell)
    words = shlex.split(line)
    signers = shell.place / words[words.index("--signers") + 1]
    faults, notes = signatures.check(shell.place / "reports" / words[2], signers)
    assert not faults
    assert any("alice@example.org" in note for note in notes), notes


def drawn(line: str, shell: Shell) -> None:
    """The style is one that a figure can have; another line draws one."""
    # Here, as this module is read also where no figure can be drawn yet.
    from innolab.publish import styles

    read(line, shell)
    given = _context(shlex.split(line)[1:]).params
    tones = [False] * given["light"] + [True] * given["dark"]
    styles.style(given["width"], given["font"], given["font_size"], tones, given["format"])


def executed(line: str, _shell: Shell) -> None:
    """papermill takes it, and the study its parameters: a whole notebook takes long."""
    from papermill.__main__ import papermill

    given = papermill.make_context("papermill", shlex.split(line)[1:]).params
    study = _study(Path(given["notebook_path"]).stem)
    study.check({name: yaml.safe_load(value) for name, value in given["parameters"]})


def known(line: str, shell: Shell) -> None:
    """Its program has each option: tests/test_wheel.py does what it says."""
    program = re.match(r"python -m build|uvx|uv tool install", line)
    assert program
    said = shell.run(f"{program[0]} --help").stdout
    own = line.partition(" innolab ")[0]
    assert {word for word in shlex.split(own) if word.startswith("--")} <= set(
        re.findall(r"--[a-z-]+", said)
    )
    if program[0] == "uvx":
        read(line, shell)


def clustered(line: str, shell: Shell) -> None:
    """Dask has the command and its options: it would run until it is ended."""
    said = shell.run(f"dask {shlex.split(line)[1]} --help").stdout
    assert {word for word in shlex.split(line) if word.startswith("--")} <= set(
        re.findall(r"--[a-z-]+", said)
    )


def made(line: str, shell: Shell) -> None:
    """There is the target, and make knows what to do: it would measure for long."""
    really(line.replace("make ", "make --dry-run ", 1), shell)
    words = dict(word.partition("=")[::2] for word in shlex.split(line)[2:])
    assert set(words) <= {"STUDY", "SCALE", "EFFORT", "ALSO"}
    study = _study(words.get("STUDY", "multi-buffer-pool"))
    study.check(parameters_of(study, words.get("SCALE", "quick"), None, words.get("EFFORT")))


def played(line: str, shell: Shell) -> None:
    """Playbook and inventory are read, and roles know what is asked: it would change disks."""
    words = shlex.split(line)
    given = [word for before, word in itertools.pairwise(words) if before == "-e"]
    changes = [yaml.safe_load(word) for word in given]
    for asked in changes:
        for name, body in asked.items() if isinstance(asked, dict) else ():
            assert set(body) <= _options(name.removesuffix("_changes")), f"{name}: {body}"
    options = [words.index(option) for option in ("-e",) if option in words]
    _syntax(" ".join(words[: options[0]] if options else words), shell)


def _syntax(line: str, shell: Shell) -> None:
    key = line.replace(" --check", "")
    if key not in _PROVEN:
        really(f"{key} --syntax-check", shell)
        _PROVEN.add(key)


_PROVEN: set[str] = set()


@functools.cache
def _options(role: str) -> set[str]:
    text = (COLLECTION / "roles" / role / "meta" / "argument_specs.yml").read_text()
    specs = yaml.safe_load(text)["argument_specs"]
    return set(next(iter(specs.values()))["options"][role]["options"])


def cloned(line: str, shell: Shell) -> None:
    """A repository is cloned by it; the reader puts in where this one lies."""
    source = shell.place / "home" / "source"
    subprocess.run(["git", "init", "--quiet", source], check=True)
    words = line.replace("ADDRESS", str(source)).replace(" innolab", f" {source}-cloned")
    really(words, shell)


def installed(line: str, shell: Shell) -> None:
    """The packages are there or can be had: it would change this system."""
    really(line.replace("sudo apt install", "apt-get install --simulate"), shell)


def had(line: str, _shell: Shell) -> None:
    """The program is there: what it shows is of another machine."""
    assert shutil.which(shlex.split(line)[0])


def kept(line: str, shell: Shell) -> None:
    """It works, and later lines of its block see what it changed."""
    really(line, shell)
    shell.before.append(line)


# The first that fits a whole line proves it.
RULES: list[tuple[str, Callable[[str, Shell], None]]] = [
    (r"sudo apt install .+", installed),
    (r"git clone ADDRESS innolab", cloned),
    (r"(cd|export|source) .+", kept),
    (r"make [a-z-]+( .+)?", made),
    (r"ansible-playbook .+", played),
    # They measure, or wait for somebody to confirm what happens to disks.
    (r"(PYTHONPATH=\S+ )?innolab run .+", read),
    (r"innolab reproduce \S+( --server \S+| --report \S+)*", read),
    # It installs servers.
    (r"innolab setup", read),
    # It asks a server of the reader's; tests/test_size.py asks real ones.
    (r"innolab size .+", read),
    # Each takes a quarter of a minute, and has tests of its own.
    (r"innolab (render|deposit) .+", read),
    # One figure is drawn; others differ in their style.
    (r"innolab figure \S+ [a-z]\S+ (?!--to my-post).+", drawn),
    # These pages have tests of their own.
    (r"innolab compare .+ --html", read),
    # One report is verified; no other was made again by the code under test.
    (rf"innolab verify {REPORTS[1]}( --json)?", really),
    (r"innolab verify .+ --signers .+", signed),
    (r"innolab verify .+", read),
    (r"(PYTHONPATH=\S+ )?innolab .+", really),
    (r"papermill .+", executed),
    (r"dask (scheduler|worker) .+", clustered),
    (r"(python -m build|uvx|uv tool install) .+", known),
    (r"(echo|cp|nbdiff|ssh-keygen|sha256sum) .+", really),
    (r"(ls|lsblk) .+", had),
]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a reader has: the repository, with two reports that may be signed and compared."""
    place = tmp_path_factory.mktemp("clone")
    for path in ROOT.iterdir():
        if path.name not in ("reports", ".venv", ".git"):
            (place / path.name).symlink_to(path)
    (place / ".venv").symlink_to(BIN.parent)
    for name in REPORTS:
        shutil.copytree(ROOT / "reports" / name, place / "reports" / name)
    for name in REPORTS:
        _remake(place / "reports" / name)
    key = place / "home" / ".ssh" / "id_ed25519"
    key.parent.mkdir(parents=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    return place


def _remake(report: Path) -> None:
    """Make a report's page by today's code, which alone can say whether it is right."""
    body = manifest.read(report)
    study = studies.find(str(body["study"]))
    render.render(study, report)
    runs, _ = RunLog(report / "runs.jsonl", study.kind.upgrade).load()
    manifest.write(study, report, runs, body["time_s"], body["rendered_from"])


@pytest.fixture
def shell(clone: Path) -> Shell:
    env = {
        **os.environ,
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "HOME": str(clone / "home"),
        "INNOLAB_CACHE": str(machine.cache_folder()),
        "INNOLAB_REPORTS": str(clone / "reports"),
        "ANSIBLE_CONFIG": "playbooks/ansible.cfg",
    }
    return Shell(clone, env)


_DONE: set[str] = set()


@pytest.mark.integration
@pytest.mark.parametrize("lines", BLOCKS)
def test_every_command_works(lines: list[str], shell: Shell) -> None:
    for line in lines:
        prove = next((prove for rule, prove in RULES if re.fullmatch(rule, line)), None)
        assert prove, f"no rule says how to test: {line}"
        if prove is kept or line not in _DONE:
            prove(line, shell)
            _DONE.add(line)


def test_a_wrong_command_is_found(shell: Shell) -> None:
    with pytest.raises(AssertionError, match="no such verb"):
        read("innolab runs multi-buffer-pool", shell)
    with pytest.raises(Exception, match="No such option"):
        read("innolab run multi-buffer-pool --size quick", shell)
    with pytest.raises(Exception, match="'thread' is unknown"):
        read("innolab run more-memory -p thread=3", shell)
    with pytest.raises(AssertionError):
        made("make rapport", shell)
    assert _without_comment("innolab list   # studies and reports") == "innolab list"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_verbs_and_options_named_in_sentences_exist(document: Path) -> None:
    group: Any = typer.main.get_command(cli.app)
    makefile = (ROOT / "Makefile").read_text()
    named = re.findall(r"`(?:\.venv/bin/)?((?:innolab|make) [^`]+)`", document.read_text())
    for program, verb, *words in map(shlex.split, named):
        if program == "make":
            assert re.search(rf"^{verb}:", makefile, re.MULTILINE), f"make {verb}"
        elif not verb.startswith("-"):
            assert verb in group.commands, f"innolab {verb}"
            known = {option for param in group.commands[verb].params for option in param.opts}
            assert {word for word in words if word.startswith("-")} <= {*known, "--help"}, words


def test_every_variable_of_the_environment_is_described() -> None:
    sources = (ROOT / "innolab").rglob("*.py")
    used = {
        name
        for path in sources
        for name in re.findall(r"""["'](INNOLAB_[A-Z_]+)["']""", path.read_text())
    }
    page = (ROOT / "docs" / "reference" / "environment.md").read_text()
    assert used == set(re.findall(r"^\| `(INNOLAB_\w+)`", page, re.MULTILINE))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages, built as `make docs` does."""
    place = tmp_path_factory.mktemp("site")
    done = _built(ROOT, place)
    assert done.returncode == 0, done.stdout + done.stderr
    return place


def _built(folder: Path, place: Path) -> subprocess.CompletedProcess[str]:
    # Never with --quiet: it hides warnings from --strict too.
    words = [BIN / "mkdocs", "build", "--strict", "--site-dir", place]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True)


def test_a_broken_link_and_an_unknown_mark_end_the_build(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    clone.mkdir()
    for name in ("Makefile", "mkdocs.yml", "data"):
        (clone / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "docs", clone / "docs")
    page = clone / "docs" / "reference" / "devices.md"
    page.write_text(f"{page.read_text()}\n[nowhere](nowhere.md)\n")
    broken = _built(clone, tmp_path / "site")
    assert broken.returncode == 1
    assert "'nowhere.md'" in broken.stderr
    page.write_text(page.read_text().replace("{{ devices_of_limits }}", "{{ devices_of_dreams }}"))
    assert "devices_of_dreams" in _built(clone, tmp_path / "site").stderr


class _Resources(HTMLParser):
    """What a page loads, as against what it links to."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        loaded = [named.get("src"), named.get("srcset"), named.get("data")]
        if tag in ("link", "use", "image"):
            loaded.append(named.get("href"))
        self.found += [value for value in loaded if value]


def test_the_pages_load_nothing_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 40
    for path in pages:
        parser = _Resources()
        parser.feed(text := path.read_text())
        styles = re.findall(r"(?:@import|url\()\s*['\"]?([^'\")]+)", text)
        away = [one for one in [*parser.found, *styles] if re.match(r"(https?:)?//", one)]
        assert not away, f"{path.relative_to(site)} loads {away}"
    for path in site.rglob("*.css"):
        assert not re.search(r"(?:@import|url\()\s*['\"]?(?:https?:)?//", path.read_text()), path


def test_the_reference_holds_what_the_code_says(site: Path) -> None:
    verbs = (site / "reference" / "command-line.html").read_text()
    assert all(f"innolab {name}" in verbs for name in cli.VERBS)
    checks = (site / "reference" / "checks.html").read_text()
    for name in studies.names():
        study = studies.find(name)
        page = (site / "reference" / "studies" / f"{name}.html").read_text()
        assert all(claim.id in page for claim in study.claims())
        assert all(f">{check}<" in checks for check in study.kind.checks)
        own = study.parameters.model_fields.keys()
        common = (site / "reference" / "studies" / "index.html").read_text()
        assert all(f"<code>{one}</code>" in page or f"<code>{one}</code>" in common for one in own)
    assert "{{" not in "".join(p.read_text() for p in (site / "reference").rglob("*.html"))


@pytest.mark.parametrize("width", [390, 1280])
def test_pages_opened_from_the_disk_fit_and_ask_nobody(
    site: Path, browser: Browser, width: int
) -> None:
    asked: list[str] = []
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.on("request", lambda request: asked.append(request.url))
    for name in ("index", "tutorial", "reference/report", "reference/studies/more-memory"):
        page.goto(f"file://{site}/{name}.html")
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"{name} is {wide} pixels wide"
    if width > 1000:  # On a phone the field lies behind a button.
        page.click("input[name=query]")
        page.keyboard.type("replicates")
        page.wait_for_selector(".md-search-result__item", timeout=10_000)
    assert asked
    assert not [url for url in asked if not url.startswith(("file:", "blob:", "data:"))]
    page.close()
