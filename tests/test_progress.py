"""Progress: a bar in a cell of a notebook, a bar in a terminal, lines in a log."""

import io

import pytest
from rich.console import Console

from innolab.measure import progress
from innolab.measure.progress import Shown


class _Handle:
    """Takes what IPython's DisplayHandle would send to a notebook."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, dict[str, str]]] = []

    def display(self, bundle: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.sent.append(("display", bundle))

    def update(self, bundle: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.sent.append(("update", bundle))


@pytest.fixture
def handle(monkeypatch: pytest.MonkeyPatch) -> _Handle:
    made = _Handle()
    monkeypatch.setattr(progress, "_handle", lambda: made)
    return made


def _in_a_notebook() -> Shown:
    return Shown(Console(force_jupyter=True, file=io.StringIO()))


def test_a_cell_has_one_bar_with_count_and_time_left(handle: _Handle) -> None:
    with _in_a_notebook() as shown:
        shown.say("building the dataset")
        shown.trials(0, 8, None, "block 1: a")
        shown.trials(1, 8, 75.0, "block 1: <b>")
        shown.say("starting")
    kinds, bundles = zip(*handle.sent, strict=True)
    assert kinds == ("display", *["update"] * 4)
    plain = [bundle["text/plain"] for bundle in bundles]
    assert plain[:4] == [
        "building the dataset",
        "0/8 · block 1: a",
        "1/8 · 1 min 15 s left · block 1: <b>",
        "1/8 · 1 min 15 s left · starting",
    ]
    assert "value=" not in bundles[0]["text/html"], "how many there are is not known yet"
    assert '<progress value="1" max="8"' in bundles[2]["text/html"]
    assert "&lt;b&gt;" in bundles[2]["text/html"]
    assert plain[4] == "1 of 8 runs are recorded. The same cell resumes from here."


def test_a_cell_that_is_done_says_so(handle: _Handle) -> None:
    with _in_a_notebook() as shown:
        shown.trials(8, 8, 0, "all runs recorded")
    assert handle.sent[-1][1]["text/html"] == "<p>8 of 8 runs are recorded.</p>"


def test_where_nothing_is_measured_a_cell_shows_nothing(handle: _Handle) -> None:
    with _in_a_notebook():
        pass
    assert handle.sent == []


def test_a_log_has_a_line_for_each_trial() -> None:
    text = io.StringIO()
    with Shown(Console(file=text, force_terminal=False, force_jupyter=False)) as shown:
        shown.say("too much for a log")
        shown.trials(1, 8, 75.0, "block 1: a")
        shown.mark("a provisional page")
    assert text.getvalue() == "1/8 1 min 15 s left block 1: a\n    a provisional page\n"


def test_a_terminal_has_a_bar_that_goes() -> None:
    text = io.StringIO()
    with Shown(Console(file=text, force_terminal=True, force_jupyter=False, width=100)) as shown:
        shown.trials(1, 8, 75.0, "block 1: a")
    assert "1/8" in text.getvalue()
    assert "1 min 15 s left" in text.getvalue()
