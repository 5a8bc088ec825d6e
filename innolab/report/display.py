"""What a notebook shows beside figures: tables, prose with values in it, verdicts."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup

from innolab.analysis import stats
from innolab.analysis.bounds import Metric, Unbounded
from innolab.analysis.claims import Claim
from innolab.analysis.controls import Found
from innolab.analysis.likelihood import standing
from innolab.analysis.verdicts import Verdict
from innolab.base import language
from innolab.base.language import text
from innolab.base.units import chance_text, interval_text, number
from innolab.record.run import Run, arm_text
from innolab.record.runlog import EVIDENCE, SessionStart
from innolab.record.runs import RunSet
from innolab.report.prose import Prose, prose

if TYPE_CHECKING:
    import pandas as pd

_COLOURS = {"reproduced": "#00694b", "contradicted": "#9b1c00"}
_QUIET = "#5c5c5c"


class Table:
    """A table that a notebook shows plainly, the same bytes each time; no index of numbers."""

    def __init__(self, frame: "pd.DataFrame | Sequence[Mapping[str, Any]]") -> None:
        import pandas as pd

        made = frame if isinstance(frame, pd.DataFrame) else pd.DataFrame(list(frame))
        # Formats of numbers are for cells alone: an index of ratios would show every digit.
        self.frame = made.rename(index=_readable) if made.index.inferred_type != "integer" else made

    def _options(self) -> dict[str, Any]:
        import pandas as pd

        return {
            "index": not isinstance(self.frame.index, pd.RangeIndex),
            "na_rep": "",
            "float_format": number,
        }

    def _repr_html_(self) -> str:
        return _spoken(self.frame).to_html(border=0, classes="table", **self._options())

    def __repr__(self) -> str:
        return _spoken(self.frame).to_string(**self._options())


class Tables:
    """Tables one below the other."""

    def __init__(self, *tables: "Table | pd.DataFrame") -> None:
        self.tables = [one if isinstance(one, Table) else Table(one) for one in tables]

    def _repr_html_(self) -> str:
        return "\n".join(table._repr_html_() for table in self.tables)

    def __repr__(self) -> str:
        return "\n\n".join(map(repr, self.tables))


class Section(NamedTuple):
    """A heading, what there is to say, and tables."""

    heading: str
    says: str
    tables: Table | Tables

    @property
    def is_empty(self) -> bool:
        """Return whether its tables have no row."""
        tables = self.tables.tables if isinstance(self.tables, Tables) else [self.tables]
        return all(table.frame.empty for table in tables)


class Sections:
    """Sections one below the other; those without a row are left out."""

    def __init__(self, *sections: Section) -> None:
        self.sections = [section for section in sections if not section.is_empty]

    def _repr_html_(self) -> str:
        each = Markup("<h3>{}</h3>\n<p>{}</p>\n{}")
        return "\n".join(
            each.format(heading, says, Markup(tables._repr_html_()))
            for heading, says, tables in self.sections
        )

    def __repr__(self) -> str:
        return "\n\n".join(
            f"{heading}\n\n{says}\n\n{tables!r}" for heading, says, tables in self.sections
        )


def _spoken(frame: "pd.DataFrame") -> "pd.DataFrame":
    """Return a table with its headings and words in the language chosen."""
    if language.chosen() == language.ENGLISH:
        return frame
    named = frame.rename(index=_heading, columns=_heading)
    return named.rename_axis(index=_heading, columns=_heading).map(_said)


def _heading(label: Any) -> Any:
    return language.word(label) if isinstance(label, str) else label


def _said(cell: Any) -> Any:
    return language.sentence(cell) if isinstance(cell, str) else cell


def _readable(label: Any) -> Any:
    return number(label) if isinstance(label, float) else label


class Alert:
    """What a reader must know before any figure, set off so that nobody misses it."""

    def __init__(self, lines: Sequence[str], details: Sequence[str] = ()) -> None:
        self.lines, self.details = list(lines), list(details)

    def _repr_html_(self) -> str:
        body = _items(self.lines)
        if self.details:
            folded = Markup("<li><details><summary>{}</summary><ul>{}</ul></details></li>")
            body += folded.format(text("Each of them"), _items(self.details))
        whole = Markup('<ul class="alert" role="alert" style="color: #9b1c00">{}</ul>')
        return str(whole.format(body))

    def __repr__(self) -> str:
        return "\n".join(f"- {line}" for line in [*self.lines, *self.details])


def _items(lines: Sequence[str]) -> Markup:
    return Markup("").join(Markup("<li>{}</li>").format(line) for line in lines)


class Verdicts:
    """The verdicts of a report: a table with a line a claim, and look-ups for prose."""

    def __init__(self, found: Sequence[Verdict]) -> None:
        self.found = list(found)
        self.servers = list(dict.fromkeys(v.server for v in found))
        self._by_key = {(v.claim, v.server): v for v in found}

    def of(self, claim: str, server: str) -> Verdict:
        """Return the verdict on a claim on one server."""
        return self._by_key[claim, server]

    def times(self, claim: str, server: str) -> str:
        """Return the estimate of a claim with its interval, for a sentence."""
        return _measured(self.of(claim, server)) or text("not measured")

    def frame(self) -> "pd.DataFrame":
        """Return a row a verdict: claim, server, stands, verdict, published, estimate and so on."""
        import pandas as pd

        numbers = dict.fromkeys(["published", "estimate", "low", "high"], float)
        return pd.DataFrame([v.model_dump() for v in self.found]).astype(numbers)

    def _repr_html_(self) -> str:
        rows: dict[str, list[Verdict]] = {}
        for v in self.found:
            rows.setdefault(v.claim, []).append(v)
        decided = [of for of in rows.values() if any(v.verdict in _COLOURS for v in of)]
        open_ = [of for of in rows.values() if not any(v.verdict in _COLOURS for v in of)]
        table = self._table(decided) if decided else Markup("")
        said = Markup("<p><small>{} {}</small></p>").format(self._by_chance(), self._by_prior())
        folded = _folded(open_, self._table(open_, why=True))
        return str(table + said + folded + _sources(self.found))

    def _by_chance(self) -> str:
        """Return how many of all verdicts may be wrong by chance alone."""
        judged = sum(v.verdict in _COLOURS for v in self.found)
        chance = 1 - stats.LEVEL
        return text(
            "Each verdict, over all its looks, is wrong by chance in at most {chance:.0%} of such "
            "studies: of {judged} that are decided, expect up to {wrong}. No "
            "correction for their number is made.",
            chance=chance,
            judged=judged,
            wrong=math.ceil(judged * chance),
        )

    def _by_prior(self) -> str:
        """Return what the probabilities are by, and what the words of open claims mean."""
        return text(
            "How likely a claim holds is by the distribution of its interval (Student's t on "
            "logarithms), if beforehand every logarithm of the value was equally likely: a flat "
            "prior. An open claim leans yes from 50 % on. It is at the edge if half of its "
            "interval is within the claim's margin: the value is so near the bound that more "
            "blocks hardly decide it."
        )

    def _table(self, rows: Sequence[Sequence[Verdict]], *, why: bool = False) -> Markup:
        names = self._headings(why=why)
        head = Markup("").join(Markup("<th>{}</th>").format(name) for name in names)
        body = Markup("").join(self._row(of, why=why) for of in rows)
        return Markup(
            '<table class="table verdicts"><thead><tr>{}</tr></thead><tbody>{}</tbody></table>'
        ).format(head, body)

    def _headings(self, *, why: bool) -> list[str]:
        last = [text("what would decide it")] if why else []
        likely = text("how likely it holds")
        return [text("claim"), text("published"), *self.servers, likely, *last]

    def _row(self, of: Sequence[Verdict], *, why: bool) -> Markup:
        first = of[0]
        says = Markup("{} {}").format(_claimed(first), _reproduce(of))
        published = "" if first.published is None else f"{first.published:.3g}"
        likely = Markup("<br>").join(chance_text(v.holds_probability) for v in of)
        cells = [says, published, *map(_cell, of), likely, *([_decider(of)] if why else [])]
        # On a phone they are one below the other, each with its heading.
        row = Markup("").join(
            Markup('<td data-heading="{}">{}</td>').format(heading, cell)
            for heading, cell in zip(self._headings(why=why), cells, strict=True)
        )
        return Markup("<tr>{}</tr>").format(row)

    def __repr__(self) -> str:
        return "\n".join(
            f"{v.claim} on {v.server}: {standing(v.model_dump())} {_measured(v)}".rstrip()
            for v in self.found
        )


def _reproduce(of: Sequence[Verdict]) -> Markup:
    """Return a claim's id; with the command that measures it again folded below, where it ran."""
    name = of[0].claim
    if all(v.verdict == "not-run" for v in of):
        return Markup("<small>{}</small>").format(name)
    return Markup(
        '<details class="reproduce"><summary><small>{0}</small></summary>'
        "<code>innolab reproduce {0}</code></details>"
    ).format(name)


def _claimed(v: Verdict) -> str:
    claim = language.sentence(v.says)
    if v.stands == "retracted":
        return text("{claim} (withdrawn by its author)", claim=claim)
    if v.stands == "hypothesis":
        return text("{claim} (our hypothesis)", claim=claim)
    return claim


def _folded(rows: Sequence[Any], table: Markup) -> Markup:
    if not rows:
        return Markup("")
    several = text("{n} claims that these runs do not decide", n=len(rows))
    words = several if len(rows) != 1 else text("1 claim that these runs do not decide")
    return Markup("<details><summary>{}</summary>{}</details>").format(words, table)


def _sources(found: Sequence[Verdict]) -> Markup:
    """Return what the originals state, folded; claims that rest on the same words together."""
    by_words: dict[str, list[str]] = {}
    for v in found:
        if v.source:
            by_words.setdefault(v.source, []).append(v.claim)
    if not by_words:
        return Markup("")
    lines = Markup("").join(
        Markup("<dt>{}</dt><dd>{}</dd>").format(", ".join(dict.fromkeys(names)), text(words))
        for words, names in by_words.items()
    )
    whole = Markup("<details><summary>{}</summary><dl>{}</dl></details>")
    return whole.format(text("What the originals state"), lines)


def _cell(v: Verdict) -> Markup:
    colour = _COLOURS.get(v.verdict, _QUIET)
    caveat = v.caveat.shown() if v.caveat else ""
    care = Markup(' <span title="{}">†</span>').format(caveat) if caveat else ""
    words = Markup('<b class="{}" style="color: {}">{}</b>{}')
    cell = words.format(v.verdict, colour, text(standing(v.model_dump())), care)
    return Markup("{} {}").format(cell, measured) if (measured := _measured(v)) else cell


def _measured(v: Verdict) -> str:
    return interval_text(v.estimate, v.low, v.high)


def _decider(of: Sequence[Verdict]) -> str:
    said = (
        text("on {server} {needs}", server=v.server, needs=v.needs.shown())
        if v.needs
        else v.reason.shown()
        for v in of
    )
    return "; ".join(dict.fromkeys(said))


class Registration(NamedTuple):
    """When plan and claims were registered, and what was changed since, both as sentences."""

    says: str
    changed: str | None = None


def registration(
    sessions: Sequence[SessionStart], digest: str, claims: Sequence[Claim]
) -> Registration:
    """Return what a report's sessions say of its claims, which each wrote down before it measured.

    Parameters
    ----------
    digest : that of the claims that the verdicts are by
    """
    if not sessions:
        return Registration("nothing: innolab 0.1.0 measured it, which registered no claims")
    began = sessions[0].began_at
    says = f"claims {sessions[0].claims_sha256[:16]} and plan {sessions[0].plan_sha256[:16]}, "
    says += f"before the first run, on {began:%Y-%m-%d at %H:%M} UTC"
    if {session.claims_sha256 for session in sessions} == {digest}:
        return Registration(f"{says}; unchanged since")
    named = {c.id: c.changed for c in claims if c.changed and c.changed >= began.date()}
    which = ", ".join(f"{name} on {day}" for name, day in named.items())
    changed = f"The claims were changed after they were registered on {began:%Y-%m-%d}: "
    changed += which or "on a day that they do not name"
    return Registration(f"{says}; changed since", changed)


def controls(found: Found, unbound: Sequence[str] = ()) -> Table:
    """Return what the controls of a report found, those that failed first, and what has none."""
    failed = [{"result": "failed", "says": control.says.shown()} for control in found.failed]
    notes = [*(note.shown() for note in found.notes), *unbound]
    return Table([*failed, *({"result": "noted", "says": note} for note in notes)])


def unbound(metrics: Mapping[str, Metric], sessions: Sequence[SessionStart | None]) -> list[str]:
    """Return of which metrics edited values would not be found, as far as sessions say that."""
    found = [
        f"Nothing in a record bounds {name}: {metric.evidence.reason}."
        for name, metric in metrics.items()
        if isinstance(metric.evidence, Unbounded)
    ]
    if any(session is None or session.evidence < EVIDENCE for session in sessions):
        found.append(
            "An older innolab measured it, which did not keep what bounds each metric: innolab "
            "verify lists those of which edited values would not be found."
        )
    return found


def warnings(
    runs: RunSet, differing: Sequence[str], absent: Mapping[str, str], also: Sequence[str] = ()
) -> "Alert | Prose":
    """Return what a reader must know of the runs before any figure; that all is well otherwise."""
    said = [*also]
    for name, why in absent.items():
        said.append(text("{name} did not run: {why}.", name=name, why=language.sentence(why)))
    if differing:
        names = ", ".join(differing)
        said.append(text("Arms differ beside their factors, in {names}: no verdict.", names=names))
    said += invalid_runs(runs)
    bad = [run for run in runs.runs if not run.valid]
    each = [
        text(
            "Block {block}, {server}, {arm}: {why}",
            block=run.block + 1,
            server=run.factors["server"],
            arm=arm_text(run),
            why=language.sentence(_why_invalid(run)),
        )
        for run in bad
    ]
    if said:
        return Alert(said, each)
    return prose("All {n} runs are complete and valid.", n=len(runs.runs))


def invalid_runs(runs: RunSet) -> list[str]:
    """Return a sentence for each server with runs that are not valid: how many, and why."""
    bad = [run for run in runs.runs if not run.valid]
    sentences = []
    for server in dict.fromkeys(str(run.factors["server"]) for run in bad):
        faults = Counter(_fault(run) for run in bad if run.factors["server"] == server)
        sentences.append(
            text(
                "Not valid: {n} of {total} runs of {server} ({reasons}). No verdict rests on them.",
                n=faults.total(),
                total=sum(run.factors["server"] == server for run in runs.runs),
                server=server,
                reasons=", ".join(
                    text("{n} by {fault}", n=n, fault=fault) for fault, n in faults.most_common()
                ),
            )
        )
    return sentences


def _fault(run: Run) -> str:
    """Return what a run that is not valid fell to, in a word or two."""
    if run.error:
        return text("a failure")
    named = next(c.check for c in run.checks if c.result == "invalid")
    return text("the check '{check}'", check=language.word(named))


def _why_invalid(run: Run) -> str:
    """Return why a run is not valid, as it was recorded."""
    return run.error or next(c.says for c in run.checks if c.result == "invalid")
