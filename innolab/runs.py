"""Recorded runs: the schema of one, the log that survives a crash, and sets that refuse to mix."""

import hashlib
import itertools
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from innolab import files
from innolab.errors import InnolabError
from innolab.study import Factors, Study, trial_key

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = 1
Result = Literal["ok", "warn", "invalid"]


class Check(BaseModel):
    """One validity test of a run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    check: str
    result: Result
    says: str


class Run(BaseModel):
    """One recorded trial, failed ones included. A line of runs.jsonl."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_: int
    study: str
    spec_sha256: str
    scale: str
    trial: int
    block: int
    factors: Factors
    metrics: dict[str, float | int | list[int] | list[float]]
    conditions: dict[str, Any]
    checks: list[Check]
    series: str | None
    status: Literal["complete", "failed"]
    error: str | None
    started_at: str
    ended_at: str

    @property
    def key(self) -> str:
        """Return the identity of the trial that this run records."""
        return trial_key(self.block, self.factors)

    @property
    def valid(self) -> bool:
        """Return whether the run may support a verdict."""
        return self.status == "complete" and all(c.result != "invalid" for c in self.checks)

    def line(self) -> str:
        """Return the run as a line of JSON, newline included."""
        body = self.model_dump()
        return json.dumps({"schema": body.pop("schema_"), **body}, allow_nan=False) + "\n"

    @classmethod
    def from_line(cls, line: str) -> "Run":
        """Return the run of a line.

        Raises
        ------
        ValueError
            Where the line is no JSON or not of the schema.
        """
        body = json.loads(line)
        if not isinstance(body, dict) or body.get("schema") != SCHEMA:
            raise ValueError(f"not a run of schema {SCHEMA}")
        return cls.model_validate({"schema_": body.pop("schema"), **body})


class RunLog:
    """The file runs.jsonl of one report: appended and synced run by run.

    A crash can leave only its last line torn. A torn line was never acknowledged, so its trial
    runs again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self) -> tuple[list[Run], str | None]:
        """Return all whole runs, and the torn last line if there is one.

        Raises
        ------
        InnolabError
            Where a line before the last is damaged, which no crash of ours can do.
        """
        if not self.path.exists():
            return [], None
        *whole, last = self.path.read_text(errors="replace").split("\n")
        runs = []
        for number, line in enumerate(whole, 1):
            try:
                runs.append(Run.from_line(line))
            except (ValueError, ValidationError) as error:
                raise InnolabError(
                    f"Line {number} of {self.path} is damaged ({str(error).splitlines()[0]}). "
                    "A crash can only tear the last line: this file was changed by hand or by "
                    "the disk. Restore it, or move its folder away and measure anew."
                ) from None
        return runs, last or None

    def repair(self) -> str | None:
        """Cut a torn last line off the file and return it."""
        _, torn = self.load()
        if torn is not None:
            data = self.path.read_bytes()
            with self.path.open("r+b") as file:
                file.truncate(data.rindex(b"\n") + 1 if b"\n" in data else 0)
                os.fsync(file.fileno())
        return torn

    def append(self, run: Run) -> None:
        """Write a run and return once it is on the disk."""
        with self.path.open("ab") as file:
            file.write(run.line().encode())
            file.flush()
            os.fsync(file.fileno())


class RunSet:
    """Runs of one study that may be compared with each other.

    Raises
    ------
    InnolabError
        Where they differ in study, spec or scale, or hold a trial twice.
    """

    def __init__(self, study: Study, runs: Sequence[Run], variables: Mapping[str, dict[str, str]]):
        for name in ("study", "spec_sha256", "scale"):
            if len(found := {getattr(run, name) for run in runs}) > 1:
                raise InnolabError(
                    f"These runs differ in {name} ({', '.join(sorted(map(str, found)))}) and "
                    "cannot be compared. Keep each in a report of its own."
                )
        if len({run.key for run in runs}) < len(runs):
            raise InnolabError("A trial was recorded twice; these runs cannot be trusted.")
        self.study = study
        self.runs = list(runs)
        self.variables = variables

    @classmethod
    def read(cls, study: Study, folder: Path) -> "RunSet":
        """Return the runs that a report's folder holds."""
        runs, _ = RunLog(folder / "runs.jsonl").load()
        files = sorted((folder / "variables").glob("*.json"))
        try:
            variables = {file.stem: json.loads(file.read_text()) for file in files}
        except ValueError as error:
            raise InnolabError(f"A file in {folder / 'variables'} is damaged: {error}") from None
        absent = {run.conditions.get("variables") for run in runs} - variables.keys() - {None}
        if absent:
            raise InnolabError(f"{folder / 'variables'} lacks {', '.join(map(str, absent))}.json.")
        return cls(study, runs, variables)

    def where(self, chosen: Callable[[Run], bool]) -> "RunSet":
        """Return the set of those runs that are chosen."""
        return RunSet(self.study, [run for run in self.runs if chosen(run)], self.variables)

    @property
    def valid(self) -> "RunSet":
        """Return the runs that may support a verdict."""
        return self.where(lambda run: run.valid)

    def levels(self, factor: str) -> list[Any]:
        """Return the levels of a factor that occur, in the order of their first running."""
        return list(dict.fromkeys(run.factors[factor] for run in self.runs))

    def values(self, metric: str, **factors: Any) -> dict[int, float]:
        """Return a scalar metric of one arm by block, over the runs of this set that have it."""
        return {
            run.block: _scalar(metric, run.metrics[metric])
            for run in self.runs
            if metric in run.metrics
            and all(run.factors[name] == level for name, level in factors.items())
        }

    def pairs(
        self,
        metric: str,
        of: Mapping[str, Any],
        to: Mapping[str, Any],
        to_metric: str | None = None,
    ) -> tuple[list[float], list[float]]:
        """Return a metric of two arms, paired by block; blocks that lack either are left out."""
        top = self.values(metric, **of)
        bottom = self.values(to_metric or metric, **to)
        blocks = sorted(top.keys() & bottom.keys())
        return [top[b] for b in blocks], [bottom[b] for b in blocks]

    def frame(self) -> "pd.DataFrame":
        """Return a row a run: trial, block, factors, scalar metrics, status, validity."""
        import pandas as pd

        return pd.DataFrame(
            {
                "trial": run.trial,
                "block": run.block,
                **run.factors,
                **{k: v for k, v in run.metrics.items() if not isinstance(v, list)},
                "status": run.status,
                "valid": run.valid,
            }
            for run in self.runs
        )

    def undeclared_differences(self) -> list[str]:
        """Return server variables that differ between arms of one build without being a factor's.

        Prevents the result of a rival sweep in which the flush method changed with the pool size
        while its text said that only the pool size did.
        """
        seen = {
            (json.dumps(run.factors), run.conditions["variables"]): run
            for run in self.runs
            if run.conditions.get("variables")
        }
        found: set[str] = set()
        for one, other in itertools.combinations(seen.values(), 2):
            if one.factors["server"] == other.factors["server"]:
                sets = [self.variables[run.conditions["variables"]] for run in (one, other)]
                found |= differing(sets) - self._declared(one, other)
        return sorted(found)

    def _declared(self, one: Run, other: Run) -> set[str]:
        """Return the variables of those factors in which two arms differ."""
        return {
            variable
            for factor, variables in self.study.variables.items()
            if one.factors[factor] != other.factors[factor]
            for variable in variables
        }


def _scalar(metric: str, value: float | int | list[int] | list[float]) -> float:
    if isinstance(value, list):
        raise TypeError(f"{metric} is a list, not one number")
    return float(value)


def differing(sets: Iterable[Mapping[str, str]]) -> set[str]:
    """Return the names whose values are not the same in all mappings."""
    sets = list(sets)
    names = set().union(*sets)
    return {name for name in names if len({values.get(name) for values in sets}) > 1}


# These name a moment, a place or an identity, not a behaviour of the server.
_NOT_BEHAVIOUR = (
    "timestamp", "hostname", "server_uuid", "server_id", "pid_file", "socket", "datadir",
    "tmpdir", "slave_load_tmpdir", "replica_load_tmpdir", "innodb_tmpdir", "general_log_file",
    "slow_query_log_file", "log_error", "pseudo_thread_id", "rand_seed1", "rand_seed2",
    "last_insert_id", "insert_id", "identity", "gtid_executed", "gtid_purged", "basedir",
    "plugin_dir", "character_sets_dir", "lc_messages_dir", "build_id", "mysqlx_socket",
    "innodb_data_home_dir", "innodb_log_group_home_dir", "innodb_undo_directory",
    "relay_log_info_file", "relay_log_basename",
    "relay_log_index", "log_bin_basename", "secure_file_priv",
)  # fmt: skip


def behaviour(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that can change a result; no path, no name of the host."""
    return {k: v for k, v in sorted(variables.items()) if k not in _NOT_BEHAVIOUR}


def store_variables(folder: Path, variables: Mapping[str, str]) -> str:
    """Keep one set of server variables in the report under its digest, and return the digest.

    Fifty runs of ten arms have ten sets, not fifty.
    """
    text = json.dumps(behaviour(variables), indent=0, sort_keys=True) + "\n"
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    path = folder / "variables" / f"{digest}.json"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        files.write(path, text)
    return digest


def finite(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metrics, refusing any that is not a finite number.

    Raises
    ------
    InnolabError
        Prevents a NaN that pandas would silently skip in a mean.
    """
    for name, value in metrics.items():
        numbers = value if isinstance(value, list) else [value]
        if not all(math.isfinite(x) for x in numbers):
            raise InnolabError(f"The metric {name} is {value}, which is no measurement.")
    return dict(metrics)
