"""Statements that cross databases, under a replica that applies one database alone.

A pyramid: `top` holds what all services share, `web` follows it with `replicate-do-db=common` and
is the source of its own service, `leaf` follows `web`. Whether a change arrives depends on how it
is written down: as a statement, by the database that was the default then; as rows, by their own.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from innolab.base.errors import InnolabError
from innolab.loads import replicated
from innolab.loads.trial import Bench
from innolab.mysql import replication
from innolab.mysql.server import Server
from innolab.mysql.topology import Shape
from innolab.record.run import Observation
from innolab.studies.replication import spreading
from innolab.studies.study import Arm

SHARED, OWN = "common", "shop"
_LIMIT_S = 20.0


class Statement(NamedTuple):
    """A statement on the top, and the database that is the default on its connection.

    `{n}` stands for the number of the statement: each has tables of its own.
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
SHAPE = Shape(
    ("top", "web", "leaf"),
    {"web": "top", "leaf": "web"},
    writable=("web",),
    own={"web": {"replicate_do_db": SHARED}},
)


def pyramid(bench: Bench, _arm: Arm, asked: dict[str, Any]) -> Iterator[Observation]:
    """Load the top with writes that are none of web's; then try statements that cross databases.

    What is below is compared with what should be there.
    """
    with bench.topology(SHAPE, asked) as (raised, _):
        top, web, leaf = raised.servers.values()
        load = replace(spreading.warmed(bench, raised, SHARED), write_share=1.0)
        with bench.limited_nodes(SHAPE):
            window_s = spreading.WINDOW_S.of(bench.parameters)
            found = replicated.window(bench, raised, load, window_s, raised.replicas, schema=SHARED)
            yield {"write_share": 1.0, **found}
        with bench.clock.stage("warm-up"):
            for place, server in enumerate((top, web, leaf)):
                _prepare(server, own_rows=100 * (1 + bool(place)))
            web.query(f"INSERT INTO {SHARED}.t{len(STATEMENTS)} VALUES (60, 0)")
        # The last statement stops a replica, which complains.
        bench.note_error_logs([top, web, leaf])
        tried = []
        with bench.clock.stage("measured passes"):
            for number, statement in enumerate(STATEMENTS, 1):
                tried.append(_tried(top, web, number, statement))
                yield {"statement": number, **tried[-1]}
        _passed(web, leaf)
        whole = list(zip(STATEMENTS[:-1], tried, strict=False))
        yield {
            "wrong_rows": sum(not row["right"] for one, row in whole if not one.changes_tables),
            "wrong_tables": sum(not row["right"] for one, row in whole if one.changes_tables),
            "conflict_stops": tried[-1]["stopped"],
            "leaf_equal": int(_all(leaf) == _all(web)),
        }


def _prepare(server: Server, own_rows: int) -> None:
    """Make the tables on each server for itself: a service has rows of its own."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION sql_log_bin = 0")
        for schema, first in ((SHARED, 0), (OWN, own_rows)):
            cursor.execute(f"CREATE DATABASE IF NOT EXISTS {schema}")
            for number in range(1, len(STATEMENTS) + 1):
                cursor.execute(f"CREATE TABLE {schema}.t{number} (id INT PRIMARY KEY, v INT)")
                rows = ", ".join(f"({id_}, {first + id_})" for id_ in (1, 2, 3))
                cursor.execute(f"INSERT INTO {schema}.t{number} VALUES {rows}")


def _tried(top: Server, web: Server, number: int, statement: Statement) -> dict[str, int]:
    """Run one statement on the top and return what became of it on the server below.

    Right is what the filter promises: shared tables are as on the top, the service's own are as
    they were.
    """
    before = _tables(web, number)
    with top.connect(database=statement.default) as connection, connection.cursor() as cursor:
        cursor.execute(statement.sql.format(n=number))
    passed = _passed(top, web)
    after, above = _tables(web, number), _tables(top, number)
    right = after[SHARED] == above[SHARED] and after[OWN] == before[OWN]
    return {"changed": int(after != before), "stopped": int(not passed), "right": int(right)}


def _passed(top: Server, web: Server) -> bool:
    """Return whether the server below came past all that the top has; False where it stopped."""
    ids = replication.executed(top)
    deadline = time.monotonic() + _LIMIT_S
    while replication.missing(web, ids, replication.executed(web)):
        if not replication.status(web).applies:
            return False
        if time.monotonic() > deadline:
            raise InnolabError(f"The server below did not come to an end within {_LIMIT_S:g} s.")
        time.sleep(0.05)
    return True


def _all(server: Server) -> Mapping[str, int]:
    return replication.checksums(server, (SHARED, OWN))


def _tables(server: Server, number: int) -> dict[str, dict[str, int]]:
    """Return the checksums of a statement's own tables, by database and name."""
    sums = _all(server)
    names = (f"t{number}", f"new{number}")
    return {
        schema: {name: sums[at] for name in names if (at := f"{schema}.{name}") in sums}
        for schema in (SHARED, OWN)
    }
