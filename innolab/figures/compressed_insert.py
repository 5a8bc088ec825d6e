"""The figures of the study compressed-insert: what a run gave and cost over the rows inserted."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.lines import Line2D
from matplotlib.markers import CARETUPBASE
from matplotlib.ticker import LogLocator, MultipleLocator

from innolab.analysis import stats
from innolab.analysis.growth import BIN_MROWS
from innolab.base.units import bytes_text
from innolab.figures import BLUE, GREEN, GREY, ORANGE, Figure, canvas, publish
from innolab.record.run import Run
from innolab.record.runs import RunSet
from innolab.storage.profiles import HOST, profiles
from innolab.tables import Text
from innolab.tables.compressed_insert import (
    NO_OTHER,
    Arm,
    case_words,
    full_mrows,
    knee,
    pool_bytes,
    published_knees,
    table_words,
)
from innolab.threats import redo_bytes

_PURPLE = "#CC79A7"
_DOTS = (0, (2, 2))
_COLOURS = {"plain": BLUE, "compressed": ORANGE, "page": GREEN}
_MARKS = {"plain": "o", "compressed": "s", "page": "D"}
_SEEDS = ["plain/auto/4G", "compressed/auto/4G", "plain/auto/8G", "compressed/auto/8G"]
_PAGE, _SHUFFLED = "page/auto/4G", "plain/shuffled/4G"
_COLUMNS = ["kind", "device", "quantity", "server", "arm", "block", "mrows", "value",
            "low", "high"]  # fmt: skip
_READING = (
    "Lines are means over restarts with 95 % intervals, a point in the middle of each bin of "
    f"{BIN_MROWS} million rows; single runs are faint. Dashed: the knees that the original "
    "published. 4G and 8G: pools for the original's 5 GB at 70 million rows. Triangles: where a "
    "table is as large as its pool, hollow for the larger one."
)
_LOST = "The original's own graph is lost. "


_Level = tuple[str, float]


class _Panel(NamedTuple):
    """What a row of panels shows: the sum of some curves on a device.

    Attributes
    ----------
    unit : what the axis counts in, in the unit of the curves
    rates : whether values are rates, which are never zero and have a geometric mean
    percent, log, least : how the axis is scaled: to 100, by decades, or to this much at least
    level : a line for comparison, with its name
    """

    curves: tuple[str, ...]
    quantity: str
    device: str
    unit: float = 1.0
    rates: bool = False
    percent: bool = False
    log: bool = False
    least: float = 0.0
    level: _Level | None = None


def _inserts(device: str, *, log: bool = False) -> _Panel:
    return _Panel(("per_s",), "inserts a second, thousands", device, 1e3, rates=True, log=log)


def _bytes(device: str, *, log: bool = False, level: _Level | None = None) -> _Panel:
    curves = ("read_bytes_per_s", "written_bytes_per_s")
    return _Panel(curves, "MB a second", device, 1e6, log=log, level=level)


def _busy(device: str) -> _Panel:
    return _Panel(("busy_share",), "busy, %", device, 0.01, percent=True)


def throughput(runs: RunSet, servers: list[str], device: str, folder: Path) -> Figure | Text:
    """Return inserts a second over rows, plain and compressed, as the seed's first graph had it."""
    words = (f"throughput-{device}", "Inserts a second over rows", _LOST)
    return _figure(runs, servers, [_inserts(device)], [*_SEEDS, _PAGE], words, folder)


def disk(runs: RunSet, servers: list[str], device: str, folder: Path) -> Figure | Text:
    """Return what the disk did over rows, as the seed's second graph had it."""
    panels = [
        _bytes(device),
        _Panel(("reads_per_s", "writes_per_s"), "operations a second", device),
    ]
    words = (f"disk-{device}", "Bytes and operations that the disk read and wrote over rows", _LOST)
    return _figure(runs, servers, panels, [*_SEEDS, _PAGE], words, folder)


def processors(runs: RunSet, servers: list[str], device: str, folder: Path) -> Figure | Text:
    """Return how busy the processors were over rows, and how long they waited for the disk."""
    panels = [
        _busy(device),
        _Panel(("iowait_share",), "waiting for the disk, %", device, 0.01, least=10),
    ]
    beside = (
        "Their share that was busy, the load generator's work included, and that which had nothing "
        "to do but wait for the disk. "
    )
    words = (f"processors-{device}", "The host's processors over rows", beside)
    return _figure(runs, servers, panels, [*_SEEDS[:2], _SHUFFLED], words, folder)


def pool(runs: RunSet, servers: list[str], device: str, folder: Path) -> Figure | Text:
    """Return dirty pages and the age of the checkpoint over rows, with the smaller pool."""
    size, log = _limits(runs)
    panels = [
        _Panel(("dirty_pages",), "dirty pages", device, level=size),
        _Panel(("checkpoint_age_bytes",), "checkpoint age, MB", device, 1e6, level=log),
    ]
    beside = "A compressed page counts as one, though several have room where one plain page has. "
    words = (f"pool-{device}", "Dirty pages and the age of the checkpoint over rows", beside)
    return _figure(runs, servers, panels, [*_SEEDS[:2], _PAGE, _SHUFFLED], words, folder)


def _limits(runs: RunSet) -> tuple[_Level | None, _Level | None]:
    """Return what bounds dirty pages and the checkpoint's age: the smaller pool, the redo log."""
    of = next((r for r in runs.valid.runs if float(r.factors["pool_ratio"]) < 1), None)
    if of is None:
        return None, None
    variables = runs.variables[of.conditions["variables"]]
    page, log = int(variables["innodb_page_size"]), redo_bytes(variables)
    return (
        (f"the pool's pages of {bytes_text(page)}", pool_bytes(runs, of) / page),
        (f"the redo log, {bytes_text(log)}", log / 1e6),
    )


def keys(runs: RunSet, servers: list[str], device: str, folder: Path) -> Figure | Text:
    """Return the plain table with keys in order and with shuffled ones, and the knees found."""
    panels = [_inserts(device, log=True), _bytes(device, log=True)]
    title = "The plain table with keys in order and with shuffled keys"
    beside = (
        "Inserts above, bytes that the disk read and wrote below, on logarithmic scales. Solid "
        "vertical lines: knees found in the curves of inserts, with their interval. "
    )
    words = (f"keys-{device}", title, beside)
    return _figure(runs, servers, panels, [_SEEDS[0], _SHUFFLED], words, folder, found=True)


def capped(runs: RunSet, servers: list[str], others: list[str], folder: Path) -> Figure | Text:
    """Return inserts, bytes and busy processors over rows on the devices after the first."""
    panels = [
        panel
        for device in others
        for panel in (_inserts(device), _bytes(device, level=_cap(device)), _busy(device))
    ]
    title = "Inserts, bytes that the disk read and wrote, and busy processors over rows"
    return _figure(runs, servers, panels, [*_SEEDS, _PAGE], ("capped", title, ""), folder)


def _cap(device: str) -> _Level | None:
    limit = profiles()[device].write_bytes_per_s if device in profiles() else None
    return (f"cap on writes, {limit / 1e6:g} MB/s", limit / 1e6) if limit else None


def _figure(
    runs: RunSet,
    servers: list[str],
    panels: list[_Panel],
    cases: list[str],
    words: tuple[str, str, str],
    folder: Path,
    *,
    found: bool = False,
) -> Figure | Text:
    """Return panels by quantity and server with a line for each case; a sentence where none ran.

    Parameters
    ----------
    words : the figure's name, what it shows, and what its caption says beside
    found : whether to mark the knees that were found
    """
    name, title, beside = words
    devices = list(dict.fromkeys(panel.device for panel in panels))
    plotted = _values(runs.valid, servers, panels, cases)
    if plotted.empty:
        return Text([f"No valid run on {', '.join(devices)}." if devices else NO_OTHER])
    picture, axes = canvas(len(servers), 1.2 + 2.3 * len(panels), len(panels), sharey="row",
                           sharex=True)  # fmt: skip
    places = [(panel, server) for panel in panels for server in servers]
    for axis, (panel, server) in zip(axes, places, strict=True):
        of = plotted[_is(plotted, panel)]
        _scale(axis, of, panel, plotted.mrows.max() + BIN_MROWS / 2)
        _draw(axis, of[of.server == server], cases)
        _mark(axis, runs.valid, server, panel, cases, found=found)
    _label(axes, panels, servers, plotted)
    picture.legend(handles=_legend(plotted, cases, found=found), loc="outside lower center",
                   ncols=3, fontsize=8, frameon=False)  # fmt: skip
    return publish(
        picture,
        name,
        pd.concat([plotted, _published()])[_COLUMNS],
        f"{title}, {_where(devices)}. {beside}{_READING}",
        _alt(plotted, title),
        folder,
    )


def _where(devices: Sequence[str]) -> str:
    emulated = [device for device in devices if device != HOST]
    words = ["measured on the disk as it is"] if HOST in devices else []
    words += [f"measured on {', '.join(emulated)}, emulated by limits"] if emulated else []
    return " and ".join(words)


def _published() -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"kind": "published", "quantity": "knee", "arm": case, "mrows": place}
            for case, place in published_knees().items()
        ]
    )


def _is(plotted: pd.DataFrame, panel: _Panel) -> Any:
    return (plotted.device == panel.device) & (plotted.quantity == panel.quantity)


def _values(
    valid: RunSet, servers: list[str], panels: list[_Panel], cases: list[str]
) -> pd.DataFrame:
    """Return the points of every line: each run's, and their mean with its interval."""
    rows: list[dict[str, Any]] = []
    for panel in panels:
        for server in servers:
            for case in cases:
                where = {"device": panel.device, "quantity": panel.quantity, "server": server,
                         "arm": case}  # fmt: skip
                of = {r.block: _curve(r, panel) for r in Arm(server, panel.device, case).of(valid)}
                for place, values in enumerate(zip(*of.values(), strict=True)):
                    at = {**where, "mrows": (place + 0.5) * BIN_MROWS}
                    rows += [
                        {"kind": "run", **at, "block": block + 1, "value": value}
                        for block, value in zip(of, values, strict=True)
                    ]
                    mean = _mean(panel)(values)
                    ends = {"value": mean.estimate, "low": mean.low, "high": mean.high}
                    rows.append({"kind": "measured", **at, **ends})
    return pd.DataFrame(rows, columns=_COLUMNS)


def _mean(panel: _Panel) -> Callable[[Sequence[float]], stats.Interval]:
    """Return the mean to take: geometric of rates, which are never zero, else arithmetic."""
    return stats.geometric_mean if panel.rates else stats.arithmetic_mean


def _curve(run: Run, panel: _Panel) -> list[float]:
    """Return the sum of a panel's curves in its unit, a value a bin."""
    curves = [run.metrics[f"curve_{name}"] for name in panel.curves]
    return [sum(values) / panel.unit for values in zip(*curves, strict=True)]


def _draw(axis: Any, of: pd.DataFrame, cases: list[str]) -> None:
    for case in cases:
        one = of[of.arm == case]
        look = _look(case)
        for _, run in one[one.kind == "run"].groupby("block"):
            axis.plot(run.mrows, run.value, color=look["color"], linewidth=0.6, alpha=0.3)
        mean = one[one.kind == "measured"]
        axis.fill_between(mean.mrows, mean.low, mean.high, color=look["color"], alpha=0.12,
                          linewidth=0)  # fmt: skip
        axis.plot(mean.mrows, mean.value, **look)


def _look(case: str) -> dict[str, Any]:
    """Return a line's look: colour and mark by format and keys, dashes by pool."""
    form, order, size = case.split("/")
    shuffled = order == "shuffled"
    return {
        "color": _PURPLE if shuffled else _COLOURS[form],
        "marker": "^" if shuffled else _MARKS[form],
        "markerfacecolor": "white" if size == "8G" else None,
        "linestyle": (0, (4, 2)) if size == "8G" else "-",
        "markersize": 4,
        "linewidth": 1.4,
    }


def _scale(axis: Any, of: pd.DataFrame, panel: _Panel, end: float) -> None:
    """Scale an axis by what was measured: an interval of few runs may reach far beyond."""
    axis.set_xlim(0, end)
    axis.xaxis.set_major_locator(MultipleLocator(20))
    top = max(of.value.max(), panel.level[1] if panel.level else 0) if len(of) else 1
    if panel.log:
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_minor_formatter(lambda value, _: "")
        seen = of.value[of.value > 0]
        axis.set_ylim((seen.min() if len(seen) else 1) / 1.3, max(top, 1) * 2)
    elif panel.percent:
        axis.set_yticks(range(0, 101, 25))
        axis.set_ylim(0, 122)
    else:
        axis.set_ylim(0, max(top * 1.22, panel.least) or 1)
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axis.tick_params(labelsize=9)


def _mark(
    axis: Any, valid: RunSet, server: str, panel: _Panel, cases: list[str], *, found: bool
) -> None:
    """Mark published knees, where tables are as large as pools, found knees, and the level."""
    for case, place in published_knees().items():
        colour = _look(case)["color"]
        axis.axvline(place, color=colour, linewidth=0.9, linestyle=_DOTS, zorder=1)
    for case in cases:
        arm, look = Arm(server, panel.device, case), _look(case)
        if full := full_mrows(valid, arm):
            axis.plot([full], [0], marker=CARETUPBASE, markersize=7, color=look["color"],
                      markerfacecolor=look["markerfacecolor"],
                      transform=axis.get_xaxis_transform())  # fmt: skip
        at = knee(valid, arm) if found else None
        if at:
            axis.axvline(at.estimate, color=look["color"], linewidth=1.2)
            if at.n > 1:
                axis.axvspan(at.low, at.high, color=look["color"], alpha=0.15, linewidth=0)
    if panel.level:
        words, height = panel.level
        axis.axhline(height, color=GREY, linewidth=0.8, linestyle=":")
        _note(axis, words, (1, height), ("axes fraction", "data"), "right", "bottom", GREY)


def _note(
    axis: Any, words: str, at: Any, coordinates: Any, side: str, edge: str, colour: str
) -> None:
    """Write small words beside a point, readable over lines."""
    box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.8}
    axis.annotate(words, at, xycoords=coordinates, ha=side, va=edge, fontsize=7, color=colour,
                  xytext=(-3 if side == "right" else 3, 2 if edge == "bottom" else 0), bbox=box,
                  textcoords="offset points")  # fmt: skip


def _label(axes: list[Any], panels: list[_Panel], servers: list[str], plotted: Any) -> None:
    """Write servers and published knees above, rows below, quantities beside."""
    several = len({panel.device for panel in panels}) > 1
    for row, panel in enumerate(panels):
        words = panel.quantity + (f"\n{panel.device}" if several else "")
        axes[row * len(servers)].set_ylabel(words, fontsize=9)
    for axis, server in zip(axes, servers, strict=False):
        axis.set_title(server if server in set(plotted.server) else f"{server}: no valid run")
        for side, case in (("right", _SEEDS[0]), ("left", _SEEDS[1])):
            place = published_knees()[case]
            _note(axis, f"{table_words(case)} {place:g}", (place, 0.985),
                  ("data", "axes fraction"), side, "top", _look(case)["color"])  # fmt: skip
    for axis in axes[-len(servers) :]:
        axis.set_xlabel("rows, millions of the original's", fontsize=9)


def _legend(plotted: pd.DataFrame, cases: list[str], *, found: bool) -> list[Line2D]:
    drawn = set(plotted.arm)
    lines = [
        Line2D([], [], label=case_words(case), **_look(case)) for case in cases if case in drawn
    ]
    marks = [
        Line2D([], [], color=GREY, linewidth=0.9, linestyle=_DOTS, label="published knees"),
        Line2D([], [], color=GREY, marker="^", linestyle="", label="table as large as its pool"),
    ]
    if found:
        marks.append(Line2D([], [], color=GREY, linewidth=1.2, label="knee found"))
    return lines + marks


def _alt(plotted: pd.DataFrame, title: str) -> str:
    """Return each line in words: where it begins and ends, its least and its most."""
    mean = plotted[plotted.kind == "measured"]
    said = []
    by = ["device", "quantity", "server", "arm"]
    for (device, quantity, server, arm), of in mean.groupby(by, sort=False):
        first, last = of.iloc[0], of.iloc[-1]
        said.append(
            f"{quantity}, {server} on {device}, {case_words(str(arm))}: "
            f"{first.value:.3g} at {first.mrows:g} million rows, {last.value:.3g} at "
            f"{last.mrows:g} million, from {of.value.min():.3g} to {of.value.max():.3g} overall"
        )
    return f"{title}. {'; '.join(said)}."
