"""Checks that keep a bad environment from becoming a finding. Pure functions of what was recorded.

Because they read only the record, a reviewer can run them again without the server.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from innolab.analysis import window_checks
from innolab.analysis.evidence import Check, Evidence, Finding, graded
from innolab.record import run
from innolab.storage import profiles, raid

_STEAL = {"warn": 0.02, "invalid": 0.20}
# Of one processor. On a machine of two, another load at 40 % of one moves throughput by as much as
# the tenth that a published "about" allows. Large machines have as many agents as processors: there
# a share of all counts instead.
_OTHERS = {"warn": 0.10, "invalid": 0.50, "cpus": 0.30, "cpus_share": 0.05}
# The kernel reads whole pages besides the server's, and both count at their own moments;
# of 20 sound cold scans none read less than 1.00 of its pages from the disk.
_READ_FROM_DISK = {"least": 0.95}
# Of a cold scan's CPU time the kernel took 11 to 31 % (MySQL 5.6) and 24 to 60 % (9.7) where memory
# was held, and 42 to 57 % and 60 to 67 % where a hypervisor had taken it back: 16 scans each.
# "memory held" finds those that the share alone cannot tell apart.
_KERNEL = {"warn": 0.50, "invalid": 0.65}
# Chunks and what other work left available cost some of it.
_HELD = {"least": 0.90}
# Of what the device read and wrote. A file system adds 1 to 5 % of its own to writes (measured).
# Where the server hardly uses the device, the little that any host does besides disturbs nothing.
_FOREIGN = {"warn": 0.10, "invalid": 0.30, "least_bytes_per_s": 1024**2}
# Of what fio gets: from a device of limits, and from one of service times.
_DEVICE = {"limited": profiles.TOLERANCE, "timed": profiles.TIMED_TOLERANCE}
_FORMULA = {"tolerance": raid.TOLERANCE}


Bounds = Mapping[str, Mapping[str, float]]
_OWN: Bounds = {}


def judge(
    evidence: Evidence, checks: Mapping[str, Check], bounds: Bounds = _OWN
) -> list[run.CheckResult]:
    """Return the results of checks, in their order.

    Parameters
    ----------
    bounds : by check, bounds to judge by instead of its own
    """
    return [
        run.CheckResult(check=name, result=result, says=says)
        for name, check in checks.items()
        for result, says in [check(replace(evidence, bounds=bounds.get(name, {})))]
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
    if "fidelity" in device:
        return _timed_device(device, evidence.bounds["timed"])
    found = profiles.Calibration(**device["calibration"])
    profile = evidence.devices[device["name"]]
    tolerance = evidence.bounds["limited"]
    if wrong := profiles.faults(profile, found, tolerance):
        return "invalid", f"fio got {', '.join(wrong)} from {profile.name}"
    return "ok", f"fio found each device within {tolerance:.0%} of its profile"


def _timed_device(device: Mapping[str, Any], tolerance: float) -> Finding:
    if wrong := profiles.timed_faults(device["fidelity"], tolerance):
        return "invalid", f"fio got {', '.join(wrong)} from {device['name']}"
    says = f"fio found {device['name']} within {tolerance:.0%} of its model"
    unjudged = [row["load"] for row in device["fidelity"] if not row["judged"]]
    return "ok", says + (f"; not judged: {', '.join(unjudged)}" if unjudged else "")


def _array(evidence: Evidence) -> Finding:
    """Prevents a degraded or rebuilding array, or one of another shape, from being compared."""
    device = evidence.conditions["device"]
    if "fidelity" in device:
        return "ok", "modelled, with the parts that were asked for before and after each window"
    found = device.get("array")
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
    if "fidelity" in device:
        return _timed_device(device, evidence.bounds["tolerance"])
    found = device.get("array")
    if found is None or not found["disk_iops"]:
        return "ok", "the speed of a single disk is not known here"
    array = raid.Array(found["layout"], found["disks"])
    shares = {"read": 1.0, "write": 0.0, "mixed": profiles.MIXED_READ_SHARE}
    off = []
    for kind, share in shares.items():
        want = array.iops(found["disk_iops"], share)
        got = device["calibration"][f"{kind}_per_s"]
        if abs(got / want - 1) > evidence.bounds["tolerance"]:
            off.append(f"{got:,.0f} of {want:,.0f} ({kind})")
    if off:
        return "warn", f"fio got {', '.join(off)} operations a second by N d / (r + w p)"
    within = f"{evidence.bounds['tolerance']:.0%}"
    return "ok", f"fio found reads, writes and their mix within {within} of N d / (r + w p)"


def _no_swap(evidence: Evidence) -> Finding:
    """Prevents a pool that is in swap from passing for one in memory."""
    pages = evidence.conditions["usage"]["swapped_pages"]
    return ("invalid", f"{pages} pages were swapped") if pages else ("ok", "nothing swapped")


def _steal(evidence: Evidence) -> Finding:
    """Prevents the neighbours of a virtual machine from passing for a slow arm."""
    share = evidence.conditions["usage"]["steal_share"]
    says = f"{share:.1%} of the CPU time was stolen by the hypervisor"
    return graded(share, evidence.bounds), says


def _others(evidence: Evidence) -> Finding:
    """Prevents other work on this host from passing for a slow arm."""
    usage = evidence.conditions["usage"]
    share = usage["others_share"]
    says = f"other processes used {share:.1%} of the CPUs"
    # A run of an older innolab does not say how many processors that was.
    bounds = evidence.bounds
    most = max(bounds["cpus"], bounds["cpus_share"] * evidence.conditions["host"]["cores"])
    if usage.get("others_cpus", 0.0) > most:
        return "invalid", f"{says}, which is {usage['others_cpus']:.2f} processors' work"
    return graded(share, bounds), says


def _foreign_traffic(evidence: Evidence) -> Finding:
    """Prevents what others read and write on the server's disk from passing for a slow arm."""
    usage = evidence.conditions["usage"]
    if "device_bytes" not in usage:
        return "ok", "the kernel keeps no counters of this device"
    foreign = usage["foreign_read_bytes"] + usage["foreign_written_bytes"]
    share = foreign / max(usage["device_bytes"], 1)
    per_s = foreign / max(usage["watched_s"], 1.0)
    says = f"others than the server had {share:.1%} of the device's traffic, {per_s:,.0f} bytes/s"
    if per_s < evidence.bounds["least_bytes_per_s"]:
        return "ok", says
    return graded(share, evidence.bounds), says


def read_from_disk(**within: Any) -> Check:
    """Return a check of cold work: what the server read into its pool came from the disk.

    Prevents data that the page cache still held, or got back after the proof that it was empty,
    from passing for a fast disk.

    Parameters
    ----------
    within : the levels of within-factors at which work is cold; observations there have the metrics
        `pages_read` and `read_bytes`
    """

    def check(evidence: Evidence) -> Finding:
        rows = _at(evidence, within, "pages_read")
        if not rows:
            return "ok", "no cold work in this arm"
        [row] = rows
        wanted = row["pages_read"] * profiles.PAGE_BYTES
        says = f"{row['read_bytes']:,} bytes came from the disk for {wanted:,} bytes of pages"
        enough = wanted > 0 and row["read_bytes"] >= evidence.bounds["least"] * wanted
        return ("ok" if enough else "invalid"), says

    return Check(check, _READ_FROM_DISK)


def _memory_held(evidence: Evidence) -> Finding:
    """Prevents memory that a hypervisor took back from passing for a slow pool."""
    held, wanted = (evidence.conditions[f"memory_{name}_bytes"] for name in ("held", "wanted"))
    says = f"{held:,} bytes of memory were held before the start; {wanted:,} were wanted"
    if not evidence.conditions["host"]["free_page_reporting"]:
        return "ok", f"{says}; nobody takes free memory back from this host"
    return ("ok" if held >= evidence.bounds["least"] * wanted else "invalid"), says


def kernel_share(**within: Any) -> Check:
    """Return a check of cold work: the server worked, and not the kernel below it.

    Prevents a host that finds memory again which a hypervisor took back from passing for a slow
    pool.

    Parameters
    ----------
    within : the levels of within-factors at which work is cold; observations there have the metrics
        `cpu_s` and `kernel_cpu_s`
    """

    def check(evidence: Evidence) -> Finding:
        rows = _at(evidence, within, "kernel_cpu_s")
        if not rows:
            return "ok", "no cold work in this arm"
        [row] = rows
        share = row["kernel_cpu_s"] / max(row["cpu_s"], 0.01)
        says = f"the kernel took {share:.0%} of the CPU time of the cold work"
        return graded(share, evidence.bounds), says

    return Check(check, _KERNEL)


def _at(evidence: Evidence, within: Mapping[str, Any], metric: str) -> list[Mapping[str, Any]]:
    rows = evidence.observations
    return [row for row in rows if metric in row and within.items() <= row.items()]


def _error_log(evidence: Evidence) -> Finding:
    """Prevents a server that complains from being measured as a healthy one."""
    errors = evidence.conditions["error_log"]["errors"]
    if errors:
        return "invalid", f"the error log says: {errors[0]}"
    warnings = len(evidence.conditions["error_log"]["warnings"])
    return "ok", f"no error in the error log; {warnings} warnings kept in the record"


# What every study checks.
USUAL = ("debug build", "effective settings", "tables unchanged", "swap", "steal", "other load",
         "foreign disk traffic", "error log")  # fmt: skip

# What innolab 0.1.0 did not check, and recorded no evidence for.
NEWER = (
    "foreign disk traffic", "bytes really read", "kernel share", "transactions a window", "overrun",
    "redo come round", "redo log in cache", "cap in force", "memory held",
)  # fmt: skip

LOAD_CHECKS = ("load without errors", "load generator idle enough")

CHECKS: dict[str, Check] = {
    "debug build": Check(_debug_build),
    "pool not preloaded": Check(_pool_not_preloaded),
    "cold": Check(_cold),
    "effective settings": Check(_effective),
    "full scan": Check(_full_scan),
    "tables unchanged": Check(_read_only),
    "device as its profile": Check(_device, _DEVICE),
    "array as asked": Check(_array),
    "array as its formula": Check(_formula, _FORMULA),
    "swap": Check(_no_swap),
    "steal": Check(_steal, _STEAL),
    "other load": Check(_others, _OTHERS),
    "foreign disk traffic": Check(_foreign_traffic, _FOREIGN),
    "memory held": Check(_memory_held, _HELD),
    "error log": Check(_error_log),
    **window_checks.CHECKS,
}


class RequiredSettings(NamedTuple):
    """What a run of an arm must have recorded.

    Attributes
    ----------
    settings : the server variables that the arm asks for
    values : parameters and levels by name
    array : layout and number of disks, where its device is an array
    known_windows_s : the lengths that its windows may have been asked for; none where any will do
    """

    settings: Mapping[str, Any]
    values: Mapping[str, Any]
    array: Mapping[str, Any] | None
    known_windows_s: Collection[float] = ()


def same_settings(asked: Mapping[str, Any], requested: Mapping[str, Any]) -> bool:
    """Return whether what a server was started with has all settings that were asked for."""
    return all(same_value(str(v), str(requested.get(name))) for name, v in asked.items())


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
