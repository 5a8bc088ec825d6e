"""JupyterLab in a real browser: Run All replays, the explorer answers, measuring shows progress."""

import hashlib
import json
import os
import re
import secrets
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from conftest import BIN, ROOT, of_defaults, reference
from playwright.sync_api import Browser, Page, expect

from innolab.base import parsing

# A loaded machine may take that long for anything; nothing here waits for a time.
_PATIENCE_MS = 180_000
expect.set_options(timeout=_PATIENCE_MS)
_SETTINGS = {
    # All cells are in the page, and not those alone that the window shows.
    "notebook-extension/tracker": {"windowingMode": "none"},
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "docmanager-extension/plugin": {"autosave": False},
}
# Of an error, and of what goes to the standard error output.
_ERRORS = '[data-mime-type="application/vnd.jupyter.stderr"]'
_NONE_WAITS = """() => {
  const prompts = [...document.querySelectorAll('.jp-Notebook .jp-CodeCell .jp-InputArea-prompt')];
  const texts = prompts.map(prompt => prompt.textContent);
  return texts.some(text => /\\d/.test(text)) && !texts.some(text => text.includes('*'));
}"""


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    opened.set_default_timeout(_PATIENCE_MS)
    yield opened
    opened.close()


Opened = Callable[[Path], str]


@pytest.fixture
def lab(tmp_path: Path, folder: Path) -> Iterator[Opened]:
    """JupyterLab on loopback with a token. Takes a notebook and gives the address that opens it.

    Reports are those in the folder's `reports`; settings, kernels' files and all else are its own.
    """
    root, runtime = tmp_path / "notebooks", tmp_path / "runtime"
    root.mkdir()
    for name, body in _SETTINGS.items():
        file = tmp_path / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(body))
    token = secrets.token_hex(16)
    words = [
        "--no-browser", "--allow-root", "--ip=127.0.0.1", "--port=0",
        f"--ServerApp.root_dir={root}", f"--IdentityProvider.token={token}",
        f"--LabApp.user_settings_dir={tmp_path / 'settings'}",
        f"--LabApp.workspaces_dir={tmp_path / 'workspaces'}",
    ]  # fmt: skip
    own = {name: str(tmp_path / name.lower()) for name in ("JUPYTER_CONFIG_DIR", "IPYTHONDIR")}
    env = {**os.environ, **own, "JUPYTER_RUNTIME_DIR": str(runtime)}
    env["INNOLAB_REPORTS"] = str(folder / "reports")
    env.pop("INNOLAB_MEASURE", None)
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(
            [BIN / "jupyter", "lab", *words], env=env, cwd=tmp_path, stdout=log, stderr=log
        )
    try:
        address = _address(server, runtime, tmp_path / "log")

        def opened(notebook: Path) -> str:
            shutil.copy(notebook, root / notebook.name)
            return f"{address}lab/tree/{notebook.name}?token={token}"

        yield opened
    finally:
        server.terminate()
        try:
            server.wait(60)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _address(server: "subprocess.Popen[bytes]", runtime: Path, log: Path) -> str:
    """Return where a server listens, as it says itself once it does."""
    file = runtime / f"jpserver-{server.pid}.json"
    end = time.monotonic() + _PATIENCE_MS / 1000
    while not file.exists():
        if server.poll() is not None or time.monotonic() > end:
            pytest.fail(f"JupyterLab does not start: {log.read_text()[-2000:]}")
        time.sleep(0.1)
    while not (text := file.read_text()).strip().endswith("}"):
        time.sleep(0.1)
    return str(json.loads(text)["url"])


def _open_and_run_all(page: Page, address: str) -> None:
    """Open a notebook and choose Run All Cells, as a reader does."""
    # Before there is a kernel the page calls it idle too: it is there once a channel to it is open.
    with page.expect_websocket(lambda socket: "/channels" in socket.url):
        page.goto(address)
    while not _has_kernel(
        page.request.get(f"{address.partition('lab/tree')[0]}api/sessions").json()
    ):
        page.wait_for_timeout(100)
    page.locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]').wait_for(state="attached")
    page.locator("#jp-MainMenu .lm-MenuBar-itemLabel", has_text=re.compile("^Run$")).click()
    page.locator(".lm-Menu-itemLabel", has_text=re.compile("^Run All Cells$")).click()


def _has_kernel(sessions: list[dict[str, Any]]) -> bool:
    kernels = [session["kernel"] for session in sessions]
    return any(k["connections"] and k["execution_state"] == "idle" for k in kernels)


def _wait_until_all_ran(page: Page) -> None:
    """Wait until no cell runs or is due; after an error those that follow are neither."""
    page.wait_for_function(_NONE_WAITS)
    assert page.locator(_ERRORS).all_inner_texts() == []
    prompts = page.locator(".jp-Notebook .jp-CodeCell .jp-InputArea-prompt").all_inner_texts()
    assert all(re.search(r"\d", prompt) for prompt in prompts), prompts


def _digests(folder: Path) -> dict[str, tuple[int, str]]:
    """Return the time and the digest of each file, and the time of each folder."""
    return {
        str(path): (
            path.stat().st_mtime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
        )
        for path in sorted([folder, *folder.rglob("*")])
    }


def _recorded(folder: Path, source: Path) -> Path:
    """Copy a report to where the reports lie; return the copy."""
    return Path(shutil.copytree(source, folder / "reports" / source.parent.name / source.name))


def _notebook(tmp_path: Path, *cells: str) -> Path:
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    made.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}
    }
    path = tmp_path / "made.ipynb"
    nbformat.write(made, path)
    return path


def test_run_all_shows_what_is_recorded_and_writes_no_report(
    page: Page, lab: Opened, folder: Path
) -> None:
    report = _recorded(folder, of_defaults("replication"))
    before = _digests(folder / "reports")
    _open_and_run_all(page, lab(ROOT / "notebooks" / "replication.ipynb"))
    _wait_until_all_ran(page)
    drawn = page.locator(".jp-OutputArea figure svg")
    expect(drawn).to_have_count(len(list((report / "figures").glob("*.svg"))))
    for number in range(drawn.count()):
        drawn.nth(number).scroll_into_view_if_needed()
        box = drawn.nth(number).bounding_box()
        assert box
        assert min(box["width"], box["height"]) > 100
    rows = page.locator(".jp-OutputArea table.verdicts tbody tr")
    claims = {verdict["claim"] for verdict in parsing.json_file(report / "verdicts.json")}
    expect(rows).to_have_count(len(claims))
    expect(rows.first).to_contain_text(re.compile("reproduced|contradicted"))
    notice = page.get_by_text("and nothing is measured")
    expect(notice).to_contain_text(f"this shows the report replication/{report.name}")
    expect(page.get_by_text("To measure with the parameters above")).to_be_visible()
    assert _digests(folder / "reports") == before


def test_a_study_without_a_report_says_so_in_the_cell(
    page: Page, lab: Opened, folder: Path, tmp_path: Path
) -> None:
    cell = "study = innolab.open_study('multi-buffer-pool', {'builds': ['/no/such/mysqld']})"
    _open_and_run_all(page, lab(_notebook(tmp_path, f"import innolab\n{cell}", "1 + 1")))
    error = page.locator(_ERRORS)
    expect(error).to_have_count(1)
    expect(error).to_contain_text("No report of multi-buffer-pool is recorded")
    assert "Traceback" not in error.inner_text()
    assert "opening.py" not in error.inner_text()
    assert not (folder / "reports").exists()


def test_the_explorer_shows_another_metric_when_it_is_chosen(
    page: Page, lab: Opened, folder: Path, tmp_path: Path
) -> None:
    _recorded(folder, reference("multi-buffer-pool"))
    _recorded(folder, of_defaults("replication"))
    _open_and_run_all(page, lab(_notebook(tmp_path, "import innolab\ninnolab.explore()")))
    picture = page.locator(".jp-OutputArea svg[role=img]")
    expect(picture).to_have_attribute("aria-label", re.compile(r"^seconds \(s\) over .* points of"))
    seconds = picture.inner_html()
    metric = page.get_by_label("metric", exact=True)
    metric.select_option("cpu_s by pass")
    expect(picture).to_have_attribute("aria-label", re.compile(r"^cpu_s \(s\) over"))
    assert picture.inner_html() != seconds
    expect(picture.get_by_text("cpu_s (s)", exact=True)).to_be_visible()
    points = picture.locator("use > title").count()
    table = page.locator(".widget-html table tbody tr")
    expect(table).to_have_count(points)
    linear = picture.inner_html()
    page.get_by_label("y logarithmic").check()
    page.wait_for_function(
        "before => document.querySelector('svg[role=img]').innerHTML !== before", arg=linear
    )
    page.get_by_label("study", exact=True).select_option("replication")
    expect(picture).not_to_have_attribute("aria-label", re.compile("^cpu_s"))
    options: Any = metric.locator("option").all_inner_texts()
    assert "cpu_s by pass" not in options


_MEASURES = """import innolab
study = innolab.open_study("device-io", {"scale": "smoke", "devices": ["host"]})
runs = study.measure(anew=True)"""
_DRAWS = """import seaborn as sns
every = study.runs.frame("pattern", "depth")
grid = sns.relplot(every, x="depth", y="per_s", hue="pattern")
study.publish(grid, "rates", every, caption="Operations a second.", alt="A point each.")"""


@pytest.mark.alone
@pytest.mark.integration
def test_measuring_shows_the_count_and_the_time_left_and_then_the_figure(
    page: Page, lab: Opened, folder: Path, tmp_path: Path
) -> None:
    _open_and_run_all(page, lab(_notebook(tmp_path, _MEASURES, _DRAWS)))
    progress = page.locator(".innolab-progress")
    page.locator(f".innolab-progress, {_ERRORS}").first.wait_for()
    assert page.locator(_ERRORS).all_inner_texts() == []
    expect(progress).to_contain_text(re.compile(r"[12]/3 · .* left · block 1: "))
    expect(progress.get_by_role("progressbar")).to_have_attribute("max", "3")
    _wait_until_all_ran(page)
    expect(progress).to_have_count(0)
    expect(page.get_by_text("3 of 3 runs are recorded.")).to_be_visible()
    expect(page.locator(".jp-OutputArea figure#rates svg")).to_have_count(1)
    [begun] = (folder / "reports" / "device-io").glob("*.unfinished")
    assert (begun / "figures" / "rates.svg").exists()
    assert len((begun / "runs.jsonl").read_text().splitlines()) == 1 + 3
