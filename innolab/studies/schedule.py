"""Which trials are due: after each block, arms whose claims are all decided stop.

Pure functions of the plan and of what is recorded, so that resuming, replaying and verifying come
to the same trials as measuring did.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import groupby

from innolab.analysis import claim_files, controls
from innolab.analysis.claims import Where
from innolab.analysis.verdicts import Verdict
from innolab.record.run import Factors, Run
from innolab.record.runs import RunSet
from innolab.studies import judging
from innolab.studies.experiment import Experiment, Trial

# A whole block may be missing.
_MOST_NAMED = 5


def due(experiment: Experiment, runs: RunSet, registered: Collection[str] = ()) -> list[Trial]:
    """Return the trials of a plan that its runs call for, in the order of their running.

    Those of a block are known once all runs of the blocks before it are recorded: the list ends
    with the first block that is not complete, and those that are measured beside it.

    Parameters
    ----------
    registered : the digests of the claims by which the runs were scheduled. Where today's are
        others, what those called for cannot be known: due is what is recorded, and all trials
        before the first look
    """
    recorded = {run.key for run in runs.runs}
    plan, trials, first = experiment.plan, experiment.trials, experiment.blocks.first
    if plan.blocks and set(registered) - {claim_files.sha256(experiment.study.papers.claims)}:
        return [trial for trial in trials if trial.block < first or trial.key in recorded]
    looks = judging.Looks(experiment, runs)
    blocks = {number: list(of) for number, of in groupby(trials, key=lambda trial: trial.block)}
    due: list[Trial] = []
    for wave in plan.waves(len(blocks)):
        of_wave = [trial for block in wave for trial in blocks[block]]
        if plan.blocks and wave.start >= first:
            of_wave = _still_open(experiment, looks, runs, of_wave)
        due += of_wave
        if not of_wave or not recorded.issuperset(trial.key for trial in of_wave):
            break
    return due


def missing(due: Sequence[Trial], runs: RunSet) -> str | None:
    """Return how many of the trials due no run records, and of which arms; None if all have one.

    A run that failed is recorded too.
    """
    recorded = {run.key for run in runs.runs}
    arms = Counter(
        ", ".join(map(str, trial.factors.values())) for trial in due if trial.key not in recorded
    )
    if not arms:
        return None
    named = "; ".join(f"{count} of {arm}" for arm, count in arms.most_common(_MOST_NAMED))
    rest = f"; and of {len(arms) - _MOST_NAMED} more arms" if len(arms) > _MOST_NAMED else ""
    return (
        f"{arms.total()} of the {len(due)} runs that are due are missing, and no line says that "
        f"they failed: {named}{rest}"
    )


def _still_open(
    experiment: Experiment, looks: judging.Looks, runs: RunSet, trials: list[Trial]
) -> list[Trial]:
    """Return the trials of a wave that are worth their time, given the blocks before it."""
    block = trials[0].block
    before = runs.where(lambda run: run.block < block)
    if _is_over_budget(experiment, before.runs, trials):
        return []
    # What a failed control withholds is open, also if it was decided.
    if failed := controls.controls(before, experiment.study.kind.compared).failed:
        looks = judging.Looks(experiment, before, failed)
    sides = _undecided(experiment, looks.after(block))
    arms = [trial for trial in trials if _is_of(trial.factors, sides)]
    servers = {trial.factors["server"] for trial in arms}
    # The control stays as long as any arm of its server does: arm and twin.
    twinned = [trial.factors for trial in trials if trial.twin]
    return [
        trial
        for trial in trials
        if trial in arms or (trial.factors in twinned and trial.factors["server"] in servers)
    ]


def _undecided(experiment: Experiment, verdicts: Sequence[Verdict]) -> list[tuple[str, Where]]:
    sides = {claim.id: claim.sides for claim in experiment.study.claims()}
    return [
        (verdict.server, side)
        for verdict in verdicts
        if verdict.verdict in ("inconclusive", "withheld")
        for side in sides[verdict.claim]
    ]


def _is_of(factors: Factors, sides: Sequence[tuple[str, Where]]) -> bool:
    """Return whether an arm is one of some; levels of within-factors are no part of an arm."""
    return any(
        factors["server"] == server
        and all(factors.get(name, level) == level for name, level in side.items())
        for server, side in sides
    )


def _is_over_budget(experiment: Experiment, runs: Sequence[Run], trials: Sequence[Trial]) -> bool:
    """Return whether a wave, at the pace of the blocks before it, would exceed the time given."""
    budget_s = experiment.parameters.budget_s
    if budget_s is None or not runs:
        return False
    spent_s = sum(sum(run.conditions["time_s"].values()) for run in runs)
    of_block = sum(trial.block == trials[0].block for trial in trials)
    # Hosts spend their time beside each other.
    return bool(spent_s * (1 / (experiment.plan.wave or 1) + of_block / len(runs)) > budget_s)
