"""The journal of a trial that takes hours: how far it came, and where its data is.

A trial notes that it began, and each segment that it completed. After a crash the next session
finds the journal and resumes at the last completed segment, or starts the trial again and can say
so.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from innolab.base import files, parsing
from innolab.base.errors import InputError

FILE = "journal.json"
# Beside the folders of the cache that are cleared without asking.
KEPT = "innolab-kept"
# Data of a failed trial that the user asked to keep; never removed by innolab.
FAILED = "-failed"
_OWNER = "report.txt"


@dataclass(frozen=True)
class Checkpoint:
    """The state of a trial's table after a completed segment.

    Attributes
    ----------
    rows, last_key, checksum : of the whole table
    segments : what each completed segment took and gave, as the study records it
    samples : the samples of each segment
    """

    rows: int = 0
    last_key: int = 0
    checksum: int = 0
    segments: list[dict[str, Any]] = field(default_factory=list)
    samples: list[list[dict[str, float]]] = field(default_factory=list)


class Journal:
    """The journal of one trial in its report's folder, which holds one trial at a time.

    Parameters
    ----------
    report : folder of the report
    key : the trial's identity
    cache : the cache folder, below which data can outlive a session
    lasting : whether this trial's data can, which that on an emulated disk cannot
    """

    def __init__(self, report: Path, key: str, cache: Path, *, lasting: bool) -> None:
        self._file = report / FILE
        self._report = report
        self._key = key
        name = hashlib.sha256(f"{report}\n{key}".encode()).hexdigest()[:12]
        self.place = cache / KEPT / name
        self.lasting = lasting

    @property
    def data(self) -> Path:
        """Return where the trial's data directory is, if it can be kept."""
        return self.place / "data"

    def why_again(self) -> str:
        """Return why a trial that an earlier session began must start again; "" where it need not.

        Also "" for one that no session began.
        """
        body = self._read()
        if body is None or self.checkpoint():
            return ""
        if not self.lasting:
            return "its data lay on a disk that ended with an earlier session"
        if body["checkpoint"]:
            return "the data that an earlier session left are gone"
        return "an earlier session ended before its first segment did"

    def checkpoint(self) -> Checkpoint | None:
        """Return the last completed segment's, if there is one and its data are still there."""
        body = self._read()
        if not body or not body["checkpoint"] or not self.data.is_dir():
            return None
        return Checkpoint(**body["checkpoint"])

    def begin(self) -> None:
        """Note that the trial begins on an empty table, and forget what was kept of it."""
        self.forget()
        if self.lasting:
            self.place.mkdir(parents=True)
            # A server's user must pass through; what is inside is its own.
            self.place.parent.chmod(0o755)
            self.place.chmod(0o755)
            (self.place / _OWNER).write_text(str(self._report))
        self._write(None)

    def complete(self, checkpoint: Checkpoint) -> None:
        """Note a completed segment; on the disk when this returns."""
        self._write(asdict(checkpoint))

    def end(self) -> None:
        """Remove the journal of a trial that has ended, and the data that were kept of it."""
        self.forget()
        self._file.unlink(missing_ok=True)

    def forget(self) -> None:
        """Remove the data that were kept of this trial."""
        shutil.rmtree(self.place, ignore_errors=True)

    def keep_failed(self) -> Path:
        """Set the data aside for the user, out of our own reach, and return where."""
        kept = self.place.with_name(self.place.name + FAILED)
        shutil.rmtree(kept, ignore_errors=True)
        return self.place.rename(kept)

    def _read(self) -> dict[str, Any] | None:
        body = _body(self._file)
        return body if body and body["trial"] == self._key else None

    def _write(self, checkpoint: dict[str, Any] | None) -> None:
        body = {"trial": self._key, "place": self.place.name, "checkpoint": checkpoint}
        files.write(self._file, json.dumps(body) + "\n")


def settle(report: Path, recorded: Collection[str]) -> None:
    """Remove the journal of a trial that was recorded in the moment before a crash."""
    file = report / FILE
    if (body := _body(file)) and body["trial"] in recorded:
        file.unlink()


class _Body(BaseModel):
    """What a journal's file must hold."""

    model_config = ConfigDict(extra="forbid", strict=True)

    trial: str
    place: str
    checkpoint: Checkpoint | None


def _body(file: Path) -> dict[str, Any] | None:
    """Return what a journal's file holds, or None if there is none.

    Raises
    ------
    InputError
        Where it is damaged, which no crash of ours can do.
    """
    if not os.path.lexists(file):
        return None
    try:
        text = parsing.read_text(file)
        body: dict[str, Any] = parsing.from_json(text)
        _Body.model_validate_json(text)
        return body
    except ValueError:
        raise InputError(
            f"{file} is damaged: it was changed by hand or by the disk. Remove it, and its "
            "trial starts again."
        ) from None


def clear_orphans(cache: Path) -> None:
    """Remove data that no journal of any report names any more, but what was asked to be kept."""
    for place in (cache / KEPT).glob("*"):
        if not place.name.endswith(FAILED) and not _named(place):
            shutil.rmtree(place)


def _named(place: Path) -> bool:
    owner = place / _OWNER
    if not owner.exists():
        return False
    try:
        report = parsing.read_text(owner)
    except ValueError:
        return True  # Whose it is cannot be read: it is not ours to remove.
    body = _body(Path(report) / FILE)
    return body is not None and body["place"] == place.name
