"""Where the time goes, by stage. A report says how much of it was measuring."""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

STAGES = (
    "set-up",
    "dataset",
    "arranging",
    "calibration",
    "cloning",
    "start/stop",
    "probing",
    "eviction",
    "memory",
    "warm-up",
    "measured passes",
    "provisional page",
    "rendering",
)


class Clock:
    """Adds up seconds by stage. Stages do not nest: each second is counted once."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._began = time.monotonic()
        self._before_s = 0.0

    def add_earlier(self, seconds: Mapping[str, float]) -> None:
        """Count seconds by stage that passed before this clock was made, in an earlier session."""
        for name, duration in seconds.items():
            self.seconds[name] += duration
            self._before_s += duration

    def leave_out(self, waited_s: float) -> None:
        """Leave seconds out in which this process waited for hosts that count their own."""
        self._before_s -= waited_s

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the block's wall time under one of STAGES."""
        if name not in STAGES:
            raise ValueError(f"'{name}' is no stage; there are: {', '.join(STAGES)}")
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] += time.monotonic() - began

    def account(self) -> dict[str, float]:
        """Return seconds by stage, the rest that no stage claimed, and all together."""
        stages = {name: self.seconds.get(name, 0.0) for name in STAGES}
        total = time.monotonic() - self._began + self._before_s
        rest = total - sum(stages.values())
        return {k: round(v, 2) for k, v in {**stages, "rest": rest, "total": total}.items()}
