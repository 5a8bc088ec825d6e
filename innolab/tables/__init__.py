"""What a notebook says in words and tables. Every number comes from a recorded value."""

import html
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from innolab.analysis import claims, stats, validity
from innolab.analysis.claims import Verdict
from innolab.base.units import bytes_text, seconds_text
from innolab.record.run import Result
from innolab.record.runs import RunSet


class Table:
    """A table that a notebook shows plainly, the same bytes each time."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self.frame = pd.DataFrame(rows)

    def _repr_html_(self) -> str:
        return self.frame.to_html(index=False, border=0, na_rep="", classes="table")

    def __repr__(self) -> str:
        return self.frame.to_string(index=False, na_rep="")


class Text:
    """Paragraphs made of values; an alert is set off so that nobody misses it."""

    def __init__(self, lines: Sequence[str], *, alert: bool = False) -> None:
        self.lines = list(lines)
        self.alert = alert

    def _repr_html_(self) -> str:
        body = "".join(f"<li>{html.escape(line)}</li>" for line in self.lines)
        return f'<ul class="{"alert" if self.alert else "said"}">{body}</ul>'

    def __repr__(self) -> str:
        return "\n".join(f"- {line}" for line in self.lines)


def published(study: str) -> Table:
    """Return every published figure with where it stands and what contradicts it."""
    return Table(
        [
            {
                "study": p.series,
                "figure": p.quantity + (f", {p.case}" if p.case else ""),
                "value": f"{p.value:,.10g} {p.unit}",
                "seed": p.seed,
                "where": p.where,
                "note": p.note,
            }
            for p in claims.published(study).values()
        ]
    )


def host_facts(facts: Mapping[str, Any]) -> Table:
    """Return the host's facts as name and value; unknown ones say so."""
    flat = {k: v for k, v in facts.items() if k != "disk"}
    flat |= {f"disk {k}": v for k, v in facts["disk"].items()}
    return Table([{"fact": k.replace("_", " "), "value": _fact(k, v)} for k, v in flat.items()])


def _fact(name: str, value: Any) -> str:
    if value is None:
        return "unknown"
    return bytes_text(value) if name.endswith("_bytes") else str(value)


def builds(runs: RunSet, unavailable: Mapping[str, str]) -> Table:
    """Return the servers that ran, and those that could not be had and why."""
    seen = {run.conditions["build"]["id"]: run.conditions for run in runs.runs if run.checks}
    rows = [
        {
            "build": name,
            "version": of["build"]["version"],
            "from": of["build"]["origin"],
            "mysqld sha256": of["build"]["sha256"][:16],
            "debug build": "YES" if of["build"]["debug"] else "no",
            "rows": f"{of['dataset']['rows']:,}",
            "data": bytes_text(of["dataset"]["data_bytes"]),
        }
        for name, of in sorted(seen.items())
    ]
    return Table(rows + [{"build": name, "version": why} for name, why in unavailable.items()])


def checks(runs: RunSet) -> Table:
    """Return each validity check with its results counted, and its worst words."""
    order: dict[Result, int] = {"ok": 0, "warn": 1, "invalid": 2}
    rows = []
    for name in validity.CHECKS:
        results = [c for run in runs.runs for c in run.checks if c.check == name]
        if results:
            worst = max(results, key=lambda c: order[c.result])
            counts = Counter(c.result for c in results)
            rows.append(
                {
                    "check": name,
                    **{str(result): counts[result] for result in order},
                    "worst says": worst.says,
                }
            )
    alike = runs.undeclared_differences()
    says = f"also differ: {', '.join(alike)}" if alike else "arms differ in their factors only"
    rows.append({"check": "arms alike", "ok": 0 if alike else 1, "warn": 0,
                 "invalid": 1 if alike else 0, "worst says": says})  # fmt: skip
    return Table(rows)


def doubts(runs: RunSet) -> Text:
    """Return every failed or invalid run in words, in an alert where there is any."""
    said = []
    for run in runs.runs:
        arm = [str(run.factors[f]) for f in ("server", "case", "load") if f in run.factors]
        name = f"block {run.block + 1}, {', '.join(arm)}"
        if run.error:
            said.append(f"FAILED: {name}: {run.error}")
        said += [
            f"INVALID: {name}: {check.check}: {check.says}. No verdict rests on this run."
            for check in run.checks
            if check.result == "invalid"
        ]
    if said:
        return Text(said, alert=True)
    return Text([f"All {len(runs.runs)} runs are complete and valid."])


def verdicts(found: Sequence[Verdict]) -> Table:
    """Return a row a claim and a column a server, each with verdict, estimate and interval."""
    rows: dict[str, dict[str, Any]] = {}
    for v in found:
        head = {
            "claim": v.claim,
            "says": v.says,
            "stands": v.stands,
            "published": "" if v.published is None else f"{v.published:.3g}",
        }
        rows.setdefault(v.claim, head)[v.server] = _verdict(v)
    return Table(list(rows.values()))


def _verdict(v: Verdict) -> str:
    if v.estimate is None or v.low is None or v.high is None:
        return f"{v.verdict}: {v.reason}"
    ends = "" if v.low == v.high else f" ({v.low:.3g} to {v.high:.3g})"
    care = "; read with care" if v.caveat else ""
    return f"{v.verdict}: {v.estimate:.3g}{ends}, n = {v.n}{care}"


def answer(found: Sequence[Verdict], *, brief: bool = False) -> Text:
    """Return what became of the claims in words: a line a verdict, and one where servers differ.

    In brief, claims are named alone: the sentences of many would hide what is said.
    """
    claims_: dict[str, list[Verdict]] = {}
    for v in found:
        claims_.setdefault(v.claim, []).append(v)
    # By lead, then by sentence: the same sentence of two loads is said once.
    lines: dict[str, dict[str, list[str]]] = {lead: {} for lead in _LEADS.values()}
    for of_claim in claims_.values():
        judged = [v for v in of_claim if v.verdict != "not-run"] or of_claim
        alike = len({v.verdict for v in judged}) == 1
        lead = _LEADS[judged[0].verdict if alike else "mixed"]
        which = _standing(of_claim[0]) + ("" if alike else _by_server(judged))
        lines[lead].setdefault(of_claim[0].says, []).append(which)
    said = [
        f"{lead}: {_listed(sentences, brief)}." for lead, sentences in lines.items() if sentences
    ]
    doubted = sorted({v.claim for v in found if v.caveat})
    if doubted:
        which = f"{len(doubted)} of {len(claims_)} claims" if brief else ", ".join(doubted)
        said.append(f"Read with care: {which}, because {_caveats(found)}.")
    return Text(said)


_LEADS = {
    "reproduced": "Reproduced on every server that ran",
    "contradicted": "Contradicted on every server that ran",
    "mixed": "The servers differ",
    "inconclusive": "Inconclusive on every server that ran",
    "not-run": "Not judged",
}


def _standing(v: Verdict) -> str:
    return v.claim + {"retracted": ", withdrawn", "hypothesis": ", our hypothesis"}.get(
        v.stands, ""
    )


def _listed(sentences: Mapping[str, Sequence[str]], brief: bool) -> str:
    """Return sentences with their claims, or the claims alone."""
    if brief:
        return "; ".join(which for of in sentences.values() for which in of)
    return "; ".join(f"{says} ({'; '.join(of)})" for says, of in sentences.items())


def _caveats(found: Sequence[Verdict]) -> str:
    """Return the first caveat of each server."""
    first = {v.server: v.caveat for v in reversed(found) if v.caveat}
    return "; ".join(f"on {server} {caveat}" for server, caveat in sorted(first.items()))


def _by_server(of_claim: Sequence[Verdict]) -> str:
    return ": " + ", ".join(f"{v.verdict} on {v.server}" for v in of_claim)


def provenance(runs: RunSet, spec_sha256: str) -> Table:
    """Return what a reviewer needs to trace the runs: innolab's commit, times, digests."""
    commits = Counter(
        (run.conditions["innolab"]["commit"] or "unknown")[:12]
        + (" with local changes" if run.conditions["innolab"]["dirty"] else "")
        for run in runs.runs
    )
    total: Counter[str] = Counter()
    for run in runs.runs:
        total.update(run.conditions.get("time_s", {}))
    rows = {
        "runs": f"{len(runs.runs)}",
        "first started": min(run.started_at for run in runs.runs),
        "last ended": max(run.ended_at for run in runs.runs),
        "innolab commit": ", ".join(f"{commit} ({n} runs)" for commit, n in commits.items()),
        "spec sha256": spec_sha256,
        "time in trials": ", ".join(f"{k} {seconds_text(v)}" for k, v in sorted(total.items())),
    }
    return Table([{"fact": k, "value": v} for k, v in rows.items()])


def interval(found: stats.Interval) -> str:
    """Return an estimate with its interval, as many digits as they bear."""
    if found.low != found.low or found.low == found.high:
        return _number(found.estimate)
    return f"{_number(found.estimate)} ({_number(found.low)} to {_number(found.high)})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
