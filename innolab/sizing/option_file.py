"""What an option file, as MySQL's own clients read it, says of a connection.

Of its options those alone are taken that say where a server is, who asks, and how it is known.
"""

import configparser
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mysql.connector.optionfiles import MySQLOptionsParser

from innolab.base.errors import InputError

# Of option files those that the command-line client reads too; the last one counts.
_GROUPS = ("client", "mysql")
_ON = {"1", "on", "true", "yes", ""}
_MODES = ("DISABLED", "PREFERRED", "REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY")
# What asks for more than the mode: the name in the certificate is checked too.
_IDENTITY = ("ssl_verify_identity", "ssl_verify_server_cert")
_MOST_PORT = 65535


@dataclass(frozen=True)
class Tls:
    """How a server that is reached over TCP proves who it is.

    Attributes
    ----------
    mode : as `ssl-mode` of MySQL's clients; a file of a CA alone asks for VERIFY_CA
    ca : the file of the CA's certificate; without one those that this host trusts count
    cert, key : files of a client's own certificate
    """

    mode: str = "PREFERRED"
    ca: str | None = None
    cert: str | None = None
    key: str | None = None

    @property
    def is_verified(self) -> bool:
        """Return whether a connection proves that its server is no other."""
        return self.mode.startswith("VERIFY")

    def context(self) -> ssl.SSLContext:
        """Return what TLS is spoken with.

        Raises
        ------
        OSError
            Where a file cannot be read, or holds no certificate.
        """
        # With a file given, no other CA is trusted: any of those could vouch for an impostor.
        context = ssl.create_default_context(cafile=self.ca)
        # Without a file each of a hundred CAs could, for a name of the impostor's own.
        context.check_hostname = self.mode == "VERIFY_IDENTITY" or (
            self.is_verified and self.ca is None
        )
        context.verify_mode = ssl.CERT_REQUIRED if self.is_verified else ssl.CERT_NONE
        if self.cert:
            context.load_cert_chain(self.cert, self.key)
        return context


@dataclass(frozen=True)
class Options:
    """What an option file says of a connection."""

    host: str = "127.0.0.1"
    port: int = 3306
    socket: str | None = None
    user: str | None = None
    password: str = field(default="", repr=False)
    tls: Tls = Tls()


def read(path: Path) -> Options:
    """Return what an option file says.

    Raises
    ------
    InputError
        Where it cannot be read; does not quote it, as a password may be in any line.
    """
    try:
        return _options(_values(path))
    # The parser's own words quote the line; what it makes of other files has no common kind.
    except (configparser.Error, ValueError, OSError, LookupError, AttributeError, TypeError,
            RecursionError):  # fmt: skip
        raise InputError(
            f"{path} is no option file: its lines, NAME=VALUE, are below [client]; port is a "
            f"number up to {_MOST_PORT}, ssl-mode one of {', '.join(_MODES)}. Nothing was asked of "
            "any server."
        ) from None


def _values(path: Path) -> dict[str, str]:
    parser = MySQLOptionsParser([str(path)], keep_dashes=False)
    by_group = parser.get_groups_as_dict_with_priority(*_GROUPS)
    found: dict[str, tuple[str, int]] = {}
    for group in _GROUPS:
        for name, (value, place) in by_group.get(group, {}).items():
            if name not in found or found[name][1] <= place:
                found[name] = (value or "", place)
    return {name: value for name, (value, _) in found.items()}


def _options(values: Mapping[str, str]) -> Options:
    if any("\0" in value for value in values.values()):
        raise ValueError("a value holds NUL")
    port = int(values.get("port", Options.port))
    if not 0 < port <= _MOST_PORT:
        raise ValueError("no port")
    return Options(
        host=values.get("host") or Options.host,
        port=port,
        socket=values.get("socket") or values.get("unix_socket") or None,
        user=values.get("user"),
        password=values.get("password", values.get("passwd", "")),
        tls=_tls(values),
    )


def _tls(values: Mapping[str, str]) -> Tls:
    ca, cert, key = (values.get(f"ssl_{name}") or None for name in ("ca", "cert", "key"))
    mode = values.get("ssl_mode", Tls.mode).upper()
    if mode not in _MODES:
        raise ValueError("no mode of TLS")
    if mode in ("PREFERRED", "REQUIRED") and (ca or _is_on(values, "ssl_verify_cert")):
        mode = "VERIFY_CA"
    if any(_is_on(values, name) for name in _IDENTITY):
        mode = "VERIFY_IDENTITY"
    if bool(cert) != bool(key):
        raise ValueError("a certificate without its key")
    return Tls(mode, ca, cert, key)


def _is_on(values: Mapping[str, str], name: str) -> bool:
    return name in values and values[name].strip().lower() in _ON
