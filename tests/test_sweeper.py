"""The process beside a session: it removes what a killed one left, and nothing else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from innolab.hosts import machine
from innolab.mysql import datasets

# It looks whether anybody measures on this host.
pytestmark = pytest.mark.alone


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """A folder that a session left in its cache."""
    folder = tmp_path / datasets.WORK
    (folder / "clones").mkdir(parents=True)
    return folder


def _beside(cache: Path) -> "subprocess.Popen[bytes]":
    """Start it beside a session's process that is no more."""
    started = subprocess.Popen(
        [sys.executable, "-P", "-m", "innolab.measure.sweeper", "0"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={**os.environ, "INNOLAB_CACHE": str(cache)},
    )  # fmt: skip
    assert started.stdout is not None and started.stdout.read(5) == b"ready"
    return started


def test_it_removes_what_is_left_when_the_other_dies_without_a_word(left: Path) -> None:
    beside = _beside(left.parent)
    assert left.exists()
    beside.communicate(timeout=30)
    assert beside.returncode == 0
    assert not left.exists()


def test_it_leaves_all_as_it_is_when_it_is_dismissed(left: Path) -> None:
    beside = _beside(left.parent)
    beside.communicate(b"done", timeout=30)
    assert beside.returncode == 0
    assert left.exists()


def test_it_leaves_all_to_a_session_that_has_begun_meanwhile(left: Path) -> None:
    beside = _beside(left.parent)
    with machine.measuring_alone():
        beside.communicate(timeout=30)
    assert beside.returncode == 0
    assert left.exists()


def test_two_never_remove_at_once(left: Path) -> None:
    beside = _beside(left.parent)
    assert beside.stdin is not None
    with machine.clearing_alone():
        beside.stdin.close()
        with pytest.raises(subprocess.TimeoutExpired):
            beside.wait(1)
        assert left.exists()
    assert beside.wait(30) == 0
    assert not left.exists()
    assert beside.stdout is not None
    beside.stdout.close()
