"""The package as a wheel: small, whole, of use in an empty folder without rights or compiler."""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import BIN, ROOT, reference
from elsewhere import LOCK, UNPRIVILEGED, clone, installed, python, uv

from innolab import studies
from innolab.hosts import machine
from innolab.report import manifest

pytestmark = pytest.mark.integration

_MOST_BYTES = 1_050_000
# Of an environment without extras, bytecode included.
_MOST_INSTALLED_BYTES = 720_000_000
_COMPILERS = ("cc", "gcc", "c++", "clang", "zig", "make")
# The smallest report, so that it is rendered and verified soonest.
STUDY = "replication"
Run = Callable[..., subprocess.CompletedProcess[str]]


def _built(source: Path, *options: str) -> Path:
    """Return the distribution that `build` makes of a source, without the network."""
    place = source.with_name(f"{source.name}-dist")
    words = [BIN / "python", "-m", "build", "--no-isolation", *options, "--outdir", place, source]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    [found] = place.iterdir()
    return found


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    found = Path(tempfile.mkdtemp(prefix="innolab-wheel-", dir="/var/tmp"))
    found.chmod(0o755)
    yield found
    shutil.rmtree(found)


@pytest.fixture(scope="module")
def source(place: Path) -> Path:
    return clone(place / "source")


@pytest.fixture(scope="module")
def wheel(source: Path) -> Path:
    return _built(source, "--wheel")


@pytest.fixture(scope="module")
def empty(place: Path) -> Path:
    """An empty folder of a user without rights."""
    found = place / "empty"
    found.mkdir()
    if UNPRIVILEGED:
        shutil.chown(found, "nobody", "nogroup")
    return found


@pytest.fixture(scope="module")
def run(wheel: Path, place: Path, empty: Path) -> Run:
    """Run the wheel's command there as that user, with its own programs alone on the path."""
    programs = installed(wheel, place) / "bin"
    assert not any(shutil.which(name, path=str(programs)) for name in _COMPILERS)
    kept = {name: value for name, value in os.environ.items() if name.startswith("LC_")}
    # As root installed it, that user could keep no bytecode beside it, and no start would be quick.
    kept["PYTHONPYCACHEPREFIX"] = str(empty / "home" / "bytecode")

    def call(*words: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*UNPRIVILEGED, programs / "innolab", *words],
            env={**kept, "PATH": str(programs), "HOME": str(empty / "home"), **env},
            cwd=empty,
            capture_output=True,
            text=True,
            timeout=600,
        )

    (empty / "home").mkdir()
    if UNPRIVILEGED:
        shutil.chown(empty / "home", "nobody", "nogroup")
    return call


def _names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as packed:
        return {name for name in packed.namelist() if ".dist-info/" not in name}


def test_it_is_small_and_has_all_that_is_needed_and_nothing_else(wheel: Path, source: Path) -> None:
    assert wheel.stat().st_size < _MOST_BYTES
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=source, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    own = ("data/", "notebooks/", "playbooks/", "CITATION.cff", "LICENSE")
    wanted = {name for name in tracked if name.startswith("innolab/")}
    wanted |= {f"innolab/_files/{name}" for name in tracked if name.startswith(own)}
    assert _names(wheel) == wanted | {"innolab/_files/revision.json"}


def test_it_knows_the_revision_that_it_was_built_from(wheel: Path, source: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        found = json.loads(packed.read("innolab/_files/revision.json"))
    words = ["git", "rev-parse", "HEAD"]
    head = subprocess.run(words, cwd=source, capture_output=True, text=True, check=True).stdout
    lock = hashlib.sha256((source / "requirements.lock").read_bytes()).hexdigest()
    assert found == {"commit": head.strip(), "dirty": False, "lock_sha256": lock}


def test_a_source_archive_gives_the_same_wheel(wheel: Path, source: Path, place: Path) -> None:
    copy = place / "copy"
    shutil.copytree(source, copy)
    archive = _built(copy, "--sdist")
    shutil.unpack_archive(archive, place / "unpacked", filter="data")
    [unpacked] = (place / "unpacked").iterdir()
    again = _built(unpacked, "--wheel")
    assert _names(again) == _names(wheel)
    with zipfile.ZipFile(again) as packed:
        found = json.loads(packed.read("innolab/_files/revision.json"))
    # An archive is of no clone that it is in.
    assert (found["commit"], found["dirty"]) == (None, None)


def test_it_lists_the_studies_and_says_what_is_missing(run: Run, empty: Path) -> None:
    listed = run("list", "--names")
    assert listed.stdout.split() == studies.names(), listed.stderr
    examined = run("doctor", PATH=os.environ["PATH"])
    assert examined.returncode == 1
    assert "Run: innolab setup" in examined.stdout
    assert "in a clone of innolab: make lab" in examined.stdout
    planned = run("plan", "multi-buffer-pool")
    assert planned.returncode == 2
    assert "Run: innolab setup" in planned.stderr
    assert not (empty / "reports").exists()


def test_without_extras_it_is_small_and_says_what_measuring_needs(run: Run, place: Path) -> None:
    venv = place / "venv"
    words = [venv / "bin" / "python", "-m", "compileall", "-q", venv / "lib"]
    subprocess.run(words, check=False, capture_output=True)  # Some packages have tests of syntax.
    files = [path for path in venv.rglob("*") if path.is_file() and not path.is_symlink()]
    assert sum(path.stat().st_size for path in files) < _MOST_INSTALLED_BYTES
    for words in (["run", "multi-buffer-pool"], ["size", "--socket", "/s"], ["setup"]):
        refused = run(*words)
        assert refused.returncode == 2
        assert "pip install 'innolab[measure]'. Nothing was written." in refused.stderr


def test_a_light_install_compares_and_judges(run: Run, place: Path) -> None:
    found = sorted(ROOT.glob("reports/multi-buffer-pool/*/manifest.json"))
    compared = run("compare", *(path.parent for path in found[:2]))
    assert compared.returncode == 0, compared.stderr
    data = ROOT / "data" / "judged" / "percona-buffer-pool-2026"
    for suffix in (".csv", ".yml"):
        shutil.copy(data.with_suffix(suffix), place)
    judged = run("judge", place / f"{data.name}.csv", "--about", place / f"{data.name}.yml")
    assert judged.returncode == 0, judged.stderr


def test_it_plans_a_study_where_servers_are_installed(run: Run) -> None:
    cache = str(machine.cache_folder())
    done = run(
        "plan", "multi-buffer-pool", "--scale", "smoke", "-p", "devices=host",
        INNOLAB_CACHE=cache, PATH=os.environ["PATH"],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "multi-buffer-pool at scale smoke, effort smoke: 1 block of" in done.stdout


@pytest.fixture(scope="module")
def rendered(run: Run, place: Path, empty: Path) -> Path:
    """A report that the wheel rendered from the runs of one that lies anywhere."""
    anywhere = place / "anywhere" / "a-report"
    shutil.copytree(reference(STUDY), anywhere)
    done = run("render", anywhere)
    assert done.returncode == 0, done.stderr
    report = Path(done.stdout.strip()).parent
    assert report.parent == empty / "reports" / STUDY
    return report


def test_a_report_that_it_renders_names_its_revision_and_lock(
    rendered: Path, source: Path, run: Run
) -> None:
    body = manifest.read(rendered)
    assert body["lock_sha256"] == manifest.digest(LOCK)
    assert body["rendered_by"]["dirty"] is False
    assert body["rendered_by"]["commit"] is not None
    assert f"  {STUDY}/{rendered.name}" in run("list").stdout.splitlines()


def test_a_report_that_lies_anywhere_verifies(rendered: Path, run: Run, place: Path) -> None:
    moved = place / "moved"
    shutil.copytree(rendered, moved)
    done = run("verify", moved)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{moved.name} holds" in done.stdout
    (moved / "verdicts.json").write_text("[]\n")
    assert "verdicts.json: changed after the report was sealed" in run("verify", moved).stdout


def test_uvx_runs_it(wheel: Path) -> None:
    said = uv("tool", "run", "--quiet", "--python", python(), "--from", wheel,
              "--constraints", LOCK, "innolab", "list", "--names")  # fmt: skip
    assert said.split() == studies.names()
