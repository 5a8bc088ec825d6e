"""A server that somebody else runs: how it is reached, and what its refusals mean."""

import configparser
import getpass
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mysql.connector import Error, connect, errorcode
from mysql.connector.errors import ReadTimeoutError, WriteTimeoutError

from innolab.base.errors import InnolabError, InputError

# How long to wait for a connection, and for an answer: a server that hangs sends neither.
_WAIT_S, _ANSWER_S = 10, 30
_NO_NUMBER = -1
# The numbers of errors that clients themselves find, as MySQL has them; all others are answers.
_CLIENTS_OWN = range(2000, 3000)
# Of option files those that the command-line client reads too.
_GROUPS = ["client", "mysql"]
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
    defaults_file : an option file with a section [client], as the command-line client takes
    user : who asks; else as the option file says, else the user of this process
    """

    socket: str | None = None
    defaults_file: str | None = None
    user: str | None = None

    def check(self) -> None:
        """Raise InputError where what was given cannot lead to a server."""
        if self.socket is None and self.defaults_file is None:
            raise InputError(
                "No server was named. Give --socket PATH, or --defaults-file FILE with a section "
                "[client] that names socket or host, user and password."
            )
        for path in (self.socket, self.defaults_file):
            if path is not None and not Path(path).exists():
                raise InputError(f"There is no {path}. Nothing was asked of any server.")

    def connect(self, answer_s: int = _ANSWER_S) -> Any:
        """Return a connection, autocommit.

        Parameters
        ----------
        answer_s : how long to wait for an answer

        Raises
        ------
        InputError
            Where the server cannot be reached or does not let the user in.
        """
        try:
            return self.connect_anew(answer_s)
        except (configparser.Error, UnicodeError):
            # Its words quote the line, in which a password may stand.
            raise InputError(
                f"{self.defaults_file} is no option file: its lines, NAME=VALUE, stand below "
                "[client]. Nothing was asked of any server."
            ) from None
        except (Error, ValueError, AttributeError, OSError) as error:
            where = self.socket or f"as {self.defaults_file} says"
            denied = getattr(error, "errno", None) == errorcode.ER_ACCESS_DENIED_ERROR
            advice = (
                "Name a user with --user, and give the password in an option file: --defaults-file."
                if denied
                else "See that the server runs, and that this user may open its socket."
            )
            raise InputError(
                f"The server {where} could not be reached: {_words(error)}. {advice} Nothing was "
                "changed."
            ) from None

    def connect_anew(self, answer_s: int = _ANSWER_S) -> Any:
        """Return a connection; raises as the connector does.

        The collation is named because the connector's own default is unknown to 5.6.
        """
        options: dict[str, Any] = {}
        if self.defaults_file is not None:
            options |= {"option_files": [self.defaults_file], "option_groups": _GROUPS}
        if self.socket is not None:
            options |= {"unix_socket": self.socket, "ssl_disabled": True}
        if self.user is not None:
            options["user"] = self.user
        elif self.defaults_file is None:
            options["user"] = getpass.getuser()
        return connect(
            **options,
            use_pure=True,
            charset="utf8mb4",
            collation="utf8mb4_general_ci",
            autocommit=True,
            connection_timeout=_WAIT_S,
            read_timeout=answer_s,
            write_timeout=answer_s,
        )


def _words(error: Exception) -> str:
    return str(getattr(error, "msg", None) or error).rstrip(". ")


def is_answer(error: Exception) -> bool:
    """Return whether an error is what the server said, and no silence or broken connection."""
    if not isinstance(error, Error) or isinstance(error, ReadTimeoutError | WriteTimeoutError):
        return False
    return error.errno > 0 and error.errno not in _CLIENTS_OWN


def refusal(error: Error) -> InnolabError:
    """Return what a statement's failure means: a right that is missing, or a server that went."""
    if error.errno in _DENIED:
        return InputError(
            f"The server does not let this user read what is needed: {_words(error)}. It takes "
            "GRANT PROCESS ON *.* and GRANT SELECT ON performance_schema.*; to see the sizes of "
            "tables, any right on them."
        )
    if isinstance(error, ReadTimeoutError | WriteTimeoutError):
        return InnolabError("The server stopped answering: it was silent for too long.")
    # The connector looks for the server before a statement, and does not say why it found none.
    if error.errno == _NO_NUMBER:
        return InnolabError(
            "The server stopped answering: its connection broke, or it was silent for too long. "
            "See its error log."
        )
    return InnolabError(
        f"The server stopped answering: {_words(error)}. See its error log, and run the same "
        "command again."
    )
