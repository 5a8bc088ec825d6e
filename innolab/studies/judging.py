"""Verdicts over the looks of a plan: a claim is decided at the first look that decides it.

After each block from the first to the last that were declared, every claim is judged at a level of
which the looks together make up the promised one (`innolab.analysis.group_sequential`). A claim
that was decided at a look stays so, with the interval of that look: its arms may have stopped then,
and anyone who looked again at a decided claim would have to pay for that look too.
"""

from collections.abc import Sequence

from innolab.analysis import controls, group_sequential, likelihood
from innolab.analysis import verdicts as judged
from innolab.analysis.outcomes import DECIDED
from innolab.analysis.stats import LEVEL
from innolab.analysis.verdicts import FailedControl, Verdict
from innolab.base.language import message
from innolab.record.runs import RunSet
from innolab.studies.experiment import Experiment

# One block leaves no interval, whatever its level.
_LEAST_BLOCKS = 2


def verdicts(experiment: Experiment, runs: RunSet) -> list[Verdict]:
    """Return every claim's verdict on every server of a plan, by the blocks that are recorded.

    A control that failed withholds its verdicts, also those that were decided before it failed.
    """
    failed = controls.controls(runs, experiment.study.kind.compared).failed
    blocks = experiment.plan.blocks
    if blocks is None or blocks.last < _LEAST_BLOCKS:
        return _one_look(experiment, runs, failed)
    done = 1 + max((run.block for run in runs.runs), default=-1)
    return Looks(experiment, runs, failed).after(done)


def _one_look(
    experiment: Experiment,
    runs: RunSet,
    failed: Sequence[FailedControl],
    level: float = LEVEL,
    looks: int = 1,
) -> list[Verdict]:
    study, plan = experiment.study, experiment.plan
    return judged.verdicts(
        [claim for claim in study.claims() if not plan.claims or claim.id in plan.claims],
        study.published(),
        runs,
        plan.builds,
        declared=study.kind.variables,
        units=study.kind.units,
        doubts=study.kind.doubts,
        unavailable=plan.unavailable,
        missing_devices=plan.missing_devices,
        why_lacking=plan.why_lacking,
        failed_controls=failed,
        level=level,
        looks=looks,
    )


class Looks:
    """The verdicts of a plan look by look; each look is judged once, however often it is asked for.

    Parameters
    ----------
    failed : the controls that failed
    """

    def __init__(
        self, experiment: Experiment, runs: RunSet, failed: Sequence[FailedControl] = ()
    ) -> None:
        self._experiment, self._runs, self._failed = experiment, runs, failed
        self._after: dict[int, dict[tuple[str, str], Verdict]] = {}

    def after(self, blocks: int) -> list[Verdict]:
        """Return the verdicts after a number of blocks, those of earlier looks among them."""
        first, last = self._experiment.blocks
        if blocks < first:
            return [_too_early(verdict, first) for verdict in self._look(blocks)]
        return list(self._decided(min(blocks, last)).values())

    def _decided(self, blocks: int) -> dict[tuple[str, str], Verdict]:
        if blocks not in self._after:
            before = self._decided(blocks - 1) if blocks > self._experiment.blocks.first else {}
            kept = {key: one for key, one in before.items() if one.verdict in DECIDED}
            now = {(one.claim, one.server): one for one in self._look(blocks)}
            self._after[blocks] = now | kept
        return self._after[blocks]

    def _look(self, blocks: int) -> list[Verdict]:
        """Return the verdicts after a number of blocks, or as if the first look were there."""
        first, last = self._experiment.blocks
        level = group_sequential.level_at(max(blocks, first), first, last, LEVEL)
        assert level is not None
        runs = self._runs.where(lambda run: run.block < blocks)
        looks = max(1, blocks - first + 1)
        return _one_look(self._experiment, runs, self._failed, level, looks)


def _too_early(verdict: Verdict, first: int) -> Verdict:
    if verdict.verdict not in DECIDED:
        return verdict
    reason = message("claims are judged after block {n}", n=first)
    p = verdict.holds_probability
    leaning = None if p is None else likelihood.leaning(p)
    return verdict.model_copy(
        update={"verdict": "inconclusive", "reason": reason, "needs": reason, "leaning": leaning}
    )
