"""What a terminal says of a finished report: question, answer, counts, and invalid runs."""

from pathlib import Path

from innolab.analysis.outcomes import EVERY
from innolab.base.errors import InnolabError
from innolab.base.language import text
from innolab.report import answer, display, first_screen, render
from innolab.studies.experiment import Experiment


def lines(report: Path) -> list[str]:
    """Return what a terminal says of a report."""
    experiment = Experiment.read(report)
    verdicts, runs = render.read_verdicts(report), experiment.study.read(report)
    counted = [
        f"{server}: " + ", ".join(f"{n} {text(outcome)}" for outcome, n in counts)
        for server, counts in first_screen.counts(verdicts)
    ]
    return [
        experiment.study.question,
        *answer.sentences(experiment.study, verdicts),
        *counted,
        *display.invalid_runs(runs),
    ]


def require_judged(report: Path) -> None:
    """Raise InnolabError if no claim could be judged by a report's runs."""
    if not any(verdict["verdict"] in EVERY for verdict in render.read_verdicts(report)):
        raise InnolabError(
            f"No claim could be judged by the runs of {report.name}; its page says why. Measure "
            "again when nothing else runs, or with a larger --effort."
        )
