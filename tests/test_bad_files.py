"""Every kind of file that a user can give, damaged, through the command's own entry point.

It does its work, or says in one paragraph what is wrong and ends with 1 or 2; it never traces back.
A run of the tests draws a few of each kind, `make test-all` more than ten thousand; both without
chance: the same each time.
"""

import contextlib
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import command
import pytest
from conftest import ROOT, reference
from damage import HOSTILE, VALUES, damaged, damaged_bytes, damaged_words, examples
from hypothesis import given
from hypothesis import strategies as st

from innolab import studies
from innolab.hosts import playbooks
from innolab.tables import judged_page

REPORT = reference("replication")
_STUDY = "multi-buffer-pool"
_FEW = 12

_TABLE = """engine,threads,replicate,tps (1/s),p95 (ms),output,source
A,16,1,1000,10,,t1
A,16,2,1010,10.2,,t1
B,16,1,1005,10.1,,t1
B,16,2,1012,9.9,,t1
A,32,1,1500,20,,"t2, more"
B,32,1,1900,15,,t2
"""
_JSON = json.dumps(
    [{"engine": e, "of": {"tps (1/s)": v, "n": 1}, "series": [1, 2]}
     for e, v in (("A", 1000), ("A", 1010), ("B", 900), ("B", 1900.5))]
)  # fmt: skip
_ABOUT = """title: a table
source: "somewhere, 2026"
metrics: {tps: {unit: 1/s, better: higher}, p95: ms}
factors: {engine: null, threads: threads}
ranked: engine
repeated_by: [replicate]
notes: ["*"]
output: output
"""
_CLAIMS = """- id: X1
  says: "With {threads} threads B does more than A"
  stands: published
  source: "the abstract"
  published: {value: 1.2}
  compare: {metric: tps, of: {engine: B}, to: {engine: A}}
  each: {threads: [16, 32]}
  holds: {at_least: 1.1}
- id: X2
  says: "All alike"
  stands: hypothesis
  compare: {metric: p95, of: {engine: B, threads: 16}, to: {engine: A, threads: 16}}
  holds: {at_least: 0.9, at_most: 1.1}
"""
_OPTIONS = """# a comment
[client]
host = 127.0.0.1
port=3306
user=me
password="se#cret"
ssl-ca=ca.pem
ssl-mode=VERIFY_CA
[mysql]
socket=/nowhere/mysqld.sock
"""
_STYLE = """font.family: serif
font.size: 9
figure.figsize: 4, 3
axes.prop_cycle: cycler('color', ['r'])
"""
_WORDS = [
    *HOSTILE, "-1", "0", "1e400", "nan", "\0", "\x1b[2J", "\u202e", "\ud800", "=1+1", "", " ",
    "../../etc/passwd", "/dev/zero", "/etc/shadow", "*", "&a [*a]", "!!python/object:os.system",
    "{{ 1 }}", "[client", "!include /etc", "!includedir /", "%(x)s", "%", "9" * 400, "a: b: c",
    "tps (1/s)", '"', "'", "[", "]", "{", "- ", ",", ",,,,", "\n", "\r\n", "\ufeff", "<<: 1",
    "engine", "A", "A-B", "2026-99-99", "0x10", "1_000", "٣", "${x}",
]  # fmt: skip


def _text(text: str) -> st.SearchStrategy[bytes]:
    return damaged_words(text, _WORDS) | damaged_bytes(text.encode())


class Kind(NamedTuple):
    """A kind of file: how it is damaged, what it is given to, and how often in `make test-all`."""

    damage: st.SearchStrategy[bytes]
    give: Callable[[Path, bytes], command.Done]
    many: int


def _size(place: Path, data: bytes) -> command.Done:
    path = place / "client.cnf"
    path.write_bytes(data)
    # Whatever host is named: nobody is asked for it.
    with mock.patch.object(socket, "getaddrinfo", side_effect=OSError("no network")):
        return command.called("size", "--defaults-file", str(path), "--seconds", "5")


def _judge(place: Path, name: str, data: bytes, *words: str) -> command.Done:
    for own, text in (("table.csv", _TABLE), ("about.yml", _ABOUT), ("claims.yml", _CLAIMS)):
        (place / own).write_text(text)
    (place / name).write_bytes(data)
    # Of a table that can be judged all is computed; its page alone is not drawn.
    with mock.patch.object(judged_page, "write", lambda _, folder: (folder / "index.html").touch()):
        done = command.called("judge", *words)
    shutil.rmtree(os.environ["INNOLAB_REPORTS"], ignore_errors=True)
    return done


def _table(name: str) -> Callable[[Path, bytes], command.Done]:
    return lambda place, data: _judge(place, name, data, str(place / name))


def _beside(name: str, option: str) -> Callable[[Path, bytes], command.Done]:
    return lambda place, data: _judge(
        place, name, data, str(place / "table.csv"), option, str(place / name)
    )


def _output(place: Path, data: bytes) -> command.Done:
    table = "engine,replicate,output\n" + "".join(
        f"{e},{n},{e}{n}.txt\n" for e in "AB" for n in (1, 2)
    )
    for name, sound in {"A2": _ANOTHER, "B1": _ANOTHER, "B2": _SYSBENCH}.items():
        shutil.copy(sound, place / f"{name}.txt")
    (place / "A1.txt").write_bytes(data)
    return _judge(place, "runs.csv", table.encode(), str(place / "runs.csv"))


def _style(place: Path, data: bytes) -> command.Done:
    path = place / "own.mplstyle"
    path.write_bytes(data)
    # With a format that there is not, so that nothing is drawn where the style can be used.
    name = next((REPORT / "figures").glob("*.svg")).stem
    return command.called("figure", str(REPORT), name, "--style", str(path), "--format", "gif")


def _parameter(place: Path, data: bytes) -> command.Done:
    name, _, text = data.decode(errors="replace").partition("=")
    return command.called("plan", _STUDY, "--scale", "smoke", "-p", f"{name}={text}")


def _hosts(place: Path, data: bytes) -> command.Done:
    (place / "hosts.yml").write_text("all: {}\n")
    says = subprocess.CompletedProcess([], 0, data.decode(errors="replace"), "")
    with mock.patch.object(playbooks.subprocess, "run", return_value=says):
        return command.called("run", _STUDY, "--scale", "smoke", "-p", "builds=mysqld",
                              "-p", f"inventory={place}/hosts.yml", "-p", "host=r900")  # fmt: skip


def _of_report(name: str, verb: str) -> Callable[[Path, bytes], command.Done]:
    """Return what reads a report of which one file is damaged, beside its sound copy."""

    def give(place: Path, data: bytes) -> command.Done:
        report = place / "replication" / REPORT.name
        if not report.exists():
            shutil.copytree(REPORT, report)
        path = next(report.glob(name))
        sound = path.read_bytes()
        path.write_bytes(data)
        words = {
            "verify": ["verify", str(report)],
            "compare": ["compare", str(REPORT), str(report)],
        }
        try:
            return command.called(*words[verb])
        finally:
            path.write_bytes(sound)

    return give


def _in_report(name: str, verb: str, many: int) -> Kind:
    sound = next(REPORT.glob(name)).read_bytes()
    damage = damaged(sound.decode()) if name.endswith(".json") else damaged_bytes(sound)
    return Kind(damage, _of_report(name, verb), many)


_SYSBENCH = ROOT / "tests" / "fixtures" / "sysbench-1.0.20-oltp_read_only.txt"
_ANOTHER = _SYSBENCH.with_name("sysbench-1.0.20-oltp_read_write.txt")
_NAMES = list(studies.find(_STUDY).parameters.model_fields)
_SAID = {
    "inventory_hostname": "r900", "is_database_host": True, "ansible_host": "r900.example.org",
    "ansible_port": 22, "ansible_user": "root", "ansible_ssh_private_key_file": None,
    "ansible_ssh_common_args": "-o BatchMode=yes", "emulator_pid": 4711, "storage_disk_iops": 175,
    "storage_disks": [{"id": "wwn-1", "serial": "A1", "size_bytes": 2**31}],
    "emulator_accelerator": "kvm",
}  # fmt: skip
_PARAMETERS = st.tuples(
    st.sampled_from(_NAMES) | st.text(max_size=8),
    st.sampled_from(_WORDS) | VALUES | st.text(max_size=40),
).map(lambda pair: "=".join(pair).encode("utf-8", "replace"))

KINDS = {
    "option file": Kind(_text(_OPTIONS), _size, 2500),
    "table": Kind(_text(_TABLE), _table("table.csv"), 1500),
    "table as JSON": Kind(damaged(_JSON), _table("table.json"), 1000),
    "about": Kind(_text(_ABOUT), _beside("about.yml", "--about"), 1200),
    "claims": Kind(_text(_CLAIMS), _beside("claims.yml", "--claims"), 1200),
    "output": Kind(_text(_SYSBENCH.read_text()), _output, 600),
    "style": Kind(_text(_STYLE), _style, 400),
    "parameter": Kind(_PARAMETERS, _parameter, 1000),
    "inventory": Kind(
        damaged(json.dumps({"plays": [{"tasks": [{"hosts": {"r900": {"msg": _SAID}}}]}]})),
        _hosts, 600,
    ),
    "plan": _in_report("plan.json", "verify", 150),
    "runs": _in_report("runs.jsonl", "verify", 150),
    "series": _in_report("series.parquet", "verify", 50),
    "manifest": _in_report("manifest.json", "compare", 150),
    "compared plan": _in_report("plan.json", "compare", 100),
    "compared runs": _in_report("runs.jsonl", "compare", 100),
}  # fmt: skip


@pytest.fixture(autouse=True)
def reports_of_its_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("INNOLAB_REPORTS", str(folder / "reports"))
    with contextlib.chdir(folder):
        yield


def _tried(kind: Kind, place: Path, count: int) -> dict[int, int]:
    """Give damaged files of a kind, and return how often each exit status came."""
    ended: dict[int, int] = {}

    @examples(count)
    @given(kind.damage)
    def give(data: bytes) -> None:
        done = kind.give(place, data)
        command.explained(done)
        ended[done.status] = ended.get(done.status, 0) + 1

    give()
    return ended


@pytest.mark.parametrize("name", KINDS)
def test_a_damaged_file_is_explained(name: str, folder: Path) -> None:
    ended = _tried(KINDS[name], folder, _FEW)
    assert ended.get(2, 0) + ended.get(1, 0), "nothing was refused, so nothing was damaged"


@pytest.mark.thorough
@pytest.mark.parametrize("name", KINDS)
def test_many_damaged_files_are_explained(name: str, folder: Path) -> None:
    _tried(KINDS[name], folder, KINDS[name].many)


def test_the_many_are_ten_thousand() -> None:
    assert sum(kind.many for kind in KINDS.values()) >= 10_000


@pytest.mark.parametrize("name", ["table", "about", "claims", "output"])
def test_what_is_not_damaged_is_judged(name: str, folder: Path) -> None:
    """Or all of it would be refused for another reason."""
    sound: dict[str, Any] = {
        "table": _TABLE,
        "about": _ABOUT,
        "claims": _CLAIMS,
        "output": _SYSBENCH.read_text(),
    }
    done = KINDS[name].give(folder, sound[name].encode())
    assert done.status == 0, done.err
