"""One timed SQL statement, with what it cost the server."""

from typing import Any, NamedTuple

from innolab.mysql.server import Server, ServerError
from innolab.record.series import Sampler


class Cost(NamedTuple):
    """What one statement took. Seconds are the client's wall time from send to last row."""

    seconds: float
    cpu_s: float
    kernel_cpu_s: float
    read_bytes: int
    pages_read: int
    pages_read_by_instance: list[int]

    def metrics(self) -> dict[str, float]:
        """Return the cost but for the pages of each instance."""
        return {
            name: value for name, value in self._asdict().items() if not isinstance(value, list)
        }


class Timed(NamedTuple):
    """The rows of a statement, its cost, and when it ran.

    `at` is on the clock of the samples: the sample before it, its beginning and end, the sample
    after it.
    """

    rows: list[tuple[Any, ...]]
    cost: Cost
    at: dict[str, float]


def timed(server: Server, sql: str, sampler: Sampler | None = None) -> Timed:
    """Run a statement and return its rows and its cost.

    The connection is open before the clock starts; counters are read on it before and after.

    Parameters
    ----------
    sampler : takes the samples around the statement, whose differences its cost is

    Raises
    ------
    ServerError
        Where the statement fails or the server dies.
    """
    from mysql.connector import Error

    sampler = sampler or Sampler(server.host, server.pid)
    try:
        with server.connect() as connection, connection.cursor() as cursor:
            pages, instances = _pages_read(cursor)
            before = sampler.take()
            from_s = sampler.now_s()
            cursor.execute(sql)
            rows = list(cursor.fetchall())
            to_s = sampler.now_s()
            after = sampler.take()
            pages_after, instances_after = _pages_read(cursor)
    except (Error, OSError) as error:
        raise server.failure(error) from None
    if len(instances) != len(instances_after):
        raise ServerError(
            f"The server told of {len(instances)} buffer pool instances before a statement and of "
            f"{len(instances_after)} after it, so what it read is not known."
        )
    cost = Cost(
        seconds=to_s - from_s,
        cpu_s=after["mysqld_cpu_s"] - before["mysqld_cpu_s"],
        kernel_cpu_s=after["mysqld_kernel_cpu_s"] - before["mysqld_kernel_cpu_s"],
        read_bytes=int(after["mysqld_read_bytes"] - before["mysqld_read_bytes"]),
        pages_read=pages_after - pages,
        pages_read_by_instance=[b - a for a, b in zip(instances, instances_after, strict=True)],
    )
    at = {"before_s": before["t_s"], "from_s": from_s, "to_s": to_s, "after_s": after["t_s"]}
    return Timed(rows, cost, at)


def _pages_read(cursor: Any) -> tuple[int, list[int]]:
    """Return the pages read into the pool since the start: in all, and by pool instance."""
    cursor.execute("SHOW GLOBAL STATUS LIKE 'Innodb_pages_read'")
    total = int(cursor.fetchall()[0][1])
    cursor.execute(
        "SELECT NUMBER_PAGES_READ FROM information_schema.INNODB_BUFFER_POOL_STATS ORDER BY POOL_ID"
    )
    return total, [int(row[0]) for row in cursor.fetchall()]
