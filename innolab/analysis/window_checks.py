"""Checks of windows of a load: enough of it, steady, on the device that was meant.

As all checks, pure functions of what was recorded.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from innolab.analysis import steady_state
from innolab.analysis.evidence import Check, Evidence, Finding, graded
from innolab.storage import profiles
from innolab.storage.profiles import Profile

# The least at which a mean of exponential times is known within half of itself: 1.96 / sqrt(20).
TRANSACTIONS_A_THREAD = 20
_OVERRUN = {"warn": 1.10, "invalid": 1.50}
# Of what a window wrote to the log; less stays, so pages are flushed as fast as the log is written.
# Where that is less than a quarter of the log, its age says nothing yet.
_LEVELLED = {"levelled_share": 0.5, "levelled_least": 0.25}
# Bytes that the server read and that are no pages, of those that it wrote to the log. A log in the
# page cache needs none; of one on the disk what is written in part is read first, measured as 45 %.
_LOG_READ = {"read_share": 0.20, "least_bytes": 2**18}
# Less of the log than this in a window is no writing load.
_WRITES = {"writes_share": 0.01}
_REDO = {**_LEVELLED, **_WRITES}
# Over a window, and in its busiest second, where the bursts count in which the kernel deals out a
# limit. Measured with the limits effective: 5 % over in windows of 1 s, 8 % in one second.
_CAP = {"window": 0.10, "second": 0.20}
# It shares the host's CPUs with the server, so its share is also what it takes away.
_GENERATOR = {"warn": 0.35, "invalid": 0.50}


def _load_errors(evidence: Evidence) -> Finding:
    """Prevents transactions that failed from counting as fast ones."""
    wrong = [
        f"{load['errors']} errors and {load['reconnects']} reconnects ({load['label']})"
        for load in evidence.conditions.get("loads", [])
        if load["errors"] or load["reconnects"]
    ]
    return ("warn", "; ".join(wrong)) if wrong else ("ok", "no error, no reconnect")


def _generator(evidence: Evidence) -> Finding:
    """Prevents the load generator's own limit from passing for the server's."""
    share = max(load["cpu_share"] for load in evidence.conditions["loads"])
    says = f"sysbench used {share:.0%} of the CPUs at most"
    return graded(share, evidence.bounds), says


def _steady(evidence: Evidence) -> Finding:
    """Prevents a server that still puts off its work from passing for a fast one."""
    drifting = []
    for found in evidence.conditions["steady"]:
        if not found["reached"]:
            worst = ", ".join(
                f"{quantity} {share:+.0%}"
                for quantity, share in found["drifts"].items()
                if abs(share) > evidence.bounds[quantity]
            )
            drifting.append(f"{found['label']} after {found['waited_s']} s: {worst}")
    if drifting:
        # A window that an upgraded run has as two observations is said once.
        return "warn", f"not reached: {'; '.join(dict.fromkeys(drifting))}"
    return "ok", "throughput, dirty pages, checkpoint age and pool steady over the window"


def _transactions(evidence: Evidence) -> Finding:
    """Prevents a handful of transactions from passing for a rate."""
    loads, least = evidence.conditions["loads"], evidence.bounds["least_per_thread"]
    few = [
        f"{load['transactions']:,} by {load['threads']} threads ({load['label']})"
        for load in loads
        if load["transactions"] < least * load["threads"]
    ]
    if few:
        return "warn", f"fewer than {least:g} a thread: {'; '.join(few)}"
    return "ok", f"at least {least:g} transactions a thread in each window"


def _overrun(evidence: Evidence) -> Finding:
    """Prevents a window that waited for its last transactions from passing for one under load."""
    loads = evidence.conditions["loads"]
    worst = max(load["seconds"] / load["window_s"] for load in loads)
    says = f"windows lasted {worst:.0%} of their time at most"
    idle = [load["label"] for load in loads if _ends_idle(load)]
    if idle and worst <= evidence.bounds["invalid"]:
        return "warn", f"{says}; no transaction ended in the last second of: {', '.join(idle)}"
    return graded(worst, evidence.bounds), says


def _ends_idle(load: Mapping[str, Any]) -> bool:
    return bool(load["intervals"]) and load["intervals"][-1]["tps"] == 0


def _redo_come_round(evidence: Evidence) -> Finding:
    """Prevents a server that may still put off flushing from passing for one that has to flush.

    Until the redo log has been written once, nothing forces pages out, and its file is read from
    the disk before each block of it is first written.
    """
    fresh = [
        f"{row['redo_before_bytes']:,.0f} of {row['redo_log_bytes']:,} bytes ({row['label']})"
        for row in evidence.conditions["steady"]
        if not redo_came_round(row, evidence.bounds)
    ]
    if fresh:
        return "warn", f"the redo log was written but in part before: {'; '.join(fresh)}"
    return "ok", "the redo log had come round, or was hardly written"


def redo_came_round(row: Mapping[str, Any], bounds: Mapping[str, float] = _REDO) -> bool:
    """Return whether the log was full once before a window, or levelled off in it.

    Without flushing, the age of the checkpoint grows by all that is written: from the mean of a
    window's first half to that of its second, by half of it.
    """
    log, written = row["redo_log_bytes"], row["redo_bytes"]
    if written < bounds["writes_share"] * log or row["redo_before_bytes"] >= log:
        return True
    grown = row["drifts"]["checkpoint_age_bytes"] * log
    least, share = bounds["levelled_least"], bounds["levelled_share"]
    return bool(written >= least * log and grown < share * written / 2)


def _log_in_cache(evidence: Evidence) -> Finding:
    """Prevents a server that waits for old blocks of its log from passing for one that writes it.

    Up to MySQL 5.6 a block of the log is read from the disk before it is written, where it is not
    in the page cache, which on a server that has run for a while it is.
    """
    cold = [
        f"{_log_read_bytes(row):,.0f} beside {row['redo_bytes']:,.0f} written ({row['label']})"
        for row in evidence.conditions["steady"]
        if _reads_its_log(row, evidence.bounds)
    ]
    if cold:
        return (
            "invalid",
            f"bytes read that are no pages, so of a redo log on disk: {'; '.join(cold)}",
        )
    return "ok", "what the server read were pages"


def _log_read_bytes(row: Mapping[str, Any]) -> float:
    return float(row["server_read_bytes"] - row["pages_read"] * profiles.PAGE_BYTES)


def _reads_its_log(row: Mapping[str, Any], bounds: Mapping[str, float]) -> bool:
    least = max(bounds["least_bytes"], bounds["read_share"] * row["redo_bytes"])
    writes = row["redo_bytes"] >= bounds["writes_share"] * row["redo_log_bytes"]
    return writes and _log_read_bytes(row) > least


# What limits a profile's name, and what it is compared with.
_CAPS = {
    "reads_per_s": "read_iops",
    "writes_per_s": "write_iops",
    "read_bytes_per_s": "read_bytes_per_s",
    "written_bytes_per_s": "write_bytes_per_s",
}


def _cap_in_force(evidence: Evidence) -> Finding:
    """Prevents a device whose limit was lifted from passing for the one it stands for."""
    profile = evidence.devices.get(evidence.conditions["device"]["name"])
    if profile is None:
        return "ok", "a device without a limit of ours"
    if profile.times is not None:
        return "ok", f"{profile.name} had its service times before and after each window"
    rows = evidence.conditions["steady"]
    known = [row for row in rows if "most" in row]
    over = [
        f"{row['label']}: {says}" for row in known for says in _over(row, profile, evidence.bounds)
    ]
    if over:
        return "invalid", f"the device did more than {profile.name} can: {'; '.join(over)}"
    if unknown := [row["label"] for row in rows if "most" not in row]:
        return (
            "warn",
            f"not known whether the limit held, the window was short: {', '.join(unknown)}",
        )
    return "ok", f"the device stayed below the limits of {profile.name}"


def _over(row: Mapping[str, Any], profile: Profile, bounds: Mapping[str, float]) -> Iterator[str]:
    """Yield where a window, or its busiest second, did more than a profile allows."""
    for name, of in _CAPS.items():
        limit = getattr(profile, of)
        if limit is None:
            continue
        if row[name] > limit * (1 + bounds["window"]):
            yield f"{name} {row[name]:,.0f} of {limit:,}"
        elif row["most"][name] > limit * (1 + bounds["second"]):
            yield f"{name} {row['most'][name]:,.0f} of {limit:,} in one second"


CHECKS: dict[str, Check] = {
    "load without errors": Check(_load_errors),
    "load generator idle enough": Check(_generator, _GENERATOR),
    "steady state": Check(_steady, steady_state.TOLERANCES),
    "transactions a window": Check(_transactions, {"least_per_thread": TRANSACTIONS_A_THREAD}),
    "overrun": Check(_overrun, _OVERRUN),
    "redo come round": Check(_redo_come_round, _REDO),
    "redo log in cache": Check(_log_in_cache, {**_LOG_READ, **_WRITES}),
    "cap in force": Check(_cap_in_force, _CAP),
}
