"""Bad input: one paragraph that says what to do, exit status 2, nothing written or changed."""

import json
import os
import re
import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest
from conftest import BIN, Innolab

from innolab.base.errors import InputError
from innolab.hosts import machine
from innolab.mysql import builds, datasets

pytestmark = pytest.mark.integration

_RUN = ("run", "multi-buffer-pool", "--scale", "smoke")
_BAD = {
    "study": (("run", "nosuch"), "There are: access-paths, compressed-insert"),
    "parameter": ((*_RUN, "-p", "threads=3"), "'threads' is unknown"),
    "no value": ((*_RUN, "-p", "threads"), "write it as NAME=VALUE"),
    "scale": (("run", "multi-buffer-pool", "--scale", "huge"), "'smoke', 'quick' or 'paper'"),
    "type": ((*_RUN, "-p", "replicates=many"), "'replicates' is 'many'"),
    "negative": ((*_RUN, "-p", "replicates=-1"), "'replicates' is -1"),
    "zero": ((*_RUN, "-p", "replicates=0"), "'replicates' is 0"),
    "absurd size": ((*_RUN, "-p", "rows=1000000000000"), "'rows' is 1000000000000"),
    "odd size": ((*_RUN, "-p", "rows=5000001"), "multiple of 5,000,000"),
    "key block": (
        ("run", "compressed-insert", "-p", "key_block_kib=3"),
        "should be 1, 2, 4, 8 or 16",
    ),
    "block above page": (
        ("run", "compressed-insert", "-p", "key_block_kib=8", "-p", "page_kib=4"),
        "KEY_BLOCK_SIZE 8 is larger",
    ),
    "pool above memory": ((*_RUN, "-p", "rows=1000000000"), "of memory"),
    "build": ((*_RUN, "-p", "builds=mysql-3.23"), "There is no build 'mysql-3.23'"),
    "build twice": ((*_RUN, "-p", "builds=mysql-9.7,mysql-9.7"), "name each one once"),
    "no such path": ((*_RUN, "-p", "builds=/no/mysqld"), "not an executable file"),
    "not a mysqld": ((*_RUN, "-p", "builds=/bin/true"), "does not answer --version"),
    "version": ((*_RUN, "--version", "first"), "a version is a day and a number"),
    "report": (("verify", "nosuch/2026-01-31-1"), "There is no report"),
    "comparing": (("compare", "a", "b"), "There is no report 'a'"),
    "rendering": (("render", "nosuch"), "There is no report"),
    "verb": (("frobnicate",), "No such command"),
}


def _snapshot(*folders: Path) -> set[str]:
    return {str(path) for folder in folders for path in folder.rglob("*")}


# A version is read once nobody else measures: another run may be about to take it.
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.alone if name == "version" else ()) for name in _BAD],
)
def test_bad_input_is_explained_and_changes_nothing(
    innolab: Innolab, folder: Path, name: str
) -> None:
    words, said = _BAD[name]
    watched = (folder, machine.cache_folder() / "datasets", machine.cache_folder() / datasets.WORK)
    before = _snapshot(*watched)
    done = innolab(*words, INNOLAB_REPORTS=str(folder))
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert _snapshot(*watched) == before


@pytest.mark.alone
def test_two_runs_at_once_are_refused(innolab: Innolab, folder: Path) -> None:
    with machine.measuring_alone():
        done = innolab(*_RUN, INNOLAB_REPORTS=str(folder))
    assert done.returncode == 2
    assert f"process {os.getpid()}" in done.stderr
    assert _snapshot(folder) == set()


@pytest.mark.alone
def test_a_report_that_exists_is_refused(innolab: Innolab, folder: Path) -> None:
    taken = folder / "multi-buffer-pool" / "2026-01-31-1"
    taken.mkdir(parents=True)
    done = innolab(*_RUN, "--version", taken.name, INNOLAB_REPORTS=str(folder))
    assert done.returncode == 2
    assert "exists already" in done.stderr
    assert _snapshot(folder) == {str(taken.parent), str(taken)}


@pytest.mark.alone
@pytest.mark.parametrize("verb", [_RUN, ("index",)])
def test_a_reports_folder_that_cannot_be_written_is_explained(
    innolab: Innolab, folder: Path, verb: tuple[str, ...]
) -> None:
    (folder / "file").touch()
    done = innolab(*verb, INNOLAB_REPORTS=str(folder / "file" / "reports"))
    assert done.returncode == 2
    assert "INNOLAB_REPORTS" in done.stderr


def test_a_cache_without_builds_names_the_setup(innolab: Innolab, folder: Path) -> None:
    done = innolab(*_RUN, INNOLAB_CACHE=str(folder), INNOLAB_REPORTS=str(folder))
    assert done.returncode == 2
    assert "Run: make setup" in done.stderr
    assert innolab("doctor", INNOLAB_CACHE=str(folder)).returncode == 1


def test_a_cache_too_deep_for_a_socket_is_explained(innolab: Innolab, folder: Path) -> None:
    deep = folder / ("deep" * 30)
    done = innolab(*_RUN, INNOLAB_CACHE=str(deep), INNOLAB_REPORTS=str(folder))
    assert done.returncode == 2
    assert "longer than a unix socket's may be" in done.stderr


def test_builds_that_cannot_be_had_are_left_out_and_none_is_an_error(
    innolab: Innolab, folder: Path
) -> None:
    (folder / "builds").mkdir()
    shutil.copytree(machine.cache_folder() / "etc", folder / "etc")
    (folder / "tools").symlink_to(machine.cache_folder() / "tools")
    shutil.copy(machine.cache_folder() / "builds" / "mysql-5.6.24.json", folder / "builds")
    gone = {"id": "mysql-9.7", "unavailable": "this host has no apt-get"}
    (folder / "builds" / "mysql-9.7.json").write_text(json.dumps(gone))
    env = {"INNOLAB_CACHE": str(folder), "INNOLAB_REPORTS": str(folder)}
    done = innolab("plan", "multi-buffer-pool", "--scale", "smoke", **env)
    assert done.returncode == 0
    assert "not run: mysql-9.7: this host has no apt-get" in done.stdout
    assert "server=mysql-5.6.24" in done.stdout
    assert "server=mysql-9.7" not in done.stdout
    alone = innolab(*_RUN, "-p", "builds=mysql-9.7", **env)
    assert alone.returncode == 2
    assert "this host has no apt-get" in alone.stderr


def test_too_little_disk_is_explained_before_loading(folder: Path) -> None:
    with pytest.raises(InputError, match=r"free\. Make room"):
        datasets.require_disk(folder, 10**18)


@pytest.mark.alone
@pytest.mark.thorough
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount the small disk that this needs")
def test_a_small_disk_is_explained_by_the_run(folder: Path) -> None:
    cache = machine.cache_folder()
    script = (
        f"mount -t tmpfs -o size=300m tmpfs {folder} && "
        f"ln -s {cache}/builds {cache}/etc {cache}/tools {folder} && "
        f"exec env INNOLAB_CACHE={folder} INNOLAB_REPORTS={folder}/reports {BIN}/innolab "
        f"{' '.join(_RUN)}"
    )
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "300 MiB free" in done.stderr


def _imposter(folder: Path) -> Path:
    """A real mysqld behind a script, whose help admits to debugging as a debug build's does."""
    found = builds.find(machine.cache_folder(), "mysql-9.7")
    assert isinstance(found, builds.Build)
    real = f'{" ".join(found.mysqld)} "$@" --lc-messages-dir={found.share}'
    script = folder / "mysqld"
    script.write_text(
        textwrap.dedent(f"""\
        #!/bin/sh
        case "$*" in *--help*) echo "  -#, --debug[=name]  Write log"; {real}; exit;; esac
        exec {real}
        """)
    )
    script.chmod(0o755)
    return script


@pytest.mark.alone
@pytest.mark.thorough
def test_a_debug_build_given_by_path_runs_and_supports_no_verdict(
    innolab: Innolab, folder: Path
) -> None:
    words = (*_RUN, "-p", f"builds={_imposter(folder)}", "-p", "replicates=1")
    done = innolab(*words, INNOLAB_REPORTS=str(folder / "reports"))
    assert done.returncode == 0, done.stderr
    report = Path(done.stdout.splitlines()[-1]).parent
    verdicts = json.loads((report / "verdicts.json").read_text())
    assert {v["verdict"] for v in verdicts} == {"not-run"}
    assert any("this is a debug build" in v["reason"] for v in verdicts)
    page = (report / "index.html").read_text()
    assert re.search(r"Not valid: (\d+) of \1 runs", page)
    assert "Do not quote the numbers of these runs" in page
    assert innolab("verify", str(report)).returncode == 0
    for kept in (machine.cache_folder() / "datasets").glob("scan-5000000-*-mysqld-9.7*"):
        shutil.rmtree(kept)
