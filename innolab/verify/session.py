"""Whether what a report recorded agrees with itself: session, plan, settings, checks.

Nothing is computed from a report in which anything here is wrong.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from innolab.analysis import checks
from innolab.record import runlog
from innolab.record.plan import PLAN_FILE
from innolab.record.run import CheckResult, Run
from innolab.record.runlog import Entry
from innolab.record.runs import RunSet
from innolab.report import folders, manifest
from innolab.studies import schedule
from innolab.studies.experiment import Experiment
from innolab.studies.rules import Rules
from innolab.verify import settings_and_builds, times_and_hosts


def of_session(entries: list[Entry], body: dict[str, Any]) -> list[str]:
    """Return what contradicts the order and the clock of the sessions that measured.

    Parameters
    ----------
    body : the manifest of the report
    """
    sessions = runlog.by_session(entries)
    found = runlog.faults(entries)
    newer = [run for _, runs in sessions for run in runs if not run.is_older]
    if newer and not runlog.is_bound(entries):
        found.append("its lines are not bound to each other, as this innolab's are")
    found += times_and_hosts.times(sessions, body.get("sealed_at"))
    found += times_and_hosts.hosts(sessions)
    found += times_and_hosts.predecessors(sessions)
    found += times_and_hosts.members([run for _, runs in sessions for run in runs])
    return [f"{runlog.FILE}: {fault}" for fault in found]


def of_plan(
    experiment: Experiment,
    rules: Rules,
    entries: list[Entry],
    runs: RunSet,
    body: dict[str, Any],
    *,
    to_the_letter: bool = True,
) -> list[str]:
    """Return what contradicts the plan, and the settings and checks that the report was judged by.

    Parameters
    ----------
    experiment : as the report's rules have it (`innolab.studies.rules.applied`)
    to_the_letter : whether the sentences of its checks are today's too
    """
    found = []
    keys = [run.key for run in sorted(runs.runs, key=lambda r: r.trial)]
    recorded = set(keys)
    due = schedule.due(experiment, runs, runlog.registered(entries))
    # More than is due is no fault: arms go on while a control fails, and what fails may change.
    planned = [trial.key for trial in experiment.trials if trial.key in recorded]
    if any(run.is_older for run in runs.runs):  # Its arms were drawn from a list in another order.
        keys, planned = sorted(keys), sorted(planned)
    if keys != planned:
        found.append("its trials are not those of the plan, in its order")
    if why := schedule.missing(due, runs):
        found.append(f"its trials are not those of the plan: {why}")
    found += _planned_otherwise(experiment, entries)
    found += guarded(lambda: settings_and_builds.arms(runs.runs, rules.asked), "arms")
    found += settings_and_builds.servers(runs.runs, runs.variables)
    found += [
        f"the checks of trial {run.trial} do not follow from its record"
        for run in runs.runs
        if run.status == "complete"
        and not _checks_follow(experiment, rules, run, runs, to_the_letter)
    ]
    faults = [f"{runlog.FILE}: {fault}" for fault in found]
    faults += rules.faults(experiment.plan, runs.runs)
    if not faults:  # What follows from a wrong record is wrong too, and says nothing more.
        faults += [
            f"{folders.MANIFEST_FILE}: its '{name}' does not follow from {PLAN_FILE} and "
            f"{runlog.FILE}"
            for name, value in manifest.recorded(experiment.plan, runs.runs).items()
            if body.get(name) != value
        ]
    return faults


def _planned_otherwise(experiment: Experiment, entries: list[Entry]) -> list[str]:
    """Return sessions that began with another plan, or with more trials or blocks than it has."""
    now = (experiment.plan_sha256, len(experiment.trials), experiment.blocks.last)
    return [
        f"the session of line {entry.number} began with {session.trials} trials in "
        f"{session.blocks} blocks of a plan that is not {PLAN_FILE}'s"
        for entry in entries
        if not isinstance(session := entry.content, Run)
        and (session.plan_sha256, session.trials, session.blocks) != now
    ]


def _checks_follow(
    experiment: Experiment, rules: Rules, run: Run, runs: RunSet, to_the_letter: bool
) -> bool:
    def facts(of: Iterable[CheckResult]) -> list[tuple[str, ...]]:
        return sorted((c.check, c.result, *([c.says] if to_the_letter else [])) for c in of)

    kept = [check for check in run.checks if check.check in experiment.study.kind.checks]
    try:
        return facts(_checks(experiment, rules, run, runs)) == facts(kept)
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError):
        return False


def _checks(experiment: Experiment, rules: Rules, run: Run, runs: RunSet) -> list[CheckResult]:
    """Return what a run's checks find by some rules; an older innolab recorded less."""
    variables = runs.variables.get(run.conditions.get("variables") or "", {})
    evidence = checks.Evidence(run.observations, run.conditions, variables, devices=rules.profiles)
    return experiment.judged(evidence, checks.NEWER if run.is_older else ())


def judged_otherwise(experiment: Experiment, rules: Rules, runs: RunSet) -> Iterator[str]:
    """Yield the runs that today's checks would judge otherwise than the report does.

    Parameters
    ----------
    experiment, rules : today's
    """
    found = []
    for run in (run for run in runs.runs if run.status == "complete"):
        try:
            is_valid = all(c.result != "invalid" for c in _checks(experiment, rules, run, runs))
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError):
            continue  # Today's check reads what this run does not record.
        if is_valid != run.valid:
            found.append(str(run.trial))
    if found:
        yield f"Today's checks would judge {len(found)} runs otherwise: trials {', '.join(found)}."


def guarded(check: Callable[[], list[str]], what: str) -> list[str]:
    """Return what a check finds, or that the record is damaged where it cannot be read."""
    try:
        return check()
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        return [f"{what} cannot be checked: {type(error).__name__}: {str(error)[:200]}"]
