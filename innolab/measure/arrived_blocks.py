"""Blocks that arrived from the hosts of a fleet: set down whole, then put into the record.

A crash in between loses nothing and leaves no half of a block: what was set down is put in by the
next session, and what was put in already is not put in twice.
"""

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from innolab.base import parsing
from innolab.record.run import Run
from innolab.record.runlog import RunLog

_FOLDER = "arrived"
_HALF = ".part"
_RUNS = "runs.json"
_FILES = "files"


def set_down(
    report: Path, block: int, runs: Sequence[Mapping[str, Any]], files: Mapping[str, bytes]
) -> None:
    """Keep a block that a host has measured, whole or not at all.

    Parameters
    ----------
    runs : the bodies of its runs, in the order of their running
    files : what goes with them, by paths in the report
    """
    folder = report / _FOLDER / f"{block:04d}"
    half = folder.with_name(folder.name + _HALF)
    shutil.rmtree(half, ignore_errors=True)
    _write(half / _RUNS, json.dumps(list(runs), allow_nan=False).encode())
    for name, content in files.items():
        _write(half / _FILES / name, content)
    half.rename(folder)


def put_in(log: RunLog) -> list[Run]:
    """Put every block that was set down into the record, and return its runs.

    Raises
    ------
    ValueError
        Where a block is no record of runs.
    """
    report = log.path.parent
    put = [run for folder in _waiting(report) for run in _put_in(folder, log)]
    shutil.rmtree(report / _FOLDER, ignore_errors=True)
    return put


def _waiting(report: Path) -> list[Path]:
    """Return the folders of whole blocks; one without runs was put in, and half removed."""
    found = sorted(runs.parent for runs in (report / _FOLDER).glob(f"*/{_RUNS}"))
    return [folder for folder in found if folder.suffix != _HALF]


def _put_in(folder: Path, log: RunLog) -> Iterator[Run]:
    for file in sorted(path for path in (folder / _FILES).rglob("*") if path.is_file()):
        place = log.path.parent / file.relative_to(folder / _FILES)
        place.parent.mkdir(exist_ok=True)
        shutil.copy(file, place)
    recorded = {run.key for run in log.load()[0]}
    for body in parsing.json_file(folder / _RUNS):
        run = Run.from_body(body)
        if run.key not in recorded:
            log.append(run)
        yield run


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
