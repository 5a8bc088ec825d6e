"""Verdicts over the looks of a plan: a claim is decided at the first look that decides it.

After each block from the first to the last that were declared, every claim is judged at a level of
which the looks together make up the promised one (`innolab.analysis.sequential`). A claim that was
decided at a look stays so, with the interval of that look: its arms may have stopped then, and
whoever looked again at a decided claim would have to pay for that look too.
"""

from innolab.analysis import controls, sequential
from innolab.analysis.stats import LEVEL
from innolab.analysis.verdicts import DECIDED, FailedControl, Verdict
from innolab.record.plan import Blocks, Plan
from innolab.record.runs import RunSet
from innolab.studies.study import Study


def verdicts(study: Study, chosen: Plan, runs: RunSet) -> list[Verdict]:
    """Return every claim's verdict on every server of a plan, by the blocks that are recorded.

    A control that failed withholds its verdicts, also those that were decided before it failed.
    """
    failed = controls.controls(runs, study.compared).failed
    done = 1 + max((run.block for run in runs.runs), default=-1)
    if chosen.blocks is None or chosen.blocks.last < _LEAST_BLOCKS:
        return study.look(chosen, runs, failed_controls=failed)
    if done < chosen.blocks.first:
        return [_too_early(v, chosen.blocks) for v in _look(study, chosen, runs, done, failed)]
    found: dict[tuple[str, str], Verdict] = {}
    for blocks in range(chosen.blocks.first, min(done, chosen.blocks.last) + 1):
        for verdict in _look(study, chosen, runs, blocks, failed):
            key = verdict.claim, verdict.server
            if key not in found or found[key].verdict not in DECIDED:
                found[key] = verdict
    return list(found.values())


# One block leaves no interval, whatever its level.
_LEAST_BLOCKS = 2


def _look(
    study: Study, chosen: Plan, runs: RunSet, blocks: int, failed: list[FailedControl]
) -> list[Verdict]:
    """Return the verdicts after a number of blocks, or as if the first look were there already."""
    assert chosen.blocks is not None
    first, last = chosen.blocks
    level = sequential.level_at(max(blocks, first), first, last, LEVEL)
    assert level is not None
    return study.look(
        chosen,
        runs.where(lambda run: run.block < blocks),
        failed_controls=failed,
        level=level,
        looks=max(1, blocks - first + 1),
    )


def _too_early(verdict: Verdict, blocks: Blocks) -> Verdict:
    if verdict.verdict not in DECIDED:
        return verdict
    reason = f"claims are judged after block {blocks.first}"
    return verdict.model_copy(update={"verdict": "inconclusive", "reason": reason, "needs": reason})
