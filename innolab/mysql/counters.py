"""InnoDB's own counters of one server, read on a connection that stays open.

Where MariaDB does not have a counter of MySQL's, what it has instead is read off its answer.
"""

from innolab.mysql.server import Server

_STATUS = {
    "Com_commit": "transactions",
    "Com_select": "selects",
    "Innodb_pages_read": "pages_read",
    "Innodb_pages_written": "pages_written",
    "Innodb_os_log_written": "redo_bytes",
    "Innodb_data_fsyncs": "fsyncs",
    "Innodb_buffer_pool_pages_dirty": "dirty_pages",
    "Innodb_buffer_pool_pages_free": "free_pages",
    "Innodb_buffer_pool_wait_free": "free_page_waits",
    "Innodb_buffer_pool_pages_total": "total_pages",
}
_ROWS = "Innodb_rows_inserted"
# MariaDB counts the rows that any table was given: those of a partitioned one twice, as the table
# and its partition are asked for each.
_ROWS_TWICE = "Handler_write"
# MariaDB's, whose table of metrics is another.
_AGE = "Innodb_checkpoint_age"
_SQL = "SHOW GLOBAL STATUS WHERE Variable_name IN ({})".format(
    ",".join(f"'{name}'" for name in (*_STATUS, _ROWS, _ROWS_TWICE, _AGE))
)
# Off by default; a MySQL server that is to be asked has it in `innodb_monitor_enable`.
CHECKPOINT_AGE = "log_lsn_checkpoint_age"
_AGE_SQL = (
    f"SELECT COUNT FROM information_schema.INNODB_METRICS WHERE NAME = '{CHECKPOINT_AGE}' "
    "AND STATUS = 'enabled'"
)


class Counters:
    """Reads the counters of a running server; a context manager that holds the connection."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def __enter__(self) -> "Counters":
        from mysql.connector import Error

        try:
            self._connection = self._server.connect()
        except Error as error:
            raise self._server.failure(error) from None
        self._cursor = self._connection.cursor()
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def read(self) -> dict[str, float]:
        """Return the values now: since the start, but for `_pages` of the pool and the age.

        `rows` are those of partitioned tables, where the server is MariaDB.

        Raises
        ------
        ServerError
            If the server is gone, or does not count the age of its checkpoint.
        """
        from mysql.connector import Error

        try:
            self._cursor.execute(_SQL)
            found = {name: float(value) for name, value in self._cursor.fetchall()}
            age = found[_AGE] if _AGE in found else self._age()
        except (Error, ValueError) as error:
            raise self._server.failure(error) from None
        return {
            **{counter: found[name] for name, counter in _STATUS.items()},
            "rows": found[_ROWS] if _ROWS in found else found[_ROWS_TWICE] / 2,
            "checkpoint_age_bytes": age,
        }

    def _age(self) -> float:
        self._cursor.execute(_AGE_SQL)
        [(age,)] = self._cursor.fetchall()
        return float(age)
