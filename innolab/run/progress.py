"""Progress for people: in a terminal, in JupyterLab, or as plain lines in a log."""

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn
from rich.progress import Progress as Bars

from innolab.base.units import seconds_text


class Shown:
    """Shows how many trials are recorded, what is being done and the time left.

    Where the output is no terminal, says each change of trial in a line of its own.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._live = self._console.is_terminal or self._console.is_jupyter
        self._bars = Bars(
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
            TextColumn("{task.description}"),
            console=self._console,
            transient=True,
            disable=not self._live,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> "Shown":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bars.stop()

    def say(self, text: str) -> None:
        """Show what is being done now; a terminal only, for a log it would be too much."""
        if self._live:
            self._bars.update(self._bar(None), description=text)

    def mark(self, text: str) -> None:
        """Show what was reached within a trial of hours; for a log, a line of its own."""
        if self._live:
            self.say(text)
        else:
            self._console.print(f"    {text}", highlight=False)

    def trials(self, done: int, total: int, left_s: float | None, text: str) -> None:
        """Show the count of recorded trials and the estimated time left."""
        left = "" if left_s is None else f"{seconds_text(left_s)} left"
        if self._live:
            self._bars.update(self._bar(total), completed=done, left=left, description=text)
        else:
            self._console.print(f"{done}/{total} {left} {text}", highlight=False)

    def _bar(self, total: int | None) -> TaskID:
        if self._task is None:
            # Only now: where all runs are recorded, nothing may stay behind in a notebook.
            self._bars.start()
            self._task = self._bars.add_task("", total=total, left="")
        elif total is not None:
            self._bars.update(self._task, total=total)
        return self._task
