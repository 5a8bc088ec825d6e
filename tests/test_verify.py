"""An author who edits a report, renders it again and seals it again is found, or why not is said.

The report under attack is rendered here by the code under test from the runs of a reference, once;
each attack works on a copy of it.
"""

import contextlib
import datetime
import functools
import json
import os
import random
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest import reference

from innolab import studies
from innolab.analysis import claim_files
from innolab.base.errors import InnolabError, InputError
from innolab.record import series_store
from innolab.record.plan import Plan
from innolab.record.run import SCHEMA, Run
from innolab.record.runlog import RunLog, SessionStart
from innolab.report import crate, equality, folders, manifest, render, svg
from innolab.studies.experiment import Experiment
from innolab.verify import series_and_variables
from innolab.verify.verify import verify

Body = dict[str, Any]
_RUNS = "runs.jsonl"


def _seal(report: Path, render_it: bool = True) -> None:
    """Render and seal a report again, as an author can who has innolab at hand."""
    study = studies.find(Plan.read(report).study)
    if render_it:
        # If runs of the plan are missing, nothing can be rendered: what was shown stays.
        with contextlib.suppress(InnolabError):
            render.render(study, report)
    old = json.loads((report / folders.MANIFEST_FILE).read_text())
    runs, _ = RunLog(report / _RUNS).load()
    manifest.write(study, report, runs, old["time_s"], old["rendered_from"])


def _bound(report: Path) -> None:
    """Write the runs of an older innolab as today's writes them: in one session, line by line."""
    plan = Plan.read(report)
    study = studies.find(plan.study)
    log = RunLog(report / _RUNS, study.kind.upgrade)
    runs, _ = log.load()
    experiment = Experiment.from_plan(plan, study)
    log.path.unlink()
    for run in runs:
        # By today's claims, which its commit may not have had.
        run.conditions["innolab"]["commit"] = None
    log.begin(
        SessionStart(
            began_at=datetime.datetime.fromisoformat(runs[0].started_at),
            plan_sha256=experiment.plan_sha256,
            claims_sha256=claim_files.sha256(study.papers.claims),
            trials=len(experiment.trials),
            blocks=experiment.blocks.last,
            innolab=runs[0].conditions["innolab"],
        )
    )
    for run in runs:
        log.append(run)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Give a report of a study that was rendered and sealed by the code under test."""

    @functools.cache
    def made(name: str) -> Path:
        kept = reference(name)
        report = tmp_path_factory.mktemp(name) / kept.name
        shutil.copytree(kept, report)
        _bound(report)
        _seal(report)
        return report

    return made


@pytest.fixture
def report(sound: Callable[[str], Path], tmp_path: Path) -> Path:
    """A copy of a sound report of the smallest study."""
    copy = tmp_path / sound("multi-buffer-pool").name
    shutil.copytree(sound("multi-buffer-pool"), copy)
    return copy


def _rewritten(report: Path, change: Callable[[list[Body]], None], **session: Any) -> None:
    """Change runs and session and write their log again, every line bound to the one before it."""
    log = RunLog(report / _RUNS)
    lines = [json.loads(line) for line in log.path.read_text().splitlines()]
    began = {**lines[0]["session"], **session}
    runs = [{k: v for k, v in body.items() if k != "before"} for body in lines[1:]]
    change(runs)
    log.path.unlink()
    log.begin(SessionStart.model_validate(began))
    for body in runs:
        log.append(Run.from_body(body))


def _swap_arms(runs: list[Body]) -> None:
    """Exchange the labels of two arms in every block; what was set stays as it was."""
    for block in {run["block"] for run in runs}:
        one, other = (
            next(r for r in runs if r["block"] == block and r["factors"]["server"] == "mysql-9.7"
                 and (r["factors"]["pool"], r["factors"]["instances"]) == case)
            for case in (("2G", 8), ("128M", 1))
        )  # fmt: skip
        one["factors"], other["factors"] = other["factors"], one["factors"]
        one["trial"], other["trial"] = other["trial"], one["trial"]
        one["series"], other["series"] = other["series"], one["series"]


def _ended_before(runs: list[Body]) -> None:
    runs[3]["started_at"], runs[3]["ended_at"] = runs[3]["ended_at"], runs[3]["started_at"]


def _years_apart(runs: list[Body]) -> None:
    for run in runs[20:]:
        for name in ("started_at", "ended_at"):
            run[name] = f"{int(run[name][:4]) + 3}{run[name][4:]}"


def _overlapping(runs: list[Body]) -> None:
    runs[4]["started_at"] = runs[3]["started_at"]


def _of_last_block(runs: list[Body]) -> list[Body]:
    """Return the runs by which no later trial was chosen."""
    last = max(run["block"] for run in runs)
    return [run for run in runs if run["block"] == last]


def _faster(runs: list[Body]) -> None:
    """Halve the time of a pass, and what follows from it."""
    for run in _of_last_block(runs):
        if run["factors"]["instances"] == 8 and run["observations"]:
            run["observations"][0]["seconds"] /= 2
            run["observations"][0]["rows_per_s"] *= 2


def _second(run: Body) -> Body:
    """Return the second pass of a run, and an empty row where it has none."""
    rows = (row for row in run["observations"] if row.get("pass") == 2 and "seconds" in row)
    return next(rows, {"seconds": 0.0})


def _slower(runs: list[Body]) -> None:
    for run in _of_last_block(runs):
        _second(run)["seconds"] *= 1.5


def _zero_digest(runs: list[Body]) -> None:
    for run in runs:
        run["conditions"]["build"]["sha256"] = "0" * 64


def _another_host(runs: list[Body]) -> None:
    runs[7]["conditions"]["host"]["memory_bytes"] *= 2


def _another_base(runs: list[Body]) -> None:
    runs[7]["conditions"]["requested"]["innodb_io_capacity"] = "20000"


def _another_dataset(runs: list[Body]) -> None:
    runs[0]["conditions"]["dataset"]["rows"] //= 2


def _kinder_check(runs: list[Body]) -> None:
    runs[0]["conditions"]["usage"]["steal_share"] = 0.5


def _pages(runs: list[Body]) -> None:
    for run in runs:
        _second(run)["pages_read"] = 0


def _without_a_block(runs: list[Body]) -> None:
    last = max(run["block"] for run in runs)
    runs[:] = [run for run in runs if run["block"] < last]


def _failed_ones_dropped(runs: list[Body]) -> None:
    del runs[11]


_OF_RUNS: dict[str, tuple[Callable[[list[Body]], None], str]] = {
    "labels of two arms swapped": (_swap_arms, "its arm asks for"),
    "a run ends before it begins": (_ended_before, "ends before it begins"),
    "runs are years apart": (_years_apart, "after what comes before it"),
    "runs overlap": (_overlapping, "begins before what comes before it"),
    "a pass twice as fast": (_faster, "the rest of its record gives"),
    "a pass slower": (_slower, "the rest of its record gives"),
    "a build digest of zeros": (_zero_digest, "with 0000000000000000"),
    "the host changes within a session": (_another_host, "its host differs in memory_bytes"),
    "one arm has another base setting": (_another_base, "innodb_io_capacity"),
    "one run on another dataset": (_another_dataset, "dataset rows is 2500000"),
    "a condition that its check forbids": (_kinder_check, "checks of trial"),
    "pages read that its instances do not add up to": (_pages, "its pages_read"),
    "a block cut off": (_without_a_block, "are not those of the plan"),
    "a run left out": (_failed_ones_dropped, "are not those of the plan"),
}


@pytest.mark.parametrize("attack", _OF_RUNS)
def test_runs_that_were_edited_are_found_by_what_contradicts_them(
    report: Path, attack: str
) -> None:
    """Whether all was rendered again makes no difference: this is found before it is read."""
    change, says = _OF_RUNS[attack]
    _rewritten(report, change)
    _seal(report, render_it=False)
    found = "\n".join(verify(report, records_only=True).faults)
    assert says in found
    assert _RUNS in found


def _block_failed(runs: list[Body]) -> None:
    for run in _of_last_block(runs):
        run.update(status="failed", error="killed", observations=[], checks=[], series=None)


def test_runs_that_are_said_to_have_failed_are_counted_by_arm(report: Path) -> None:
    _rewritten(report, _block_failed)
    _seal(report, render_it=False)
    notes = verify(report).notes
    counted = [note for note in notes if re.match(r"\d+ of \d+ runs of .* failed\.", note)]
    arms = {json.dumps(run["factors"]) for run in _runs_of(report) if run["status"] == "failed"}
    assert len(counted) == len(arms) > 1


def _runs_of(report: Path) -> list[Body]:
    lines = (report / _RUNS).read_text().splitlines()
    return [body for line in lines if "session" not in (body := json.loads(line))]


def test_a_sound_report_holds_and_is_said_to_be_unsigned(report: Path) -> None:
    found = verify(report)
    assert found.faults == []
    assert any("unsigned" in note.lower() for note in found.notes)


def test_a_plan_made_smaller_after_the_session_began_is_found(report: Path) -> None:
    _rewritten(report, _without_a_block)
    plan = json.loads((report / "plan.json").read_text())
    plan["blocks"][1] -= 1
    (report / "plan.json").write_text(json.dumps(plan, indent=1) + "\n")
    _seal(report, render_it=False)
    assert "began with 288 trials in 12 blocks" in "\n".join(verify(report).faults)


def test_a_line_dropped_from_the_log_is_found(report: Path) -> None:
    path = report / _RUNS
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:5], *lines[6:]]))
    _seal(report, render_it=False)
    assert "line 6 does not follow the line before it" in "\n".join(verify(report).faults)


def _a_cell(report: Path, change: Callable[[Any], None]) -> None:
    """Change the notebook of a report, execute it, and seal what it gives."""
    study = studies.find(Plan.read(report).study)
    notebook = json.loads(study.papers.notebook.read_text())
    change(notebook["cells"])
    source = report.parent / "changed.ipynb"
    source.write_text(json.dumps(notebook))
    render.render(replace(study, papers=study.papers._replace(notebook=source)), report)
    _seal(report, render_it=False)


def test_a_cell_that_divides_by_ten_is_found_and_shown(report: Path) -> None:
    def divide(cells: list[Any]) -> None:
        cell = next(c for c in cells if "measure()" in "".join(c["source"]))
        cell["source"] = "".join(cell["source"]).replace(
            "study.measure()", "study.measure()\nruns['seconds'] /= 10"
        )

    _a_cell(report, divide)
    found = verify(report)
    assert any("its cells are not those of the study's notebook" in f for f in found.faults)
    assert any(note.startswith("+") and "/= 10" in note for note in found.notes)


def test_claims_changed_after_a_session_began_are_explained(report: Path) -> None:
    _rewritten(report, lambda _: None, claims_sha256="0" * 64)
    _seal(report, render_it=False)
    assert any("claims were changed" in note for note in verify(report, records_only=True).notes)


def test_a_series_that_would_fill_the_memory_is_not_read(report: Path) -> None:
    frame = pd.DataFrame({"trial": [0] * 1000, "t_s": range(1000)})
    frame[[f"c{n}" for n in range(60)]] = 0.0
    pd.concat([frame] * 900).to_parquet(report / series_store.FILE, index=False)
    _seal(report, render_it=False)
    assert "values, and 50,000,000 are the most" in "\n".join(verify(report).faults)


def test_times_that_do_not_add_up_are_found(report: Path) -> None:
    path = report / folders.MANIFEST_FILE
    body = json.loads(path.read_text())
    body["time_s"]["measured passes"] /= 2
    body["seal"] = manifest.seal_of(body)
    path.write_text(json.dumps(body))
    assert "are not its total" in "\n".join(verify(report).faults)


@pytest.mark.thorough
def test_a_script_in_a_notebooks_text_is_found_and_no_browser_runs_it(report: Path) -> None:
    def script(cells: list[Any]) -> None:
        cells[0]["source"] = "".join(cells[0]["source"]) + "\n<script>alert(1)</script>"

    _a_cell(report, script)
    assert any("alert(1)" in note for note in verify(report).notes)
    page = (report / "index.html").read_text()
    [policy] = re.findall(r'<meta content="([^"]*)" http-equiv="Content-Security-Policy"', page)
    assert "script-src 'sha256-" in policy
    assert "unsafe-inline'; img" in policy
    assert "unsafe-inline" not in policy.split("script-src")[1].split(";")[0]


def _series(report: Path, change: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    path = report / series_store.FILE
    change(pd.read_parquet(path)).to_parquet(path, index=False)


def _doubled(report: Path, of_time: bool) -> None:
    def double(frame: pd.DataFrame) -> pd.DataFrame:
        names = [name for name in frame if name != "trial" and (of_time or name != "t_s")]
        return frame.assign(**{n: frame[n].where(frame.trial != 7, 2 * frame[n]) for n in names})

    _series(report, double)


@pytest.mark.thorough
@pytest.mark.parametrize("of_time", [False, True])
@pytest.mark.parametrize(
    "study", ["multi-buffer-pool", "raid-comparison", "compressed-insert", "more-memory"]
)
def test_a_series_doubled_is_found(
    sound: Callable[[str], Path], tmp_path: Path, study: str, of_time: bool
) -> None:
    report = tmp_path / sound(study).name
    shutil.copytree(sound(study), report)
    assert series_and_variables.metrics(study, report).faults == []
    _doubled(report, of_time)
    found = series_and_variables.metrics(study, report).faults
    assert found
    assert all("0007" in fault or "trial 7" in fault for fault in found)


def test_a_series_that_was_edited_is_a_fault_of_its_report(report: Path) -> None:
    _doubled(report, of_time=False)
    _seal(report, render_it=False)
    assert any(
        "0007" in fault or "trial 7" in fault for fault in verify(report, records_only=True).faults
    )


def _variables(report: Path) -> None:
    """Let a server say of itself what its arm asks for, under the digest that this gives."""
    path = sorted((report / "variables").iterdir())[0]
    body = json.loads(path.read_text())
    body["innodb_buffer_pool_size"] = str(2 * int(body["innodb_buffer_pool_size"]))
    text = json.dumps(body, indent=0, sort_keys=True) + "\n"
    path.write_text(text)


def _variables_renamed(report: Path) -> None:
    old = sorted((report / "variables").iterdir())[0]
    _variables(report)
    new = manifest.digest(old)[:16]
    old.rename(old.with_name(f"{new}.json"))

    def rename(runs: list[Body]) -> None:
        for run in runs:
            if run["conditions"]["variables"] == old.stem:
                run["conditions"]["variables"] = new

    _rewritten(report, rename)


def _foreign_series(report: Path) -> None:
    _series(report, lambda frame: pd.concat([frame, frame[:1].assign(trial=9999)]))


def _no_series(report: Path) -> None:
    def drop(runs: list[Body]) -> None:
        runs[2]["series"] = None

    _series(report, lambda frame: frame[frame.trial != 2])
    _rewritten(report, drop)


_OF_FILES: dict[str, tuple[Callable[[Path], None], str]] = {
    "variables that are not those of their digest": (_variables, "is not the digest"),
    "variables that contradict the arm": (_variables_renamed, "checks of trial"),
    "a series of no run": (_foreign_series, "series/9999.parquet: no run has it"),
    "a series taken away": (_no_series, "has no series"),
}


@pytest.mark.parametrize("attack", _OF_FILES)
def test_what_goes_with_the_runs_is_held_against_them(report: Path, attack: str) -> None:
    change, says = _OF_FILES[attack]
    change(report)
    _seal(report, render_it=False)
    assert says in "\n".join(verify(report).faults)


@pytest.mark.parametrize("name", ["/etc/passwd", "../elsewhere.parquet", "series/../x.parquet"])
def test_a_series_elsewhere_is_refused(report: Path, name: str) -> None:
    path = report / _RUNS
    path.write_text(path.read_text().replace("series/0007.parquet", name))
    body = json.loads((report / folders.MANIFEST_FILE).read_text())
    body["files"] = manifest.digests(report)
    body["seal"] = manifest.seal_of(body)
    (report / folders.MANIFEST_FILE).write_text(json.dumps(body))
    [fault] = verify(report).faults
    assert "is damaged" in fault


def test_a_manifest_with_a_key_twice_is_refused(report: Path) -> None:
    path = report / folders.MANIFEST_FILE
    path.write_text(path.read_text().replace('"schema": 1,', '"schema": 1, "schema": 1,', 1))
    with pytest.raises(InputError, match="the key 'schema' appears twice"):
        verify(report)


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_a_link_or_a_pipe_is_refused(report: Path, tmp_path: Path, kind: str) -> None:
    if kind == "pipe":
        os.mkfifo(report / "extra")
    elif kind == "link":
        moved = (report / "verdicts.json").rename(tmp_path / "verdicts.json")
        (report / "verdicts.json").symlink_to(moved)
    else:
        moved = (report / "variables").rename(tmp_path / "variables")
        (report / "variables").symlink_to(moved)
    [fault] = verify(report).faults
    assert (
        "it is a link" in fault or "of this name" in fault or "neither a file nor a folder" in fault
    )


def _made_of(report: Path) -> list[str]:
    """Return the files that are made from the runs; tests/test_standards.py has the crate."""
    names = manifest.digests(report)
    return [n for n in names if n.split("/")[0].split(".")[0] not in
            ("runs", "plan", "rules", "claims", "published", "series", "variables",
             "ro-crate-metadata")]  # fmt: skip


def _one_digit_more(text: str, drawn: random.Random) -> str:
    """Return the text with one of its visible digits changed by one."""
    places = [m.start() for m in re.finditer(r"\d", text)]
    at = drawn.choice(places)
    return text[:at] + str((int(text[at]) + 1) % 10) + text[at + 1 :]


def _digit_in_picture(path: Path) -> None:
    """Paint over a small part of a picture, as a changed digit would."""
    from PIL import Image

    with Image.open(path) as picture:
        painted = picture.copy()
    painted.paste((0, 0, 0), (50, 50, 56, 58))
    painted.save(path)


def test_a_digit_changed_in_anything_that_is_shown_is_found(report: Path) -> None:
    sound_bytes = {name: (report / name).read_bytes() for name in _made_of(report)}
    made = report.parent / "made" / report.name
    made.mkdir(parents=True)
    folders.copy_recorded(report, made)
    render.render(studies.find("multi-buffer-pool"), made)
    drawn = random.Random(7)
    for name, kept in sound_bytes.items():
        for _ in range(1 if name.endswith(".png") else 25):
            if name.endswith(".png"):
                _digit_in_picture(report / name)
            else:
                (report / name).write_text(_one_digit_more(kept.decode(), drawn))
            found = equality.differences(report, made, sorted(sound_bytes))
            changed = (report / name).read_bytes()
            (report / name).write_bytes(kept)
            # A hundredth of a pixel cannot be seen, and is what processors may differ by.
            assert found or _is_unseen(kept, changed), f"{name}: {drawn.getstate()[1][:2]}"
            assert all(fault.startswith(name) for fault in found)


def _is_unseen(kept: bytes, changed: bytes) -> bool:
    """Return whether nothing but a coordinate changed, by a hundredth of a pixel."""
    texts = [text.decode().replace('\\"', '"').replace("\\n", "\n") for text in (kept, changed)]
    (one, here), (other, there) = map(svg.split, texts)
    return one == other and max(abs(a - b) for a, b in zip(here, there, strict=True)) <= 0.011


@pytest.mark.thorough
def test_random_changes_of_bytes_are_found_in_every_kind_of_file(
    sound: Callable[[str], Path], tmp_path: Path
) -> None:
    """The seal alone finds them: 2,000 changes over all studies and all kinds of files."""
    drawn = random.Random(11)
    kinds: dict[str, int] = {}
    for study in studies.names():
        report = tmp_path / study / sound(study).name
        shutil.copytree(sound(study), report)
        body = manifest.read(report)
        whole = manifest.digests(report)
        paths = [p for p in report.rglob("*") if p.is_file()]
        for number in range(500):
            suffix = drawn.choice(sorted({p.suffix for p in paths}))
            path = drawn.choice([p for p in paths if p.suffix == suffix])
            kept = path.read_bytes()
            at = drawn.randrange(len(kept))
            changed = bytearray(kept)
            changed[at] ^= 1 << drawn.randrange(8)
            path.write_bytes(bytes(changed))
            if path.name == folders.MANIFEST_FILE:
                try:
                    found = bool(manifest.faults(report, manifest.read(report)))
                except InputError:
                    found = True
            else:
                found = manifest.digest(path) != whole[str(path.relative_to(report))]
            path.write_bytes(kept)
            assert found, f"{path.relative_to(report)}, byte {at} ({number})"
            kinds[suffix] = kinds.get(suffix, 0) + 1
        assert manifest.faults(report, body) == []
    assert sum(kinds.values()) == 2000
    assert set(kinds) >= {".png", ".svg", ".csv", ".md", ".json", ".jsonl", ".html", ".parquet"}


def _sealed_as_it_is(report: Path) -> None:
    """Seal a report again as it is, without making its crate again."""
    body = manifest.read(report)
    body["files"] = manifest.digests(report)
    body["seal"] = manifest.seal_of(body)
    (report / folders.MANIFEST_FILE).write_text(json.dumps(body, indent=1) + "\n")


@pytest.mark.parametrize("attack", ["altered", "taken away"])
def test_a_crate_that_says_something_else_is_found(report: Path, attack: str) -> None:
    path = report / crate.CRATE_FILE
    if attack == "altered":
        path.write_text(path.read_text().replace('"endTime": "20', '"endTime": "21'))
    else:
        path.unlink()
    _sealed_as_it_is(report)
    [fault] = verify(report).faults
    assert fault.startswith(crate.CRATE_FILE)


def test_the_schema_of_runs_is_named_in_the_manifest(report: Path) -> None:
    body = manifest.read(report)
    assert body["record_schema"] == SCHEMA
    assert body["study_revision"] == studies.find("multi-buffer-pool").revision
