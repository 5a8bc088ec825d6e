"""The tables and sentences of the study compressed-insert."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from innolab.analysis import claims, stats
from innolab.analysis.growth import SPANS_MROWS
from innolab.base.units import bytes_text
from innolab.record.run import Run
from innolab.record.runs import RunSet
from innolab.storage.profiles import HOST, profiles
from innolab.tables import Table, Text, interval
from innolab.tables.more_memory import devices as devices

# In the order of the tables' rows.
CASES = (
    "plain/auto/4G",
    "compressed/auto/4G",
    "page/auto/4G",
    "plain/auto/8G",
    "compressed/auto/8G",
    "plain/shuffled/4G",
    "compressed/shuffled/4G",
)
_FORMATS = {"plain": "plain", "compressed": "compressed", "page": "compressed pages"}
_KEYS = {"auto": "", "shuffled": ", shuffled keys"}
NO_OTHER = "No other device was asked for."
_PUBLISHED_KNEES = {"plain/auto/4G": "knee-plain", "compressed/auto/4G": "knee-compressed"}


class Arm(NamedTuple):
    """One arm on one server, by its factors."""

    server: str
    device: str
    case: str

    @property
    def factors(self) -> dict[str, str]:
        """Return the factors that choose its runs from a set."""
        return {"server": self.server, "case": f"{self.device}/{self.case}"}

    @property
    def head(self) -> dict[str, str]:
        """Return the first cells of its row in a table."""
        return {"server": self.server, "on": self.device, "table, pool": case_words(self.case)}

    def of(self, runs: RunSet) -> list[Run]:
        """Return its runs."""
        wanted = self.factors
        return [r for r in runs.runs if all(r.factors[k] == v for k, v in wanted.items())]


def table_words(case: str) -> str:
    """Return a case's format and keys in words.

    >>> table_words("page/auto/4G"), table_words("plain/shuffled/4G")
    ('compressed pages', 'plain, shuffled keys')
    """
    form, keys, _ = case.split("/")
    return _FORMATS[form] + _KEYS[keys]


def case_words(case: str) -> str:
    """Return a case's format, keys and pool in words.

    >>> case_words("compressed/auto/8G")
    'compressed, 8G'
    """
    return f"{table_words(case)}, {case.rpartition('/')[2]}"


def present(runs: RunSet) -> list[Arm]:
    """Return the arms that have a run: by server, by device, each in the order of CASES."""
    found = {(str(r.factors["server"]), str(r.factors["case"])) for r in runs.runs}
    return [
        Arm(server, device, case)
        for server in dict.fromkeys(sorted(server for server, _ in found))
        for device in (HOST, *profiles())
        for case in CASES
        if (server, f"{device}/{case}") in found
    ]


def arms(runs: RunSet) -> Table:
    """Return each arm with its pool, its table's size over it, and how many runs are valid."""
    return Table([_arm(runs, arm) for arm in present(runs)])


def _arm(runs: RunSet, arm: Arm) -> dict[str, Any]:
    of = arm.of(runs)
    good = [run for run in of if run.valid]
    pools = {pool_bytes(runs, run) for run in good}
    rows = {sum(one["rows"] for one in run.conditions["segments"]) for run in good}
    ends = [
        _number(run, "leaf_bytes_per_row") * row / pool
        for run in good
        for row in rows
        for pool in pools
    ]
    return {
        **arm.head,
        "rows": " or ".join(f"{n:,}" for n in sorted(rows)),
        "pool": " or ".join(bytes_text(n) for n in sorted(pools)),
        "whole table / pool": f"{sum(ends) / len(ends):.2f}" if ends else "",
        "valid runs": len(good),
        "invalid or failed": len(of) - len(good),
    }


def pool_bytes(runs: RunSet, run: Run) -> int:
    """Return the size of a run's buffer pool, as its server had it."""
    return int(runs.variables[run.conditions["variables"]]["innodb_buffer_pool_size"])


def formats(runs: RunSet, device: str) -> Table | Text:
    """Return what each format made of the same rows on a device, with the smaller pool."""
    rows = [
        _format(runs, arm)
        for arm in present(runs.valid)
        if arm.device == device and arm.case.endswith("/4G")
    ]
    return Table(rows) if rows else Text([f"No valid run on {device}."])


def _format(runs: RunSet, arm: Arm) -> dict[str, Any]:
    of = arm.of(runs.valid)

    def mean(metric: str) -> float:
        return _mean([_number(run, metric) for run in of])

    tried = mean("compressions_per_1000_rows")
    return {
        "server": arm.server,
        "table": table_words(arm.case),
        "row format": ", ".join(dict.fromkeys(_row_format(runs, run) for run in of)),
        "pages": f"{mean('leaf_bytes_per_row'):.1f}",
        "files": f"{mean('file_bytes_per_row'):.1f}",
        "on disk": f"{mean('allocated_bytes_per_row'):.1f}",
        "kept": f"{_mean([kept_bytes_per_row(run) for run in of]):.1f}",
        "kept, of plain": kept_ratio(runs, arm),
        "zlib": f"{mean('zlib_ratio'):.2f}",
        "tries": f"{tried:.0f}" if tried else "",
        "failed": f"{mean('compress_failed_ratio'):.0%}" if tried else "",
    }


def _row_format(runs: RunSet, run: Run) -> str:
    """Return the row format and the size of pages on the disk, as the server has them."""
    page = int(runs.variables[run.conditions["variables"]]["innodb_page_size"])
    made = {
        f"{one['row_format']}, {bytes_text(one['zip_page_bytes'] or page)}"
        for one in run.conditions["table"]["partitions"]
    }
    return " or ".join(sorted(made))


def kept_bytes_per_row(run: Run) -> float:
    """Return what a row takes of its leaf pages without the holes that the server punched in them.

    What files reserve ahead of the pages is no part of it, since that does not shrink with the
    rows.
    """
    holes = _number(run, "file_bytes_per_row") - _number(run, "allocated_bytes_per_row")
    return _number(run, "leaf_bytes_per_row") - max(0.0, holes)


def _number(run: Run, metric: str) -> float:
    value = run.metrics[metric]
    assert not isinstance(value, list)
    return float(value)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def kept_ratio(runs: RunSet, arm: Arm) -> str:
    """Return what a row takes over what it takes in the plain table with such keys and pool.

    Pairs are of one block; "" for the plain table itself.
    """
    form, rest = arm.case.split("/", 1)
    if form == "plain":
        return ""
    plain = {
        r.block: kept_bytes_per_row(r) for r in arm._replace(case=f"plain/{rest}").of(runs.valid)
    }
    ratios = [
        kept_bytes_per_row(run) / plain[run.block]
        for run in arm.of(runs.valid)
        if run.block in plain
    ]
    return interval(stats.geometric_mean(ratios)) if ratios else "no plain table beside it"


def throughput(runs: RunSet, devices: Sequence[str]) -> Table | Text:
    """Return thousands of rows a second before, between and beyond the published knees."""
    spans = {f"{a} to {b}": f"{name}_per_s" for name, (a, b) in SPANS_MROWS.items()}
    return _of_each(
        runs,
        devices,
        lambda arm: {
            **{words: mean(runs, arm, metric, 1e3) for words, metric in spans.items()},
            "last over first": mean(runs, arm, "fall_ratio"),
        },
    )


def _of_each(
    runs: RunSet, devices: Sequence[str], cells: Callable[[Arm], dict[str, Any]]
) -> Table | Text:
    """Return a row for each arm on some devices that has a valid run."""
    rows = [{**arm.head, **cells(arm)} for arm in present(runs.valid) if arm.device in devices]
    if len({row["on"] for row in rows}) == 1:
        rows = [{name: cell for name, cell in row.items() if name != "on"} for row in rows]
    if not rows:
        return Text([f"No valid run on {', '.join(devices)}." if devices else NO_OTHER])
    return Table(rows)


def mean(runs: RunSet, arm: Arm, metric: str, unit: float = 1.0) -> str:
    """Return the geometric mean of a metric over an arm's valid runs, with its interval."""
    values = [v / unit for v in runs.valid.values(metric, **arm.factors).values()]
    return interval(stats.geometric_mean(values)) if values else ""


def knee(runs: RunSet, arm: Arm, metric: str = "knee_mrows") -> stats.Interval | None:
    """Return where an arm's curves have their knee, over those runs that have one."""
    found = [r for r in arm.of(runs.valid) if r.metrics["knee_found"]]
    return stats.geometric_mean([_number(run, metric) for run in found]) if found else None


def full_mrows(runs: RunSet, arm: Arm) -> float | None:
    """Return the rows at which an arm's table is as large as its pool, in the original's millions.

    By the bytes that a row takes in the end, as in `knee_data_ratio`.
    """
    places = [
        _number(run, "knee_mrows") / _number(run, "knee_data_ratio") for run in arm.of(runs.valid)
    ]
    return _mean(places) if places else None


def published_knees() -> dict[str, float]:
    """Return the original's knees by case, in millions of rows."""
    figures = claims.published("compressed-insert")
    return {case: figures[name].value / 1e6 for case, name in _PUBLISHED_KNEES.items()}


def knees(runs: RunSet) -> Table | Text:
    """Return where curves begin to fall, beside the original's knees."""
    return _of_each(runs, runs.levels("device"), lambda arm: _knee(runs, arm))


def _knee(runs: RunSet, arm: Arm) -> dict[str, str]:
    at, data = knee(runs, arm), knee(runs, arm, "knee_data_ratio")
    full = full_mrows(runs, arm)
    original = published_knees().get(arm.case)
    return {
        "found": f"{at.n if at else 0} of {len(arm.of(runs.valid))}",
        "knee at": interval(at) if at else "",
        "published": f"{original:g}" if original else "",
        "table / pool": interval(data) if data else "",
        "equal at": f"{full:.0f}" if full else "",
    }


def costs(runs: RunSet, devices: Sequence[str]) -> Table | Text:
    """Return what a row cost, and where the processors were early and late."""
    return _of_each(runs, devices, lambda arm: _cost(arm.of(runs.valid)))


def _cost(of: Sequence[Run]) -> dict[str, str]:
    def average(metric: str) -> float:
        return _mean([_number(run, metric) for run in of])

    def shares(name: str) -> str:
        return ", ".join(f"{average(f'{span}_{name}_share'):.0%}" for span in ("early", "late"))

    generator = [one["cpu_share"] for run in of for one in run.conditions["sysbench"].values()]
    return {
        "mysqld µs": f"{average('mysqld_us_per_row'):.1f}",
        "sysbench µs": f"{average('generator_us_per_row'):.1f}",
        "redo B": f"{average('redo_bytes_per_row'):,.0f}",
        "written B": f"{average('device_written_bytes_per_row'):,.0f}",
        "read B": f"{average('device_read_bytes_per_row'):,.1f}",
        "busy": shares("busy"),
        "waiting": shares("iowait"),
        "at most": f"{max(generator):.0%}",
    }


def pieces(runs: RunSet) -> Table | Text:
    """Return the runs that an earlier session began, and what became of what it had inserted."""
    rows = [
        {
            "block": run.block + 1,
            "server": run.factors["server"],
            "arm": run.factors["case"],
            "went on at row": f"{at:,}" if (at := of["resumed_at_rows"]) else "",
            "rows deleted first": f"{of['deleted_rows']:,}" if at else "",
            "started again because": of.get("again", ""),
        }
        for run in runs.runs
        if (of := run.conditions.get("pieces")) and (of["resumed_at_rows"] or of.get("again"))
    ]
    return Table(rows) if rows else Text(["No run had to go on where an earlier session ended."])


def headline(runs: RunSet) -> list[str]:
    """Return the question's answer in measured numbers, a sentence for each server and device."""
    pairs = dict.fromkeys((arm.server, arm.device) for arm in present(runs.valid))
    return [said for pair in pairs if (said := _headline(runs, *pair))]


def _headline(runs: RunSet, server: str, device: str) -> str:
    plain, compressed = (Arm(server, device, case) for case in CASES[:2])
    rates = {
        arm: [_rate(runs, arm, f"{span}_per_s") for span in ("early", "late")]
        for arm in (plain, compressed)
    }
    if not all(rate for of in rates.values() for rate in of):
        return ""
    words = "the disk as it is" if device == HOST else f"the emulated disk {device}"
    (before, beyond), (low, high) = SPANS_MROWS["early"], SPANS_MROWS["late"]
    return (
        f"{server} on {words}, pool for 4 of 5 GB: the plain table takes {rates[plain][0]} rows a "
        f"second from {before} to {beyond} million rows and {rates[plain][1]} from {low} to {high} "
        f"million, {mean(runs, plain, 'fall_ratio')} times as many; the compressed one takes "
        f"{rates[compressed][0]} and {rates[compressed][1]}, "
        f"{mean(runs, compressed, 'fall_ratio')} times as many, and keeps a row in "
        f"{kept_ratio(runs, compressed)} of the plain one's bytes."
    )


def _rate(runs: RunSet, arm: Arm, metric: str) -> str:
    values = list(runs.valid.values(metric, **arm.factors).values())
    return f"{stats.geometric_mean(values).estimate:,.0f}" if values else ""
