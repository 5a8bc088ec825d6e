"""How much throughput varies from second to second within a window."""

import statistics
from collections.abc import Iterator, Mapping, Sequence

from innolab.analysis.bounds import Bound, Record, exactly

# Of a window, after the first one, in which connections are opened.
_LEAST_SECONDS = 3


def unevenness(seconds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return standard deviation over mean of a window's `tps`, nothing of too few seconds.

    >>> unevenness([{"tps": 0.0}, {"tps": 90.0}, {"tps": 100.0}, {"tps": 110.0}])
    {'unevenness': 0.1}
    """
    rates = [second["tps"] for second in seconds[1:]]
    if len(rates) < _LEAST_SECONDS or not any(rates):
        return {}
    return {"unevenness": statistics.stdev(rates) / statistics.fmean(rates)}


def evidence(record: Record) -> Iterator[Bound]:
    """Yield the bounds of `unevenness` in all windows of a run, by sysbench's lines."""
    for load in record.noted("loads"):
        for name, value in unevenness(load["intervals"]).items():
            yield exactly(load["within"], name, value)
