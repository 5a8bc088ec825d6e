"""The scan as innolab times it against the same query timed by the client's own clock."""

import re
import subprocess
from pathlib import Path

from benchmarks.common import fresh_server
from innolab.base.errors import InnolabError
from innolab.bench import passes
from innolab.hosts import machine
from innolab.mysql.server import Server
from innolab.studies.multi_buffer_pool import table as scan

ROWS = 5_000_000
PAIRS = 30


def against_the_client(place: Path) -> tuple[list[float], list[float]]:
    """Return seconds of a warm scan, in turn by innolab and by the mariadb client."""
    with fresh_server(place) as server:
        scan.recipe(ROWS).load(server, lambda _: None)
        server.query(scan.SCAN)
        seconds: tuple[list[float], list[float]] = [], []
        for pair in range(PAIRS):
            turns = (_ours, _client) if pair % 2 else (_client, _ours)
            for turn in turns:
                seconds[0 if turn is _ours else 1].append(turn(server))
    return seconds


def _ours(server: Server) -> float:
    return passes.run_timed(server, scan.SCAN).cost.seconds


def _client(server: Server) -> float:
    words = [machine.tool("mariadb"), "--no-defaults", f"--socket={server.socket}", "--user=root",
             *_plugin_folder(), "--skip-ssl", "-vvv", "--execute", scan.SCAN]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True)
    if not (found := re.search(r"1 row in set \((?:(\d+) min )?([\d.]+) sec\)", done.stdout)):
        raise InnolabError(f"The client did not time the scan: {done.stdout}{done.stderr}")
    return int(found[1] or 0) * 60 + float(found[2])


def _plugin_folder() -> list[str]:
    """Return where a client in a prefix of its own finds the plugin for 9.7's accounts."""
    prefix = machine.cache_folder() / "tools" / "prefix-mysql-client"
    return [f"--plugin-dir={path}" for path in prefix.glob("usr/lib/*/libmariadb3/plugin")]
