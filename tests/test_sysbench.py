"""sysbench's words and its output, read from captures of real runs of release 1.0.20."""

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import ROOT
from scipy.stats import chisquare

from innolab.analysis import cache_misses
from innolab.base.errors import InnolabError
from innolab.bench import sysbench
from innolab.bench.sysbench import Workload
from innolab.hosts import machine
from innolab.hosts.local import HERE

FIXTURES = ROOT / "tests" / "fixtures"


def _captured(name: str) -> str:
    return (FIXTURES / f"sysbench-1.0.20-{name}.txt").read_text()


def test_a_run_is_read_whole() -> None:
    found = sysbench.parse(_captured("oltp_read_write"))
    assert (found.transactions, found.queries) == (5788, 115_760)
    assert (found.errors, found.reconnects) == (0, 0)
    assert found.tps == pytest.approx(1925.84, rel=1e-3)
    assert len(found.intervals) == 3
    assert found.intervals[0].threads == 4


@pytest.mark.parametrize("name", ["oltp_read_only", "oltp_read_write"])
def test_our_percentile_is_the_one_that_sysbench_prints(name: str) -> None:
    text = _captured(name)
    printed = float(text.split("99th percentile:")[1].split()[0])
    found = sysbench.parse(text).percentiles_ms
    assert found[99] == pytest.approx(printed, abs=0.01)
    assert found[50] < found[95] < found[99]


def test_both_spellings_of_errors_are_read() -> None:
    """Releases differ in a colon; the one without is the capture with its colon taken out."""
    with_colon = _captured("oltp_read_write")
    without = with_colon.replace("err/s:", "err/s").replace("reconn/s:", "reconn/s")
    assert "err/s:" in with_colon
    assert without != with_colon
    assert sysbench.intervals(without) == sysbench.intervals(with_colon)
    wrong = with_colon.replace("err/s: 0.00 reconn/s: 0.00", "err/s: 1.50 reconn/s: 0.25")
    assert sysbench.intervals(wrong)[0].errors_per_s == 1.5
    assert sysbench.intervals(wrong)[0].reconnects_per_s == 0.25


@pytest.mark.parametrize("cut", ["transactions:", "ignored errors:", "total time:", " |"])
def test_a_run_that_did_not_finish_is_no_result(cut: str) -> None:
    with pytest.raises(InnolabError, match="did not finish"):
        sysbench.parse(_captured("oltp_read_only").replace(cut, ""))


def test_the_reason_of_a_refusal_is_quoted_once() -> None:
    said = sysbench.last_words(_captured("too-many-connections"))
    assert said.count("Too many connections") == 1


@pytest.mark.parametrize("distribution", sysbench.DISTRIBUTIONS)
def test_the_distribution_is_always_explicit(
    distribution: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("innolab.hosts.machine.tool", lambda name: f"/x/{name}")
    server: Any = SimpleNamespace(socket="/s", folder=tmp_path, host=HERE)
    words = sysbench.argv(Workload("read_only", 10, 2, distribution, 7), server, "run")
    assert words[0] == "/x/sysbench"
    assert words[-1] == "run"
    assert [w for w in words if w.startswith("--rand-type=")]
    assert "--rand-seed=7" in words
    own_script = words[1].endswith("zipf.lua")
    assert own_script == (distribution == "zipf")


@pytest.mark.integration
def test_our_script_draws_from_zipfs_law(tmp_path: Path) -> None:
    """Of a real sysbench: 300,000 ids in twenty bins, against the law that the model takes."""
    script = tmp_path / "draw.lua"
    script.write_text(
        f'dofile("{Path(sysbench.__file__).with_name("zipf.lua")}")\n'
        "prepare_statements = nil\n"
        "function thread_init() end\n"
        "function thread_done() end\n"
        "function event() for i = 1, 1000 do print(sysbench.rand.default(1, 100000)) end end\n"
    )
    words = [machine.tool("sysbench"), str(script), "--rand-seed=1", "--events=300", "--time=0"]
    said = subprocess.run(
        [*words, "run"], capture_output=True, text=True, cwd="/",
        env={**os.environ, "INNOLAB_OLTP": "oltp_read_only"},
    ).stdout  # fmt: skip
    drawn = [int(line) for line in said.splitlines() if line.isdigit()]
    assert len(drawn) == 300_000
    assert min(drawn) >= 1
    assert max(drawn) <= 100_000
    counts = np.bincount([(n - 1) * 20 // 100_000 for n in drawn], minlength=20)
    law = cache_misses.popularity("zipf", 20, 100_000)
    assert chisquare(counts, law * len(drawn)).pvalue > 0.001
