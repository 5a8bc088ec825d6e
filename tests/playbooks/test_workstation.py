"""The playbook prepares this machine: real packages, real servers, a cache folder of its own."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from innolab.mysql import builds
from innolab.mysql.server import Server, initialize

pytestmark = pytest.mark.integration

PLAYBOOKS = Path(__file__).parents[2] / "playbooks"
TOOLS = Path(sys.executable).parent
OLD, NEW, MARIADB = "mysql-5.6.24", "mysql-9.7", "mariadb-10.11"
# Nobody listens there. All cases of the names: npm and apt differ in which they prefer.
NOWHERE = "http://127.0.0.1:9"
OFFLINE = {
    name: NOWHERE
    for name in ("npm_config_registry", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
}


@contextmanager
def new_folder() -> Iterator[Path]:
    """Give a folder that the servers' user may enter, which pytest's own it may not."""
    folder = Path(tempfile.mkdtemp(prefix="innolab-test-", dir="/var/tmp"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def setup(cache: Path, *options: str, env: dict[str, str] | None = None, **variables: Any) -> str:
    """Run the playbook and return what it said."""
    variables["innolab_cache"] = str(cache)
    done = subprocess.run(
        [
            TOOLS / "ansible-playbook",
            PLAYBOOKS / "workstation.yml",
            f"--extra-vars={json.dumps(variables)}",
            *options,
        ],
        env={**os.environ, "ANSIBLE_CONFIG": str(PLAYBOOKS / "ansible.cfg"), **(env or {})},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def record(cache: Path, build: str) -> dict[str, Any]:
    return json.loads((cache / f"builds/{build}.json").read_text())


def version_of(built: dict[str, Any]) -> str:
    """Return the version that a build's mysqld reports when it really starts."""
    done = subprocess.run(
        [*built["mysqld"], "--no-defaults", "--version"],
        env={**os.environ, **built["env"]},
        capture_output=True,
        text=True,
        check=True,
    )
    return re.search(r"Ver ([\d.]+)", done.stdout)[1]


@pytest.fixture(scope="module")
def cache() -> Iterator[Path]:
    with new_folder() as folder:
        setup(folder)
        yield folder


@pytest.fixture
def empty() -> Iterator[Path]:
    with new_folder() as folder:
        yield folder


@pytest.mark.thorough
@pytest.mark.parametrize(("build", "series"), [(OLD, "5.6.24"), (NEW, "9.7.")])
def test_build_is_recorded_and_starts(cache: Path, build: str, series: str) -> None:
    built = record(cache, build)
    assert "unavailable" not in built, built
    assert built.keys() - {"plugins"} == {
        "id", "version", "mysqld", "env", "share", "init", "origin", "sha256"
    }  # fmt: skip
    assert built["id"] == build
    assert built["version"] == version_of(built)
    assert built["version"].startswith(series)
    assert Path(built["share"], "english/errmsg.sys").is_file()


@pytest.mark.thorough
def test_every_user_can_read_the_cache(cache: Path) -> None:
    def closed(path: Path) -> bool:
        wanted = 0o005 if path.is_dir() else 0o004
        return path.stat().st_mode & wanted != wanted

    assert [path for path in cache.rglob("*") if not path.is_symlink() and closed(path)] == []


@contextmanager
def server(cache: Path, build: str) -> Iterator[Server]:
    """Start a build on a new data folder with the base my.cnf alone."""
    built, base = builds.find(cache, build), cache / "etc/my.cnf"
    assert isinstance(built, builds.Build)
    with new_folder() as folder:
        initialize(built, folder / "data", base)
        with Server(built, folder / "data", folder / "run", base, {}) as running:
            yield running
        assert "[ERROR]" not in running.error_log


def plain(value: str) -> str:
    """Return a value of my.cnf as the server shows it."""
    if size := re.fullmatch(r"(\d+)M", value):
        return str(int(size[1]) * 2**20)
    return value.strip('"')


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("build", "lacking"),
    [
        (
            OLD,
            {
                "auto_generate_certs",
                "caching_sha2_password_auto_generate_rsa_keys",
                "innodb_page_cleaners",
                "innodb_redo_log_capacity",
                "sha256_password_auto_generate_rsa_keys",
            },
        ),
        (NEW, {"innodb_log_file_size", "innodb_log_files_in_group"}),
    ],
)
def test_server_runs_as_my_cnf_says(cache: Path, build: str, lacking: set[str]) -> None:
    lines = (cache / "etc/my.cnf").read_text().splitlines()
    asked = dict(line.removeprefix("loose_").split(" = ") for line in lines if " = " in line)
    # These two are options whose effect shows elsewhere.
    assert (asked.pop("skip_log_bin"), asked.pop("mysqlx")) == ("ON", "OFF")
    with server(cache, build) as running:
        shown = running.variables()
        plugins = {row[0]: row[1] for row in running.query("SHOW PLUGINS")}
    assert {name for name in asked if name not in shown} == lacking
    for name in asked.keys() - lacking:
        assert shown[name] == plain(asked[name]), name
    assert shown["log_bin"] == "OFF"
    assert plugins.get("mysqlx", "DISABLED") == "DISABLED"


@pytest.mark.thorough
def test_mariadb_is_installed_if_asked_for_and_kept_up_then(empty: Path) -> None:
    others = {"builds": {OLD: {"only_if_asked": True}, NEW: {"only_if_asked": True}}}
    setup(empty, mysql_changes=others, tools_wanted=[])
    assert list((empty / "builds").iterdir()) == []
    setup(empty, mysql_changes=others, tools_wanted=[], mysql_also=[MARIADB])
    built = record(empty, MARIADB)
    assert built["version"].startswith("10.11.") and built["version"].endswith("-MariaDB")
    (empty / f"builds/{MARIADB}.json").write_text("{}")
    setup(empty, mysql_changes=others, tools_wanted=[])
    assert record(empty, MARIADB) == built
    left = {path.name for path in (empty / "builds").iterdir()}
    assert left == {MARIADB, f"{MARIADB}.json"}


@pytest.mark.thorough
def test_second_setup_changes_nothing_and_needs_no_network(cache: Path) -> None:
    said = setup(cache, env=OFFLINE)
    assert " changed=0 " in said and " rescued=0 " in said, said


@pytest.mark.thorough
def test_check_mode_leaves_an_empty_cache_empty(empty: Path) -> None:
    said = setup(empty, "--check", "--diff")
    assert f"{empty}/builds/{OLD} would hold npm package" in said
    assert f"+{empty}/builds/{NEW}: mysql-server-core" in said
    assert list(empty.iterdir()) == []


@pytest.mark.thorough
def test_build_that_cannot_be_had_is_recorded_and_tried_again(empty: Path) -> None:
    assert " failed=0 " in setup(empty, env=OFFLINE)
    for build, fetcher in ((OLD, "npm could not fetch"), (NEW, "apt-get failed")):
        reason = record(empty, build)["unavailable"]
        assert reason.startswith(fetcher) and "check the" in reason

    pin = "0" * 128
    setup(empty, mysql_changes={"builds": {OLD: {"npm": {"sha512": pin}}}})
    reason = record(empty, OLD)["unavailable"]
    assert "is not the pinned one" in reason and pin in reason
    left = {path.name for path in (empty / "builds").iterdir()}
    assert left == {f"{OLD}.json", NEW, f"{NEW}.json"}
    assert version_of(record(empty, NEW)).startswith("9.7.")

    setup(empty)
    assert version_of(record(empty, OLD)) == "5.6.24"


@pytest.mark.thorough
def test_server_of_another_series_is_no_build(cache: Path) -> None:
    """A newer server under the name of an older one would falsify every report on it."""
    said = setup(cache, "--check", "--diff", mysql_changes={"builds": {NEW: {"series": "9.6"}}})
    assert '"unavailable": "its mysqld should report version 9.6 but said' in said


@pytest.mark.thorough
def test_host_without_npm_brings_its_own(empty: Path) -> None:
    """All that the PATH has but npm, as links: npm may share a folder with everything else."""
    links = empty / "bin"
    links.mkdir()
    for folder in os.environ["PATH"].split(":"):
        for program in Path(folder).glob("*"):
            link = links / program.name
            if program.name not in ("npm", "npx", "node", "nodejs") and not link.exists():
                link.unlink(missing_ok=True)
                link.symlink_to(program)
    setup(empty / "cache", env={"PATH": str(links)})
    assert (empty / "cache/tools/npm").is_dir()
    assert version_of(record(empty / "cache", OLD)) == "5.6.24"


@pytest.mark.thorough
def test_wanted_tool_runs(cache: Path) -> None:
    setup(cache, tools_wanted=["mysql-client"])
    client = cache / "tools/bin/mariadb"
    said = subprocess.run([client, "--version"], capture_output=True, text=True, check=True)
    assert "MariaDB" in said.stdout


def test_ansible_lint() -> None:
    done = subprocess.run(
        [TOOLS / "ansible-lint", "--offline", "--profile", "production", "--nocolor"],
        cwd=PLAYBOOKS,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
