"""One running mysqld: its settings, start, readiness, values, stop and death."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from innolab.base.errors import InnolabError, InputError
from innolab.hosts import machine
from innolab.hosts.base import Host
from innolab.hosts.daemon import Daemon, complaints
from innolab.hosts.local import HERE
from innolab.mysql import builds, makers
from innolab.mysql.builds import Build

START_LIMIT_S = 300
STOP_LIMIT_S = 300
_SOCKET = "mysql.sock"
_SYSTEM_TABLES = ("mysql_system_tables.sql", "mysql_system_tables_data.sql")
# Of the 108 bytes of a unix socket's path (unix(7)) one is its end.
_SOCKET_PATH_LIMIT = 107

Settings = Mapping[str, str | int]


class ServerError(InnolabError):
    """The server did not start, died, or did not stop; the message quotes its error log."""


def require_short_path(folder: Path) -> None:
    """Raise InputError where a server's socket in this folder would have too long a path."""
    if len(os.fsencode(folder / _SOCKET)) > _SOCKET_PATH_LIMIT:
        raise InputError(
            f"The path {folder / _SOCKET} is longer than a unix socket's may be. Move the cache to "
            "a shorter path with INNOLAB_CACHE."
        )


class Server:
    """One mysqld on one data directory; a context manager that starts and stops it.

    Parameters
    ----------
    build : Build
    data : Path
        The data directory, owned by the servers' user.
    folder : Path
        A folder of its own for settings, socket and error log; made again, mode 0700.
    base : Path
        The host's my.cnf, as the playbook left it.
    settings : mapping of server variable to value
        What this start adds to the base, by MySQL's names. One that the server does not know stops
        the start.
    cgroup : Path or None
        The control group that the server starts in, which may limit its block I/O.
    host : Host
        Where it runs; all paths are that host's.

    Attributes
    ----------
    processor : str or None
        The one that it and its local loads run on, None for all that the host gives them.
    """

    def __init__(
        self,
        build: Build,
        data: Path,
        folder: Path,
        base: Path,
        settings: Settings,
        cgroup: Path | None = None,
        host: Host = HERE,
    ) -> None:
        self.build = build
        self.data = data
        self.folder = folder
        self.base = base
        self.settings = makers.settings(build.version, settings)
        self.cgroup = cgroup
        self.host = host
        self.processor: str | None = None
        self._reached: Path | None = None
        self._daemon: Daemon | None = None

    @property
    def pid(self) -> int:
        """Return the process id of the running mysqld."""
        if self._daemon is None:
            raise ServerError(f"{self.build.id} is not running.")
        return self._daemon.pid

    @property
    def is_running(self) -> bool:
        """Return whether it has been started and has not ended."""
        return self._daemon is not None and self._daemon.poll() is None

    @property
    def socket(self) -> Path:
        """Return the path of the private unix socket on its host."""
        return self.folder / _SOCKET

    @property
    def error_log(self) -> str:
        """Return the whole error log of this start."""
        [text] = self.host.peek(self.folder / "error.log")
        return text or ""

    def __enter__(self) -> "Server":
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.stop()
        else:
            self.kill()

    def start(self) -> None:
        """Start mysqld and return once it answers a query; errors as of `wait_until_ready`."""
        self.launch()
        self.wait_until_ready()

    def launch(self) -> None:
        """Start mysqld and return at once, so that others can start."""
        require_short_path(self.folder)
        self.host.fresh_folder(self.folder)
        self._write_settings()
        self._reached = self.host.reach(self.socket)
        self._daemon = Daemon(
            self.build.id,
            self.host,
            [*self.build.mysqld, f"--defaults-file={self.folder}/my.cnf"],
            self.folder / "error.log",
            env=self.build.env,
            unprivileged=True,
            cgroup=self.cgroup,
            error=ServerError,
        )

    def _write_settings(self) -> None:
        own: dict[str, str | int] = {
            "datadir": str(self.data),
            "socket": str(self.socket),
            "pid_file": str(self.folder / "mysqld.pid"),
            "tmpdir": str(self.folder),
        }
        if self.build.share:
            own["lc_messages_dir"] = self.build.share
        lines = [f"{name}={value}" for name, value in {**own, **self.settings}.items()]
        text = f"!include {self.base}\n[mysqld]\n" + "\n".join(lines) + "\n"
        self.host.write(self.folder / "my.cnf", text)

    def wait_until_ready(self) -> None:
        """Return once it answers a query.

        Raises
        ------
        ServerError
            If it dies first or does not answer within START_LIMIT_S.
        """
        if self._daemon is None:
            raise ServerError(f"{self.build.id} is not running.")
        self._daemon.await_ready(self._answers, START_LIMIT_S)

    def _answers(self) -> bool:
        from mysql.connector import Error

        try:
            with self.connect() as connection:
                connection.cmd_query("SELECT 1")
                connection.get_rows()
        except Error:
            return False
        return True

    def connect(self, **options: Any) -> Any:
        """Return a connection of the pure-Python connector over the private socket, autocommit.

        The collation is named because the connector's own default is unknown to 5.6.
        """
        import mysql.connector

        return mysql.connector.connect(
            unix_socket=str(self._reached or self.socket),
            user="root",
            password="",
            use_pure=True,
            ssl_disabled=True,
            charset="utf8mb4",
            collation="utf8mb4_general_ci",
            autocommit=True,
            **options,
        )

    @contextlib.contextmanager
    def cursor(self, **options: Any) -> Iterator[Any]:
        """Run the block with a cursor on a new connection.

        Raises
        ------
        ServerError
            If the server refuses a statement or dies; quotes the error log in the latter case.
        """
        from mysql.connector import Error

        try:
            with self.connect() as connection, connection.cursor(**options) as cursor:
                yield cursor
        except Error as error:
            raise self.failure(error) from None

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of one statement on a new connection; errors as of `cursor`."""
        with self.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall()) if cursor.with_rows else []

    def explain(self, sql: str) -> dict[str, Any]:
        """Return how the server means to reach the first table of a statement: type, key, extra.

        The format is named because 9.x prints a tree by default.
        """
        with self.cursor(dictionary=True) as cursor:
            cursor.execute(f"EXPLAIN FORMAT=TRADITIONAL {sql}")
            row = cursor.fetchall()[0]
        return {"type": row["type"], "key": row["key"], "extra": row["Extra"] or ""}

    def failure(self, error: Exception) -> InnolabError:
        """Return the error to raise for a failed statement: the server's last words if it died."""
        return self.death() or ServerError(f"{self.build.id} refused a statement: {error}")

    def death(self) -> InnolabError | None:
        """Return the error to raise if the server has died, with its last words, else None."""
        if self._daemon is None or not self._daemon.has_died():
            return None
        status = self._daemon.poll()
        return self._daemon.failure(f"died while it was working (exit status {status})")

    def variables(self) -> dict[str, str]:
        """Return all global variables as the server has them now."""
        return {str(name): str(value) for name, value in self.query("SHOW GLOBAL VARIABLES")}

    def status(self) -> dict[str, str]:
        """Return all global status counters."""
        return {str(name): str(value) for name, value in self.query("SHOW GLOBAL STATUS")}

    def stop(self) -> None:
        """Shut down cleanly and return when the process has ended.

        Raises
        ------
        ServerError
            If it ended with an error status, or had to be killed after STOP_LIMIT_S.
        """
        if self._daemon is None:
            return
        daemon, self._daemon = self._daemon, None
        status = daemon.stop(STOP_LIMIT_S)
        if status is None:
            raise daemon.failure(f"did not stop within {STOP_LIMIT_S} s and was killed")
        if status != 0:
            raise daemon.failure(f"ended with status {status} when asked to stop")

    @contextlib.contextmanager
    def on_one_processor(self) -> Iterator[None]:
        """Run the block with the server, and loads that start on its host, on the last processor.

        Raises
        ------
        InnolabError
            If the host does not keep it there.
        """
        every = self.host.processors(self.pid)
        self.processor = every.replace("-", ",").rpartition(",")[2]
        self.host.keep_on(self.pid, self.processor)
        try:
            yield
        finally:
            self.processor = None
            if self.is_running:
                self.host.keep_on(self.pid, every)

    def signal(self, name: str) -> None:
        """Send the process a signal, named as in STOP."""
        words = ["sh", "-c", 'kill -s "$0" "$1"', name, str(self.pid)]
        self.host.must(words, what=f"Sending {name} to a server")

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Run the block while the process, with all its threads, does nothing."""
        self.signal("STOP")
        try:
            yield
        finally:
            self.signal("CONT")

    def kill(self) -> None:
        """End the process at once; the data directory may need recovery afterwards."""
        if self._daemon is not None:
            self._daemon.kill()
            self._daemon = None


def initialize(build: Build, data: Path, base: Path, made_with: Settings | None = None) -> None:
    """Make an empty data directory with system tables and a root account without a password.

    The socket's folder, mode 0700, is what keeps others out.

    Parameters
    ----------
    made_with : variables that the directory is made with, such as its page size

    Raises
    ------
    ServerError
        If mysqld cannot; quotes its words.
    """
    data.mkdir(parents=True)
    script, options = None, ["--initialize-insecure"]
    if build.init == "system-tables":
        (data / "mysql").mkdir()
        script, options = _system_tables_sql(build), ["--bootstrap"]
    machine.give_to_server(data)
    if build.share:
        options.append(f"--lc-messages-dir={build.share}")
    options += [f"--{name}={value}" for name, value in (made_with or {}).items()]
    mysqld = [*build.mysqld, f"--defaults-file={base}", f"--datadir={data}", *options]
    done = HERE.run([*HERE.unprivileged(), *mysqld], env=build.env, stdin=script)
    if done.status:
        raise ServerError(
            f"{build.id} could not initialize {data}: {complaints(done.stderr)}. Settings of all "
            f"servers are in {base}."
        )


def _system_tables_sql(build: Build) -> str:
    share = builds.share_folder(build)
    try:
        texts = [(share / name).read_text() for name in _SYSTEM_TABLES] if share else []
    except OSError:
        texts = []
    if not texts:
        raise ServerError(
            f"{build.id} makes its system tables by {' and '.join(_SYSTEM_TABLES)}, which are not "
            f"in {share or 'a folder that it names'}. Install all of its package."
        )
    return "use mysql;\n" + "".join(texts)


def base_settings_file(cache: Path) -> Path:
    """Return the host's base my.cnf, which the playbook leaves in the cache folder."""
    return cache / "etc" / "my.cnf"


def base_settings(text: str) -> dict[str, str]:
    """Return the settings of a my.cnf of one section, names with underscores, bare names ON."""
    settings = {}
    for line in text.splitlines():
        text = line.split("#")[0].strip()
        if text and not text.startswith("["):
            name, _, value = text.partition("=")
            settings[name.strip().replace("-", "_")] = value.strip() or "ON"
    if settings.pop("skip_log_bin", None):
        settings["log_bin"] = "OFF"  # The option of that name sets this variable.
    return settings
