"""The tables of the study more-memory that tell of its model and what follows from it."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from innolab.studies.forecast import Forecast, options, pieces, profiled
from innolab.studies.more_memory import MemoryParameters
from innolab.tables import Table, Text, interval


def constants(found: Sequence[Forecast]) -> Table | Text:
    """Return the models' constants and what they were fitted on."""
    if not found:
        return _no_model()
    return Table(
        [
            {
                "server": f.server,
                "load": f.mode,
                "CPU ceiling (tps)": f"{f.model.cpu_tps:,.0f}, measured at {f.plateau}",
                "pages a transaction": f"{f.model.reads:.1f}",
                "CPU a page (us)": f"{f.model.miss_cpu_s * 1e6:.0f}",
                "writes a transaction": f"{f.model.writes:.1f}" if f.mode == "read_write" else "",
                "fitted on": ", ".join(arm.case for arm in f.fitted),
            }
            for f in found
        ]
    )


def errors(found: Sequence[Forecast]) -> Table | Text:
    """Return how far predictions of held-out arms are off, median and worst, by access."""
    rows = []
    for f in found:
        for name, wanted in (("uniform", True), ("skewed", False)):
            of = {
                arm.case: abs(error)
                for error, arm in zip(f.log_errors, f.held, strict=True)
                if (arm.access == "uniform") == wanted
            }
            if of:
                worst = max(of, key=lambda case: of[case])
                rows.append(
                    {
                        "server": f.server,
                        "load": f.mode,
                        "access": name,
                        "held-out arms": len(of),
                        "median error": f"{math.exp(statistics.median(of.values())) - 1:.0%}",
                        "worst error": f"{math.exp(of[worst]) - 1:.0%}",
                        "worst at": worst,
                    }
                )
    return Table(rows) if rows else _no_model()


def _no_model() -> Text:
    return Text(
        [
            "No model: it is fitted on arms of a slow and of a fast device, and they are not all "
            "here. Two constants fitted on one device alone would say nothing of another."
        ]
    )


# The original's sizes in GB, and ones that no machine of its time could hold.
_ORIGINAL = [
    ("A", 18, (2, 6, 12, 16.2, 18, 22), "raid10-8x15k"),
    ("A", 18, (2, 6, 12, 16.2, 18, 22), "fusionio-320"),
    ("B", 314, (120, 250), "fusionio-320"),
    ("", 1000, (64, 128, 256, 512, 1000), "raid10-8x15k"),
    ("", 1000, (64, 128, 256, 512, 1000), "fusionio-320"),
]


def extrapolation(found: Sequence[Forecast]) -> Table | Text:
    """Return modelled throughput at the original sizes and at 1 TB, with intervals."""
    if not found:
        return _no_model()
    return Table(
        [
            {
                "study": study,
                "data (GB)": data,
                "pool (GB)": f"{pool:g}",
                "device": f"{pieces(device, data)} x {device}",
                **{
                    f"{f.server}, {f.mode} (tps, modelled)": interval(
                        f.interval(pool / data, profiled(device, pieces(device, data)))
                    )
                    for f in found
                },
            }
            for study, data, sizes, device in _ORIGINAL
            for pool in sizes
        ]
    )


def what_to_buy(found: Sequence[Forecast], parameters: Mapping[str, Any]) -> Table | Text:
    """Return modelled throughput of each option, its gain, and what a gain costs where known."""
    if not found:
        return _no_model()
    asked = MemoryParameters.model_validate(dict(parameters))
    first, *_ = chosen = options(asked)
    now = (first.x_ratio, profiled(first.device, first.count))
    rows = []
    for option in chosen:
        here = (option.x_ratio, profiled(option.device, option.count))
        row: dict[str, Any] = {"option": option.name}
        for f in found:
            gain = "" if option is first else f"; {interval(f.gain(here, now))} times"
            row[f"{f.server}, {f.mode} (tps, modelled)"] = interval(f.interval(*here)) + gain
        if asked.price_memory_gb is not None or asked.price_devices:
            row["price"] = "unknown" if option.price is None else f"{option.price:,.0f}"
        rows.append(row)
    return Table(rows)
