"""Progress for people: in a terminal, in JupyterLab, or as plain lines in a log."""

import html
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn
from rich.progress import Progress as Bars

from innolab.base.units import seconds_text


class Shown:
    """Shows how many trials are recorded, what is being done and the time left.

    A bar in a terminal, and in the cell of a notebook. Where the output is neither, says each
    change of trial in a line of its own.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._live: _Live | None = None
        if self._console.is_jupyter:
            self._live = Cell(_handle())
        elif self._console.is_terminal:
            self._live = _Terminal(self._console)

    def __enter__(self) -> "Shown":
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.end()

    def say(self, text: str) -> None:
        """Show what is being done now; not in a log, for which it would be too much."""
        if self._live:
            self._live.say(text)

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
            self._live.trials(done, total, left, text)
        else:
            self._console.print(f"{done}/{total} {left} {text}", highlight=False)


class _Live(Protocol):
    """Where progress is shown in one place, which each change replaces."""

    def say(self, text: str) -> None: ...
    def trials(self, done: int, total: int, left: str, text: str) -> None: ...
    def end(self) -> None: ...


class _Terminal:
    """A bar in a terminal, which goes when all is done."""

    def __init__(self, console: Console) -> None:
        self._bars = Bars(
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
            TextColumn("{task.description}"),
            console=console,
            transient=True,
        )
        self._task: TaskID | None = None

    def say(self, text: str) -> None:
        self._bars.update(self._bar(None), description=text)

    def trials(self, done: int, total: int, left: str, text: str) -> None:
        self._bars.update(self._bar(total), completed=done, left=left, description=text)

    def end(self) -> None:
        self._bars.stop()

    def _bar(self, total: int | None) -> TaskID:
        if self._task is None:
            # Only now: where all runs are recorded, nothing is to be shown.
            self._bars.start()
            self._task = self._bars.add_task("", total=total, left="")
        elif total is not None:
            self._bars.update(self._task, total=total)
        return self._task


class Cell:
    """A bar in the output of a notebook's cell; at the end it says how many runs are recorded.

    Plain HTML under one display id: rich's own bar for notebooks is a widget, of which nothing is
    left where the page is reloaded or the notebook is opened another day.

    Parameters
    ----------
    handle : as IPython's DisplayHandle
    """

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._is_shown = False
        self._done, self._total, self._left, self._text = 0, 0, "", ""

    def say(self, text: str) -> None:
        """Show what is being done now."""
        self._text = text
        self._show()

    def trials(self, done: int, total: int, left: str, text: str) -> None:
        """Show the count of recorded trials, and the time left as text."""
        self._done, self._total, self._left, self._text = done, total, left, text
        self._show()

    def end(self) -> None:
        """Leave how many runs are recorded; nothing if nothing was shown."""
        if not self._is_shown:
            return
        said = f"{self._done} of {self._total} runs are recorded."
        if self._done < self._total or not self._total:
            said += " The same cell resumes from here."
        self._display(said, f"<p>{html.escape(said)}</p>")

    def _show(self) -> None:
        parts = [self._text]
        if self._total:
            parts = [f"{self._done}/{self._total}", *filter(None, [self._left]), self._text]
        value = f'value="{self._done}" max="{self._total}" ' if self._total else ""
        bar = f'<progress {value}aria-label="recorded runs" style="width: 16em"></progress>'
        said = " · ".join(parts)
        self._display(said, f'<p class="innolab-progress">{bar} {html.escape(said)}</p>')

    def _display(self, plain: str, marked_up: str) -> None:
        show = self._handle.update if self._is_shown else self._handle.display
        show({"text/plain": plain, "text/html": marked_up}, raw=True)
        self._is_shown = True


def _handle() -> Any:
    from IPython.display import DisplayHandle

    return DisplayHandle()
