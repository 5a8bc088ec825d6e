"""What a notebook works with: its study, its runs as frames, and what shows them."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from innolab import studies
from innolab.analysis import claim_files, controls
from innolab.analysis.controls import Found
from innolab.base import extras, files, language
from innolab.base.clock import Clock
from innolab.base.errors import InputError
from innolab.base.language import text
from innolab.hosts import machine, observe
from innolab.hosts.local import HERE
from innolab.measure import opening, workflow
from innolab.measure.measure import measure
from innolab.measure.opening import Opened
from innolab.measure.prepare import prepare
from innolab.measure.progress import Shown
from innolab.record import replay, runlog
from innolab.record.plan import PLAN_FILE, Plan, Silent
from innolab.record.replay import Replay
from innolab.record.run import Run
from innolab.record.runlog import FILE, RunLog
from innolab.record.runs import RunSet
from innolab.report import display, figure_text, figures, folders, record_tables, summaries
from innolab.report.answer import Answered
from innolab.report.display import Alert, Sections, Table, Tables, Verdicts
from innolab.report.figures import Figure
from innolab.report.host_agreement import agreement
from innolab.report.prose import Prose
from innolab.report.render import VERDICTS_FILE
from innolab.studies import judging, notebook_parameters, rules, schedule
from innolab.studies.experiment import Experiment
from innolab.studies.study import Study

# Conditions of every run that came to its end.
_CONDITIONS = (
    "build.version", "dataset.rows", "host.cores", "host.virtual", "host.free_page_reporting",
    "usage.steal_share", "usage.others_share",
)  # fmt: skip


@dataclass
class Book:
    """One execution of a study's notebook.

    Attributes
    ----------
    experiment : the study with the plan and parameters of what is shown
    folder : where plan, runs and figures are
    runs : the recorded runs, once `measure` has been called
    opened : what is shown if this is no execution for a page
    replay : the recorded runs that a page is made of
    judged : the verdicts, once they have been asked for
    """

    experiment: Experiment
    folder: Path
    recorded: RunSet | None = None
    opened: Opened | None = None
    replay: Replay | None = None
    judged: Verdicts | None = None

    @property
    def study(self) -> Study:
        """Return the study."""
        return self.experiment.study

    @property
    def plan(self) -> Plan:
        """Return the plan of what is shown."""
        return self.experiment.plan

    @property
    def servers(self) -> list[str]:
        """Return the builds that run, in the order asked for."""
        return self.plan.builds

    @property
    def parameters(self) -> Any:
        """Return the study's typed parameters."""
        return self.experiment.parameters

    @property
    def runs(self) -> RunSet:
        """Return all recorded runs, with their conditions."""
        if self.recorded is None:
            raise InputError("Nothing is measured yet in this notebook. Run: study.measure()")
        return self.recorded

    def measure(self, anew: bool | None = None) -> pd.DataFrame:
        """Return the observations of the recorded runs, or measure them now if that is asked for.

        As `observations` with the study's main within-factors. Where a notebook is opened outside a
        report's own folder it shows what is recorded: nothing is measured, and nothing is written
        below the reports' folder.

        Parameters
        ----------
        anew : whether to measure, showing progress: this begins the report of the notebook's
            parameters or resumes it, and shows it if all of it is recorded. `innolab run` with
            the same parameters finishes it. Left out, INNOLAB_MEASURE=1 in the environment says so

        Raises
        ------
        InputError
            If nothing is recorded that could be shown, or this host cannot measure.
        """
        self.judged = None
        if self.opened and not opening.is_anew(anew):
            self.experiment, self.folder = self.opened.experiment, self.opened.folder
            self.recorded = opening.replayed(self.opened)
        elif self.replay:
            self.recorded = measure(
                self.experiment, self.folder, Silent(), Clock(), replay=self.replay
            )
        else:
            self._measure()
        return self.observations(*self.study.kind.main)

    def _measure(self) -> None:
        if self.opened:
            extras.require("measure")
            self.experiment = prepare(self.opened.asked)
            self.folder = folders.begin(self.plan)
        runs = self.study.read(self.folder)
        due = {trial.key for trial in schedule.due(self.experiment, runs)}
        # Reading needs no right to measure: another process may hold it for hours.
        is_recorded = due <= {run.key for run in runs.runs}
        alone = contextlib.nullcontext() if is_recorded else machine.measuring_alone()
        with alone, Shown() as progress:
            self.recorded = workflow.measured(self.experiment, self.folder, progress, Clock())

    def observations(self, *within: str) -> pd.DataFrame:
        """Return the valid observations that have exactly these within-factors, a row each.

        Columns: trial, block, factors, within-factors, metrics. Rows are in the order of servers
        and levels, not of measuring.
        """
        frame = self.runs.valid.frame(*within)
        levels = self.experiment.levels
        if frame.empty:
            names = [*levels, *within, *self.study.kind.metrics]
            return pd.DataFrame(columns=["trial", "block", *names])
        for name, order in levels.items():
            present = set(frame[name])
            frame[name] = pd.Categorical(frame[name], [v for v in order if v in present])
        frame = frame.sort_values([*levels, *within, "block"], ignore_index=True)
        texts = {name: str for name in levels if isinstance(levels[name][0], str)}
        return frame.drop(columns="valid").astype(
            {name: texts.get(name, type(levels[name][0])) for name in levels}
        )

    def arms(self) -> pd.DataFrame:
        """Return a row an arm: its factors, and how many of its runs are valid, and are not."""
        trials = self.runs.trials().query("not twin")
        by = list(self.runs.runs[0].factors)
        counted = trials.groupby(by, sort=False).valid.agg(["sum", "size"]).reset_index()
        bad = counted["size"] - counted["sum"]
        named = counted.rename(columns={"sum": "valid runs"}).assign(**{"not valid": bad})
        return named.drop(columns="size").sort_values(by, ignore_index=True)

    def conditions(self, *names: str) -> pd.DataFrame:
        """Return one row per complete run: factors, conditions by dotted names, server variables.

        As in `build.version`, `usage.steal_share`, `variables.innodb_page_size`; `valid` says
        whether a verdict may rest on the run.

        Parameters
        ----------
        names : of conditions of which there is a column also if no run has them, as of the
            common ones; besides all that runs have
        """
        runs = [run for run in self.runs.runs if run.status == "complete"]
        levels = pd.DataFrame(
            [{"block": run.block + 1, "valid": run.valid, **run.factors} for run in runs]
        )
        sets = [self.runs.variables[run.conditions["variables"]] for run in runs]
        flat = pd.json_normalize(
            [{**run.conditions, "variables": s} for run, s in zip(runs, sets, strict=True)]
        )
        every = pd.concat([levels, flat], axis=1)
        least = ["block", "valid", *self.experiment.levels, *_CONDITIONS, *names]
        return every.reindex(columns=[*dict.fromkeys([*every.columns, *least])])

    def published(self) -> pd.DataFrame:
        """Return the published figures, a row each: id, case, quantity, value, unit and so on."""
        return pd.DataFrame(self.study.published().values()).rename(columns={"pass_": "pass"})

    def verdicts(self) -> Verdicts:
        """Return every claim's verdict on every server, and keep them as verdicts.json."""
        if self.judged is None:
            found = judging.verdicts(self.experiment, self.runs)
            body = [verdict.model_dump() for verdict in found]
            files.write_json(self.folder / VERDICTS_FILE, body)
            self.judged = Verdicts(found)
        return self.judged

    def publish(
        self,
        drawn: Any,
        name: str,
        values: pd.DataFrame,
        metric: str | None = None,
        x: str | None = None,
        *,
        caption: str,
        alt: str,
        arithmetic: bool = False,
        modelled: pd.DataFrame | None = None,
    ) -> Figure:
        """Write a figure into the report as SVG, PNG and CSV, and return it to be shown.

        Parameters
        ----------
        drawn : a seaborn grid, or a figure or axes of matplotlib
        values : what is plotted; with `metric`, rows of runs, to which their means are added
        metric, x : the columns that are drawn along y and along x
        caption, alt : what it shows as text, and its values for readers who cannot see it; English
            that the catalogue has is given in the book's language, as are the figure's own words.
            With `metric`, `{values}` in `alt` stands for each series at the ends of x
        arithmetic : whether means are arithmetic, as of shares; else geometric
        modelled : what a model says of the same, which is plotted too
        """
        if metric and x:
            described = summaries.described(values, metric, x, arithmetic=arithmetic)
            alt = text(alt, values=described)
            values = summaries.plotted(values, metric, arithmetic=arithmetic)
        if modelled is not None:
            values = pd.concat([values, modelled.assign(kind="modelled")])
        picture = figure_text.lettered(getattr(drawn, "figure", drawn))
        take = self.replay.take if self.replay else None
        return figures.publish(
            picture, name, values, text(caption), text(alt), self.folder, take,
            metric or "estimate",
        )  # fmt: skip

    def answer(self) -> Answered:
        """Return the answer to the study's question, and the numbers behind it."""
        return Answered(self.study, [one.model_dump() for one in self.verdicts().found])

    def warnings(self) -> Alert | Prose:
        """Return what a reader must know of the runs before any figure."""
        absent = {**self.plan.unavailable, **self.plan.missing_devices}
        also = [
            text(
                "{control}: verdicts that it concerns are withheld",
                control=control.says.shown(),
            )
            for control in self._controls().failed
        ]
        if changed := self._registration().changed:
            also.append(language.sentence(changed))
        return display.warnings(self.runs, self._differing(), absent, also)

    def controls(self) -> Table:
        """Return what the controls found: twins, probes, the order of the arms, and records."""
        sessions = [session for session, _ in self._sessions()]
        return display.controls(
            self._controls(), display.unbound(self.study.kind.metrics, sessions)
        )

    def _controls(self) -> Found:
        return controls.controls(self.runs, self.study.kind.compared)

    def _sessions(self) -> list[tuple[runlog.SessionStart | None, list[Run]]]:
        entries, _ = RunLog(self.folder / FILE, self.study.kind.upgrade).entries()
        return runlog.by_session(entries)

    def _registration(self) -> display.Registration:
        return display.registration(
            [session for session, _ in self._sessions() if session],
            claim_files.sha256(self.study.papers.claims),
            self.study.claims(),
        )

    def checks(self) -> Table:
        """Return each validity check with its results counted, and its worst words."""
        return record_tables.checks(self.runs, list(self.study.kind.checks), self._differing())

    def _differing(self) -> list[str]:
        return self.runs.undeclared_differences(self.study.kind.variables)

    def apparatus(self) -> Sections:
        """Return what the runs were made on, as recorded with them.

        The arms, the host, the servers, the devices and how close they came to their models, and
        the provenance, each below its heading.
        """
        return record_tables.apparatus(
            self.runs,
            record_tables.arms(self.arms()),
            self.host(),
            self.servers_that_ran(),
            self.devices(),
            self.fidelity(),
            self.provenance(),
        )

    def host(self) -> Table | Tables:
        """Return the facts of the host that the servers ran on.

        Of a fleet the facts of each host, and how far the hosts agree on each claim; of servers
        that were spread over hosts the facts of each.
        """
        runs = self.runs.runs
        if runs and "nodes" in runs[0].conditions:
            return record_tables.nodes(runs)
        if any(run.member for run in runs):
            found = judging.verdicts(self.experiment, self.runs)
            return Tables(record_tables.hosts(runs), agreement(self.study, self.runs, found))
        away = next((r for r in runs if r.conditions.get("device", {}).get("array")), None)
        first = away or (runs[0] if runs else None)
        return record_tables.host(
            first.conditions["host"] if first else observe.facts(HERE, HERE.folder)
        )

    def servers_that_ran(self) -> Table:
        """Return the servers that ran, and those that are not available and why."""
        return record_tables.servers(self.runs, self.plan.unavailable)

    def devices(self) -> Table:
        """Return what each device should give, and what fio got from it."""
        known = self.experiment.profiles
        return record_tables.devices(self.runs, known, self.plan.missing_devices)

    def fidelity(self) -> Table:
        """Return how close devices of service times came to their models, a row a load."""
        return record_tables.fidelity(self.runs)

    def provenance(self) -> Table:
        """Return what a reviewer needs to trace the runs."""
        return record_tables.provenance(self.runs, self.plan.spec_sha256, self._registration().says)


def open_study(name: str, given: Mapping[str, Any] | None = None) -> Book:
    """Check the parameters and return the book of a study.

    In a report's folder it is that report's. Elsewhere, as in JupyterLab or by papermill, it shows
    the newest recorded report of these very parameters, or, of the study's defaults, the newest
    there is, and says which. It works on a copy in a temporary folder and measures nothing unless
    `Book.measure` is asked to.

    Parameters
    ----------
    given : the parameters by name; or the notebook's globals, of which those are taken that its
        cells of parameters assign, papermill's among them (`innolab.studies.notebook_parameters`)

    Raises
    ------
    InputError
        If a parameter is wrong, or nothing is recorded and this host cannot run the study.
    """
    study = studies.find(name)
    notebook_parameters.opens(name)
    names = notebook_parameters.given(given or {}, study.parameters.model_fields)
    asked = Experiment.fresh(study, names)
    language.choose(asked.parameters.language)
    shown = replay.of(given or {})
    _set_theme(is_page=shown is not None)
    here = shown.folder if shown else Path.cwd()
    if not (here / PLAN_FILE).exists():
        opened = opening.opened(asked)
        return Book(opened.experiment, opened.folder, opened=opened)
    recorded = rules.recorded(study, here)
    if recorded.parameters != asked.parameters:
        raise InputError(
            f"{here.name} was planned with {recorded.plan.parameters}, but the notebook's "
            f"parameters are {asked.plan.parameters}. Make them equal, or work in another folder."
        )
    if shown or not (here / folders.MANIFEST_FILE).exists():
        return Book(recorded, here, replay=shown)
    # A sealed report must stay as it is. Its own notebook shows what it showed, and no more: nbval
    # compares its outputs.
    opened = replace(opening.of_report(here, recorded, asked), says="")
    return Book(opened.experiment, opened.folder, opened=opened)


def _set_theme(*, is_page: bool) -> None:
    """Set the house style: readable by all common kinds of colour vision."""
    import matplotlib
    import seaborn

    if is_page:
        # A report is drawn without a screen; in JupyterLab figures of your own show as they do.
        matplotlib.use("agg")
    seaborn.set_theme(
        style="whitegrid",
        palette="colorblind",
        font="DejaVu Sans",
        rc={"axes.titlesize": 10},
    )
    figure_text.use_font()
