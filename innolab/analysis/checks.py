"""Checks that keep a bad environment from becoming a finding. Pure functions of what was recorded.

Because they read only the record, a reviewer can run them again without the server.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from innolab.analysis import steady_state
from innolab.record import run
from innolab.record.run import Result
from innolab.storage import profiles, raid

STEAL_WARN, STEAL_INVALID = 0.02, 0.20
OTHERS_WARN, OTHERS_INVALID = 0.10, 0.50
# It shares the host's CPUs with the server, so its share is also what it takes away.
GENERATOR_WARN, GENERATOR_INVALID = 0.35, 0.50


@dataclass(frozen=True)
class Evidence:
    """What one trial recorded."""

    observations: Sequence[Mapping[str, Any]]
    conditions: Mapping[str, Any]
    variables: Mapping[str, str]


Finding = tuple[Result, str]
Check = Callable[[Evidence], Finding]


def judge(evidence: Evidence, checks: Mapping[str, Check]) -> list[run.Check]:
    """Return the results of checks, in their order."""
    return [
        run.Check(check=name, result=result, says=says)
        for name, check in checks.items()
        for result, says in [check(evidence)]
    ]


def _debug_build(evidence: Evidence) -> Finding:
    """Prevents S3's retracted result: a debug server is slow, and slow in another order."""
    if evidence.conditions["build"]["debug"]:
        return "invalid", "this is a debug build: its help offers --debug"
    if "debug" in evidence.variables:
        return "invalid", "this is a debug build: it has a variable named debug"
    return "ok", "no debug build"


def _pool_not_preloaded(evidence: Evidence) -> Finding:
    """Prevents a pool that fills itself from the last run's list while a cold scan is timed."""
    names = ("innodb_buffer_pool_dump_at_shutdown", "innodb_buffer_pool_load_at_startup")
    on = [name for name in names if evidence.variables.get(name, "OFF") != "OFF"]
    return ("invalid", f"{' and '.join(on)} on") if on else ("ok", "dump and load of the pool off")


def _cold(evidence: Evidence) -> Finding:
    """Prevents the operating system's cache from passing for the disk."""
    left = evidence.conditions["resident_pages_before_start"]
    if left:
        return "invalid", f"{left} pages of the data files were still in the page cache"
    return "ok", "no page of the data files in the page cache before the start"


def _effective(evidence: Evidence) -> Finding:
    """Prevents a setting that the server ignored, rounded or adapted in silence."""
    differing = []
    absent = []
    for name, asked in evidence.conditions["requested"].items():
        in_force = evidence.variables.get(name.removeprefix("loose_"))
        if in_force is None:
            absent.append(name)
        elif not same_value(asked, in_force):
            differing.append(f"{name} asked {asked}, is {in_force}")
    strict = [name for name in absent if not name.startswith("loose_")]
    if differing or strict:
        return "invalid", "; ".join(differing + [f"{name} is unknown" for name in strict])
    return "ok", f"all settings in force; not in this version: {', '.join(absent) or 'none'}"


def _full_scan(evidence: Evidence) -> Finding:
    """Prevents an index from answering the query that should read the whole table."""
    plan = evidence.conditions["scan_plan"]
    if plan["type"] != "ALL":
        return "invalid", f"the query did not scan the table but used {plan['type']} {plan['key']}"
    return "ok", "the query scans the clustered index"


def _read_only(evidence: Evidence) -> Finding:
    """Prevents arms that run on tables which an earlier arm changed."""
    if changed := evidence.conditions["tables_changed"]:
        return "invalid", changed
    # Of a study whose arms may write, only the copies that arms share must stay as they are.
    shared = "device" in evidence.conditions
    return "ok", "no table of other trials changed" if shared else "the table's file is as cloned"


def _device(evidence: Evidence) -> Finding:
    """Prevents a disk that is slower or faster than the one it stands for."""
    device = evidence.conditions["device"]
    if device["name"] == profiles.HOST:
        return "ok", "the host's own disk, as it is"
    found = profiles.Calibration(**device["calibration"])
    profile = profiles.profiles()[device["name"]]
    if wrong := profiles.faults(profile, found):
        return "invalid", f"fio got {', '.join(wrong)} from {profile.name}"
    return "ok", f"fio found each device within {profiles.TOLERANCE:.0%} of its profile"


def _array(evidence: Evidence) -> Finding:
    """Prevents a degraded or rebuilding array, or one of another shape, from being compared."""
    found = evidence.conditions["device"].get("array")
    if found is None:
        return "ok", "this machine's own disk, as it is"
    observed = found["observed"]
    wrong = [
        f"{array['name']} is {array['sync_action']}, {array['degraded']} members missing"
        for array in observed["arrays"]
        if array["sync_action"] not in ("idle", None) or array["degraded"]
    ]
    members = sum(len(array["members"]) for array in observed["arrays"])
    if members != found["disks"]:
        wrong.append(f"{members} members instead of {found['disks']}")
    level = raid.Array(found["layout"], found["disks"]).level or "single"
    wrong += [
        f"{array['name']} is {array['level']} instead of {level}"
        for array in observed["arrays"]
        if array["level"] != level
    ]
    barriers = observed["barriers"]
    if barriers["requested"] != barriers["observed"]:
        wrong.append(f"barriers {barriers['observed']} where {barriers['requested']} was asked")
    if wrong:
        return "invalid", "; ".join(wrong)
    return "ok", "level, members and barriers as asked; no rebuild, no member missing"


def _formula(evidence: Evidence) -> Finding:
    """Prevents the host's bus or processors from passing for the array's own limit."""
    device = evidence.conditions["device"]
    found = device.get("array")
    if found is None or not found["disk_iops"]:
        return "ok", "the speed of a single disk is not known here"
    array = raid.Array(found["layout"], found["disks"])
    shares = {"read": 1.0, "write": 0.0, "mixed": profiles.MIXED_READ_SHARE}
    off = []
    for kind, share in shares.items():
        want = array.iops(found["disk_iops"], share)
        got = device["calibration"][f"{kind}_per_s"]
        if abs(got / want - 1) > raid.TOLERANCE:
            off.append(f"{got:,.0f} of {want:,.0f} ({kind})")
    if off:
        return "warn", f"fio got {', '.join(off)} operations a second by N d / (r + w p)"
    return (
        "ok",
        f"fio found reads, writes and their mix within {raid.TOLERANCE:.0%} of N d / (r + w p)",
    )


def _load_errors(evidence: Evidence) -> Finding:
    """Prevents transactions that failed from counting as fast ones."""
    wrong = [
        f"{load['errors']} errors and {load['reconnects']} reconnects ({load['label']})"
        for load in evidence.conditions["loads"]
        if load["errors"] or load["reconnects"]
    ]
    return ("warn", "; ".join(wrong)) if wrong else ("ok", "no error, no reconnect")


def _generator(evidence: Evidence) -> Finding:
    """Prevents the load generator's own limit from passing for the server's."""
    share = max(load["cpu_share"] for load in evidence.conditions["loads"])
    says = f"sysbench used {share:.0%} of the CPUs at most"
    return _graded(share, GENERATOR_WARN, GENERATOR_INVALID), says


def _steady(evidence: Evidence) -> Finding:
    """Prevents a server that still puts off its work from passing for a fast one."""
    drifting = []
    for found in evidence.conditions["steady"]:
        if not found["reached"]:
            worst = ", ".join(
                f"{quantity} {share:+.0%}"
                for quantity, share in found["drifts"].items()
                if abs(share) > steady_state.TOLERANCES[quantity]
            )
            drifting.append(f"{found['label']} after {found['waited_s']} s: {worst}")
    if drifting:
        return "warn", f"not reached: {'; '.join(drifting)}"
    return "ok", "throughput, dirty pages, checkpoint age and pool steady over the window"


def _no_swap(evidence: Evidence) -> Finding:
    """Prevents a pool that lies in swap from passing for one in memory."""
    pages = evidence.conditions["usage"]["swapped_pages"]
    return ("invalid", f"{pages} pages were swapped") if pages else ("ok", "nothing swapped")


def _steal(evidence: Evidence) -> Finding:
    """Prevents the neighbours of a virtual machine from passing for a slow arm."""
    share = evidence.conditions["usage"]["steal_share"]
    says = f"{share:.1%} of the CPU time was stolen by the hypervisor"
    return _graded(share, STEAL_WARN, STEAL_INVALID), says


def _others(evidence: Evidence) -> Finding:
    """Prevents other work on this host from passing for a slow arm."""
    share = evidence.conditions["usage"]["others_share"]
    says = f"other processes used {share:.1%} of the CPUs"
    return _graded(share, OTHERS_WARN, OTHERS_INVALID), says


def _error_log(evidence: Evidence) -> Finding:
    """Prevents a server that complains from being measured as a healthy one."""
    errors = evidence.conditions["error_log"]["errors"]
    if errors:
        return "invalid", f"the error log says: {errors[0]}"
    warnings = len(evidence.conditions["error_log"]["warnings"])
    return "ok", f"no error in the error log; {warnings} warnings kept in the record"


def _graded(share: float, warn: float, invalid: float) -> Result:
    if share > invalid:
        return "invalid"
    return "warn" if share > warn else "ok"


# What every study checks.
USUAL = ("debug build", "effective settings", "tables unchanged", "swap", "steal", "other load",
         "error log")  # fmt: skip

LOAD_CHECKS = ("load without errors", "load generator idle enough")

CHECKS: dict[str, Check] = {
    "debug build": _debug_build,
    "pool not preloaded": _pool_not_preloaded,
    "cold": _cold,
    "effective settings": _effective,
    "full scan": _full_scan,
    "tables unchanged": _read_only,
    "device as its profile": _device,
    "array as asked": _array,
    "array as its formula": _formula,
    "load without errors": _load_errors,
    "load generator idle enough": _generator,
    "steady state": _steady,
    "swap": _no_swap,
    "steal": _steal,
    "other load": _others,
    "error log": _error_log,
}


def same_value(asked: str | int, effective: str) -> bool:
    """Return whether a setting as written in my.cnf is the value that the server shows.

    >>> same_value("16M", "16777216"), same_value("ON", "1"), same_value(75, "75.000000")
    (True, True, True)
    >>> same_value(8, "4")
    False
    """
    return _normal(str(asked)) == _normal(effective)


def _normal(value: str) -> str:
    text = value.strip().strip("'\"").upper()
    if text in ("ON", "TRUE", "YES"):
        return "1"
    if text in ("OFF", "FALSE", "NO"):
        return "0"
    if text[:-1].isdigit() and text[-1:] in "KMGT" and text[-1:]:
        return str(int(text[:-1]) * 1024 ** ("KMGT".index(text[-1]) + 1))
    if "," in text:
        return ",".join(sorted(text.split(",")))
    if "." in text and text.replace(".", "", 1).isdigit():
        return text.rstrip("0").rstrip(".")  # Percentages are shown with six digits.
    return text
