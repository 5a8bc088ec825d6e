"""The shape of the project: rooms, locks, notebooks, documents, all of one mind."""

import ast
import graphlib
import importlib
import importlib.util
import itertools
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import frictionless
import nbformat
import pytest
import yaml
from conftest import BIN, ROOT
from packaging.requirements import Requirement

import innolab
from innolab import cli, studies

# What a study is made of, from the ground up: a room imports itself and those before it.
GROUND = [
    "base", "hosts", "mysql", "storage", "record", "analysis", "bench", "studies", "report",
]  # fmt: skip
# What a user does: these rooms share those below and, but for two pairs, nothing else.
USES = ["measure", "verify", "compare", "publish", "tables", "sizing", "fleet"]
# The hosts of a fleet measure blocks, and a judged table is verified as a report is.
PAIRS = {("fleet", "measure"), ("verify", "tables")}
TOP = ["notebook", "cli"]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def _room(module: str) -> str:
    return module.split(".")[1]


def _floor(room: str) -> int:
    floors = [[one] for one in GROUND] + [USES] + [[one] for one in TOP]
    return next(n for n, rooms in enumerate(floors) if room in rooms)


def _imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("innolab"):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {n for n in names if n.count(".") >= 1}
        elif isinstance(node, ast.Import):
            found |= {a.name for a in node.names if a.name.startswith("innolab.")}
    return {name for name in found if name != "innolab.__version__"}


def test_imports_run_downward_only() -> None:
    for path in sorted((ROOT / "innolab").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        if module == "innolab.__init__":
            continue
        for imported in _imports(path):
            pair = _room(module), _room(imported)
            below = _floor(pair[1]) < _floor(pair[0])
            assert below or pair[0] == pair[1] or pair in PAIRS, f"{module} imports {imported}"


def test_no_modules_import_each_other_in_a_circle() -> None:
    modules = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path
        for path in (ROOT / "innolab").rglob("*.py")
        if path.name != "__init__.py"
    }
    graph = {
        name: {found for n in _imports(path) for found in (n, n.rpartition(".")[0])} & set(modules)
        for name, path in modules.items()
    }
    graphlib.TopologicalSorter(graph).prepare()


def test_every_room_is_known() -> None:
    rooms = {path.parent.name for path in (ROOT / "innolab").glob("*/__init__.py")}
    assert rooms | {"notebook"} == {*GROUND, *USES, *TOP}
    page = (ROOT / "docs" / "explanation" / "house.md").read_text()
    assert set(re.findall(r"^\| `(\w+)(?:\.py)?` \|", page, re.MULTILINE)) == {*rooms, "notebook"}


def test_no_study_uses_what_another_has_for_itself() -> None:
    for path in (ROOT / "innolab").rglob("*.py"):
        of_studies = {name.split(".")[2] for name in _imports(path) if name.count(".") > 2
                      and (ROOT / "innolab" / "studies" / name.split(".")[2]).is_dir()}  # fmt: skip
        assert of_studies <= {path.parent.name}, path


def test_a_public_class_has_its_own_name() -> None:
    """A function is read with its module, as in `stats.mean`; a class is imported by its name."""
    places: dict[str, list[str]] = {}
    for path in (ROOT / "innolab").rglob("*.py"):
        if path.parent.parent.name == "studies" or path.parent.name == "cli":
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(path.stem)
    assert {name: of for name, of in places.items() if len(of) > 1} == {}


def test_help_needs_no_heavy_library() -> None:
    heavy = {"pandas", "scipy", "numpy", "pydantic", "mysql", "papermill", "matplotlib", "yaml"}
    code = "import sys, innolab.cli; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert not heavy & set(loaded.stdout.split())


def test_environment_yml_agrees_with_the_lock() -> None:
    locked: dict[str, str] = {}
    for line in (ROOT / "requirements.lock").read_text().splitlines():
        if re.match(r"^[a-z0-9]", line):
            wanted = Requirement(line.rstrip(" \\"))
            if wanted.marker is None or wanted.marker.evaluate(
                {"python_full_version": "3.11.7", "python_version": "3.11"}
            ):
                locked[wanted.name] = str(wanted.specifier)
    pip = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"][-1]["pip"]
    named = {r.name: str(r.specifier) for r in map(Requirement, pip)}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = {*project["dependencies"], *extras["measure"], *extras["jupyter"], "nbval"}
    assert set(named) == wanted
    assert {name: locked[name] for name in named} == named


@pytest.mark.parametrize("name", ["requirements.lock", "bootstrap.lock"])
def test_locks_carry_hashes_and_no_host(name: str) -> None:
    text = (ROOT / name).read_text()
    assert "://" not in text
    packages = re.findall(r"^[a-z0-9][^\n]*\n(?:    --hash[^\n]*\n?)+", text, re.MULTILINE)
    assert len(packages) == len(re.findall(r"^[a-z0-9]", text, re.MULTILINE))


def test_published_data_are_as_the_package_describes_them() -> None:
    report = frictionless.validate(str(ROOT / "data" / "datapackage.json"))
    assert report.valid, report.flatten(["rowNumber", "fieldName", "message"])
    described = {
        r.path for r in frictionless.Package(str(ROOT / "data/datapackage.json")).resources
    }
    data = ROOT / "data"
    present = {str(p.relative_to(data)) for p in data.rglob("*.csv")}
    assert described == present


def test_every_study_has_its_notebook_figures_and_claims() -> None:
    assert [p.stem for p in NOTEBOOKS] == sorted(studies.names())
    for name in studies.names():
        study = studies.find(name)
        assert study.published()
        assert study.claims()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_source_is_a_paper(path: Path) -> None:
    cells = nbformat.read(path, 4).cells
    for before, cell in itertools.pairwise(cells):
        if cell.cell_type == "code":
            assert before.cell_type == "markdown", "prose before every code cell"
            # A parameter is a line, however many a study has.
            is_list = "parameters" in cell.metadata.get("tags", [])
            assert len(cell.source.splitlines()) <= 15 or is_list
            assert not re.search(r"^\s*(def|class) ", cell.source, re.MULTILINE)
            assert cell.outputs == []
            assert cell.execution_count is None


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebooks_parameters_are_the_studys_with_its_defaults(path: Path) -> None:
    cells = nbformat.read(path, 4).cells
    [cell] = [c for c in cells if "parameters" in c.metadata.get("tags", [])]
    written: dict[str, object] = {}
    exec(cell.source, {}, written)
    model = studies.find(path.stem).parameters
    assert written == model().model_dump()


def test_readme_names_targets_and_verbs_that_exist() -> None:
    readme = (ROOT / "README.md").read_text()
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"(?:`|^    )make ([a-z-]+)", readme, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"make {target}"
    assert len(readme.split()) <= 900
    page = (ROOT / "docs" / "reference" / "command-line.md").read_text()
    verbs = set(cli.VERBS)
    named = set(re.findall(r"innolab ([a-z]+)", readme + page))
    assert verbs == named & verbs, "a verb has no example"
    for path in re.findall(r"\]\(([^)#:]+)\)", readme):
        assert (ROOT / path).exists(), f"README links to {path}"


def test_every_verb_has_help_with_an_example() -> None:
    for name in cli.VERBS:
        done = subprocess.run([BIN / "innolab", name, "--help"], capture_output=True, text=True)
        assert done.returncode == 0
        assert f"Example: innolab {name}" in " ".join(done.stdout.split())


def test_citation_and_package_are_of_one_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert citation["version"] == project["version"]


def test_claims_files_are_read_whole() -> None:
    for name in studies.names():
        found = studies.find(name).claims()
        assert len({claim.id for claim in found}) == len(found)
        assert not any("{" in claim.says for claim in found), "a sentence has a gap left"
    assert json.loads((ROOT / "data" / "datapackage.json").read_text())["name"] == "innolab"


def test_no_name_that_a_notebook_uses_is_a_room() -> None:
    """Once a room is imported, its name would be the module and not what is offered."""
    rooms = {path.parent.name for path in (ROOT / "innolab").glob("*/__init__.py")}
    assert rooms.isdisjoint(innolab._OFFERED)


def test_what_tests_and_benchmarks_import_is_there() -> None:
    """Neither ruff nor mypy reads all of them, and some run on request alone."""
    for path in [*(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").glob("*.py")]:
        for name in _imports(path):
            module, _, member = name.rpartition(".")
            holder = importlib.import_module(module)
            is_module = hasattr(holder, "__path__") and importlib.util.find_spec(name)
            assert is_module or hasattr(holder, member), f"{path.name}: there is no {name}"
