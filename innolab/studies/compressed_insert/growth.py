"""What a table that outgrows memory gave and cost: a finished trial's samples as metrics.

Rows are in millions of the original's, whatever the scale: its claims are about 70 and 90 of them.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from innolab.record.journal import Checkpoint
from innolab.record.series import COUNTERS
from innolab.studies.compressed_insert import changepoint

# A point of the curves every 10 million of the original's rows.
BIN_MROWS = 10
# Between the places of the original's claims. The first bin is in its span: what a server writes
# into the kernel's cache there, a slow disk makes the next ones pay for. "memory" is where the
# plain table surely fits its pool, after the first bins; one bin alone has too few bursts.
SPANS_MROWS = {"memory": (20, 40), "early": (0, 70), "middle": (70, 90), "late": (90, 130)}
# Processors that wait for less than this share of their time do not stand still.
STALLED = 0.1
_RATES = {
    "per_s": "rows",
    "read_bytes_per_s": "device_read_bytes",
    "written_bytes_per_s": "device_written_bytes",
    "reads_per_s": "device_reads",
    "writes_per_s": "device_writes",
}
_SHARES = {
    "busy_share": "host_busy_s",
    "iowait_share": "host_iowait_s",
    "mysqld_share": "mysqld_cpu_s",
}
_GAUGES = ("dirty_pages", "checkpoint_age_bytes")

Bins = dict[str, list[float]]
Sample = Mapping[str, float]

UNITS = {
    **dict.fromkeys(["per_s"], "rows/s"),
    **dict.fromkeys(["read_bytes_per_s", "written_bytes_per_s"], "bytes/s"),
    **dict.fromkeys(["reads_per_s", "writes_per_s", "operations_per_s"], "1/s"),
    **dict.fromkeys(_SHARES, "share of all processors"),
    "dirty_pages": "pages",
    "checkpoint_age_bytes": "bytes",
    "fall_ratio": "late over early throughput",
    "knee_mrows": "million rows",
    "knee_found": "1 where there is a knee, else 0",
    "knee_data_ratio": "data over pool",
    "stall_busy_share": "share of all processors",
    "stall_iowait_share": "share of all processors",
    "all_per_s": "rows/s",
    "mysqld_us_per_row": "µs",
    "generator_us_per_row": "µs",
    "redo_bytes_per_row": "bytes",
    "device_read_bytes_per_row": "bytes",
    "device_written_bytes_per_row": "bytes",
    "compressions_per_1000_rows": "1",
    "compress_failed_ratio": "share of the attempts",
    "leaf_bytes_per_row": "bytes",
    "file_bytes_per_row": "bytes",
    "allocated_bytes_per_row": "bytes",
    "zlib_ratio": "times smaller",
}


def measured(
    done: Checkpoint, edges_mrows: Sequence[int], rows_per_mrow: float
) -> list[dict[str, Any]]:
    """Return observations: each bin of the curves, each span of the claims, then the whole.

    `mrows` is the end of a bin, in millions of the original's rows.

    Parameters
    ----------
    done : a trial with all its segments
    edges_mrows : edges of the curves' bins, in millions of the original's rows
    rows_per_mrow : the rows that stand for one of these millions
    """
    bins = by_rows(joined(done.samples), [mrows * rows_per_mrow for mrows in edges_mrows])
    curve = {**_curve(bins), **{name: bins[name] for name in _GAUGES}}
    spans = {name: _span(bins, *ends) for name, ends in SPANS_MROWS.items()}
    whole = {name: sum(values) for name, values in bins.items()}
    return [
        *(
            {"mrows": end, **{name: values[place] for name, values in curve.items()}}
            for place, end in enumerate(edges_mrows[1:])
        ),
        *({"span": name, **span} for name, span in spans.items()),
        {
            "fall_ratio": spans["late"]["per_s"] / spans["early"]["per_s"],
            **_knee(edges_mrows, curve["per_s"]),
            **_stall(curve),
            **_costs(done, whole),
        },
    ]


def _span(bins: Bins, begin_mrows: int, end_mrows: int) -> dict[str, float]:
    """Return rates and shares of the bins of a span, as if they were one."""
    places = slice(begin_mrows // BIN_MROWS, end_mrows // BIN_MROWS)
    as_one = {name: [sum(values[places])] for name, values in bins.items()}
    return {name: value for name, [value] in _curve(as_one).items()}


def _curve(bins: Bins) -> Bins:
    rates = {name: _over(bins[counter], bins["t_s"]) for name, counter in _RATES.items()}
    both = zip(rates["reads_per_s"], rates["writes_per_s"], strict=True)
    return {
        **rates,
        "operations_per_s": [reads + writes for reads, writes in both],
        **{name: _over(bins[counter], bins["host_total_s"]) for name, counter in _SHARES.items()},
    }


def _over(top: Sequence[float], bottom: Sequence[float]) -> list[float]:
    return [a / b for a, b in zip(top, bottom, strict=True)]


def _knee(edges_mrows: Sequence[int], per_s: Sequence[float]) -> dict[str, float]:
    """Return where the curve begins to fall; its last edge if it has no knee.

    The first bin is left out: the server and the connections have just begun.
    """
    middles = [(a + b) / 2 for a, b in itertools.pairwise(edges_mrows)]
    knee = changepoint.find(middles[1:], per_s[1:])
    return {
        "knee_mrows": knee.at if knee else float(edges_mrows[-1]),
        "knee_found": int(knee is not None),
    }


def _stall(curve: Bins) -> dict[str, float]:
    """Return how busy the processors were in the bin in which they waited most for the disk.

    Nothing if they hardly waited in any.
    """
    waits = curve["iowait_share"]
    most = max(range(len(waits)), key=waits.__getitem__)
    if waits[most] < STALLED:
        return {}
    return {"stall_busy_share": curve["busy_share"][most], "stall_iowait_share": waits[most]}


def _costs(done: Checkpoint, whole: dict[str, float]) -> dict[str, float]:
    tried = sum(one["compressed"] for one in done.segments)
    return {
        "all_per_s": done.rows / whole["t_s"],
        "mysqld_us_per_row": whole["mysqld_cpu_s"] / done.rows * 1e6,
        "generator_us_per_row": sum(one["cpu_s"] for one in done.segments) / done.rows * 1e6,
        "redo_bytes_per_row": sum(one["redo_bytes"] for one in done.segments) / done.rows,
        "device_read_bytes_per_row": whole["device_read_bytes"] / done.rows,
        "device_written_bytes_per_row": whole["device_written_bytes"] / done.rows,
        "compressions_per_1000_rows": tried / done.rows * 1000,
        "compress_failed_ratio": sum(one["failed"] for one in done.segments) / max(tried, 1),
    }


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


def by_rows(samples: Sequence[Sample], edges: Sequence[float]) -> Bins:
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
    # If nothing is inserted for a while, that time belongs to the rows that come after it.
    grows = np.append(True, np.diff(rows) > 0)
    bins: Bins = {}
    times = np.array([sample["t_s"] for sample in samples])
    at = np.interp(edges, rows[grows], times[grows])
    for name in samples[0]:
        values = np.array([sample[name] for sample in samples])
        if name == "t_s" or name in COUNTERS:
            ends = np.interp(at, times, values)
            bins[name] = [float(x) for x in np.diff(ends)]
        else:
            bins[name] = [_mean(times, values, *span) for span in itertools.pairwise(at)]
    return bins


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
