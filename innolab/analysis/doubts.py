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


# Of the pages read, those that had to wait until the server had flushed a single page for them.
# Where it was 15 %, the device was idle for a third of its time (docs/decisions/0042).
SINGLE_FLUSHES_DOUBTED = 0.10


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


def single_flushes(sample: Sample) -> Doubted | None:
    """Doubt what a server gave that had too few free pages and flushed them one by one.

    Then a page is read only after another was written, and the device is not what bounds the load.
    """
    worst = max(
        (
            float(row["free_page_waits_per_tx"]) / max(float(row["pages_read_per_tx"]), 1)
            for side in (sample.claim.sides if sample.claim.measure else [])
            for _, row in sample.runs.observed(**side)
            if "free_page_waits_per_tx" in row
        ),
        default=0.0,
    )
    if worst <= SINGLE_FLUSHES_DOUBTED:
        return None
    says = message(
        "{share:.0%} of the pages read waited for a single page to be flushed", share=worst
    )
    return Doubted(says, EVERY, message("a page cleaner that keeps pages free"))


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
