"""The file runs.jsonl: appended and synced line by line, each line bound to the one before it."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import AwareDatetime, BaseModel, ConfigDict, field_validator

from innolab.base import parsing
from innolab.base.errors import InnolabError
from innolab.record.run import OLDER_SCHEMA, SCHEMA, Innolab, Run
from innolab.record.text_types import Sha256

FILE = "runs.jsonl"
# Of a session whose runs keep evidence of every metric, so that none can be edited alone.
EVIDENCE = 2
_BEFORE = "before"
# The only file that grows with the time that was measured: a year of one host has 300 MB.
MOST_BYTES = 512 * 1024**2
# The longest line of a reference has 51 KB.
_MOST_LINE = 4 * 1024**2


Upgrade = Callable[[dict[str, Any]], dict[str, Any]]


class SessionStart(BaseModel):
    """The beginning of a session: one process that measures says it before its first run.

    Attributes
    ----------
    began_at : when, in UTC
    plan_sha256, claims_sha256 : what was planned and claimed by then
    trials, blocks : how many the plan has; a report that was cut short cannot hide it
    innolab : which innolab measures
    evidence : by which rules its runs keep what bounds their metrics; 1 by an older innolab
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    began_at: AwareDatetime
    plan_sha256: Sha256
    claims_sha256: Sha256
    trials: int
    blocks: int
    innolab: dict[str, Any]
    evidence: int = 1

    @field_validator("innolab")
    @classmethod
    def _is_innolab(cls, facts: dict[str, Any]) -> dict[str, Any]:
        Innolab.model_validate(facts)
        return facts


class Entry(NamedTuple):
    """A whole line of the log: what it holds, its digest, and that of the line before it.

    `before` is None in a log of an innolab that did not bind its lines.
    """

    number: int
    content: Run | SessionStart
    sha256: str
    before: str | None


def registered(entries: Sequence[Entry]) -> set[str]:
    """Return the digests of the claims that sessions wrote down before they measured."""
    sessions = (e.content for e in entries if isinstance(e.content, SessionStart))
    return {session.claims_sha256 for session in sessions}


class RunLog:
    """The file runs.jsonl of one report.

    A crash can leave only its last line torn. A torn line was never acknowledged, so its trial
    runs again. Each line names the digest of the one before it, so that a line that is dropped,
    moved or added later is found.

    Parameters
    ----------
    upgrade : takes the body of a run of the older schema and returns it as of today's; without it
        such a run is refused
    """

    def __init__(self, path: Path, upgrade: Upgrade | None = None) -> None:
        self.path = path
        self._upgrade = upgrade

    def entries(self) -> tuple[list[Entry], str | None]:
        """Return all whole lines, and the torn last one if there is one.

        Raises
        ------
        InnolabError
            Where a line before the last is damaged, which no crash of ours can do.
        """
        try:
            text = parsing.read_text(self.path, MOST_BYTES) if os.path.lexists(self.path) else ""
        except ValueError as error:
            raise InnolabError(
                f"{self.path} is damaged: {error}. Restore it, or move its folder away and "
                "measure again."
            ) from None
        *whole, last = text.split("\n")
        return list(self._read(whole)), last or None

    def _read(self, lines: list[str]) -> Iterator[Entry]:
        for number, line in enumerate(lines, 1):
            try:
                if len(line) > _MOST_LINE:
                    raise ValueError(
                        f"it has {len(line):,} characters, {_MOST_LINE:,} are the most"
                    )
                body = parsing.from_json(line)
                before = body.pop(_BEFORE, None) if isinstance(body, dict) else None
                yield Entry(number, self._content(body), _digest(line), before)
            except ValueError as error:
                raise InnolabError(
                    f"Line {number} of {self.path} is damaged ({parsing.reason(error)}). "
                    "A crash can only tear the last line: this file was changed by hand or by "
                    "the disk. Restore it, or move its folder away and measure again."
                ) from None

    def _content(self, body: Any) -> Run | SessionStart:
        if isinstance(body, dict) and "session" in body:
            if set(body) != {"schema", "session"} or body["schema"] not in (SCHEMA, OLDER_SCHEMA):
                raise ValueError(f"not a session of schema {SCHEMA}")
            return SessionStart.model_validate(body["session"])
        if self._upgrade and isinstance(body, dict) and body.get("schema") == OLDER_SCHEMA:
            try:
                body = self._upgrade(body)
            except (LookupError, TypeError, AttributeError):
                raise ValueError(f"not a run of schema {OLDER_SCHEMA}") from None
        return Run.from_body(body)

    def load(self) -> tuple[list[Run], str | None]:
        """Return all whole runs, and the torn last line if there is one.

        Raises
        ------
        InnolabError
            As `entries`.
        """
        entries, torn = self.entries()
        return [e.content for e in entries if isinstance(e.content, Run)], torn

    def repair(self) -> str | None:
        """Cut a torn last line off the file and return it."""
        _, torn = self.entries()
        if torn is not None:
            data = self.path.read_bytes()
            with self.path.open("r+b") as file:
                file.truncate(data.rindex(b"\n") + 1 if b"\n" in data else 0)
                os.fsync(file.fileno())
        return torn

    def begin(self, session: SessionStart) -> None:
        """Write that a session begins, and return once it is on the disk."""
        self._append({"schema": SCHEMA, "session": session.model_dump(mode="json")})

    def append(self, run: Run) -> None:
        """Write a run and return once it is on the disk."""
        self._append(run.body())

    def _append(self, body: dict[str, Any]) -> None:
        line = json.dumps({**body, _BEFORE: self._last_digest()}, allow_nan=False) + "\n"
        with self.path.open("ab") as file:
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())

    def _last_digest(self) -> str:
        """Return the digest of the last line; of nothing if there is none."""
        written = self.path.read_bytes() if self.path.exists() else b""
        return hashlib.sha256(written.rstrip(b"\n").rpartition(b"\n")[2]).hexdigest()


def faults(entries: list[Entry]) -> list[str]:
    """Return in what the lines are not those that were written, in their order.

    Lines before the first that is bound are of an older innolab, and nothing can be said of them.
    """
    found = []
    last = _digest("")
    is_bound = False
    for entry in entries:
        is_bound = is_bound or entry.before is not None
        if is_bound and entry.before != last:
            found.append(
                f"line {entry.number} does not follow the line before it: a line was changed, "
                "moved, dropped or added"
            )
        last = entry.sha256
    if is_bound and isinstance(entries[0].content, Run) and entries[0].before is not None:
        found.append("line 1 is a run, where the session that measured it should be")
    return found


def is_bound(entries: list[Entry]) -> bool:
    """Return whether every line names the digest of the one before it."""
    return all(entry.before is not None for entry in entries)


def by_session(entries: list[Entry]) -> list[tuple[SessionStart | None, list[Run]]]:
    """Return each session with its runs; those of an older innolab, which wrote none, as one."""
    found: list[tuple[SessionStart | None, list[Run]]] = []
    for entry in entries:
        if isinstance(entry.content, SessionStart):
            found.append((entry.content, []))
            continue
        if not found:
            found.append((None, []))
        found[-1][1].append(entry.content)
    return found


def _digest(line: str) -> str:
    return hashlib.sha256(line.encode()).hexdigest()
