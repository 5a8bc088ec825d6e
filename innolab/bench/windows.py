"""Windows of a load on a limited device: warm up, limit, settle, measure until steady."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from innolab.analysis import steady_state, window_checks
from innolab.analysis.bounds import Bound, Record, all_exactly, exactly, metrics
from innolab.analysis.checks import LOAD_CHECKS
from innolab.bench import sysbench
from innolab.bench.sysbench import PERCENTILES, Workload, percentile
from innolab.bench.trial import Bench
from innolab.bench.usage import Sample, device_rates
from innolab.mysql.counters import Counters
from innolab.mysql.server import Server
from innolab.record.run import Level
from innolab.record.series import Sampler

# At its start and at its end sysbench needs a moment.
_END_S = 0.1
# Page reads that fall by less than a tenth from step to step have stopped falling.
_FALLS = 0.9
# The rate may fall a little after the step that a window's length was taken from.
_SPARE = 1.2


@dataclass(frozen=True)
class Times:
    """How long a trial warms up and measures, in whole seconds, which is what sysbench counts in.

    Attributes
    ----------
    warm_up_s, warm_up_transactions : the load without the limit, whichever ends first
    step_s : a step of the load under the limit, of which there are as many as it takes until what
        a transaction costs has levelled off
    settle_cap_s : all steps together
    window_s : a window, longer only where so few transactions end in it
    cap_s : all windows together; the last is measured whether it was steady or not
    """

    warm_up_s: int
    warm_up_transactions: int
    step_s: int
    settle_cap_s: int
    window_s: int
    cap_s: int


def measure(
    bench: Bench,
    server: Server,
    workload: Workload,
    times: Times,
    redo_bytes: int,
    within: Mapping[str, Level] | None = None,
) -> dict[str, Any]:
    """Return the observation of a load: the within-factors' levels and the metrics.

    Records how steady the last window was and sysbench's own lines. Each run of sysbench draws ids
    of its own: with one seed for all, a window would ask again for the very rows that its warm-up
    had just read, and find them in the pool.

    Parameters
    ----------
    redo_bytes : the size of the redo log, which the age of the checkpoint is a share of
    within : the levels of the within-factors of this window

    Raises
    ------
    InnolabError
        If sysbench or the server dies, or the kernel does not take the limit.
    """
    workload = workload.next()
    if times.warm_up_s:
        with bench.clock.stage("warm-up"):
            sysbench.warm_up(server, workload, times.warm_up_transactions, times.warm_up_s)
    with bench.site.limited():
        with bench.clock.stage("warm-up"):
            workload, steps = _settled(bench, server, workload, times, redo_bytes)
        window_s = _long_enough(workload, times, steps)
        waited_s = len(steps) * times.step_s
        while True:
            workload = workload.next()
            window = _window(bench, server, workload, window_s, redo_bytes)
            is_steady = all(drift.steady for drift in window.drifts)
            if is_steady or waited_s + 2 * window_s > times.settle_cap_s + times.cap_s:
                break
            waited_s += window_s
    settled = steady_state.is_level(steps)
    is_whole = window.has_enough and window_checks.redo_came_round(window.facts)
    reached = is_steady and settled and is_whole
    levels = dict(within or {})
    label = ", ".join(f"{level} {name}" for name, level in levels.items()) or workload.load
    bench.note_row(
        "steady",
        {
            "label": label,
            "within": levels,
            "reached": reached,
            "settled": settled,
            "waited_s": waited_s,
            "window_s": times.window_s,
            "steps": [{k: round(v, 4) for k, v in step.items()} for step in steps],
            **window.facts,
        },
    )
    lines = {"window_s": window_s, **window.lines}
    bench.note_row("loads", {"label": label, "within": levels, **lines})
    return {**levels, **window.metrics, "steady": int(reached)}


def _settled(
    bench: Bench, server: Server, workload: Workload, times: Times, redo_bytes: int
) -> tuple[Workload, list[dict[str, float]]]:
    """Load under the limit, step by step, until what a transaction costs has levelled off.

    So must have what is put off: dirty pages and the age of the checkpoint.

    A warm-up without the limit leaves dirty pages that the limited device takes long to write: a
    window right after it would measure that backlog. Returns the workload with its last seed, and
    what a transaction cost in each step and how much was put off at its end.
    """
    assert bench.sampler is not None
    steps: list[dict[str, float]] = []
    while not steady_state.is_level(steps) and (len(steps) + 1) * times.step_s <= (
        times.settle_cap_s
    ):
        workload = workload.next()
        before = bench.sampler.take()
        done = sysbench.run(server, workload, times.step_s).result.transactions
        after = bench.sampler.take()
        costs = {
            cost: (after[counter] - before[counter]) / max(done, 1)
            for cost, counter in steady_state.COSTS.items()
        }
        held = {"dirty_pages": after["total_pages"], "checkpoint_age_bytes": redo_bytes}
        put_off = {quantity: after[quantity] / most for quantity, most in held.items()}
        steps.append({"tps": done / (after["t_s"] - before["t_s"]), **costs, **put_off})
    return workload, steps


def _long_enough(workload: Workload, times: Times, steps: Sequence[Mapping[str, float]]) -> int:
    """Return how long a window has to be for enough transactions at the rate of the last step."""
    if not steps or not steps[-1]["tps"]:
        return times.window_s
    wanted = window_checks.TRANSACTIONS_A_THREAD * workload.threads
    needed_s = math.ceil(wanted / steps[-1]["tps"] * _SPARE)
    return max(times.window_s, min(needed_s, times.cap_s))


CHECKS = (*LOAD_CHECKS, "steady state", "transactions a window", "overrun", "redo come round",
          "redo log in cache", "cap in force")  # fmt: skip
# Shares of time are rounded to four places, on both sides.
_ROUNDED = 1e-4
# CPU time is counted in hundredths of a second, at two moments.
_COUNTED = 1.05
# Buckets of sysbench's histogram are up to a tenth apart.
_BUCKET = 1.1


def evidence(record: Record) -> Iterator[Bound]:
    """Yield the bounds of METRICS in all windows of a run.

    A run of innolab 0.1.0 does not say which samples are of a window: only the size of its pool
    can be read off the series.
    """
    loads = {str(load["within"]): load for load in record.noted("loads")}
    for window in record.noted("steady"):
        within, lines = window["within"], loads[str(window["within"])]
        yield exactly(within, "steady", float(window["reached"]))
        yield exactly(within, "generator_share", lines["cpu_share"])
        yield from _percentiles(record, within, lines)
        if record.run.is_older:
            assert record.series is not None
            pages = record.series["total_pages"]
            yield Bound(within, "pool_pages", float(pages.min()), float(pages.max()))
        else:
            yield from _of_samples(record, window, lines)


def _of_samples(
    record: Record, window: Mapping[str, Any], lines: Mapping[str, Any]
) -> Iterator[Bound]:
    """Yield the bounds of what a window's metrics have of the series."""
    within, samples = window["within"], record.samples
    before, after = samples[window["from_s"]], samples[window["to_s"]]
    cpus = (after["mysqld_cpu_s"] - before["mysqld_cpu_s"]) / (after["t_s"] - before["t_s"])
    if within.get("processors", math.inf) * _COUNTED < cpus:
        raise ValueError(f"a server that was kept on one processor and used {cpus:.2f}")
    yield from all_exactly(within, _costs(before, after, lines["transactions"]))
    ends = [samples[window[name]] for name in ("rate_from_s", "rate_to_s")]
    counted = sysbench.transactions(ends, lines["selects_a_transaction"])
    yield exactly(within, "tps", _tps(counted))
    for metric, share in _shares(ends).items():
        yield Bound(within, metric, share - _ROUNDED, share + _ROUNDED)


def _percentiles(
    record: Record, within: Mapping[str, Any], lines: Mapping[str, Any]
) -> Iterator[Bound]:
    """Yield the bounds of percentiles: by sysbench's histogram, and by the mean.

    Threads of a closed loop take threads x seconds together, so that is the sum of all latencies;
    at most a share 1 - p of them is longer than the mean over 1 - p (Markov).
    """
    if record.run.is_older:
        return
    mean_s = lines["threads"] * lines["seconds"] / max(lines["transactions"], 1)
    for percent in PERCENTILES:
        most_s = _BUCKET * mean_s / (1 - percent / 100)
        yield Bound(within, f"p{percent}_s", -math.inf, most_s)
    if histogram := lines.get("histogram"):
        if (counted := sum(count for _, count in histogram)) != lines["transactions"]:
            raise ValueError(f"a histogram of {counted} of {lines['transactions']} transactions")
        found = {f"p{p}_s": percentile(histogram, p) / 1000 for p in PERCENTILES}
        yield from all_exactly(within, found)


METRICS = metrics(
    {
        "tps": "1/s",
        "p50_s": "s",
        "p95_s": "s",
        "p99_s": "s",
        "pages_read_per_tx": "pages",
        "pages_written_per_tx": "pages",
        "free_page_waits_per_tx": "waits",
        "redo_bytes_per_tx": "bytes",
        "dirty_pages": "pages",
        "checkpoint_age_bytes": "bytes",
        "pool_pages": "pages",
        "busy_share": "share of all processors",
        "iowait_share": "share of all processors",
        "generator_share": "share of all processors",
        "steady": "1 where the window was, else 0",
    },
    evidence,
)


def learn(
    bench: Bench, server: Server, ours: Counters, workload: Workload, step_s: int, cap_s: int
) -> None:
    """Warm up until a transaction's page reads stop falling, which skewed access needs.

    A full pool holds whatever was read last; which pages are wanted often it must learn first, and
    throughput may be even before that. Records the pages read a transaction in each step.
    """
    steps: list[float] = []
    while (len(steps) < 2 or steps[-1] < _FALLS * steps[-2]) and len(steps) * step_s < cap_s:
        workload = workload.next()
        before = ours.read()
        done = sysbench.run(server, workload, step_s).result.transactions
        read = ours.read()["pages_read"] - before["pages_read"]
        steps.append(round(read / max(done, 1), 4))
    bench.note("learning_pages_read_per_tx", steps)


class _Window(NamedTuple):
    """A window's metrics, its drifts, sysbench's own lines, and what the record says of it."""

    metrics: dict[str, Any]
    drifts: list[steady_state.Drift]
    lines: dict[str, Any]
    has_enough: bool
    facts: dict[str, Any]


def _window(
    bench: Bench, server: Server, workload: Workload, window_s: int, redo_bytes: int
) -> _Window:
    assert bench.sampler is not None
    with bench.clock.stage("measured passes"):
        before = bench.sampler.take()
        load = sysbench.run(server, workload, window_s)
        after = bench.sampler.take()
    samples = sysbench.transactions(
        _within(bench.sampler, before, after, window_s), workload.selects_a_transaction
    )
    done = load.result.transactions
    capacity = {
        "dirty_pages": after["total_pages"],
        "checkpoint_age_bytes": redo_bytes,
        # A page cleaner lets their number swing by its depth, which is no drift.
        "free_pages": max(
            after["total_pages"],
            int(bench.variables["innodb_lru_scan_depth"]) / steady_state.TOLERANCES["free_pages"],
        ),
    }
    span_s = after["t_s"] - before["t_s"]
    lines = {
        "load": workload.load,
        "distribution": workload.distribution,
        "threads": workload.threads,
        "transactions": done,
        "seconds": load.result.seconds,
        "selects_a_transaction": workload.selects_a_transaction,
        "histogram": load.result.histogram,
        "intervals": [interval._asdict() for interval in load.result.intervals],
        "errors": load.result.errors,
        "reconnects": load.result.reconnects,
        "cpu_share": round(load.cpu_s / (span_s * server.host.cores), 4),
    }
    metrics = {
        "tps": _tps(samples),
        **{f"p{p}_s": value / 1000 for p, value in load.result.percentiles_ms.items()},
        **_costs(before, after, done),
        **_shares(samples),
        "generator_share": lines["cpu_share"],
    }
    drifts = steady_state.drifts(samples, capacity)
    return _Window(
        metrics,
        drifts,
        lines,
        done >= window_checks.TRANSACTIONS_A_THREAD * workload.threads,
        {
            "drifts": {drift.quantity: round(drift.share, 4) for drift in drifts},
            "from_s": before["t_s"],
            "to_s": after["t_s"],
            # Between two samples within it, when sysbench neither starts nor ends.
            "rate_from_s": samples[0]["t_s"],
            "rate_to_s": samples[-1]["t_s"],
            **_traffic(before, after, redo_bytes),
            **device_rates(samples),
        },
    )


def _traffic(before: Sample, after: Sample, redo_bytes: int) -> dict[str, float]:
    """Return the redo written before a window and within it, and what the server read in it."""
    return {
        "redo_before_bytes": before["redo_bytes"],
        "redo_bytes": after["redo_bytes"] - before["redo_bytes"],
        "redo_log_bytes": redo_bytes,
        "pages_read": after["pages_read"] - before["pages_read"],
        "server_read_bytes": after["mysqld_read_bytes"] - before["mysqld_read_bytes"],
    }


def _within(
    sampler: Sampler, before: Sample, after: Sample, window_s: int
) -> list[dict[str, float]]:
    """Return the samples of a window without those while sysbench starts and ends.

    It takes seconds to open many connections to a slow host, which would pass for a drift. A
    window that is too short for samples of its own has the two around it.
    """
    end_s = after["t_s"] - _END_S
    found = sampler.between(max(before["t_s"] + _END_S, end_s - window_s), end_s)
    if len(found) >= steady_state.LEAST_SAMPLES:
        return found
    inner = found or [sampler.between(before["t_s"], after["t_s"])[0]]
    return [dict(before), *inner, dict(after)]


def _tps(samples: Sequence[Mapping[str, float]]) -> float:
    """Return the transactions a second between the first and the last of some samples."""
    done = samples[-1]["transactions"] - samples[0]["transactions"]
    return done / (samples[-1]["t_s"] - samples[0]["t_s"])


def _shares(samples: list[dict[str, float]]) -> dict[str, float]:
    """Return the shares of all CPU time that the host was busy, and waited for disks.

    By the host's own clock: a sample that comes late over ssh still is of one moment there.
    """
    if len(samples) <= 1:
        return {}
    first, last = samples[0], samples[-1]
    total_s = last["host_total_s"] - first["host_total_s"]
    counters = {"busy_share": "host_busy_s", "iowait_share": "host_iowait_s"}
    return {
        name: round((last[counter] - first[counter]) / total_s, 4)
        for name, counter in counters.items()
    }


def _costs(
    before: Mapping[str, float], after: Mapping[str, float], transactions: int
) -> dict[str, Any]:
    """Return what a transaction cost the pool and the disk, from the samples at a window's ends."""
    done = max(transactions, 1)
    spent = {name: (after[name] - before[name]) / done for name in before}
    # Reports until 2026-11 did not count these.
    waits = {"free_page_waits": "free_page_waits_per_tx"}
    return {
        **{metric: round(spent[name], 4) for name, metric in waits.items() if name in spent},
        "pages_read_per_tx": round(spent["pages_read"], 4),
        "pages_written_per_tx": round(spent["pages_written"], 4),
        "redo_bytes_per_tx": round(spent["redo_bytes"], 1),
        "dirty_pages": int(after["dirty_pages"]),
        "checkpoint_age_bytes": int(after["checkpoint_age_bytes"]),
        "pool_pages": int(after["total_pages"]),
    }
