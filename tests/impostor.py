"""A server on loopback that speaks MySQL's protocol as a script says; it keeps what it receives."""

import contextlib
import datetime
import ipaddress
import re
import socket
import ssl
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

LONG_PASSWORD, PROTOCOL_41, SSL, SECURE, PLUGIN_AUTH = 1, 0x200, 0x800, 0x8000, 0x80000
NATIVE, CACHING, SHA256 = "mysql_native_password", "caching_sha2_password", "sha256_password"
CLEAR = "mysql_clear_password"
_QUERY, _PING = 3, 14
SALT = bytes(range(65, 85))
# Of a server that works: what `innolab size` asks for, with counters that grow.
VARIABLES = {
    "innodb_buffer_pool_chunk_size": "134217728", "innodb_buffer_pool_instances": "1",
    "innodb_buffer_pool_size": "134217728", "innodb_flush_method": "O_DIRECT",
    "innodb_old_blocks_pct": "37", "innodb_old_blocks_time": "1000", "innodb_page_size": "16384",
    "performance_schema": "ON", "information_schema_stats_expiry": "86400", "version": "9.7.0",
    "version_comment": "MySQL Community Server",
}  # fmt: skip
COUNTERS = {
    "Innodb_buffer_pool_pages_data": 8000, "Innodb_buffer_pool_pages_free": 100,
    "Innodb_buffer_pool_pages_total": 8192, "Innodb_buffer_pool_read_ahead": 0,
    "Innodb_buffer_pool_read_requests": 1_000_000, "Innodb_pages_read": 10_000,
    "Questions": 50_000,
}  # fmt: skip
GROWING = ("Innodb_buffer_pool_read_requests", "Innodb_pages_read", "Questions")
Rows = list[tuple[str | None, ...]]


# One row each, where it asks for sums, tables and clients; what grows does so with each question.
OTHERS = {"promoted": "5000", "waited": "1000000000000", "read": "1000", "written": "0",
          "data": "419430400", "indexes": "0", "clients": "8"}  # fmt: skip


def working(changed: dict[str, str] | None = None) -> Callable[[str], Rows]:
    """Return the answers of a server that works.

    Parameters
    ----------
    changed : variables, counters and other values with another value; what is empty is left out
    """
    changed = changed or {}
    asked = Counter[str]()
    others = {**OTHERS, **{name: changed[name] or None for name in OTHERS if name in changed}}

    def grown(name: str) -> str | None:
        asked[name] += 1
        return others[name] if name in changed else str(int(OTHERS[name]) * asked[name])

    def answer(sql: str) -> Rows:
        if "GLOBAL VARIABLES" in sql:
            return _named(VARIABLES, changed)
        if "GLOBAL STATUS" in sql:
            asked["STATUS"] += 1
            times = {name: asked["STATUS"] if name in GROWING else 1 for name in COUNTERS}
            return _named({n: str(v * times[n]) for n, v in COUNTERS.items()}, changed)
        if "PAGES_MADE_YOUNG" in sql:
            return [(grown("promoted"),)]
        if "SUM_TIMER_READ" in sql:
            return [(grown("waited"),)]
        if "index_usage" in sql:
            return [("shop", "sold", "PRIMARY", grown("read"), others["written"])]
        if "information_schema.TABLES" in sql:
            return [("shop", "sold", others["data"], others["indexes"])]
        return [(others["clients"],)]

    return answer


def _named(values: dict[str, str], changed: dict[str, str]) -> Rows:
    both = {name: changed.get(name, value) for name, value in values.items()}
    return [(name, value) for name, value in both.items() if value]


@dataclass
class Talk:
    """One connection: packets in and out, numbered as the protocol has it."""

    socket: socket.socket
    server: "Impostor"
    number: int = 0

    def send(self, payload: bytes) -> None:
        self.raw(struct.pack("<I", len(payload))[:3] + bytes([self.number % 256]) + payload)

    def raw(self, data: bytes) -> None:
        self.number += 1
        self.socket.sendall(data)

    def receive(self) -> bytes:
        """Return a packet's payload; nothing where the other has hung up."""
        head = self._read(4)
        if len(head) < 4:
            return b""
        self.number = head[3] + 1
        return self._read(int.from_bytes(head[:3], "little"))

    def _read(self, size: int) -> bytes:
        found = b""
        while len(found) < size and (part := self.socket.recv(size - len(found))):
            found += part
        self.server.received += found
        return found

    def greet(self, method: str = CACHING, *, tls: bool = False, version: str = "9.7.0") -> None:
        self.send(greeting(method, tls=tls, version=version))

    def secure(self) -> None:
        """Take the request for TLS and speak it from here on."""
        assert self.server.certificate is not None
        self.receive()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server.certificate)
        self.socket = context.wrap_socket(self.socket, server_side=True)

    def switch(self, method: str, data: bytes = SALT + b"\0") -> None:
        self.send(b"\xfe" + method.encode() + b"\0" + data)

    def ok(self) -> None:
        self.send(b"\0\0\0\2\0\0\0")

    def refuse(self, text: str, number: int = 1045) -> None:
        said = text.encode("utf-8", "surrogatepass")
        self.send(b"\xff" + struct.pack("<H", number) + b"#28000" + said)

    def rows(self, rows: Sequence[Sequence[str | None]]) -> None:
        width = len(rows[0]) if rows else 1
        self.send(bytes([width]))
        for place in range(width):
            parts = ("def", "", "", "", f"c{place}", "")
            self.send(
                b"".join(map(_text, parts))
                + b"\x0c" + struct.pack("<HIBHB", 45, 4096, 0xFD, 0, 0) + b"\0\0"
            )  # fmt: skip
        self.send(b"\xfe\0\0\2\0")
        for row in rows:
            self.send(b"".join(b"\xfb" if cell is None else _text(cell) for cell in row))
        self.send(b"\xfe\0\0\2\0")

    def let_in(self) -> None:
        """Greet, and take whatever says who asks."""
        self.greet(NATIVE)
        self.receive()
        self.ok()

    def serve(self, answer: Callable[[str], Rows]) -> None:
        """Answer statements until the other hangs up."""
        while (packet := self.receive()) and packet[0] in (_QUERY, _PING):
            sql = packet[1:].decode()
            if packet[0] == _QUERY and re.match("SELECT|SHOW", sql):
                self.rows(answer(sql))
            else:
                self.ok()


def greeting(method: str = CACHING, *, tls: bool = False, version: str = "9.7.0") -> bytes:
    """Return the first packet of a server."""
    abilities = LONG_PASSWORD | PROTOCOL_41 | SECURE | PLUGIN_AUTH | (SSL if tls else 0)
    low, high = struct.pack("<I", abilities)[:2], struct.pack("<I", abilities)[2:]
    return (
        b"\x0a" + version.encode("utf-8", "surrogatepass") + b"\0" + struct.pack("<I", 7) + SALT[:8]
        + b"\0" + low + bytes([45]) + struct.pack("<H", 2) + high + bytes([21]) + bytes(10)
        + SALT[8:] + b"\0" + method.encode() + b"\0"
    )  # fmt: skip


def _text(value: str) -> bytes:
    data = value.encode("utf-8", "surrogatepass")
    if len(data) < 251:
        return bytes([len(data)]) + data
    return b"\xfd" + struct.pack("<I", len(data))[:3] + data


@dataclass
class Impostor:
    """A server on loopback; `received` is all that it was sent, as it could read it."""

    port: int
    certificate: Path | None = None
    received: bytes = b""

    def option_file(self, folder: Path, *lines: str) -> Path:
        """Write an option file that leads here."""
        path = folder / "client.cnf"
        path.write_text(
            f"[client]\nhost=127.0.0.1\nport={self.port}\nuser=me\n" + "\n".join(lines) + "\n"
        )
        return path


@contextlib.contextmanager
def impostor(script: Callable[[Talk], Any], certificate: Path | None = None) -> Iterator[Impostor]:
    """Run a server on loopback, each of whose connections follows a script."""
    place = socket.create_server(("127.0.0.1", 0))
    server = Impostor(place.getsockname()[1], certificate)
    with listening(place, server, script):
        yield server


@contextlib.contextmanager
def listening(
    place: socket.socket, server: Impostor, script: Callable[[Talk], Any]
) -> Iterator[None]:
    """Take connections at a socket while the block runs, and wait for each to end."""
    talks: list[threading.Thread] = []

    def talk(connection: socket.socket) -> None:
        connection.settimeout(30)
        at = Talk(connection, server)
        # The other hangs up wherever it likes.
        with contextlib.suppress(OSError):
            script(at)
        with contextlib.suppress(OSError):
            at.socket.close()

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                talks.append(threading.Thread(target=talk, args=[place.accept()[0]]))
                talks[-1].start()

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield
    finally:
        # A closed socket alone would not wake who waits for a connection.
        place.shutdown(socket.SHUT_RDWR)
        accepting.join()
        place.close()
        for one in talks:
            one.join()


def certificate(folder: Path, name: str, issuer: Path | None = None) -> Path:
    """Write a certificate for 127.0.0.1 with its key, signed by itself or by another, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signer, signed_by = key, subject
    if issuer:
        signer = serialization.load_pem_private_key(issuer.read_bytes(), None)  # type: ignore[assignment]
        signed_by = x509.load_pem_x509_certificate(issuer.read_bytes()).subject
    now = datetime.datetime.now(datetime.UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(signed_by)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(address, critical=False)
        .sign(signer, hashes.SHA256())
    )
    path = folder / f"{name}.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return path
