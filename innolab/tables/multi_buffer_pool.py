"""The tables and sentences of the study multi-buffer-pool."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from innolab.analysis import claims, stats, validity
from innolab.base.units import bytes_text
from innolab.record.runs import RunSet
from innolab.tables import Table, Text


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
