"""Statements on a source whose replica applies one database alone: what each does below.

Both have the same tables: those of the database that all share, and of one that the replica keeps
for itself, with rows of its own.
"""

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from innolab.base.errors import InnolabError
from innolab.mysql import replication
from innolab.mysql.server import Server

SHARED, OWN = "common", "shop"
_LIMIT_S = 20.0


# The checksums of a statement's own tables on a server, by database and name.
Tables = Mapping[str, Mapping[str, int]]


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


class Statement(NamedTuple):
    """A statement on the source, and the database that is the default on its connection.

    `{n}` stands for the number of the statement: each has tables of its own.
    """

    default: str
    sql: str
    changes_tables: bool = False


def prepare(source: Server, below: Sequence[Server], statements: int) -> None:
    """Make the tables of some statements on each server for itself, none of them in its log."""
    for server in (source, *below):
        first = 100 if server is source else 200
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION sql_log_bin = 0")
            for schema, added in ((SHARED, 0), (OWN, first)):
                cursor.execute(f"CREATE DATABASE IF NOT EXISTS {schema}")
                for number in range(1, statements + 1):
                    cursor.execute(f"CREATE TABLE {schema}.t{number} (id INT PRIMARY KEY, v INT)")
                    rows = ", ".join(f"({id_}, {added + id_})" for id_ in (1, 2, 3))
                    cursor.execute(f"INSERT INTO {schema}.t{number} VALUES {rows}")


def tried(source: Server, below: Server, number: int, statement: Statement) -> Tried:
    """Run one statement on the source and return what became of it below."""
    before = _tables(below, number)
    with source.connect(database=statement.default) as connection, connection.cursor() as cursor:
        cursor.execute(statement.sql.format(n=number))
    is_through = passed(source, below)
    return Tried(before, _tables(below, number), _tables(source, number), is_through)


def summed(statements: Sequence[Statement], found: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Return how many statements that change rows, or tables, did what they should not."""
    wrong = [one.changes_tables for one, row in zip(statements, found, strict=True)
             if not row["right"]]  # fmt: skip
    return {"wrong_rows": wrong.count(False), "wrong_tables": wrong.count(True)}


def passed(source: Server, below: Server) -> bool:
    """Return whether a replica came past all that its source has; False where it stopped.

    Raises
    ------
    InnolabError
        Where it neither stops nor comes to an end.
    """
    ids = replication.executed(source)
    deadline = time.monotonic() + _LIMIT_S
    while replication.missing(below, ids, replication.executed(below)):
        if not replication.status(below).applies:
            return False
        if time.monotonic() > deadline:
            raise InnolabError(f"The server below did not come to an end within {_LIMIT_S:g} s.")
        time.sleep(0.05)
    return True


def checksums(server: Server) -> Mapping[str, int]:
    """Return the checksum of each table of both databases."""
    return replication.checksums(server, (SHARED, OWN))


def _tables(server: Server, number: int) -> Tables:
    sums = checksums(server)
    names = (f"t{number}", f"new{number}")
    return {
        schema: {name: sums[at] for name in names if (at := f"{schema}.{name}") in sums}
        for schema in (SHARED, OWN)
    }
