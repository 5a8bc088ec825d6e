"""What may make an estimate doubtful, besides its interval."""

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from innolab.analysis.claims import Claim
from innolab.analysis.outcomes import EVERY, Outcome
from innolab.base.language import Message, message
from innolab.record.run import Level, Run, arm_text
from innolab.record.runs import RunSet

# Runs with O_DIRECT, which need little new memory, differ by 0.07 on a host where others differ by
# 0.4. Set after seeing those runs; it can only keep a verdict from being decided.
KERNEL_SHARE_SPREAD_DOUBTED = 0.15


class Sample(NamedTuple):
    """What a doubt is asked of: a claim, and the valid runs of one server."""

    claim: Claim
    runs: RunSet


class Doubted(NamedTuple):
    """What may have made an estimate besides the factors.

    Attributes
    ----------
    bars : the outcomes that it does not allow: such a verdict is inconclusive. Where it bars none,
        a decided verdict is to be read with care
    needs : what would remove it
    """

    says: Message
    bars: Collection[Outcome] = ()
    needs: Message | None = None


Doubt = Callable[[Sample], Doubted | None]


def unsteady(sample: Sample) -> Doubted | None:
    """Doubt what windows gave that were too short or had not reached a steady state.

    For observations that have the metric `steady`: 1 where a window was, 0 where it was not. A
    metric next to none is made of all windows of its run.
    """
    claim = sample.claim
    sides = {tuple(sorted(side.items())): side for side in claim.sides}
    windows = [
        reached
        for side in sides.values()
        for run, row in sample.runs.observed(**side)
        if claim.measure and claim.measure.metric in row
        for reached in ([row["steady"]] if "steady" in row else _steady(run))
    ]
    drifting = sum(not reached for reached in windows)
    if not drifting:
        return None
    says = message("not steady: {n} of {total} windows", n=drifting, total=len(windows))
    return Doubted(says, EVERY, message("windows that are steady"))


def _steady(run: Run) -> list[Level]:
    return [row["steady"] for row in run.observations if "steady" in row]


def kernel_share(**within: Any) -> Doubt:
    """Return a doubt of cold work in which the host, not the arm, made equal runs differ.

    Equal runs ask the kernel for equal work. Where its share of the CPU time differs between them,
    the host made the difference: such as a hypervisor that must find again the idle memory it took
    from its guest, which falls on cold passes, the more the larger the pool.

    Parameters
    ----------
    within : the levels of within-factors at which work is cold; observations there have the metrics
        `cpu_s` and `kernel_cpu_s`
    """

    def doubt(sample: Sample) -> Doubted | None:
        sides = sample.claim.sides
        if sample.claim.compare is None or not all(within.items() <= s.items() for s in sides):
            return None
        spans = []
        for side in sides:
            shares = {
                run.block: row["kernel_cpu_s"] / max(row["cpu_s"], 0.01)  # type: ignore[operator]
                for run, row in sample.runs.observed(**side)
            }
            low, high = min(shares.values()), max(shares.values())
            spans.append((high - low, arm_text(next(sample.runs.observed(**side))[0]), low, high))
        spread, arm, low, high = max(spans)
        if spread < KERNEL_SHARE_SPREAD_DOUBTED:
            return None
        says = message(
            "equal runs of {arm} spent {low:.0%} to {high:.0%} of the CPU time in the kernel, "
            "which no factor explains",
            arm=arm,
            low=low,
            high=high,
        )
        return Doubted(says, EVERY, message("runs that cost the kernel alike"))

    return doubt
