"""The first screen of a report's page: the question, the answer in short, and the main figure.

They are taken from where the notebook has them: what a page shows once is moved.
"""

import copy
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from innolab.analysis.likelihood import Leaning, standing
from innolab.analysis.outcomes import EVERY
from innolab.report import answer

_OPENING = re.compile(r"# (?P<title>[^\n]+)\n+\*\*(?P<question>.+?)\*\*\s*(?P<rest>.*)", re.DOTALL)
_FIGURE = re.compile(r'<figure id="(?P<name>[^"]+)"')

# Leaning ones stand where the undecided do.
_STANDINGS = (*EVERY, *get_args(Leaning), "withheld", "not-run")

# A server, and how many of its claims came out how.
Counts = list[tuple[str, list[tuple[str, int]]]]


@dataclass(frozen=True)
class FirstScreen:
    """What stands at the top of a page.

    Attributes
    ----------
    answer : the notebook's answer, as HTML; empty if it has none
    figure : the first figure, as HTML; empty where there is none
    has_warnings : whether the page has an alert, which stands with the runs
    """

    title: str
    question: str
    counts: Counts
    answer: str
    figure: str
    has_warnings: bool

    @property
    def picture(self) -> str | None:
        """Return the name of the figure."""
        found = _FIGURE.search(self.figure)
        return found["name"] if found else None


def lifted(
    notebook: Any, title: str, question: str, verdicts: Sequence[Mapping[str, Any]]
) -> tuple[FirstScreen, Any]:
    """Return what stands at the top of a page, and a copy of the notebook for what follows it.

    Outputs that the top shows or leads to have `lead` in their metadata: `answer`, `warnings`, or
    for the figure, which is not in the copy any more, its name.

    Parameters
    ----------
    notebook : an executed one; not changed
    title, question : for a notebook that does not begin with a title and a question in bold
    verdicts : entries of verdicts.json
    """
    rest = copy.deepcopy(notebook)
    title, question = _opened(rest, title, question)
    return FirstScreen(
        title=title,
        question=question,
        counts=counts(verdicts),
        answer=_answer(rest),
        figure=_figure(rest),
        has_warnings=_has_warnings(rest),
    ), rest


def counts(verdicts: Sequence[Mapping[str, Any]]) -> Counts:
    """Return for each server how its published claims came out; hypotheses of ours are left out."""
    servers = dict.fromkeys(v["server"] for v in verdicts)
    by_server = {
        server: Counter(
            standing(v) for v in verdicts if v["server"] == server and v["stands"] != "hypothesis"
        )
        for server in servers
    }
    return [
        (server, [(outcome, of[outcome]) for outcome in _STANDINGS if of[outcome]])
        for server, of in by_server.items()
    ]


def _opened(notebook: Any, title: str, question: str) -> tuple[str, str]:
    """Take title and question out of the first cell, in the words of the notebook's language."""
    for cell in notebook.cells[:1]:
        if cell.cell_type == "markdown" and (found := _OPENING.fullmatch(cell.source.strip())):
            cell.source = found["rest"]
            return found["title"], " ".join(found["question"].split())
    return title, question


def _answer(notebook: Any) -> str:
    """Take the answer out of its place and return it."""
    for output in _outputs(notebook):
        if (html := text_of(output, "text/html")).startswith(answer.MARK):
            output.metadata["lead"] = "answer"
            return html
    return ""


def _figure(notebook: Any) -> str:
    """Take the first figure out of its place and return it."""
    for output in _outputs(notebook):
        html = text_of(output, "text/html")
        if found := _FIGURE.search(html):
            output.metadata["lead"] = found["name"]
            return html
    return ""


def _has_warnings(notebook: Any) -> bool:
    for output in _outputs(notebook):
        if '<ul class="alert"' in text_of(output, "text/html"):
            output.metadata["lead"] = "warnings"
            return True
    return False


def _outputs(notebook: Any) -> Iterator[Any]:
    for cell in notebook.cells:
        yield from cell.get("outputs", [])


def text_of(output: Any, kind: str) -> str:
    """Return what an output holds of a media type, empty for none; a file may keep it as lines."""
    held = output.get("data", {}).get(kind, "")
    return held if isinstance(held, str) else "".join(held)
