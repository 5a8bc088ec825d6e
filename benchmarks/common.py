"""What the benchmarks share: today's build and a server for a while."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from innolab.base.errors import InputError
from innolab.hosts import machine
from innolab.mysql import builds, server
from innolab.mysql.builds import Build
from innolab.mysql.server import Server, base_settings_file

MIB = 1024**2


def build() -> Build:
    """Return today's MySQL."""
    found = builds.find(machine.cache_folder(), "mysql-9.7")
    if not isinstance(found, Build):
        raise InputError(f"The benchmarks need mysql-9.7: {found.reason}")
    return found


@contextmanager
def fresh_server(place: Path, **settings: str | int) -> Iterator[Server]:
    """Run the block with an empty server whose durability is off, as in loading a dataset."""
    base = base_settings_file(machine.cache_folder())
    server.initialize(build(), place / "data", base)
    relaxed = {
        "innodb_flush_log_at_trx_commit": 0,
        "innodb_doublewrite": "OFF",
        "innodb_flush_method": "O_DIRECT",
        "innodb_buffer_pool_size": 1024 * MIB,
        **settings,
    }
    with Server(build(), place / "data", place / "run", base, relaxed) as running:
        yield running
    subprocess.run(["rm", "-rf", str(place / "data"), str(place / "run")], check=True)
