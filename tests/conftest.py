"""What the tests share: folders, runs made by hand, the command, a browser."""

import atexit
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import shared
from beside import pytest_collection_modifyitems as pytest_collection_modifyitems
from beside import pytest_runtest_protocol as pytest_runtest_protocol
from beside import pytest_runtestloop as pytest_runtestloop

from innolab import studies
from innolab.record.plan import Plan
from innolab.record.run import SCHEMA, Run
from innolab.report import manifest, render, rendering_code
from innolab.report.folders import MANIFEST_FILE
from innolab.studies.experiment import Experiment, Trial
from innolab.studies.multi_buffer_pool.parameters import IN_TURN
from innolab.studies.study import Study

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent
PLAYBOOKS = ROOT / "playbooks"
COLLECTIONS = PLAYBOOKS / "collections"
# Ansible puts a collection on the path for the modules that it runs.
sys.path.append(str(COLLECTIONS))
HOSTS = "ansible_collections.innolab.hosts"
COLLECTION = COLLECTIONS.joinpath(*HOSTS.split("."))


def reference(study: str) -> Path:
    """Return the folder of a study's newest report in the repository."""
    return sorted((ROOT / "reports" / study).glob(f"*/{MANIFEST_FILE}"))[-1].parent


@functools.cache
def todays(study: str) -> Path:
    """Return the folder of a study's newest report, rendered by the code under test."""
    kept = reference(study)
    found = studies.find(study)
    if rendering_code.difference(manifest.read(kept), found) is None:
        return kept
    place = Path(tempfile.mkdtemp(prefix="innolab-rendered-", dir="/var/tmp"))
    atexit.register(shutil.rmtree, place)
    made = place / kept.name
    shutil.copytree(kept, made)
    render.render(found, made)
    body = manifest.read(kept)
    manifest.write(found, made, found.read(made).runs, body["time_s"], body["rendered_from"])
    return made


def of_defaults(study: str) -> Path:
    """Return the folder of the report that a study's notebook shows, which names no effort."""
    kept = [p.parent for p in sorted((ROOT / "reports" / study).glob(f"*/{MANIFEST_FILE}"))]
    fitting = [folder for folder in kept if Plan.read(folder).parameters["effort"] is None]
    return (fitting or kept)[-1]


@pytest.fixture(scope="session")
def study() -> Study:
    return studies.find("multi-buffer-pool")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that an unprivileged user may enter, which pytest's own does not allow."""
    place = Path(tempfile.mkdtemp(prefix="innolab-test-", dir="/var/tmp"))
    place.chmod(0o755)
    yield place
    shutil.rmtree(place)


@pytest.fixture(scope="session")
def reports() -> Iterator[Path]:
    """A folder for the reports that tests make."""
    place = Path(tempfile.mkdtemp(prefix="innolab-reports-", dir="/var/tmp"))
    place.chmod(0o755)
    yield place
    shutil.rmtree(place)


Innolab = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def innolab() -> Innolab:
    """Run the installed command as a user would, in an environment changed by keywords."""

    def call(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [BIN / "innolab", *words],
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            cwd=ROOT,
            timeout=1200,
        )

    return call


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    """Chromium without a window.

    One for each file: while it is open its event loop is this thread's, and papermill needs that.
    """
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        found = playwright.chromium.launch(executable_path=shared.chromium(), args=flags)
        yield found
        found.close()


def made_observations(instances: int = 1, beside: str = "nothing") -> list[dict[str, Any]]:
    """Return what two passes of a scan give, one beside pages in use, or two servers in turn."""
    if beside in IN_TURN:
        return [{"side": side, "turn_seconds": 1.0, "cpu_s": 1.0} for side in ("own", "other")]
    first = {
        "pass": 1,
        "seconds": 2.0,
        "rows_per_s": 5e6,
        "cpu_s": 2.0,
        "kernel_cpu_s": 0.5,
        "read_bytes": 84_418 * 16384,
        "pages_read": 84_418,
    }
    second = {
        "pass": 2,
        "seconds": 1.0,
        "rows_per_s": 1e7,
        "cpu_s": 1.0,
        "kernel_cpu_s": 0.1,
        "read_bytes": 0,
        "pages_read": 0,
    }
    passes, kept = [first, second], {"pool_kept_ratio": 0.6}
    if beside != "nothing":
        hot = {"hot_pages": 2000, "hot_pages_read_again": 800, "hot_kept_ratio": 0.6}
        passes, kept = [first], hot
    by_instance = [
        {"pass": row["pass"], "instance": i, "instance_pages_read": row["pages_read"] // instances}
        for row in passes
        for i in range(instances)
    ]
    return [*passes, *by_instance, kept]


def made_run(study: Study, trial: Trial, **changes: Any) -> Run:
    """Return a complete and valid run of a trial as a session would record it."""
    instances = int(trial.factors.get("instances", 1))
    body = {
        "schema_": SCHEMA,
        "study": study.name,
        "spec_sha256": "0" * 64,
        "scale": "quick",
        "trial": trial.position,
        "block": trial.block,
        "factors": trial.factors,
        "observations": made_observations(instances, str(trial.factors.get("beside", "nothing"))),
        "conditions": made_conditions(),
        "checks": [],
        "series": None,
        "status": "complete",
        "error": None,
        "started_at": "2026-01-31T00:00:00.000+00:00",
        "ended_at": "2026-01-31T00:00:09.000+00:00",
    }
    return Run.model_validate({**body, **changes})


def made_conditions() -> dict[str, Any]:
    """Return conditions in which every check says ok, with the variables in `made_variables`."""
    return {
        "host": {"cores": 2, "virtual": False, "free_page_reporting": True, "memory_bytes": 2**35},
        "innolab": {"version": "0", "commit": "c" * 40, "dirty": False},
        "build": {"id": "b", "version": "9.9.9", "debug": False, "origin": "o", "sha256": "0" * 64},
        "dataset": {"rows": 10_000_000, "data_bytes": 1_378_877_440, "index_bytes": 1},
        "resident_pages_before_start": 0,
        "requested": {"innodb_buffer_pool_size": "128M", "loose_not_here": "1"},
        "variables": "0123456789abcdef",
        "scan_plan": {"type": "ALL", "key": None},
        "query_plan": {"path": "scan", "type": "ALL", "key": None, "extra": ""},
        "file": {"layout": "as loaded", "extents": 1},
        "tables_changed": None,
        "device": {
            "name": "raid10-8x15k",
            "calibration": {
                "read_per_s": 1600.0,
                "write_per_s": 800.0,
                "mixed_per_s": 2286.0,
                "synced_write_per_s": 400.0,
            },
            "emulated": {"backing": "memory"},
        },
        "loads": [made_load()],
        "steady": [made_window()],
        "table": {
            "format": "compressed",
            "key_block_kib": 4,
            "partitions": 3
            * [
                {
                    "row_format": "compressed",
                    "zip_page_bytes": 4096,
                    "options": "",
                    "file_bytes": 65536,
                    "allocated_bytes": 65536,
                }
            ],
        },
        "pieces": {"resumed_at_rows": 0, "again": ""},
        "usage": made_usage(),
        "predecessor": None,
        "memory_wanted_bytes": 2**30,
        "memory_held_bytes": 2**30,
        "probe": {
            "cpu_ops_per_s": 3000.0,
            "cpus_ops_per_s": 5000.0,
            "memory_bytes_per_s": 8e9,
            "disk_reads_per_s": 6000.0,
        },
        "error_log": {"errors": [], "warnings": []},
        "time_s": {"measured passes": 3.0},
    }


def made_load(**changes: Any) -> dict[str, Any]:
    """Return what is recorded of a window of a load."""
    return {
        "label": "read_only",
        "errors": 0,
        "reconnects": 0,
        "cpu_share": 0.2,
        "threads": 16,
        "transactions": 3000,
        "window_s": 30,
        "seconds": 30.1,
        "intervals": [{"t_s": float(t), "tps": 100.0} for t in range(1, 31)],
        **changes,
    }


def made_window(**changes: Any) -> dict[str, Any]:
    """Return what is recorded of how steady a window was, and of its device and redo log."""
    rates = {
        "reads_per_s": 1500.0,
        "writes_per_s": 700.0,
        "read_bytes_per_s": 1500.0 * 16384,
        "written_bytes_per_s": 700.0 * 16384,
    }
    return {
        "label": "read_only",
        "reached": True,
        "waited_s": 2,
        "drifts": {"tps": 0.01, "checkpoint_age_bytes": 0.0},
        "redo_before_bytes": 2**25,
        "redo_bytes": 2**23,
        "redo_log_bytes": 2**24,
        "pages_read": 15_000,
        "server_read_bytes": 15_000 * 16384,
        **rates,
        "most": {name: 1.05 * rate for name, rate in rates.items()},
        **changes,
    }


def made_usage(**changes: float) -> dict[str, float]:
    """Return what is recorded of what else a host did."""
    return {
        "swapped_pages": 0,
        "steal_share": 0.0,
        "others_share": 0.0,
        "others_cpus": 0.0,
        "watched_s": 10.0,
        "device_bytes": 10**9,
        "foreign_read_bytes": 0,
        "foreign_written_bytes": 10**7,
        **changes,
    }


def made_variables() -> dict[str, str]:
    """Return the server variables that go with `made_conditions`."""
    return {
        "innodb_buffer_pool_size": str(128 * 2**20),
        "innodb_buffer_pool_dump_at_shutdown": "OFF",
        "innodb_buffer_pool_load_at_startup": "OFF",
    }


def planned(study: Study, builds: list[str], **parameters: Any) -> list[Trial]:
    """Return the trials of a plan without twins, on builds that need not exist."""
    return Experiment.from_plan(plan_of(study, builds, **parameters), study).trials


def plan_of(study: Study, builds: list[str], **parameters: Any) -> Plan:
    """Return a plan without twins, on builds that need not exist."""
    return replace(Experiment.fresh(study, parameters).plan, builds=builds)
