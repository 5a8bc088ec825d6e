"""A time series of a running server, once a second, kept as Parquet beside the runs."""

import threading
import time
from pathlib import Path
from types import TracebackType

from innolab import host

PERIOD_S = 1.0


class Sampler:
    """Samples a process and the host each second between entering and leaving.

    Counters are cumulative since the first sample; a reader takes differences. One sample reads
    four small files of /proc, which costs well under a millisecond.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample_until_stopped, daemon=True)
        self.rows: list[dict[str, float]] = []

    def __enter__(self) -> "Sampler":
        self._began = time.monotonic()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _sample_until_stopped(self) -> None:
        while True:
            try:
                process, whole = host.process_usage(self._pid), host.usage()
            except OSError:
                return  # The process has died; the trial itself will say so.
            self.rows.append(
                {
                    "t_s": time.monotonic() - self._began,
                    "mysqld_cpu_s": process.cpu_s,
                    "mysqld_read_bytes": process.read_bytes,
                    "mysqld_written_bytes": process.written_bytes,
                    "host_busy_s": whole.busy_s,
                    "host_iowait_s": whole.iowait_s,
                    "host_steal_s": whole.steal_s,
                }
            )
            if self._stop.wait(PERIOD_S):
                return


def write(rows: list[dict[str, float]], path: Path) -> None:
    """Write a series, cumulative counters taken from its first row, t_s in seconds."""
    import pandas as pd

    frame = pd.DataFrame(rows)
    counters = frame.columns.drop("t_s")
    frame[counters] -= frame[counters].iloc[0]
    path.parent.mkdir(exist_ok=True)
    part = path.with_suffix(".part")
    frame.to_parquet(part, index=False)
    part.rename(path)
