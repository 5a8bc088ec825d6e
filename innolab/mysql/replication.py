"""Replication between servers, in the words of old and new ones: follow, wait, promote, compare.

All positions are sets of global transaction ids, which both eras have (since 5.6.5) and which name
a transaction alike on every server.
"""

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from innolab.base.errors import InnolabError
from innolab.mysql import builds, makers
from innolab.mysql.builds import Build
from innolab.mysql.server import Server, ServerError

PORT = 3306
# Reaches nobody: servers listen inside the namespaces of one topology alone. Without a password no
# key has to be exchanged, which servers since 8.0 want where there is no TLS.
USER = "innolab_replica"
# What a replica's thread is when it works.
_RUNS = "Yes"
# Of the applier's state, in both eras.
_READ_ALL = "has read all relay log"
_LOOK_S = 0.05
Format = Literal["ROW", "STATEMENT", "MIXED"]


@dataclass(frozen=True)
class Dialect:
    """What an era calls the two roles; the words around them are the same.

    Attributes
    ----------
    change : begins the statement that names a source
    source, replica : the roles in names of options and columns, as in `Seconds_Behind_Source`
    wait : the function that waits for a set of ids
    extra : further options of `change`
    """

    change: str
    source: str
    replica: str
    wait: str
    extra: tuple[str, ...] = ()

    @property
    def semi_sync(self) -> list[str]:
        """Return the files of the plugins of semi-synchronous replication."""
        return [f"semisync_{role.lower()}.so" for role in (self.source, self.replica)]


_OLD = Dialect("CHANGE MASTER TO", "MASTER", "SLAVE", "WAIT_UNTIL_SQL_THREAD_AFTER_GTIDS")
_NEW = Dialect(
    "CHANGE REPLICATION SOURCE TO",
    "SOURCE",
    "REPLICA",
    "WAIT_FOR_EXECUTED_GTID_SET",
    ("SOURCE_SSL = 0", "GET_SOURCE_PUBLIC_KEY = 1"),
)
_NEW_SINCE = (8, 0, 26)
# Which know the old words for the roles no more.
_OLD_UNTIL = (8, 4)
_GTID_SINCE = (5, 6, 5)


def why_impossible(build: Build) -> str | None:
    """Return why servers of a build cannot follow one another, or None if they can."""
    if makers.is_mariadb(build.version):
        return (
            "it is MariaDB, whose global transaction ids are not sets that a replica can wait for, "
            "and whose semi-synchronous replication has other settings; the study compares servers "
            "by MySQL's"
        )
    if _numbers(build) < _GTID_SINCE:
        return f"it is {build.version}, and there are global transaction ids since 5.6.5"
    return None


def dialect(build: Build) -> Dialect:
    """Return the words of a build."""
    return _NEW if _numbers(build) >= _NEW_SINCE else _OLD


def knows_old_words(build: Build) -> bool:
    """Return whether a build still answers SHOW SLAVE STATUS and its like."""
    return _numbers(build) < _OLD_UNTIL


def _numbers(build: Build) -> tuple[int, ...]:
    return tuple(int(part) for part in build.version.split("-")[0].split("."))


def settings(build: Build, number: int, *, with_semi_sync: bool) -> dict[str, Any]:
    """Return what each server of a topology needs, whatever its role: roles change.

    Parameters
    ----------
    number : its own, from 1
    with_semi_sync : whether to load its plugins, which all arms have, on or off
    """
    words = dialect(build)
    return {
        "skip_networking": "OFF",
        # Of its node alone, which may get another address later.
        "bind_address": "*",
        "port": PORT,
        "server_id": number,
        "log_bin": "binlog",
        f"log_{words.replica.lower()}_updates": "ON",
        "gtid_mode": "ON",
        "enforce_gtid_consistency": "ON",
        "relay_log": "relay",
        # Or a killed replica of the old era resumes where it was a moment ago.
        "relay_log_recovery": "ON",
        # Seconds, after which a replica asks a silent source again: an hour by default before 5.7.
        "loose_slave_net_timeout": 4,
        "loose_replica_net_timeout": 4,
        "loose_master_info_repository": "TABLE",
        "loose_relay_log_info_repository": "TABLE",
        **(_semi_sync_plugins(build) if with_semi_sync else {}),
    }


def has_semi_sync(build: Build) -> bool:
    """Return whether a build came with the plugins of semi-synchronous replication."""
    folder = builds.plugin_folder(build)
    return folder is not None and all((folder / n).exists() for n in dialect(build).semi_sync)


def _semi_sync_plugins(build: Build) -> dict[str, str]:
    where = {"plugin_dir": build.plugins} if build.plugins else {}
    return {**where, "loose_plugin_load_add": ";".join(dialect(build).semi_sync)}


def semi_sync(*, on: bool, timeout_ms: int = 10_000, wait_for: int = 1) -> dict[str, Any]:
    """Return the variables of semi-synchronous replication, in the words of both eras.

    A commit waits until `wait_for` replicas have it (always 1 before 5.7.3), before others see it
    where the server can (AFTER_SYNC, since 5.7.2); after `timeout_ms` it waits no longer, and later
    ones do not until a replica has caught up.
    """
    wanted = {
        "{source}_enabled": "ON" if on else "OFF",
        "{replica}_enabled": "ON" if on else "OFF",
        "{source}_timeout": timeout_ms,
        "{source}_wait_for_{replica}_count": wait_for,
        "{source}_wait_point": "AFTER_SYNC",
    }
    return {
        f"loose_rpl_semi_sync_{name.format(source=source, replica=replica)}": value
        for name, value in wanted.items()
        for source, replica in (("master", "slave"), ("source", "replica"))
    }


def semi_sync_clients(source: Server) -> int:
    """Return how many replicas a source's commits wait for now; 0 if it has no semi-sync on."""
    role = dialect(source.build).source.lower()
    found = source.status()
    on = found.get(f"Rpl_semi_sync_{role}_status") == "ON"
    return int(found[f"Rpl_semi_sync_{role}_clients"]) if on else 0


def appliers(number: int) -> dict[str, Any]:
    """Return the variables of the threads that apply what a replica has received."""
    return {f"loose_{role}_parallel_workers": number for role in ("slave", "replica")}


def admit(server: Server, user: str = USER, rights: str = "REPLICATION SLAVE") -> None:
    """Make an account without a password, such as that by which replicas read a source's log."""
    # Not in the log: each server has it from its own data, and no transaction is errant.
    _together(
        server,
        "SET SESSION sql_log_bin = 0",
        f"CREATE USER '{user}'@'%'",
        f"GRANT {rights} ON *.* TO '{user}'@'%'",
    )


def follow(replica: Server, address: str) -> None:
    """Let a server follow the one at an address, from where its own transactions end.

    Raises
    ------
    ServerError
        If it refuses.
    """
    words = dialect(replica.build)
    options = [
        f"{words.source}_HOST = '{address}'",
        f"{words.source}_PORT = {PORT}",
        f"{words.source}_USER = '{USER}'",
        f"{words.source}_PASSWORD = ''",
        f"{words.source}_AUTO_POSITION = 1",
        # Whole seconds; a source that was away is asked again at once.
        f"{words.source}_CONNECT_RETRY = 1",
        *words.extra,
    ]
    _together(replica, f"{words.change} {', '.join(options)}", f"START {words.replica}")


def follow_instead(replica: Server, address: str) -> None:
    """Let a replica follow another source, from where its own transactions end."""
    replica.query(f"STOP {dialect(replica.build).replica}")
    follow(replica, address)


@dataclass(frozen=True)
class Status:
    """What a replica says of itself.

    Attributes
    ----------
    receives, applies : whether its two threads work
    behind_s : its own word for how far it is behind; None if it cannot say
    received, applied : sets of global transaction ids
    has_read_all : whether the applier waits for more than is in the relay log
    error : what stopped it; empty if nothing did
    """

    receives: bool
    applies: bool
    behind_s: int | None
    received: str
    applied: str
    has_read_all: bool
    error: str


def status(replica: Server) -> Status:
    """Return a replica's status.

    Raises
    ------
    InnolabError
        If the server follows nobody.
    """
    words = dialect(replica.build)
    role, source = words.replica.capitalize(), words.source.capitalize()
    with replica.cursor(dictionary=True) as cursor:
        cursor.execute(f"SHOW {words.replica} STATUS")
        rows = cursor.fetchall()
    if not rows:
        raise InnolabError(f"{replica.build.id} follows no source.")
    [row] = rows
    return Status(
        receives=row[f"{role}_IO_Running"] == _RUNS,
        applies=row[f"{role}_SQL_Running"] == _RUNS,
        behind_s=row[f"Seconds_Behind_{source}"],
        received=_one_line(row["Retrieved_Gtid_Set"]),
        applied=_one_line(row["Executed_Gtid_Set"]),
        has_read_all=_READ_ALL in row[f"{role}_SQL_Running_State"],
        error=row["Last_SQL_Error"] or row["Last_IO_Error"],
    )


def executed(server: Server) -> str:
    """Return the ids of all transactions that a server has."""
    [(ids,)] = server.query("SELECT @@GLOBAL.gtid_executed")
    return _one_line(ids)


def count(ids: str) -> int:
    """Return how many transactions a set of ids names.

    >>> count("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:7,4e11fa47-71ca-11e1-9e33-c80aa9429562:1")
    7
    """
    total = 0
    for of_server in filter(None, ids.split(",")):
        # Since 8.3 an id may have a tag, which is not a span.
        for span in (part for part in of_server.split(":")[1:] if part[0].isdigit()):
            first, _, last = span.partition("-")
            total += int(last or first) - int(first) + 1
    return total


def missing(server: Server, ids: str, present: str) -> str:
    """Return the ids of a set that are not in another, as a server computes it."""
    [(rest,)] = server.query(f"SELECT GTID_SUBTRACT('{ids}', '{present}')")
    return _one_line(rest)


def wait_for(replica: Server, ids: str, limit_s: float) -> bool:
    """Wait until a server has applied all of a set; return whether it has within the limit.

    Raises
    ------
    ServerError
        If its applier is not running, so that it would wait indefinitely.
    """
    words = dialect(replica.build)
    [(answer,)] = replica.query(f"SELECT {words.wait}('{ids}', {max(1, round(limit_s))})")
    if answer is None:
        raise ServerError(f"{replica.build.id} applies nothing: {status(replica).error}")
    # Old servers say how many they applied, and -1 if time was up; new ones 0 and 1.
    return bool(int(answer) >= 0) if words is _OLD else int(answer) == 0


def promote(replica: Server, limit_s: float) -> None:
    """Make a replica a source: apply all that it has received, follow nobody, take writes.

    A transaction of which only a part was received is never applied.

    Raises
    ------
    InnolabError
        If it does not come to the end of what it has received.
    """
    words = dialect(replica.build)
    replica.query(f"STOP {words.replica} IO_THREAD")
    if not _has_applied_all(replica, limit_s):
        raise InnolabError(
            f"{replica.build.id} has not applied within {limit_s:g} s what it had received, so it "
            f"was not made a source: transactions would be lost. {status(replica).error}".strip()
        )
    # First, so that clients need not wait: parallel appliers wait a minute for the rest of a
    # transaction, which nobody will send, before they stop.
    _together(
        replica,
        "SET GLOBAL read_only = OFF",
        f"STOP {words.replica}",
        f"RESET {words.replica} ALL",
    )


def _has_applied_all(replica: Server, limit_s: float) -> bool:
    """Wait until a replica that receives nothing more has applied all; return whether it has."""
    if dialect(replica.build) is _NEW:
        received = status(replica).received
        return not received or wait_for(replica, received, limit_s)
    # Old ones count the part of a transaction among the ids that they received: waiting for those
    # would not end.
    deadline = time.monotonic() + limit_s
    while not (now := status(replica)).has_read_all:
        if not now.applies or time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_S)
    return True


def checksums(server: Server, schemas: Collection[str] = ()) -> Mapping[str, int]:
    """Return a checksum of the rows of each table of ours, by `schema.table`.

    Parameters
    ----------
    schemas : the databases to look at; all that are not the server's own if empty
    """
    tables = server.query(
        "SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema NOT IN "
        "('mysql', 'sys', 'information_schema', 'performance_schema') ORDER BY 1, 2"
    )
    names = [f"`{schema}`.`{name}`" for schema, name in tables if not schemas or schema in schemas]
    rows = server.query(f"CHECKSUM TABLE {', '.join(names)}") if names else []
    return {str(name): int(value) for name, value in rows}


def _together(server: Server, *statements: str) -> None:
    """Run statements on one connection, which some settings last for."""
    with server.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def _one_line(ids: Any) -> str:
    """Return a set of ids without the line breaks that servers put into it."""
    return str(ids or "").replace("\n", "")
