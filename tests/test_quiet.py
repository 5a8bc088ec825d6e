"""Whether a host is said to be too busy before the first trial."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from innolab.hosts.local import HERE
from innolab.measure import quiet

_SPIN = "while True: pass"


@pytest.fixture
def busy() -> Iterator[None]:
    """Keep every processor busy, by processes that are not ours to count: they have not ended."""
    spinning = [subprocess.Popen([sys.executable, "-c", _SPIN]) for _ in range(HERE.cores)]
    yield
    for process in spinning:
        process.kill()
        process.wait()


def test_a_busy_host_is_said_and_not_waited_for(busy: None) -> None:
    said: list[str] = []
    quiet.awaited(said.append, wait=False)
    assert len(said) == 1
    assert "too busy to measure: other processes used" in said[0]
    assert "--wait" in said[0]


def test_what_disturbs_a_host_is_judged_by_the_checks_of_runs(busy: None) -> None:
    found = quiet.noise()
    assert found is not None
    assert found.is_too_much
