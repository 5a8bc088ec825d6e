"""What a notebook says in words and tables. Every number comes from a recorded value."""

import html
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from innolab import claims, stats, validity
from innolab.claims import Verdict
from innolab.runs import Result, RunSet
from innolab.units import bytes_text, seconds_text


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


def published_times(study: str) -> Table:
    """Return the published times by case, retracted and corrected side by side, in seconds."""
    rows: dict[str, dict[str, Any]] = {}
    for figure in claims.published(study).values():
        if figure.quantity == "time":
            row = rows.setdefault(figure.case, {"case": figure.case})
            row[f"pass {figure.pass_}, {figure.stands} (s)"] = f"{figure.value:g}"
    return Table(list(rows.values()))


def guard_on_published(study: str) -> Table:
    """Return what the rows-per-second guard would have said of each published time."""
    figures = claims.published(study)
    rows_in_table = figures["table-rows"].value
    rows = []
    for figure in figures.values():
        if figure.quantity == "time":
            rate = rows_in_table / figure.value
            passed = rate >= validity.ROWS_PER_S_FLOOR
            rows.append(
                {
                    "case": figure.case,
                    "pass": figure.pass_,
                    "published (s)": f"{figure.value:g}",
                    "build": figure.series,
                    "rows per second": f"{rate:,.0f}",
                    "the guard says": "ok" if passed else "invalid: no verdict may rest on it",
                }
            )
    return Table(rows)


def retraction(study: str) -> Text:
    """Return how the guard splits the published times, counted."""
    table = guard_on_published(study).frame
    said: list[str] = []
    for build, rows in table.groupby("build", sort=True):
        refused = int(rows["the guard says"].str.startswith("invalid").sum())
        said.append(f"{build}: the guard refuses {refused} of {len(rows)} published times.")
    kept = {n: figure.value for n, figure in claims.published(study).items()}
    first = kept["debug-128M-1-pass1-pages"]
    again = kept["debug-128M-1-pass2-pages"] - first
    pool_pages = 128 * 1024**2 // (16 * 1024)
    share = (first - again) / pool_pages
    said.append(
        f"The page counts do not depend on speed and stand: with 128 MB the second pass read "
        f"{again:,.0f} of {first:,.0f} pages, so up to {first - again:,.0f} pages (the few hundred "
        f"of the start included), {share:.0%} of the pool, outlived a scan ten times its size. "
        "That contradicts F4 by the seed's own figures; InnoDB reserves 5/8 of the pool for pages "
        "that a scan does not displace."
    )
    return Text(said)


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


def arms(runs: RunSet) -> Table:
    """Return the arms with their settings and how many of their runs are valid."""
    counts = Counter((run.factors["server"], run.factors["case"], run.valid) for run in runs.runs)
    first = {(run.factors["server"], run.factors["case"]): run.factors for run in runs.runs}
    return Table(
        [
            {
                "server": server,
                "case": case,
                "pool": bytes_text(float(levels["buffer_pool_bytes"])),
                "instances": levels["buffer_pool_instances"],
                "flush method": levels["flush_method"],
                "valid runs": counts[server, case, True],
                "invalid or failed": counts[server, case, False],
            }
            for (server, case), levels in sorted(first.items())
        ]
    )


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
        name = f"block {run.block + 1}, {run.factors['server']}, {run.factors['case']}"
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


def seconds(runs: RunSet) -> Table:
    """Return seconds and rows a second of both passes by arm, with 95 % intervals."""
    return _by_arm(
        runs,
        {
            "pass 1 (s)": lambda of: _interval(runs, "pass1_s", of),
            "pass 2 (s)": lambda of: _interval(runs, "pass2_s", of),
            "Mrows/s 1": lambda of: _millions(runs, "pass1_rows_per_s", of),
            "Mrows/s 2": lambda of: _millions(runs, "pass2_rows_per_s", of),
        },
    )


def costs(runs: RunSet) -> Table:
    """Return what both passes cost the server by arm: pages, bytes, CPU seconds."""
    return _by_arm(
        runs,
        {
            "pages 1": lambda of: _range(runs, "pass1_pages_read", of),
            "pages 2": lambda of: _range(runs, "pass2_pages_read", of),
            "device read 1": lambda of: _size(runs, "pass1_read_bytes", of),
            "device read 2": lambda of: _size(runs, "pass2_read_bytes", of),
            "CPU 1 (s)": lambda of: _range(runs, "pass1_mysqld_cpu_s", of, ".1f"),
            "of it kernel": lambda of: _range(runs, "pass1_kernel_cpu_s", of, ".1f"),
            "CPU 2 (s)": lambda of: _range(runs, "pass2_mysqld_cpu_s", of, ".1f"),
        },
    )


def _by_arm(runs: RunSet, columns: Mapping[str, Callable[[dict[str, Any]], str]]) -> Table:
    arms_ = [
        {"server": s, "case": c} for s in runs.levels("server") for c in sorted(runs.levels("case"))
    ]
    return Table([{**of, **{name: value(of) for name, value in columns.items()}} for of in arms_])


def _values(runs: RunSet, metric: str, of: Mapping[str, Any]) -> list[float]:
    return list(runs.valid.values(metric, **of).values())


def _interval(runs: RunSet, metric: str, of: Mapping[str, Any]) -> str:
    values = _values(runs, metric, of)
    if not values:
        return "no valid run"
    mean = stats.geometric_mean(values)
    ends = "" if mean.n == 1 else f" ({mean.low:.2f} to {mean.high:.2f})"
    return f"{mean.estimate:.2f}{ends}"


def _range(runs: RunSet, metric: str, of: Mapping[str, Any], form: str = ",.0f") -> str:
    values = _values(runs, metric, of)
    ends = [format(end, form) for end in (min(values), max(values))] if values else [""]
    return " to ".join(dict.fromkeys(ends))


def _millions(runs: RunSet, metric: str, of: Mapping[str, Any]) -> str:
    values = _values(runs, metric, of)
    return f"{stats.geometric_mean(values).estimate / 1e6:.2f}" if values else ""


def _size(runs: RunSet, metric: str, of: Mapping[str, Any]) -> str:
    values = _values(runs, metric, of)
    return bytes_text(sum(values) / len(values)) if values else ""


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


def answer(found: Sequence[Verdict]) -> Text:
    """Return what became of the claims in words: a line a verdict, and one where servers differ."""
    claims_: dict[str, list[Verdict]] = {}
    for v in found:
        claims_.setdefault(v.claim, []).append(v)
    lines: dict[str, list[str]] = {lead: [] for lead in _LEADS.values()}
    for of_claim in claims_.values():
        judged = [v for v in of_claim if v.verdict != "not-run"] or of_claim
        alike = len({v.verdict for v in judged}) == 1
        lead = _LEADS[judged[0].verdict if alike else "mixed"]
        lines[lead].append(_said(of_claim[0]) + ("" if alike else _by_server(judged)))
    said = [f"{lead}: {'; '.join(claims_)}." for lead, claims_ in lines.items() if claims_]
    doubted = sorted({v.claim for v in found if v.caveat})
    if doubted:
        said.append(f"Read with care: {', '.join(doubted)}, because {_caveats(found)}.")
    return Text(said)


_LEADS = {
    "reproduced": "Reproduced on every server that ran",
    "contradicted": "Contradicted on every server that ran",
    "mixed": "The servers differ",
    "inconclusive": "Inconclusive on every server that ran",
    "not-run": "Not judged",
}


def _said(v: Verdict) -> str:
    standing = {"retracted": ", withdrawn", "hypothesis": ", our hypothesis"}.get(v.stands, "")
    return f"{v.says} ({v.claim}{standing})"


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
