"""Statements that cross databases, under a replica that applies one database alone.

A pyramid: `top` holds what all services share, `web` follows it with `replicate-do-db=common` and
is the source of its own service, `leaf` follows `web`. Whether a change arrives depends on how it
is written down: as a statement, by the database that was the default then; as rows, by their own.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from innolab.analysis.bounds import Bound, Record, all_exactly, exactly, metrics
from innolab.bench.trial import Bench
from innolab.mysql import topology
from innolab.record.run import Observation
from innolab.studies.replication import filtered, replicated_windows
from innolab.studies.replication.filtered import OWN, SHARED, Statement
from innolab.studies.replication.spreading import WINDOW_S
from innolab.studies.study import Arm

STATEMENTS = (
    Statement(SHARED, "UPDATE common.t{n} SET v = 99 WHERE id = 1"),
    Statement(OWN, "UPDATE common.t{n} SET v = 99 WHERE id = 1"),
    Statement(OWN, "UPDATE shop.t{n} SET v = 99 WHERE id = 1"),
    Statement(SHARED, "UPDATE shop.t{n} SET v = 99 WHERE id = 1"),
    Statement(OWN, "INSERT INTO common.t{n} SELECT id + 100, v FROM shop.t{n}"),
    Statement(SHARED, "INSERT INTO shop.t{n} SELECT id + 100, v FROM common.t{n}"),
    Statement(OWN, "UPDATE common.t{n}, shop.t{n} SET common.t{n}.v = 7, shop.t{n}.v = 7"),
    Statement(OWN, "CREATE TABLE common.new{n} (id INT PRIMARY KEY)", True),
    Statement(SHARED, "CREATE TABLE shop.new{n} (id INT PRIMARY KEY)", True),
    # Its row is below already, written there by the service itself.
    Statement(SHARED, "INSERT INTO common.t{n} VALUES (60, 60)"),
)
SHAPE = topology.pyramid(SHARED)


def pyramid(bench: Bench, _arm: Arm, asked: dict[str, Any]) -> Iterator[Observation]:
    """Load the top with writes that are none of web's; then try statements that cross databases.

    What is below is compared with what should be there.
    """
    with bench.topology(SHAPE, asked) as (raised, _):
        top, web, leaf = raised.servers.values()
        load = replace(replicated_windows.warmed(bench, raised, SHARED), write_share=1.0)
        window_s = WINDOW_S.of(bench.parameters)
        window = replicated_windows.window(
            bench, raised, load, window_s, raised.replicas, schema=SHARED
        )
        yield {"write_share": 1.0, **window}
        with bench.clock.stage("warm-up"):
            filtered.prepare(top, [web, leaf], len(STATEMENTS))
            web.query(f"INSERT INTO {SHARED}.t{len(STATEMENTS)} VALUES (60, 0)")
        # The last statement stops a replica, which complains.
        bench.note_error_logs([top, web, leaf])
        found: list[dict[str, int]] = []
        with bench.clock.stage("measured passes"):
            for number, statement in enumerate(STATEMENTS, 1):
                tried = filtered.tried(top, web, number, statement)
                bench.note_row("tried", {"statement": number, **tried._asdict()})
                found.append(tried.metrics())
                yield {"statement": number, **found[-1]}
        filtered.passed(web, leaf)
        ends = {name: dict(filtered.checksums(raised.servers[name])) for name in ("web", "leaf")}
        bench.note("checksums", ends)
        yield {**_whole(found), "leaf_equal": int(ends["leaf"] == ends["web"])}


def _whole(found: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Return what all statements did together, the last of which is to stop the replica."""
    wrong = filtered.summed(STATEMENTS[:-1], found[:-1])
    return {**wrong, "conflict_stops": found[-1]["stopped"]}


def _of_tables(record: Record) -> Iterator[Bound]:
    """Yield the bounds of METRICS by the checksums of tables around each statement."""
    found = []
    for row in record.noted("tried"):
        tried = filtered.Tried(row["before"], row["after"], row["above"], row["passed"])
        found.append(tried.metrics())
        yield from all_exactly({"statement": row["statement"]}, found[-1])
    if found:
        ends = record.run.conditions["checksums"]
        yield exactly({}, "leaf_equal", int(ends["leaf"] == ends["web"]))


def _of_statements(record: Record) -> Iterator[Bound]:
    """Yield the bounds of what all statements did, by what each did."""
    rows = {within["statement"]: row for within, row in record.rows("changed", "stopped", "right")}
    if rows:
        found = [{name: int(rows[n][name]) for name in ("stopped", "right")} for n in sorted(rows)]
        yield from all_exactly({}, _whole(found))


METRICS = {
    **metrics(
        {
            "changed": "share of the statements that change something below",
            "stopped": "share of the statements that stop the replica",
            "right": "share of the statements that do below what the filter promises",
            "leaf_equal": "share of the trials",
        },
        _of_tables,
    ),
    **metrics(
        {
            "wrong_rows": "statements",
            "wrong_tables": "statements",
            "conflict_stops": "share of the conflicts that stop the replica",
        },
        _of_statements,
    ),
}
