"""What a host is and what it does, read from its /proc and /sys. Works on every kind of host."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from innolab.hosts.base import TICKS_PER_S, Command, Host, stat_fields

# The parent of all kernel threads has process id 2 on every Linux.
_KTHREADD = "2"


class Usage(NamedTuple):
    """Counters of the whole host since boot. Differences of two say what happened between.

    `total_s` is all time of all CPUs, by the host's own clock.
    """

    total_s: float
    busy_s: float
    steal_s: float
    iowait_s: float
    swapped_pages: int


class ProcessUsage(NamedTuple):
    """Counters of one process since its start, threads included. CPU is user and kernel."""

    cpu_s: float
    kernel_cpu_s: float
    read_bytes: int
    written_bytes: int


class DeviceUsage(NamedTuple):
    """Counters of one block device since boot, of all that use it."""

    reads: int
    read_bytes: int
    writes: int
    written_bytes: int


def usage(host: Host) -> Usage:
    """Return the host's CPU seconds (all cores together) and pages swapped in or out so far."""
    return _usage(*host.read("/proc/stat", "/proc/vmstat"))


def _usage(stat: str, vmstat: str) -> Usage:
    user, nice, system, idle, iowait, irq, softirq, steal = (
        int(ticks) / TICKS_PER_S for ticks in stat.split("\n", 1)[0].split()[1:9]
    )
    counts = _values(vmstat)
    busy_s = user + nice + system + irq + softirq
    return Usage(
        total_s=busy_s + idle + iowait + steal,
        busy_s=busy_s,
        steal_s=steal,
        iowait_s=iowait,
        swapped_pages=counts["pswpin"] + counts["pswpout"],
    )


def _values(text: str) -> dict[str, int]:
    """Return the numbers of lines such as `MemFree:  12 kB` or `pswpin 3`, by name."""
    lines = (line.split() for line in text.splitlines())
    return {name.rstrip(":"): int(value) for name, value, *_ in lines}


def process_usage(host: Host, pid: int) -> ProcessUsage:
    """Return CPU seconds, and the bytes that really went to and from block devices.

    Bytes served by the page cache are not counted: see proc(5), `read_bytes`.
    """
    return _process_usage(*host.read(f"/proc/{pid}/stat", f"/proc/{pid}/io"))


def _process_usage(stat: str, io: str) -> ProcessUsage:
    user, kernel = (int(ticks) / TICKS_PER_S for ticks in stat_fields(stat)[11:13])
    counts = _values(io)
    return ProcessUsage(user + kernel, kernel, counts["read_bytes"], counts["write_bytes"])


def together(
    host: Host, pid: int, device: str | None
) -> tuple[ProcessUsage, Usage, DeviceUsage | None]:
    """Return the counters of a process, its host and a device, which cost one question over ssh.

    Parameters
    ----------
    device : major and minor number, as in "254:0"; None, or one that the kernel keeps no counters
        of (as of a file system on many devices), gives None
    """
    stat, io, whole, vmstat, disks = host.read(
        f"/proc/{pid}/stat", f"/proc/{pid}/io", "/proc/stat", "/proc/vmstat", "/proc/diskstats"
    )
    return _process_usage(stat, io), _usage(whole, vmstat), _device_usage(disks, device)


def _device_usage(diskstats: str, device: str | None) -> DeviceUsage | None:
    """Return a device's counters from /proc/diskstats, whose sectors are always of 512 bytes."""
    for line in diskstats.splitlines():
        major, minor, _, reads, _, read, _, writes, _, written, *_ = line.split()
        if f"{major}:{minor}" == device:
            return DeviceUsage(int(reads), int(read) * 512, int(writes), int(written) * 512)
    return None


def kernel_threads_cpu_s(host: Host) -> dict[tuple[int, int], float]:
    """Return the CPU seconds of every kernel thread that lives now, by process id and start.

    Emulated disks and md arrays work in them: without this their work would pass for foreign load.
    Threads come and go, so only those seen at the end may be compared with the beginning.
    """
    threads = {}
    # Some end while they are read, which is not a failure.
    for line in host.run(["sh", "-c", "cat /proc/[0-9]*/stat"]).stdout.splitlines():
        fields = stat_fields(line)
        if len(fields) > 19 and fields[1] == _KTHREADD:
            ticks = int(fields[11]) + int(fields[12])
            threads[int(line.split()[0]), int(fields[19])] = ticks / TICKS_PER_S
    return threads


def peak_memory_bytes(host: Host, pids: Sequence[int]) -> int:
    """Return the most memory that each of some processes had resident, together.

    One that has ended counts nothing.
    """
    texts = host.peek(*(f"/proc/{pid}/status" for pid in pids))
    peaks = (_field(text, "VmHWM", ":") for text in texts)
    return sum(int(peak.split()[0]) * 1024 for peak in peaks if peak)


def held_bytes(host: Host, folders: Sequence[Path]) -> int:
    """Return what the files below some folders take of their disks; 0 if they are gone."""
    if not folders:
        return 0
    du: Command = ["du", "--summarize", "--one-file-system", "--block-size=1", "--total", "--"]
    lines = host.run([*du, *folders]).stdout.splitlines()
    return int(lines[-1].split()[0]) if lines else 0


def memory_bytes(host: Host) -> dict[str, int]:
    """Return the lines of /proc/meminfo that matter here, in bytes."""
    kib = _values(host.read("/proc/meminfo")[0])
    names = {"total": "MemTotal", "free": "MemFree", "available": "MemAvailable",
             "swap": "SwapTotal"}  # fmt: skip
    return {ours: kib[theirs] * 1024 for ours, theirs in names.items()}


def facts(host: Host, folder: Path) -> dict[str, Any]:
    """Return what a host is, as far as it can change a result; the disk is `folder`'s."""
    memory = memory_bytes(host)
    release, kernel, cpuinfo, pages, governor, swappiness = host.peek(
        "/etc/os-release",
        "/proc/sys/kernel/osrelease",
        "/proc/cpuinfo",
        "/sys/kernel/mm/transparent_hugepage/enabled",
        "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
        "/proc/sys/vm/swappiness",
    )
    machine = host.must(["uname", "-m"], what="Asking for the machine's name").strip()
    return {
        "os": (_field(release, "PRETTY_NAME", "=") or "unknown").strip('"'),
        "kernel": _stripped(kernel),
        "cpu": _field(cpuinfo, "model name", ":") or machine,
        "cores": host.cores,
        "memory_bytes": memory["total"],
        "swap_bytes": memory["swap"],
        "virtual": "hypervisor" in (_field(cpuinfo, "flags", ":") or "").split(),
        "transparent_huge_pages": _chosen(pages),
        "free_page_reporting": _free_page_reporting(host),
        "cpu_governor": _stripped(governor),
        "swappiness": _stripped(swappiness),
        "disk": disk_facts(host, folder),
    }


def _free_page_reporting(host: Host) -> bool:
    """Return whether a balloon device gives this guest's free memory back while it is idle.

    References
    ----------
    Virtio 1.2, section 5.5.3: feature bit 5, VIRTIO_BALLOON_F_PAGE_REPORTING.
    """
    features = "cat /sys/bus/virtio/drivers/virtio_balloon/virtio*/features"
    lines = host.run(["sh", "-c", features]).stdout.splitlines()
    return any(line[5:6] == "1" for line in lines)


def disk_facts(host: Host, folder: Path) -> dict[str, Any]:
    """Return the file system and the block device under a folder; unknown things are None."""
    source, mount_point, kind, options, numbers = mount(
        host, folder, "SOURCE,TARGET,FSTYPE,OPTIONS,MAJ:MIN"
    )
    names = ("rotational", "scheduler", "write_cache", "read_ahead_kb")
    # A partition has no queue of its own: its disk has.
    queues = [f"/sys/dev/block/{numbers}{place}/queue" for place in ("", "/..")]
    found = host.peek(*(f"{queue}/{name}" for queue in queues for name in names))
    rotational, scheduler, write_cache, read_ahead = (
        one if one is not None else other
        for one, other in zip(found[: len(names)], found[len(names) :], strict=True)
    )
    return {
        "source": source,
        "mount_point": mount_point,
        "file_system": kind,
        "mount_options": options,
        "rotational": _stripped(rotational),
        "scheduler": _chosen(scheduler),
        "write_cache": _stripped(write_cache),
        "read_ahead_kib": _stripped(read_ahead),
    }


def device_numbers(host: Host, folder: Path) -> str:
    """Return major and minor number of the device under a folder, as in "254:0"."""
    return mount(host, folder, "MAJ:MIN")[0]


def mount(host: Host, folder: Path, columns: str) -> list[str]:
    """Return columns of findmnt(8) for the file system that a folder is on."""
    asked: Command = ["findmnt", "--noheadings", "--raw", "--output", columns, "--target", folder]
    return host.must(asked, what="Asking for the file system").splitlines()[-1].split(" ")


def _stripped(text: str | None) -> str | None:
    return None if text is None else text.strip()


def _chosen(text: str | None) -> str | None:
    """Return the bracketed word of a sysfs choice such as `always [madvise] never`."""
    return text.split("[")[1].split("]")[0] if text and "[" in text else _stripped(text)


def _field(text: str | None, key: str, mark: str) -> str | None:
    for line in (text or "").splitlines():
        if line.startswith(key):
            return line.split(mark, 1)[1].strip()
    return None
