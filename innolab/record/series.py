"""A time series of a running server, kept as Parquet next to the runs."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

from innolab.base import files
from innolab.base.errors import InnolabError
from innolab.hosts import observe
from innolab.hosts.base import Host

PERIOD_S = 1.0
COUNTERS = frozenset(
    {
        "mysqld_cpu_s", "mysqld_kernel_cpu_s", "mysqld_read_bytes", "mysqld_written_bytes",
        "host_total_s", "host_busy_s", "host_iowait_s", "host_steal_s", "transactions", "selects",
        "pages_read", "pages_written", "free_page_waits", "redo_bytes", "fsyncs", "rows",
        "device_reads", "device_read_bytes", "device_writes", "device_written_bytes",
    }
)  # fmt: skip


class Sampler:
    """Samples a process and its host at a steady pace between entering and leaving, or when asked.

    Counters are cumulative since the first sample; a reader takes differences. One sample reads
    five small files of /proc, which costs well under a millisecond; `probe` may add more columns
    to it. Sampling ends with the process, or with a probe that raises InnolabError.

    Parameters
    ----------
    device : the numbers of the block device to count too, as in "254:0"
    notice : is called with each sample, in the thread that took it
    """

    def __init__(
        self,
        host: Host,
        pid: int,
        period_s: float = PERIOD_S,
        probe: Callable[[], dict[str, float]] | None = None,
        device: str | None = None,
        notice: Callable[[dict[str, float]], None] | None = None,
    ) -> None:
        self._host = host
        self._device = device
        self._notice = notice
        self._one_at_a_time = threading.Lock()
        self._pid = pid
        self._period_s = period_s
        self._probe = probe
        self._stop = threading.Event()
        self._began = time.monotonic()
        self._thread = threading.Thread(target=self._sample_until_stopped, daemon=True)
        self.rows: list[dict[str, float]] = []

    def now_s(self) -> float:
        """Return the time on the clock of the samples."""
        return time.monotonic() - self._began

    def between(self, from_s: float, to_s: float) -> list[dict[str, float]]:
        """Return the samples of a span of time."""
        return [row for row in list(self.rows) if from_s <= row["t_s"] <= to_s]

    def __enter__(self) -> "Sampler":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _sample_until_stopped(self) -> None:
        while True:
            try:
                row = self.take()
            except (OSError, InnolabError):
                return  # The process has died; the trial itself will say so.
            if self._notice:
                self._notice(row)
            if self._stop.wait(self._period_s):
                return

    def take(self) -> dict[str, float]:
        """Take a sample now, between those at the steady pace.

        Raises
        ------
        OSError, InnolabError
            Where the process or the probe is gone.
        """
        with self._one_at_a_time:
            process, whole, device = observe.together(self._host, self._pid, self._device)
            row: dict[str, float] = {
                "t_s": self.now_s(),
                "mysqld_cpu_s": process.cpu_s,
                "mysqld_kernel_cpu_s": process.kernel_cpu_s,
                "mysqld_read_bytes": process.read_bytes,
                "mysqld_written_bytes": process.written_bytes,
                "host_total_s": whole.total_s,
                "host_busy_s": whole.busy_s,
                "host_iowait_s": whole.iowait_s,
                "host_steal_s": whole.steal_s,
            }
            if device:
                row |= {f"device_{name}": value for name, value in device._asdict().items()}
            row |= self._probe() if self._probe else {}
            self.rows.append(row)
        return row


def write(rows: list[dict[str, float]], path: Path) -> None:
    """Write a series; cumulative counters count from its first row, t_s in seconds.

    Columns of COUNTERS are cumulative, all others are values of a moment.
    """
    import pandas as pd

    frame = pd.DataFrame(rows)
    counters = [name for name in frame.columns if name in COUNTERS]
    frame[counters] -= frame[counters].iloc[0]
    path.parent.mkdir(exist_ok=True)
    with files.replaced(path) as part:
        frame.to_parquet(part, index=False)
