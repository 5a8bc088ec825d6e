"""What a notebook starts with: its study, its folder, its runs."""

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from innolab import studies
from innolab.base.clock import Clock
from innolab.base.errors import InputError
from innolab.hosts import machine, observe
from innolab.hosts.local import HERE
from innolab.record.plan import PLAN_FILE, Plan, plan_keys
from innolab.record.runlog import FILE, RunLog
from innolab.record.runs import RunSet
from innolab.record.study import Study, check_parameters
from innolab.report import folders
from innolab.run import measure
from innolab.run.progress import Shown


@dataclass(frozen=True)
class Workbook:
    """One execution of a study's notebook.

    Attributes
    ----------
    folder : where plan, runs and figures lie
    """

    study: Study
    plan: Plan
    folder: Path

    @property
    def servers(self) -> list[str]:
        """Return the builds that run, in the order asked for."""
        return self.plan.builds

    def host_facts(self) -> dict[str, Any]:
        """Return the facts of the host: as recorded with the first run, else as they are now."""
        runs, _ = RunLog(self.folder / FILE).load()
        return runs[0].conditions["host"] if runs else observe.facts(HERE, HERE.folder)

    def trials(self) -> int:
        """Return the number of planned trials."""
        return len(plan_keys(self.study, self.plan))

    def measure(self) -> RunSet:
        """Run what is not recorded yet, showing progress, and return all runs."""
        alone = contextlib.nullcontext() if measure.replaying() else machine.measuring_alone()
        with alone, Shown() as progress:
            return measure.measure(self.study, self.folder, progress, Clock())


def open_study(name: str, **parameters: Any) -> Workbook:
    """Check the parameters and return the workbook of a study.

    In a report's folder it is that report's. Elsewhere, as in JupyterLab, it is the unfinished
    report of these very parameters, begun or resumed below the reports' folder; `innolab run` with
    the same parameters finishes it.

    Raises
    ------
    InputError
        Where a parameter is wrong or this host cannot run the study.
    """
    study = studies.find(name)
    checked = check_parameters(study, parameters)
    here = Path.cwd()
    if (here / PLAN_FILE).exists():
        plan = Plan.read(here)
        if plan.parameters != checked.model_dump():
            raise InputError(
                f"{here.name} was planned with {plan.parameters}, but the notebook's parameters "
                f"are {checked.model_dump()}. Make them equal, or work in another folder."
            )
        return Workbook(study, plan, here)
    plan = measure.prepare(study, checked)
    return Workbook(study, plan, folders.begin(plan))
