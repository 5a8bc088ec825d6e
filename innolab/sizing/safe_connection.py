"""A connection to a server that may be an impostor: it gets no password to read.

Some methods of authentication hand the password over as it is. They are used only if the other end
is known: a unix socket, or a certificate that was verified.
"""

import ssl
import threading
from typing import Any

from mysql.connector.authentication import MySQLAuthenticator
from mysql.connector.connection import MySQLConnection
from mysql.connector.plugins.caching_sha2_password import MySQLCachingSHA2PasswordAuthPlugin
from mysql.connector.protocol import MySQLProtocol

from innolab.base.errors import InputError
from innolab.base.quoting import shown
from innolab.sizing.option_file import Tls

_HASHED, _HASHED_OR_CLEAR = "mysql_native_password", "caching_sha2_password"
_CLEAR = ("mysql_clear_password", "sha256_password")
_METHODS = (_HASHED, _HASHED_OR_CLEAR, *_CLEAR)


def _refused(method: str) -> InputError:
    return InputError(
        f"The server asks for the password itself ({method}), and nothing proves that it is your "
        "server: its certificate was not verified. The password was not sent. Give the file of its "
        "CA as ssl-ca in the option file, or ask the server by its unix socket."
    )


class _CachingSha2(MySQLCachingSHA2PasswordAuthPlugin):
    """Sends a hash; the password itself, which it may be asked for, to a known server alone."""

    def auth_response(self, auth_data: bytes, **settings: Any) -> bytes | None:
        if len(auth_data) == 1 and not self.ssl_enabled:
            raise _refused(self.name)
        return super().auth_response(auth_data, **settings)


class _Authenticator(MySQLAuthenticator):
    """Says who asks, by a method that fits what is known of the other end."""

    def __init__(self, tls: Tls, *, is_known: bool) -> None:
        super().__init__()
        self._tls, self._is_known = tls, is_known

    @property
    def ssl_enabled(self) -> bool:
        """Return whether the other end is known: what the connector takes TLS for."""
        return self._is_known

    def setup_ssl(
        self, sock: Any, host: str, ssl_options: Any, charset: int = 45, client_flags: int = 0,
        max_allowed_packet: int = 2**30,
    ) -> bytes:  # fmt: skip
        context = self._tls.context()
        request = MySQLProtocol.make_auth_ssl(
            charset=charset, client_flags=client_flags, max_allowed_packet=max_allowed_packet
        )
        sock.send(request)
        sock.switch_to_ssl(context, host)
        self._is_known = context.verify_mode == ssl.CERT_REQUIRED
        return bytes(request)

    def authenticate(  # type: ignore[override]
        self, sock: Any, handshake: Any, **options: Any
    ) -> bytes:
        # The method of the account, which may be another, is asked for in the next packet.
        first = handshake["auth_plugin"]
        if first not in _METHODS or (first in _CLEAR and not self._is_known):
            options["auth_plugin"] = _HASHED
        return bytes(super().authenticate(sock=sock, handshake=handshake, **options))

    def _handle_server_response(self, sock: Any, pkt: bytes) -> bytes | None:
        # The method of the first packet was chosen by the connector.
        assert self._auth_strategy is not None
        self._switch_auth_strategy(self._auth_strategy.name)
        return super()._handle_server_response(sock, pkt)

    def _switch_auth_strategy(
        self, new_strategy_name: str, strategy_class: str | None = None,
        username: str | None = None, password_factor: int = 1,
    ) -> None:  # fmt: skip
        # The connector would import a module of whatever name the server says.
        if new_strategy_name not in _METHODS:
            raise InputError(
                f"The server asks for authentication by {shown(new_strategy_name)}, which innolab "
                f"cannot do; it can do {', '.join(_METHODS)}. Name another user with --user."
            )
        if new_strategy_name in _CLEAR and not self._is_known:
            raise _refused(new_strategy_name)
        super()._switch_auth_strategy(new_strategy_name, strategy_class, username, password_factor)
        if new_strategy_name == _HASHED_OR_CLEAR:
            self._auth_strategy = _CachingSha2(
                username or self._username,
                self._passwords.get(password_factor, ""),
                ssl_enabled=self.ssl_enabled,
            )


class SafeConnection(MySQLConnection):
    """A connection of the pure-Python connector that gives no password to an impostor.

    Parameters
    ----------
    tls : how a server that is reached over TCP proves who it is
    greeting_s : how long it may take to let us in, however it dawdles
    options : of the connector

    Raises
    ------
    InputError
        If the server asks for what only a server that is known is given.
    Exception
        As the connector has it, which makes of packets without sense errors of any kind.
    """

    def __init__(self, tls: Tls, greeting_s: float, **options: Any) -> None:
        super().__init__()
        is_socket = "unix_socket" in options
        self._authenticator = _Authenticator(tls, is_known=is_socket)
        if tls.mode == "DISABLED" or is_socket:
            options["ssl_disabled"] = True
        elif tls.mode != "PREFERRED":
            # Or the connector would go on in the clear if the server offers no TLS.
            options["ssl_verify_cert"] = True
        # Each packet is waited for again, so a byte now and then would keep us for hours.
        watch = threading.Timer(greeting_s, self._hang_up)
        watch.daemon = True
        watch.start()
        try:
            self.connect(**options, connection_timeout=greeting_s)
        except BaseException:
            self._hang_up()
            raise
        finally:
            watch.cancel()

    def _hang_up(self) -> None:
        if self._socket is not None:
            self._socket.shutdown()
