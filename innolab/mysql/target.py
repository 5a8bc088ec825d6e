"""A server that somebody else runs: how it is reached, and what its refusals mean."""

import getpass
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mysql.connector import Error, connect, errorcode

from innolab.base.errors import InnolabError, InputError

_WAIT_S = 10
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

    def connect(self) -> Any:
        """Return a connection, autocommit.

        Raises
        ------
        InputError
            Where the server cannot be reached or does not let the user in.
        """
        try:
            return self.connect_anew()
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

    def connect_anew(self) -> Any:
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
        )


def _words(error: Exception) -> str:
    return str(getattr(error, "msg", None) or error).rstrip(". ")


def refusal(error: Error) -> InnolabError:
    """Return what a statement's failure means: a right that is missing, or a server that went."""
    if error.errno in _DENIED:
        return InputError(
            f"The server does not let this user read what is needed: {_words(error)}. It takes "
            "GRANT PROCESS ON *.* and GRANT SELECT ON performance_schema.*; to see the sizes of "
            "tables, any right on them. Nothing was changed."
        )
    return InnolabError(
        f"The server stopped answering: {_words(error)}. Nothing that was asked of it changes "
        "anything; see its error log, and run the same command again."
    )
