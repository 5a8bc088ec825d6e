"""A stranger's notebook sees, changes and keeps nothing but its report's folder.

As root the sandbox must work, for the set-up brings bubblewrap. A user whom this kernel lets make
no namespaces cannot run these tests, for innolab executes nothing there.
"""

import json
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from conftest import ROOT

from innolab import studies
from innolab.base.errors import InnolabError, InputError
from innolab.hosts import machine, tools
from innolab.report import folders, leftovers, recompute, render, sandbox

STUDY = "multi-buffer-pool"
LIMIT_S = 300


@pytest.fixture(scope="module", autouse=True)
def isolating() -> None:
    """Skip where an ordinary user may not isolate."""
    if os.geteuid() != 0:
        with tempfile.TemporaryDirectory() as place:
            notebook = Path(place) / "notebook.ipynb"
            notebook.touch()
            try:
                sandbox._prove(sandbox._walls(Path(place), notebook))
            except InputError as error:
                pytest.skip(str(error))


@pytest.fixture
def recorded() -> Iterator[Path]:
    """A copy of what a published report recorded, as `innolab verify` makes it."""
    source = folders.finished(STUDY)[-1]
    with tempfile.TemporaryDirectory(prefix="innolab-test-") as place:
        copy = Path(place) / source.name
        copy.mkdir()
        folders.copy_recorded(source, copy)
        yield copy


def hostile(place: Path, code: str) -> Path:
    """Return a notebook of the study's parameters and one hostile cell."""
    own = nbformat.read(render.source_of(studies.find(STUDY)), as_version=4)
    own.cells = [c for c in own.cells if "parameters" in c.metadata.get("tags", [])]
    assert own.cells
    # A report has verdicts, of whatever kind.
    verdicts = "import pathlib\npathlib.Path('verdicts.json').write_text('[]')\n"
    own.cells.append(nbformat.v4.new_code_cell(verdicts))
    own.cells.append(nbformat.v4.new_code_cell(code))
    source = place / "stranger.ipynb"
    nbformat.write(own, source)
    source.chmod(0o600)
    return source


def test_the_study_s_own_notebook_gives_what_it_gives_outside(recorded: Path) -> None:
    study = studies.find(STUDY)
    with tempfile.TemporaryDirectory() as place:
        outside = Path(place) / recorded.name
        outside.mkdir()
        folders.copy_recorded(recorded, outside)
        recompute.recompute(study, outside)
        sandbox.replay(STUDY, recorded, render.source_of(study), LIMIT_S)
        assert contents(recorded) == contents(outside)
    assert {"verdicts.json", "index.html", "notebook.ipynb", "runs.jsonl"} <= contents(
        recorded
    ).keys()
    assert {path.stat().st_uid for path in recorded.rglob("*")} == {os.geteuid()}


def contents(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


PROBES = '''
import ctypes, json, os, signal, socket, subprocess, time
from pathlib import Path

found = {}

def tried(name, action):
    """Note what an action gives, or the error that it meets."""
    try:
        found[name] = action()
    except BaseException as error:
        found[name] = f"{type(error).__name__}: {error}"

def called(name, *words):
    libc = ctypes.CDLL(None, use_errno=True)
    return getattr(libc, name)(*words) == 0

def forks():
    children = []
    try:
        while len(children) < 3000:
            if not (child := os.fork()):
                time.sleep(600)
                os._exit(0)
            children.append(child)
    except OSError:
        pass
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return len(children)

def capabilities():
    lines = Path("/proc/self/status").read_text().splitlines()
    return {n: v.strip() for n, v in (line.split(":", 1) for line in lines) if n in
            ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs")}

def connected(family, address):
    with socket.socket(family) as client:
        client.settimeout(5)
        client.connect(address)
    return True

def truncated():
    with open("large", "wb") as file:
        file.truncate(2**30)
    os.unlink("large")
    return True

def written(path):
    Path(path).write_text("mine")
    return True

tried("tcp", lambda: connected(socket.AF_INET, ("127.0.0.1", PORT)))
tried("abstract", lambda: connected(socket.AF_UNIX, "\\0" + ABSTRACT))
tried("interfaces", lambda: [name for _, name in socket.if_nameindex()])
tried("secret", lambda: Path(SECRET).read_text())
tried("homes", lambda: {p: os.listdir(p) for p in ("/root", "/home") if os.path.isdir(p)})
tried("project", lambda: os.listdir(PROJECT))
tried("shadow", lambda: Path("/etc/shadow").exists())
tried("environment", lambda: sorted(os.environ))
tried("uid", lambda: [os.getuid(), os.geteuid(), os.getgid(), *os.getgroups()])
tried("capabilities", capabilities)
tried("processes", lambda: sorted(int(p) for p in os.listdir("/proc") if p.isdigit())[-1])
tried("setuid", lambda: os.setuid(0))
tried("mount", lambda: called("mount", b"none", b"/tmp", b"tmpfs", 0, None))
tried("user namespace", lambda: subprocess.call(["unshare", "--user", "true"]) == 0)
for path in WRITES:
    tried("write " + path, lambda: written(path))
tried("forks", forks)
tried("memory", lambda: bool(bytearray(20 * 2**30)))
tried("file", truncated)
tried("own folder", lambda: written("probe.txt"))
tried("tmp", lambda: written("/tmp/x"))
Path("found.json").write_text(json.dumps(found))
'''


@pytest.fixture(scope="module")
def found() -> Iterator[dict[str, Any]]:
    """What a hostile notebook finds, with what it looks for within reach of any process outside."""
    source = folders.finished(STUDY)[-1]
    with (
        tempfile.TemporaryDirectory(prefix="innolab-secret-", dir="/var/tmp") as place,
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as abstract,
        pytest.MonkeyPatch.context() as patch,
    ):
        Path(place).chmod(0o755)
        secret = Path(place) / "secret"
        secret.write_text("secret")
        abstract.bind(f"\0innolab-test-{os.getpid()}")
        abstract.listen()
        patch.setenv("INNOLAB_TEST_PASSWORD", "secret")
        copy = Path(place) / "copy" / source.name
        copy.mkdir(parents=True)
        folders.copy_recorded(source, copy)
        project = str(ROOT)
        writes = [
            "/x", "/etc/x", "/usr/x", "/dev/x", "/report/x", "/source/x", "/var/tmp/x",
            f"{sys.prefix}/x", f"{project}/innolab/x", "plan.json", "runs.jsonl", "variables/x",
        ]  # fmt: skip
        names = {
            "PORT": server.getsockname()[1],
            "ABSTRACT": f"innolab-test-{os.getpid()}",
            "SECRET": str(secret),
            "PROJECT": project,
            "WRITES": writes,
        }
        code = "".join(f"{name} = {value!r}\n" for name, value in names.items()) + PROBES
        # The same probes would succeed outside: the listeners answer.
        for family, listener in ((socket.AF_INET, server), (socket.AF_UNIX, abstract)):
            with socket.socket(family) as client:
                client.connect(listener.getsockname())
        before = contents(copy)
        sandbox.replay(STUDY, copy, hostile(Path(place), code), LIMIT_S)
        after = contents(copy)
        assert {name: after[name] for name in before} == before
        said = json.loads(after["found.json"])
        said["writes"] = {path: said.pop(f"write {path}") for path in writes}
        yield said


@pytest.mark.thorough
def test_it_has_no_network(found: dict[str, Any]) -> None:
    assert found["interfaces"] == ["lo"]
    assert "refused" in found["tcp"] or "unreachable" in found["tcp"]
    assert "refused" in found["abstract"]


@pytest.mark.thorough
def test_it_sees_nothing_of_its_host(found: dict[str, Any]) -> None:
    assert found["secret"].startswith("FileNotFoundError")
    assert found["shadow"] is False
    assert set(found["project"]) <= {"innolab", "notebooks", "data", ".venv"}
    needed = {
        sys.prefix,
        sys.base_prefix,
        str(ROOT / "notebooks"),
        str(Path(sys.executable).resolve()),
    }
    for home, names in found["homes"].items():
        assert all(any(f"{p}/".startswith(f"{home}/{n}/") for p in needed) for n in names), names
    assert "INNOLAB_TEST_PASSWORD" not in found["environment"]
    assert not any("SSH" in name or "PROXY" in name.upper() for name in found["environment"])
    assert found["processes"] < 100, "it sees the processes of its host"


@pytest.mark.thorough
def test_it_has_no_rights(found: dict[str, Any]) -> None:
    assert 0 not in found["uid"]
    assert found["capabilities"].pop("NoNewPrivs") == "1"
    assert set(found["capabilities"].values()) == {"0" * 16}
    assert "Error" in found["setuid"]
    assert found["mount"] is False
    assert found["user namespace"] is False


@pytest.mark.thorough
@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user stays the same one")
def test_root_does_not_execute_it_as_root(found: dict[str, Any]) -> None:
    import pwd

    user = pwd.getpwnam(machine.SERVER_USER)
    assert set(found["uid"]) == {user.pw_uid, user.pw_gid}


@pytest.mark.thorough
def test_it_writes_in_its_folder_and_tmp_alone(found: dict[str, Any]) -> None:
    assert found["own folder"] is True and found["tmp"] is True
    assert {path: said for path, said in found["writes"].items() if "Error" not in str(said)} == {}
    assert not Path("/tmp/x").exists()


@pytest.mark.thorough
def test_it_is_bounded(found: dict[str, Any]) -> None:
    assert 10 < found["forks"] < 256
    assert found["memory"].startswith("MemoryError")
    assert "File too large" in found["file"]


def test_what_it_leaves_leads_nowhere(recorded: Path) -> None:
    code = (
        "import os, pathlib\n"
        "os.mkdir('figures')\n"
        "os.symlink('/etc/shadow', 'figures/x.svg')\n"
        "os.symlink('/', 'root')\n"
        "os.mkfifo('index.html.md')\n"
        "os.umask(0)\n"
        "open('tool', 'w').close(); os.chmod('tool', 0o6777)\n"
        "os.mkdir('locked'); os.symlink('/etc', 'locked/etc'); os.chmod('locked', 0)\n"
        "here = os.getcwd()\n"
        "for _ in range(1500):\n    os.mkdir('d'); os.chdir('d')\n"
        "os.chdir(here)\n"
    )
    with pytest.raises(InnolabError, match="neither a plain file nor a folder"):
        sandbox.replay(STUDY, recorded, hostile(recorded.parent, code), LIMIT_S)
    left = list(recorded.rglob("*"))
    assert not [path for path in left if path.is_symlink() or path.is_fifo()]
    assert max(len(path.relative_to(recorded).parts) for path in left) < 10
    assert (recorded / "tool").stat().st_mode & 0o7777 == 0o644
    assert not (recorded / "locked" / "etc").is_symlink()
    assert Path("/etc/shadow").stat().st_uid == 0


@pytest.mark.alone
@pytest.mark.thorough
def test_it_ends_with_all_it_started_when_its_time_is_over(recorded: Path) -> None:
    mark = f"7200.{os.getpid()}"
    code = (
        "import pathlib, subprocess, time\n"
        f"subprocess.Popen(['sleep', '{mark}'], start_new_session=True)\n"
        "pathlib.Path('started').touch()\n"
        "time.sleep(7200)\n"
    )
    began = time.monotonic()
    with pytest.raises(InnolabError, match="did not end within 30 s"):
        sandbox.replay(STUDY, recorded, hostile(recorded.parent, code), 30)
    assert time.monotonic() - began < 60
    assert (recorded / "started").exists(), "the limit was over before the notebook began"
    assert not [line for line in running() if mark in line or "stranger" in line]


def running() -> list[str]:
    """Return the command of each process of this host."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


@pytest.mark.thorough
def test_it_is_stopped_when_it_fills_the_disk(
    recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "MOST_LEFT_BYTES", 64 * 2**20)
    code = "import time\nopen('large', 'wb').write(bytes(2**27))\ntime.sleep(7200)\n"
    with pytest.raises(InnolabError, match="wrote more than"):
        sandbox.replay(STUDY, recorded, hostile(recorded.parent, code), LIMIT_S)


def test_its_error_is_quoted(recorded: Path) -> None:
    code = "raise ValueError('these are \\x1b[2J no runs')"
    with pytest.raises(InnolabError, match=r"ValueError: these are .* no runs") as caught:
        sandbox.replay(STUDY, recorded, hostile(recorded.parent, code), LIMIT_S)
    assert str(caught.value).isprintable()


def test_what_is_no_copy_or_no_notebook_is_not_executed(recorded: Path) -> None:
    link = recorded.parent / "link.ipynb"
    link.symlink_to(render.source_of(studies.find(STUDY)))
    with pytest.raises(InputError, match="not a regular file"):
        sandbox.replay(STUDY, recorded, link, LIMIT_S)
    (recorded / "series" / "more").symlink_to("/etc")
    with pytest.raises(InnolabError, match="series/more"):
        sandbox.replay(STUDY, recorded, link, LIMIT_S)


def test_without_a_sandbox_nothing_is_executed(
    recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = hostile(recorded.parent, "open('executed', 'w')")
    before = contents(recorded)
    monkeypatch.setenv("INNOLAB_CACHE", str(tmp_path))
    broken = tmp_path / "tools" / "bin" / "bwrap"
    broken.parent.mkdir(parents=True)
    broken.write_text("#!/bin/sh\necho 'bwrap: No permissions to make a namespace' >&2\nexit 1\n")
    broken.chmod(0o755)
    with pytest.raises(InputError, match=r"cannot isolate .*No permissions to make a namespace"):
        sandbox.replay(STUDY, recorded, source, LIMIT_S)
    broken.unlink()
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(InputError, match="apt install bubblewrap"):
        sandbox.replay(STUDY, recorded, source, LIMIT_S)
    assert contents(recorded) == before


def test_a_home_that_is_python_s_own_folder_is_not_shown(
    recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", sys.prefix)
    source = hostile(recorded.parent, "open('executed', 'w')")
    with pytest.raises(InputError, match="Set innolab up in a folder of its own"):
        sandbox.replay(STUDY, recorded, source, LIMIT_S)
    assert not (recorded / "executed").exists()


def test_setup_brings_bubblewrap() -> None:
    if not shutil.which("bwrap"):
        assert Path(tools.path("bwrap")).exists()
