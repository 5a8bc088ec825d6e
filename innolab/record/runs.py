"""Recorded runs as sets that refuse to mix, and the server variables that go with them."""

import hashlib
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from innolab.base import files, parsing
from innolab.base.errors import InnolabError
from innolab.record import runlog
from innolab.record.run import Run
from innolab.record.runlog import RunLog
from innolab.record.study import Study

if TYPE_CHECKING:
    import pandas as pd


# Of the digest that a set of server variables is named by.
VARIABLES_DIGITS = 16


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
        runs, _ = RunLog(folder / runlog.FILE).load()
        files = sorted((folder / "variables").glob("*.json"))
        try:
            variables = {file.stem: _variables(file) for file in files}
        except ValueError as error:
            raise InnolabError(f"A file in {folder / 'variables'} is damaged: {error}") from None
        absent = {run.conditions.get("variables") for run in runs} - variables.keys() - {None}
        if absent:
            raise InnolabError(f"{folder / 'variables'} lacks {', '.join(map(str, absent))}.json.")
        return cls(study, runs, variables)

    def where(self, chosen: Callable[[Run], bool]) -> "RunSet":
        """Return the set of those runs that are chosen."""
        return RunSet(self.study, [run for run in self.runs if chosen(run)], self.variables)

    @cached_property
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
            if metric in run.metrics and factors.items() <= run.factors.items()
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

        @cache
        def between(one: str, other: str) -> set[str]:
            changed = self.variables[one].items() ^ self.variables[other].items()
            return {name for name, _ in changed}

        found: set[str] = set()
        for one, other in itertools.combinations(seen.values(), 2):
            digests = one.conditions["variables"], other.conditions["variables"]
            if one.factors["server"] == other.factors["server"] and digests[0] != digests[1]:
                found |= between(*digests) - self._declared(one, other)
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


def _variables(file: Path) -> dict[str, str]:
    found = parsing.json_file(file)
    if not isinstance(found, dict) or not all(isinstance(x, str) for x in found.values()):
        raise ValueError(f"{file.name} is no list of names and values")
    return found


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
    digest = hashlib.sha256(text.encode()).hexdigest()[:VARIABLES_DIGITS]
    path = folder / "variables" / f"{digest}.json"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        files.write(path, text)
    return digest
