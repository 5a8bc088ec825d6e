"""`innolab size` and servers that are not what they seem: no password, no traceback, no control.

The servers are real ones on loopback, which speak MySQL's protocol as far as each test wants it.
"""

import contextlib
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import impostor
import pytest
from conftest import Innolab
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from impostor import CACHING, CLEAR, NATIVE, SHA256, Talk

from innolab.base.errors import InnolabError, InputError
from innolab.sizing import advice, size_document
from innolab.sizing.advice import SizingRequest
from innolab.sizing.server_status import Visit
from innolab.sizing.target import Target

PASSWORD = "h0rse-battery-staple"
HOSTILE = "\x1b[2J\u202e\u200f\x00\r\n\x07\x9b31m\ufeff"
Script = Callable[[Talk], Any]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return impostor.certificate(tmp_path_factory.mktemp("ca"), "authority")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory, authority: Path) -> Path:
    return impostor.certificate(tmp_path_factory.mktemp("server"), "server", authority)


@pytest.fixture(scope="module")
def self_signed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return impostor.certificate(tmp_path_factory.mktemp("self"), "impostor")


def _switched(method: str, data: bytes = impostor.SALT + b"\0") -> Script:
    """Ask for another method after the first, as a server does whose account has that."""

    def script(talk: Talk) -> None:
        talk.receive()
        talk.switch(method, data)
        talk.receive()
        talk.ok()

    return script


def _whole_password(talk: Talk) -> None:
    """Take the hash, and say that it is not known here, so the password itself is needed."""
    talk.receive()
    talk.switch(CACHING)
    talk.receive()
    talk.send(b"\x01\x04")
    talk.receive()
    talk.ok()


def _second_factor(talk: Talk) -> None:
    talk.receive()
    talk.send(b"\x02" + CLEAR.encode() + b"\0" + impostor.SALT)
    talk.receive()
    talk.ok()


def _named_first(talk: Talk) -> None:
    """Only greet: the greeting itself names a method that has the password in the answer."""
    talk.receive()
    talk.ok()


# How a server asks for the password itself: by the method of its greeting, and what follows.
ASKS: dict[str, tuple[str, Script]] = {
    "clear after another": (CACHING, _switched(CLEAR)),
    "clear at once": (CLEAR, _named_first),
    "clear twice": (CLEAR, _switched(CLEAR)),
    "sha256 after another": (NATIVE, _switched(SHA256)),
    "sha256 at once": (SHA256, _named_first),
    "caching, hash not known": (CACHING, _whole_password),
    "caching, asked by the switch": (NATIVE, _switched(CACHING, b"\x04")),
    "caching, after native": (NATIVE, _whole_password),
    "second factor": (NATIVE, _second_factor),
    "a module as a method": (NATIVE, _switched(".constants")),
}


def _script(asks: str, *, tls: bool) -> Script:
    method, rest = ASKS[asks]

    def script(talk: Talk) -> None:
        talk.greet(method, tls=tls)
        if tls:
            talk.secure()
        rest(talk)
        talk.serve(impostor.working())

    return script


def _refused(path: Path) -> str:
    with pytest.raises(InputError) as refused:
        Target(defaults_file=str(path), silent_s=10).connect()
    return str(refused.value)


@pytest.mark.parametrize("tls", [True, False], ids=["tls", "in the clear"])
@pytest.mark.parametrize("asks", ASKS)
def test_an_impostor_gets_no_password(
    folder: Path, self_signed: Path, asks: str, tls: bool
) -> None:
    with impostor.impostor(_script(asks, tls=tls), self_signed) as server:
        options = server.option_file(folder, f"password={PASSWORD}")
        with contextlib.suppress(InputError):
            Target(defaults_file=str(options), silent_s=10).connect().shutdown()
    assert b"me\0" in server.received
    assert PASSWORD.encode() not in server.received
    assert not any(PASSWORD.encode()[:n] in server.received for n in range(4, len(PASSWORD)))


@pytest.mark.parametrize("asks", ["clear after another", "caching, hash not known"])
def test_who_is_refused_the_password_is_said_with_what_to_do(
    folder: Path, self_signed: Path, innolab: Innolab, asks: str
) -> None:
    with impostor.impostor(_script(asks, tls=True), self_signed) as server:
        options = server.option_file(folder, f"password={PASSWORD}")
        done = innolab("size", "--defaults-file", str(options))
    assert done.returncode == 2
    assert "The password was not sent" in done.stderr
    assert "ssl-ca" in done.stderr
    assert "unix socket" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert PASSWORD not in done.stderr
    assert PASSWORD.encode() not in server.received


@pytest.mark.parametrize("asked", ["ssl-ca", "ssl-mode", "identity", "verify", "required"])
def test_a_certificate_that_proves_nothing_ends_the_talk(
    folder: Path, self_signed: Path, authority: Path, asked: str
) -> None:
    lines = {
        "ssl-ca": f"ssl-ca={authority}",
        "ssl-mode": "ssl-mode=VERIFY_CA",
        "identity": "ssl-verify-server-cert",
        "verify": "ssl-verify-cert=1",
        "required": f"ssl-mode=REQUIRED\nssl-ca={authority}",
    }
    with impostor.impostor(_script("clear after another", tls=True), self_signed) as server:
        said = _refused(server.option_file(folder, f"password={PASSWORD}", lines[asked]))
    assert "certificate verify failed" in said
    assert b"me\0" not in server.received


@pytest.mark.parametrize("mode", ["VERIFY_CA", "VERIFY_IDENTITY", "REQUIRED"])
def test_a_server_without_tls_is_left_where_tls_was_asked_for(
    folder: Path, authority: Path, mode: str
) -> None:
    with impostor.impostor(_script("clear after another", tls=False)) as server:
        options = server.option_file(folder, f"password={PASSWORD}", f"ssl-mode={mode}",
                                     f"ssl-ca={authority}")  # fmt: skip
        assert "SSL is required" in _refused(options)
    assert b"me\0" not in server.received


def test_a_name_that_is_not_in_the_certificate_is_refused(
    folder: Path, authority: Path, certificate: Path
) -> None:
    with impostor.impostor(_script("clear after another", tls=True), certificate) as server:
        options = server.option_file(folder, f"password={PASSWORD}", f"ssl-ca={authority}",
                                     "host=localhost", "ssl-mode=VERIFY_IDENTITY")  # fmt: skip
        assert "certificate verify failed" in _refused(options)
    assert PASSWORD.encode() not in server.received


@pytest.mark.parametrize("asks", ["clear after another", "clear at once", "sha256 at once",
                                  "sha256 after another", "caching, hash not known"])  # fmt: skip
def test_a_server_that_is_known_gets_the_password(
    folder: Path, authority: Path, certificate: Path, asks: str
) -> None:
    with impostor.impostor(_script(asks, tls=True), certificate) as server:
        options = server.option_file(folder, f"password={PASSWORD}", f"ssl-ca={authority}",
                                     "ssl-mode=VERIFY_IDENTITY")  # fmt: skip
        Target(defaults_file=str(options), silent_s=10).connect().close()
    assert PASSWORD.encode() in server.received


def test_a_socket_of_this_host_needs_no_certificate(folder: Path) -> None:
    with _relayed(_script("clear after another", tls=False), folder) as (path, server):
        options = folder / "client.cnf"
        options.write_text(f"[client]\nsocket={path}\nuser=me\npassword={PASSWORD}\n")
        Target(defaults_file=str(options), silent_s=10).connect().close()
    assert PASSWORD.encode() in server.received


@contextlib.contextmanager
def _relayed(script: Script, folder: Path) -> Iterator[tuple[Path, impostor.Impostor]]:
    """Run a server at a unix socket."""
    path = folder / "server.sock"
    server = impostor.Impostor(0)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen()
    with impostor.listening(listening, server, script):
        yield path, server


# Packets without sense ------------------------------------------------------------------------

_WHOLE = impostor.greeting(NATIVE)


def _packet(payload: bytes, number: int = 0) -> bytes:
    return struct.pack("<I", len(payload))[:3] + bytes([number]) + payload


_GREETINGS = (
    st.binary(max_size=80)
    | st.integers(0, len(_WHOLE)).map(lambda at: _packet(_WHOLE[:at]))
    | st.integers(0, len(_WHOLE)).map(lambda at: _packet(_WHOLE)[:at])
    | st.sampled_from([
        b"\xff\xff\xff\0" + b"x" * 4096,
        b"\0\0\0\0",
        _packet(b"\x09" + _WHOLE[1:]),
        _packet(b"\xff"),
        _packet(b"\xff\x15\x04#28000" + HOSTILE.encode()),
        _packet(b"\xff\x10\x04Too many connections"),
        _packet(_WHOLE.replace(b"9.7.0", b"\x1b[2J")),
        _packet(_WHOLE.replace(b"9.7.0", b"\xff\xfe\xfd")),
        _packet(_WHOLE.replace(NATIVE.encode(), b"\xff\xfe")),
        _packet(_WHOLE.replace(NATIVE.encode(), b"..constants")),
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
    ])
)  # fmt: skip
# What comes after the greeting, and after a statement.
_REPLIES = st.lists(
    st.binary(max_size=60)
    | st.binary(max_size=40).map(lambda data: _packet(data, 2))
    | st.sampled_from([
        _packet(b"", 2), _packet(b"\0", 2), _packet(b"\xfe", 2), _packet(b"\x01", 2),
        _packet(b"\x01\x04", 2), _packet(b"\x02", 2), _packet(b"\xfb/etc/passwd", 2),
        _packet(b"\xfe" + CLEAR.encode() + b"\0", 2), _packet(b"\xfeos\0x", 2),
        _packet(b"\xfe.plugins\0x", 2), _packet(b"\xfe...\0x", 2), _packet(b"\xfe\xff\0x", 2),
        _packet(b"\xff\x15\x04#HY000" + HOSTILE.encode(), 2), _packet(b"\0\0\0\2\0\0\0", 2),
        _packet(b"\xfd\xff\xff\xff", 1), _packet(b"\x05", 1),
    ]),
    max_size=4,
)  # fmt: skip


def _examples(count: int) -> settings:
    return settings(max_examples=count, derandomize=True, database=None, deadline=None,
                    suppress_health_check=list(HealthCheck))  # fmt: skip


def _one_sentence(error: InnolabError) -> None:
    said = str(error)
    assert 10 < len(said) < 1000, said
    assert said.isprintable(), said
    assert PASSWORD not in said


@_examples(100)
@given(greeting=_GREETINGS, replies=_REPLIES)
def test_a_greeting_without_sense_is_one_sentence(
    folder: Path, greeting: bytes, replies: list[bytes]
) -> None:
    def script(talk: Talk) -> None:
        talk.raw(greeting)
        for reply in replies:
            talk.raw(reply)
        talk.socket.shutdown(socket.SHUT_WR)
        while talk.socket.recv(4096):
            pass

    with impostor.impostor(script) as server:
        options = server.option_file(folder, f"password={PASSWORD}")
        with pytest.raises(InputError) as refused:
            Target(defaults_file=str(options), silent_s=5).connect()
        _one_sentence(refused.value)
    assert PASSWORD.encode() not in server.received


@_examples(100)
@given(replies=_REPLIES, after=st.integers(0, 24))
def test_an_answer_without_sense_is_one_sentence(
    folder: Path, replies: list[bytes], after: int
) -> None:
    """After some right ones."""
    answer = impostor.working()

    def script(talk: Talk) -> None:
        talk.let_in()
        for _ in range(after):
            sql = talk.receive()[1:].decode()
            talk.rows(answer(sql)) if sql.startswith(("SELECT", "SHOW")) else talk.ok()
        talk.receive()
        for reply in replies:
            talk.raw(reply)
        talk.socket.shutdown(socket.SHUT_WR)
        while talk.socket.recv(4096):
            pass

    with impostor.impostor(script) as server:
        options = server.option_file(folder)
        with pytest.raises(InnolabError) as refused:
            advice.size(
                Target(defaults_file=str(options), silent_s=5), SizingRequest(0.02), lambda _: None
            )
        _one_sentence(refused.value)


_NAMES = st.sampled_from([*impostor.VARIABLES, *impostor.COUNTERS, *impostor.OTHERS])
_VALUES = st.sampled_from(
    ["", "0", "-1", "1", "nan", "inf", "-inf", "1e400", "9" * 5000, "²", "None", "0x10", HOSTILE,
     "9.7.0" + HOSTILE, "x" * 2000, "1e18", "16384", "\ud800", "5", "9." * 1000]
) | st.text(max_size=20) | st.integers().map(str)  # fmt: skip


@_examples(20)
@given(changed=st.dictionaries(_NAMES, _VALUES, max_size=3))
def test_values_without_sense_are_one_sentence_or_are_shown_plain(
    folder: Path, changed: dict[str, str]
) -> None:
    def script(talk: Talk) -> None:
        talk.let_in()
        talk.serve(impostor.working(changed))

    with impostor.impostor(script) as server:
        options = server.option_file(folder)
        target = Target(defaults_file=str(options), silent_s=5)
        try:
            document = advice.size(target, SizingRequest(0.02, price_memory_gb=4.0), lambda _: None)
        except InnolabError as refused:
            _one_sentence(refused)
            return
    assert all(line.isprintable() for line in size_document.lines(document))
    document.model_dump_json()


def test_a_server_that_works_is_sized(folder: Path) -> None:
    """Or the tests above would hold for the wrong reason."""

    def script(talk: Talk) -> None:
        talk.let_in()
        talk.serve(impostor.working())

    with impostor.impostor(script) as server:
        target = Target(defaults_file=str(server.option_file(folder)), silent_s=5)
        document = advice.size(target, SizingRequest(0.02), lambda _: None)
    assert (document.version, document.pool_bytes) == ("9.7.0", 134217728)
    assert document.reads_per_s * document.seconds >= 10_000
    assert document.clients == 8


@pytest.mark.parametrize("where", ["variable", "table", "refusal", "denied"])
def test_what_a_server_says_is_printed_without_control_characters(
    folder: Path, innolab: Innolab, where: str
) -> None:
    answer = impostor.working({"version": f"9.7.0{HOSTILE}"} if where == "variable" else None)

    def said(sql: str) -> impostor.Rows:
        if where == "table" and "index_usage" in sql:
            return [(HOSTILE, HOSTILE, None, str(9000 + time.monotonic_ns()), "1")]
        return answer(sql)

    def script(talk: Talk) -> None:
        if where == "denied":
            talk.greet(NATIVE)
            talk.receive()
            talk.refuse(f"Access denied{HOSTILE}\nfor you")
        else:
            talk.let_in()
            if where == "refusal":
                while not talk.receive()[1:].startswith(b"SHOW"):
                    talk.ok()
                talk.refuse(f"no{HOSTILE}", 1142)
            talk.serve(said)

    with impostor.impostor(script) as server:
        options = server.option_file(folder)
        done = innolab("size", "--defaults-file", str(options), "--seconds", "5")
    assert done.returncode == (2 if where in ("refusal", "denied") else 0), done.stderr
    printed = (done.stdout + done.stderr).replace("\n", "")
    assert printed.isprintable(), repr(printed)
    assert "Traceback" not in printed
    if where in ("refusal", "denied"):
        assert len(done.stderr.strip().splitlines()) == 1


# Silence --------------------------------------------------------------------------------------


def _drips(talk: Talk) -> None:
    for byte in _packet(_WHOLE):
        talk.raw(bytes([byte]))
        time.sleep(0.2)


def _silent_in(talk: Talk) -> None:
    talk.let_in()
    while talk.receive():
        pass


@pytest.mark.alone
@pytest.mark.parametrize(
    "script", [lambda talk: talk.receive(), _drips, _silent_in], ids=["silent", "drips", "inside"]
)
def test_a_silent_server_is_left(folder: Path, script: Script) -> None:
    with impostor.impostor(script) as server:
        target = Target(defaults_file=str(server.option_file(folder)), silent_s=1)
        began = time.monotonic()
        with pytest.raises(InputError, match="silent"):
            target.connect()
        assert time.monotonic() - began < 4


@pytest.mark.alone
def test_a_server_that_falls_silent_is_left(folder: Path) -> None:
    def script(talk: Talk) -> None:
        talk.let_in()
        while not talk.receive()[1:].startswith(b"SHOW"):
            talk.ok()
        _silent_in(talk)

    with impostor.impostor(script) as server:
        target = Target(defaults_file=str(server.option_file(folder)), silent_s=1)
        began = time.monotonic()
        with Visit(target) as visit, pytest.raises(InnolabError, match="silent"):
            visit.facts()
        assert time.monotonic() - began < 4


def test_a_user_waits_for_twenty_seconds() -> None:
    assert Target().silent_s == 20


def test_an_answer_without_end_is_left(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("innolab.sizing.server_status._MOST_ROWS", 100)

    def script(talk: Talk) -> None:
        talk.let_in()
        talk.serve(lambda _: [("a", "1")] * 1000)

    with impostor.impostor(script) as server:
        target = Target(defaults_file=str(server.option_file(folder)), silent_s=5)
        with Visit(target) as visit, pytest.raises(InnolabError, match="more than 100 rows"):
            visit.rows("SELECT 1")
