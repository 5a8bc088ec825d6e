"""The answer to a study's question: a sentence or two, and the numbers behind it in a table."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from innolab.analysis.answers import Line
from innolab.analysis.claims import Claim, Comparison
from innolab.analysis.likelihood import standing
from innolab.analysis.outcomes import claimed_text
from innolab.base.language import text
from innolab.base.units import interval_text, ratio_text
from innolab.studies.study import Study

# What a page finds it by.
MARK = '<div class="answer">'


class Answered:
    """A study's answer, as a notebook and a terminal show it.

    Attributes
    ----------
    sentences : the answer, as plain text
    """

    def __init__(self, study: Study, verdicts: Sequence[Mapping[str, Any]]) -> None:
        self.sentences = sentences(study, verdicts)
        self._servers = list(dict.fromkeys(one["server"] for one in verdicts))
        self._claims = {claim.id: claim for claim in study.claims()}
        self._verdicts = {(one["claim"], one["server"]): one for one in verdicts}
        judged = {claim for claim, _ in self._verdicts} & self._claims.keys()
        self._lines = [line for line in study.answer.lines if line.claim in judged]

    def _repr_html_(self) -> str:
        said = Markup("").join(Markup("<p>{}</p>").format(one) for one in self.sentences)
        return str(Markup(MARK) + said + self._table() + Markup("</div>"))

    def __repr__(self) -> str:
        lines = [
            f"- {text(line.label)} ({self._needs(line)}): {self._value(line, server)} ({server})"
            for line in self._lines
            for server in self._servers
        ]
        return "\n".join([*self.sentences, *lines])

    def _table(self) -> Markup:
        if not self._lines:
            return Markup("")
        names = Markup("").join(Markup("<th>{}</th>").format(name) for name in self._servers)
        rows = Markup("").join(map(self._row, self._lines))
        return Markup('<table class="table numbers"><thead><tr>{}</tr></thead>{}</table>').format(
            names, rows
        )

    def _row(self, line: Line) -> Markup:
        cells = Markup("").join(self._cell(line, server) for server in self._servers)
        return Markup(
            '<tbody><tr><th colspan="{}" scope="rowgroup">{} <small>{}</small></th></tr>'
            "<tr>{}</tr></tbody>"
        ).format(len(self._servers), text(line.label), self._needs(line), cells)

    def _cell(self, line: Line, server: str) -> Markup:
        verdict = self._verdicts[line.claim, server]
        return Markup('<td>{} <b class="{}">{}</b></td>').format(
            self._value(line, server), verdict["verdict"], text(standing(verdict))
        )

    def _needs(self, line: Line) -> str:
        claim = self._claims[line.claim]
        if claim.holds is None:
            return text("not measured")
        published = self._verdicts[line.claim, self._servers[0]]["published"]
        needs = claimed_text(claim.holds, published).shown()
        if claim.stands == "hypothesis":
            return text("our hypothesis needs {needs}", needs=needs)
        return text("needs {needs}", needs=needs)

    def _value(self, line: Line, server: str) -> str:
        return measured(self._claims[line.claim], self._verdicts[line.claim, server])


def sentences(study: Study, verdicts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the sentences that answer a study's question, as plain text.

    A sentence that is not true of all servers names those of which it is.

    Parameters
    ----------
    verdicts : entries of verdicts.json
    """
    servers = {one["server"] for one in verdicts}
    return [
        text("{answer}.", answer=text(says))
        if len(of) == len(servers)
        else text("{answer} ({servers}).", answer=text(says), servers=", ".join(of))
        for groups in study.answer.said(verdicts)
        for says, of in groups.items()
    ]


def measured(claim: Claim, verdict: Mapping[str, Any]) -> str:
    """Return the estimate of a claim with its interval, for a reader."""
    estimate, low, high = (verdict[name] for name in ("estimate", "low", "high"))
    if estimate is not None and isinstance(claim.measure, Comparison):
        return ratio_text(estimate, low, high)
    return interval_text(estimate, low, high)
