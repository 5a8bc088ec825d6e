"""Option files are read as MySQL's and MariaDB's own clients read them."""

import subprocess
import traceback
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from innolab.base.errors import InputError
from innolab.hosts import machine
from innolab.sizing import option_file
from innolab.sizing.option_file import Options
from innolab.sizing.target import Target

# Files that work with the mysql and the mariadb client, and the password in each.
_FILES = {
    "double": ('[client]\nsocket=/s\nuser=sizing\npassword="plainpw"\n', "plainpw"),
    "single": ("[client]\nsocket=/s\nuser=sizing\npassword='plainpw'\n", "plainpw"),
    "hash": ('[client]\nsocket=/s\nuser=sizing\npassword="plain#pw"\n', "plain#pw"),
    "comment": ("[client]\nsocket=/s\nuser=sizing\npassword=plainpw # since March\n", "plainpw"),
    "escape": ("[client]\nsocket=/s\nuser=sizing\npassword=back\\\\slash\n", "back\\slash"),
    "client-server": ("[client-server]\nsocket=/s\n[client]\nuser=sizing\npassword=p\n", "p"),
    "mariadb": ("[client-mariadb]\nsocket=/s\n[mariadb-client]\nuser=sizing\npassword=p\n", "p"),
    "blanks": (
        "[client] # ours\n; a comment\n socket = /s\nuser\t= sizing\r\npassword = 'p '\n",
        "p ",
    ),
    "quote inside": ("[client]\nsocket=/s\nuser=sizing\npassword=a'b#c'd\n", "a'b#c'd"),
    "last line counts": (
        "[mysql]\npassword=a\n[client]\nsocket=/s\nuser=sizing\npassword=b\n",
        "b",
    ),
    "other groups": ("[client]\nsocket=/s\nuser=sizing\npassword=b\n[mysqld]\npassword=a\n", "b"),
    "loose": ("[client]\nsocket=/s\nloose-user=sizing\npassword=b\n", "b"),
}


def _read(folder: Path, text: str) -> Options:
    path = folder / "client.cnf"
    path.write_text(text)
    return option_file.read(path)


@pytest.mark.parametrize("name", _FILES)
def test_a_file_of_the_clients_is_read_as_they_do(folder: Path, name: str) -> None:
    text, password = _FILES[name]
    options = _read(folder, text)
    assert (options.socket, options.user, options.password) == ("/s", "sizing", password)


def test_other_files_are_read_where_they_are_included(folder: Path) -> None:
    """Each with its own groups; the line that comes last counts, wherever it is."""
    (folder / "one.cnf").write_text("[client]\nuser=included\npassword=a\n[mysqld]\nuser=mysql\n")
    parts = folder / "parts"
    parts.mkdir()
    for name, password in (("b.cnf", "b"), ("a.cnf", "a"), ("c.txt", "c")):
        (parts / name).write_text(f"[client]\npassword={password}\n")
    options = _read(
        folder,
        f"[client]\nuser=before\n!include {folder}/one.cnf\n!includedir {parts}\n"
        f"!include {folder}/none.cnf\nport=3307\n",
    )
    assert (options.user, options.password, options.port) == ("included", "b", 3307)


def test_a_file_that_includes_itself_ends(folder: Path) -> None:
    assert _read(folder, f"[client]\nuser=me\n!include {folder}/client.cnf\n").user == "me"


def test_a_file_that_anyone_may_write_is_refused_as_the_clients_ignore_it(folder: Path) -> None:
    path = folder / "client.cnf"
    path.write_text("[client]\nuser=me\n")
    path.chmod(0o666)
    with pytest.raises(InputError, match=r"Anyone may write to .*chmod o-w"):
        option_file.read(path)


@pytest.mark.parametrize(
    "lines",
    ["user=me\npassword=very-secret\n", "[client]\nuser=me\nvery-secret\n=x=\n", "\xff[client]\n"],
)
def test_an_option_file_that_is_none_is_not_quoted(folder: Path, lines: str) -> None:
    path = folder / "client.cnf"
    path.write_bytes(lines.encode("latin-1"))
    with pytest.raises(InputError, match=r"is no option file: .* are below \[client\]") as caught:
        Target(defaults_file=str(path), socket=str(folder / "none.sock")).connect()
    assert "very-secret" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("lines", "mode"),
    [
        ("", "PREFERRED"),
        ("ssl-ca=ca.pem", "VERIFY_CA"),
        ("ssl-ca=ca.pem\nssl-mode=preferred", "VERIFY_CA"),
        ("ssl-mode=VERIFY_IDENTITY\nssl-ca=ca.pem", "VERIFY_IDENTITY"),
        ("ssl-verify-server-cert=1", "VERIFY_IDENTITY"),
        ("ssl-verify-server-cert=0", "PREFERRED"),
        ("ssl-mode=DISABLED", "DISABLED"),
        ("[mysql]\nssl-mode=REQUIRED", "REQUIRED"),
    ],
)
def test_how_a_server_proves_itself_follows_from_the_option_file(
    folder: Path, lines: str, mode: str
) -> None:
    path = folder / "client.cnf"
    path.write_text(f"[client]\nuser=me\n{lines}\n")
    assert option_file.read(path).tls.mode == mode


def test_an_option_file_gives_no_more_than_a_connection(folder: Path) -> None:
    """No statement, no file of this host for the server, and no type of Python's."""
    path = folder / "client.cnf"
    path.write_text(
        "[client]\ninit-command=DROP TABLE a\nlocal-infile=1\nallow_local_infile=1\npool_size=5\n"
        "failover=[{}]\nuser=5\npassword=0123\nhost=db\nport=3307\n"
    )
    options = option_file.read(path)
    assert (options.user, options.password, options.host, options.port) == ("5", "0123", "db", 3307)
    assert set(vars(options)) == {"host", "port", "socket", "user", "password", "tls"}
    assert "0123" not in repr(options)


def test_a_port_that_is_none_is_one_sentence(folder: Path) -> None:
    path = folder / "client.cnf"
    for port in ("abc", "0", "70000", "9" * 5000):
        path.write_text(f"[client]\nport={port}\npassword=very-secret\n")
        with pytest.raises(InputError, match="is no option file") as refused:
            option_file.read(path)
        assert len(str(refused.value)) < 1000
        assert "secret" not in str(refused.value)


_LINES = st.text(alphabet="\\'\"#ab= ns;\t", min_size=1, max_size=9)


@pytest.mark.integration
@settings(max_examples=60, derandomize=True, database=None, deadline=None,
          suppress_health_check=[HealthCheck.function_scoped_fixture])  # fmt: skip
@given(value=_LINES)
def test_any_value_is_what_mysqls_own_program_prints(folder: Path, value: str) -> None:
    prefix = machine.cache_folder() / "builds" / "mysql-9.7" / "usr"
    libraries = prefix / "lib" / "x86_64-linux-gnu"
    if not (prefix / "bin" / "my_print_defaults").is_file():
        pytest.skip("make setup installs the program")
    options = _read(folder, f"[client]\nuser={value}\n")
    printed = subprocess.run(
        [libraries / "ld-linux-x86-64.so.2", "--library-path", libraries,
         prefix / "bin" / "my_print_defaults", f"--defaults-file={folder}/client.cnf", "client"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert printed == f"--user={options.user}\n"
