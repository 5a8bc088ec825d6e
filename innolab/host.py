"""This machine: where things lie, what it is, what it is doing, and the right to measure on it."""

import contextlib
import os
import platform
import pwd
import shutil
import socket
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from innolab.errors import InputError

SERVER_USER = "innolab"
# The parent of all kernel threads has process id 2 on every Linux.
_KTHREADD = "2"
_LOCK_NAME = "\0innolab-measures"
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cache_folder() -> Path:
    """Return the folder of builds, datasets and running servers (`INNOLAB_CACHE` moves it).

    Root's lies in /var/cache: servers run as an unprivileged user, which cannot enter /root.
    """
    if named := os.environ.get("INNOLAB_CACHE"):
        return Path(named).absolute()
    if os.geteuid() == 0:
        return Path("/var/cache/innolab")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "innolab"


def server_user() -> str | None:
    """Return the unprivileged user of the servers, or None where we are unprivileged ourselves.

    Raises
    ------
    InputError
        Where root runs innolab and that user does not exist.
    """
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam(SERVER_USER).pw_name
    except KeyError:
        raise InputError(
            f"innolab runs as root but the user '{SERVER_USER}', under which servers run then, "
            "does not exist. Create it with: make setup"
        ) from None


def unprivileged() -> list[str]:
    """Return the words before a command that must not run as root nor outlive innolab.

    The kernel kills the server with the process that started it: after `kill -9` of a run no
    mysqld is left to disturb the next one.
    """
    words = ["setpriv", "--pdeathsig", "KILL"]
    if user := server_user():
        words += [f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    return words


def within(cgroup: Path | None) -> list[str]:
    """Return the words before a command that starts it, and all it starts, in a control group."""
    if cgroup is None:
        return []
    join = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
    return ["sh", "-c", join, str(cgroup)]


def give_to_server(folder: Path) -> None:
    """Make the servers' unprivileged user the owner of a folder and all in it."""
    if user := server_user():
        subprocess.run(["chown", "-R", f"{user}:{user}", str(folder)], check=True)


@contextlib.contextmanager
def measuring_alone() -> Iterator[None]:
    """Hold the right to measure on this host until the block ends or the process dies.

    An abstract socket: the kernel frees it with the process, so nothing is ever left to clean up,
    and it is seen by every user and every cache folder of the host.

    Raises
    ------
    InputError
        Where another process measures now. Two at once would measure each other.
    """
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        lock.bind(_LOCK_NAME)
        lock.listen(1)
    except OSError:
        lock.close()
        raise InputError(
            f"Another innolab measures on this host already (process {_lock_holder()}). Two runs "
            "at once would measure each other. Wait for it to end, then start this one again."
        ) from None
    try:
        yield
    finally:
        lock.close()


def _lock_holder() -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        try:
            client.connect(_LOCK_NAME)
            credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        except OSError:
            return "unknown"
    return str(struct.unpack("3i", credentials)[0])


class Usage(NamedTuple):
    """Counters of the whole host since boot. Differences of two say what happened between."""

    busy_s: float
    steal_s: float
    iowait_s: float
    swapped_pages: int


def usage() -> Usage:
    """Return the host's CPU seconds (all cores together) and pages swapped in or out so far."""
    user, nice, system, _idle, iowait, irq, softirq, steal = (
        int(x) / _TICKS_PER_S for x in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    )
    vmstat = dict(line.split() for line in Path("/proc/vmstat").read_text().splitlines())
    return Usage(
        busy_s=user + nice + system + irq + softirq,
        steal_s=steal,
        iowait_s=iowait,
        swapped_pages=int(vmstat["pswpin"]) + int(vmstat["pswpout"]),
    )


class ProcessUsage(NamedTuple):
    """Counters of one process since its start, threads included. CPU is user and kernel."""

    cpu_s: float
    kernel_cpu_s: float
    read_bytes: int
    written_bytes: int


def process_usage(pid: int) -> ProcessUsage:
    """Return CPU seconds, and the bytes that really went to and from block devices.

    Bytes served by the page cache are not counted: see proc(5), `read_bytes`.
    """
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    io = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return ProcessUsage(
        cpu_s=(int(fields[11]) + int(fields[12])) / _TICKS_PER_S,
        kernel_cpu_s=int(fields[12]) / _TICKS_PER_S,
        read_bytes=int(io["read_bytes"]),
        written_bytes=int(io["write_bytes"]),
    )


def kernel_threads_cpu_s() -> dict[tuple[int, int], float]:
    """Return the CPU seconds of every kernel thread that lives now, by process id and start.

    An emulated disk works in them: without this its work would pass for foreign load. Threads come
    and go, so only those seen at the end may be compared with the beginning.
    """
    found = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = entry.read_text().rsplit(")", 1)[1].split()
            if fields[1] == _KTHREADD:
                ticks = int(fields[11]) + int(fields[12])
                found[int(entry.parent.name), int(fields[19])] = ticks / _TICKS_PER_S
    return found


def memory_bytes() -> dict[str, int]:
    """Return the lines of /proc/meminfo that matter here, in bytes."""
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    names = {"total": "MemTotal", "available": "MemAvailable", "swap": "SwapTotal"}
    return {ours: int(lines[theirs].split()[0]) * 1024 for ours, theirs in names.items()}


def free_disk_bytes(folder: Path) -> int:
    """Return the free bytes of the file system that holds `folder` or will hold it."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def facts(folder: Path) -> dict[str, Any]:
    """Return what this host is, as far as it can change a result; the disk is `folder`'s."""
    memory = memory_bytes()
    os_release = platform.freedesktop_os_release()
    return {
        "os": os_release.get("PRETTY_NAME", "unknown"),
        "kernel": platform.release(),
        "cpu": _first_match("/proc/cpuinfo", "model name") or platform.machine(),
        "cores": os.cpu_count(),
        "memory_bytes": memory["total"],
        "swap_bytes": memory["swap"],
        "virtual": "hypervisor" in (_first_match("/proc/cpuinfo", "flags") or "").split(),
        "transparent_huge_pages": _chosen("/sys/kernel/mm/transparent_hugepage/enabled"),
        "free_page_reporting": _free_page_reporting(),
        "cpu_governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "swappiness": _read("/proc/sys/vm/swappiness"),
        "disk": disk_facts(folder),
    }


def _free_page_reporting() -> bool:
    """Return whether a balloon device gives this guest's free memory back while it is idle.

    References
    ----------
    Virtio 1.2, section 5.5.3: feature bit 5, VIRTIO_BALLOON_F_PAGE_REPORTING.
    """
    devices = Path("/sys/bus/virtio/drivers/virtio_balloon").glob("virtio*/features")
    return any((_read(features) or "")[5:6] == "1" for features in devices)


def disk_facts(folder: Path) -> dict[str, Any]:
    """Return the file system and the block device under a folder; unknown things are None."""
    folder = folder.resolve()
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    holding = [m for m in mounts if folder.is_relative_to(m[1])]
    source, mount_point, kind, options = max(holding, key=lambda m: len(m[1]))[:4]
    stat = folder.stat()
    node = Path(f"/sys/dev/block/{os.major(stat.st_dev)}:{os.minor(stat.st_dev)}")
    # A partition has no queue of its own: its disk has.
    queue = next((q for q in (node / "queue", node.resolve().parent / "queue") if q.is_dir()), node)
    return {
        "source": source,
        "mount_point": mount_point,
        "file_system": kind,
        "mount_options": options,
        "rotational": _read(queue / "rotational"),
        "scheduler": _chosen(queue / "scheduler"),
        "write_cache": _read(queue / "write_cache"),
        "read_ahead_kib": _read(queue / "read_ahead_kb"),
    }


def _read(path: str | Path) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


def _chosen(path: str | Path) -> str | None:
    """Return the bracketed word of a sysfs choice such as `always [madvise] never`."""
    text = _read(path)
    return text.split("[")[1].split("]")[0] if text and "[" in text else text


def _first_match(path: str, key: str) -> str | None:
    for line in (_read(path) or "").splitlines():
        if line.startswith(key):
            return line.split(":", 1)[1].strip()
    return None
