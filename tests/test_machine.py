"""What the host says of itself, against another source; and the right to measure alone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from innolab.base.errors import InputError
from innolab.hosts import machine


@pytest.mark.alone
def test_one_process_measures_at_a_time_and_the_other_is_explained_who() -> None:
    with machine.measuring_alone():
        code = "from innolab.hosts import machine\nwith machine.measuring_alone(): pass"
        other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert other.returncode
        assert f"process {os.getpid()}" in other.stderr
        with pytest.raises(InputError), machine.measuring_alone():
            pass
    with machine.measuring_alone():
        pass


@pytest.mark.alone
def test_the_right_ends_with_a_killed_process() -> None:
    code = (
        "import os, signal\nfrom innolab.hosts import machine\n"
        "with machine.measuring_alone(): os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == -9
    with machine.measuring_alone():
        pass


def test_root_keeps_no_cache_in_its_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INNOLAB_CACHE", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert machine.cache_folder() == Path("/var/cache/innolab")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert machine.cache_folder() == Path("/somewhere/innolab")
    monkeypatch.setenv("INNOLAB_CACHE", "/elsewhere")
    assert machine.cache_folder() == Path("/elsewhere")
