"""The page of a judged table: what is decided, what is noise, which winner leads by nothing."""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from innolab.analysis import stats
from innolab.analysis.outcomes import DECIDED
from innolab.base.units import number
from innolab.report import figure_text, figures, first_screen, folders, pages, render
from innolab.tables import rankings, seconds_page
from innolab.tables.rankings import Lead

if TYPE_CHECKING:
    import pandas as pd

    from innolab.analysis.verdicts import Verdict
    from innolab.tables.judging import Judged, Placed
    from innolab.tables.rankings import Spread

# A figure with more rankings than these is no figure any more; its table has all of them.
_MOST_DRAWN = 60


def write(found: "Judged", folder: Path) -> Path:
    """Write the page of a table with its figures, and return its path."""
    names = [f"leads-{n}" if n > 1 else "leads" for n in range(1, len(found.spreads) + 1)]
    with figure_text.letters_of(_texts(found)) as drawn_as:
        drawn = [
            _leads(found, *of, folder, drawn_as) for of in zip(found.spreads, names, strict=True)
        ]
        forest = _forest(found, folder, drawn_as)
        seconds = list(seconds_page.drawn(found, folder, drawn_as))
    metrics = found.table.about.metrics
    return pages.write(
        folder / render.PAGE_FILE,
        "judged.html.j2",
        title=found.title,
        name=found.name,
        version=folders.version_of(folder),
        about=found.table.about,
        rows=len(found.table.rows),
        arms=len(found.table.arms),
        borrowed=[name for name, one in found.spreads.items() if one.borrowed],
        unknown=[name for name, one in found.spreads.items() if one.is_floor],
        courses=seconds_page.rows(found),
        seconds=seconds,
        spreads=[(name, metrics[name].unit, one) for name, one in found.spreads.items()],
        counts=first_screen.counts([verdict.model_dump() for verdict in found.verdicts]),
        summary=summary(found),
        rankings=[(name, metrics[name], _rows(found, name)) for name in found.spreads],
        pairs=[_pair(one, pair) for one in found.rankings for pair in one.ranking.leads],
        claims=[_claim(verdict) for verdict in found.verdicts],
        figures=drawn,
        forest=forest,
        chance=_chance(found),
        many=rankings.MANY,
    )


def summary(found: "Judged") -> list[str]:
    """Return in sentences which rankings are decided, and which claims."""
    lines = []
    for metric in found.spreads:
        of = [one.ranking for one in found.rankings if one.metric == metric]
        by_nothing = sum(one.first.outcome == "noise" for one in of)
        most = sorted(one.first.spread_most for one in of if one.first.outcome == "open")
        pairs = [pair for one in of for pair in one.leads]
        lines.append(
            f"By {metric}, the winner of {len(of) - by_nothing - len(most)} of {len(of)} rankings "
            f"is decided; in {by_nothing} the best leads the next by nothing. "
            + (_open_text(most) if most else "")
            + f"Of {len(pairs)} pairs, {sum(pair.is_decided for pair in pairs)} are decided."
        )
    lines += seconds_page.summary(found)
    if failed := found.table.failed:
        arms = ", ".join(f"{n} of {' '.join(map(str, arm))}" for arm, n in failed.items())
        lines.append(
            f"{sum(failed.values())} of {len(found.table.rows)} runs came to nothing ({arms}); "
            "what leads is said of the others."
        )
    if found.verdicts:
        counted = {
            outcome: n for _, of in first_screen.counts([v.model_dump() for v in found.verdicts])
            for outcome, n in of
        }  # fmt: skip
        said = ", ".join(f"{n} {outcome.replace('-', ' ')}" for outcome, n in counted.items())
        lines.append(f"Of {sum(counted.values())} published claims: {said}.")
    return lines


def _open_text(most: list[float]) -> str:
    """Return up to which spread leads hold that nothing decides, from the least on."""
    ends = " to ".join(dict.fromkeys(map(spread_text, (most[0], most[-1]))))
    return (
        f"{len(most)} are open, as no arm was run twice: their leads hold up to a spread between "
        f"runs of {ends}. "
    )


def lines(found: "Judged") -> list[str]:
    """Return what a table says in words, line by line."""
    said = [f"{name}: spread between runs {_known_text(one)}{one.says}."
            for name, one in found.spreads.items()]  # fmt: skip
    said += [f"{one.metric}, {place(one)}: {lead_text(one.ranking.first)}"
             for one in found.rankings]  # fmt: skip
    for verdict in found.verdicts:
        said.append(f"{verdict.claim}: {verdict.verdict} ({verdict.reason})")
    return [*said, *summary(found)]


def _known_text(one: "Spread") -> str:
    return f"{spread_text(one.sd)}, " if one.is_known else ""


def spread_text(sd: float) -> str:
    """Return a spread of logarithms as a share, as people say it.

    >>> spread_text(0.0066)
    '0.66 %'
    """
    return f"{100 * sd:.2g} %"


def place(one: "Placed") -> str:
    """Return where a ranking holds, in words."""
    return ", ".join(f"{factor} {level}" for factor, level in one.at.items()) or "all"


def lead_text(of: Lead) -> str:
    """Return a lead in words: by how much, by nothing, or up to which spread it holds.

    >>> from innolab.analysis.stats import Interval
    >>> lead_text(Lead("a", "b", Interval(1.02, 0.99, 1.05, 1), 0.004))
    'a leads b by nothing: 1.020 times as good (0.990 to 1.050)'
    >>> lead_text(Lead("a", "b", Interval(1.2, 1.1, 1.31, 1), 0.05))
    'a leads b, decided: 1.200 times as good (1.100 to 1.310)'
    """
    words = {"decided": ", decided", "noise": " by nothing", "open": ", open"}[of.outcome]
    text = f"{of.of} leads {of.to}{words}: {_times(of)}"
    if of.outcome == "open":
        return f"{text}, which holds up to a spread of {spread_text(of.spread_most)}"
    is_within = of.outcome == "noise" and of.ratio.estimate > 1 and of.one_wave > 0
    if is_within and math.log(of.ratio.estimate) <= of.one_wave:
        return f"{text}, and one wave more or less moves it by {of.one_wave:.2%}"
    return text


def _times(of: Lead) -> str:
    estimate, low, high = of.ratio[:3]
    ends = "" if math.isnan(low) else f" ({low:.3f} to {high:.3f})"
    return f"{estimate:.3f} times as good{ends}"


def _rows(found: "Judged", metric: str) -> list[dict[str, Any]]:
    return [
        {
            "place": place(one),
            "order": [(standing.level, number(standing.mean.estimate), standing.mean.n)
                      for standing in one.ranking.standings],
            "lead": one.ranking.first,
            "times": _times(one.ranking.first),
            "most": spread_text(one.ranking.first.spread_most),
            "level": one.ranking.level_with_best,
        }
        for one in found.rankings
        if one.metric == metric
    ]  # fmt: skip


def _pair(one: "Placed", pair: Lead) -> dict[str, Any]:
    return {
        "metric": one.metric,
        "place": place(one),
        "of": pair.of,
        "to": pair.to,
        "times": _times(pair),
        "outcome": pair.outcome,
        "most": spread_text(pair.spread_most),
    }


def _claim(verdict: "Verdict") -> dict[str, Any]:
    known = (verdict.estimate, verdict.low, verdict.high)
    found = "" if known[0] is None else number(known[0])
    if known[1] is not None and known[2] is not None:
        found += f" ({number(known[1])} to {number(known[2])})"
    return {
        "verdict": verdict,
        "found": found,
        "published": "" if verdict.published is None else number(verdict.published),
    }


def _chance(found: "Judged") -> dict[str, int]:
    """Return how many of what is decided may be wrong by chance alone."""
    decided = sum(one.ranking.first.is_decided for one in found.rankings)
    judged = sum(verdict.verdict in DECIDED for verdict in found.verdicts)
    share = 1 - stats.LEVEL
    return {
        "rankings": len(found.rankings),
        "decided": decided,
        "wrong": math.ceil(share * len(found.rankings) - 1e-9),
        "claims": judged,
        "wrong_claims": math.ceil(share * judged - 1e-9),
    }


def _texts(found: "Judged") -> list[str]:
    """Return the texts of a table that are drawn."""
    levels = [str(one.level) for placed in found.rankings for one in placed.ranking.standings]
    claims = [text for verdict in found.verdicts for text in (verdict.claim, verdict.server)]
    return [str(found.table.about.ranked), *levels, *map(place, found.rankings), *claims]


def _key(drawn_as: dict[str, str], texts: Iterable[str]) -> str:
    """Return what the numbers are that are drawn for texts whose letters no font has."""
    numbered = [f"{drawn_as[text]} is {text}" for text in dict.fromkeys(texts)
                if drawn_as[text] != text]  # fmt: skip
    return f" In the figure {', '.join(numbered)}." if numbered else ""


def _leads(
    found: "Judged", metric: str, name: str, folder: Path, drawn_as: dict[str, str]
) -> figures.Figure:
    """Draw each arm beside the best of its ranking, with the interval of that ratio."""
    placed = [one for one in found.rankings if one.metric == metric]
    shown = _shares(placed[:_MOST_DRAWN])
    ranked = found.table.about.ranked
    more = f" The first {_MOST_DRAWN} rankings." if len(placed) > _MOST_DRAWN else ""
    caption = (
        f"How good each {ranked} is beside the best of its ranking, by {metric}: 1 is as good. "
        "Intervals hold together for all pairs of a ranking at 95 %; one that reaches 1 cannot be "
        f"told from the best.{more}"
        f"{_key(drawn_as, [str(ranked), *shown['level'], *shown['ranking']])}"
    )
    level = sum(one.ranking.first.outcome == "noise" for one in placed)
    alt = (
        f"{len(placed)} rankings; in {level} of them the best leads the second by nothing. "
        + "; ".join(f"{place(one)}: {lead_text(one.ranking.first)}" for one in placed[:12])
        + (f"; and {len(placed) - 12} more" if len(placed) > 12 else "")
    )
    picture = _drawn(shown, str(ranked), drawn_as)
    return figures.publish(picture, name, shown, caption, alt, folder)


def _shares(placed: "list[Placed]") -> "pd.DataFrame":
    import pandas as pd

    rows = []
    for one in placed:
        best = one.ranking.standings[0].level
        rows.append({"ranking": place(one), "level": str(best), "share": 1.0})
        rows += [
            {
                "ranking": place(one),
                "level": str(pair.to),
                "share": 1 / pair.ratio.estimate,
                "low": 1 / pair.ratio.high,
                "high": 1 / pair.ratio.low,
            }
            for pair in one.ranking.leads
            if pair.of == best
        ]
    return pd.DataFrame(rows, columns=["ranking", "level", "share", "low", "high"])


def _drawn(shown: "pd.DataFrame", ranked: str, drawn_as: dict[str, str]) -> Any:
    import seaborn
    from matplotlib.figure import Figure as Picture

    places, levels = (list(dict.fromkeys(shown[name])) for name in ("ranking", "level"))
    levels.sort()
    picture = Picture(figsize=(8.6, 1.6 + 0.1 * len(places) * (1 + len(levels))),
                      layout="constrained")  # fmt: skip
    axis = picture.subplots()
    palette = seaborn.color_palette("colorblind", len(levels))
    markers = "osD^vPX*<>"
    for turn, (level, colour) in enumerate(zip(levels, palette, strict=True)):
        of = shown[shown["level"] == level]
        shift = 0.7 * (turn + 0.5) / len(levels) - 0.35
        at = [places.index(name) + shift for name in of["ranking"]]
        error = [(of["share"] - of["low"]).fillna(0), (of["high"] - of["share"]).fillna(0)]
        axis.errorbar(of["share"], at, xerr=error, fmt=markers[turn % len(markers)], ms=5,
                      capsize=2, linewidth=1, color=colour, label=drawn_as[level])  # fmt: skip
    axis.axvline(1, color="0.4", linewidth=0.8)
    axis.set_yticks(range(len(places)), [drawn_as[name] for name in places], fontsize=8)
    axis.set_ylim(len(places) - 0.5, -0.5)
    axis.set_xlabel("times as good as the best of the ranking")
    picture.legend(title=drawn_as[ranked], loc="outside upper center", ncols=4, fontsize=8)
    return picture


def _forest(found: "Judged", folder: Path, drawn_as: dict[str, str]) -> figures.Figure | None:
    """Draw the claims about ratios, with what was published."""
    import pandas as pd

    rows = [
        {"claim": v.claim, "server": v.server, "estimate": v.estimate, "low": v.low,
         "high": v.high, "published": math.nan if v.published is None else v.published}
        for claim, v in zip(found.claims, found.verdicts, strict=True)
        if claim.compare and v.low is not None and v.high is not None
    ]  # fmt: skip
    if not rows:
        return None
    shown = pd.DataFrame(rows)
    caption = "What the table gives for each claim, with 95 % intervals, and what was published."
    alt = f"{caption} " + "; ".join(f"{v.claim}: {v.verdict}" for v in found.verdicts)
    caption += _key(drawn_as, [*shown["claim"], *shown["server"]])
    drawn = figures.forest(shown.replace({"claim": drawn_as, "server": drawn_as}))
    return figures.publish(drawn, "claims", shown, caption, alt, folder)
