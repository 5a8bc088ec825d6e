"""Hostile input to every reader: one paragraph that says what to do, never a traceback.

The damage is drawn by hypothesis, without chance: every run of the tests draws the same.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from conftest import Innolab, reference
from damage import DEEP, HOSTILE, VALUES, damaged, damaged_bytes, damaged_json, examples, places
from hypothesis import given
from hypothesis import strategies as st

from innolab import studies
from innolab.base.errors import InnolabError, InputError
from innolab.base.provenance import own_facts
from innolab.cli.options import parameters_of
from innolab.hosts import inventory, machine, playbooks
from innolab.record import journal, runlog
from innolab.record.plan import PLAN_FILE
from innolab.record.runlog import RunLog, SessionStart
from innolab.report import folders, manifest
from innolab.studies.experiment import Experiment

REPORT = reference("multi-buffer-pool")
STUDY = studies.find("multi-buffer-pool")


def _explained(action: Callable[[], object]) -> None:
    """Do what may only return, or be refused in one paragraph."""
    try:
        action()
    except InnolabError as refusal:
        said = str(refusal)
        assert 10 < len(said) < 2000, said[:2500]
        assert "\n" not in said, said


_PLAN = (REPORT / PLAN_FILE).read_text()
_MANIFEST = (REPORT / folders.MANIFEST_FILE).read_text()
_VARIABLES = sorted((REPORT / "variables").iterdir())[0]


@examples(900)
@given(damaged(_PLAN))
def test_a_damaged_plan_is_explained(folder: Path, damage: bytes) -> None:
    (folder / PLAN_FILE).write_bytes(damage)

    def read() -> None:
        assert Experiment.read(folder, STUDY).plan_sha256

    _explained(read)


@examples(900)
@given(damaged(_MANIFEST))
def test_a_damaged_manifest_is_explained(folder: Path, damage: bytes) -> None:
    (folder / folders.MANIFEST_FILE).write_bytes(damage)
    _explained(lambda: manifest.seal_of(manifest.read(folder)))


def _lines() -> list[str]:
    """A log as today's innolab writes it: a session, two of the report's runs, an older one."""
    runs = STUDY.read(REPORT).runs
    session = SessionStart(
        began_at="2026-01-31T00:00:00Z",
        plan_sha256="0" * 64,
        claims_sha256="0" * 64,
        trials=2,
        blocks=1,
        innolab=own_facts(),
    )
    bodies = [
        {"schema": 1, "session": session.model_dump(mode="json")},
        *(run.body() for run in runs[:2]),
    ]
    # And one of the schema before, which is read too.
    bodies.append(json.loads((REPORT / runlog.FILE).read_text().splitlines()[2]))
    return [json.dumps({**body, "before": "0" * 64}) for body in bodies]


_LINES = _lines()
_LINE_PLACES = [places(json.loads(line)) for line in _LINES]


@st.composite
def _damaged_log(draw: st.DrawFn) -> bytes:
    """Draw a log with a damaged line, lines in another order, or other bytes."""
    lines = list(_LINES)
    number = draw(st.integers(0, len(lines) - 1))
    how = draw(st.sampled_from(["json", "json", "bytes", "line", "order"]))
    if how == "json":
        lines[number] = draw(damaged_json(_LINES[number], _LINE_PLACES[number]))
    elif how == "line":
        lines.insert(number, draw(st.sampled_from(HOSTILE) | VALUES))
    elif how == "order":
        lines = draw(st.lists(st.sampled_from(lines), max_size=5))
    data = ("\n".join(lines) + "\n").encode("utf-8", "surrogatepass")
    return draw(damaged_bytes(data)) if how == "bytes" else data


def _read_log(folder: Path) -> None:
    log = RunLog(folder / runlog.FILE, STUDY.kind.upgrade)
    entries, _ = log.entries()
    runlog.faults(entries)
    runlog.by_session(entries)
    log.load()


@examples(1000)
@given(_damaged_log())
def test_a_damaged_log_is_explained_and_stays_as_it_is(folder: Path, damage: bytes) -> None:
    (folder / runlog.FILE).write_bytes(damage)
    _explained(lambda: _read_log(folder))
    assert (folder / runlog.FILE).read_bytes() == damage


@examples(500)
@given(st.data())
def test_a_damaged_set_of_runs_is_explained(folder: Path, data: st.DataObject) -> None:
    (folder / "variables").mkdir(exist_ok=True)
    variables, log = _VARIABLES.read_bytes(), ("\n".join(_LINES) + "\n").encode()
    if data.draw(st.booleans()):
        variables = data.draw(damaged(_VARIABLES.read_text()))
    else:
        log = data.draw(_damaged_log())
    (folder / "variables" / _VARIABLES.name).write_bytes(variables)
    (folder / runlog.FILE).write_bytes(log)
    _explained(lambda: STUDY.read(folder))


_JOURNAL = json.dumps(
    {
        "trial": "a",
        "place": "b",
        "checkpoint": {
            "rows": 5,
            "last_key": 5,
            "checksum": 7,
            "segments": [{"rows": 5, "percentiles_ms": {"95": 1.5}}],
            "samples": [[{"t_s": 0.5, "rows": 5}]],
        },
    }
)


@examples(700)
@given(damaged(_JOURNAL))
def test_a_damaged_journal_is_explained(folder: Path, damage: bytes) -> None:
    (folder / journal.FILE).write_bytes(damage)

    def read() -> None:
        journal.settle(folder, ["another"])
        begun = journal.Journal(folder, "a", folder, lasting=True)
        begun.data.mkdir(parents=True, exist_ok=True)
        begun.checkpoint()
        begun.why_again()

    _explained(read)


_ANSWER = {
    "inventory_hostname": "r900",
    "is_database_host": True,
    "ansible_host": "r900.example.org",
    "ansible_port": 22,
    "ansible_user": "root",
    "ansible_ssh_private_key_file": None,
    "ansible_ssh_common_args": "-o BatchMode=yes",
    "storage_disks": [{"id": "wwn-1", "serial": "A1", "size_bytes": 2**31}] * 2,
    "storage_disk_iops": 175,
    "emulator_pid": 4711,
    "emulator_accelerator": "kvm",
}
_ANSIBLE_SAYS = json.dumps({"plays": [{"tasks": [{"hosts": {"r900": {"msg": _ANSWER}}}]}]})


def _asked(stdout: str, status: int = 0) -> inventory.Named:
    """Return a host as `find` does where Ansible says this."""
    done = subprocess.CompletedProcess([], status, stdout, "")
    with mock.patch.object(playbooks.subprocess, "run", return_value=done):
        return inventory.find("example-r900", "r900")


def test_what_an_inventory_says_is_taken() -> None:
    found = _asked(_ANSIBLE_SAYS)
    assert found.address.options == ("-o", "BatchMode=yes")
    assert found.disks == _ANSWER["storage_disks"]


@examples(900)
@given(damaged(_ANSIBLE_SAYS), st.sampled_from([0, 0, 0, 2]))
def test_a_hostile_inventory_is_explained(damage: bytes, status: int) -> None:
    _explained(lambda: _asked(damage.decode(errors="replace"), status))


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("storage_disks", 5, "'storage_disks' is 5 but should be a valid list"),
        ("storage_disks", None, "'storage_disks' is None"),
        ("storage_disks", [5], "'storage_disks[0]' is 5"),
        ("storage_disks", [{"id": "a", "serial": "b"}], "'storage_disks[0].size_bytes' is missing"),
        ("storage_disks", [{"id": "a", "serial": 5, "size_bytes": 5}], "[0].serial' is 5 but"),
        ("storage_disks", [{"id": "a", "serial": "b", "size_bytes": 0}], "greater than 0"),
        ("ansible_port", 70000, "less than or equal to 65535"),
        ("ansible_port", "ssh", "'ansible_port' is 'ssh' but should be a valid integer"),
        ("ansible_ssh_common_args", "-o 'x", "no closing quotation"),
        ("ansible_host", "a\0b", "printable text"),
        ("ansible_ssh_private_key_file", "~nosuchuser/key", "There is no ssh key"),
        ("ansible_ssh_private_key_file", "/" + "x" * 5000, "There is no ssh key"),
        ("storage_disk_iops", "many", "'storage_disk_iops' is 'many'"),
        ("emulator_pid", "qemu", "'emulator_pid' is 'qemu'"),
        ("inventory_hostname", "another", "is not in the group database_hosts"),
    ],
)
def test_a_wrong_variable_is_explained(variable: str, value: object, said: str) -> None:
    answer = {"plays": [{"tasks": [{"hosts": {"r900": {"msg": {**_ANSWER, variable: value}}}}]}]}
    with pytest.raises(InputError) as refusal:
        _asked(json.dumps(answer))
    assert said in str(refusal.value)


@pytest.mark.parametrize(
    "name", ["", "all", "*", "a:b", "!x", "~re", "a[1:3]", "-i", "a b", "a\n", "@file", "ä"]
)
def test_a_pattern_is_no_host(name: str) -> None:
    with pytest.raises(InputError, match="does not name one host"):
        inventory.find("example-r900", name)


def test_several_hosts_are_not_one() -> None:
    many = {"plays": [{"tasks": [{"hosts": {"a": {"msg": 1}, "b": {"msg": 2}}}]}]}
    with pytest.raises(InputError, match="is 2 hosts there"):
        _asked(json.dumps(many))


# Parameters -----------------------------------------------------------------------------------

_NAMES = [name for study in studies.names() for name in studies.find(study).parameters.model_fields]
_TEXTS = [
    *("2026-99-99", "0b_", "!!bool x", "!!int ''", "!!binary x", ".nan", ".inf", "-.inf", "*a"),
    *("{a: 1, a: 2}", "[a]: b", "{? [a] : b}", '"\\0"', '["\\ud800"]', '{"\\ud800": 1}', "<<: 1"),
    *("9" * 4000, "9" * 5000, "0x" + "f" * 4000, "1:" * 1500 + "00.5", "x" * 100_000),
    *("[" * 2000, "[" * 2000 + "]" * 2000, "{a: " * 900, "- " * 2000, "\ud800", "a: b: c", "\x85"),
    "{a: &a [x,x], b: &b [*a,*a], c: &c [*b,*b]}",
    "a0: &a0 {k: 1}\n"
    + "\n".join(f"a{n}: &a{n} {{<<: [{','.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, 9)),
]


@examples(800)
@given(
    st.sampled_from(studies.names()),
    st.sampled_from(_NAMES) | st.text(max_size=8),
    st.sampled_from(_TEXTS)
    | st.text(max_size=60)
    | st.text(alphabet="[]{}&*!|>-:#,'\"%@`?~ \n0x1e.9a<=T", max_size=60)
    | VALUES,
)
def test_a_hostile_parameter_is_explained(name: str, parameter: str, text: str) -> None:
    study = studies.find(name)

    def read() -> None:
        study.check(parameters_of(study, "quick", [f"{parameter}={text}"]))

    _explained(read)


def _bomb() -> Any:
    found: Any = ["x"] * 9
    for _ in range(30):
        found = [found] * 9
    return found


def _well() -> Any:
    found: Any = []
    for _ in range(100_000):
        found = [found]
    return found


_VALUES_BY_NAME: dict[str, Callable[[], Any]] = {
    "bomb": _bomb,
    "bombs by name": lambda: {"a": _bomb()},
    "well": _well,
    "long": lambda: 10**5000,
    "bytes": lambda: b"x",
    "number as key": lambda: {5: 5},
}


@pytest.mark.parametrize("name", _VALUES_BY_NAME)
def test_a_hostile_value_is_shown_short(name: str) -> None:
    value = _VALUES_BY_NAME[name]()
    for study in map(studies.find, studies.names()):
        for field in study.parameters.model_fields:
            with pytest.raises(InputError) as refusal:
                study.check({field: value})
            assert len(str(refusal.value)) < 2000


# The installed command ------------------------------------------------------------------------

_RUN = ("run", "multi-buffer-pool", "--scale", "smoke", "-p")
_WORDS = {
    "long integer": ("rows=" + "9" * 5000, "5,000 characters, and 4,096 are the most"),
    "large integer": ("rows=" + "9" * 4000, "less than or equal to"),
    "deep": ("builds=" + "[" * 2000, "more than 50 lists and mappings"),
    "bomb": (f"rows={_TEXTS[-2]}", "should be a valid integer"),
    "date": ("seed=2026-99-99", "'seed' is '2026-99-99'"),
    "not a number": ("rows=.nan", "'rows' is nan"),
    "infinite": ("rows=.inf", "'rows' is inf"),
    "surrogate": ("builds=\udcff", "printable text"),
    "nul": ('builds=["\\0"]', "printable text"),
    "tag": ("seed=!!bool x", "should be a valid integer"),
    "long": ("builds=" + "x" * 100_000, "characters, and 4,096 are the most"),
    "many": ("builds=[" + "1," * 2000 + "]", "should be a valid string"),
    "name": ("\udcff=5", "is no parameter"),
}


def _refused(innolab: Innolab, folder: Path, *words: str) -> str:
    """Return what the command says where it refuses and writes nothing."""
    watched = [folder, *(machine.cache_folder() / name for name in ("datasets", "work"))]
    before = {path for place in watched for path in place.rglob("*")}
    done = innolab(*words, INNOLAB_REPORTS=str(folder / "reports"))
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert len(done.stderr) < 2000
    assert done.stderr.count("\n") == 1
    assert {path for place in watched for path in place.rglob("*")} == before
    return done.stderr


@pytest.mark.integration
@pytest.mark.parametrize("name", _WORDS)
def test_the_command_refuses_a_parameter(innolab: Innolab, folder: Path, name: str) -> None:
    word, said = _WORDS[name]
    assert said in _refused(innolab, folder, *_RUN, word)


_HOSTS = """
database_hosts:
  hosts:
    db1:
      ansible_host: 192.0.2.1
      %s
    db2:
"""
_INVENTORIES = {
    "number": ("storage_disks: 5", "'storage_disks' is 5"),
    "null": ("storage_disks: null", "'storage_disks' is None"),
    "quoting": ('ansible_ssh_common_args: "-o \'x"', "no closing quotation"),
    "jinja": ("storage_disks: '{{ 5 | nosuch }}'", "nosuch"),
    "port": ("ansible_port: 99999", "65535"),
    "yaml": ("ansible_port: [", "says nothing of the host 'db1'"),
    "long number": ("storage_disk_iops: " + "9" * 5000, "says nothing of the host 'db1'"),
    "no number": ("storage_disk_iops: .nan", "should be a finite number"),
}


def _ask(innolab: Innolab, folder: Path, path: Path, host: str = "db1") -> str:
    words = ("run", "raid-comparison", "-p", f"inventory={path}", "-p", f"host={host}")
    return _refused(innolab, folder, *words)


@pytest.mark.integration
@pytest.mark.parametrize("name", _INVENTORIES)
def test_the_command_refuses_what_an_inventory_says(
    innolab: Innolab, folder: Path, name: str
) -> None:
    line, said = _INVENTORIES[name]
    (folder / "hosts.yml").write_text(_HOSTS % line)
    assert said in _ask(innolab, folder, folder / "hosts.yml")


@pytest.mark.integration
@pytest.mark.parametrize("host", ["all", "*", "db1:db2", "database_hosts"])
def test_the_command_refuses_a_host_pattern(innolab: Innolab, folder: Path, host: str) -> None:
    (folder / "hosts.yml").write_text(_HOSTS % "ansible_user: root")
    assert "host" in _ask(innolab, folder, folder / "hosts.yml", host)


@pytest.mark.parametrize("place", [".", "inside"])
def test_an_inventory_is_not_executed(folder: Path, place: str) -> None:
    program = folder / "inventory" / place / "hosts"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\ntouch {folder}/executed\necho '{{}}'\n")
    program.chmod(0o755)
    for path in {program, folder / "inventory"}:
        with pytest.raises(InputError, match=r"it is executable, so Ansible would.*chmod -x"):
            inventory.find(str(path), "db1")
    assert not (folder / "executed").exists()
    with (
        mock.patch.dict(os.environ, {inventory.PROGRAMS_ALLOWED: "1"}),
        pytest.raises(InputError, match="says nothing of the host"),
    ):
        inventory.find(str(program), "db1")
    assert (folder / "executed").exists()


def test_what_is_no_inventory_is_explained(folder: Path) -> None:
    (folder / "link").symlink_to(folder / "nowhere")
    os.mkfifo(folder / "pipe")
    (folder / "empty" / ".git").mkdir(parents=True)
    (folder / "empty" / ".git" / "hook").touch(0o755)
    for name, said in (
        ("link", "leads nowhere"),
        ("pipe", "no regular file"),
        ("empty", "holds no file"),
        ("none", "There is no inventory"),
        ("x" * 5000, "There is no inventory"),
        ("a\0b", "There is no inventory"),
        ("a,b", "There is no inventory"),
    ):
        with pytest.raises(InputError, match=said):
            inventory.find(f"{folder}/{name}", "db1")
    for name in ("", "..", ".", "-i"):
        with pytest.raises(InputError, match="There is no inventory"):
            inventory.find(name, "db1")


def test_an_inventory_is_found_from_where_one_stands(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "my").mkdir()
    (folder / "my" / "hosts.yml").write_text(_HOSTS % "ansible_port: 2222")
    monkeypatch.chdir(folder)
    assert inventory.find("my/hosts.yml", "db1").address.port == 2222


@pytest.mark.integration
@pytest.mark.parametrize("name", [PLAN_FILE, folders.MANIFEST_FILE, runlog.FILE])
@pytest.mark.parametrize("damage", ["[" * DEEP + "]" * DEEP, "5"], ids=["deep", "number"])
def test_the_command_tells_a_damaged_report(
    innolab: Innolab, folder: Path, name: str, damage: str
) -> None:
    report = folder / REPORT.name
    shutil.copytree(REPORT, report)
    (report / name).write_text(damage + "\n")
    before = {path: path.read_bytes() for path in report.rglob("*") if path.is_file()}
    done = innolab("verify", str(report))
    # Without its manifest a folder is no report; all else is a fault of one.
    assert done.returncode == (2 if name == folders.MANIFEST_FILE else 1)
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1
    assert name in done.stdout + done.stderr
    assert {path: path.read_bytes() for path in report.rglob("*") if path.is_file()} == before
