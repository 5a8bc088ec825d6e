"""Verdicts over the looks of a plan: a claim is decided at the first look that decides it.

After each block from the first to the last that were declared, every claim is judged at a level of
which the looks together make up the promised one (`innolab.analysis.group_sequential`). A claim
that was decided at a look stays so, with the interval of that look: its arms may have stopped then,
and anyone who looked again at a decided claim would have to pay for that look too.
"""

from collections.abc import Sequence

from innolab.analysis import controls, group_sequential
from innolab.analysis.outcomes import DECIDED
from innolab.analysis.stats import LEVEL
from innolab.analysis.verdicts import FailedControl, Verdict
from innolab.record.plan import Blocks, Plan
from innolab.record.runs import RunSet
from innolab.studies.study import Study

# One block leaves no interval, whatever its level.
_LEAST_BLOCKS = 2


def verdicts(study: Study, chosen: Plan, runs: RunSet) -> list[Verdict]:
    """Return every claim's verdict on every server of a plan, by the blocks that are recorded.

    A control that failed withholds its verdicts, also those that were decided before it failed.
    """
    failed = controls.controls(runs, study.compared).failed
    if chosen.blocks is None or chosen.blocks.last < _LEAST_BLOCKS:
        return study.look(chosen, runs, failed_controls=failed)
    done = 1 + max((run.block for run in runs.runs), default=-1)
    return Looks(study, chosen.blocks, chosen, runs, failed).after(done)


class Looks:
    """The verdicts of a plan look by look; each look is judged once, however often it is asked for.

    Parameters
    ----------
    blocks : the first and the last look
    failed : the controls that failed
    """

    def __init__(
        self,
        study: Study,
        blocks: Blocks,
        chosen: Plan,
        runs: RunSet,
        failed: Sequence[FailedControl] = (),
    ) -> None:
        self._study, self._chosen, self._runs, self._failed = study, chosen, runs, failed
        self._blocks = blocks
        self._after: dict[int, dict[tuple[str, str], Verdict]] = {}

    def after(self, blocks: int) -> list[Verdict]:
        """Return the verdicts after a number of blocks, those of earlier looks among them."""
        if blocks < self._blocks.first:
            return [_too_early(verdict, self._blocks) for verdict in self._look(blocks)]
        return list(self._decided(min(blocks, self._blocks.last)).values())

    def _decided(self, blocks: int) -> dict[tuple[str, str], Verdict]:
        if blocks not in self._after:
            before = self._decided(blocks - 1) if blocks > self._blocks.first else {}
            kept = {key: one for key, one in before.items() if one.verdict in DECIDED}
            found = {(one.claim, one.server): one for one in self._look(blocks)}
            self._after[blocks] = found | kept
        return self._after[blocks]

    def _look(self, blocks: int) -> list[Verdict]:
        """Return the verdicts after a number of blocks, or as if the first look were there."""
        first, last = self._blocks
        level = group_sequential.level_at(max(blocks, first), first, last, LEVEL)
        assert level is not None
        return self._study.look(
            self._chosen,
            self._runs.where(lambda run: run.block < blocks),
            failed_controls=self._failed,
            level=level,
            looks=max(1, blocks - first + 1),
        )


def _too_early(verdict: Verdict, blocks: Blocks) -> Verdict:
    if verdict.verdict not in DECIDED:
        return verdict
    reason = f"claims are judged after block {blocks.first}"
    return verdict.model_copy(update={"verdict": "inconclusive", "reason": reason, "needs": reason})
