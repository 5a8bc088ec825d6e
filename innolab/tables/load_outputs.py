"""What a load generator printed, as metrics with their units, whichever of those we read it was."""

from collections.abc import Mapping

from innolab.base.errors import InnolabError
from innolab.bench import sysbench
from innolab.tables import hammerdb_output

# As sysbench and HammerDB themselves name them.
_UNITS: Mapping[str, str] = {
    "tps": "transactions/s",
    "qps": "queries/s",
    "nopm": "new orders/min",
    "tpm": "transactions/min",
}


def metrics(text: str) -> dict[str, tuple[float, str]]:
    """Return the metrics that an output of sysbench or HammerDB ends with, each with its unit.

    Raises
    ------
    InnolabError
        Where it is of neither, or the run did not end.

    >>> metrics("TEST RESULT : System achieved 152010 NOPM from 353125 MySQL TPM")["nopm"]
    (152010.0, 'new orders/min')
    """
    if "HammerDB" in text or "TEST RESULT" in text:
        found = {name: float(n) for name, n in hammerdb_output.parse(text)._asdict().items()}
    elif "SQL statistics" in text or "sysbench" in text:
        found = sysbench.rates(text)
    else:
        raise InnolabError("it is no output of sysbench or HammerDB that is known here")
    return {name: (value, _UNITS[name]) for name, value in found.items()}
