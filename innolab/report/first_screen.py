"""The first screen of a report's page: the question, the answer in short, and the main figure.

They are taken from where the notebook has them. What a page shows once is moved, so a figure stands
at the top alone; an answer that is long is begun there and stands whole in its place.
"""

import copy
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from innolab.analysis.outcomes import Outcome

# Of an answer, so that it stands beside the figure on a screen 800 pixels high.
_MOST_CHARACTERS = 650
_OPENING = re.compile(r"# (?P<title>[^\n]+)\n+\*\*(?P<question>.+?)\*\*\s*(?P<rest>.*)", re.DOTALL)
_FIGURE = re.compile(r'<figure id="(?P<name>[^"]+)"')
_ITEM = re.compile(r"\n+(?=- )|\n{2,}")

# A server, and how many of its claims came out how.
Counts = list[tuple[str, list[tuple[str, int]]]]


@dataclass(frozen=True)
class FirstScreen:
    """What stands at the top of a page.

    Attributes
    ----------
    answer : how the notebook's answer begins, as Markdown; empty where it has none
    figure : the first figure, as HTML; empty where there is none
    has_warnings : whether the page has an alert, which stands with the runs
    """

    title: str
    question: str
    counts: Counts
    answer: str
    figure: str
    has_warnings: bool


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
    answer, figure = _answer(rest), _figure(rest)
    return FirstScreen(
        title=title,
        question=question,
        counts=counts(verdicts),
        answer=_begun(text_of(answer, "text/markdown")) if answer else "",
        figure=figure,
        has_warnings=_has_warnings(rest),
    ), rest


def counts(verdicts: Sequence[Mapping[str, Any]]) -> Counts:
    """Return for each server how its published claims came out; hypotheses of ours are left out."""
    servers = dict.fromkeys(v["server"] for v in verdicts)
    by_server = {
        server: Counter(
            v["verdict"] for v in verdicts if v["server"] == server and v["stands"] != "hypothesis"
        )
        for server in servers
    }
    return [
        (server, [(outcome, of[outcome]) for outcome in get_args(Outcome) if of[outcome]])
        for server, of in by_server.items()
    ]


def _opened(notebook: Any, title: str, question: str) -> tuple[str, str]:
    """Take title and question out of the first cell, in the words of the notebook's language."""
    for cell in notebook.cells[:1]:
        if cell.cell_type == "markdown" and (found := _OPENING.fullmatch(cell.source.strip())):
            cell.source = found["rest"]
            return found["title"], " ".join(found["question"].split())
    return title, question


def _answer(notebook: Any) -> Any:
    """Return the first prose that is computed below the first section's heading, and mark it."""
    in_section = False
    for cell in notebook.cells:
        in_section |= cell.cell_type == "markdown" and bool(re.search(r"(?m)^## ", cell.source))
        for output in cell.get("outputs", []):
            if in_section and text_of(output, "text/markdown"):
                output.metadata["lead"] = "answer"
                return output
    return None


def _begun(answer: str) -> str:
    """Return as many of an answer's sentences as there is room for, and at least the first item.

    >>> _begun("On **a**:\\n\\n- It is.\\n- It was.")
    'On **a**:\\n\\n- It is.\\n\\n- It was.'
    """
    taken: list[str] = []
    for item in _ITEM.split(answer.strip()):
        has_item = any(part.startswith("- ") for part in taken)
        if has_item and sum(map(len, taken)) + len(item) > _MOST_CHARACTERS:
            break
        taken.append(item)
    # Words that lead to items which are not taken.
    while len(taken) > 1 and taken[-1].endswith(":"):
        taken.pop()
    return "\n\n".join(taken)


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
