"""A server that somebody else runs: how it is reached, and what its refusals mean."""

import getpass
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mysql.connector import Error, errorcode
from mysql.connector.errors import ReadTimeoutError, WriteTimeoutError

from innolab.base.errors import InnolabError, InputError
from innolab.base.quoting import one_line
from innolab.sizing import option_file
from innolab.sizing.safe_connection import SafeConnection

_NO_NUMBER = -1
# The numbers of errors that clients themselves find, as MySQL has them; all others are answers.
_CLIENTS_OWN = range(2000, 3000)
_DENIED = {
    errorcode.ER_SPECIFIC_ACCESS_DENIED_ERROR,
    errorcode.ER_TABLEACCESS_DENIED_ERROR,
    errorcode.ER_COLUMNACCESS_DENIED_ERROR,
    errorcode.ER_DBACCESS_DENIED_ERROR,
}


@dataclass(frozen=True)
class Target:
    """Where a server is; no password is in it, that stays in the option file.

    Attributes
    ----------
    socket : path of its unix socket
    defaults_file : an option file with a group [client], as the command-line client takes
    user : who asks; else as the option file says, else the user of this process
    silent_s : how long to wait for the server to let us in, and for each answer
    """

    socket: str | None = None
    defaults_file: str | None = None
    user: str | None = None
    silent_s: float = 20.0

    def check(self) -> None:
        """Raise InputError if the arguments cannot lead to a server."""
        if self.socket is None and self.defaults_file is None:
            raise InputError(
                "No server was named. Give --socket PATH, or --defaults-file FILE with a group "
                "[client] that names socket or host, user and password."
            )
        for path in (self.socket, self.defaults_file):
            if path is not None and not Path(path).exists():
                raise InputError(f"There is no {path}. Nothing was asked of any server.")

    def connect(self) -> Any:
        """Return a connection, autocommit.

        Raises
        ------
        InputError
            If the server cannot be reached, does not let the user in, or is none.
        """
        began = time.monotonic()
        try:
            return self.connect_raw()
        except InnolabError:
            raise
        # The connector makes errors of any kind of what does not keep to MySQL's protocol.
        except Exception as error:
            is_silent = time.monotonic() - began >= self.silent_s
            raise InputError(
                f"The server {self.socket or f'as {self.defaults_file} says'} could not be "
                f"reached: {self._why(error, is_silent=is_silent)} Nothing was changed."
            ) from None

    def _why(self, error: Exception, *, is_silent: bool) -> str:
        """Return why there is no connection, and what to do."""
        if getattr(error, "errno", None) == errorcode.ER_ACCESS_DENIED_ERROR:
            advice = (
                f"See user and password in {self.defaults_file}: a value that holds # is in "
                "quotes, a backslash in it is doubled, and groups other than "
                f"{', '.join(option_file.GROUPS)} are not read."
                if self.defaults_file
                else "Name a user with --user, and give the password in an option file: "
                "--defaults-file."
            )
            return f"{error_text(error)}. {advice}"
        if is_silent:
            return (
                f"it was silent, or did not let us in within {self.silent_s:g} s. Check that it is "
                "MySQL."
            )
        if not isinstance(error, Error | OSError):
            return "what it sent is not MySQL's protocol. Check that it is a MySQL server."
        return f"{error_text(error)}. Check that the server runs, and that this user may reach it."

    def connect_raw(self) -> Any:
        """Return a connection; raises as the connector does.

        The collation is named because the connector's own default is unknown to 5.6.
        """
        path = self.defaults_file
        options = option_file.read(Path(path)) if path else option_file.Options()
        socket = self.socket or options.socket
        return SafeConnection(
            options.tls,
            self.silent_s,
            **({"unix_socket": socket} if socket else {"host": options.host, "port": options.port}),
            user=self.user or options.user or getpass.getuser(),
            password=options.password,
            charset="utf8mb4",
            collation="utf8mb4_general_ci",
            autocommit=True,
            read_timeout=math.ceil(self.silent_s),
            write_timeout=math.ceil(self.silent_s),
        )


def error_text(error: Exception) -> str:
    """Return what an error says on one line: it may be what an unknown server said."""
    return one_line(str(getattr(error, "msg", None) or error)).rstrip(". ")


def is_answer(error: Exception) -> bool:
    """Return whether an error is what the server said, and no silence or broken connection."""
    if not isinstance(error, Error) or isinstance(error, ReadTimeoutError | WriteTimeoutError):
        return False
    return error.errno > 0 and error.errno not in _CLIENTS_OWN


@contextmanager
def answering() -> Iterator[None]:
    """Run the block, and raise what a failure of its statements, or of reading them, means.

    Raises
    ------
    InputError
        If the user has no right to what is asked for.
    InnolabError
        If the server is gone, or its answer makes no sense.
    """
    try:
        yield
    except InnolabError:
        raise
    except Error as error:
        raise refusal(error) from None
    # The connector makes errors of any kind of what does not keep to MySQL's protocol.
    except Exception:
        raise InnolabError(
            "What the server answered makes no sense: a counter that is missing or no number, or a "
            "packet that is not MySQL's. Check that it is a MySQL server."
        ) from None


def refusal(error: Error) -> InnolabError:
    """Return what a statement's failure means: a right that is missing, or a server that went."""
    if error.errno in _DENIED:
        return InputError(
            f"The server does not let this user read what is needed: {error_text(error)}. It takes "
            "GRANT PROCESS ON *.* and GRANT SELECT ON performance_schema.*; to see the sizes of "
            "tables, any right on them."
        )
    # The connector looks for the server before a statement, and does not say why it found none.
    if isinstance(error, ReadTimeoutError | WriteTimeoutError) or error.errno == _NO_NUMBER:
        return InnolabError(
            "The server stopped answering: its connection broke, or it was silent for too long. "
            "See its error log."
        )
    return InnolabError(
        f"The server stopped answering: {error_text(error)}. See its error log, and run the same "
        "command again."
    )
