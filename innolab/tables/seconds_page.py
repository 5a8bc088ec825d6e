"""What a judged table's page says of the seconds of its runs: sentences, a table and figures."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from innolab.analysis.seconds import LEAST_WAVES, Course
from innolab.base.units import number
from innolab.report import figures

if TYPE_CHECKING:
    import pandas as pd

    from innolab.tables.judging import Judged
    from innolab.tables.posted import Seconds

# More panels, or points of a line, cannot be told apart.
_MOST_PANELS = 12
_MOST_POINTS = 300


def trend_text(one: Course) -> str:
    """Return whether a run was still rising or falling, as text."""
    share = f"{abs(one.drift.share):.0%}"
    if one.drift.steady:
        return f"steady: its halves differ by {share}"
    way, place = ("rising", "above") if one.drift.share > 0 else ("falling", "below")
    return f"still {way}: its second half is {share} {place} its first"


def waves_text(one: Course) -> str:
    """Return what comes back in a run, as text."""
    if one.wave is None:
        return f"none seen that comes {LEAST_WAVES} times or more"
    return (
        f"every {one.wave.period_s:.3g} s, from trough to crest {one.wave.swing:.0%} of the "
        f"average; it holds {one.wave.whole}"
    )


def rows(found: "Judged") -> list[dict[str, Any]]:
    """Return what the seconds of each run say, a mapping a run and metric."""
    return [
        {
            "metric": metric,
            "run": _run(found, row),
            "average": number(found.table.rows[row].values[metric]),
            "length": f"{one.length_s:.4g} s",
            "trend": trend_text(one),
            "waves": waves_text(one),
            "one_wave": f"{one.one_wave:.2%}" if one.wave else "",
            "error": f"{one.error:.2%}",
        }
        for metric in found.spreads
        for row, one in found.table.courses(metric).items()
    ]


def summary(found: "Judged") -> list[str]:
    """Return in a sentence a metric how many runs were not steady, and how many go in waves."""
    lines = []
    for metric in found.spreads:
        courses = list(found.table.courses(metric).values())
        if not courses:
            continue
        moving = [one for one in courses if not one.drift.steady]
        rising = sum(one.drift.share > 0 for one in moving)
        waves = [one for one in courses if one.wave]
        text = (
            f"By their own seconds in {metric}, of {len(courses)} runs {rising} were still rising "
            f"and {len(moving) - rising} falling; {len(waves)} go in waves"
        )
        if waves:
            periods = sorted(one.wave.period_s for one in waves if one.wave)
            most = max(one.one_wave for one in waves)
            text += (
                f", of {periods[0]:.3g} to {periods[-1]:.3g} s: one wave more or less moves an "
                f"average by up to {most:.2%}"
            )
        lines.append(f"{text}.")
    return lines


def _run(found: "Judged", row: int) -> str:
    of = found.table.rows[row]
    labels = [f"{name} {of.cells[name]}" for name in found.table.about.repeated_by
              if of.cells.get(name)]  # fmt: skip
    return ", ".join([*(f"{name} {level}" for name, level in of.levels.items()), *labels])


def drawn(found: "Judged", folder: Path, drawn_as: dict[str, str]) -> Iterator[figures.Figure]:
    """Draw the seconds of each metric that has any: a panel for each ranking, a line for a run."""
    for place, metric in enumerate(dict.fromkeys(key.metric for key in found.table.series), 1):
        shown = _values(found, metric)
        unit = found.table.about.metrics[metric].unit
        caption = (
            f"The seconds of each run, by {metric} ({unit}): a line for a run, at most "
            f"{_MOST_POINTS} points each, of as many seconds together as these need."
        )
        courses = found.table.courses(metric)
        alt = f"{caption} " + "; ".join(
            f"{_run(found, row)}: {trend_text(one)}; waves: {waves_text(one)}"
            for row, one in list(courses.items())[:_MOST_PANELS]
        )
        name = "seconds" if place == 1 else f"seconds-{place}"
        picture = _picture(shown, str(found.table.about.ranked), f"{metric} ({unit})", drawn_as)
        yield figures.publish(picture, name, shown, caption, alt, folder)


def _values(found: "Judged", metric: str) -> "pd.DataFrame":
    import pandas as pd

    ranked, table = found.table.about.ranked, found.table
    lines = []
    for key, seconds in table.series.items():
        if key.metric == metric:
            levels = dict(table.rows[key.row].levels)
            level = str(levels.pop(str(ranked)))
            panel = ", ".join(f"{name} {of}" for name, of in levels.items()) or "all"
            lines += [{"ranking": panel, "level": level, "run": key.row + 1, "t_s": t_s,
                       "value": value} for t_s, value in _thinned(seconds)]  # fmt: skip
    frame = pd.DataFrame(lines)
    panels = list(dict.fromkeys(frame["ranking"]))[:_MOST_PANELS]
    return frame[frame["ranking"].isin(panels)]


def _thinned(seconds: "Seconds") -> "Seconds":
    """Return means over as many neighbouring moments as leave a line its most points."""
    step = -(-len(seconds) // _MOST_POINTS)
    groups = [seconds[at : at + step] for at in range(0, len(seconds), step)]
    return [(of[-1][0], sum(value for _, value in of) / len(of)) for of in groups]


def _picture(shown: "pd.DataFrame", ranked: str, label: str, drawn_as: dict[str, str]) -> Any:
    import seaborn
    from matplotlib.figure import Figure as Picture

    panels = list(dict.fromkeys(shown["ranking"]))
    levels = sorted(dict.fromkeys(shown["level"]))
    picture = Picture(figsize=(8.6, 1.0 + 1.7 * len(panels)), layout="constrained")
    axes = picture.subplots(len(panels), sharex=True, squeeze=False)[:, 0]
    colours = dict(zip(levels, seaborn.color_palette("colorblind", len(levels)), strict=True))
    for axis, panel in zip(axes, panels, strict=True):
        for (level, _), line in shown[shown["ranking"] == panel].groupby(["level", "run"]):
            axis.plot(line["t_s"], line["value"], color=colours[level], linewidth=1)
        axis.set_ylim(bottom=0)
        axis.set_title(drawn_as.get(panel, panel), fontsize=8)
    handles = [axes[0].plot([], [], color=colours[level], label=drawn_as[level])[0]
               for level in levels]  # fmt: skip
    picture.legend(handles=handles, title=drawn_as[ranked], loc="outside upper center", ncols=4,
                   fontsize=8)  # fmt: skip
    picture.supxlabel("seconds since the run began", fontsize=9)
    picture.supylabel(label, fontsize=9)
    return picture
