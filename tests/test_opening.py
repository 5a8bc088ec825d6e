"""Opening a notebook: it shows what is recorded, and measures and writes nothing unasked."""

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pandas as pd
import papermill
import pytest
from conftest import ROOT, of_defaults, reference
from papermill.exceptions import PapermillExecutionError

from innolab import notebook, studies
from innolab.base.errors import InnolabError, InputError
from innolab.measure import opening
from innolab.record.plan import Plan
from innolab.report import folders
from innolab.studies.experiment import Experiment
from innolab.studies.study import Study

_NAME = "multi-buffer-pool"
_BUILDS = ["mysql-5.6.24", "mysql-9.7"]


@pytest.fixture
def reports(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., dict[str, str]]:
    """A reports' folder of copies; a notebook is open elsewhere. Gives what lies in the folder."""
    monkeypatch.setenv("INNOLAB_REPORTS", str(folder))
    monkeypatch.delenv("INNOLAB_MEASURE", raising=False)
    monkeypatch.chdir(tmp_path)

    def digests(**copied: Path) -> dict[str, str]:
        for version, source in copied.items():
            name = version.removeprefix("v").replace("_", "-")
            shutil.copytree(source, folder / source.parent.name / name)
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        return {str(f): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}

    return digests


def _edited(folder: Path, **parameters: Any) -> None:
    plan = Plan.read(folder)
    plan.parameters.update(parameters)
    plan.write(folder)


def _planned(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every host be able to measure, without looking what it has."""

    def prepare(asked: Experiment) -> Experiment:
        return asked

    for module in (opening, notebook):
        monkeypatch.setattr(module, "prepare", prepare)


def test_opening_shows_the_report_of_these_parameters_and_writes_nothing(
    reports: Callable[..., dict[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    source = reference(_NAME)
    before = reports(v2026_01_01_1=source, v2026_01_02_1=source)
    effort = Plan.read(source).parameters["effort"]
    book = notebook.open_study(_NAME, {"effort": effort})
    runs = book.measure()
    assert len(runs)
    assert book.verdicts().found
    picture = pd.DataFrame({"x": [1], "seconds": [2.0]})
    book.publish(picture.plot(), "trend", picture, caption="A trend.", alt="One point.")
    assert (book.folder / "figures" / "trend.csv").exists()
    assert not book.folder.is_relative_to(folders.reports_folder())
    assert reports() == before
    said = capsys.readouterr().out
    assert "this shows the report `multi-buffer-pool/2026-01-02-1`, and nothing is measured" in said
    assert "other parameters" not in said
    assert "`study.measure(anew=True)`; this report took" in said


def test_what_a_notebook_wrote_goes_with_it(reports: Callable[..., dict[str, str]]) -> None:
    reports(v2026_01_01_1=reference(_NAME))
    book = notebook.open_study(_NAME, {})
    place = book.folder
    assert (place / "runs.jsonl").exists()
    del book
    assert not place.exists()


def test_defaults_show_the_newest_report_and_say_how_it_differs(
    reports: Callable[..., dict[str, str]],
) -> None:
    source = reference(_NAME)
    assert Plan.read(source).parameters["effort"] is not None
    reports(v2026_01_01_1=source, v2026_01_02_1=source, v2026_01_03_1=source)
    # Of another size: shown only where there is no report of the notebook's own.
    _edited(folders.reports_folder() / _NAME / "2026-01-03-1", scale="paper")
    found = notebook.open_study(_NAME, {}).opened
    assert found is not None
    assert found.report is not None
    assert found.report.name == "2026-01-02-1"
    assert "with other parameters than those above: `effort` was '" in found.says
    assert "min', not None." in found.says


def test_a_report_that_fits_is_taken_before_a_newer_one_that_does_not(
    reports: Callable[..., dict[str, str]],
) -> None:
    source = of_defaults("replication")
    reports(v2026_01_01_1=source, v2026_01_02_1=source)
    _edited(folders.reports_folder() / "replication" / "2026-01-01-1", effort=None)
    _edited(folders.reports_folder() / "replication" / "2026-01-02-1", threads=16)
    found = notebook.open_study("replication", {}).opened
    assert found is not None
    assert found.report is not None
    assert found.report.name == "2026-01-01-1"
    assert "other parameters" not in found.says


def test_devices_that_the_host_of_a_report_could_not_have_are_no_difference(study: Study) -> None:
    asked = Experiment.fresh(study, {})
    recorded = Experiment.fresh(study, {"devices": ["host"]})
    assert list(opening.differing(recorded, asked)) == ["devices"]
    recorded = recorded.with_plan(missing_devices={"s3-disk": "not root"})
    assert opening.differing(recorded, asked) == {}


def test_what_only_asks_of_the_results_is_as_the_notebook_has_it(
    reports: Callable[..., dict[str, str]],
) -> None:
    source = reference("more-memory")
    reports(v2026_01_01_1=source)
    given = {**Plan.read(source).parameters, "buy_data_gb": 512.0}
    book = notebook.open_study("more-memory", given)
    assert book.opened is not None
    assert "other parameters" not in book.opened.says
    assert book.parameters.buy_data_gb == 512.0
    assert len(book.measure())


def test_other_parameters_say_what_there_is_and_how_to_measure(
    reports: Callable[..., dict[str, str]], study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    _planned(study, monkeypatch)
    before = reports(v2026_01_01_1=reference(_NAME))
    book = notebook.open_study(_NAME, {"scale": "smoke", "replicates": 2})
    with pytest.raises(InputError) as refused:
        book.measure()
    said = str(refused.value)
    assert said.startswith("No report of multi-buffer-pool with these parameters is recorded.")
    assert "multi-buffer-pool/2026-01-01-1 with scale = 'quick', effort = " in said
    assert "To measure it here: study.measure(anew=True). It may take " in said
    assert "minutes, by the times in multi-buffer-pool/2026-01-01-1." in said
    assert reports() == before


def test_a_study_without_a_report_says_so(
    reports: Callable[..., dict[str, str]], study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    _planned(study, monkeypatch)
    with pytest.raises(InputError, match=r"No report of multi-buffer-pool is recorded in .*anew"):
        notebook.open_study(_NAME, {}).measure()
    budget = notebook.open_study(_NAME, {"effort": "25min"})
    with pytest.raises(InputError, match="It takes up to 25 minutes"):
        budget.measure()
    assert reports() == {}


def test_a_host_that_cannot_measure_says_both(
    reports: Callable[..., dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepare(*_: Any) -> Experiment:
        raise InputError("None of the builds asked for is available on this host.")

    monkeypatch.setattr(opening, "prepare", prepare)
    with pytest.raises(InputError, match=r"No report of .* This host cannot measure it: None of"):
        notebook.open_study(_NAME, {})


def test_an_unfinished_report_is_shown_once_it_is_whole(
    reports: Callable[..., dict[str, str]], study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    _planned(study, monkeypatch)
    source = reference(_NAME)
    effort = Plan.read(source).parameters["effort"]
    part = folders.reports_folder() / _NAME / "2026-01-02-1.unfinished"
    part.mkdir(parents=True)
    folders.copy_recorded(source, part)
    whole = notebook.open_study(_NAME, {"effort": effort})
    assert whole.opened is not None
    assert whole.opened.report == part
    log = part / "runs.jsonl"
    # Blocks before the first look are due whatever the claims say by now.
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:20]))
    less = notebook.open_study(_NAME, {"effort": effort})
    assert less.opened is not None
    assert less.opened.report is None
    assert "2026-01-02-1.unfinished which is not whole" in less.opened.says


@pytest.mark.alone
@pytest.mark.parametrize("asked", ["cell", "environment"])
def test_measuring_begins_a_report_of_the_notebooks_parameters(
    reports: Callable[..., dict[str, str]],
    study: Study,
    monkeypatch: pytest.MonkeyPatch,
    asked: str,
) -> None:
    _planned(study, monkeypatch)
    reports(v2026_01_01_1=reference(_NAME))
    measured: list[Path] = []

    def measure(_: Experiment, folder: Path, *__: Any, **___: Any) -> Any:
        measured.append(folder)
        return study.read(folder)

    monkeypatch.setattr(notebook.workflow, "measured", measure)
    book = notebook.open_study(_NAME, {"scale": "smoke"})
    if asked == "cell":
        book.measure(anew=True)
    else:
        monkeypatch.setenv("INNOLAB_MEASURE", "1")
        book.measure()
    [begun] = folders.unfinished(_NAME)
    assert measured == [begun]
    assert book.folder == begun
    assert Plan.read(begun).parameters["scale"] == "smoke"
    book.measure(anew=True)
    assert folders.unfinished(_NAME) == [begun], "the same parameters go on with the same report"


def test_a_cell_that_says_no_measures_nothing_whatever_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("INNOLAB_MEASURE", "1")
    assert opening.is_anew(None)
    assert not opening.is_anew(False)
    monkeypatch.setenv("INNOLAB_MEASURE", "0")
    assert not opening.is_anew(None)
    assert opening.is_anew(True)


def test_a_sealed_report_that_is_opened_in_its_own_folder_stays_as_it_is(
    reports: Callable[..., dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = reports(v2026_01_01_1=reference(_NAME))
    here = folders.reports_folder() / _NAME / "2026-01-01-1"
    monkeypatch.chdir(here)
    plan = Plan.read(here)
    book = notebook.open_study(_NAME, plan.parameters)
    book.measure()
    assert book.verdicts().found
    assert reports() == before
    with pytest.raises(InputError, match="Make them equal"):
        notebook.open_study(_NAME, {**plan.parameters, "scale": "smoke"})


def test_every_recorded_study_can_be_opened_with_its_defaults(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("INNOLAB_REPORTS", raising=False)
    monkeypatch.chdir(tmp_path)
    recorded = [name for name in studies.names() if folders.finished(name)]
    assert len(recorded) >= 6
    for name in recorded:
        book = notebook.open_study(name, {})
        assert book.opened is not None
        assert book.opened.report is not None, name
        assert len(book.measure()), name


def test_errors_for_people_show_no_traceback_in_a_notebook(
    reports: Callable[..., dict[str, str]], tmp_path: Path
) -> None:
    assert InnolabError("It failed.")._render_traceback_() == ["InnolabError: It failed."]
    source, made = tmp_path / "source.ipynb", tmp_path / "out.ipynb"
    cell = "import innolab\ninnolab.open_study('multi-buffer-pool', {'builds': ['/no/mysqld']})"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)]), source)
    with pytest.raises(PapermillExecutionError, match="No report of multi-buffer-pool is recorded"):
        papermill.execute_notebook(
            str(source), str(made), kernel_name="python3", cwd=str(tmp_path), progress_bar=False
        )
    [*_, executed] = [c for c in nbformat.read(made, 4).cells if c.cell_type == "code"]
    [output] = [one for one in executed.outputs if one.output_type == "error"]
    assert len(output.traceback) == 1
    assert output.traceback[0].startswith("InputError: No report of multi-buffer-pool is recorded")


def test_papermill_anywhere_replays_a_whole_notebook(
    reports: Callable[..., dict[str, str]], tmp_path: Path
) -> None:
    source = reference("replication")
    before = reports(v2026_01_01_1=source)
    made = tmp_path / "out.ipynb"
    papermill.execute_notebook(
        str(ROOT / "notebooks" / "replication.ipynb"),
        str(made),
        parameters={"scale": "quick"},
        kernel_name="python3",
        cwd=str(tmp_path),
        progress_bar=False,
    )
    cells = nbformat.read(made, 4).cells
    shown = [output for c in cells if c.cell_type == "code" for output in c.outputs]
    texts = [str(one.get("data", {}).get("text/html", "")) for one in shown]
    assert sum("<figure" in text for text in texts) == len(list((source / "figures").glob("*.svg")))
    assert any('class="table verdicts"' in text for text in texts)
    assert any("this shows the report" in str(one.get("data", "")) for one in shown)
    assert reports() == before
    assert [path.name for path in tmp_path.iterdir()] == ["out.ipynb"]
