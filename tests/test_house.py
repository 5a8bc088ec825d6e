"""The shape of the project: layers, locks, notebooks, documents, all of one mind."""

import ast
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

from innolab import cli, studies
from innolab.analysis import claims

# From the ground up. A folder is a layer; a module imports its own layer and those before it.
LAYERS = [
    "base", "hosts", "mysql", "storage", "record", "analysis", "loads", "studies",
    "tables", "threats", "figures", "run", "report", "cli", "notebook",
]  # fmt: skip
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def _layer(module: str) -> int:
    return LAYERS.index(module.split(".")[1])


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
            assert _layer(imported) <= _layer(module), f"{module} imports {imported}, above it"


def test_measuring_and_reporting_meet_in_the_record_only() -> None:
    for path in (ROOT / "innolab" / "run").glob("*.py"):
        assert not any(name.startswith("innolab.report") for name in _imports(path))
    for path in (ROOT / "innolab" / "report").glob("*.py"):
        assert not any(name.startswith("innolab.run.") for name in _imports(path)), path.name


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
    named = {r.name: str(r.specifier) for r in map(Requirement, pip[:-1])}
    assert pip[-1] == "-e ."
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(named) == {*project["dependencies"], "nbval"}
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
    assert [p.stem for p in NOTEBOOKS] == sorted(studies.NAMES)
    for name in studies.NAMES:
        assert claims.published(name)
        assert claims.claims(name)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_source_is_a_paper(path: Path) -> None:
    cells = nbformat.read(path, 4).cells
    for before, cell in itertools.pairwise(cells):
        if cell.cell_type == "code":
            assert before.cell_type == "markdown", "prose before every code cell"
            assert len(cell.source.splitlines()) <= 15
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
    for target in re.findall(r"(?:`|^    )make ([a-z]+)", readme, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"make {target}"
    verbs = {c.name or c.callback.__name__ for c in cli.app.registered_commands if c.callback}
    assert verbs == set(re.findall(r"innolab ([a-z]+)", readme)) & verbs, "a verb is undocumented"
    for path in re.findall(r"\]\(([^)#:]+)\)", readme):
        assert (ROOT / path).exists(), f"README links to {path}"


def test_every_verb_has_help_with_an_example() -> None:
    for command in cli.app.registered_commands:
        name = command.name or command.callback.__name__  # type: ignore[union-attr]
        done = subprocess.run([BIN / "innolab", name, "--help"], capture_output=True, text=True)
        assert done.returncode == 0
        assert f"Example: innolab {name}" in " ".join(done.stdout.split())


def test_citation_and_package_are_of_one_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert citation["version"] == project["version"]


def test_claims_files_are_read_whole() -> None:
    for path in (ROOT / "data" / "claims").glob("*.yml"):
        entries = yaml.safe_load(path.read_text())
        known = [claim.id for claim in claims.claims(path.stem)]
        assert len(known) == sum(len(entry.get("each", [0])) for entry in entries)
        assert len(set(known)) == len(known)
        assert not any("{m" in claim.model_dump_json() for claim in claims.claims(path.stem))
    assert json.loads((ROOT / "data" / "datapackage.json").read_text())["name"] == "innolab"
