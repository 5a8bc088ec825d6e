"""What a run cost and gave against the rows inserted, instead of against time. Pure numbers."""

import itertools
from collections.abc import Mapping, Sequence

from innolab.record.series import COUNTERS

Sample = Mapping[str, float]


def joined(pieces: Sequence[Sequence[Sample]]) -> list[dict[str, float]]:
    """Return the samples of pieces of work as if each had followed the last at once.

    Time and counters continue where the piece before ended: neither a pause between pieces nor
    the start of a new server counts.

    >>> joined([[{"t_s": 0, "rows": 0}, {"t_s": 1, "rows": 5}], [{"t_s": 9, "rows": 0}]])
    [{'t_s': 0, 'rows': 0}, {'t_s': 1, 'rows': 5}, {'t_s': 1, 'rows': 5}]
    """
    result: list[dict[str, float]] = []
    for piece in pieces:
        moved = {"t_s", *COUNTERS} & piece[0].keys()
        at = result[-1] if result else piece[0]
        shift = {name: at[name] - piece[0][name] for name in moved}
        result += [
            {name: value + shift.get(name, 0) for name, value in sample.items()} for sample in piece
        ]
    return result


def by_rows(samples: Sequence[Sample], edges: Sequence[float]) -> dict[str, list[float]]:
    """Return what each bin of rows took and showed, one value a bin.

    Parameters
    ----------
    samples : in order of time, with `t_s` and `rows` (counted from any number)
    edges : shape (bins + 1,), rows since the first sample, ascending

    Returns
    -------
    dict
        For `t_s` and every counter how much passed while the bin's rows went in, by straight lines
        between samples; for every other column its mean over that time.
    """
    import numpy as np

    rows = np.array([sample["rows"] - samples[0]["rows"] for sample in samples])
    # Where nothing is inserted for a while, that time belongs to the rows that come after it.
    grows = np.append(True, np.diff(rows) > 0)
    found: dict[str, list[float]] = {}
    times = np.array([sample["t_s"] for sample in samples])
    at = np.interp(edges, rows[grows], times[grows])
    for name in samples[0]:
        values = np.array([sample[name] for sample in samples])
        if name == "t_s" or name in COUNTERS:
            ends = np.interp(at, times, values)
            found[name] = [float(x) for x in np.diff(ends)]
        else:
            found[name] = [_mean(times, values, *span) for span in itertools.pairwise(at)]
    return found


def _mean(times, values, begin: float, end: float) -> float:  # type: ignore[no-untyped-def]
    """Return the mean of a quantity over a span, by straight lines between samples.

    Just within its ends: where two pieces were joined, a quantity has two values at one time.
    """
    import numpy as np

    inside = (times > begin) & (times < end)
    ends = np.nextafter([begin, end], [end, begin])
    t = np.concatenate([ends[:1], times[inside], ends[1:]])
    v = np.interp(t, times, values)
    return float(np.trapezoid(v, t) / (t[-1] - t[0]))
