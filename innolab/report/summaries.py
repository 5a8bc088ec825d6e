"""Rows of runs summarized: means with their intervals, ratios within blocks, values as text."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from innolab.analysis import stats
from innolab.base import language, units

if TYPE_CHECKING:
    import pandas as pd

_MOST_SERIES = 24
# Not of an arm, so no part of a series.
_REPETITION = ("trial", "block")


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean, as seaborn's `estimator`."""
    return mean(list(values)).estimate


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % Student t interval on logarithms, as seaborn's `errorbar`.

    Parameters
    ----------
    values : one for each restart of the server
    """
    ends = mean(list(values))
    return ends.low, ends.high


def arithmetic_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % Student t interval of an arithmetic mean, as seaborn's `errorbar`.

    For shares and for what may be zero, with `estimator="mean"`.
    """
    ends = stats.arithmetic_mean(list(values))
    return ends.low, ends.high


def estimate(values: Sequence[float]) -> str:
    """Return the geometric mean with its 95 % interval as text, for the cell of a table."""
    return as_text(mean(list(values))) if len(values) else ""


def as_text(interval: stats.Interval) -> str:
    """Return an estimate with its interval as text, for the cell of a table."""
    return units.interval_text(interval.estimate, interval.low, interval.high)


def ratios(
    runs: "pd.DataFrame",
    metric: str,
    of: Mapping[str, Any],
    to: Mapping[str, Any],
    by: Sequence[str] = ("server",),
) -> "pd.DataFrame":
    """Return the ratio of a metric at some levels to that at others, paired by block.

    Returns
    -------
    pandas.DataFrame
        A row for each combination of `by` that has both: `ratio`, `low`, `high`, `n`, and all four
        as text as `times`.
    """
    import pandas as pd

    keys = [*by, "block"]
    top, bottom = (_at(runs, levels).set_index(keys)[metric] for levels in (of, to))
    both = (top / bottom).dropna()
    rows = []
    for levels, values in both.groupby(level=list(by), sort=False):
        mean_ratio = stats.geometric_mean(list(values))
        named = dict(zip(by, levels if isinstance(levels, tuple) else (levels,), strict=True))
        ends = dict(zip(("ratio", "low", "high", "n"), mean_ratio[:4], strict=True))
        rows.append({**named, **ends, "times": as_text(mean_ratio)})
    return pd.DataFrame(rows, columns=[*by, "ratio", "low", "high", "n", "times"])


def _at(runs: "pd.DataFrame", levels: Mapping[str, Any]) -> "pd.DataFrame":
    for name, level in levels.items():
        runs = runs[runs[name] == level]
    return runs


def summarized(shown: "pd.DataFrame", metric: str, *, arithmetic: bool = False) -> "pd.DataFrame":
    """Return a metric by all other columns: mean, interval, and number of values.

    Parameters
    ----------
    shown : a row a run, with the columns of its arm, `block` or `trial`, and the metric
    arithmetic : whether to take arithmetic means, as of shares and of what may be zero; geometric
        ones are for times and rates
    """
    import pandas as pd

    by = [name for name in shown.columns if name not in (*_REPETITION, metric)]
    rows = []
    for levels, of in shown.dropna(subset=[metric]).groupby(by, sort=False, observed=True):
        average = (stats.arithmetic_mean if arithmetic else mean)(list(of[metric]))
        named: dict[str, Any] = dict(zip(by, list(levels), strict=True))
        ends = dict(zip((metric, "low", "high", "n"), average[:4], strict=True))
        rows.append({**named, **ends})
    return pd.DataFrame(rows, columns=[*by, metric, "low", "high", "n"])


def mean(values: Sequence[float]) -> stats.Interval:
    """Return the geometric mean with its interval; the arithmetic one of values not positive."""
    positive = all(value > 0 for value in values)
    return (stats.geometric_mean if positive else stats.arithmetic_mean)(list(values))


def plotted(shown: "pd.DataFrame", metric: str, *, arithmetic: bool = False) -> "pd.DataFrame":
    """Return what a figure of runs plots: single runs, and their means with intervals."""
    import pandas as pd

    runs = shown.drop(columns=[name for name in ["trial"] if name in shown]).assign(kind="run")
    means = summarized(shown, metric, arithmetic=arithmetic).assign(kind="mean")
    both = pd.concat([runs, means], ignore_index=True)
    return both[["kind", *(name for name in both.columns if name != "kind")]]


def described(shown: "pd.DataFrame", metric: str, x: str, *, arithmetic: bool = False) -> str:
    """Return each series of a figure as text: its value at the first and at the last x."""
    means = summarized(shown, metric, arithmetic=arithmetic)
    by = [name for name in means.columns if name not in (x, metric, "low", "high", "n")]
    groups = means.groupby(by, sort=False, observed=True) if by else [((), means)]
    series = []
    for levels, of in groups:
        name = ", ".join(language.word(str(level)) for level in levels)
        ends = of if len(of) < 3 else of.iloc[[0, -1]]
        points = ", ".join(
            language.text("{value} at {at}", value=units.number(value), at=at)
            for at, value in zip(ends[x], ends[metric], strict=True)
        )
        series.append(f"{name}: {points}" if name else points)
    rest = len(series) - _MOST_SERIES
    more = [language.text("and {n} more", n=rest)] if rest > 0 else []
    return "; ".join([*series[:_MOST_SERIES], *more])
