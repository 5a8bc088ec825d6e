"""MariaDB as a build: what it is asked for, the studies that run on it, and those that cannot."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Innolab

from innolab import studies
from innolab.base import places
from innolab.base.errors import InputError
from innolab.bench import oltp
from innolab.hosts import machine
from innolab.mysql import builds, makers, server
from innolab.mysql.builds import Build
from innolab.mysql.server import Server, base_settings_file
from innolab.record.run import Run
from innolab.record.runlog import RunLog
from innolab.report.folders import MANIFEST_FILE
from innolab.studies.compressed_insert import inserts

MARIADB = "mariadb-10.11"
VERSION = "10.11.18-MariaDB"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="loop devices and mounts need root")


def test_its_redo_log_has_the_size_of_both_files_of_others() -> None:
    asked = oltp.redo_settings(2_000_000)
    size = asked["loose_innodb_redo_log_capacity"]
    assert makers.settings(VERSION, asked) == {**asked, "loose_innodb_log_file_size": size}
    for other in ("5.6.24", "9.7.4", "10.4.34-MariaDB"):
        assert makers.settings(other, asked) == asked


def test_what_it_has_not_is_left_out_and_the_rest_is_asked_for() -> None:
    asked = oltp.pool_settings(0.5, 2**30) | oltp.flushing_settings()
    found = makers.settings(VERSION, asked)
    assert asked.keys() - found.keys() == {"innodb_buffer_pool_instances", "innodb_monitor_enable"}
    assert found.items() <= asked.items()


def test_a_build_that_was_not_asked_for_names_what_installs_it(folder: Path) -> None:
    (folder / "builds").mkdir()
    (folder / "builds" / "mysql-9.7.json").write_text("{}")
    with pytest.raises(InputError, match=re.escape(places.set_up(MARIADB))):
        builds.find(folder, MARIADB)


def test_a_build_without_a_recipe_is_refused_by_the_setup(innolab: Innolab) -> None:
    done = innolab("setup", "mariadb-5.5")
    assert done.returncode == 2
    assert "There is no recipe for 'mariadb-5.5'" in done.stderr and MARIADB in done.stderr


@pytest.fixture(scope="module")
def build() -> Build:
    found = builds.find(machine.cache_folder(), MARIADB)
    assert isinstance(found, Build), f"{places.set_up(MARIADB)} could not bring it: {found}"
    return found


@pytest.fixture(scope="module")
def by_path(build: Build, reports: Path) -> Build:
    """The same server, known by its path alone."""
    script = reports / "mariadbd"
    folders = f"--character-sets-dir={build.share}/charsets --lc-messages-dir={build.share}"
    script.write_text(f'#!/bin/sh\nexec {" ".join(build.mysqld)} "$@" {folders}\n')
    script.chmod(0o755)
    found = builds.find(machine.cache_folder(), str(script))
    assert isinstance(found, Build)
    return found


@pytest.fixture(scope="module")
def running(by_path: Build, reports: Path) -> Iterator[Server]:
    base, data = base_settings_file(machine.cache_folder()), reports / "mariadb-data"
    server.initialize(by_path, data, base)
    with Server(by_path, data, reports / "mariadb-run", base, oltp.redo_settings(1)) as one:
        yield one


@pytest.mark.alone
@pytest.mark.integration
def test_by_its_path_it_is_known_initialized_and_no_debug_build(running: Server) -> None:
    assert makers.is_mariadb(running.build.version)
    assert not builds.is_debug(running.build)
    found = running.variables()
    assert int(found["innodb_log_file_size"]) == oltp.redo_bytes(1)
    assert "innodb_buffer_pool_instances" not in found
    assert "[ERROR]" not in running.error_log


@pytest.mark.alone
@pytest.mark.integration
@pytest.mark.parametrize("form", ["plain", "compressed", "page"])
def test_its_tables_have_the_pages_asked_for(running: Server, form: str) -> None:
    running.query("CREATE DATABASE IF NOT EXISTS innolab")
    running.query(f"DROP TABLE IF EXISTS innolab.{inserts.TABLE}")
    made = inserts.Table(form, 4, 16).create(running)
    assert inserts.faults(form, 4, made) == ""


@pytest.mark.alone
@pytest.mark.integration
@pytest.mark.parametrize(
    ("study", "where"),
    [
        ("access-paths", "devices=host"),
        ("compressed-insert", "devices=host"),
        ("more-memory", "devices=host"),
        pytest.param("raid-comparison", "arrays=raid1-2", marks=needs_root),
    ],
)
def test_a_study_runs_on_it_and_its_report_verifies(
    folder: Path, innolab: Innolab, study: str, where: str
) -> None:
    env = {"INNOLAB_REPORTS": str(folder)}
    words = ("--scale", "smoke", "-p", f"builds={MARIADB}", "-p", where, "-p", "replicates=1")
    done = innolab("run", study, *words, **env)
    # Other work may load this machine so that no run is valid.
    assert done.returncode == 0 or "No claim could be judged" in done.stderr, done.stderr
    [report] = [path.parent for path in folder.glob(f"{study}/*/{MANIFEST_FILE}")]
    runs, _ = RunLog(report / "runs.jsonl").load()
    assert [run.error for run in runs if run.error] == []
    assert {run.factors["server"] for run in runs} == {MARIADB}
    found = studies.find(study)
    assert found.read(report).undeclared_differences(found.kind.variables) == []
    assert _invalid(runs) <= {"other load", "steal", "overrun", "array as its formula"}
    verified = innolab("verify", str(report), **env)
    assert verified.returncode == 0, verified.stdout


def _invalid(runs: list[Run]) -> set[str]:
    """Return the checks that some run failed."""
    return {one.check for run in runs for one in run.checks if one.result == "invalid"}


@pytest.mark.alone
@pytest.mark.integration
@pytest.mark.parametrize(
    ("study", "why"),
    [
        ("multi-buffer-pool", "its buffer pool has been one since 10.5"),
        ("replication", "global transaction ids are not sets"),
    ],
)
def test_a_study_that_it_cannot_run_is_refused_with_the_reason(
    folder: Path, innolab: Innolab, study: str, why: str
) -> None:
    words = ("plan", study, "--scale", "smoke", "-p", f"builds={MARIADB}")
    done = innolab(*words, INNOLAB_REPORTS=str(folder))
    assert done.returncode == 2
    assert why in " ".join(done.stderr.split())
    assert list(folder.iterdir()) == []
