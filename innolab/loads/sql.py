"""One timed SQL statement, with what it cost the server."""

import time
from typing import Any, NamedTuple

from mysql.connector import Error

from innolab.hosts import observe
from innolab.mysql.server import Server, ServerError


class Cost(NamedTuple):
    """What one statement took. Seconds are the client's wall time from send to last row."""

    seconds: float
    cpu_s: float
    kernel_cpu_s: float
    read_bytes: int
    pages_read: int
    pages_read_by_instance: list[int]


def timed(server: Server, sql: str) -> tuple[list[tuple[Any, ...]], Cost]:
    """Run a statement and return its rows and its cost.

    The connection is open before the clock starts; counters are read on it before and after.

    Raises
    ------
    ServerError
        Where the statement fails or the server dies.
    """
    try:
        with server.connect() as connection, connection.cursor() as cursor:
            pages, instances = _pages_read(cursor)
            before = observe.process_usage(server.host, server.pid)
            began = time.perf_counter()
            cursor.execute(sql)
            rows = list(cursor.fetchall())
            seconds = time.perf_counter() - began
            after = observe.process_usage(server.host, server.pid)
            pages_after, instances_after = _pages_read(cursor)
    except (Error, OSError) as error:
        raise server.failure(error) from None
    if len(instances) != len(instances_after):
        raise ServerError(
            f"The server told of {len(instances)} buffer pool instances before a statement and of "
            f"{len(instances_after)} after it, so what it read is not known."
        )
    return rows, Cost(
        seconds=seconds,
        cpu_s=after.cpu_s - before.cpu_s,
        kernel_cpu_s=after.kernel_cpu_s - before.kernel_cpu_s,
        read_bytes=after.read_bytes - before.read_bytes,
        pages_read=pages_after - pages,
        pages_read_by_instance=[b - a for a, b in zip(instances, instances_after, strict=True)],
    )


def _pages_read(cursor: Any) -> tuple[int, list[int]]:
    """Return the pages read into the pool since the start: in all, and by pool instance."""
    cursor.execute("SHOW GLOBAL STATUS LIKE 'Innodb_pages_read'")
    total = int(cursor.fetchall()[0][1])
    cursor.execute(
        "SELECT NUMBER_PAGES_READ FROM information_schema.INNODB_BUFFER_POOL_STATS ORDER BY POOL_ID"
    )
    return total, [int(row[0]) for row in cursor.fetchall()]
