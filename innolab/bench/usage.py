"""What a host and a device did during a trial: others' work, stolen time, traffic, rates."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from innolab.hosts import observe
from innolab.hosts.base import Host
from innolab.hosts.local import HERE
from innolab.mysql.server import Server


class Meter:
    """What a host did since the meter was made, without what is known of it."""

    def __init__(self, host: Host, known_s: Callable[[], float]) -> None:
        self._host, self._known_s = host, known_s
        self._kernel = observe.kernel_threads_cpu_s(host)
        self._before, self._known, self._began = observe.usage(host), known_s(), time.monotonic()

    def read(self) -> dict[str, float]:
        """Return pages swapped, the shares of all CPU time stolen and used by others.

        `others_cpus` is how many processors the others kept busy.
        """
        after, used = observe.usage(self._host), self._known_s() - self._known
        took_s = time.monotonic() - self._began
        cpus_s = took_s * self._host.cores
        now = observe.kernel_threads_cpu_s(self._host)
        used += sum(seconds - self._kernel.get(thread, 0.0) for thread, seconds in now.items())
        others = after.busy_s - self._before.busy_s - used
        return {
            "swapped_pages": after.swapped_pages - self._before.swapped_pages,
            "steal_share": round((after.steal_s - self._before.steal_s) / cpus_s, 4),
            "others_share": round(max(0.0, others) / cpus_s, 4),
            "others_cpus": round(max(0.0, others) / took_s, 4),
        }


class WatchedHosts:
    """What the hosts did that the servers of a trial are on, and the machine that emulates one.

    What disturbs one of them disturbs all that work together, and what disturbs the emulator
    disturbs the host that it emulates, which cannot see it: the worst is what counts.

    Parameters
    ----------
    emulation_cpu_s : returns the CPU seconds here of the program that serves their disk

    Attributes
    ----------
    joined : whether another server has joined them since
    """

    joined = False

    def __init__(self, servers: Sequence[Server], emulation_cpu_s: Callable[[], float]) -> None:
        self._on: dict[Host, list[Server]] = {}
        for server in servers:
            self._on.setdefault(server.host.host, []).append(server)
        self._emulation_cpu_s = emulation_cpu_s
        self._meters = [Meter(host, partial(self._known_cpu_s, host)) for host in self._on]
        for host in self._on:
            if host.emulator is not None:
                self._meters.append(Meter(HERE, partial(emulator_cpu_s, host)))

    def join(self, server: Server) -> None:
        """Count a server that started since on one of their hosts as part of the trial."""
        self._on[server.host.host].append(server)
        self.joined = True

    def _known_cpu_s(self, host: Host) -> float:
        """Return the CPU seconds on a host of what is part of the trial: servers, loads, ourselves.

        A server that has ended counts among our children.
        """
        running = [server for server in self._on[host] if server.is_running]
        of_servers = (observe.process_usage(host, one.pid).cpu_s for one in running)
        emulation_s = self._emulation_cpu_s() if host is HERE else 0.0
        return host.own_cpu_s() + sum(of_servers) + emulation_s

    def peak_memory_bytes(self) -> int:
        """Return the most memory that each server which still runs had resident, together."""
        return sum(
            observe.peak_memory_bytes(host, [one.pid for one in servers if one.is_running])
            for host, servers in self._on.items()
        )

    def read(self) -> dict[str, float]:
        """Return the worst of what their meters say."""
        found = [meter.read() for meter in self._meters]
        return {name: max(one[name] for one in found) for name in found[0]}


def device_traffic(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return what others than the server read and wrote on its device, and what all did together.

    From the first sample to the last. Nothing if the kernel keeps no counters of the device.
    """
    if not rows or "device_reads" not in rows[0]:
        return {}
    spent = {name: rows[-1][name] - rows[0][name] for name in rows[0]}
    return {
        "watched_s": round(spent["t_s"], 2),
        "device_bytes": int(spent["device_read_bytes"] + spent["device_written_bytes"]),
        **{
            f"foreign_{name}_bytes": max(
                0, int(spent[f"device_{name}_bytes"] - spent[f"mysqld_{name}_bytes"])
            )
            for name in ("read", "written")
        },
    }


def emulator_cpu_s(host: Host) -> float:
    """Return the CPU seconds here of the process that emulates a host, and our own."""
    assert host.emulator is not None
    return observe.process_usage(HERE, host.emulator).cpu_s + HERE.own_cpu_s()


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

    Nothing if the kernel keeps no counters of the device, or if the span is shorter than two
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
    return {
        **whole,
        "most": {name: max(rates[name] for rates in [whole, *seconds]) for name in COUNTERS},
    }


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
