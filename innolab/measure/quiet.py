"""Whether a host is quiet enough to measure on, by the checks that each run has to pass."""

import time
from collections.abc import Callable
from typing import NamedTuple

from innolab.analysis import checks
from innolab.analysis.evidence import Evidence
from innolab.base.units import seconds_text
from innolab.bench.usage import Meter
from innolab.hosts.local import HERE

_CHECKS = {name: checks.CHECKS[name] for name in ("other load", "steal")}
_LOOK_S = 3.0
_AGAIN_S = 15.0


class Noise(NamedTuple):
    """What others do on this host: whether a run is invalid by it, or only warned of."""

    is_too_much: bool
    says: str


def noise() -> Noise | None:
    """Return what disturbs this host, None if it is quiet. Looks for three seconds."""
    meter = Meter(HERE, HERE.own_cpu_s)
    time.sleep(_LOOK_S)
    conditions = {"usage": meter.read(), "host": {"cores": HERE.cores}}
    found = [one for one in checks.judge(Evidence([], conditions, {}), _CHECKS)
             if one.result != "ok"]  # fmt: skip
    if not found:
        return None
    is_too_much = any(one.result == "invalid" for one in found)
    return Noise(is_too_much, "; ".join(one.says for one in found))


def awaited(tell: Callable[[str], None], *, wait: bool) -> None:
    """Say before the first trial that a host is too busy to measure, and wait if that is asked."""
    began = time.monotonic()
    while (found := noise()) and found.is_too_much:
        busy = f"This host is too busy to measure: {found.says}."
        if not wait:
            tell(
                f"{busy} Runs that are so disturbed are not valid, and nothing is judged by them. "
                "Stop the other work, or begin once it has ended: --wait"
            )
            return
        waited = seconds_text(round(time.monotonic() - began))
        tell(f"{busy} Waiting for a quiet one since {waited}.")
        time.sleep(_AGAIN_S)
