"""The explorer: choose study, report, metric and factors in a notebook, and see single runs."""

import contextlib
import html
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import ipywidgets as widgets

from innolab import studies
from innolab.base.errors import InnolabError, InputError
from innolab.record.runlog import FILE
from innolab.record.runs import RunSet
from innolab.report import folders, points
from innolab.report.points import BLOCK, View
from innolab.studies import notebook_parameters
from innolab.studies.experiment import Experiment

_NONE = "none"


def explore(study: str | None = None, report: str | None = None) -> widgets.VBox:
    """Return a widget that shows the runs of recorded reports, a point each.

    Runs that are not valid are crosses. Nothing is measured, written or judged.

    Parameters
    ----------
    study, report : what it begins with, as `more-memory` and `2026-11-23-2`; the newest report of
        the notebook's own study, else of the first that has one, where they are left out

    Raises
    ------
    InputError
        Where there is no such report.
    """
    known = {name: found for name in studies.names() if (found := _reports(name))}
    if not known:
        raise InputError(
            f"No report is recorded in {folders.reports_folder()}. Measure a study first, as with: "
            "make report"
        )
    if study is not None and study not in known:
        raise InputError(f"No report of '{study}' is recorded. There are: {', '.join(known)}.")
    own = notebook_parameters.opened()
    chosen = study or (own if own in known else next(iter(known)))
    if report is not None and report not in known[chosen]:
        raise InputError(
            f"There is no report '{report}' of {chosen}. There are: {', '.join(known[chosen])}."
        )
    return Explorer(known, chosen, report).box


def _reports(study: str) -> dict[str, Path]:
    """Return the reports of a study that have runs, by version, the newest first."""
    found = [*folders.finished(study), *folders.unfinished(study)]
    return {folder.name: folder for folder in reversed(found) if (folder / FILE).exists()}


class Explorer:
    """The choices and what they show; `box` is the widget with all of them.

    Parameters
    ----------
    known : the folders of reports, by study and version
    study, report : what it begins with
    """

    def __init__(
        self, known: Mapping[str, Mapping[str, Path]], study: str, report: str | None = None
    ) -> None:
        self._known = known
        self._is_filling = False
        self._runs: RunSet | None = None
        self._units: Mapping[str, str] = {}
        self._orders: dict[str, Sequence[Any]] = {}
        self.study = _dropdown("study")
        self.report = _dropdown("report")
        self.metric = _dropdown("metric")
        self.x = _dropdown("factor along x")
        self.colour = _dropdown("factor by colour")
        self.log_x = widgets.Checkbox(description="x logarithmic", indent=False)
        self.log_y = widgets.Checkbox(description="y logarithmic", indent=False)
        self.says = widgets.HTML()
        self.picture = widgets.HTML()
        self.table = widgets.HTML(layout={"max_height": "26em", "overflow": "auto"})
        choices = [self.study, self.report, self.metric, self.x, self.colour]
        self.box = widgets.VBox(
            [
                widgets.HBox([*choices, self.log_x, self.log_y], layout={"flex_flow": "row wrap"}),
                self.says,
                widgets.HBox([self.picture, self.table], layout={"flex_flow": "row wrap"}),
            ]
        )
        with self._filling():
            _offer(self.study, list(known), study)
        self._open_study(report)
        self.study.observe(lambda _: self._open_study(), "value")
        self.report.observe(lambda _: self._open_report(), "value")
        self.metric.observe(lambda _: self._open_metric(), "value")
        for choice in (self.x, self.colour, self.log_x, self.log_y):
            choice.observe(lambda _: self._draw(), "value")

    @contextlib.contextmanager
    def _filling(self) -> Iterator[None]:
        """Let choices change without each of them drawing what is half chosen."""
        before, self._is_filling = self._is_filling, True
        try:
            yield
        finally:
            self._is_filling = before

    def _open_study(self, report: str | None = None) -> None:
        if self._is_filling:
            return
        with self._filling():
            _offer(self.report, list(self._known[self.study.value]), report)
        self._open_report()

    def _open_report(self) -> None:
        if self._is_filling:
            return
        study = studies.find(self.study.value)
        folder = self._known[self.study.value][self.report.value]
        try:
            self._runs = study.read(folder)
            within = {name: list(levels) for name, levels in study.kind.within.items()}
            self._orders = {**within, **Experiment.read(folder, study).levels}
        except InnolabError as error:
            self._show_nothing(str(error))
            return
        self._units = study.kind.units
        found = points.quantities(self._runs, list(study.kind.metrics))
        if not found:
            self._show_nothing("No run of this report has values.")
            return
        with self._filling():
            _offer(self.metric, [(str(one), one) for one in found])
        self._open_metric()

    def _open_metric(self) -> None:
        if self._is_filling or self._runs is None:
            return
        frame = points.points(self._runs, self.metric.value)
        names = points.axes_of(frame, self.metric.value.metric)
        with self._filling():
            within = [name for name in names if name in self.metric.value.within]
            first = next((name for name in names if name not in ("server", *within)), BLOCK)
            _offer(self.x, names, first)
            _offer(self.colour, [_NONE, *names], "server" if "server" in names else _NONE)
        self._draw()

    def _draw(self) -> None:
        if self._is_filling or self._runs is None:
            return
        frame = points.points(self._runs, self.metric.value)
        self.log_x.disabled = not points.is_numeric(frame, self.x.value)
        metric = self.metric.value.metric
        view = View(
            x=self.x.value,
            metric=metric,
            unit=self._units[metric],
            colour=None if self.colour.value == _NONE else self.colour.value,
            log_x=self.log_x.value,
            log_y=self.log_y.value,
        )
        self.picture.value = points.as_html(points.drawn(frame, view, self._orders), frame, view)
        self.table.value = points.table(frame, view)
        failed = sum(run.status != "complete" for run in self._runs.runs)
        lost = f" {failed} runs failed and have no values." if failed else ""
        self.says.value = f"<p role='status'>{points.counted(frame)}.{lost}</p>"

    def _show_nothing(self, why: str) -> None:
        self._runs = None
        self.picture.value = self.table.value = ""
        self.says.value = f"<p role='status'>{html.escape(why)}</p>"


def _dropdown(name: str) -> widgets.Dropdown:
    return widgets.Dropdown(description=name, style={"description_width": "initial"})


def _offer(choice: widgets.Dropdown, options: Sequence[Any], first: Any = None) -> None:
    """Offer options; what was chosen before stays chosen where it is still offered."""
    before = choice.value
    choice.options = options
    values = [one[1] if isinstance(one, tuple) else one for one in options]
    wanted = [value for value in (before, first) if value in values]
    choice.value = wanted[0] if wanted else values[0]
