"""Outputs of load generators as people keep and paste them: read right, or refused by name."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT

from innolab.base.errors import InnolabError, InputError
from innolab.tables import load_outputs, table
from innolab.tables.description import About
from innolab.tables.sysbench_output import FailedRunError

_OUTPUTS = ROOT / "tests" / "fixtures" / "outputs"
_RELEASES = ["0.4", "0.5", "1.1"]


def _output(release: str) -> str:
    return (_OUTPUTS / f"sysbench-{release}.txt").read_text()


def _rates(text: str) -> dict[str, float]:
    return {name: value for name, (value, _) in load_outputs.read(text).metrics.items()}


def _each_line(change: Callable[[str], str]) -> Callable[[str], str]:
    return lambda text: "\n".join(map(change, text.splitlines()))


_PASTED = {
    "as it was": lambda text: text,
    "no indentation": _each_line(str.strip),
    "single blanks": _each_line(lambda line: " ".join(line.split())),
    "a time in front": _each_line("2026-01-31T10:00:00.123456789Z {}".format),
    "a container in front": _each_line("bench-1  | {}".format),
    "quoted": _each_line("> {}".format),
    "a table": _each_line("| {} |".format),
    "colours": _each_line("\x1b[32m{}\x1b[0m".format),
    "Windows": lambda text: text.replace("\n", "\r\n"),
    "twice, as by tee and a log": lambda text: text + text,
    "after a preparation": lambda text: (
        f"{text.splitlines()[0]}\n\nCreating table 'sbtest1'...\nInserting 1000 records\n{text}"
    ),
}


@pytest.mark.parametrize("pasted", _PASTED)
@pytest.mark.parametrize("release", _RELEASES)
def test_a_finished_run_is_read_whatever_its_release_and_however_it_was_pasted(
    release: str, pasted: str
) -> None:
    found = _rates(_PASTED[pasted](_output(release)))
    assert found == {"tps": 250.0, "qps": {"0.4": 5250.0}.get(release, 5000.0)}


@pytest.mark.parametrize("release", ["0.5", "1.1"])
@pytest.mark.parametrize("pasted", [name for name in _PASTED if "twice" not in name])
def test_its_seconds_are_read_too(release: str, pasted: str) -> None:
    found = load_outputs.read(_PASTED[pasted](_output(release)))
    assert found.seconds == [(5.0, 240.0), (10.0, 260.0)]


def test_a_pasted_excerpt_without_the_time_gives_the_rate_that_is_printed() -> None:
    assert _rates("transactions:                        2500   (250.00 per sec.)") == {"tps": 250.0}


@pytest.mark.parametrize("release", _RELEASES)
def test_several_runs_in_one_file_are_refused_and_none_is_taken(release: str) -> None:
    warm_up = _output(release).replace("2500 ", "1000 ").replace("5000   (250", "1000   (50")
    for text in (warm_up + _output(release), _output(release) + warm_up):
        with pytest.raises(InnolabError, match=r"holds 2 results .* separate file"):
            load_outputs.read(text)


@pytest.mark.parametrize("release", _RELEASES)
def test_a_warm_up_is_no_result_of_the_run_that_died_after_it(release: str) -> None:
    died = _output(release).partition("OLTP test statistics")[0].partition("SQL statistics")[0]
    with pytest.raises(InnolabError, match="2 runs of sysbench and the result of one"):
        load_outputs.read(_output(release) + died + "FATAL: Lost connection to MySQL server\n")


def test_interval_lines_that_begin_again_are_of_another_run() -> None:
    lines = "".join(f"[ {t}s ] thds: 4 tps: {t}.00 qps: 1.00\n" for t in (1, 2, 3, 1, 2))
    with pytest.raises(InnolabError, match="2 runs of sysbench"):
        load_outputs.read(lines + "transactions: 2500 (250.00 per sec.)")


@pytest.mark.parametrize("release", _RELEASES)
def test_a_run_that_died_is_a_failed_one_and_its_last_words_are_quoted(release: str) -> None:
    died = _output(release).partition("OLTP test statistics")[0].partition("SQL statistics")[0]
    with pytest.raises(FailedRunError, match=r"did not finish .* Lost connection"):
        load_outputs.read(f"{died}FATAL: Lost connection to MySQL server\n")


@pytest.mark.parametrize("text", ["", "\n\n", "FATAL: unable to connect to MySQL server\n",
                                  "Vuser 1:Beginning rampup\nHammerDB CLI v4.9\n"])  # fmt: skip
def test_nothing_and_a_refused_connection_are_failed_runs(text: str) -> None:
    with pytest.raises(FailedRunError):
        load_outputs.read(text)


def _other_test(*lines: str) -> str:
    end = "General statistics:\n    total time:     10.0s\n    total number of events:  99\n"
    return "\n".join(["sysbench 1.0.20 (using system LuaJIT 2.1.0)", *lines, end])


_NOT_READ = {
    "sysbench's test fileio": _other_test("File operations:", "    reads/s:   1200.00"),
    "sysbench's test cpu": _other_test("CPU speed:", "    events per second:   900.00"),
    "sysbench's test memory": _other_test("Running memory speed test with the following options:"),
    "another test than OLTP": _other_test("Number of threads: 4"),
    "mysqlslap": "Benchmark\n\tAverage number of seconds to run all queries: 1.25 seconds\n",
    "tpcc-mysql": "*** ###easy### TPC-C Load Generator ***\n<TpmC>\n   812.000 TpmC\n",
    "fio": '{"fio version": "fio-3.36", "jobs": []}',
    "pgbench": "pgbench (16.1)\ntps = 123.4 (without initial connection time)\n",
    "YCSB": "[OVERALL], Throughput(ops/sec), 1250.5\n",
    "BenchBase": '{"Throughput (requests/second)": 812.5}',
    "go-tpc": "[Summary] NEW_ORDER - Takes(s): 59.9, Count: 810, TPM: 811.2\n",
    "another test than TPROC-C": "HammerDB CLI v4.9\nVuser 1:Completed 1 query set(s) in 88 s\n",
}


@pytest.mark.parametrize("named", _NOT_READ)
def test_what_is_not_read_is_named_and_no_failed_run(named: str) -> None:
    with pytest.raises(InnolabError, match=re.escape(named)) as refused:
        load_outputs.read(_NOT_READ[named])
    assert not isinstance(refused.value, FailedRunError)
    assert "did not finish" not in str(refused.value)


def test_what_nobody_knows_is_quoted() -> None:
    with pytest.raises(InnolabError, match="it begins with 'Hello, world'"):
        load_outputs.read("\nHello, world\nmore\n")


@pytest.mark.parametrize("tool", ["MySQL", "MariaDB", "SQL Server", "PostgreSQL"])
@pytest.mark.parametrize("form", ["{n} NOPM from {t} {tool} TPM", "{t} {tool} TPM at {n} NOPM"])
def test_hammerdb_of_old_and_of_today(tool: str, form: str) -> None:
    line = "Vuser 1:TEST RESULT : System achieved " + form
    text = "HammerDB CLI\n" + line.format(n=28000, t=84000, tool=tool)
    assert _rates(text) == {"nopm": 28000.0, "tpm": 84000.0}
    with pytest.raises(InnolabError, match=r"2 results of HammerDB .* separate file"):
        load_outputs.read(text + "\n" + line.format(n=28001, t=84000, tool=tool))


def test_each_row_names_its_own_output(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(_output("1.1"))
    path = tmp_path / "t.csv"
    path.write_text("engine,threads,output\nA,1,a.txt\nA,8,a.txt\nB,1,\n")
    with pytest.raises(InputError, match=r"rows 2 and 3 name the same output 'a.txt'"):
        table.read(path, About(), with_outputs=True)
