"""Statements that cross databases, under a replica that applies one database alone.

A pyramid: `top` holds what all services share, `web` follows it with `replicate-do-db=common` and
is the source of its own service, `leaf` follows `web`. Whether a change arrives depends on how it
is written down: as a statement, by the database that was the default then; as rows, by their own.
Top and web have the same tables: those of the shared database, and those of one that web keeps for
itself, with its own rows.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from innolab.analysis.bounds import Bound, Record, all_exactly, exactly, metrics
from innolab.base.errors import InnolabError
from innolab.bench.trial import Bench
from innolab.mysql import replication, topology
from innolab.mysql.server import Server
from innolab.record.run import Observation
from innolab.studies.replication import windows
from innolab.studies.replication.spreading import WINDOW_S
from innolab.studies.study import Arm

SHARED, OWN = "common", "shop"
_PASSED_WITHIN_S = 20.0
# The checksums of a statement's tables on a server, by database and name.
Tables = Mapping[str, Mapping[str, int]]


class Statement(NamedTuple):
    """A statement on the source, and the database that is the default on its connection.

    `{n}` stands for the number of the statement: each has its own tables.
    """

    default: str
    sql: str
    changes_tables: bool = False


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


class Tried(NamedTuple):
    """What became of a statement: the tables below before and after, those above, in checksums.

    `passed` says whether the replica came past it.
    """

    before: Tables
    after: Tables
    above: Tables
    passed: bool

    def metrics(self) -> dict[str, int]:
        """Return whether it changed something below, stopped the replica, and did what it should.

        Right is what the filter promises: shared tables are as above, the replica's own as before.
        """
        is_right = self.after[SHARED] == self.above[SHARED] and self.after[OWN] == self.before[OWN]
        return {
            "changed": int(self.after != self.before),
            "stopped": int(not self.passed),
            "right": int(is_right),
        }


def pyramid(bench: Bench, _arm: Arm, asked: dict[str, Any]) -> Iterator[Observation]:
    """Load the top with writes that are not web's; then try statements that cross databases.

    What is below is compared with what should be there.
    """
    with bench.topology(topology.pyramid(SHARED), asked) as (raised, _):
        top, web, leaf = raised.servers.values()
        load = replace(windows.warmed(bench, raised, SHARED), write_share=1.0)
        window_s = WINDOW_S.of(bench.parameters)
        window = windows.window(bench, raised, load, window_s, raised.replicas, schema=SHARED)
        yield {"write_share": 1.0, **window}
        with bench.clock.stage("warm-up"):
            _prepare(top, [web, leaf])
            web.query(f"INSERT INTO {SHARED}.t{len(STATEMENTS)} VALUES (60, 0)")
        # The last statement stops a replica, which complains.
        bench.note_error_logs([top, web, leaf])
        outcomes: list[dict[str, int]] = []
        with bench.clock.stage("measured passes"):
            for number, statement in enumerate(STATEMENTS, 1):
                tried = _tried(top, web, number, statement)
                bench.note_row("tried", {"statement": number, **tried._asdict()})
                outcomes.append(tried.metrics())
                yield {"statement": number, **outcomes[-1]}
        _passed(web, leaf)
        ends = {name: dict(_checksums(raised.servers[name])) for name in ("web", "leaf")}
        bench.note("checksums", ends)
        yield {**_whole(outcomes), "leaf_equal": int(ends["leaf"] == ends["web"])}


def _prepare(source: Server, below: Sequence[Server]) -> None:
    """Make the tables of all statements on each server for itself, none of them in its log."""
    for server in (source, *below):
        first = 100 if server is source else 200
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION sql_log_bin = 0")
            for schema, added in ((SHARED, 0), (OWN, first)):
                cursor.execute(f"CREATE DATABASE IF NOT EXISTS {schema}")
                rows = ", ".join(f"({id_}, {added + id_})" for id_ in (1, 2, 3))
                for number in range(1, len(STATEMENTS) + 1):
                    cursor.execute(f"CREATE TABLE {schema}.t{number} (id INT PRIMARY KEY, v INT)")
                    cursor.execute(f"INSERT INTO {schema}.t{number} VALUES {rows}")


def _tried(source: Server, below: Server, number: int, statement: Statement) -> Tried:
    before = _tables(below, number)
    with source.connect(database=statement.default) as connection, connection.cursor() as cursor:
        cursor.execute(statement.sql.format(n=number))
    is_through = _passed(source, below)
    return Tried(before, _tables(below, number), _tables(source, number), is_through)


def _passed(source: Server, below: Server) -> bool:
    """Return whether a replica came past all that its source has; False if it stopped."""
    ids = replication.executed(source)
    deadline = time.monotonic() + _PASSED_WITHIN_S
    while replication.missing(below, ids, replication.executed(below)):
        if not replication.status(below).applies:
            return False
        if time.monotonic() > deadline:
            raise InnolabError(
                f"The server below did not come to an end within {_PASSED_WITHIN_S:g} s."
            )
        time.sleep(0.05)
    return True


def _checksums(server: Server) -> Mapping[str, int]:
    return replication.checksums(server, (SHARED, OWN))


def _tables(server: Server, number: int) -> Tables:
    sums = _checksums(server)
    names = (f"t{number}", f"new{number}")
    return {
        schema: {name: sums[at] for name in names if (at := f"{schema}.{name}") in sums}
        for schema in (SHARED, OWN)
    }


def _whole(outcomes: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Return how many statements that change rows, or tables, did what they should not.

    The last of all is to stop the replica.
    """
    *others, last = outcomes
    wrong = [one.changes_tables for one, row in zip(STATEMENTS[:-1], others, strict=True)
             if not row["right"]]  # fmt: skip
    return {"wrong_rows": wrong.count(False), "wrong_tables": wrong.count(True),
            "conflict_stops": last["stopped"]}  # fmt: skip


def _by_tables(record: Record) -> Iterator[Bound]:
    rows = list(record.noted("tried"))
    for row in rows:
        tried = Tried(row["before"], row["after"], row["above"], row["passed"])
        yield from all_exactly({"statement": row["statement"]}, tried.metrics())
    if rows:
        ends = record.run.conditions["checksums"]
        yield exactly({}, "leaf_equal", int(ends["leaf"] == ends["web"]))


def _by_statements(record: Record) -> Iterator[Bound]:
    rows = {within["statement"]: row for within, row in record.rows("changed", "stopped", "right")}
    if rows:
        outcomes = [{n: int(rows[at][n]) for n in ("stopped", "right")} for at in sorted(rows)]
        yield from all_exactly({}, _whole(outcomes))


METRICS = {
    **metrics(
        {
            "changed": "share of the statements that change something below",
            "stopped": "share of the statements that stop the replica",
            "right": "share of the statements that do below what the filter promises",
            "leaf_equal": "share of the trials",
        },
        _by_tables,
    ),
    **metrics(
        {
            "wrong_rows": "statements",
            "wrong_tables": "statements",
            "conflict_stops": "share of the conflicts that stop the replica",
        },
        _by_statements,
    ),
}
