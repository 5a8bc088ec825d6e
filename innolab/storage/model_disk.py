"""The program model_disk: a device of service times, served for real or simulated."""

import contextlib
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from innolab.base.errors import InnolabError
from innolab.hosts import machine
from innolab.storage.profiles import DeviceLoad, Outcome, ServiceTimes

PROGRAM = "model_disk"
# About what the fastest of its devices take: after a longer wait a processor needs longer to wake,
# which matters less as much as the wait is longer.
_STEP_S = 0.0002


def why_impossible() -> str | None:
    """Return why this host cannot have devices of service times, or None if it can."""
    if not Path("/dev/fuse").exists():
        return "this kernel has no FUSE (/dev/fuse is missing)"
    try:
        machine.tool(PROGRAM)
    except InnolabError as error:
        return str(error)
    return None


def simulated(
    times: ServiceTimes,
    load: DeviceLoad,
    *,
    size_bytes: int,
    span_bytes: int,
    operations: int = 20_000,
    rate_per_s: float = 0,
) -> Outcome:
    """Return what a load gets from a device by its model alone, without waiting.

    Parameters
    ----------
    size_bytes : of the device, over which its arms seek
    span_bytes : how much of it, from its beginning, the load touches
    rate_per_s : of operations that arrive at random; 0 keeps the load's depth in flight

    Raises
    ------
    InnolabError
        If there is no such device or load.
    """
    asked = {name: value for name, value in load._asdict().items() if name != "synced"}
    asked |= {"size_bytes": size_bytes, "span_bytes": span_bytes, "operations": operations,
              "rate_per_s": rate_per_s}  # fmt: skip
    words = [*_words(times), *(f"{name}={float(value):.12g}" for name, value in asked.items())]
    done = subprocess.run(
        [machine.tool(PROGRAM), "simulate", *words], capture_output=True, text=True
    )
    if done.returncode:
        raise InnolabError(f"The model gave no result: {done.stderr.strip()[:300]}")
    values = dict(line.split("=") for line in done.stdout.split())
    latencies = {name: float(values[name]) for name in Outcome._fields if name.endswith("_s")}
    return Outcome(operations=operations, **latencies)


def _words(times: ServiceTimes, path_s: float = 0.0) -> list[str]:
    return [f"{name}={value:.12g}" for name, value in {**times._asdict(), "path_s": path_s}.items()]


class DiskModel:
    """A model disk that is served, by the folder in which the program has its files.

    Attributes
    ----------
    path_s : how long the way to and from the program takes, once it is known
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path_s = 0.0

    def is_served(self) -> bool:
        """Return whether the program still answers."""
        with contextlib.suppress(OSError):
            return bool((self.folder / "profile").read_text())
        return False

    def become(self, times: ServiceTimes | None) -> None:
        """Take a device's service times, or none, and read them back.

        Raises
        ------
        InnolabError
            If the program has ended or does not take them.
        """
        words = [] if times is None else _words(times, self.path_s)
        try:
            (self.folder / "profile").write_text(" ".join(words) + "\n")
        except OSError as error:
            raise InnolabError(
                f"The program model_disk did not take a device's service times: {error.strerror}. "
                "It has ended, or the profile contradicts itself."
            ) from None
        self.require(times)

    def require(self, times: ServiceTimes | None) -> None:
        """Raise InnolabError where the program does not have some service times."""
        wanted = dict(word.split("=") for word in _words(times, self.path_s)) if times else {}
        try:
            text = (self.folder / "profile").read_text()
        except OSError as error:
            raise InnolabError(f"The program model_disk has ended: {error.strerror}.") from None
        found = dict(line.split("=") for line in text.split())
        if any(float(found[name]) != float(wanted.get(name, 0)) for name in found):
            raise InnolabError(
                f"The program model_disk was asked for {json.dumps(wanted)} and has "
                f"{json.dumps(found)}; nothing can be measured on it."
            )

    def counters(self) -> dict[str, float]:
        """Return what was done since the program began: operations, bytes, busy and CPU seconds.

        Nothing if the program has ended.
        """
        with contextlib.suppress(OSError):
            lines = (self.folder / "counters").read_text().split()
            return {name: float(value) for name, value in (line.split("=") for line in lines)}
        return {}

    def find_path(self, reads_per_s: Callable[[], float]) -> None:
        """Find out how long the way to the program takes, by a device of one step a read."""
        step = ServiceTimes(1, 1, 2**20, 1, 0, 0, 0, _STEP_S, _STEP_S, _STEP_S, 1e15, 0, 1e15,
                            0, 0, 0, 0)  # fmt: skip
        self.path_s = 0.0
        self.become(step)
        try:
            self.path_s = max(0.0, 1 / reads_per_s() - _STEP_S)
        finally:
            self.become(None)
