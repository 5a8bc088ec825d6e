"""What sysbench of any release printed about an OLTP run, as people keep and paste it.

Releases differ: 0.4 and 0.5 count read and write requests, 1.0 counts queries, and 1.1 names its
time otherwise. Lines may have lost their indentation or have gained a time or a name in front, so
that numbers are recognised by the labels before them, wherever these are on a line.
"""

import itertools
import re
from typing import NamedTuple, NoReturn

from innolab.base.errors import InnolabError
from innolab.bench import sysbench

_TRANSACTIONS = re.compile(r"\btransactions:\s+(?P<n>\d+)\s*\((?:(?P<per_s>[\d.]+) per sec)?")
_SECONDS = re.compile(r"\b(?:total time|time elapsed):\s+(?P<s>\d+(?:\.\d+)?)\s?s\b")
_QUERIES = re.compile(r"\bqueries:\s+(?P<n>\d+)\s*\(")
# Releases before 1.0 have no line of queries; the sum of those performed stands before the others.
_PERFORMED = re.compile(r"\btotal:\s+(?P<n>\d+)\b")
_INTERVAL = re.compile(r"\[\s*(?P<t_s>\d+(?:\.\d+)?)\s*s\s*\].*?(?:\btps:\s*(?P<tps>[\d.]+)"
                       r"|(?P<former>[\d.]+) tps\b(?!:))")  # fmt: skip
# Each is printed once by a run, and by no preparation.
_STARTS = ("Running the test with following options", "Threads started!")
_BANNER = re.compile(r"\bsysbench v?\d+\.\d")
# What the other tests of sysbench print, and no OLTP run does.
_OTHER_TESTS = {
    "fileio": r"File operations:|Extra file open flags|Operations performed:.*\bRead\b",
    "cpu": r"CPU speed:|Prime numbers limit|CPU performance benchmark|Maximum prime number",
    "memory": r"memory speed test|memory operations|Running memory|Operations performed: \d+ \(",
    "threads": r"thread subsystem performance|Thread yields",
    "mutex": r"mutex performance|mutex locks",
}


class FailedRunError(InnolabError):
    """An output is of a run that came to no result."""


class PostedRun(NamedTuple):
    """A run as its output has it.

    Attributes
    ----------
    rates : transactions and, where they were printed, queries a second over the whole run
    seconds : of each interval line its moment in seconds and its transactions a second, in order
    """

    rates: dict[str, float]
    seconds: list[tuple[float, float]]


def is_known(text: str) -> bool:
    """Return whether a text is what sysbench printed, whichever test it ran."""
    return bool(_BANNER.search(text) or _TRANSACTIONS.search(text) or _INTERVAL.search(text))


def read(text: str) -> PostedRun:
    """Return the run that an output is of.

    Raises
    ------
    FailedRunError
        If the run came to no result; quotes what sysbench said of it.
    InnolabError
        If the output is of another test than OLTP, or of several runs.

    >>> read("transactions: 300 (5.00 per sec.)\\nqueries: 6000 (1 per sec.)\\ntotal time: 60.0s")
    PostedRun(rates={'tps': 5.0, 'qps': 100.0}, seconds=[])
    """
    results = _results(text)
    seconds = [(float(line["t_s"]), float(line["tps"] or line["former"]))
               for line in _INTERVAL.finditer(text)]  # fmt: skip
    if not results:
        _refuse_without_result(text)
    _require_one_run(text, results, [t_s for t_s, _ in seconds])
    return PostedRun(results[0], seconds)


def _results(text: str) -> list[dict[str, float]]:
    """Return the rates of each result in a text, in its order."""
    places = list(_TRANSACTIONS.finditer(text))
    begins = [0, *(place.end() for place in places)]
    ends = [*(place.start() for place in places), len(text)]
    between = [text[begin:end] for begin, end in zip(begins, ends, strict=True)]
    return [_rates(*of) for of in zip(places, between, between[1:], strict=False)]


def _rates(place: re.Match[str], before: str, after: str) -> dict[str, float]:
    took = _SECONDS.search(after)
    if took is None or float(took["s"]) <= 0:
        if place["per_s"] is None:
            raise InnolabError("it ends before the time that the run took: it was cut.")
        return {"tps": float(place["per_s"])}
    queries = _QUERIES.search(after) or next(reversed(list(_PERFORMED.finditer(before))), None)
    rates = {"tps": int(place["n"]) / float(took["s"])}
    return rates | ({"qps": int(queries["n"]) / float(took["s"])} if queries else {})


def _require_one_run(text: str, results: list[dict[str, float]], moments: list[float]) -> None:
    """Raise InnolabError if a text is of several runs; one that was printed twice is one."""
    differing = [one for place, one in enumerate(results) if one not in results[:place]]
    apart = "keep each run in a separate file, and name it in a separate row."
    if len(differing) > 1:
        raise InnolabError(
            f"it holds {len(differing)} results of sysbench that differ, such as of a warm-up or "
            f"of several numbers of threads; {apart}"
        )
    backwards = sum(after <= before for before, after in itertools.pairwise(moments))
    runs = max(*(text.count(start) for start in _STARTS), backwards + 1)
    if runs > len(results):
        raise InnolabError(f"it holds {runs} runs of sysbench and the result of one; {apart}")


def _refuse_without_result(text: str) -> NoReturn:
    others = [name for name, marks in _OTHER_TESTS.items() if re.search(marks, text)]
    if others:
        raise InnolabError(
            f"it is of sysbench's test {others[0]}, and of its tests OLTP alone is read. Copy its "
            "figures into columns of the table."
        )
    if _SECONDS.search(text):
        raise InnolabError(
            "sysbench ended, and no line says 'transactions:': it was another test than OLTP, or "
            "the line was left out. Copy its figures into columns of the table."
        )
    raise FailedRunError(f"sysbench did not finish its run. It said: {sysbench.last_words(text)}")
