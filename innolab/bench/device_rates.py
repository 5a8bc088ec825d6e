"""What a device did in a second: over a window, and in the busiest second of it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Sample = Mapping[str, float]
# Shorter spans would show the bursts of 0.1 s in which the kernel deals out a limit.
_SECOND_S = 1.0
COUNTERS = {
    "reads_per_s": "device_reads",
    "writes_per_s": "device_writes",
    "read_bytes_per_s": "device_read_bytes",
    "written_bytes_per_s": "device_written_bytes",
}


def device_rates(samples: Sequence[Sample]) -> dict[str, Any]:
    """Return the rates over all samples, and `most`, those of the busiest second.

    Nothing where the kernel keeps no counters of the device, or where the span is shorter than two
    seconds, in which the bursts of a limit weigh too much.

    Parameters
    ----------
    samples : in order of time, with `t_s` and the counters

    >>> rows = [{"t_s": t, **dict.fromkeys(COUNTERS.values(), t * 5)} for t in (0.0, 1.0, 2.0)]
    >>> device_rates(rows)["reads_per_s"], device_rates(rows)["most"]["writes_per_s"]
    (5.0, 5.0)
    """
    if samples[-1]["t_s"] - samples[0]["t_s"] < 2 * _SECOND_S:
        return {}
    if not set(COUNTERS.values()) <= samples[0].keys():
        return {}
    seconds = [_rates(first, last) for first, last in _second_apart(samples)]
    whole = _rates(samples[0], samples[-1])
    return {**whole, "most": {name: max(of[name] for of in [whole, *seconds]) for name in COUNTERS}}


def _second_apart(samples: Sequence[Sample]) -> Iterator[tuple[Sample, Sample]]:
    """Yield each sample with the first one that is at least a second later."""
    later = 0
    for sample in samples:
        while later < len(samples) and samples[later]["t_s"] < sample["t_s"] + _SECOND_S:
            later += 1
        if later == len(samples):
            return
        yield sample, samples[later]


def _rates(first: Sample, last: Sample) -> dict[str, float]:
    span_s = last["t_s"] - first["t_s"]
    return {
        name: round((last[counter] - first[counter]) / span_s, 1)
        for name, counter in COUNTERS.items()
    }
