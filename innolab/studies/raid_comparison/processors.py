"""Whether the processors, and not the disks, bound arms whose disks are faster than real ones."""

from statistics import fmean

from innolab.analysis.doubts import Doubted, Sample
from innolab.analysis.outcomes import EVERY
from innolab.base.language import message

# Of all processors. Above it a faster disk would no longer give as much more, so that a ratio of
# two arms depends on how much faster their disks are.
MOST_BUSY = 0.70


def busy(sample: Sample) -> Doubted | None:
    """Doubt arms on faster disks whose processors were busier than disks alone leave them."""
    shares = []
    for side in sample.claim.sides:
        found = [
            row["busy_share"]
            for run, row in sample.runs.observed(**side)
            if "speedup" in run.conditions["device"] and "busy_share" in row
        ]
        shares += [fmean(map(float, found))] if found and "own_speed" not in side else []
    if not shares or max(shares) <= MOST_BUSY:
        return None
    says = message(
        "disks were faster than real ones, and processors {n} busy", n=f"{max(shares):.0%}"
    )
    return Doubted(says, EVERY, message("slower disks, by the parameter speedup"))
