"""A table that is filled segment by segment: opened or resumed, inserted into, looked at."""

import contextlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from innolab.analysis.evidence import Evidence, Finding
from innolab.base.errors import InnolabError
from innolab.base.units import seconds_text
from innolab.bench.trial import Bench
from innolab.mysql.server import Server
from innolab.record.journal import Checkpoint
from innolab.studies.compressed_insert import inserts
from innolab.studies.compressed_insert.inserts import Load, Table

_RECENT_SAMPLES = 20


class GrowthPace:
    """Says how far a table has grown, how fast it grows now, and how long the rest will take.

    It is silent until it begins: what runs a server in are no rows of the table.

    Parameters
    ----------
    total : rows in the end
    say : takes each line
    """

    def __init__(self, total: int, say: Callable[[str], None]) -> None:
        self.total, self._say = total, say
        self._done: int | None = None
        self._first: float | None = None
        self._recent: deque[tuple[float, float]] = deque(maxlen=_RECENT_SAMPLES)

    def begin(self, done: int) -> None:
        """Count from a table of so many rows on."""
        self._done = done

    def __call__(self, sample: Mapping[str, float]) -> None:
        """Take a sample with `t_s` and `rows`, counted from any number."""
        if self._done is None:
            return
        if self._first is None:
            self._first = sample["rows"]
        self._recent.append((sample["t_s"], sample["rows"]))
        (began_s, before), (now_s, now) = self._recent[0], self._recent[-1]
        rows = self._done + now - self._first
        if now > before:
            per_s = (now - before) / (now_s - began_s)
            self._say(
                f"{rows:,.0f} of {self.total:,} rows, {per_s:,.0f} rows/s, "
                f"{seconds_text(max(0, self.total - rows) / per_s)} left"
            )


def opened(
    stack: contextlib.ExitStack,
    bench: Bench,
    settings: dict[str, Any],
    pace: GrowthPace,
    period_s: float,
) -> tuple[Server, Checkpoint]:
    """Return a running server and how far its table came: resumed where that can be trusted.

    Records which; a trial that an earlier session began and that cannot be resumed starts again.

    Parameters
    ----------
    pace : is called with each sample
    period_s : between two samples
    """

    def started(done: Checkpoint) -> contextlib.AbstractContextManager[Server]:
        return bench.growing_server(settings, period_s, pace, resumed=done.rows > 0)

    again = bench.journal.why_again()
    if done := bench.journal.checkpoint():
        with contextlib.ExitStack() as attempt:
            try:
                server = attempt.enter_context(started(done))
                deleted = _as_left(server, done)
                bench.note("pieces", {"resumed_at_rows": done.rows, "deleted_rows": deleted})
                bench.mark(f"resuming at {done.rows:,} of {pace.total:,} rows")
                stack.push(attempt.pop_all())
                return server, done
            except InnolabError as why:
                again = f"the table was not as it was left: {why}"
    if again:
        bench.mark(f"starting this arm again: {again}")
    bench.note("pieces", {"resumed_at_rows": 0, "again": again})
    return stack.enter_context(started(Checkpoint())), Checkpoint()


def _as_left(server: Server, done: Checkpoint) -> int:
    """Delete what came after the last completed segment, and return how many rows that were."""
    deleted = inserts.shorten(server, done.last_key)
    state = inserts.state(server)
    if state != (done.rows, done.last_key, done.checksum):
        raise InnolabError(
            f"it has {state[0]:,} rows up to {state[1]:,} with checksum {state[2]}, expected "
            f"{done.rows:,} up to {done.last_key:,} with {done.checksum}"
        )
    return deleted


def run_in(bench: Bench, server: Server, load: Load, redo_bytes: int) -> None:
    """Run a server in: bring its redo log and pool to the state of one that has run for a while.

    A resumed one has its earlier table already; it is not run in again.

    Raises
    ------
    InnolabError
        Where its redo log did not come round.
    """
    if bench.conditions["pieces"]["resumed_at_rows"]:
        return
    bench.say(f"running {server.build.id} in")
    with bench.clock.stage("warm-up"):
        done = inserts.run_in(server, load, redo_bytes)
    bench.note("run_in", done)
    if done["redo_bytes"] < redo_bytes:
        raise InnolabError(
            f"{server.build.id} was to fill a redo log of {redo_bytes:,} bytes before the "
            f"measurement, and {done['rows']:,} rows made {done['redo_bytes']:,}."
        )


def inserted(
    bench: Bench, server: Server, table: Table, load: Load, sizes: Sequence[int], done: Checkpoint
) -> Checkpoint:
    """Insert the segments that are not done yet, and return the state after the last.

    Parameters
    ----------
    sizes : rows of each segment

    Raises
    ------
    InnolabError
        Where a statement fails, or the table does not have the rows that were inserted.
    """
    for place in range(len(done.segments), len(sizes)):
        # Other strings in each segment; the same wherever a run is cut.
        of_segment = replace(load, seed=load.seed + place + 1)
        done = _segment(bench, server, table, of_segment, sizes[place], done)
        if len(sizes) > 1:
            inserts.sync(server)
            bench.journal.complete(done)
            bench.mark(_reached(done, sum(sizes)))
    for number, one in enumerate(done.segments, 1):
        load_of = {name: one[name] for name in ("errors", "reconnects", "cpu_share")}
        bench.note_row("loads", {"label": str(number), **load_of})
    bench.note("segments", done.segments)
    return done


def _reached(done: Checkpoint, rows: int) -> str:
    """Return how far a table came, how fast its last segment went in, and how long the rest takes.

    At the pace of that segment: a table that slows down further takes longer.
    """
    last = done.segments[-1]
    per_s = last["rows"] / last["seconds"]
    left = seconds_text((rows - done.rows) / per_s)
    return f"{done.rows:,} of {rows:,} rows are safe, {per_s:,.0f} rows/s, {left} left"


def _segment(
    bench: Bench, server: Server, table: Table, load: Load, rows: int, done: Checkpoint
) -> Checkpoint:
    assert bench.sampler is not None
    before, log_before = table.compression(server), inserts.log_position(server)
    with bench.clock.stage("measured passes"):
        first = bench.sampler.take()
        made = inserts.run(server, load, rows)
        last = bench.sampler.take()
    after, log_after = table.compression(server), inserts.log_position(server)
    added, last_key, checksum = inserts.state(server, done.last_key)
    if added != rows:
        raise InnolabError(f"{rows:,} rows were inserted and the table has {added:,} more.")
    seconds = last["t_s"] - first["t_s"]
    record = {
        "rows": rows,
        "from_s": first["t_s"],
        "to_s": last["t_s"],
        "seconds": made.result.seconds,
        "errors": made.result.errors,
        "reconnects": made.result.reconnects,
        "cpu_share": round(made.cpu_s / seconds / server.host.cores, 4),
        "cpu_s": made.cpu_s,
        "percentiles_ms": {str(p): value for p, value in made.result.percentiles_ms.items()},
        "redo_bytes": log_after - log_before,
        **{name: after[name] - before[name] for name in after},
    }
    return Checkpoint(
        rows=done.rows + rows,
        last_key=last_key,
        checksum=done.checksum ^ checksum,
        segments=[*done.segments, record],
        samples=[*done.samples, bench.sampler.between(first["t_s"], last["t_s"])],
    )


def physical(bench: Bench, server: Server, table: Table, rows: int) -> dict[str, float]:
    """Record the table's partitions as they became, and return how large it is."""
    inserts.write_out(server)
    found = {
        "format": table.form,
        "key_block_kib": table.key_block_kib,
        "partitions": inserts.partitions(server),
        "page_bytes": table.page_bytes,
        "leaf_pages": inserts.leaf_pages(server),
        "zlib_bytes": inserts.zlib_bytes(server),
    }
    bench.note("table", found)
    return sizes(found, rows)


def sizes(table: Mapping[str, Any], rows: int) -> dict[str, float]:
    """Return how large a table is, by what is recorded of it; an older record has not all of it."""
    files = table["partitions"]
    found = {
        f"{n}_per_row": sum(one[n] for one in files) / rows
        for n in ("file_bytes", "allocated_bytes")
    }
    if "leaf_pages" in table:
        leaves, zlib = sum(table["leaf_pages"].values()), table["zlib_bytes"]
        found["leaf_bytes_per_row"] = leaves * table["page_bytes"] / rows
        found["zlib_ratio"] = zlib["text"] / zlib["compressed"]
    return found


def one_piece(evidence: Evidence) -> Finding:
    """Prevents a pool that a restart had emptied from passing for one that ran full."""
    pieces = evidence.conditions["pieces"]
    if pieces["resumed_at_rows"]:
        return "warn", (
            f"resumed at {pieces['resumed_at_rows']:,} rows with an empty pool, after deleting "
            f"{pieces['deleted_rows']:,} rows beyond"
        )
    if pieces["again"]:
        return "ok", f"started again on an empty table: {pieces['again']}"
    return "ok", "inserted in one go"
