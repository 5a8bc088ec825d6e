"""The role `tools` brings programs that work: the host's own, or unpacked where it has none."""

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from test_workstation import NEW, new_folder, setup

from innolab.hosts import machine
from innolab.mysql import builds
from innolab.mysql.server import Server, base_settings_file, initialize

pytestmark = [pytest.mark.integration, pytest.mark.thorough]

WANTED = {
    "haproxy": "haproxy",
    "mha": "masterha_manager",
    "sysbench": "sysbench",
    "xfsprogs": "mkfs.xfs",
}
TABLE = ["--db-driver=mysql", "--mysql-user=root", "--mysql-db=test", "--table-size=1000"]


def bring(cache: Path, wanted: Iterable[str], path: str = os.environ["PATH"]) -> Path:
    """Have the playbook bring the tools and no builds; return the folder of their starters."""
    no_builds = {"cache": str(cache), "user": machine.SERVER_USER, "builds": {}, "settings": {}}
    setup(cache, env={"PATH": path}, mysql=no_builds, tools_wanted=list(wanted))
    return cache / "tools/bin"


@pytest.fixture(scope="module")
def unpacked() -> Iterator[Path]:
    """The starters on a host with all that this one has but the wanted tools."""
    with new_folder() as place:
        links = place / "links"
        links.mkdir()
        for folder in os.environ["PATH"].split(":"):
            for program in Path(folder).glob("*"):
                if program.name not in WANTED.values() and not (links / program.name).is_symlink():
                    (links / program.name).symlink_to(program)
        yield bring(place / "cache", WANTED, str(links))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    build, base = (
        builds.find(machine.cache_folder(), NEW),
        base_settings_file(machine.cache_folder()),
    )
    assert isinstance(build, builds.Build), f"make setup could not bring {NEW}: {build}"
    with new_folder() as place:
        initialize(build, place / "data", base)
        with Server(build, place / "data", place / "run", base, {}) as running:
            yield running


def read_a_table(sysbench: list[str | Path], server: Server) -> str:
    """Have sysbench make a table and read it for a second; return what it said."""
    server.query("CREATE DATABASE test")
    words = [*sysbench, "oltp_read_only", *TABLE, f"--mysql-socket={server.socket}", "--time=1"]
    try:
        for step in ("prepare", "run"):
            done = subprocess.run([*words, step], capture_output=True, text=True, cwd="/")
            assert done.returncode == 0, done.stdout + done.stderr
    finally:
        server.query("DROP DATABASE test")
    return done.stdout


def without(*folders: Path) -> list[str]:
    """Return the words before a command for which the host has nothing in some folders."""
    parts = [str(part) for part in folders if part.is_dir()]
    hide = 'while [ "$1" != -- ]; do mount -t tmpfs none "$1"; shift; done; shift; exec "$@"'
    become = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", "--mount", *become, "sh", "-ec", hide, "sh", *parts, "--"]


def test_unpacked_sysbench_needs_nothing_of_the_host(unpacked: Path, server: Server) -> None:
    starter = unpacked / "sysbench"
    assert "/tools/prefix-sysbench/" in starter.read_text()
    parts = (Path("/usr/share/sysbench"), *Path("/usr/lib").glob("*/libmariadb3/plugin"))
    said = read_a_table([*without(*parts), starter], server)
    assert "transactions:" in said
    plugins = server.query("SELECT plugin FROM mysql.user WHERE user = 'root'")
    assert plugins == [("caching_sha2_password",)]


@pytest.mark.skipif(not shutil.which("sysbench"), reason="this host has no sysbench of its own")
def test_sysbench_of_the_host_is_used_as_it_is(folder: Path, server: Server) -> None:
    starter = bring(folder, ["sysbench"]) / "sysbench"
    assert starter.read_text() == f'#!/bin/sh\nexec {shutil.which("sysbench")} "$@"\n'
    assert "transactions:" in read_a_table([starter], server)


def test_unpacked_manager_needs_no_modules_of_the_host(unpacked: Path, folder: Path) -> None:
    starter, settings = unpacked / "masterha_manager", folder / "mha.cnf"
    assert "/tools/prefix-mha/" in starter.read_text()
    servers = "".join(f"[server{n}]\nhostname=127.0.0.1\nport={n}\n" for n in (1, 2))
    settings.write_text(f"[server default]\nmanager_workdir={folder}\n{servers}")
    parts = (Path("/usr/share/perl5"), *Path("/usr/lib").glob("*/perl5"))
    done = subprocess.run(
        [*without(*parts), starter, f"--conf={settings}"], capture_output=True, text=True
    )
    # It has loaded its client of MySQL, and found the version of what else it needs.
    assert "Can't connect to" in done.stderr and "There is no alive server" in done.stderr


def test_unpacked_haproxy_reads_its_settings(unpacked: Path, folder: Path) -> None:
    starter, settings = unpacked / "haproxy", folder / "haproxy.cfg"
    assert "/tools/prefix-haproxy/" in starter.read_text()
    settings.write_text("defaults\n mode tcp\n timeout connect 5s\n timeout client 1h\n"
                        " timeout server 1h\nlisten a\n bind 127.0.0.1:1\n")  # fmt: skip
    done = subprocess.run([starter, "-c", "-f", settings], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_unpacked_mkfs_makes_xfs(unpacked: Path, folder: Path) -> None:
    image = folder / "image"
    with image.open("wb") as file:
        file.truncate(2**29)
    subprocess.run([unpacked / "mkfs.xfs", "-q", image], check=True)
    with image.open("rb") as file:
        assert file.read(4) == b"XFSB"
    assert "/tools/prefix-xfsprogs/" in (unpacked / "mkfs.xfs").read_text()
