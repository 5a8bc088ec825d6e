"""Recorded runs as sets that refuse to mix, and the server variables that go with them."""

import hashlib
import itertools
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from innolab.base import files, parsing
from innolab.base.errors import InnolabError
from innolab.record import runlog
from innolab.record.run import Level, Observation, Run
from innolab.record.runlog import RunLog, Upgrade
from innolab.record.text_types import all_plain

if TYPE_CHECKING:
    import pandas as pd


# Of the digest that a set of server variables is named by.
VARIABLES_DIGITS = 16


class RunSet:
    """Runs of one study that may be compared with each other.

    Parameters
    ----------
    within : the names of the within-factors: which columns of an observation are no metrics
    variables : sets of server variables, by the digest that a run's conditions name

    Raises
    ------
    InnolabError
        Where they differ in study, spec, scale or effort, or hold a trial twice.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        variables: Mapping[str, dict[str, str]],
        within: Collection[str] = (),
    ):
        for name in ("study", "spec_sha256", "scale", "effort"):
            if len(found := {getattr(run, name) for run in runs}) > 1:
                raise InnolabError(
                    f"These runs differ in {name} ({', '.join(sorted(map(str, found)))}) and "
                    "cannot be compared. Keep each in its own report."
                )
        if len({run.key for run in runs}) < len(runs):
            raise InnolabError("A trial was recorded twice; these runs cannot be trusted.")
        self.runs = list(runs)
        self.variables = variables
        self.within = frozenset(within)

    @classmethod
    def read(
        cls, folder: Path, within: Collection[str] = (), upgrade: Upgrade | None = None
    ) -> "RunSet":
        """Return the runs that a report's folder holds."""
        runs, _ = RunLog(folder / runlog.FILE, upgrade).load()
        files = sorted((folder / "variables").glob("*.json"))
        try:
            variables = {file.stem: _variables(file) for file in files}
        except ValueError as error:
            raise InnolabError(f"A file in {folder / 'variables'} is damaged: {error}") from None
        absent = {run.conditions.get("variables") for run in runs} - variables.keys() - {None}
        if absent:
            missing = ", ".join(f"{name}.json" for name in sorted(map(str, absent)))
            raise InnolabError(f"Missing in {folder / 'variables'}: {missing}.")
        return cls(runs, variables, within)

    def where(self, chosen: Callable[[Run], bool]) -> "RunSet":
        """Return the set of those runs that are chosen."""
        return RunSet([run for run in self.runs if chosen(run)], self.variables, self.within)

    @cached_property
    def valid(self) -> "RunSet":
        """Return the runs that may support a verdict."""
        return self.where(lambda run: run.valid)

    def levels(self, factor: str) -> list[Any]:
        """Return the levels of a factor that occur, in the order of their first running."""
        return list(dict.fromkeys(run.factors[factor] for run in self.runs))

    def observed(self, **where: Level) -> Iterator[tuple[Run, Observation]]:
        """Yield each run and observation at some levels of factors and within-factors.

        An observation that has a within-factor which is not named is another quantity: what one
        instance of a pool read is no part of what a pass read. Twins are left out: they are a
        control, and no second value of a block.
        """
        within = {name: level for name, level in where.items() if name in self.within}
        factors = {name: level for name, level in where.items() if name not in self.within}
        for run in self.runs:
            if not run.twin and factors.items() <= run.factors.items():
                for row in run.observations:
                    if {k: v for k, v in row.items() if k in self.within} == within:
                        yield run, row

    def values(self, metric: str, **where: Level) -> dict[int, float]:
        """Return a metric at some levels by block, over the runs that have it.

        Raises
        ------
        InnolabError
            Where the levels leave several arms.
        """
        found: dict[int, float] = {}
        for run, row in self.observed(**where):
            if metric in row:
                if run.block in found:
                    raise InnolabError(f"{where} are several arms, not one.")
                found[run.block] = float(row[metric])
        return found

    def pairs(
        self, metric: str, of: Mapping[str, Level], to: Mapping[str, Level]
    ) -> tuple[list[float], list[float]]:
        """Return a metric of two arms, paired by block; blocks without either are left out."""
        top, bottom = self.values(metric, **of), self.values(metric, **to)
        blocks = sorted(top.keys() & bottom.keys())
        return [top[b] for b in blocks], [bottom[b] for b in blocks]

    def frame(self, *within: str) -> "pd.DataFrame":
        """Return a row an observation that has exactly these within-factors, without the twins.

        Columns: trial, block (from 1), valid, the factors, the within-factors, the metrics.
        """
        import pandas as pd

        return pd.DataFrame(
            {"trial": run.trial, "block": run.block + 1, "valid": run.valid, **run.factors, **row}
            for run in self.runs
            if not run.twin
            for row in run.observations
            if self.within & row.keys() == set(within)
        )

    def trials(self) -> "pd.DataFrame":
        """Return a row a run, failed ones too: trial, block (from 1), factors, twin and so on."""
        import pandas as pd

        return pd.DataFrame(
            {
                "trial": run.trial,
                "block": run.block + 1,
                **run.factors,
                "twin": run.twin,
                "status": run.status,
                "valid": run.valid,
            }
            for run in self.runs
        )

    def undeclared_differences(self, declared: Mapping[str, Collection[str]]) -> list[str]:
        """Return server variables that differ between arms of one build without being a factor's.

        Prevents the result of a rival sweep in which the flush method changed with the pool size
        while its text said that only the pool size did.

        Parameters
        ----------
        declared : for each factor, the server variables that may differ between its levels
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
                differing = [f for f in declared if one.factors[f] != other.factors[f]]
                found |= between(*digests) - {v for f in differing for v in declared[f]}
        return sorted(found)


def _variables(file: Path) -> dict[str, str]:
    found = parsing.json_file(file)
    if not isinstance(found, dict) or not all(isinstance(x, str) for x in found.values()):
        raise ValueError(f"{file.name} is no list of names and values")
    return dict(all_plain(found))


# These name a moment, a place or an identity, not a behaviour of the server.
_NOT_BEHAVIOUR = (
    "timestamp", "hostname", "server_uuid", "server_id", "pid_file", "socket", "datadir",
    "tmpdir", "slave_load_tmpdir", "replica_load_tmpdir", "innodb_tmpdir", "general_log_file",
    "slow_query_log_file", "log_error", "pseudo_thread_id", "rand_seed1", "rand_seed2",
    "last_insert_id", "insert_id", "identity", "gtid_executed", "gtid_purged", "basedir",
    "plugin_dir", "character_sets_dir", "lc_messages_dir", "build_id", "mysqlx_socket",
    "innodb_data_home_dir", "innodb_log_group_home_dir", "innodb_undo_directory",
    "server_uid", "aria_log_dir_path", "wsrep_data_home_dir",
    "relay_log_info_file", "relay_log_basename",
    "relay_log_index", "log_bin_basename", "log_bin_index", "secure_file_priv",
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
