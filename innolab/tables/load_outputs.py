"""What a load generator printed, as metrics with their units, whichever of those we read it was."""

import re
from collections.abc import Mapping

from innolab.base.errors import InnolabError
from innolab.bench import sysbench

# As sysbench and HammerDB themselves name them.
_UNITS: Mapping[str, str] = {
    "tps": "transactions/s",
    "qps": "queries/s",
    "nopm": "new orders/min",
    "tpm": "transactions/min",
}
# At the end of a timed TPROC-C run. HammerDB's own counter is of all transactions; new orders are
# those that the TPC counts.
_HAMMERDB = re.compile(
    r"TEST RESULT : System achieved (?P<nopm>\d+) NOPM from (?P<tpm>\d+) [\w ]*?TPM\b"
)


def output_metrics(text: str) -> dict[str, tuple[float, str]]:
    """Return the metrics that an output of sysbench or HammerDB ends with, each with its unit.

    Raises
    ------
    InnolabError
        If it is of neither, or the run did not end, or it has several results that differ.

    >>> output_metrics("TEST RESULT : System achieved 152010 NOPM from 353125 MySQL TPM")["nopm"]
    (152010.0, 'new orders/min')
    """
    if "HammerDB" in text or "TEST RESULT" in text:
        metrics = _hammerdb(text)
    elif "SQL statistics" in text or "sysbench" in text:
        metrics = sysbench.rates(text)
    else:
        raise InnolabError("it is no output of sysbench or HammerDB that is known here")
    return {name: (value, _UNITS[name]) for name, value in metrics.items()}


def _hammerdb(text: str) -> dict[str, float]:
    results = {(float(one["nopm"]), float(one["tpm"])) for one in _HAMMERDB.finditer(text)}
    if not results:
        raise InnolabError("HammerDB did not come to a result: no line says TEST RESULT.")
    if len(results) > 1:
        raise InnolabError(
            f"It holds {len(results)} results of HammerDB that differ; keep each run in a separate "
            "file."
        )
    return dict(zip(("nopm", "tpm"), results.pop(), strict=True))
