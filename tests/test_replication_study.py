"""The study of replication: its arms and its model, a whole run, and what is left after kills."""

import contextlib
import math
import os
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import BIN, ROOT, Innolab, made_run, plan_of
from left_behind import left

from innolab import studies
from innolab.analysis import outcomes
from innolab.analysis.bounds import Record
from innolab.base.clock import Clock
from innolab.base.errors import InnolabError, InputError
from innolab.hosts import machine, network
from innolab.measure import prepare
from innolab.measure.session import opened
from innolab.mysql import replication
from innolab.mysql.builds import Build
from innolab.mysql.topology import star
from innolab.record.plan import Silent
from innolab.record.runs import RunSet
from innolab.storage import emulated
from innolab.studies import judging
from innolab.studies.experiment import Experiment, Trial
from innolab.studies.replication import failover, windows
from innolab.studies.replication.parameters import cases
from innolab.studies.replication.scaling import fitted

STUDY = studies.find("replication")
_NEEDS = network.why_impossible() or emulated.why_impossible()
needs_root = pytest.mark.skipif(_NEEDS is not None, reason=f"needs more: {_NEEDS}")
_KILLS = 200
_BY_MHA = ("kill", "cut")
# Checks that no other work on this host can fail.
_OWN = ("effective settings", "error log", "witness as told", "load without errors")


@pytest.mark.parametrize("effort", ["smoke", "quick", "reference"])
def test_every_case_is_an_arm_and_none_is_there_twice(effort: str) -> None:
    asked = Experiment.fresh(STUDY, {"effort": effort})
    arms = asked.arms_on("any")
    levels = [tuple(vars(arm).values()) for arm in arms]
    assert len(set(levels)) == len(levels) == len(cases(effort, tuple(asked.parameters.devices)))
    assert asked.control(arms).system == "spread"


def test_a_source_alone_has_all_work_and_replicas_share_the_reads() -> None:
    nodes = fitted(reads=100.0, writes=50.0, half=80.0)
    assert nodes.statements_per_s(1, 0.0) == pytest.approx(100)
    assert nodes.statements_per_s(0, 1.0) == pytest.approx(50)
    assert nodes.statements_per_s(1, 0.5) == pytest.approx(80)
    assert nodes.statements_per_s(8, 0.0) == pytest.approx(800)
    many = [nodes.statements_per_s(n, 0.1) for n in (1, 4, 16, 1000)]
    assert many == sorted(many) and many[-1] <= 500, "the source writes 50, a tenth of all"


@pytest.mark.parametrize(
    ("lost", "outcome"), [([0, 7, 0], "reproduced"), ([0, 0, 0], "inconclusive")]
)
def test_what_happened_once_may_happen_and_what_never_did_is_not_excluded(
    lost: list[int], outcome: str
) -> None:
    [claim] = [one for one in STUDY.claims() if one.id == "E5-kill"]
    factors = {**claim.where, "server": "x"}
    runs = [
        made_run(STUDY, Trial(block, block, factors), observations=[{"lost": number}])
        for block, number in enumerate(lost)
    ]
    assert claim.holds is not None
    judged = outcomes.finding(claim, claim.holds, RunSet(runs, {}), {}, STUDY.kind.units, 0.95)
    assert judged is not None and judged.outcome == outcome


def test_what_a_build_lacks_is_left_out_and_its_verdicts_say_why() -> None:
    whole = plan_of(STUDY, ["x"], effort="reference")
    chosen = replace(whole, lacking={"x": {"commit": {"semi-sync": "x has none of it"}}})
    restricted = Experiment.from_plan(chosen, STUDY)
    assert {t.factors["commit"] for t in Experiment.from_plan(whole, STUDY).trials} - {
        t.factors["commit"] for t in restricted.trials
    } == {"semi-sync"}
    found = {
        one.claim: one for one in judging.verdicts(restricted, RunSet([], {}, STUDY.kind.within))
    }
    assert str(found["H12-none-kill"].reason) == "x has none of it"
    assert "no run of the arms" in str(found["E3"].reason)
    # Plans were registered by their digests before there was such a thing.
    assert whole.sha256() == replace(whole, lacking={}).sha256() != chosen.sha256()


def test_rates_and_lags_follow_from_the_record() -> None:
    beats = [{"at_s": t / 10, "lag_s": t / 20} for t in range(1, 40)]
    load = {"within": {"write_share": 1.0}, "statements": 400, "writes": 300, "seconds": 4.0}
    beat = {"within": {"write_share": 1.0}, "window_s": 4, "beats": beats}
    kept = {**beat, "stopped_s": 4.0, "behind": 7}
    whole = {"statements_per_s": 200, "reads_per_s": 50, "writes_per_s": 150, "lag_s": 1.75,
             "lag_growth": 0.5}  # fmt: skip
    # The last beat of 3.9 s is shown 1.95 s later.
    more = {"catch_up_s": 1.85, "transactions_behind": 7}
    for row, expected in ((beat, whole), (kept, whole | more)):
        run: Any = SimpleNamespace(conditions={"loads": [load, load], "beats": [row]})
        bounds = {
            one.metric: (one.low + one.high) / 2
            for one in windows.evidence(Record(run, None, ()))
            if one.low > -math.inf
        }
        assert bounds == pytest.approx(expected, rel=1e-3)


def test_a_shape_says_who_takes_writes() -> None:
    shape = star(2, ["clients"])
    assert [name for name in shape.servers if shape.takes_writes(name)] == ["source"]


@pytest.mark.parametrize(
    ("version", "can"), [("5.6.24", True), ("8.0.36", True), ("8.4.0", False), ("9.7.4", False)]
)
def test_a_server_that_knows_the_old_words_no_more_cannot_be_managed_by_mha(
    version: str, can: bool
) -> None:
    build = Build(f"mysql-{version}", version, (), {}, None, "", "", "")
    why = failover.why_no_mha(build) or ""
    assert (f"SHOW SLAVE STATUS, which mysql-{version} does not know" in why) != can


@pytest.mark.parametrize(
    ("ids", "number"), [("", 0), ("a:1", 1), ("a:1-3:7,b:2-5", 8), ("a:tag:1-2", 2)]
)
def test_transactions_are_counted_in_their_ids(ids: str, number: int) -> None:
    assert replication.count(ids) == number


@pytest.fixture
def env() -> Iterator[dict[str, str]]:
    """A cache of its own that shares the host's builds and datasets."""
    place = Path(tempfile.mkdtemp(prefix="innolab-repl-", dir="/var/tmp"))
    place.chmod(0o755)
    for name in ("builds", "etc", "tools", "datasets"):
        (place / name).symlink_to(machine.cache_folder() / name)
    (place / "reports").mkdir()
    yield {"INNOLAB_CACHE": str(place), "INNOLAB_REPORTS": str(place / "reports")}
    shutil.rmtree(place)


def _networks() -> set[str]:
    """Return all networks that a process is in."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*/ns/net"):
        with contextlib.suppress(OSError):
            found.add(str(entry.readlink()))
    return found


@pytest.mark.alone
@pytest.mark.integration
@needs_root
def test_a_cut_of_power_loses_what_nobody_synced_and_nothing_else(folder: Path) -> None:
    with machine.measuring_alone():
        disk = emulated.raise_disk(folder / "disk", 400 * 1024**2)
        try:
            (disk.data / "synced").write_text("kept")
            subprocess.run(["sync", "--file-system", disk.data], check=True)
            (disk.data / "late").write_text("lost")
            disk.lose_power()
            with pytest.raises(OSError, match="Input/output error"):
                (disk.data / "more").write_text("no")
            disk.mount_again()
            assert (disk.data / "synced").read_text() == "kept"
            assert not (disk.data / "late").exists()
            # A disk that was only unmounted is no disk that lost its power.
            (disk.data / "not-synced").write_text("kept")
            with pytest.raises(InnolabError, match="no power was cut"):
                disk.mount_again()
        finally:
            emulated.lower_disk(folder / "disk")


@pytest.mark.alone
@pytest.mark.integration
@needs_root
def test_it_is_measured_rendered_and_verified(env: dict[str, str], innolab: Innolab) -> None:
    before = _networks()
    done = innolab("run", "replication", "--scale", "smoke", **env)
    assert done.returncode == 0, done.stderr
    report = Path(done.stdout.splitlines()[-1]).parent
    page = (report / "index.html").read_text()
    assert "Reads scale: four replicas read at least 2.5 times as much as one" in page
    verified = innolab("verify", str(report), **env)
    assert verified.returncode == 0, verified.stdout
    assert _networks() == before
    assert left(env["INNOLAB_CACHE"]) == []


@pytest.mark.alone
@pytest.mark.integration
@pytest.mark.thorough
@needs_root
@pytest.mark.parametrize(
    "levels",
    [{"system": "proxied"}, *({"moved_by": "mha", "fault": kind} for kind in _BY_MHA)],
    ids=lambda levels: levels.get("fault", "proxied"),
)
def test_arms_of_the_reference_alone_are_measured_and_valid(
    levels: dict[str, str], tmp_path: Path
) -> None:
    asked = Experiment.fresh(
        STUDY, {"scale": "smoke", "effort": "reference", "builds": ["mysql-5.6.24"]}
    )
    with machine.measuring_alone():
        ready = prepare.prepare(asked).with_plan(twins=[])
        [arm] = [vars(one) for one in ready.arms if levels.items() <= vars(one).items()]
        ready = ready.with_plan(arms=[arm])
        with opened(ready, tmp_path, Silent(), Clock()) as session:
            run = session.run(ready.trials[0])
    assert run.status == "complete", run.error
    assert not [one for one in run.checks if one.result == "invalid" and one.check in _OWN]
    if arm["system"] == "proxied":
        shares = {row["within"]["write_share"] for row in run.conditions["proxied"]}
        assert shares == {0.0, 0.1, 0.5, 1.0}
        assert all(row["reads_per_s"] > 0 for row in run.observations if row["write_share"] < 1)
    else:
        [row] = run.observations
        assert row["acknowledged"] > 0 and row["refused_present"] == 0
        assert row["holders"] == (2 if arm["fault"] == "cut" else 1)


@pytest.mark.alone
@pytest.mark.integration
@pytest.mark.thorough
@needs_root
def test_killed_at_any_moment_it_leaves_nothing(env: dict[str, str]) -> None:
    draw, before = random.Random(14), _networks()
    words = [BIN / "innolab", "run", "replication", "--scale", "smoke", "-p", "replicates=40"]
    for _ in range(_KILLS):
        run = subprocess.Popen(
            words, env={**os.environ, **env}, cwd=ROOT,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        time.sleep(draw.uniform(2.0, 15.0))
        run.kill()
        run.wait()
        deadline = time.monotonic() + 30
        while (left(env["INNOLAB_CACHE"]) or _networks() != before) and (
            time.monotonic() < deadline
        ):
            time.sleep(0.1)
        assert left(env["INNOLAB_CACHE"]) == []
        assert _networks() == before


@pytest.mark.skipif(os.geteuid() != 0, reason="drops root's rights, so it needs them")
def test_without_root_it_says_what_it_needs(env: dict[str, str]) -> None:
    words = ["setpriv", "--reuid=65534", "--clear-groups", str(BIN / "innolab"), "run"]
    done = subprocess.run(
        [*words, "replication", "--scale", "smoke"],
        env={**os.environ, **env, "HOME": "/tmp"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "network namespaces need root" in done.stderr


def test_one_disk_of_arms_is_not_shared_out_between_servers() -> None:
    with pytest.raises(InputError, match="names '15k-timed'; the devices are raid10-8x15k"):
        STUDY.check({"devices": ["15k-timed", "host"]})
