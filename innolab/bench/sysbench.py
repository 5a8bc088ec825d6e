"""sysbench's OLTP load: its command line, one run of it against a server, and what it prints.

Latencies are service times: each thread of a closed loop sends its next transaction when the last
one has ended, so what waits for a slow one is not counted (coordinated omission).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from innolab.base.errors import InnolabError
from innolab.hosts.base import Done, Host, TimedOutError
from innolab.mysql.server import Server

SCHEMA = "innolab"
TABLE = f"{SCHEMA}.sbtest1"
SCRIPTS = {"read_only": "oltp_read_only", "read_write": "oltp_read_write"}
# What each distribution of a study is to sysbench. Never left to sysbench's own default, which is
# `special`: the published studies used `uniform`. It cannot draw `zipf`, which our script adds.
# `hot` is `special` whose hot rows the workload's options say.
DISTRIBUTIONS = {"uniform": "uniform", "special": "special", "pareto": "pareto", "zipf": "uniform",
                 "hot": "special"}  # fmt: skip
_ZIPF = Path(__file__).with_name("zipf.lua")
# Without BEGIN and COMMIT a transaction is its queries, of which the reading load has 14.
_NO_COMMITS, _SELECTS = "--skip_trx=on", 14
# After its time is up a transaction may still wait for the device.
_GRACE_S = 120


@dataclass(frozen=True)
class Workload:
    """What is asked of the server.

    Attributes
    ----------
    rows : the size of the one table
    options : further words for sysbench, which set what a transaction is
    """

    load: str
    rows: int
    threads: int
    distribution: str
    seed: int
    options: tuple[str, ...] = ()

    def next(self) -> "Workload":
        """Return the same workload with the seed of its next run, which draws other ids."""
        return replace(self, seed=self.seed + 1)

    @property
    def selects_a_transaction(self) -> int | None:
        """Return how many SELECTs a transaction is, where none is committed; None elsewhere."""
        return _SELECTS if _NO_COMMITS in self.options else None


def transactions(
    samples: Sequence[Mapping[str, float]], selects_a_transaction: int | None
) -> list[dict[str, float]]:
    """Return a server's counters with transactions, also where none is committed."""
    if selects_a_transaction is None:
        return [dict(sample) for sample in samples]
    return [
        {**sample, "transactions": sample["selects"] / selects_a_transaction} for sample in samples
    ]


PERCENTILES = (50, 95, 99)
# `err/s` stands with and without a colon, by release.
_INTERVAL = re.compile(
    r"^\[ *(?P<t_s>\d+)s \] thds: (?P<threads>\d+) tps: (?P<tps>[\d.]+) qps: (?P<qps>[\d.]+) .*?"
    r"lat \(ms,\d+%\): (?P<latency_ms>[\d.]+) err/s:? (?P<errors_per_s>[\d.]+) "
    r"reconn/s:? (?P<reconnects_per_s>[\d.]+)",
    re.MULTILINE,
)
_BUCKET = re.compile(r"^ +([\d.]+) \|[* ]* +(\d+)$", re.MULTILINE)
_TOTALS = {
    "writes": r"^ +write: +(\d+)",
    "transactions": r"^ +transactions: +(\d+)",
    "queries": r"^ +queries: +(\d+)",
    "errors": r"^ +ignored errors: +(\d+)",
    "reconnects": r"^ +reconnects: +(\d+)",
}
_SECONDS = r"^ +total time: +([\d.]+)s"


class Second(NamedTuple):
    """One line of progress: what a second of the run gave."""

    t_s: float
    threads: int
    tps: float
    qps: float
    latency_ms: float
    errors_per_s: float
    reconnects_per_s: float


class SysbenchResult(NamedTuple):
    """A whole run. Percentiles are of service times, in milliseconds, by their number.

    `writes` are the statements that write among the queries; `histogram` has the upper end of each
    bucket in milliseconds, and how many transactions took as long.
    """

    writes: int
    transactions: int
    queries: int
    errors: int
    reconnects: int
    seconds: float
    percentiles_ms: dict[int, float]
    intervals: list[Second]
    histogram: list[tuple[float, int]]

    @property
    def tps(self) -> float:
        """Return transactions per second over the whole run."""
        return self.transactions / self.seconds


def parse(text: str) -> SysbenchResult:
    """Return the numbers of a finished run with `--histogram`.

    Raises
    ------
    InnolabError
        If any of them is missing, as of a run that died; quotes its FATAL lines.
    """
    totals = {name: re.search(pattern, text, re.MULTILINE) for name, pattern in _TOTALS.items()}
    seconds = re.search(_SECONDS, text, re.MULTILINE)
    buckets = [(float(ms), int(count)) for ms, count in _BUCKET.findall(text)]
    if seconds is None or not all(totals.values()) or not buckets:
        raise InnolabError(f"sysbench did not finish its run. It said: {last_words(text)}")
    counts = {name: int(found[1]) for name, found in totals.items() if found}
    return SysbenchResult(
        **counts,
        seconds=float(seconds[1]),
        percentiles_ms={p: percentile(buckets, p) for p in PERCENTILES},
        intervals=intervals(text),
        histogram=buckets,
    )


def intervals(text: str) -> list[Second]:
    """Return the progress lines, one a second."""
    return [
        Second(
            float(line["t_s"]),
            int(line["threads"]),
            *(float(line[name]) for name in Second._fields[2:]),
        )
        for line in _INTERVAL.finditer(text)
    ]


def percentile(buckets: Sequence[tuple[float, int]], percent: float) -> float:
    """Return the smallest bucket that holds a percentile, as sysbench itself computes it.

    >>> percentile([(1.0, 90), (2.0, 9), (3.0, 1)], 95)
    2.0
    """
    needed = sum(count for _, count in buckets) * percent / 100
    seen = 0
    for value, count in buckets:
        seen += count
        if seen >= needed:
            return value
    raise AssertionError("unreachable")


def last_words(text: str) -> str:
    """Return sysbench's distinct FATAL lines, else its last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    fatal = dict.fromkeys(line for line in lines if "FATAL" in line)
    return " | ".join(list(fatal)[:3] or lines[-1:] or ["nothing"])[:600]


class LoadResult(NamedTuple):
    """A run's result, and the CPU seconds that sysbench itself took."""

    result: SysbenchResult
    cpu_s: float


def argv(workload: Workload, server: Server, *options: str) -> list[str]:
    """Return sysbench's words for a workload; the last of `options` is the command."""
    zipf = workload.distribution == "zipf"
    script = copied(server.host, server.folder, _ZIPF) if zipf else SCRIPTS[workload.load]
    return [
        *command(server, script, workload.threads, workload.seed),
        "--tables=1",
        f"--table_size={workload.rows}",
        f"--rand-type={DISTRIBUTIONS[workload.distribution]}",
        *workload.options,
        *options,
    ]


def command(server: Server, script: str, threads: int, seed: int) -> list[str]:
    """Return the words that any script begins with, on the server's own host."""
    to = [f"--mysql-socket={server.socket}", "--mysql-user=root"]
    return _command(server.host, script, to, threads, seed)


def command_to_ports(
    host: Host,
    script: str,
    addresses: Sequence[str],
    ports: Sequence[int],
    user: str,
    threads: int,
    seed: int,
) -> list[str]:
    """Return the words that any script begins with; connections lead to addresses in turn.

    Parameters
    ----------
    host : where sysbench runs
    ports : each of all addresses, the first before the next
    user : an account without a password
    """
    port = ",".join(map(str, ports))
    to = [f"--mysql-host={','.join(addresses)}", f"--mysql-port={port}", f"--mysql-user={user}"]
    return _command(host, script, to, threads, seed)


def _command(host: Host, script: str, to: list[str], threads: int, seed: int) -> list[str]:
    return [
        host.tool("sysbench"),
        script,
        "--db-driver=mysql",
        *to,
        f"--mysql-db={SCHEMA}",
        f"--threads={threads}",
        f"--rand-seed={seed}",
    ]


def copied(host: Host, folder: Path, script: Path) -> str:
    """Return the path of a script of ours in a folder of a host, which servers' user can read."""
    copy = folder / script.name
    host.write(copy, script.read_text())
    return str(copy)


def run(server: Server, workload: Workload, duration_s: int) -> LoadResult:
    """Run a workload for some seconds and return what it gave.

    Raises
    ------
    InnolabError
        If sysbench or the server dies, or refuses a connection; quotes the one that did.
    """
    words = argv(workload, server, *timed(duration_s))
    return load(server, words, duration_s, INNOLAB_OLTP=SCRIPTS[workload.load])


def timed(duration_s: int) -> list[str]:
    """Return the words of a run of some seconds, whatever its script."""
    return [f"--time={duration_s}", "--events=0", "--report-interval=1", "--percentile=99",
            "--histogram=on", "run"]  # fmt: skip


def warm_up(server: Server, workload: Workload, transactions: int, limit_s: int) -> LoadResult:
    """Run a workload for a number of transactions or some seconds, whichever ends first."""
    options = (f"--time={limit_s}", f"--events={transactions}", "--histogram=on", "run")
    words = argv(workload, server, *options)
    return load(server, words, limit_s, INNOLAB_OLTP=SCRIPTS[workload.load])


def prepare(server: Server, workload: Workload) -> None:
    """Create and fill the table by sysbench's own means, on one connection.

    Raises
    ------
    InnolabError
        As `run`.
    """
    ended(server, argv(workload, server, "prepare"), None)


def load(
    server: Server, words: list[str], duration_s: float, host: Host | None = None, **env: str
) -> LoadResult:
    """Run the words of a load and return what it gave; parameters and errors as of `ended`."""
    done = ended(server, words, duration_s + _GRACE_S, host, **env)
    return LoadResult(parse(done.stdout), done.cpu_s)


def ended(
    server: Server, words: list[str], limit_s: float | None, host: Host | None = None, **env: str
) -> Done:
    """Run sysbench's words to their end.

    Parameters
    ----------
    host : where it runs; that of the server if None

    Raises
    ------
    InnolabError
        If sysbench or the server dies, refuses, or hangs; quotes the one that did.
    """
    try:
        host = host or server.host
        kept = ["taskset", "--cpu-list", server.processor] if server.processor else []
        words = [*kept, *host.unprivileged(), *words]
        done = host.run(words, env={"LC_ALL": "C", **env}, limit_s=limit_s)
    except TimedOutError:
        raise InnolabError(
            f"sysbench did not end within {limit_s:.0f} s and was killed; the server hangs."
        ) from None
    if done.status:
        output = last_words(done.stdout + done.stderr)
        raise server.death() or InnolabError(
            f"sysbench ended with status {done.status}. It said: {output}"
        )
    return done
