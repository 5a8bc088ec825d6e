"""What an option file says of a connection, read by the rules of MySQL's own clients.

The connector's reader knows no quotes, no escapes, no comment after a value and no group of
MariaDB, so the rules of mysys/my_default.cc are here. Of the options those alone are taken that say
where a server is, who asks, and how it is known.
"""

import re
import ssl
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, Field

from innolab.base.errors import InputError

# The groups that the command-line clients of MySQL and MariaDB read; the last line counts.
GROUPS = ("client", "mysql", "client-server", "client-mariadb", "mariadb-client")
_ON = {"1", "on", "true", "yes", ""}
_MODES = ("DISABLED", "PREFERRED", "REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY")
# What asks for more than the mode: the name in the certificate is checked too.
_IDENTITY = ("ssl_verify_identity", "ssl_verify_server_cert")
_MOST_PORT = 65535
_MOST_NESTED = 10
# What C takes for blank; Python takes more.
_BLANK = " \t\n\v\f\r"
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "s": " ", '"': '"', "'": "'", "\\": "\\"}
# A line up to a '#' outside quotes; a quote is escaped inside quotes alone.
_CODE = re.compile(
    r"""(?:[^#'"]|'(?:[^'\\]|\\.?)*(?:'|\Z)|"(?:[^"\\]|\\.?)*(?:"|\Z))*""", re.DOTALL
)


class Tls(NamedTuple):
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

    def context(self) -> ssl.SSLContext:
        """Return what TLS is spoken with.

        Raises
        ------
        OSError
            If a file cannot be read, or holds no certificate.
        """
        is_verified = self.mode.startswith("VERIFY")
        # With a file given, no other CA is trusted: any of those could vouch for an impostor.
        context = ssl.create_default_context(cafile=self.ca)
        # Without a file each of a hundred CAs could, for a name of the impostor's own.
        context.check_hostname = self.mode == "VERIFY_IDENTITY" or (is_verified and not self.ca)
        context.verify_mode = ssl.CERT_REQUIRED if is_verified else ssl.CERT_NONE
        if self.cert:
            context.load_cert_chain(self.cert, self.key)
        return context


class Options(BaseModel, frozen=True):
    """What an option file says of a connection."""

    host: str = "127.0.0.1"
    port: int = Field(default=3306, gt=0, le=_MOST_PORT)
    socket: str | None = None
    user: str | None = None
    password: str = Field(default="", repr=False)
    tls: Tls = Tls()


def read(path: Path) -> Options:
    """Return what an option file says.

    Raises
    ------
    InputError
        If it cannot be read; does not quote it, as a password may be in any line.
    """
    try:
        return _options(dict(_lines(path)))
    except (ValueError, OSError):
        raise InputError(
            f"{path} is no option file: its lines, NAME=VALUE, are below [client]; port is a "
            f"number up to {_MOST_PORT}, ssl-mode one of {', '.join(_MODES)}. Nothing was asked of "
            "any server."
        ) from None


def _lines(path: Path, nested: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the options of a file's groups in order; a file that it includes comes in its place."""
    if path.stat().st_mode & stat.S_IWOTH and path.is_file():
        raise InputError(
            f"Anyone may write to {path}, so MySQL's clients ignore it. Take that right away: "
            "chmod o-w. Nothing was asked of any server."
        )
    group = None
    for line in path.read_bytes().decode().split("\n"):
        text = line.strip(_BLANK)
        if not text or text[0] in "#;":
            continue
        if text[0] == "!":
            if nested < _MOST_NESTED:
                for included in _included(text[1:].strip(_BLANK)):
                    yield from _lines(included, nested + 1)
        elif text[0] == "[":
            group = text[1 : text.index("]")].rstrip(_BLANK)
        elif group is None:
            raise ValueError("an option above all groups")
        elif group in GROUPS:
            yield _option(text)


def _included(directive: str) -> list[Path]:
    """Return the files that a directive includes; those that do not exist are passed over."""
    name, _, place = directive.replace("\t", " ").partition(" ")
    path = Path(place.strip(_BLANK))
    if name == "includedir":
        return sorted(file for file in path.iterdir() if file.suffix == ".cnf")
    return [path] if name == "include" and path.is_file() else []


def _option(text: str) -> tuple[str, str]:
    """Return the name and the value of a line.

    >>> _option('pass-word = "a # b" # since March'), _option(r"password=back\\\\slash")
    (('pass_word', 'a # b'), ('password', 'back\\\\slash'))
    """
    code = _CODE.match(text)
    assert code is not None
    name, _, value = (part.strip(_BLANK) for part in code[0].partition("="))
    if not name:
        raise ValueError("a value without a name")
    if len(value) > 1 and value[0] in "'\"" and value[-1] == value[0]:
        value = value[1:-1]
    value = re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[0]), value)
    return name.lower().replace("-", "_").removeprefix("loose_"), value


def _options(values: Mapping[str, str]) -> Options:
    if any("\0" in value for value in values.values()):
        raise ValueError("a value holds NUL")
    return Options(
        host=values.get("host") or "127.0.0.1",
        port=int(values.get("port", 3306)),
        socket=values.get("socket") or values.get("unix_socket") or None,
        user=values.get("user"),
        password=values.get("password", values.get("passwd", "")),
        tls=_tls(values),
    )


def _tls(values: Mapping[str, str]) -> Tls:
    def is_on(name: str) -> bool:
        return values.get(name, "0").strip().lower() in _ON

    ca, cert, key = (values.get(f"ssl_{name}") or None for name in ("ca", "cert", "key"))
    mode = values.get("ssl_mode", "PREFERRED").upper()
    if mode not in _MODES:
        raise ValueError("no mode of TLS")
    if mode in ("PREFERRED", "REQUIRED") and (ca or is_on("ssl_verify_cert")):
        mode = "VERIFY_CA"
    if any(map(is_on, _IDENTITY)):
        mode = "VERIFY_IDENTITY"
    if bool(cert) != bool(key):
        raise ValueError("a certificate without its key")
    return Tls(mode, ca, cert, key)
