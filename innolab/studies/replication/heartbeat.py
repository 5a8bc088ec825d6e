"""How far replicas are behind: the time from a commit on the source until a replica shows it.

A thread writes a number again and again, and notes when each commit was acknowledged; a thread for
each replica notes when it first sees a number. Both go by the clock of this process, so no clocks
have to agree. What a replica says of itself (`Seconds_Behind_Master`) is whole seconds, and 0 while
its source is silent.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from innolab.base.errors import InnolabError
from innolab.mysql.server import Server

SCHEMA = "innolab_beat"
_BEAT_S, _LOOK_S = 0.1, 0.05


class Beat(NamedTuple):
    """One commit: when it was acknowledged, and how much later a replica showed it."""

    at_s: float
    lag_s: float


class Lag(NamedTuple):
    """How far a replica was behind at the end of a window, and how much more in each second."""

    late_s: float
    growth: float


def lag(beats: Sequence[Beat], window_s: float) -> Lag:
    """Return the lag of the last quarter of a window's commits, and its growth since the first.

    >>> lag([Beat(0.5, 0.5), Beat(1.0, 0.5), Beat(2.5, 1.5), Beat(9.0, 9.0)], 4)
    Lag(late_s=1.5, growth=0.5)

    Raises
    ------
    InnolabError
        If there are fewer than two.
    """
    within = [beat for beat in beats if beat.at_s <= window_s]
    if len(within) < 2:
        raise InnolabError("A replica showed too few commits of the window: it does not follow.")
    quarter = max(1, len(within) // 4)
    early, late = (
        Beat(median(beat.at_s for beat in part), median(beat.lag_s for beat in part))
        for part in (within[:quarter], within[-quarter:])
    )
    return Lag(late.lag_s, (late.lag_s - early.lag_s) / (late.at_s - early.at_s))


def prepare(source: Server, schema: str = SCHEMA) -> None:
    """Make the table in a new database, before replicas are loaded.

    It is done there, so that replicas that follow one database alone follow it too.
    """
    source.query(f"CREATE DATABASE IF NOT EXISTS {schema}")
    with source.connect(database=schema) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE beat (id INT PRIMARY KEY, number BIGINT NOT NULL)")
        cursor.execute("INSERT INTO beat VALUES (1, 0)")


class Heartbeat:
    """Beats between entering and leaving; then `beats` says what each replica saw when.

    Leaving waits until the last beat has arrived everywhere, which is how long the replicas take to
    catch up; InnolabError if that is longer than `patience_s`.

    Attributes
    ----------
    stopped_s : when the last beat was sent
    catch_up_s : how long after it each replica had all beats
    """

    def __init__(
        self,
        source: Server,
        replicas: Mapping[str, Server],
        patience_s: float = 60.0,
        schema: str = SCHEMA,
    ) -> None:
        self._schema = schema
        self._source, self._replicas, self._patience_s = source, dict(replicas), patience_s
        self._committed: list[float] = []
        self._seen: dict[str, list[tuple[float, int]]] = {name: [] for name in replicas}
        self._stops, self._ends = threading.Event(), threading.Event()
        self._faults: list[str] = []
        self.stopped_s = 0.0
        self.catch_up_s: dict[str, float] = {}

    def __enter__(self) -> "Heartbeat":
        # At which the last heartbeat on this table ended: replicas still show it.
        [(self._before,)] = self._source.query(f"SELECT number FROM {self._schema}.beat")
        self._began = time.monotonic()
        looks = [
            threading.Thread(target=self._guarded, args=(self._look, name), daemon=True)
            for name in self._replicas
        ]
        beat = threading.Thread(target=self._guarded, args=(self._beat,), daemon=True)
        self._threads = [beat, *looks]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: object, _error: object, _trace: object) -> None:
        self._stops.set()
        self._threads[0].join()
        self.stopped_s = time.monotonic() - self._began
        if kind is None:
            self._await_last()
        self._ends.set()
        for thread in self._threads:
            thread.join()
        if kind is None and self._faults:
            raise InnolabError(f"The heartbeat failed: {self._faults[0]}")

    def beats(self, replica: str) -> list[Beat]:
        """Return the commits that a replica showed, in their order."""
        beats: list[Beat] = []
        seen = iter(self._seen[replica])
        at, number = next(seen, (0.0, 0))
        for place, committed in enumerate(self._committed, 1):
            while number < place:
                step = next(seen, None)
                if step is None:
                    return beats
                at, number = step
            # As it is recorded: what follows from a beat must follow from its record.
            beats.append(Beat(round(committed, 4), round(max(0.0, at - committed), 4)))
        return beats

    def _await_last(self) -> None:
        deadline = self._began + self.stopped_s + self._patience_s
        waiting = set(self._replicas)
        while waiting and time.monotonic() < deadline and not self._faults:
            for name in sorted(waiting):
                at_s, number = self._seen[name][-1] if self._seen[name] else (0.0, 0)
                if number >= len(self._committed):
                    self.catch_up_s[name] = max(0.0, at_s - self.stopped_s)
                    waiting.discard(name)
            time.sleep(_LOOK_S)
        if waiting and not self._faults:
            # Without their last commits the lag would be that of the first ones alone.
            late = ", ".join(sorted(waiting))
            self._faults.append(f"{late} did not catch up within {self._patience_s:g} s")

    def _guarded(self, what: Callable[..., None], *args: str) -> None:
        from mysql.connector import Error

        try:
            what(*args)
        except (Error, InnolabError) as error:
            self._faults.append(str(error))

    def _beat(self) -> None:
        to = self._source.connect(database=self._schema)
        with to as connection, connection.cursor() as cursor:
            while not self._stops.wait(_BEAT_S):
                number = int(self._before) + len(self._committed) + 1
                cursor.execute(f"UPDATE beat SET number = {number}")
                self._committed.append(time.monotonic() - self._began)

    def _look(self, name: str) -> None:
        seen = self._seen[name]
        to = self._replicas[name].connect(database=self._schema)
        with to as connection, connection.cursor() as cursor:
            while not self._ends.wait(_LOOK_S):
                cursor.execute("SELECT number FROM beat")
                rows: Sequence[tuple[int]] = cursor.fetchall()
                number = rows[0][0] - self._before if rows else 0
                if number > (seen[-1][1] if seen else 0):
                    seen.append((time.monotonic() - self._began, number))
