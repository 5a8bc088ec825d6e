"""What a load generator printed, as metrics with their units, whichever of those we read it was."""

import re
from collections.abc import Mapping
from typing import NamedTuple, NoReturn

from innolab.base.errors import InnolabError
from innolab.base.quoting import one_line, shown
from innolab.tables import sysbench_output
from innolab.tables.sysbench_output import FailedRunError

# As sysbench and HammerDB themselves name them.
_UNITS: Mapping[str, str] = {
    "tps": "transactions/s",
    "qps": "queries/s",
    "nopm": "new orders/min",
    "tpm": "transactions/min",
}
# At the end of a timed TPROC-C run, before and since release 4. HammerDB's own counter is of all
# transactions; new orders are those that the TPC counts.
_TPM = r"(?P<tpm>\d+) [\w ]*?TPM\b"
_HAMMERDB = [
    re.compile(rf"TEST RESULT\s*: System achieved (?P<nopm>\d+) NOPM from {_TPM}"),
    re.compile(rf"TEST RESULT\s*: System achieved {_TPM} at (?P<nopm>\d+) NOPM"),
]
# Escape sequences that a terminal obeys, such as of colours.
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# What others print, so that a refusal can name them.
_OTHER_TOOLS = {
    "mysqlslap": r"Average number of seconds to run all queries",
    "tpcc-mysql": r"###easy###|<TpmC>",
    "fio": r"\"fio version\"|^\s*fio-\d|\bIO depths\s*:",
    "pgbench": r"^\s*pgbench\b|number of transactions actually processed",
    "YCSB": r"\[OVERALL\], ",
    "BenchBase": r"Throughput \(requests/second\)|oltpbenchmark|benchbase",
    "go-tpc": r"\[Summary\]|\btpmC: ",
    "DBT-2": r"\bNOTPM\b",
    "dbgen or another generator of TPC-H": r"\bQphH\b|\bTPC-H\b",
    "wrk": r"^Requests/sec:",
    "ab": r"^Requests per second:",
}


class LoadOutput(NamedTuple):
    """A run as its output has it.

    Attributes
    ----------
    metrics : each with its unit
    seconds : moments in seconds with transactions a second, where the run printed them
    """

    metrics: dict[str, tuple[float, str]]
    seconds: list[tuple[float, float]]


def read(text: str) -> LoadOutput:
    """Return the run whose output of sysbench or HammerDB a text is.

    Raises
    ------
    FailedRunError
        If it is empty, or the run came to no result.
    InnolabError
        If it is of neither, or of several runs.

    >>> read("TEST RESULT : System achieved 84000 MySQL TPM at 28000 NOPM").metrics["nopm"]
    (28000.0, 'new orders/min')
    """
    text = _ESCAPES.sub("", text)
    seconds: list[tuple[float, float]] = []
    if not text.strip():
        raise FailedRunError("it is empty.")
    if "HammerDB" in text or "TEST RESULT" in text:
        metrics = _hammerdb(text)
    elif sysbench_output.is_known(text):
        metrics, seconds = sysbench_output.read(text)
    else:
        _refuse_unknown(text)
    return LoadOutput({name: (value, _UNITS[name]) for name, value in metrics.items()}, seconds)


def _hammerdb(text: str) -> dict[str, float]:
    found = [one for pattern in _HAMMERDB for one in pattern.finditer(text)]
    results = {(float(one["nopm"]), float(one["tpm"])) for one in found}
    if not results:
        if "TEST RESULT" in text or re.search(r"query set|TPROC-H|TPC-H", text):
            raise InnolabError(
                "HammerDB's result has no NOPM: it was another test than TPROC-C. Copy its figures "
                "into columns of the table."
            )
        raise FailedRunError("HammerDB did not come to a result: no line says TEST RESULT.")
    if len(results) > 1:
        raise InnolabError(
            f"it holds {len(results)} results of HammerDB that differ; keep each run in a separate "
            "file, and name it in a separate row."
        )
    return dict(zip(("nopm", "tpm"), results.pop(), strict=True))


def _refuse_unknown(text: str) -> NoReturn:
    """Raise for an output of a tool that is not read, or of a run of sysbench that never began."""
    for tool, marks in _OTHER_TOOLS.items():
        if re.search(marks, text, re.MULTILINE):
            raise InnolabError(
                f"it is no output of sysbench or HammerDB, but of {tool}, which is not read here. "
                "Copy its figures into columns of the table."
            )
    if "sysbench" in text or "FATAL: " in text:
        raise FailedRunError(f"sysbench did not begin its run. It said: {one_line(text)}")
    raise InnolabError(
        "it is no output of sysbench or HammerDB that is known here; it begins with "
        f"{shown(one_line(text.strip().splitlines()[0], 80))}."
    )
